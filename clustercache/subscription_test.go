package clustercache

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func configMaps(name string, handler WatchHandler) Watcher {
	return Watcher{Name: name, Kind: configMapKind, MetadataOnly: true, Handler: handler}
}

func (h *hub) lists(a *apiServer) func() int {
	return func() int { return a.count("GET /api/v1/configmaps") }
}

func TestSubscriptionsShareAStream(t *testing.T) {
	h, a, key := connected(t, Options{})
	a.store.put("configmaps", "default", "one", nil)
	first, second := newRecorder(), newRecorder()
	h.watch(key, configMaps("first", first))
	h.Eventually(first.syncs).Should(Equal(1))
	h.Eventually(h.lists(a)).Should(Equal(1))

	late := h.watch(key, configMaps("second", second))
	h.Eventually(second.syncs).Should(Equal(1), "it gets the kept objects at once")
	h.Expect(second.names()).To(ConsistOf("one"))
	_, found, synced := late.Lookup(nameOf("one"))
	h.Expect(found && synced).To(BeTrue())

	a.store.put("configmaps", "default", "two", nil)
	for _, r := range []*recorder{first, second} {
		h.Eventually(r.names).Should(ConsistOf("one", "two"))
	}
	h.Expect(h.lists(a)()).To(Equal(1))
	h.Expect(a.store.watching("configmaps")).To(Equal(1))
	h.Expect(h.cache.Inspect()[0].Watches).To(HaveExactElements(WatchInspection{Name: "first", Synced: true, Objects: 2}))
	for _, r := range []*recorder{first, second} {
		h.Expect(r.faultsNow()).To(BeEmpty())
		h.Expect(r.syncs()).To(Equal(1))
	}
}

func TestSubscriptionIsEndedOnlyByItsOwner(t *testing.T) {
	h, a, key := connected(t, Options{})
	closes, stays := newRecorder(), newRecorder()
	opened := h.watch(key, configMaps("opens", closes))
	other := h.watch(key, configMaps("stays", stays))
	h.Eventually(stays.syncs).Should(Equal(1))

	opened.Close()
	opened.Close() // again is fine
	h.Expect(opened.Live()).To(BeFalse())
	h.Expect(other.Live()).To(BeTrue())
	a.store.put("configmaps", "default", "one", nil)
	h.Eventually(stays.names).Should(ConsistOf("one"))
	h.Expect(closes.names()).To(BeEmpty())
	_, found, synced := opened.Lookup(nameOf("one"))
	h.Expect(found || synced).To(BeFalse())
	kept := 0
	h.Expect(opened.Range(func(types.NamespacedName, any) bool { kept++; return true })).To(BeFalse())
	h.Expect(kept).To(BeZero())
	h.Expect(a.store.watching("configmaps")).To(Equal(1))

	other.Close()
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(BeZero(), "it ends with the last one")
	a.store.put("configmaps", "default", "two", nil)
	h.Consistently(stays.names).Should(ConsistOf("one"))

	again := newRecorder()
	h.watch(key, configMaps("again", again))
	h.Eventually(again.names).Should(ConsistOf("one", "two"))
	h.Expect(h.lists(a)()).To(Equal(2))
}

func TestOnlyEqualWatchersShareAStream(t *testing.T) {
	name := func(obj client.Object) any { return obj.GetName() }
	labelled := labels.SelectorFromSet(labels.Set{"a": "b"})
	for test, change := range map[string]struct {
		change func(*Watcher)
		shared bool
	}{
		"another name and handler":   {func(w *Watcher) { w.Name, w.Handler = "other", newRecorder() }, true},
		"whole objects":              {func(w *Watcher) { w.MetadataOnly = false }, false},
		"another namespace":          {func(w *Watcher) { w.Namespace = "default" }, false},
		"another selector":           {func(w *Watcher) { w.LabelSelector = labelled }, false},
		"another form":               {func(w *Watcher) { w.Form, w.Transform = "name", name }, false},
		"other fields":               {func(w *Watcher) { w.Fields = [][]string{{"spec"}} }, false},
		"a transform without a form": {func(w *Watcher) { w.Transform = name }, false},
	} {
		t.Run(test, func(t *testing.T) {
			h, _, key := connected(t, Options{})
			w := configMaps("first", nil)
			h.watch(key, w)
			change.change(&w)
			h.watch(key, w)
			streams := 2
			if change.shared {
				streams = 1
			}
			h.Expect(h.cache.Inspect()[0].Watches).To(HaveLen(streams))
			h.watch(key, w)
			if w.Transform != nil && w.Form == "" {
				streams++
			}
			h.Expect(h.cache.Inspect()[0].Watches).To(HaveLen(streams))
		})
	}
}

func TestLateSubscriptionGetsTheErrorOfItsWatch(t *testing.T) {
	h, a, key := connected(t, Options{})
	a.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Path == "/api/v1/configmaps" && answer(http.StatusForbidden, "")(w, r)
	})
	first, late := newRecorder(), newRecorder()
	h.watch(key, configMaps("first", first))
	h.Eventually(first.errors).Should(BeNumerically(">=", 1))
	h.watch(key, configMaps("late", late))
	h.Eventually(late.errors).Should(BeNumerically(">=", 1))
	a.setFault(nil)
	h.Eventually(late.syncs).Should(Equal(1))
}

// A handler that hangs delays the other handlers of its stream, but no caller that subscribes or unsubscribes.
func TestSubscribingDoesNotWaitForHandlers(t *testing.T) {
	h, a, key := connected(t, Options{})
	inside, release := make(chan struct{}), make(chan struct{})
	hanging := newRecorder()
	hanging.during = func() {
		close(inside)
		<-release
	}
	h.watch(key, configMaps("hanging", hanging))
	h.Eventually(hanging.syncs).Should(Equal(1))
	a.store.put("configmaps", "default", "one", nil)
	h.Eventually(inside).Should(BeClosed())

	r := newRecorder()
	late := h.watch(key, configMaps("late", r))
	_, _, synced := late.Lookup(nameOf("one"))
	h.Expect(synced).To(BeFalse(), "its handler knows of nothing yet")
	h.watch(key, configMaps("changes its mind", nil)).Close()
	close(release)
	h.Eventually(r.names).Should(ConsistOf("one"))
	h.Eventually(func() bool { _, _, synced := late.Lookup(nameOf("one")); return synced }).Should(BeTrue())
}

func TestSubscriptionEndsWithItsTarget(t *testing.T) {
	h, a, key := connected(t, Options{})
	a.store.put("configmaps", "default", "one", nil)
	r := newRecorder()
	s := h.watch(key, configMaps("cm", r))
	h.Eventually(r.syncs).Should(Equal(1))
	h.unregister(key)
	h.Eventually(s.Live).Should(BeFalse())
	_, found, synced := s.Lookup(nameOf("one"))
	h.Expect(found || synced).To(BeFalse())
	s.Close()

	h.Eventually(h.exists(key)).Should(BeFalse())
	h.register(key.Name, a.kubeconfig("token"))
	h.expectState(key, StateConnected)
	h.Consistently(s.Live, 100*time.Millisecond).Should(BeFalse(), "it is of the target that was")
	again := newRecorder()
	h.watch(key, configMaps("cm", again))
	h.Eventually(again.names).Should(ConsistOf("one"))
}

// A rotation repeats and misses nothing for any subscription of a shared stream.
func TestSubscriptionsGoOnThroughARotation(t *testing.T) {
	h := start(t, Options{})
	s := newStore("uid-a")
	old, next := newAPIServer(t, s), newAPIServer(t, s)
	key := h.register("a", old.kubeconfig("token"))
	h.expectState(key, StateConnected)
	s.put("configmaps", "default", "one", nil)
	first, second := newRecorder(), newRecorder()
	h.watch(key, configMaps("first", first))
	h.watch(key, configMaps("second", second))
	h.Eventually(second.syncs).Should(Equal(1))
	h.register("a", next.kubeconfig("token"))
	h.Eventually(func() int64 { return h.status(key).Connection }).Should(BeEquivalentTo(2))
	s.put("configmaps", "default", "two", nil)
	for _, r := range []*recorder{first, second} {
		h.Eventually(r.names).Should(ConsistOf("one", "two"))
		h.Expect(r.faultsNow()).To(BeEmpty())
		h.Expect(r.count(func(r *recorder) int { return r.updates[nameOf("one")] })()).To(Equal(1))
	}
}
