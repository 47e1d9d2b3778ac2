// Package cli is what all commands of trellisctl share: how they reach the source cluster, print, wait and fail.
//
//	Env       streams, kubeconfig flags and clock of a process; every command gets it
//	Source    a client of the source cluster, with the namespace that was asked for
//	Subject   the arguments "mr NAME" and "cluster NAME", with completion
//	Output    -o json|yaml|wide|name and tables
//	Style     colours, on terminals only
//	Progress  what a wait is waiting for, on stderr
//	ExitError an error with the exit code that scripts see
//
// Nothing here knows what any command does. Every request has a deadline (--request-timeout, or 30 seconds); a wait
// has one of its own, and goes on through moments in which the source does not answer.
//
// Trade-offs: waits look again twice a second instead of watching. They look at one object, for a minute or so, and a look needs
// the right to get that object and not the right to watch them all.
//
// What comes from clusters is printed with its control characters escaped: a status message must not move the cursor.
package cli
