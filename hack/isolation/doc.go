// Package isolation holds the tests that targets are kept apart: what the controllers do in one target follows from
// that target and from its home namespace, whatever happens in another one.
//
// # How it works
//
// Two targets and a source, all real control planes, and one hub with all controllers that work in targets. A program
// is a list of steps for one target: objects come, change and go in the target and in its home namespace. It is drawn
// from a seed. The programs of two targets are run alone and interleaved, in new namespaces each time, and the hub's
// calls that change something are written down on their way to each target. The calls to a target have to be the same
// set both times, and none may mention the home namespace of the other target.
//
// The two programs use the same names for objects that are not the same, so that whatever is kept by name and not by
// target is mistaken for something else: node-1 of one target has other addresses than node-1 of the other, and may
// have a Machine that the other one lacks.
//
// A step says when the hub has done what follows from it, and the next one of the same target waits for that; steps of
// the other target do not. What controllers do that poll a target is awaited after the last step.
// So what a program leads to does not depend on how quick the hub is. Calls are compared without what is different each
// time: identities, versions, times, tokens and the names of the namespaces.
//
// # Trade-offs
//
// Simulated API servers would be quicker to start, but they do not set the user of a certificate signing request, and
// do not review tokens. Two controllers would have nothing to do.
//
// Workloads are not spread again by any program: how often that is done follows from how quickly Nodes come and go.
//
// A call that is sent twice counts once: a conflict of two controllers about a Node is not what this is about. Events
// and reviews of tokens are not compared, since how many there are is a matter of time; where they go is.
package isolation
