package managedresource_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// Nothing can be applied in a namespace that is being deleted. That is reported once, not for each object, and with
// what the namespace waits for.
func TestObjectsOfANamespaceThatEndsFailOnceAndSayWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	p := registered(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.ns + "-ending"}}
	p.inTarget(ns)
	p.Expect(target.Client.Delete(p.ctx, ns)).To(Succeed())
	p.Expect(target.Client.Get(p.ctx, client.ObjectKeyFromObject(ns), ns)).To(Succeed())
	ns.Status.Conditions = []corev1.NamespaceCondition{{
		Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, Reason: "SomeFinalizersRemain",
		Message: "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
	}}
	p.Expect(target.Client.Status().Update(p.ctx, ns)).To(Succeed()) // as the namespace controller does, which does not run here

	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "probe"}}
	p.Eventually(func() error { return target.Client.Create(p.ctx, probe.DeepCopy(), client.DryRunAll) }).
		Should(Satisfy(func(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }))

	var documents []string
	for i := range 30 {
		documents = append(documents, testbed.ConfigMap(ns.Name, fmt.Sprint("one-", i), "1"))
	}
	p.content("content", documents...)
	p.mr("mr", "content")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "1 error occurred: error during apply of object ", "because it is being terminated",
		"namespace "+ns.Name+" waits: Some content in the namespace has finalizers remaining: example.com/hold", "(29 more objects fail for the same reason)"))
}
