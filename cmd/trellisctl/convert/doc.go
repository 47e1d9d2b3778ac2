// Package convert has the command "config convert": it converts the configuration of a Gardener resource manager into
// that of a hub, or into what a TargetCluster says of its controllers.
//
//	command.go    the command: flags, files, output
//	read.go       reads the resource manager's configuration strictly
//	grm.go        its types
//	convert.go    what becomes of it as a whole
//	controllers.go what becomes of its controllers
//	webhooks.go   what becomes of its webhooks
//	document      the YAML that is written, with comments
//
// # How it works
//
// A converter writes keys into a document, each with the key that it comes from, and notes: what became of a key that
// has no equivalent, where both have different defaults, and what has to be done besides. The result is then read as a
// hub reads it. What the hub refuses is an error about the key of the resource manager's file, with its line.
//
// # Trade-offs
//
// "The same effect" is that of one resource manager on its target. Where the same key would have another effect in a
// hub, because that serves many targets or follows watches, the hub's default is taken, with a note: workers,
// the sync period, alwaysUpdate, the limits of the connection to the source. A note names what to write for the literal
// value.
//
// Controllers that are off are left out of a class, since the rights of the hub follow from what a class mentions. For
// a TargetCluster every controller is written, so that the class does not matter.
package convert
