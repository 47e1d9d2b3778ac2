package managedresource_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// A user who moves an object to another Secret adds it there first, so it is wanted all the time. A hub that reads the
// one Secret before that and the other one after it finds the object in neither.
func TestObjectThatMovesBetweenSecretsAmidTheirReadingIsNotDeleted(t *testing.T) {
	t.Parallel()
	p := apart(t, nil)
	p.register("a", target.Kubeconfig())
	one, two := testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "two", "1")
	three := testbed.ConfigMap(p.ns, "three", "1")
	var armed atomic.Bool
	defer p.run(testbed.HubOptions{WrapSource: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			reads := r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/secrets/from")
			if reads && armed.CompareAndSwap(true, false) {
				p.content("to", two, one)
				p.content("from", three)
			}
			return next.RoundTrip(r)
		})
	}})()
	p.content("to", two)
	p.content("from", one)
	p.mr("mr", "to", "from")
	p.awaitReady("mr")
	before := read(p, p.configMap("one")).UID

	armed.Store(true)
	p.content("from", one, three) // has both read
	p.awaitValue("three", "1")
	p.await("mr", has(ready, yes, ""), HaveField("Status.Resources", HaveLen(3)))
	p.Expect(armed.Load()).To(BeFalse())
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(before))
}
