//go:build observability

package observability

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// newCluster registers a target that has an identity of its own, unlike all others. Controllers work for one
// registration of a cluster only (MC-4), and a control plane for each would be too much.
func newCluster(t *testing.T, name string) *target {
	t.Helper()
	to := prepareTarget(t, name)
	to.disguise(t)
	to.create(t, to.access(t, "first", long))
	to.awaitConnected(t)
	return to
}

// disguise has the way lead to an alias of the cluster.
func (to *target) disguise(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	alias, err := testbed.StartAlias(home.RESTConfig(), uuid.NewUUID())
	g.Expect(err).NotTo(HaveOccurred())
	to.alias = alias
	to.way.stop()
	to.way, err = startProxy(alias.Address())
	waysMu.Lock()
	aliases = append(aliases, alias)
	waysMu.Unlock()
	g.Expect(err).NotTo(HaveOccurred())
	keep(to.way)
}

// lead is a kubeconfig that leads through the way.
func (to *target) lead(kubeconfig []byte) []byte {
	if to.alias != nil {
		kubeconfig = to.alias.Through(kubeconfig)
	}
	return testbed.Rewrite(kubeconfig, func(config *testbed.KubeConfig) {
		for _, c := range config.Clusters {
			c.Server = "https://" + to.way.listener.Addr().String()
		}
	})
}
