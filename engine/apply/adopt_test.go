package apply_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/apply"
)

// What another manager applied for the same ManagedResource changes its owner and nothing else, though it is described
// in other words; and whatever that one had beside the manifest goes.
func TestAdoptionChangesNothing(t *testing.T) {
	const theirs = "Kept by another manager."
	for name, c := range map[string]struct {
		extra       string // in the pod spec of the live object
		force       bool
		description string
		generation  int64
	}{
		"the same content":                    {description: theirs, generation: 1},
		"annotations are forced":              {force: true, description: apply.Description, generation: 2},
		"something that the manifest has not": {extra: ", priorityClassName: system-node-critical", description: theirs, generation: 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			text := func(extra string) string {
				return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: %s, name: a}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec: {containers: [{name: main, image: example.com/a:1}]%s}
`, "%s", extra)
			}
			ns := namespace(t)
			m := marks
			m.ForceAnnotations = c.force
			theirVersion, err := apply.Prepare(t.Context(),
				manifest(t, fmt.Sprintf(text(c.extra), ns)), nil, access.Mapper, nil, m)
			g.Expect(err).NotTo(HaveOccurred())
			live := theirVersion.Object.DeepCopy()
			annotations := live.GetAnnotations()
			annotations[resourcesv1alpha1.DescriptionAnnotation] = theirs
			live.SetAnnotations(annotations)
			g.Expect(cluster.Client.Create(t.Context(), live, client.FieldOwner("gardener-resource-manager"))).To(Succeed())
			before := live.GetUID()

			adopt := func(in *apply.Intent) { in.Adopt = true }
			out, _ := runMarked(t, m, fmt.Sprintf(text(""), ns), nil, adopt)
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.TakenBack).To(BeEmpty())
			g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(live), live)).To(Succeed())
			g.Expect(live.GetUID()).To(Equal(before))
			g.Expect(live.GetGeneration()).To(Equal(c.generation))
			g.Expect(live.GetAnnotations()).To(HaveKeyWithValue(resourcesv1alpha1.DescriptionAnnotation, c.description))
			g.Expect(live.Object).NotTo(HaveKeyWithValue("spec", HaveKeyWithValue("template", HaveKeyWithValue("spec", HaveKey("priorityClassName")))))

			// The next change brings the description along.
			out, _ = runMarked(t, m, fmt.Sprintf(text(", hostname: b"), ns), nil, func(in *apply.Intent) { in.UID = out.UID })
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.TakenBack).To(BeEmpty())
			g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(live), live)).To(Succeed())
			g.Expect(live.GetGeneration()).To(Equal(c.generation + 1))
			g.Expect(live.GetAnnotations()).To(HaveKeyWithValue(resourcesv1alpha1.DescriptionAnnotation, apply.Description))
		})
	}
}
