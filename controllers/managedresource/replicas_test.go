package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// scalers change replicas in the ways people and autoscalers do.
var scalers = map[string]func(p place, d *appsv1.Deployment, replicas int32){
	"scaled": func(p place, d *appsv1.Deployment, replicas int32) {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
		p.Expect(target.Client.SubResource("scale").Update(p.ctx, d, client.WithSubResourceBody(scale))).To(Succeed())
	},
	"edited": func(p place, d *appsv1.Deployment, replicas int32) {
		p.edit(target, d, func() { d.Spec.Replicas = ptr.To(replicas) })
	},
}

func TestMR24_ReplicasWithoutPreserve(t *testing.T) {
	t.Parallel()
	for name, scale := range scalers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", p.deploymentManifest("app", "{}"))
			p.mr("mr", "content")
			p.awaitApplied("mr")
			uid := read(p, p.deployment("app")).UID
			replicas := func() int32 { return *read(p, p.deployment("app")).Spec.Replicas }

			scale(p, p.deployment("app"), 5)
			p.Eventually(replicas).Should(Equal(int32(2)), func() string { return hub.Log.About(p.ns) })
			scale(p, p.deployment("app"), 7)
			p.operation("mr", resourcesv1alpha1.OperationReconcile)
			p.Eventually(replicas).Should(Equal(int32(2)))
			p.Eventually(func() map[string]string { return p.get("mr").Annotations }).ShouldNot(HaveKey(resourcesv1alpha1.OperationAnnotation))
			p.Expect(read(p, p.deployment("app")).UID).To(Equal(uid))
		})
	}
}

func TestMR24_ReplicasWithPreserve(t *testing.T) {
	t.Parallel()
	preserving := map[string]func(p place) string{
		"by annotation": func(p place) string {
			return p.deploymentManifest("app", `{"resources.gardener.cloud/preserve-replicas":"true"}`)
		},
		"because the manifest leaves it open": func(p place) string {
			return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"` + p.ns + `","name":"app"},
"spec":{"selector":{"matchLabels":{"app":"app"}},"template":{"metadata":{"labels":{"app":"app"}},"spec":{"containers":[{"name":"app","image":"example.org/app:1"}]}}}}`
		},
	}
	for how, manifest := range preserving {
		for name, scale := range scalers {
			t.Run(how+" when "+name, func(t *testing.T) {
				t.Parallel()
				p := registered(t)
				p.content("content", manifest(p))
				p.mr("mr", "content")
				p.awaitApplied("mr")
				for _, replicas := range []int32{5, 3} {
					scale(p, p.deployment("app"), replicas)
					p.operation("mr", resourcesv1alpha1.OperationReconcile)
					p.Eventually(func() map[string]string { return p.get("mr").Annotations }).ShouldNot(HaveKey(resourcesv1alpha1.OperationAnnotation))
					p.fence()
					p.Expect(*read(p, p.deployment("app")).Spec.Replicas).To(Equal(replicas))
				}
				// It is a field like any other for everything but drift: the rest is still kept.
				d := p.deployment("app")
				p.edit(target, d, func() { d.Spec.Template.Spec.Containers[0].Image = "example.org/app:2" })
				p.Eventually(func() string { return read(p, p.deployment("app")).Spec.Template.Spec.Containers[0].Image }).Should(Equal("example.org/app:1"))
				p.Expect(*read(p, p.deployment("app")).Spec.Replicas).To(Equal(int32(3)))
			})
		}
	}
}
