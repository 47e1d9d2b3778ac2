package dispatch

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
)

// Request is the key of a class queue: a ManagedResource and the target that the work is for. The queue is fair between
// targets. A request without a target is for work that needs none.
type Request struct {
	Target clustercache.ClusterKey
	types.NamespacedName
}

// Priorities inside the flow of a target.
const (
	PriorityUser  = 100
	PriorityDrift = 50
	PriorityRetry = 0
	// PriorityResync is that of runs that no user waits for: periodic ones, and those that only report that a target is
	// lost.
	PriorityResync = -100
)

// Tenant is the queue's tenant of a request: the namespace whose ManagedResource it is about.
func Tenant(r Request) string { return r.Namespace }

// Flow is the flow of a request in the queue: its target.
func Flow(r Request) string {
	if r.Target == (clustercache.ClusterKey{}) {
		return "namespace " + r.Namespace
	}
	return r.Target.String()
}

// TargetOf is the target of the requests of a flow, by the name that Flow gave it; empty if they need none.
func TargetOf(flow string) clustercache.ClusterKey {
	namespace, name, has := strings.Cut(flow, string(types.Separator))
	if !has {
		return clustercache.ClusterKey{}
	}
	return clustercache.ClusterKey{Namespace: namespace, Name: name}
}
