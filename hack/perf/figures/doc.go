// Package figures is what benchmarks and trials have in common: quantiles, spreads over several runs, how busy the machine is,
// and reports, which are printed as a table and written as JSON.
//
// A figure that depends on the machine counts only beside a reference of the same run, so a Figure has room for one. Whether a
// goal is reached is said beside it. What must hold on any machine is a Figure that must, and a report with one that does not hold
// is a broken one; goals that another machine may reach are listed apart.
package figures
