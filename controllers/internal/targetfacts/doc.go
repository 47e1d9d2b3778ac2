// Package targetfacts carries what one controller knows of targets to another one that shows or needs it.
//
// Controllers do not import each other. Most of what one of them finds out is in the source, for all to read:
// ManagedResources say of themselves how they are. This package is for the rest, which is only in the memory of the
// controller of ManagedResources: corrections of the last hour, plans of dry runs, what it has just begun to write, and
// whether another manager is at work in a namespace.
//
// # How it works
//
// Each term of leadership has one Term, which is handed to all controllers. The one that knows publishes itself when it
// is made; the others ask when they reconcile a target. Nothing is stored, so nothing has to be forgotten when a target
// goes.
package targetfacts
