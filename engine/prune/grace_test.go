package prune_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/prune"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const hold = "example.com/hold"

// after is the metadata of an object that is stuck and asks to be helped after a while.
func after(duration string) func(*corev1.ConfigMap) {
	return func(cm *corev1.ConfigMap) {
		cm.Finalizers = []string{hold}
		cm.Annotations[resourcesv1alpha1.FinalizeDeletionAfterAnnotation] = duration
	}
}

func TestMR18_FinalizersAreTakenOffWhenTheGraceIsOver(t *testing.T) {
	g := NewWithT(t)
	cm := configMap(g, testbed.Namespace(t, nil, cluster), "a", after("1h"))
	refs := []resourcesv1alpha1.ObjectReference{entry(cm, cm.UID)}
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p := policy
	p.Clock = clock

	out := prune.Objects(t.Context(), access, refs, p)
	g.Expect(out[0].Result).To(Equal(prune.Pending))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cm), cm)).To(Succeed())
	due := cm.DeletionTimestamp.Add(time.Hour)
	g.Expect(prune.Due(out)).To(BeTemporally("==", due), "the first answer says when to come back")

	clock.SetTime(due.Add(-time.Second))
	out = prune.Objects(t.Context(), access, refs, p)
	g.Expect(out[0].Result).To(Equal(prune.Pending))
	g.Expect(prune.Due(out)).To(BeTemporally("==", due))
	g.Expect(exists(g, cm)).To(BeTrue())

	clock.SetTime(due)
	out = prune.Objects(t.Context(), access, refs, p)
	g.Expect(out[0].Err).NotTo(HaveOccurred())
	g.Expect(out[0].Result).To(Equal(prune.Gone))
	g.Expect(out[0].Finalized).To(ConsistOf(hold))
	g.Expect(prune.Due(out)).To(BeZero())
	g.Expect(exists(g, cm)).To(BeFalse())
}

func TestMR18_GracesThatTakeNothingOff(t *testing.T) {
	for value, says := range map[string]string{
		"soon": `is no duration: "soon"`,
		"3600": `is no duration: "3600"`,
		"-1h":  `must not be negative: "-1h"`,
		"":     `is no duration: ""`,
		"0s":   "",
		"200h": "",
	} {
		t.Run(value, func(t *testing.T) {
			g := NewWithT(t)
			cm := configMap(g, testbed.Namespace(t, nil, cluster), "a", after(value))
			p := policy
			p.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(100 * time.Hour))
			for range 2 {
				out := prune.Objects(t.Context(), access, []resourcesv1alpha1.ObjectReference{entry(cm, cm.UID)}, p)[0]
				g.Expect(out.Result).To(Equal(prune.Pending))
				g.Expect(out.Reason).To(ContainSubstring(hold))
				if says == "" {
					g.Expect(out.Err).NotTo(HaveOccurred())
				} else {
					g.Expect(out.Err).To(MatchError(ContainSubstring(says)))
				}
			}
			g.Expect(exists(g, cm)).To(BeTrue())
		})
	}
}

// Finalizers are removed only from objects that we may delete.
func TestMR18_FinalizersOfOthersStay(t *testing.T) {
	for name, change := range map[string]string{
		"another origin": `{"metadata":{"annotations":{"` + resourcesv1alpha1.OriginAnnotation + `":"garden/other"}}}`,
		"keep-object":    `{"metadata":{"annotations":{"` + resourcesv1alpha1.KeepObjectAnnotation + `":"true"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cm := configMap(g, testbed.Namespace(t, nil, cluster), "a", after("1h"))
			refs := []resourcesv1alpha1.ObjectReference{entry(cm, cm.UID)}
			p := policy
			p.Clock = clocktesting.NewFakePassiveClock(time.Now().Add(2 * time.Hour))
			g.Expect(cluster.Client.Delete(t.Context(), cm)).To(Succeed())
			g.Expect(cluster.Client.Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, []byte(change)))).To(Succeed())
			g.Expect(prune.Objects(t.Context(), access, refs, p)[0].Result).To(Equal(prune.Kept))
			g.Expect(exists(g, cm)).To(BeTrue())
		})
	}
}

// The finalizer of the spec can only be taken off by a subresource of its own; here nothing else takes it off, for
// there is no namespace controller.
func TestX06_BUG04_NamespaceLosesBothKindsOfFinalizers(t *testing.T) {
	g := NewWithT(t)
	ns := &corev1.Namespace{}
	g.Expect(cluster.Client.Get(t.Context(), types.NamespacedName{Name: testbed.Namespace(t, nil, cluster)}, ns)).To(
		Succeed())
	ns.Annotations = map[string]string{
		resourcesv1alpha1.OriginAnnotation: origin, resourcesv1alpha1.FinalizeDeletionAfterAnnotation: "1h",
	}
	ns.Finalizers = []string{hold}
	g.Expect(cluster.Client.Update(t.Context(), ns)).To(Succeed())
	refs := []resourcesv1alpha1.ObjectReference{reference("v1", "Namespace", "", ns.Name, ns.UID)}
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p := policy
	p.Clock = clock

	g.Expect(prune.Objects(t.Context(), access, refs, p)[0].Result).To(Equal(prune.Pending))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns)).To(Succeed())
	g.Expect(ns.Finalizers).To(ConsistOf(hold))
	g.Expect(ns.Spec.Finalizers).To(ConsistOf(corev1.FinalizerKubernetes))

	clock.SetTime(ns.DeletionTimestamp.Add(time.Hour))
	out := prune.Objects(t.Context(), access, refs, p)[0]
	g.Expect(out.Err).NotTo(HaveOccurred())
	g.Expect(out.Result).To(Equal(prune.Gone))
	g.Expect(out.Finalized).To(ConsistOf(hold, string(corev1.FinalizerKubernetes)))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns)).To(Satisfy(apierrors.IsNotFound))
}

func reference(apiVersion, kind, namespace, name string, uid types.UID) resourcesv1alpha1.ObjectReference {
	ref := resourcesv1alpha1.ObjectReference{}
	ref.APIVersion, ref.Kind, ref.Namespace, ref.Name, ref.UID = apiVersion, kind, namespace, name, uid
	return ref
}
