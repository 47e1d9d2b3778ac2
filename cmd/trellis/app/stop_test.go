package app_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// expectNoGoroutines insists that nothing runs that did not run before. Idle connections to the source are closed
// first: client-go shares them in the process, and they are not the hub's.
func (e *env) expectNoGoroutines(before goleak.Option) {
	e.t.Helper()
	kubeconfig, err := source.ServiceAccountKubeconfig(e.ctx, testbed.HubNamespace, chart.ServiceAccount, time.Hour)
	e.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	e.Expect(err).NotTo(HaveOccurred())
	shared, err := rest.TransportFor(config)
	e.Expect(err).NotTo(HaveOccurred())
	e.Eventually(func() error {
		utilnet.CloseIdleConnectionsFor(shared) // again and again: one on which a call was given up is not idle yet
		return goleak.Find(before)
	}).Should(Succeed())
}

func TestStoppedHubLeavesNoGoroutine(t *testing.T) {
	e := newEnv(t)
	e.Expect(e.value()).To(BeEmpty()) // and the test has a connection of its own
	before := goleak.IgnoreCurrent()
	hub := e.startHub()
	e.expectWork()
	e.stop(hub)
	e.expectNoGoroutines(before)
}

func TestStoppedStandbyLeavesNoGoroutine(t *testing.T) {
	e := newEnv(t)
	began := time.Now()
	leader := e.startHub()
	e.expectWork()
	e.dialledSockets(began)
	before := goleak.IgnoreCurrent()
	e.stop(e.startHub())
	e.expectNoGoroutines(before)
	e.stop(leader)
}

func TestHubEndsInOrderAlthoughATargetHangs(t *testing.T) {
	e := newEnv(t)
	e.Expect(e.value()).To(BeEmpty()) // and the test has a connection of its own
	before := goleak.IgnoreCurrent()
	hub := e.startHub(func(c *configv1alpha1.HubConfiguration) {
		c.TargetClientConnection.Timeout.Duration = time.Minute // longer than the hub may take to end
	})
	e.expectWork()
	t.Cleanup(func() { e.Expect(target.Thaw()).To(Succeed()) })
	e.Expect(target.Freeze()).To(Succeed())
	// A worker has something to do there when the end comes.
	e.Expect(source.Client.Update(e.ctx, testbed.Content(
		e.name, "mr", "objects.yaml", testbed.ConfigMap(e.name, "one", "2")))).To(Succeed())
	e.Eventually(termGoroutines).Should(ContainElement(ContainSubstring("engine/apply.")))
	e.stop(hub)
	e.Expect(target.Thaw()).To(Succeed())
	e.expectNoGoroutines(before)
}

func TestHubEndsAlthoughTheSourceHangs(t *testing.T) {
	e := newEnv(t)
	before := goleak.IgnoreCurrent()
	hub := e.startHub(impatient)
	e.expectWork()
	t.Cleanup(func() { e.Expect(source.Thaw()).To(Succeed()) })
	e.Expect(source.Freeze()).To(Succeed())
	e.stop(hub)
	e.Expect(source.Thaw()).To(Succeed())
	e.deleteLease() // it could not be given back
	e.expectNoGoroutines(before)
}
