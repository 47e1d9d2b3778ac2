// Command trellisctl is what people do with a hub: register clusters, pack manifests, look into targets, find causes.
// Under the name kubectl-trellis it is a plug-in of kubectl.
//
// Here is only the process: signals and the exit code. Package app has the tree of commands and says how it is put
// together, and each package beside it has a group of commands. Trade-off: an interrupt cancels the context of the
// command, which may finish what it has begun; a second one ends the process at once.
package main
