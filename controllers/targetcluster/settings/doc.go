// Package settings has what TargetClusters and classes say of targets: limits of their connections, that a target is
// hibernated, and which controllers and webhooks it has. Every replica follows it: a standby keeps its connections warm
// and serves webhooks, and has to leave a hibernated target alone like the leader.
package settings
