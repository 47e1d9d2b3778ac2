package status

import (
	"fmt"
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// largeStatus is that of a ManagedResource with so many objects.
func largeStatus(objects int) *resourcesv1alpha1.ManagedResourceStatus {
	s := &resourcesv1alpha1.ManagedResourceStatus{ObservedGeneration: 1, SecretsDataChecksum: ptr.To("0123")}
	for _, t := range []resourcesv1alpha1.ConditionType{resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionResourcesHealthy} {
		s.Conditions = append(s.Conditions, resourcesv1alpha1.Condition{Type: t, Status: resourcesv1alpha1.ConditionTrue, Reason: "R", Message: "m"})
	}
	for i := range objects {
		s.Resources = append(s.Resources, resourcesv1alpha1.ObjectReference{
			ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: fmt.Sprint(i), UID: "u"},
			Labels:          map[string]string{"a": "1", "b": "2"}, Annotations: map[string]string{"c": "3"},
		})
	}
	return s
}

func TestStatusesAreComparedAsAWhole(t *testing.T) {
	type status = resourcesv1alpha1.ManagedResourceStatus
	for name, change := range map[string]func(*status){
		"a condition":      func(s *status) { s.Conditions[1].Message = "x" },
		"a condition less": func(s *status) { s.Conditions = s.Conditions[:1] },
		"the generation":   func(s *status) { s.ObservedGeneration++ },
		"the checksum":     func(s *status) { s.SecretsDataChecksum = ptr.To("x") },
		"no checksum":      func(s *status) { s.SecretsDataChecksum = nil },
		"an object less":   func(s *status) { s.Resources = s.Resources[:2] },
		"the order":        func(s *status) { s.Resources[0], s.Resources[1] = s.Resources[1], s.Resources[0] },
		"a UID":            func(s *status) { s.Resources[2].UID = "x" },
		"a label":          func(s *status) { s.Resources[2].Labels["a"] = "x" },
		"an annotation":    func(s *status) { delete(s.Resources[2].Annotations, "c") },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a, b := largeStatus(3), largeStatus(3)
			g.Expect(equalStatus(a, b)).To(BeTrue())
			change(b)
			g.Expect(equalStatus(a, b)).To(BeFalse())
			g.Expect(equalStatus(b, a)).To(BeFalse())
		})
	}
	t.Run("nothing, written in another way", func(t *testing.T) {
		a, b := largeStatus(0), largeStatus(0)
		a.Resources = []resourcesv1alpha1.ObjectReference{}
		NewWithT(t).Expect(equalStatus(a, b)).To(BeTrue())
	})
	t.Run("no field is forgotten", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(reflect.TypeFor[resourcesv1alpha1.ObjectReference]().NumField()).To(Equal(3))
		g.Expect(reflect.TypeFor[corev1.ObjectReference]().Comparable()).To(BeTrue())
	})
}

func BenchmarkEqualStatus(b *testing.B) {
	x, y := largeStatus(15), largeStatus(15)
	b.ReportAllocs()
	for b.Loop() {
		equalStatus(x, y)
	}
}
