package controlplane

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

// Context is what a mutator is given of a request besides the objects. It must not be kept.
type Context struct {
	// Target is the cluster that asks.
	Target clustercache.ClusterKey
	// Namespace is that of the object, which may have none yet in its metadata.
	Namespace string
	// DryRun says that nothing will be stored.
	DryRun bool
	// Reader reads from the cluster of the object; nil if the Definition has none. Calls have the deadline of the
	// request.
	Reader client.Reader
	// Shoot reads from the shoot; nil if the Definition has no function for it.
	Shoot client.Reader

	cluster *extensions.Cluster
}

// errNoReader is a programming error: the webhook was made without a reader.
var errNoReader = errors.New("the webhook was made without a reader")

// Cluster is what Gardener knows of the shoot of the namespace. It is read once a request, when it is first asked for.
// It must not be changed.
func (c *Context) Cluster(ctx context.Context) (*extensions.Cluster, error) {
	if c.cluster != nil {
		return c.cluster, nil
	}
	if c.Reader == nil {
		return nil, errNoReader
	}
	cluster, err := extensions.ReadCluster(ctx, c.Reader, c.Namespace)
	if err != nil {
		return nil, err
	}
	c.cluster = cluster
	return cluster, nil
}
