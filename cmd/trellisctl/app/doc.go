// Package app puts trellisctl together: the tree of commands, the flags of kubectl, help and exit codes.
//
//	main -> app.Main -> fleet     status without arguments, problems, top
//	                    get       get, wait
//	                    rollout   rollout status
//	                    check     check, version
//	                    access    kubeconfig, kubectl
//	                    cluster   add, list, describe, rotate, remove
//	                    pack      pack, unpack
//	                    inspect   status, tree
//	                    diff      diff
//	                    explain   why, events
//	                    operate   reconcile, suspend, resume
//	                    convert   config convert
//	                         \-> listing  lists of a fleet
//	                         \-> remote   a connection to a target, from its registration
//	                          \-> cli     what all of them share
//
// A command works through the APIs of the source cluster and the target, with the rights of the user. It never connects
// to the hub itself, so it works without a running hub, and reports that where it matters. Convert works with files
// only.
//
// The reference in docs/reference/trellisctl.md is generated from this tree (Reference), so that it agrees with --help.
package app
