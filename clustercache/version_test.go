package clustercache

import (
	"net/http"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// An inventory may name a version that the target does not serve any longer. The objects are still there.
func TestWatchOfAVersionThatIsNotServedGetsTheKind(t *testing.T) {
	for name, knownFirst := range map[string]bool{"that never was": false, "of a kind that is watched in another version, too": true} {
		t.Run(name, func(t *testing.T) {
			h, a, key := connected(t, Options{})
			a.store.addKind("example.com", "Widget", "widgets")
			a.store.put("widgets", "default", "one", nil)
			if knownFirst {
				served := newRecorder()
				h.watch(key, Watcher{Name: "served", Kind: widgetKind, Handler: served, MetadataOnly: true})
				h.Eventually(served.names).Should(ConsistOf("one"))
			}
			r := newRecorder()
			old := schema.GroupVersionKind{Group: widgetKind.Group, Version: "v1beta1", Kind: widgetKind.Kind}
			h.watch(key, Watcher{Name: "old", Kind: old, Handler: r, MetadataOnly: true})
			h.Eventually(r.names).Should(ConsistOf("one"))
			h.Expect(r.errors()).To(BeZero())
			_, found, synced := h.lookup(key, "old", types.NamespacedName{Namespace: "default", Name: "one"})
			h.Expect(found && synced).To(BeTrue())
			a.store.delete("widgets", "default", "one")
			h.Eventually(r.names).Should(BeEmpty())
		})
	}
}

// attemptsToList is how often a client asks before it counts a first list as failed.
const attemptsToList = 1

// A server that is busy for a moment has not said that the kind cannot be watched.
func TestBusyServerIsNoFailedWatch(t *testing.T) {
	for name, status := range map[string]int{"too many requests": http.StatusTooManyRequests, "not available": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			h, a, key := connected(t, Options{})
			a.store.put("configmaps", "default", "one", nil)
			busy := answer(status, "/configmaps")
			var refused atomic.Int32
			a.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if refused.Load() >= attemptsToList || !busy(w, r) {
					return false
				}
				refused.Add(1)
				return true
			})
			r := newRecorder()
			h.watch(key, Watcher{Name: "cm", Kind: configMapKind, Handler: r, MetadataOnly: true})
			h.Eventually(r.names).Should(ConsistOf("one"))
			h.Expect(refused.Load()).To(BeEquivalentTo(attemptsToList))
			h.Expect(r.errors()).To(BeZero())
		})
	}
}
