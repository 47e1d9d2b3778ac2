// Package failover measures how soon a standby writes after the leader ended, and judges that nothing is done twice.
//
// How it works: two replicas of the hub as it ships, each in a process of its own, keep simulated targets in order, in which
// objects are edited all the time. In each round all targets get a ManagedResource and lose an older one, and somewhere in the
// middle of that the leader is ended in one of three ways:
//
//	term  SIGTERM: it ends in order, and gives the Lease back
//	kill  SIGKILL: the Lease runs out
//	stop  SIGSTOP, and SIGCONT some time after its successor began to write: it wakes up with a Lease that it has no more
//
// The time until the first write of its successor is taken from the journals of the targets. Replicas are distinguished
// by their user agents, which the linker gives them. Then the round is left to finish, until there is a warm standby
// again.
//
// What must hold on any machine: no write of a process that was ended comes after the first one of its
// successor, nothing is created that was deleted by the hub and not wanted again, and nothing is deleted
// that a ManagedResource wants.
package failover
