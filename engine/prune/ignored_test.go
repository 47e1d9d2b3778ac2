package prune_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/prune"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// An object that its manifest asks to ignore has no marks, so its UID distinguishes it from an object of another
// client. Only if the hub crashed before it recorded the UID, the client that created the object does.
func TestIgnoredObjectsAreIdentifiedByTheirUID(t *testing.T) {
	const ours, theirs = "trellis", "another-client"
	for name, c := range map[string]struct {
		manager string
		uid     string
		want    prune.Result
	}{
		"a stranger that another hub wrote to":               {theirs + " " + ours, "other", prune.Kept},
		"a stranger that another hub wrote to, UID unknown":  {theirs + " " + ours, "", prune.Kept},
		"one that another ManagedResource applied, released": {"apply " + ours, "other", prune.Kept},
		"listed with its UID":                                {ours, "same", prune.Gone},
		"there before, and listed with its UID":              {theirs, "same", prune.Gone},
		"created just before a crash":                        {ours, "", prune.Gone},
		"there before, and never listed with its UID":        {theirs, "", prune.Kept},
		"a stranger in place of the one that was":            {theirs, "other", prune.Kept},
		"created again just before a crash":                  {ours, "other", prune.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Namespace(t, nil, cluster), Name: "a"},
				Data: map[string]string{"key": "1"}}
			switch c.manager {
			case ours, theirs:
				g.Expect(cluster.Client.Create(t.Context(), cm, client.FieldOwner(c.manager))).To(Succeed())
			case "apply " + ours:
				manifest := corev1ac.ConfigMap(cm.Name, cm.Namespace).WithData(cm.Data)
				g.Expect(cluster.Client.Apply(t.Context(), manifest, client.FieldOwner(ours))).To(Succeed())
				g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cm), cm)).To(Succeed())
			default:
				g.Expect(cluster.Client.Create(t.Context(), cm, client.FieldOwner(theirs))).To(Succeed())
				time.Sleep(time.Until(cm.CreationTimestamp.Add(time.Second))) // times have whole seconds
				cm.Data["key"] = "2"
				g.Expect(cluster.Client.Update(t.Context(), cm, client.FieldOwner(ours))).To(Succeed())
			}
			ref := entry(cm, map[string]types.UID{"same": cm.UID, "other": "11111111-1111-1111-1111-111111111111"}[c.uid])
			ref.Annotations = map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
			out := prune.Objects(t.Context(), access, []resourcesv1alpha1.ObjectReference{ref}, policy)[0]
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.Result).To(Equal(c.want), out.Reason)
			g.Expect(exists(g, cm)).To(Equal(c.want == prune.Kept))
		})
	}
}
