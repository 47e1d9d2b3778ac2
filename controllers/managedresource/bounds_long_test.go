//go:build long

package managedresource_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// Forty ManagedResources of some hundred bytes that become 18 MB each, for ten targets that do not answer writes:
// their bundles stay within the budget of their namespace, runs that wait hold no worker, and another namespace is
// served meanwhile.
func TestBundlesOfSlowTargetsStayWithinTheirBudget(t *testing.T) {
	t.Parallel()
	p, other := unregistered(t, nil), registered(t)
	const targets, n = 10, 40
	for i := range targets {
		p.register(fmt.Sprint("target-", i), target.Kubeconfig())
	}
	release := slow.hold(t, p.ns)
	for i := range n {
		name := fmt.Sprint("large-", i)
		var text strings.Builder
		for k := range 5 { // more than a ConfigMap may hold, so that the API server keeps none of them in the end
			text.WriteString(testbed.ConfigMap(p.ns, fmt.Sprint(name, "-", k), strings.Repeat("x", 1_200_000)) + "\n---\n")
		}
		p.secret(name, "data.yaml.br", testbed.Brotli([]byte(text.String())))
		mr := testbed.ManagedResource(p.ns, name, name)
		mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: fmt.Sprint("target-", i%targets)}
		p.inSource(mr)
	}
	const inUse, limit, mostOfNamespace = "trellis_bundle_bytes_in_use", "trellis_bundle_bytes_in_use_limit", 96 << 20
	within := func() {
		p.Expect(p.figure(inUse, "runs")).To(BeNumerically("<=", mostOfNamespace))
		p.Expect(p.figure(inUse, "decoding")).To(BeNumerically("<=", p.figure(limit, "decoding")))
	}
	p.Eventually(func() []float64 {
		within()
		return []float64{p.figure("trellis_bundle_deferred_total", ""), p.figure(inUse, "runs")}
	}).WithTimeout(2*time.Minute).Should(HaveExactElements(BeNumerically(">", 0), BeNumerically(">", mostOfNamespace/2)),
		"more is asked for than there is room for")
	for range 5 {
		other.fence()
		within()
	}

	release()
	p.Eventually(func() (tried int) {
		within()
		for _, mr := range p.all() {
			c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, applied)
			if c != nil && c.Reason == resourcesv1alpha1.ReasonApplyFailed {
				tried++
			}
		}
		return tried
	}).WithTimeout(4*time.Minute).Should(BeNumerically(">=", n/2), "runs that were put off are tried again")
}

// Reading stops where the Secrets of one ManagedResource hold more than the hub accepts.
func TestTooManyBytesChangeNothing(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	names := []string{"content"}
	for i := range 36 {
		name := fmt.Sprint("large-", i)
		p.secret(name, manifests, []byte("# "+strings.Repeat("x", 1_000_000)))
		names = append(names, name)
	}
	p.refer("mr", names)
	mr := p.await("mr", has(applied, no, resourcesv1alpha1.ReasonContentTooLarge, "hold more than 32 MiB", "split"))
	p.Expect(mr.Status.Resources).To(ConsistOf(HaveField("Name", "one")))
	p.fence()
	p.awaitValue("one", "1")
	p.refer("mr", names[:2])
	p.awaitReady("mr")
}
