//go:build long

package clustercache

import (
	"fmt"
	"net"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// What TestTargetWithMoreObjectsThanMayBeKept says, with a list of a hundred thousand objects: it is given up long
// before it is read, and another target continues.
func TestTargetWithAHundredThousandObjects(t *testing.T) {
	options := patiently()
	options.Watch.MaxObjects = 5000
	h, a, key := connected(t, options)
	other := newAPIServer(t, newStore("uid-b"))
	fine := h.register("b", other.kubeconfig("x"))
	h.expectState(fine, StateConnected)
	healthy := h.watchConfigMaps(fine)
	for i := range 100_000 {
		a.store.put("configmaps", "default", fmt.Sprint("cm-", i), nil)
	}
	r := h.declareConfigMaps(key)
	h.Eventually(func() string { return h.status(key).Overfull }).Should(
		Equal("there are more than 5000 objects; not all are known of: cm"))
	h.Expect(h.state(key)).To(Equal(StateConnected))
	h.Expect(r.names()).To(BeEmpty())
	h.Expect(r.syncs()).To(BeZero())

	other.store.put("configmaps", "default", "one", nil)
	h.Eventually(healthy.names).Should(ConsistOf("one"))
	h.Expect(healthy.errors()).To(BeZero())
}

// What TestProbesDoNotQueueBehindUnreachableTargets says, with a part of a fleet: more targets than there are seats.
func TestProbesBesideSixHundredUnreachableTargets(t *testing.T) {
	h := start(t, Options{
		Dial:  DialOptions{Parallel: 200, ConnectRate: 1000},
		Probe: ProbeOptions{Interval: 5 * time.Second, Timeout: 4 * time.Second},
	})
	a := newAPIServer(t, newStore("uid-a"))
	var probes intervals
	a.setFault(probes.fault)
	h.expectState(h.register("a", a.kubeconfig("token")), StateConnected)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections are not accepted, and not answered
	h.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = silent.Close() })
	content := kubeconfigOf("https://"+silent.Addr().String(), a.ca, "token")
	for i := range 600 {
		h.register(fmt.Sprint("silent-", i), content)
	}
	h.Eventually(h.cache.dials.Held).Should(Equal(int64(150)), "there are more of them than places for one namespace")
	before := probes.count()
	h.Eventually(func() int { return probes.count() - before }, 3*patience).Should(BeNumerically(">=", 4))
	h.Expect(probes.most()).To(BeNumerically("<", 2*h.cache.options.Probe.Interval))
}
