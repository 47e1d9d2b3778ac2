// Package settings has what TargetClusters say of the connections to their targets: limits of their own, and that a
// target is hibernated. Every replica follows it: a standby keeps its connections warm, and has to leave a hibernated
// target alone like the leader.
package settings
