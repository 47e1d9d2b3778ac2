// Package version says which build of Trellis a program is.
//
// # How it works
//
// hack/stamp.sh prints flags for the linker that set the three variables of this package, from git and the chart's
// appVersion. The Makefile builds every command with them.
//
// # Trade-offs
//
// The date is that of the commit, not of the build, so that two builds of a commit are the same to the last byte. A program
// that was built in another way, as with "go run", has no stamp: it is "dev", and shows the commit only if Go itself noted it.
package version
