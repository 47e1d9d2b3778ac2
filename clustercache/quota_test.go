package clustercache

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// A target has more objects than may be kept. This is reported, nothing is kept of the list, no object counts
// as deleted, and other targets are not affected. (What becomes of the watch, and when it is tried again, is
// tested in package watching.)
func TestTargetWithMoreObjectsThanMayBeKept(t *testing.T) {
	const most = 100
	options := patiently()
	options.Watch.MaxObjects = most
	h, a, key := connected(t, options)
	other := newAPIServer(t, newStore("uid-b"))
	fine := h.register("b", other.kubeconfig("x"))
	h.expectState(fine, StateConnected)
	for i := range most {
		other.store.put("configmaps", "default", fmt.Sprint("cm-", i), nil)
		a.store.put("configmaps", "default", fmt.Sprint("cm-", i), nil)
	}
	r := newRecorder()
	h.watch(key, Watcher{Name: "cm", Kind: configMapKind, MetadataOnly: true, Handler: r})
	h.Eventually(r.syncs).Should(Equal(1))
	h.Expect(h.status(key).Overfull).To(BeEmpty())

	for i := range 20 * most {
		a.store.put("configmaps", "default", fmt.Sprint("more-", i), nil)
	}
	h.Eventually(func() string { return h.status(key).Overfull }).Should(Equal("there are more than 100 objects; not all are known of: cm"))
	h.Expect(h.state(key)).To(Equal(StateConnected))
	h.Eventually(r.lastErr).Should(MatchError(ErrTooManyObjects))
	h.Expect(r.count(func(r *recorder) int { return len(r.deletes) })()).To(BeZero())
	h.Expect(r.names()).To(HaveLen(most), "what was known stays")

	healthy := newRecorder()
	h.watch(fine, Watcher{Name: "cm", Kind: configMapKind, MetadataOnly: true, Handler: healthy})
	h.Eventually(healthy.syncs).Should(Equal(1))
	h.Expect(healthy.names()).To(HaveLen(most))
	for _, in := range h.cache.Inspect() {
		h.Expect(in.Watches).To(HaveEach(HaveField("Objects", most)))
	}

	h.unwatch(key, "cm")
	h.Eventually(func() string { return h.status(key).Overfull }).Should(BeEmpty())
	h.watch(key, Watcher{Name: "cm", Kind: configMapKind, MetadataOnly: true})
	h.Eventually(func() string { return h.status(key).Overfull }).ShouldNot(BeEmpty())
	h.Expect(h.cache.Inspect()[0].Watches).To(HaveExactElements(WatchInspection{Name: "cm"}))
}

// A static target may have ten times as many.
func TestQuotaOfAStaticTarget(t *testing.T) {
	const most = 10
	a := newAPIServer(t, newStore("uid-source"))
	a.setTokens(map[string]string{"x": "hub"})
	key := ClusterKey{Name: "source"}
	h := start(t, Options{
		Static: map[ClusterKey]*rest.Config{key: {
			Host: a.server.URL, BearerToken: "x", TLSClientConfig: rest.TLSClientConfig{CAData: a.ca},
		}},
		Watch: WatchOptions{MaxObjects: most},
	})
	h.expectState(key, StateConnected)
	for i := range 10 * most {
		a.store.put("configmaps", "default", fmt.Sprint("cm-", i), nil)
	}
	r := newRecorder()
	h.watch(key, Watcher{Name: "cm", Kind: configMapKind, MetadataOnly: true, Handler: r})
	h.Eventually(r.syncs).Should(Equal(1))
	a.store.put("configmaps", "default", "one-more", nil)
	h.Eventually(func() string { return h.status(key).Overfull }).Should(Equal("there are more than 100 objects; not all are known of: cm"))
	h.Expect(h.cache.Inspect()[0].Status.Overfull).NotTo(BeEmpty(), "where /debug/targets has it from")
}

// A few very large objects are bounded, too, and so is what the targets of one namespace keep together.
func TestTargetWithObjectsThatAreTooLarge(t *testing.T) {
	h, a, key := connected(t, patiently())
	for i := range leastBytes>>20 + 2 {
		a.store.put("configmaps", "default", fmt.Sprint("cm-", i), map[string]any{"data": strings.Repeat("x", 1<<20)})
	}
	r := newRecorder()
	w := Watcher{Name: "cm", Kind: configMapKind, Handler: r}
	h.watch(key, w)
	h.Eventually(func() string { return h.status(key).Overfull }).Should(
		Equal("the objects take more than 24 MiB of memory; not all are known of: cm"))
	h.Eventually(r.lastErr).Should(MatchError(ErrTooManyObjects))
	h.Expect(h.state(key)).To(Equal(StateConnected))
}

func TestBytesThatMayBeKept(t *testing.T) {
	g := NewWithT(t)
	static, other := ClusterKey{Name: "source"}, ClusterKey{Namespace: "a", Name: "a"}
	for objects, want := range map[int][3]int64{
		10:      {24 << 20, 64 << 20, 240 << 20},
		50_000:  {25_600_000, 68_266_664, 256_000_000},
		100_000: {51_200_000, 136_533_328, 512_000_000},
	} {
		o := Options{Static: map[ClusterKey]*rest.Config{static: {}}, Watch: WatchOptions{MaxObjects: objects}}
		bytes := [3]int64{o.maxKept(other).Bytes, o.namespaceBytes(), o.maxKept(static).Bytes}
		g.Expect(bytes).To(Equal(want), "%d objects", objects)
		g.Expect([2]int{o.maxKept(other).Objects, o.maxKept(static).Objects}).To(Equal([2]int{objects, 10 * objects}))
	}
}

// The targets of one namespace have one pool, others have another one, and static ones have none.
func TestPoolsOfNamespaces(t *testing.T) {
	h, a, key := connected(t, patiently())
	other := h.register("b", a.kubeconfig("x"))
	h.expectState(other, StateConnected)
	pools := func() int {
		h.cache.mu.Lock()
		defer h.cache.mu.Unlock()
		return len(h.cache.pools)
	}
	h.Expect(key.Namespace).To(Equal(other.Namespace))
	h.Expect(pools()).To(Equal(1))
	h.unregister(key)
	h.unregister(other)
	h.Eventually(pools).Should(BeZero())
}
