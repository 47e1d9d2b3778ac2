// Package journal records what simulated API servers were asked for and what was written to them, and judges it: was
// anything written twice, deleted wrongly, or written by two at a time, and how long did it take to arrive.
package journal
