// Package fleet has the commands about all clusters at once: status without arguments, problems and top.
//
//	heartbeat, TargetClusters, ManagedResources --read--> Fleet --> Overview   status
//	                                                            \-> Problems   problems
//	                                       TargetClusters --------> top
//
// Everything is from the source cluster, as the hub has reported it; no target is connected to. ManagedResources are
// read as package listing says, so that a fleet of a thousand clusters takes seconds.
//
// # Problems
//
// What has one cause is one problem. ManagedResources whose cluster cannot be used belong to the problem of that
// cluster. The others are grouped by the reason of Ready and by the message, in which names of pods, addresses and the
// like are left out, because these differ from cluster to cluster. What unblocks a problem is found by package
// diagnosis, for the first object of each.
//
// Trade-offs: messages are compared without the words that have digits in them. Two causes whose messages only differ
// in such words are one problem, and one cause with several wordings is several problems.
package fleet
