package assignment

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
)

// settlePeriod is how long a term waits for the first connection of registrations. After that, those without one count
// as unreachable. With a thousand targets the first connections take less than a minute.
const settlePeriod = 2 * time.Minute

// Access is whether what the ManagedResources of a namespace list counts for the objects of another namespace.
type Access int

const (
	// NoAccess is for namespaces of which the hub did not verify that they reach the cluster.
	NoAccess Access = iota
	// AccessUnknown is for namespaces that may turn out to reach it, in the beginning of a term.
	AccessUnknown
	// HasAccess is for namespaces that reach it.
	HasAccess
)

// AccessTo reports whether what the ManagedResources of a namespace list in the cluster with a UID counts for others
// that work there through a target. Nothing that is written on them decides that, and neither does a UID alone, for any
// server can claim any. A namespace has access to a cluster
//
//   - if the operator opened a class for it whose target is the same, or was seen to be that cluster,
//   - or if a registration of its own is the same target, or was seen to lead to that cluster at the same API server,
//     which accepted its credential and is identified by its address and its certificates.
//
// It answers from memory.
func (c *Assigner) AccessTo(
	ctx context.Context, namespace string, uid types.UID, through clustercache.ClusterKey,
) Access {
	access := NoAccess
	for _, class := range c.Classes {
		fixed := class.FixedTarget()
		st, ok := c.Clusters.GetStatus(fixed)
		if fixed == (clustercache.ClusterKey{}) || !ok || st.UID != "" && st.UID != uid && fixed != through {
			continue
		}
		switch selected, err := c.selects(ctx, class, namespace); {
		case err != nil:
			access = AccessUnknown
		case !selected:
		case st.UID == uid || fixed == through:
			return HasAccess
		case c.settling():
			access = AccessUnknown
		}
	}
	if through.Namespace != "" && through.Namespace == namespace {
		return HasAccess
	}
	at, ok := c.Clusters.GetStatus(through)
	if !ok || at.Server == "" {
		return access
	}
	for _, st := range c.Clusters.List(namespace) {
		switch {
		case st.Server != at.Server:
		case st.UID == uid:
			return HasAccess
		case mayConnect(st) && c.settling():
			access = AccessUnknown
		}
	}
	return access
}

// mayConnect reports whether a registration that was not connected yet has not been refused so far.
func mayConnect(st clustercache.Status) bool {
	return st.UID == "" && st.State != clustercache.StateRefused &&
		st.Reason != clustercache.ReasonUnauthorized && st.Reason != clustercache.ReasonForbidden
}

// settling reports whether registrations may still be connecting for the first time.
func (c *Assigner) settling() bool {
	if c.Began == nil {
		return false
	}
	began := c.Began()
	return began.IsZero() || c.Clock.Since(began) < settlePeriod
}
