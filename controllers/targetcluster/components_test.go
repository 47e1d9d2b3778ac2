package targetcluster_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

func testComponents(t *testing.T, h *hub) {
	g := NewWithT(t)
	key := h.key("a")
	h.register(g, key)
	h.connect(key, h.uid("a"))
	h.eventually(g, key, haveCondition("Ready", "True", "Ready"))
	h.eventually(g, key, HaveField("Labels", HaveKeyWithValue(hubv1alpha1.StatusLabel, "healthy")))

	t.Log("the first roll-out")
	h.createMR(g, "mr", "", nil)
	h.eventually(g, key, SatisfyAll(
		haveCondition("SystemComponentsHealthy", "Unknown", "ManagedResourcesFailing"),
		HaveField("Labels", HaveKeyWithValue(hubv1alpha1.StatusLabel, "progressing")),
	))
	h.setMR(g, "mr", h.uid("a"), resourcesv1alpha1.ConditionTrue, "fine")
	h.eventually(g, key, SatisfyAll(
		haveCondition("SystemComponentsHealthy", "True", "ManagedResourcesHealthy"),
		HaveField("Status.ManagedResources", Equal(&hubv1alpha1.ManagedResourceCounts{Total: 1, Ready: 1})), HaveField("Status.Objects", int64(2)),
		HaveField("Labels", HaveKeyWithValue(hubv1alpha1.StatusLabel, "healthy")), HaveField("Status.FailingChecks", BeEmpty()),
	))

	t.Log("others of the namespace")
	h.createMR(g, "seed", "seed", nil)
	h.createMR(g, "other", "another-class", nil)
	h.createMR(g, "backup", "", map[string]string{hubv1alpha1.CareConditionTypeLabel: "BackupHealthy"})
	h.setMR(g, "backup", h.uid("a"), resourcesv1alpha1.ConditionTrue, "fine")
	// From unhealthy to unhealthy for another reason would be only other words, which wait for a minute.
	h.setMR(g, "seed", "the-source", resourcesv1alpha1.ConditionTrue, "fine")
	h.eventually(g, key, haveCondition("ControlPlaneHealthy", "True", "ManagedResourcesHealthy"))
	h.setMR(g, "seed", "the-source", resourcesv1alpha1.ConditionFalse, "no space left")
	h.eventually(g, key, SatisfyAll(
		haveCondition("BackupHealthy", "True", "ManagedResourcesHealthy"),
		haveCondition("ControlPlaneHealthy", "False", "ManagedResourcesUnhealthy"), haveMessage("ControlPlaneHealthy", "seed (DeploymentUnhealthy: no space left)"),
		haveCondition("SystemComponentsHealthy", "True", "ManagedResourcesHealthy"), haveCondition("Ready", "True", "Ready"),
		HaveField("Status.ManagedResources.Total", int32(2)), HaveField("Labels", HaveKeyWithValue(hubv1alpha1.StatusLabel, "unhealthy")),
	))
	h.expectEvent(g, "Warning ManagedResourcesUnhealthy 1 ManagedResource is not healthy: seed")
	h.setMR(g, "seed", "the-source", resourcesv1alpha1.ConditionTrue, "fine")
	h.eventually(g, key, haveCondition("ControlPlaneHealthy", "True", "ManagedResourcesHealthy"))

	t.Log("a failure that lasts, over the end of a term")
	h.setMR(g, "mr", h.uid("a"), resourcesv1alpha1.ConditionFalse, "first")
	h.eventually(g, key, haveCondition("SystemComponentsHealthy", "True", "ManagedResourcesFailing"))
	since := h.get(g, key).Status.FailingChecks
	g.Expect(since).To(HaveLen(1))
	h.stopTerm()
	h.startTerm(t)
	h.setMR(g, "mr", h.uid("a"), resourcesv1alpha1.ConditionFalse, "second")
	h.eventually(g, key, SatisfyAll(
		haveCondition("SystemComponentsHealthy", "False", "ManagedResourcesUnhealthy"), haveMessage("SystemComponentsHealthy", "mr (DeploymentUnhealthy: second)"),
		HaveField("Status.FailingChecks", BeEmpty()), HaveField("Labels", HaveKeyWithValue(hubv1alpha1.StatusLabel, "unhealthy")),
	))
	g.Expect(time.Since(since[0].Since.Time)).To(BeNumerically(">=", threshold), "not before the threshold ends")

	t.Log("a target that is lost")
	h.setMR(g, "mr", h.uid("a"), resourcesv1alpha1.ConditionTrue, "fine")
	h.eventually(g, key, haveCondition("SystemComponentsHealthy", "True", "ManagedResourcesHealthy"))
	h.clusters.SetState(key, clustercache.StateDisconnected, clustercache.ReasonUnreachable, "dial tcp: connection refused")
	h.eventually(g, key, SatisfyAll(
		haveCondition("SystemComponentsHealthy", "Unknown", "TargetUnreachable"), haveMessage("SystemComponentsHealthy", "connection refused"),
		haveCondition("BackupHealthy", "Unknown", "TargetUnreachable"), haveCondition("ControlPlaneHealthy", "True", "ManagedResourcesHealthy"),
		haveCondition("HubReady", "Unknown", "TargetUnreachable"), haveCondition("APIServerAvailable", "False", "Unreachable"),
	))
	h.connect(key, h.uid("a"))
	h.eventually(g, key, SatisfyAll(
		haveCondition("SystemComponentsHealthy", "True", "ManagedResourcesHealthy"), haveCondition("HubReady", "True", "HubReady"),
		HaveField("Labels", HaveKeyWithValue(hubv1alpha1.StatusLabel, "healthy")),
	))

	t.Log("the label belongs to the hub")
	h.change(g, key, func(tc *hubv1alpha1.TargetCluster) { tc.Labels = map[string]string{"mine": "stays"} })
	h.eventually(g, key, HaveField("Labels", Equal(map[string]string{"mine": "stays", hubv1alpha1.StatusLabel: "healthy"})))

	t.Log("no ManagedResource is left")
	for _, name := range []string{"mr", "seed", "backup"} {
		g.Expect(h.client.Delete(t.Context(), &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}})).To(Succeed())
	}
	h.eventually(g, key, SatisfyAll(
		Not(haveConditionType("SystemComponentsHealthy")), Not(haveConditionType("BackupHealthy")), Not(haveConditionType("ControlPlaneHealthy")),
		HaveField("Status.ManagedResources.Total", int32(0)),
	))
}

func (h *hub) createMR(g *WithT, name, class string, labels map[string]string) {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name, Labels: labels}}
	mr.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: name}}
	if class != "" {
		mr.Spec.Class = &class
	}
	g.Expect(h.client.Create(context.Background(), mr)).To(Succeed())
}

// setMR says what the controller of ManagedResources says: it is applied to a cluster, and this healthy.
func (h *hub) setMR(g *WithT, name string, uid types.UID, healthy resourcesv1alpha1.ConditionStatus, message string) {
	ctx, mr := context.Background(), &resourcesv1alpha1.ManagedResource{}
	g.Expect(h.client.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, mr)).To(Succeed())
	if mr.Annotations[hubv1alpha1.TargetUIDAnnotation] == "" {
		base := mr.DeepCopy()
		mr.Annotations = map[string]string{hubv1alpha1.TargetUIDAnnotation: string(uid)}
		g.Expect(h.client.Patch(ctx, mr, client.MergeFrom(base))).To(Succeed())
	}
	reason := "DeploymentUnhealthy"
	if healthy == resourcesv1alpha1.ConditionTrue {
		reason = "Ready"
	}
	set := func(t resourcesv1alpha1.ConditionType, status resourcesv1alpha1.ConditionStatus) {
		mr.Status.Conditions = resourcesv1alpha1.SetCondition(time.Now(), mr.Status.Conditions, t, status, reason, message)
	}
	set(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue)
	set(resourcesv1alpha1.ConditionResourcesHealthy, healthy)
	set(resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionFalse)
	set(resourcesv1alpha1.ConditionReady, healthy)
	mr.Status.ObservedGeneration = mr.Generation
	mr.Status.Resources = make([]resourcesv1alpha1.ObjectReference, 2)
	g.Expect(h.client.Status().Update(ctx, mr)).To(Succeed())
}
