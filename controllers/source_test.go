package controllers

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/references"
)

// Of a ManagedResource that is as large as the source allows, no more is kept than of a large legitimate one.
func TestForgedManagedResourceIsNotKeptWhole(t *testing.T) {
	g := NewWithT(t)
	mr := &resourcesv1alpha1.ManagedResource{}
	mr.Annotations = map[string]string{
		corev1.LastAppliedConfigAnnotation: "{}", "large": strings.Repeat("x", 200<<10), "small": "stays",
	}
	for i := range 40_000 {
		mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: fmt.Sprint(i)})
	}
	mr.Status.Conditions = make([]resourcesv1alpha1.Condition, 10_000)
	mr.Status.Resources = make([]resourcesv1alpha1.ObjectReference, 500_000)

	kept, err := trimManagedResources(clock.RealClock{})(mr)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kept).To(BeIdenticalTo(mr))
	g.Expect(mr.Annotations).To(Equal(map[string]string{"small": "stays"}))
	g.Expect(mr.Spec.SecretRefs).To(HaveLen(references.Max + 1))
	g.Expect(mr.Status.Conditions).To(HaveLen(keptConditions))
	g.Expect(mr.Status.Resources).To(HaveLen(keptEntries))
	g.Expect(cap(mr.Status.Resources)).To(BeNumerically("<", 2*keptEntries))
}
