// Package intern keeps one copy of equal texts and maps: a thousand targets have nearly the same objects, so their
// inventories are the same names, kinds, labels and annotations a thousand times.
//
// A Table remembers texts and maps in two generations, and answers with the copy that it has. When the young generation
// is full or old, the old one is dropped and the young one replaces it. So a table is bounded, needs no one to release
// anything, and drops what belonged to targets that are gone. What was dropped too early costs a second copy.
//
// # Trade-offs
//
// Package unique of the standard library keeps a value only while a handle of it exists. A handle for each text would
// take twice the memory of a string header in every inventory entry.
package intern
