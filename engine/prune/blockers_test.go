package prune_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/engine/prune"
)

// A namespace that does not end says itself what it waits for, as the namespace controller found out.
func TestTerminatingNamespaceReportsWhatItWaitsFor(t *testing.T) {
	w := newWorld(t, []string{"namespace"})
	w.Expect(w.prune(policy)["namespace"].Reason).To(Equal("is shutting down"), "what it waits for was not read yet")
	ns := &corev1.Namespace{}
	w.Expect(cluster.Client.Get(w.ctx, client.ObjectKey{Name: w.ns}, ns)).To(Succeed())
	for conditionType, message := range map[corev1.NamespaceConditionType]string{
		corev1.NamespaceDeletionDiscoveryFailure: "Discovery failed for some groups, 1 failing: broken.example.com/v1: stale GroupVersion discovery",
		corev1.NamespaceContentRemaining:         "Some resources are remaining: things.example.com has 2 resource instances",
		corev1.NamespaceFinalizersRemaining:      "Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances\n" + strings.Repeat("x", 10000),
	} {
		ns.Status.Conditions = append(ns.Status.Conditions, corev1.NamespaceCondition{Type: conditionType, Status: corev1.ConditionTrue, Reason: "R", Message: message})
	}
	ns.Status.Conditions = append(ns.Status.Conditions, corev1.NamespaceCondition{
		Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionFalse, Reason: "ContentDeleted", Message: "All content successfully deleted",
	})
	w.Expect(cluster.Client.Status().Update(w.ctx, ns)).To(Succeed())
	reason := w.prune(policy)["namespace"].Reason
	w.Expect(reason).To(HavePrefix("is shutting down; Discovery failed for some groups, 1 failing: broken.example.com/v1: stale GroupVersion discovery; " +
		"Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances"))
	w.Expect(reason).NotTo(SatisfyAny(ContainSubstring("successfully"), ContainSubstring("\n")))
	w.Expect(len(reason)).To(BeNumerically("<", 700))
	w.Expect(prune.NamespaceWaits(w.ctx, cluster.Client, "default")).To(BeEmpty())
}

// A definition waits for the instances of users, which no inventory names.
func TestDefinitionThatDoesNotEndNamesTheInstances(t *testing.T) {
	w := newWorld(t, []string{"crd"})
	for i := range 5 {
		thing := w.object("thing")
		thing.SetName(fmt.Sprint("users-", i))
		thing.SetFinalizers([]string{hold})
		w.Eventually(func() error { return cluster.Client.Create(w.ctx, thing) }).Should(Succeed())
		t.Cleanup(func() {
			_ = cluster.Client.Patch(w.ctx, thing, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		})
	}
	w.prune(policy)
	out := w.prune(policy)["crd"]
	w.Expect(out.Result).To(Equal(prune.Pending))
	w.Expect(out.Reason).To(Equal(fmt.Sprintf("waits for finalizers [customresourcecleanup.apiextensions.k8s.io]; 5 instances are left: "+
		"%[1]s/users-0 (finalizers %[2]s), %[1]s/users-1 (finalizers %[2]s), %[1]s/users-2 (finalizers %[2]s), 2 more", w.ns, hold)))
}

// A definition without instances may wait because the API server could not delete any. It says why.
func TestTerminatingDefinitionReportsItsInstances(t *testing.T) {
	w := newWorld(t, []string{"crd"})
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: w.object("crd").GetName()}}
	merge := func(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }
	w.Expect(cluster.Client.Patch(w.ctx, crd, merge(`{"metadata":{"finalizers":["`+hold+`"]}}`))).To(Succeed())
	t.Cleanup(func() { _ = cluster.Client.Patch(w.ctx, crd, merge(`{"metadata":{"finalizers":null}}`)) })
	w.prune(policy)
	w.Eventually(func() ([]string, error) {
		err := cluster.Client.Get(w.ctx, client.ObjectKeyFromObject(crd), crd)
		return crd.Finalizers, err
	}).Should(ConsistOf(hold))
	const message = "could not list instances: storage is (re)initializing"
	for reason, text := range map[string]string{
		"InstanceDeletionInProgress": "waits for finalizers [" + hold + "]",
		"InstanceDeletionFailed":     "waits for finalizers [" + hold + "]; " + message,
	} {
		status := fmt.Sprintf(`{"status":{"conditions":[{"type":"Terminating","status":"True",
"lastTransitionTime":"2026-01-01T00:00:00Z","reason":%q,"message":%q}]}}`, reason, message)
		w.Expect(cluster.Client.Status().Patch(w.ctx, crd, merge(status))).To(Succeed())
		w.Expect(w.prune(policy)["crd"].Reason).To(Equal(text))
	}
}
