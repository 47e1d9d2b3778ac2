package secretindex_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/secretindex"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// TestOnlyTheGivenNamespacesAreWatched has a Secret of one name in three namespaces, two of which the index is for.
func TestOnlyTheGivenNamespacesAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		metadata := func(namespace, version string) *metav1.PartialObjectMetadata {
			obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret, UID: types.UID(namespace), ResourceVersion: version}}
			obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			return obj
		}
		watchers := map[string]*watch.FakeWatcher{}
		lists := map[string]int{}
		client := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
		client.PrependReactor("list", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			lists[action.GetNamespace()]++
			list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "10"}}
			list.Items = append(list.Items, runtime.RawExtension{Object: metadata(action.GetNamespace(), "5")})
			return true, list, nil
		})
		client.PrependWatchReactor("secrets", func(action clienttesting.Action) (bool, watch.Interface, error) {
			w := watch.NewFakeWithOptions(watch.FakeOptions{})
			watchers[action.GetNamespace()] = w
			return true, w, nil
		})
		informers := &informertest.FakeInformers{Scheme: testbed.Scheme()}
		mrs, err := informers.FakeInformerFor(t.Context(), &resourcesv1alpha1.ManagedResource{})
		g.Expect(err).NotTo(HaveOccurred())
		index := secretindex.New(client, informers, "a", "b")
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { _ = index.Start(ctx) })
		defer func() { cancel(); done.Wait() }()
		synctest.Wait()
		for _, namespace := range []string{"a", "b", "c"} {
			mrs.Add(testbed.ManagedResource(namespace, "mr", secret))
		}
		version := func(namespace string) string {
			v, _ := index.Get(types.NamespacedName{Namespace: namespace, Name: secret})
			return v.ResourceVersion
		}
		g.Expect(index.Synced()).To(BeTrue())
		g.Expect(lists).To(Equal(map[string]int{"a": 1, "b": 1}))
		watchers["a"].Modify(metadata("a", "11"))
		watchers["b"].Modify(metadata("b", "12"))
		synctest.Wait()
		g.Expect(version("a")).To(Equal("11"))
		g.Expect(version("b")).To(Equal("12"))

		// The watch of one namespace has to begin again with a list.
		watchers["b"].Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
		time.Sleep(time.Minute) // longer than the reflector waits; the clock is not a real one
		synctest.Wait()
		g.Expect(lists).To(Equal(map[string]int{"a": 1, "b": 2}))
		g.Expect(version("a")).To(Equal("11"), "a list of one namespace says nothing of another")
		_, known := index.Get(types.NamespacedName{Namespace: "c", Name: secret})
		g.Expect(known).To(BeFalse())
	})
}
