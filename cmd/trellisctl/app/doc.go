// Package app puts trellisctl together: the tree of commands, the flags of kubectl, help and exit codes.
//
//	main -> app.Main -> cluster   add, list, describe, rotate, remove
//	                    pack      pack, unpack
//	                    inspect   status, tree
//	                    diff      diff
//	                    explain   why, events
//	                    operate   reconcile, suspend, resume
//	                         \-> target  a connection to a target, from its registration
//	                          \-> cli    what all of them share
//
// A command does its work through the API of the source cluster and that of the target, with the rights of whoever calls it. It
// never talks to the hub itself, so it works while there is none, and says so where that matters.
//
// The reference in docs/reference/trellisctl.md is generated from this tree (Reference), so that it cannot say anything else
// than --help.
package app
