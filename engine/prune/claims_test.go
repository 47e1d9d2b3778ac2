package prune_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

var byLabel = metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}

// byExpression selects the same claims without a single matchLabel.
var byExpression = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"db"}}}}

func claimSpec() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

// statefulSet creates the StatefulSet "db" with claim templates of the names.
func statefulSet(g *WithT, ns string, selector metav1.LabelSelector, templates ...string) resourcesv1alpha1.ObjectReference {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db", Annotations: map[string]string{resourcesv1alpha1.OriginAnnotation: origin}},
		Spec: appsv1.StatefulSetSpec{
			Selector: &selector,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db", "pod": "yes"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "db", Image: "example.org/db:1"}}},
			},
		},
	}
	for _, name := range templates {
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec()})
	}
	g.Expect(cluster.Client.Create(context.Background(), set)).To(Succeed())
	return reference("apps/v1", "StatefulSet", ns, "db", set.UID)
}

func persistentVolumeClaim(g *WithT, ns, name, app string, annotations map[string]string) {
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: annotations}, Spec: claimSpec()}
	if app != "" {
		pvc.Labels = map[string]string{"app": app}
	}
	g.Expect(cluster.Client.Create(context.Background(), pvc)).To(Succeed())
}

// untouched are the claims that were not deleted.
func untouched(g *WithT, ns string) []string {
	list := &corev1.PersistentVolumeClaimList{}
	g.Expect(cluster.Client.List(context.Background(), list, client.InNamespace(ns))).To(Succeed())
	var names []string
	for _, pvc := range list.Items {
		if pvc.DeletionTimestamp == nil {
			names = append(names, pvc.Name)
		}
	}
	return names
}

func TestX07_BUG05_MR31_ClaimsOfAStatefulSet(t *testing.T) {
	own := []string{"data-db-0", "data-db-11", "log-db-0"}
	for name, c := range map[string]struct {
		off       bool
		selector  metav1.LabelSelector
		templates []string
		stays     []string
	}{
		"a selector of labels":      {selector: byLabel, templates: []string{"data", "log"}},
		"a selector of expressions": {selector: byExpression, templates: []string{"data", "log"}},
		"an expression that half the namespace matches": {templates: []string{"data", "log"}, selector: metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "nothing", Operator: metav1.LabelSelectorOpDoesNotExist}}}},
		"no templates":        {selector: byLabel, stays: own},
		"only one template":   {selector: byLabel, templates: []string{"data"}, stays: []string{"log-db-0"}},
		"it is not asked for": {off: true, selector: byLabel, templates: []string{"data", "log"}, stays: own},
		"a selector that only the pods match": {selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db", "pod": "yes"}},
			templates: []string{"data"}, stays: own},
		"names alone say none": {selector: byLabel, templates: []string{"dat"}, stays: own},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := testbed.Namespace(t, nil, cluster)
			ref := statefulSet(g, ns, c.selector, c.templates...)
			foreign := []string{"data-db-00", "data-db-0-1", "data-other-0", "db-0", "mine"}
			for _, name := range append(foreign, own...) {
				persistentVolumeClaim(g, ns, name, "db", nil)
			}
			persistentVolumeClaim(g, ns, "data-db-1", "other", map[string]string{resourcesv1alpha1.OriginAnnotation: "garden/other"})
			persistentVolumeClaim(g, ns, "data-db-2", "db", map[string]string{resourcesv1alpha1.KeepObjectAnnotation: "true"})
			persistentVolumeClaim(g, ns, "data-db-3", "db", nil)
			foreign = append(foreign, "data-db-1", "data-db-2", "data-db-3")

			p := policy
			p.DeletePersistentVolumeClaims = !c.off
			p.ListedByOther = func(k inventory.Key) bool { return k.Kind == "PersistentVolumeClaim" && k.Name == "data-db-3" }
			out := prune.Objects(t.Context(), access, []resourcesv1alpha1.ObjectReference{ref}, p)[0]
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.Deleted).To(BeTrue())
			g.Expect(untouched(g, ns)).To(ConsistOf(append(foreign, c.stays...)))
		})
	}
}

// A StatefulSet that is to be kept at the last moment needs its claims.
func TestMR31_ClaimsStayWithAStatefulSetThatIsKeptInTheLastMoment(t *testing.T) {
	for name, patch := range map[string]string{
		"it is to be kept":         `{"metadata":{"annotations":{"` + resourcesv1alpha1.KeepObjectAnnotation + `":"true"}}}`,
		"another origin claims it": `{"metadata":{"annotations":{"` + resourcesv1alpha1.OriginAnnotation + `":"garden/other"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := testbed.Namespace(t, nil, cluster)
			ref := statefulSet(g, ns, byLabel, "data")
			persistentVolumeClaim(g, ns, "data-db-0", "db", nil)
			m := &meddler{Interface: access.Metadata}
			m.afterGet = sync.OnceFunc(func() {
				set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}}
				g.Expect(cluster.Client.Patch(t.Context(), set, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
			})
			p := policy
			p.DeletePersistentVolumeClaims = true
			out := prune.Objects(t.Context(), prune.Target{Metadata: m, Deletes: access.Deletes, Client: access.Client, Mapper: access.Mapper}, []resourcesv1alpha1.ObjectReference{ref}, p)[0]
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.Result).To(Equal(prune.Kept), out.Reason)
			g.Expect(untouched(g, ns)).To(ConsistOf("data-db-0"))
		})
	}
}

// A user deletes the StatefulSet, and its pods are deleted first; its claims are deleted nevertheless.
func TestW_ClaimsOfAStatefulSetThatIsGarbageCollected(t *testing.T) {
	g := NewWithT(t)
	ns := testbed.Namespace(t, nil, cluster)
	ref := statefulSet(g, ns, byLabel, "data")
	persistentVolumeClaim(g, ns, "data-db-0", "db", nil)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}}
	g.Expect(cluster.Client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())

	p := policy
	p.DeletePersistentVolumeClaims = true
	out := prune.Objects(t.Context(), access, []resourcesv1alpha1.ObjectReference{ref}, p)[0]
	g.Expect(out.Err).NotTo(HaveOccurred())
	g.Expect(out.Result).To(Equal(prune.Pending))
	g.Expect(untouched(g, ns)).To(BeEmpty())
}

// refusing fails calls about claims.
type refusing struct {
	metadata.Interface
	verb string
}

type refusingClaims struct {
	metadata.Getter
	verb string
}

type refusingNamespace struct {
	metadata.ResourceInterface
	verb string
}

var errRefused = errors.New("refused")

func (r refusing) Resource(gvr schema.GroupVersionResource) metadata.Getter {
	if gvr.Resource != "persistentvolumeclaims" {
		return r.Interface.Resource(gvr)
	}
	return refusingClaims{r.Interface.Resource(gvr), r.verb}
}

func (r refusingClaims) Namespace(ns string) metadata.ResourceInterface {
	return refusingNamespace{r.Getter.Namespace(ns), r.verb}
}

func (r refusingNamespace) List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	if r.verb == "list" {
		return nil, errRefused
	}
	return r.ResourceInterface.List(ctx, options)
}

func (r refusingNamespace) Delete(ctx context.Context, name string, options metav1.DeleteOptions, subresources ...string) error {
	if r.verb == "delete" {
		return errRefused
	}
	return r.ResourceInterface.Delete(ctx, name, options, subresources...)
}

func TestMR31_StatefulSetStaysWhileItsClaimsCannotBeDeleted(t *testing.T) {
	for _, verb := range []string{"list", "delete"} {
		t.Run(verb, func(t *testing.T) {
			g := NewWithT(t)
			ns := testbed.Namespace(t, nil, cluster)
			ref := statefulSet(g, ns, byLabel, "data")
			persistentVolumeClaim(g, ns, "data-db-0", "db", nil)
			p := policy
			p.DeletePersistentVolumeClaims = true
			target := access
			target.Metadata = refusing{access.Metadata, verb}
			out := prune.Objects(t.Context(), target, []resourcesv1alpha1.ObjectReference{ref}, p)[0]
			g.Expect(out.Result).To(Equal(prune.Pending))
			g.Expect(out.Err).To(MatchError(errRefused))
			g.Expect(out.Err).To(MatchError(ContainSubstring("PersistentVolumeClaim")))
			g.Expect(out.Deleted).To(BeFalse())

			out = prune.Objects(t.Context(), access, []resourcesv1alpha1.ObjectReference{ref}, p)[0]
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(untouched(g, ns)).To(BeEmpty())
		})
	}
}
