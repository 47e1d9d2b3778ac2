// Package cli has what all commands of trellisctl share: how they connect to the source cluster, print, wait and fail.
//
//	Env       streams, kubeconfig flags and clock of a process; every command gets it
//	Source    a client of the source cluster, with the namespace that was asked for
//	Subject   the arguments "mr NAME" and "cluster NAME", with completion
//	Selection the flags -A and -l, and commands that work on several subjects
//	HubFlags  where the heartbeat of the hub is, and its content
//	Output    -o json|yaml|wide|name and tables
//	Style     colours, on terminals only
//	Progress  reports what is waited for, on stderr
//	ExitError an error with the exit code that scripts see
//
// This package knows no command. Every request has a deadline (--request-timeout, or 30 seconds); a wait has a deadline
// of its own, and continues if the source cluster does not respond for a while.
//
// Trade-offs: waits poll twice a second instead of watching. They poll one object, for about a minute, and that needs
// only the right to get the object and not the right to watch all of them.
//
// Control characters in text from clusters are escaped when it is printed: a status message must not move the cursor.
package cli
