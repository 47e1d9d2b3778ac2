package store

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// written is a ManagedResource as it is when everything is applied.
func written() *resourcesv1alpha1.ManagedResource {
	return &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "b", UID: "first", Labels: map[string]string{"team": "x"},
			Annotations: map[string]string{"one": "1", "two": "2"}, Finalizers: []string{"x/first", "x/second"},
		},
		Spec: resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: "content"}}},
		Status: resourcesv1alpha1.ManagedResourceStatus{
			Conditions: resourcesv1alpha1.SetCondition(time.Unix(1e9, 0), nil,
				resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue, "Reason", "message"),
			ObservedGeneration: 3,
			Resources: []resourcesv1alpha1.ObjectReference{{
				ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "c", Name: "d"},
				Labels:          map[string]string{"label": "1"},
			}},
			SecretsDataChecksum: ptr.To("sum"),
		},
	}
}

// serve returns a store before a server that has a ManagedResource, and the ManagedResource as that has it.
func serve(t *testing.T, mr *resourcesv1alpha1.ManagedResource) (g *WithT, s *Store, server client.Client, now *resourcesv1alpha1.ManagedResource) {
	t.Helper()
	g = NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
	server = fake.NewClientBuilder().WithScheme(scheme).WithObjects(mr).WithStatusSubresource(mr).Build()
	now = &resourcesv1alpha1.ManagedResource{}
	g.Expect(server.Get(t.Context(), client.ObjectKeyFromObject(mr), now)).To(Succeed())
	return g, New(&informer{shows: now.DeepCopy()}, server, func(*resourcesv1alpha1.ManagedResource) {}), server, now
}

func TestPatchMakesTheServerHaveWhatTheHubHas(t *testing.T) {
	for name, tc := range map[string]struct {
		status bool
		change func(mr *resourcesv1alpha1.ManagedResource)
	}{
		"an annotation is added":   {false, func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations["three"] = "3" }},
		"an annotation is changed": {false, func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations["one"] = "11" }},
		"an annotation is emptied": {false, func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations["one"] = "" }},
		"an annotation is removed": {false, func(mr *resourcesv1alpha1.ManagedResource) { delete(mr.Annotations, "one") }},
		"all annotations go":       {false, func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations = nil }},
		"a finalizer is added":     {false, func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers = append(mr.Finalizers, "x/third") }},
		"a finalizer is removed":   {false, func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers = mr.Finalizers[1:] }},
		"all finalizers go":        {false, func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers = nil }},
		"marks in one step": {false, func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Annotations["two"], mr.Finalizers = "22", append(mr.Finalizers, "x/third")
		}},
		"a condition is changed": {true, func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Status.Conditions = resourcesv1alpha1.SetCondition(time.Unix(2e9, 0), mr.Status.Conditions,
				resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionFalse, "Other", "another message")
		}},
		"a UID is learned": {true, func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Resources[0].UID = "uid" }},
		"a label of an entry goes": {true, func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Status.Resources[0].Labels = nil
		}},
		"the status is emptied": {true, func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Status = resourcesv1alpha1.ManagedResourceStatus{}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g, s, server, mr := serve(t, written())
			base := mr.DeepCopy()
			tc.change(mr)
			g.Expect(s.Patch(t.Context(), base, mr, tc.status)).To(Succeed())

			has := &resourcesv1alpha1.ManagedResource{}
			g.Expect(server.Get(t.Context(), client.ObjectKeyFromObject(mr), has)).To(Succeed())
			g.Expect(has.ResourceVersion).NotTo(Equal(base.ResourceVersion))
			g.Expect(equality.Semantic.DeepEqual(has, mr)).To(BeTrue(), "the server has %+v, the hub %+v", has, mr)
			g.Expect(s.Get(t.Context(), client.ObjectKeyFromObject(mr))).To(HaveField("ResourceVersion", has.ResourceVersion), "while the informer is late")
		})
	}
}

func TestPatchOfNothingIsNotSent(t *testing.T) {
	g, s, server, mr := serve(t, written())
	other := mr.DeepCopy()
	other.Labels["team"] = "y"
	g.Expect(server.Update(t.Context(), other)).To(Succeed()) // so whatever is sent fails
	for _, status := range []bool{true, false} {
		g.Expect(s.Patch(t.Context(), mr.DeepCopy(), mr, status)).To(Succeed())
	}
}

func TestPatchFailsIfAnotherClientWroteMeanwhile(t *testing.T) {
	for name, status := range map[string]bool{"marks": false, "status": true} {
		t.Run(name, func(t *testing.T) {
			g, s, server, mr := serve(t, written())
			other := mr.DeepCopy()
			other.Labels["team"] = "y"
			g.Expect(server.Update(t.Context(), other)).To(Succeed())

			base := mr.DeepCopy()
			mr.Annotations["one"], mr.Status.ObservedGeneration = "11", 4
			g.Expect(s.Patch(t.Context(), base, mr, status)).To(MatchError(apierrors.IsConflict, "Conflict"))
			g.Expect(s.Get(t.Context(), client.ObjectKeyFromObject(mr))).To(SatisfyAll(
				HaveField("Labels", HaveKeyWithValue("team", "y")),
				HaveField("Annotations", HaveKeyWithValue("one", "1")),
				HaveField("Status.ObservedGeneration", BeEquivalentTo(3))), "the next attempt starts from what is there")
		})
	}
}

// A field that is forgotten would never be written, without any error.
func TestPatchOfTheStatusKnowsEveryField(t *testing.T) {
	g := NewWithT(t)
	full := written().Status
	var fields []string
	for i := range reflect.TypeFor[resourcesv1alpha1.ManagedResourceStatus]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[resourcesv1alpha1.ManagedResourceStatus]().Field(i).Tag.Get("json"), ",")
		fields = append(fields, name)
		g.Expect(reflect.ValueOf(full).Field(i).IsZero()).To(BeFalse(), "%s is not part of this test", name)
	}
	empty := resourcesv1alpha1.ManagedResourceStatus{}
	g.Expect(slices.Collect(maps.Keys(statusChanges(&empty, &full)))).To(ConsistOf(fields))
	g.Expect(statusChanges(&full, &empty)).To(SatisfyAll(HaveLen(len(fields)), HaveEach(BeNil())))
}
