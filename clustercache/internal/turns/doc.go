// Package turns spreads what all targets want to do at once: lists after the start of the hub, or watches that are opened again
// after its network was away.
//
// So many at a time have a turn, and the others wait in line. A turn is short: who needs longer goes on without it, so that
// targets that hang cannot keep the places from others for longer than that. And it is theirs only once: a target whose turns
// were not enough, and have not ended yet, waits in another line, that of slow targets, with a fifth of the places to itself,
// and so it does until a turn of its was enough.
//
//	Take ---> line of targets --------> at most n at a time, each for a while ---> next
//	    `---> line of slow targets ---> at most n/5 at a time, each for a while ---> next
//
// One target holds a few places at once at most. Nothing here knows what is done in a turn.
package turns
