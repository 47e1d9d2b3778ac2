// Package content reads the Secrets of ManagedResources, within the memory that there is for bundles.
//
// The input of a run condenses all that decides what is applied: the spec, the versions of the Secrets and the settings
// of the hub. It is computed from versions in memory, so a run finds out without a request that nothing changed. Read
// returns the bundle with the input that it belongs to. Recall serves corrections of drift from what is kept of the
// bundle. Before objects are deleted or released that no manifest names any longer, the run asks Torn whether one of
// several Secrets has changed since it was read.
//
// # Trade-offs
//
// Secrets are read one by one from the source itself, not through an informer, whose memory would grow with all Secrets
// of the source.
package content
