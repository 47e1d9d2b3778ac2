package tracker_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
)

// Labels and annotations of others are drift where a ManagedResource wants none, and nowhere else. Owner references are
// always.
func TestForeignMetadata(t *testing.T) {
	label := func(obj *metav1.PartialObjectMetadata) { obj.Labels = map[string]string{"foreign": "1"} }
	annotation := func(obj *metav1.PartialObjectMetadata) { obj.Annotations = map[string]string{"foreign": "1"} }
	owner := func(obj *metav1.PartialObjectMetadata) {
		obj.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}
	}
	for name, test := range map[string]struct {
		exact tracker.Exact
		edit  func(*metav1.PartialObjectMetadata)
		drift bool
	}{
		"a label":                        {edit: label},
		"an annotation":                  {edit: annotation},
		"a label, labels exact":          {exact: tracker.Exact{Labels: true}, edit: label, drift: true},
		"an annotation, labels exact":    {exact: tracker.Exact{Labels: true}, edit: annotation},
		"an annotation, its kind exact":  {exact: tracker.Exact{Annotations: true}, edit: annotation, drift: true},
		"a label, annotations exact":     {exact: tracker.Exact{Annotations: true}, edit: label},
		"an owner":                       {edit: owner, drift: true},
		"an owner, with everything else": {exact: tracker.Exact{Labels: true, Annotations: true}, edit: owner, drift: true},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := settled(t)
			refs := []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a")}
			g.Expect(s.Track(t.Context(), mr1, cluster, refs, test.exact)).To(Succeed())
			s.Accept(mr1, key, accepted("10"))
			before, _ := s.AcceptedStates(mr1)
			fingerprint := tracker.Fingerprint(before)

			obj := configMap("11", "")
			test.edit(obj)
			s.clusters.Put(cluster, watch, obj)
			v := s.Judge(mr1)
			if !test.drift {
				g.Expect(s.causes()).To(BeEmpty())
				g.Expect(v.Drifted).To(BeEmpty())
				g.Expect(tracker.Fingerprint(v.Observed)).To(Equal(fingerprint), "a restart sees no change either")
				return
			}
			g.Expect(s.causes()).To(ConsistOf(tracker.CauseDrift))
			g.Expect(v.Drifted).To(ConsistOf(key))
			g.Expect(tracker.Fingerprint(v.Observed)).NotTo(Equal(fingerprint), "a restart sees the change, too")
		})
	}
}
