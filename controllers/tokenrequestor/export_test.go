package tokenrequestor

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
)

// Observe has a function called with the result of each run. It has to be called before Start.
func (c *Controller) Observe(
	f func(clustercache.ClusterKey, types.NamespacedName, string, reconcile.Result, error),
) {
	c.reconciler.observe = f
}

// Relevant is relevant.
func Relevant(obj client.Object, class *string) bool { return relevant(obj, class) }

// RenewIn is renewIn.
func RenewIn(now, expiry time.Time, jitter func(time.Duration, float64) time.Duration) time.Duration {
	return renewIn(now, expiry, jitter)
}

// WithToken is what becomes of the data of a Secret.
func WithToken(data map[string][]byte, token string, injectCA bool, ca []byte) (map[string][]byte, error) {
	c, err := readContent(data, KeyKubeconfig)
	if err != nil {
		return nil, err
	}
	return c.with(token, injectCA, ca)
}
