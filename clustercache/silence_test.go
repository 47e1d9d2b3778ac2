package clustercache

import (
	"context"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bookmark sends a bookmark to the watches of a resource.
func (s *store) bookmark(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	apiVersion, kind := kindOf(resource)
	s.notify(resource, "BOOKMARK", map[string]any{"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}})
}

// mute has changes be lost on their way to the watches that are open.
func (s *store) mute(muted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted = muted
}

func quietly(timeout time.Duration) Options {
	return Options{Probe: ProbeOptions{Interval: 50 * time.Millisecond}, Watch: WatchOptions{SilenceTimeout: timeout}}
}

func watchRequests(a *apiServer) int { return a.count("GET /api/v1/configmaps watch") }

func TestEventThatIsLostOnAnOpenWatchIsFound(t *testing.T) {
	h, a, key := connected(t, quietly(2*time.Second))
	r := h.watchConfigMaps(key)
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(Equal(1))
	a.store.mute(true)
	a.store.put("configmaps", "default", "lost", nil)
	a.store.mute(false)
	h.Expect(r.names()).To(BeEmpty())
	h.Eventually(r.names).Should(ConsistOf("lost"))
	h.Expect(r.faults).To(BeEmpty())
	h.Expect(h.status(key).Connection).To(BeEquivalentTo(1))
}

func TestWatchThatStaysSilentIsListedAnew(t *testing.T) {
	h, a, key := connected(t, quietly(1800*time.Millisecond))
	r := h.watchConfigMaps(key)
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(Equal(1))
	a.store.bookmark("configmaps")
	opened := watchRequests(a)
	h.Eventually(func() int { return watchRequests(a) }).Should(BeNumerically(">", opened), "first it is opened where it was")
	h.Expect(r.syncs()).To(Equal(1))
	h.Eventually(r.syncs).Should(BeNumerically(">=", 2), "where that does not help, all is listed")
	h.Expect(r.lastErr()).To(MatchError(ContainSubstring("silent")))
}

// Not every API server knows bookmarks. There, silence means nothing.
func TestSilenceWithoutBookmarksCostsNoLists(t *testing.T) {
	h, a, key := connected(t, quietly(1800*time.Millisecond))
	r := h.watchConfigMaps(key)
	opened := watchRequests(a)
	h.Eventually(func() int { return watchRequests(a) }).Should(BeNumerically(">=", opened+3))
	h.Expect(r.syncs()).To(Equal(1))
	h.Expect(r.errors()).To(BeZero())
}

func TestWatchThatSendsBookmarksIsLeftAlone(t *testing.T) {
	h, a, key := connected(t, quietly(4*time.Second))
	h.watchConfigMaps(key)
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(Equal(1))
	opened := watchRequests(a)
	h.Consistently(func() int {
		a.store.bookmark("configmaps")
		return watchRequests(a)
	}).WithTimeout(6 * time.Second).WithPolling(100 * time.Millisecond).Should(Equal(opened))
}

func TestRealWatchThatIsOpenedAgainMissesNothing(t *testing.T) {
	cp := realCluster(t)
	options := quietly(1800 * time.Millisecond)
	options.Probe.Timeout = patience
	h := start(t, options)
	c, namespace := realNamespace(t, cp)
	key := h.register("real", cp.Kubeconfig())
	h.expectState(key, StateConnected)
	r := newRecorder()
	h.watch(key, Watcher{Name: "cm", Kind: configMapKind, Namespace: namespace, MetadataOnly: true, Handler: r})
	h.Eventually(r.syncs).Should(Equal(1))
	var wanted []any
	for i := range 12 {
		name := "cm-" + strconv.Itoa(i)
		wanted = append(wanted, name)
		h.Expect(c.Create(context.Background(), configMap(namespace, name))).To(Succeed())
		if i%4 == 0 {
			time.Sleep(2 * time.Second) // long enough to be silent
		}
	}
	h.Eventually(r.names).Should(ContainElements(wanted...))
	h.Expect(r.syncs()).To(Equal(1), "it went on where it was")
	h.Expect(r.faults).To(BeEmpty())
	h.Expect(c.DeleteAllOf(context.Background(), configMap(namespace, ""), client.InNamespace(namespace))).To(Succeed())
}
