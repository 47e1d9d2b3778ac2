package prune_test

import (
	"context"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// meddler is a client of a target in which something happens after each look at an object, and that knows what was
// asked.
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

// Between the read of an object and its deletion, another writer may change it into one that must stay.
func TestObjectThatChangesBeforeItsDeletionIsLookedAtAnew(t *testing.T) {
	for name, c := range map[string]struct {
		patch string
		want  prune.Result
	}{
		"another origin claims it": {`{"metadata":{"annotations":{"` + resourcesv1alpha1.OriginAnnotation + `":"garden/other"}}}`, prune.Kept},
		"it is to be kept": {`{"metadata":{"annotations":{"` + resourcesv1alpha1.KeepObjectAnnotation +
			`":"true"}}}`, prune.Kept},
		"nothing that matters": {`{"data":{"other":"1"}}`, prune.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cm := configMap(g, testbed.Namespace(t, nil, cluster), "a", nil)
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
	cm := configMap(g, testbed.Namespace(t, nil, cluster), "a", nil)
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

// While the kind of an object is not known, the entry has a namespace. If the kind turns out to have none, the object
// with that name is another entry's, if there is one; else a Gardener resource manager applied it (BUG-14), and it is
// deleted like others.
func TestBUG14_EntryWithANamespaceOfAClusterScopedKind(t *testing.T) {
	for name, c := range map[string]struct {
		change func(class *schedulingv1.PriorityClass)
		policy func(p *prune.Policy, key inventory.Key)
		listed bool
		want   prune.Result
	}{
		"the only entry": {want: prune.Gone},
		"of another origin": {want: prune.Kept, change: func(c *schedulingv1.PriorityClass) {
			c.Annotations[resourcesv1alpha1.OriginAnnotation] = "garden/other"
		}},
		"a stranger":      {want: prune.Kept, change: func(c *schedulingv1.PriorityClass) { c.Annotations = nil }},
		"another entry's": {want: prune.Gone, listed: true},
		"wanted":          {want: prune.Gone, policy: func(p *prune.Policy, key inventory.Key) { p.Wanted = func(k inventory.Key) bool { return k == key } }},
		"another one lists it": {want: prune.Kept, policy: func(p *prune.Policy, key inventory.Key) {
			p.ListedByOther = func(k inventory.Key) bool { return k == key }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{
				Name:        testbed.Namespace(t, nil, cluster),
				Annotations: map[string]string{resourcesv1alpha1.OriginAnnotation: origin}}}
			if c.change != nil {
				c.change(class)
			}
			g.Expect(cluster.Client.Create(t.Context(), class)).To(Succeed())
			key := inventory.Key{Group: "scheduling.k8s.io", Kind: "PriorityClass", Name: class.Name}
			p := policy
			if c.policy != nil {
				c.policy(&p, key)
			}
			refs := []resourcesv1alpha1.ObjectReference{reference("scheduling.k8s.io/v1", "PriorityClass", "default", class.Name, "")}
			if c.listed {
				p.ListedByOther = func(k inventory.Key) bool { return k == key }
				refs = append(refs, reference("scheduling.k8s.io/v1", "PriorityClass", "", class.Name, class.UID))
			}
			for _, out := range prune.Objects(t.Context(), access, refs, p) {
				g.Expect(out.Err).NotTo(HaveOccurred())
				if out.Key.Namespace != "" {
					g.Expect(out.Result).To(Equal(c.want), out.Reason)
					g.Expect(out.Deleted).To(Equal(name == "the only entry"))
				}
			}
			err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(class), class)
			if name == "the only entry" {
				g.Expect(err).To(Satisfy(apierrors.IsNotFound))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
			if name == "another one lists it" {
				g.Expect(class.Annotations).NotTo(HaveKey(resourcesv1alpha1.OriginAnnotation), "or that one could not delete it")
			}
		})
	}
}
