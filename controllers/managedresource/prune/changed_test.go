package prune_test

import (
	"context"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/prune"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// meddler is a client of a target in which something happens after each look at an object, and that knows what was asked.
type meddler struct {
	metadata.Interface
	afterGet func()

	mu       sync.Mutex
	requests []string
}

type meddlerResource struct {
	metadata.Getter
	m *meddler
}

type meddlerObjects struct {
	metadata.ResourceInterface
	m *meddler
}

func (m *meddler) Resource(r schema.GroupVersionResource) metadata.Getter {
	return meddlerResource{m.Interface.Resource(r), m}
}

func (r meddlerResource) Namespace(ns string) metadata.ResourceInterface {
	return meddlerObjects{r.Getter.Namespace(ns), r.m}
}

func (m *meddler) asked(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, what)
}

func (o meddlerObjects) Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (*metav1.PartialObjectMetadata, error) {
	o.m.asked("get")
	live, err := o.ResourceInterface.Get(ctx, name, options, subresources...)
	if err == nil {
		o.m.afterGet()
	}
	return live, err
}

func (o meddlerObjects) Delete(ctx context.Context, name string, options metav1.DeleteOptions, subresources ...string) error {
	o.m.asked("delete")
	return o.ResourceInterface.Delete(ctx, name, options, subresources...)
}

// Between the look at an object and its deletion, somebody may make it one that must stay.
func TestObjectThatChangesBeforeItsDeletionIsLookedAtAnew(t *testing.T) {
	for name, c := range map[string]struct {
		patch string
		want  prune.Result
	}{
		"another origin claims it": {`{"metadata":{"annotations":{"` + resourcesv1alpha1.OriginAnnotation + `":"garden/other"}}}`, prune.Kept},
		"somebody wants it kept":   {`{"metadata":{"annotations":{"` + resourcesv1alpha1.KeepObjectAnnotation + `":"true"}}}`, prune.Kept},
		"nothing that matters":     {`{"data":{"other":"1"}}`, prune.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cm := configMap(g, hubtest.Namespace(t, nil, cluster), "a", nil)
			m := &meddler{Interface: access.Metadata}
			m.afterGet = sync.OnceFunc(func() {
				g.Expect(cluster.Client.Patch(t.Context(), cm.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(c.patch)))).To(Succeed())
			})
			out := prune.Objects(t.Context(), prune.Target{Metadata: m, Deletes: access.Deletes, Client: access.Client, Mapper: access.Mapper}, []resourcesv1alpha1.ObjectReference{entry(cm, cm.UID)}, policy)[0]
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.Result).To(Equal(c.want), out.Reason)
			g.Expect(exists(g, cm)).To(Equal(c.want == prune.Kept))
		})
	}
}

// An object that never holds still is left for the next time.
func TestObjectThatKeepsChangingIsPending(t *testing.T) {
	g := NewWithT(t)
	cm := configMap(g, hubtest.Namespace(t, nil, cluster), "a", nil)
	m := &meddler{Interface: access.Metadata}
	m.afterGet = func() {
		live := &corev1.ConfigMap{}
		g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cm), live)).To(Succeed())
		live.Data["key"] += "1"
		g.Expect(cluster.Client.Update(t.Context(), live)).To(Succeed())
	}
	out := prune.Objects(t.Context(), prune.Target{Metadata: m, Deletes: access.Deletes, Client: access.Client, Mapper: access.Mapper}, []resourcesv1alpha1.ObjectReference{entry(cm, cm.UID)}, policy)[0]
	g.Expect(out.Result).To(Equal(prune.Pending))
	g.Expect(out.Err).To(MatchError(ContainSubstring("deleting the object")))
	g.Expect(exists(g, cm)).To(BeTrue())
}

// While the kind of an object is not known, the entry has a namespace. If the kind turns out to have none, an object with
// that name is another entry's, even one that looks like ours.
func TestEntryWithANamespaceOfAClusterScopedKindIsGone(t *testing.T) {
	g := NewWithT(t)
	name := hubtest.Namespace(t, nil, cluster)
	ns := &corev1.Namespace{}
	g.Expect(cluster.Client.Get(t.Context(), types.NamespacedName{Name: name}, ns)).To(Succeed())
	ns.Annotations = map[string]string{resourcesv1alpha1.OriginAnnotation: origin}
	g.Expect(cluster.Client.Update(t.Context(), ns, client.FieldOwner("trellis"))).To(Succeed())
	ref := resourcesv1alpha1.ObjectReference{}
	ref.APIVersion, ref.Kind, ref.Namespace, ref.Name, ref.UID = "v1", "Namespace", "default", name, ns.UID

	m := &meddler{Interface: access.Metadata, afterGet: func() {}}
	out := prune.Objects(t.Context(), prune.Target{Metadata: m, Deletes: access.Deletes, Client: access.Client, Mapper: access.Mapper}, []resourcesv1alpha1.ObjectReference{ref}, policy)[0]
	g.Expect(out.Err).NotTo(HaveOccurred())
	g.Expect(out.Result).To(Equal(prune.Gone))
	g.Expect(out.Deleted).To(BeFalse())
	g.Expect(cluster.Client.Get(t.Context(), types.NamespacedName{Name: name}, ns)).To(Succeed())
	g.Expect(ns.DeletionTimestamp).To(BeNil())
}
