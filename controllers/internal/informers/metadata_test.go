package informers_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/trellis-hub/trellis/controllers/internal/informers"
)

func metadataOf(namespace, name, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, ResourceVersion: version, Finalizers: []string{"example.com/dropped"},
		},
	}
}

func TestMetadataIsFollowedForATerm(t *testing.T) {
	for name, namespaces := range map[string][]string{"all namespaces": nil, "two namespaces": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.SetDefaultEventuallyTimeout(2 * time.Minute)
			scheme := metadatafake.NewTestScheme()
			g.Expect(metav1.AddMetaToScheme(scheme)).To(Succeed())
			secrets := corev1.SchemeGroupVersion.WithResource("secrets")
			source := metadatafake.NewSimpleMetadataClient(scheme, metadataOf("a", "one", "1"), metadataOf("b", "two", "1"))
			m, err := NewMetadata(source, secrets, labels.Everything(), namespaces,
				func(o *metav1.PartialObjectMetadata) { o.Finalizers = nil }, logr.Discard())
			g.Expect(err).NotTo(HaveOccurred())
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { m.Run(ctx); close(ended) }()

			var work sync.WaitGroup
			var mu sync.Mutex
			var seen []string
			text := func(obj client.Object) string {
				if obj == nil {
					return "nothing"
				}
				return obj.GetNamespace() + "/" + obj.GetName()
			}
			all := func() []string {
				mu.Lock()
				defer mu.Unlock()
				return append([]string{}, seen...)
			}
			g.Expect(m.Follow(ctx, &work, func(before, after client.Object) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, text(before)+" -> "+text(after))
			})).To(Succeed())
			g.Expect(all()).To(ConsistOf("nothing -> a/one", "nothing -> b/two"))
			g.Expect(m.Lookup(types.NamespacedName{Namespace: "a", Name: "one"}).Finalizers).To(BeEmpty(), "it is trimmed")
			g.Expect(m.Lookup(types.NamespacedName{Namespace: "a", Name: "two"})).To(BeNil())
			g.Expect(m.Lookup(types.NamespacedName{Namespace: "c", Name: "one"})).To(BeNil())
			of, err := m.InNamespace(ctx, "b")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(of).To(HaveLen(1))

			g.Expect(source.Resource(secrets).Namespace("a").Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed())
			g.Eventually(all).Should(ContainElement("a/one -> nothing"))
			cancel()
			g.Eventually(ended).Should(BeClosed())
			work.Wait()
		})
	}
}
