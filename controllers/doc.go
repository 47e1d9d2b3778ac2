// Package controllers is the list of all controllers of the hub, and how each is made.
//
// # How it works
//
// The hub has one Environment: its configuration, informers and client of the source, connections to targets. For each
// term of leadership New makes the controllers that the configuration has switched on, and Start runs them until the
// term ends. Nothing is left of them then; the next term begins with new ones. Each is a line in the list, a function
// that turns the Environment into its options, and says which of its loops the heartbeat watches.
//
// A new controller is a folder beside the others, built with controllers/internal/multicluster, and a line in the list.
//
// # What controllers have in common
//
// A controller never imports another one. What two of them need is in controllers/internal: how controllers in targets
// are built (multicluster), how informers of the source are followed for a term (informers), what one of them knows of
// targets and others show (targetfacts).
package controllers
