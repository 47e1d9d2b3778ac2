package managedresource_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// slowWrites holds back the writes of the hub to namespaces of the target.
type slowWrites struct {
	mu    sync.Mutex
	until map[string]chan struct{}
}

var slow = &slowWrites{until: map[string]chan struct{}{}}

// hold holds back writes until the test ends or the function that it returns is called.
func (s *slowWrites) hold(t *testing.T, namespace string) (release func()) {
	until := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until[namespace] = until
	release = sync.OnceFunc(func() { close(until) })
	t.Cleanup(release)
	return release
}

func (s *slowWrites) of(path string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, until := range s.until {
		if strings.Contains(path, "/namespaces/"+namespace+"/") {
			return until
		}
	}
	return nil
}

func (s *slowWrites) wrap(next http.RoundTripper) http.RoundTripper { return slowTransport{s, next} }

type slowTransport struct {
	*slowWrites
	next http.RoundTripper
}

func (t slowTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t slowTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if until := t.of(r.URL.Path); until != nil && r.Method == http.MethodPatch {
		select {
		case <-until:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return t.next.RoundTrip(r)
}

// figure is the sum of a metric of the hub, of one value of its label if that is given.
func (p place) figure(name, label string) (sum float64) {
	p.t.Helper()
	families, err := hub.Registry.Gather()
	p.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func (p place) refer(name string, secrets []string) {
	p.t.Helper()
	p.editMR(name, func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Spec.SecretRefs = nil
		for _, s := range secrets {
			mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: s})
		}
	})
}

func repeated(name string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = name
	}
	return names
}

// A Secret to which a ManagedResource refers very many times is read as often as one to which it refers once.
func TestSecretThatIsReferredToManyTimesIsReadOnce(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.secret("large", manifests, []byte(testbed.ConfigMap(p.ns, "one", "1")+"\n---\n# "+strings.Repeat("x", 900<<10)))
	p.content("last", testbed.ConfigMap(p.ns, "one", "2"))
	p.mr("mr", append(append(repeated("large", 2000), "last"), repeated("large", 2000)...)...)
	p.awaitReady("mr")
	p.awaitValue("one", "1") // the value of the Secret that is read last
	p.fence()
	reads := p.requests(source, func(e controlplane.AuditEntry) bool {
		return e.Namespace == p.ns && e.Resource == "secrets" && e.Name == "large" && e.Verb == "get"
	})
	p.Expect(reads).NotTo(BeEmpty())
	p.Expect(len(reads)).To(BeNumerically("<=", 4), "once for each run")
}

// Nothing is read for a ManagedResource that refers to too many Secrets. It reports that, what it has applied stays,
// and others are not affected.
func TestTooManyReferencesChangeNothing(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	uid := read(p, p.configMap("one")).UID

	many := make([]string, 4000) // an API server under load does not take more in time
	for i := range many {
		many[i] = fmt.Sprint("secret-", i)
	}
	p.refer("mr", many)
	mr := p.await("mr", has(applied, no, resourcesv1alpha1.ReasonContentTooLarge, "more than 1000 Secrets", "split"),
		has(ready, no, resourcesv1alpha1.ReasonContentTooLarge))
	p.Expect(mr.Status.Resources).To(ConsistOf(HaveField("Name", "one")))
	p.fence()
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
	p.Expect(p.requests(source, func(e controlplane.AuditEntry) bool {
		return e.Namespace == p.ns && strings.HasPrefix(e.Name, "secret-")
	})).To(BeEmpty())

	p.content("content", testbed.ConfigMap(p.ns, "one", "2"))
	p.refer("mr", []string{"content"})
	p.awaitReady("mr")
	p.awaitValue("one", "2")
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
}

// Labels that are injected into each object count with the inventory, which is written before anything else.
func TestTooManyInjectedLabelsChangeNothing(t *testing.T) {
	t.Parallel()
	p := registered(t)
	documents := make([]string, 200)
	for i := range documents {
		documents[i] = testbed.ConfigMap(p.ns, fmt.Sprint("object-", i), "1")
	}
	p.content("content", documents...)
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.InjectLabels = map[string]string{}
	for i := range 1000 {
		mr.Spec.InjectLabels[fmt.Sprint("label-", i)] = "value"
	}
	p.inSource(mr)
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonInventoryTooLarge, "200 objects", "split"))
	p.fence()
	p.expectAbsent(p.configMap("object-0"))
}
