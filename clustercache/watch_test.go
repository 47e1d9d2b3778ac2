package clustercache

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/internal/watching"
)

var (
	configMapResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	widgetKind        = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	getOptions        = metav1.GetOptions{}
)

func connected(t *testing.T, options Options) (*hub, *apiServer, ClusterKey) {
	t.Helper()
	h := start(t, options)
	a := newAPIServer(t, newStore("uid-a"))
	key := h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateConnected)
	return h, a, key
}

func TestTransformRunsBeforeAnythingIsStored(t *testing.T) {
	h, a, key := connected(t, Options{})
	for i := range 3 {
		a.store.put("configmaps", "default", fmt.Sprint("cm-", i), map[string]any{"data": map[string]any{"k": "v"}})
	}
	var calls atomic.Int32
	r := newRecorder()
	h.watch(key, Watcher{Name: "cm", Kind: configMapKind, Handler: r, Transform: func(obj client.Object) any {
		calls.Add(1)
		if u, ok := obj.(*unstructured.Unstructured); ok {
			data, _, _ := unstructured.NestedString(u.Object, "data", "k")
			return data
		}
		return nil
	}})
	h.Eventually(r.syncs).Should(Equal(1))
	h.Expect(calls.Load()).To(BeEquivalentTo(3), "once for each object")
	value, found, synced := h.lookup(key, "cm", types.NamespacedName{Namespace: "default", Name: "cm-0"})
	h.Expect([]any{value, found, synced}).To(Equal([]any{"v", true, true}))

	a.store.put("configmaps", "default", "cm-0", map[string]any{"data": map[string]any{"k": "w"}})
	h.Eventually(func() any {
		v, _, _ := h.lookup(key, "cm", types.NamespacedName{Namespace: "default", Name: "cm-0"})
		return v
	}).Should(Equal("w"))
	h.Expect(calls.Load()).To(BeEquivalentTo(4))
	n := 0
	h.Expect(h.ranged(key, "cm", func(types.NamespacedName, any) bool { n++; return true })).To(BeTrue())
	h.Expect(n).To(Equal(3))
}

func TestObjectsAreKeptWithoutManagedFields(t *testing.T) {
	h, a, key := connected(t, Options{})
	a.store.put("configmaps", "default", "one", nil)
	h.watchConfigMaps(key)
	value, _, _ := h.lookup(key, "cm", types.NamespacedName{Namespace: "default", Name: "one"})
	h.Expect(value).To(HaveField("ManagedFields", BeEmpty()))
}

func TestSelectionIsDoneByTheServer(t *testing.T) {
	h, a, key := connected(t, Options{})
	var query atomic.Value
	a.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "configmaps") {
			query.Store(r.URL.String())
		}
		return false
	})
	h.watch(key, Watcher{
		Name: "cm", Kind: configMapKind, Namespace: "some", MetadataOnly: true,
		LabelSelector: labels.SelectorFromSet(labels.Set{"a": "b"}), FieldSelector: fields.OneTermEqualSelector("metadata.name", "x"),
	})
	h.Eventually(func() any { return query.Load() }).Should(And(
		ContainSubstring("/namespaces/some/configmaps"), ContainSubstring("labelSelector=a%3Db"), ContainSubstring("fieldSelector=metadata.name%3Dx")))
}

func TestWatchOfAnUnknownTarget(t *testing.T) {
	h := start(t, Options{})
	_, err := h.cache.Watch(context.Background(), ClusterKey{Namespace: "a", Name: "b"}, configMaps("cm", nil))
	h.Expect(err).To(MatchError(ErrClusterUnknown))
}

func TestKindThatAppearsLater(t *testing.T) {
	h, a, key := connected(t, Options{})
	r := newRecorder()
	h.watch(key, Watcher{Name: "w", Kind: widgetKind, Handler: r, MetadataOnly: true})
	h.Eventually(r.errors).Should(BeNumerically(">", 0))
	h.Expect(meta.IsNoMatchError(r.lastErr())).To(BeTrue())

	a.store.addKind("example.com", "Widget", "widgets")
	a.store.put("widgets", "default", "one", nil)
	h.Eventually(r.names).Should(ConsistOf("one"))
	_, _, synced := h.lookup(key, "w", types.NamespacedName{})
	h.Expect(synced).To(BeTrue())
}

func TestForbiddenWatchIsReportedAndHeals(t *testing.T) {
	h, a, key := connected(t, Options{})
	a.setFault(answer(http.StatusForbidden, "/configmaps"))
	r := newRecorder()
	h.watch(key, Watcher{Name: "cm", Kind: configMapKind, Handler: r, MetadataOnly: true})
	h.Eventually(r.errors).Should(BeNumerically(">", 0))
	h.Expect(apierrors.IsForbidden(r.lastErr())).To(BeTrue())
	h.Expect(h.state(key)).To(Equal(StateConnected), "one kind is no reason to give up a target")
	a.setFault(nil)
	h.Eventually(r.syncs).Should(Equal(1))
}

func TestWatchThatBreaksIsNotReliedUpon(t *testing.T) {
	h, a, key := connected(t, Options{})
	a.store.put("configmaps", "default", "one", nil)
	a.store.put("configmaps", "default", "two", nil)
	r := h.watchConfigMaps(key)
	a.setFault(answer(http.StatusForbidden, "/configmaps"))
	a.cut()
	synced := func() bool { _, _, synced := h.lookup(key, "cm", types.NamespacedName{}); return synced }
	h.Eventually(synced).Should(BeFalse())
	a.store.delete("configmaps", "default", "two")
	h.Expect(r.names()).To(ConsistOf("one", "two"), "what was known is kept")
	a.setFault(nil)
	h.Eventually(synced).Should(BeTrue())
	h.Eventually(r.names).Should(ConsistOf("one"), "deletions in between are found")
	h.Expect(r.faults).To(BeEmpty())
}

func TestOverloadedTarget(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			h, a, key := connected(t, Options{})
			a.setFault(answer(code, "/configmaps"))
			r := newRecorder()
			h.watch(key, Watcher{Name: "cm", Kind: configMapKind, Handler: r, MetadataOnly: true})
			h.Eventually(func() int { return a.count("GET /api/v1/configmaps") }).Should(BeNumerically(">", 0))
			h.Consistently(func() State { return h.state(key) }).Should(Equal(StateConnected))
			h.Expect(a.count("GET /api/v1/configmaps")).To(BeNumerically("<", 20), "it is not hammered")
			a.setFault(nil)
			h.Eventually(r.syncs).Should(Equal(1))
		})
	}
}

func TestWatchThatHangsConcernsNoOther(t *testing.T) {
	h, a, key := connected(t, Options{Watch: WatchOptions{SyncTimeout: 300 * time.Millisecond}})
	a.setFault(a.hangWatches)
	hanging, fine := newRecorder(), newRecorder()
	h.watch(key, Watcher{Name: "cm", Kind: configMapKind, Handler: hanging, MetadataOnly: true})
	h.watch(key, Watcher{Name: "s", Kind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Handler: fine, MetadataOnly: true})
	h.Eventually(fine.syncs).Should(Equal(1))
	h.Eventually(hanging.lastErr).Should(MatchError(watching.ErrStalled))
	h.Expect(h.state(key)).To(Equal(StateConnected))
	a.setFault(nil)
	h.Eventually(hanging.syncs).Should(Equal(1))
}

func TestHandlerMayUseTheCache(t *testing.T) {
	h, a, key := connected(t, Options{})
	r := newRecorder()
	r.during = func() {
		_, _, _ = h.lookup(key, "cm", types.NamespacedName{})
		h.unwatch(key, "other")
		h.watch(key, Watcher{Name: "other", Kind: configMapKind, MetadataOnly: true}) // the same stream
	}
	h.watch(key, Watcher{Name: "cm", Kind: configMapKind, Handler: r, MetadataOnly: true})
	h.Eventually(r.syncs).Should(Equal(1))
	a.store.put("configmaps", "default", "one", nil)
	h.Eventually(r.names).Should(ConsistOf("one"))
}

func TestReaderAnswersFromWatches(t *testing.T) {
	h, a, key := connected(t, Options{})
	ctx := context.Background()
	a.store.put("configmaps", "default", "one", map[string]any{"data": map[string]any{"k": "v"}})
	reader, err := h.cache.GetReader(ctx, key)
	h.Expect(err).NotTo(HaveOccurred())
	one := client.ObjectKey{Namespace: "default", Name: "one"}
	h.Expect(reader.Get(ctx, one, &corev1.ConfigMap{})).To(MatchError(ErrNotCached))
	h.Expect(reader.List(ctx, &corev1.ConfigMapList{})).To(MatchError(ErrNotCached))

	r := newRecorder()
	h.watch(key, Watcher{Name: "full", Kind: configMapKind, Handler: r})
	h.Eventually(r.syncs).Should(Equal(1))
	calls := a.count("GET /api/v1/configmaps")
	cached, err := h.cache.GetClient(ctx, key)
	h.Expect(err).NotTo(HaveOccurred())
	for _, rd := range []client.Reader{reader, cached} {
		cm := &corev1.ConfigMap{}
		h.Expect(rd.Get(ctx, one, cm)).To(Succeed())
		h.Expect(cm.Data).To(HaveKeyWithValue("k", "v"))
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(configMapKind)
		h.Expect(rd.Get(ctx, one, u)).To(Succeed())
		h.Expect(apierrors.IsNotFound(rd.Get(ctx, client.ObjectKey{Namespace: "default", Name: "two"}, cm))).To(BeTrue())
		list := &corev1.ConfigMapList{}
		h.Expect(rd.List(ctx, list, client.InNamespace("default"))).To(Succeed())
		h.Expect(list.Items).To(HaveLen(1))
		h.Expect(rd.List(ctx, list, client.InNamespace("other"))).To(Succeed())
		h.Expect(list.Items).To(BeEmpty())
		h.Expect(rd.List(ctx, list, client.MatchingLabels{"a": "b"})).To(Succeed())
		h.Expect(list.Items).To(BeEmpty())
	}
	h.Expect(a.count("GET /api/v1/configmaps")).To(Equal(calls))

	// Metadata would need another watch, which was not declared: the reader returns an error, and the client asks the
	// target.
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(configMapKind)
	h.Expect(reader.Get(ctx, one, m)).To(MatchError(ErrNotCached))
	h.Expect(cached.Get(ctx, one, m)).To(Succeed())
	h.watchConfigMaps(key)
	h.Expect(reader.Get(ctx, one, m)).To(Succeed())
	h.Expect(m.GroupVersionKind()).To(Equal(configMapKind))
	metas := &metav1.PartialObjectMetadataList{}
	metas.SetGroupVersionKind(configMapKind.GroupVersion().WithKind("ConfigMapList"))
	h.Expect(reader.List(ctx, metas)).To(Succeed())
	h.Expect(metas.Items).To(HaveLen(1))
}

func TestReaderIgnoresSelectiveAndTrimmedWatches(t *testing.T) {
	h, a, key := connected(t, Options{})
	ctx := context.Background()
	a.store.put("configmaps", "default", "one", nil)
	selected, trimmed := newRecorder(), newRecorder()
	h.watch(key, Watcher{Name: "selected", Kind: configMapKind, Handler: selected, LabelSelector: labels.SelectorFromSet(labels.Set{"a": "b"})})
	h.Eventually(selected.syncs).Should(Equal(1))
	reader, err := h.cache.GetReader(ctx, key)
	h.Expect(err).NotTo(HaveOccurred())
	one := client.ObjectKey{Namespace: "default", Name: "one"}
	h.Expect(reader.Get(ctx, one, &corev1.ConfigMap{})).To(MatchError(ErrNotCached))
	h.watch(key, Watcher{Name: "trimmed", Kind: configMapKind, Handler: trimmed, Transform: func(client.Object) any { return 1 }})
	h.Eventually(trimmed.syncs).Should(Equal(1))
	h.Expect(reader.Get(ctx, one, &corev1.ConfigMap{})).To(MatchError(ErrNotCached))
	h.Expect(reader.List(ctx, &corev1.ConfigMapList{})).To(MatchError(ErrNotCached))
}
