// Command fleetsim runs a fleet of simulated API servers and operates it: "fleetsim serve" is the fleet, the other
// subcommands talk to it through its control API (package control). docs/how-to/fleetsim.md shows what one does with it.
//
// What is asked for goes to stdout, everything else to stderr. The exit code is 0 if all went well, 1 if something failed, and
// 2 if the command line is wrong.
package main
