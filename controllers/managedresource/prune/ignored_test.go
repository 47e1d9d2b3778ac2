package prune_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/prune"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// An object that its manifest asks to ignore bears no marks, so its UID is what tells it from a stranger. Only if the hub died
// before it noted one, who created the object does.
func TestIgnoredObjectsAreToldByTheirUID(t *testing.T) {
	const ours, theirs = "trellis", "somebody"
	for name, c := range map[string]struct {
		manager string
		uid     string
		want    prune.Result
	}{
		"listed with its UID":                         {ours, "same", prune.Gone},
		"there before, and listed with its UID":       {theirs, "same", prune.Gone},
		"created just before a crash":                 {ours, "", prune.Gone},
		"there before, and never listed with its UID": {theirs, "", prune.Kept},
		"a stranger in place of the one that was":     {theirs, "other", prune.Kept},
		"created again just before a crash":           {ours, "other", prune.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: hubtest.Namespace(t, nil, cluster), Name: "a"}, Data: map[string]string{"key": "1"}}
			g.Expect(cluster.Client.Create(t.Context(), cm, client.FieldOwner(c.manager))).To(Succeed())
			ref := entry(cm, map[string]types.UID{"same": cm.UID, "other": "11111111-1111-1111-1111-111111111111"}[c.uid])
			ref.Annotations = map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
			out := prune.Objects(t.Context(), access, []resourcesv1alpha1.ObjectReference{ref}, policy)[0]
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.Result).To(Equal(c.want), out.Reason)
			g.Expect(exists(g, cm)).To(Equal(c.want == prune.Kept))
		})
	}
}
