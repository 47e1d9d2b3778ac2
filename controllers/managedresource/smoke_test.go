package managedresource_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestSmoke(t *testing.T) {
	g := NewWithT(t)
	ctx := context.Background()
	ns := testbed.Namespace(t, nil, source, target)
	g.Expect(source.Client.Create(ctx, testbed.Registration(ns, "a", target.Kubeconfig()))).To(Succeed())
	g.Expect(source.Client.Create(ctx, testbed.Content(
		ns, "content", "objects.yaml", testbed.ConfigMap(ns, "one", "1")))).To(Succeed())
	g.Expect(source.Client.Create(ctx, testbed.ManagedResource(ns, "mr", "content"))).To(Succeed())
	cm := &corev1.ConfigMap{}
	g.Eventually(func() error { return target.Client.Get(ctx, types.NamespacedName{Namespace: ns, Name: "one"}, cm) }).Should(Succeed())
	mr := &resourcesv1alpha1.ManagedResource{}
	g.Eventually(func() resourcesv1alpha1.ConditionStatus {
		g.Expect(source.Client.Get(ctx, types.NamespacedName{Namespace: ns, Name: "mr"}, mr)).To(Succeed())
		if c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionReady); c != nil {
			return c.Status
		}
		return ""
	}).Should(Equal(resourcesv1alpha1.ConditionTrue), "%v", mr)
}
