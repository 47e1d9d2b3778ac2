package managedresource_test

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// autoscaler is one that aims at a workload of the namespace, and does nothing itself.
func (p place) autoscaler(name, apiVersion, kind, of string) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: of}, MaxReplicas: 10,
		},
	}
}

// autoscale does what the controller of autoscalers does.
func (p place) autoscale(obj client.Object, replicas int32) {
	p.t.Helper()
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	p.Expect(target.Client.SubResource("scale").Update(p.ctx, obj, client.WithSubResourceBody(scale), client.FieldOwner("kube-controller-manager"))).To(Succeed())
}

func (p place) replicas(name string) func() int32 {
	return func() int32 { return *read(p, p.deployment(name)).Spec.Replicas }
}

// patchesOf keeps patches of a Deployment by the hub. Updates that change nothing go before some.
func (p place) patchesOf(name string) func(controlplane.AuditEntry) bool {
	return func(e controlplane.AuditEntry) bool {
		return p.writes(e) && e.Verb == "patch" && e.Resource == "deployments" && e.Name == name
	}
}

func (p place) corrections() []string {
	var out []string
	for _, e := range p.events() {
		if strings.Contains(e, "DriftCorrected") {
			out = append(out, e)
		}
	}
	return out
}

func TestAutoscaledReplicasStay(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.deploymentManifest("app", "{}"))
	p.mr("mr", "content")
	p.awaitApplied("mr")
	before := p.requests(target, p.patchesOf("app"))
	p.inTarget(p.autoscaler("hpa", "apps/v1", "Deployment", "app"))
	p.fence()
	p.Expect(p.requests(target, p.patchesOf("app"))).To(Equal(before), "an autoscaler that appears changes nothing")

	for _, replicas := range []int32{5, 1, 7} {
		p.autoscale(p.deployment("app"), replicas)
		p.fence()
		p.Expect(p.replicas("app")()).To(Equal(replicas))
	}
	p.operation("mr", resourcesv1alpha1.OperationReconcile)
	p.await("mr", HaveField("Annotations", Not(HaveKey(resourcesv1alpha1.OperationAnnotation))))
	p.fence()
	p.Expect(p.replicas("app")()).To(Equal(int32(7)))
	p.Expect(p.corrections()).To(BeEmpty())
	p.Expect(len(p.requests(target, p.patchesOf("app")))-len(before)).To(BeNumerically("<=", 2), "one to take note, one that was asked for")

	// The rest of it is kept, and new content does not scale it either.
	d := p.deployment("app")
	p.edit(target, d, func() { d.Spec.Template.Spec.Containers[0].Image = "example.org/app:2" })
	p.Eventually(func() string { return read(p, p.deployment("app")).Spec.Template.Spec.Containers[0].Image }).Should(Equal("example.org/app:1"))
	p.content("content", strings.ReplaceAll(p.deploymentManifest("app", "{}"), "calm", "busy"))
	p.Eventually(func() string { return read(p, p.deployment("app")).Spec.Template.Spec.Containers[0].Env[0].Value }).Should(Equal("busy"))
	p.Expect(p.replicas("app")()).To(Equal(int32(7)))
}

// When nothing scales it any longer, the manifest does.
func TestReplicasComeBackWithoutAutoscaler(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(p place, hpa *autoscalingv2.HorizontalPodAutoscaler){
		"deleted": func(p place, hpa *autoscalingv2.HorizontalPodAutoscaler) {
			p.Expect(target.Client.Delete(p.ctx, hpa)).To(Succeed())
		},
		"aimed elsewhere": func(p place, hpa *autoscalingv2.HorizontalPodAutoscaler) {
			p.edit(target, hpa, func() { hpa.Spec.ScaleTargetRef.Name = "other" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			hpa := p.autoscaler("hpa", "extensions/v1beta1", "Deployment", "app")
			p.inTarget(hpa)
			p.content("content", p.deploymentManifest("app", "{}"))
			p.mr("mr", "content")
			p.awaitApplied("mr")
			p.Expect(p.replicas("app")()).To(Equal(int32(2)), "an object that is new is as the manifest says")
			p.autoscale(p.deployment("app"), 6)
			p.fence()
			p.Expect(p.replicas("app")()).To(Equal(int32(6)))
			leave(p, hpa)
			p.Eventually(p.replicas("app")).Should(Equal(int32(2)), func() string { return hub.Log.About(p.ns) })
		})
	}
}

// Whether an autoscaler is there must be known before the first apply, not when the watch of autoscalers has come up.
func TestAdoptedObjectIsNotScaledDown(t *testing.T) {
	t.Parallel()
	p := registered(t)
	d := &appsv1.Deployment{}
	p.Expect(json.Unmarshal([]byte(p.deploymentManifest("app", "{}")), d)).To(Succeed())
	p.inTarget(p.autoscaler("hpa", "apps/v1", "Deployment", "app"), d)
	p.autoscale(p.deployment("app"), 9)
	before := read(p, p.deployment("app"))
	p.content("content", p.deploymentManifest("app", "{}"))
	p.mr("mr", "content")
	p.awaitApplied("mr")
	after := read(p, p.deployment("app"))
	p.Expect(*after.Spec.Replicas).To(Equal(int32(9)))
	p.Expect(after.UID).To(Equal(before.UID))
	p.fence()
	p.Expect(p.replicas("app")()).To(Equal(int32(9)))
}

// A hub that was not there when things happened finds out what they were.
func TestRestartedHubKnowsWhatIsScaled(t *testing.T) {
	t.Parallel()
	p := apart(t, nil)
	p.register("a", target.Kubeconfig())
	ready := func(name string) {
		p.t.Helper()
		noted := HaveField("Annotations", HaveKey(hubv1alpha1.AppliedAnnotation))
		p.await(name, has(applied, yes, resourcesv1alpha1.ReasonApplySucceeded), observed(), noted)
	}
	fences := 0
	fence := func() {
		fences++
		name := "fence-" + string(rune('a'+fences))
		p.content(name, testbed.ConfigMap(p.ns, name, "1"))
		p.mr(name, name)
		ready(name)
	}
	p.content("content", p.deploymentManifest("app", "{}"))
	p.mr("mr", "content")
	stop := p.run(testbed.HubOptions{})
	ready("mr")
	writes := func() int { return len(p.requests(target, p.patchesOf("app"))) }

	stop()
	before := writes()
	hpa := p.autoscaler("hpa", "apps/v1", "Deployment", "app")
	p.inTarget(hpa)
	stop = p.run(testbed.HubOptions{})
	fence()
	p.Expect(writes()).To(Equal(before), "one that appeared while the hub was away changes nothing")

	stop()
	p.autoscale(p.deployment("app"), 6)
	stop = p.run(testbed.HubOptions{})
	fence()
	p.Expect(p.replicas("app")()).To(Equal(int32(6)), "scaled while the hub was away")
	p.autoscale(p.deployment("app"), 8)
	fence()
	p.Expect(p.replicas("app")()).To(Equal(int32(8)))

	stop()
	before = writes()
	stop = p.run(testbed.HubOptions{})
	fence()
	p.Expect(writes()).To(Equal(before), "nothing happened")

	stop()
	p.Expect(target.Client.Delete(p.ctx, hpa)).To(Succeed())
	stop = p.run(testbed.HubOptions{})
	defer func() { stop() }()
	p.Eventually(p.replicas("app")).Should(Equal(int32(2)), "its autoscaler left while the hub was away")
}
