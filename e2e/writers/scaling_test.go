package writers

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

const (
	scaledDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {namespace: $ns, name: app, annotations: {mine: "1"}}
spec:
  replicas: 1
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec: {containers: [{name: app, image: "example.org/app:1", resources: {requests: {cpu: 10m, memory: 10Mi, ephemeral-storage: "0"}, limits: {memory: 200Mi}}}]}
`
	autoscaler = `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {namespace: $ns, name: app}
spec: {minReplicas: %d, maxReplicas: %d, scaleTargetRef: {apiVersion: apps/v1, kind: %s, name: app}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}
`
)

func replicasOf(p place, obj *unstructured.Unstructured) func() any {
	return func() any { return p.value(obj, "spec.replicas") }
}

// The autoscaler of the controller manager scales up to its minimum and down to its maximum without metrics, of which
// there are none here.
func TestAutoscalerOfTheControllerManagerScales(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{
		"Deployment":  scaledDeployment,
		"StatefulSet": strings.NewReplacer("kind: Deployment", "kind: StatefulSet", "replicas: 1", "replicas: 1\n  serviceName: app").Replace(scaledDeployment),
	}
	for kind, manifest := range kinds {
		for _, whose := range []string{"of another client", "of the same ManagedResource"} {
			t.Run(kind+" by an autoscaler "+whose, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				p.awaitDefaultServiceAccount()
				obj := p.objects(manifest)[0]
				hpa := p.objects(fmt.Sprintf(autoscaler, 3, 5, kind))[0]
				objects := []*unstructured.Unstructured{obj}
				if whose == "of another client" {
					p.create(hpa)
				} else {
					objects = append(objects, hpa)
				}
				p.manage("mr", objects)
				p.awaitApplied("mr")
				p.Eventually(replicasOf(p, obj)).Should(Equal(int64(3)), func() string { return hub.Log.About(p.ns) })
				p.awaitReady("mr")
				uid := p.live(obj).GetUID()
				p.nudge(obj)
				p.reapply("mr")
				p.nudge(obj)
				p.Expect(replicasOf(p, obj)()).To(Equal(int64(3)))
				p.Expect(p.live(obj).GetUID()).To(Equal(uid))

				if whose == "of another client" { // now people scale it, which the autoscaler undoes, and not the hub
					scale(p, obj, 9)
					p.Eventually(replicasOf(p, obj)).Should(Equal(int64(5)), func() string { return hub.Log.About(p.ns) })
				}
				p.expectUndisturbed("mr")
				for _, note := range p.corrections() {
					p.Expect(note).To(ContainSubstring("nudger"), "no other client was corrected")
				}
			})
		}
	}
}

func scale(p place, obj *unstructured.Unstructured, replicas int32) {
	p.t.Helper()
	body := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	p.Expect(target.Client.SubResource("scale").Update(p.ctx, obj.DeepCopy(), client.WithSubResourceBody(body), client.FieldOwner("kubectl"))).To(Succeed())
}

// recommend writes resources the way a vertical autoscaler of templates does.
func recommend(p place, obj *unstructured.Unstructured) {
	p.t.Helper()
	p.Expect(target.Client.Patch(p.ctx, obj.DeepCopy(), client.RawPatch("application/strategic-merge-patch+json",
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"70m","memory":"70Mi"},"limits":{"cpu":"1"}}}]}}}}`)), client.FieldOwner("recommender"))).To(Succeed())
}

const container = "spec.template.spec.containers.0.resources."

func resourcesOf(p place, obj *unstructured.Unstructured) func() string {
	return func() string {
		live := p.live(obj).Object
		return fmt.Sprintf("%v %v %v, %v %v", at(live, container+"requests.cpu"), at(live, container+"requests.memory"),
			at(live, container+"requests.ephemeral-storage"), at(live, container+"limits.cpu"), at(live, container+"limits.memory"))
	}
}

func TestMR25_RecommendedResources(t *testing.T) {
	t.Parallel()
	preserving := strings.Replace(scaledDeployment, `mine: "1"`, resourcesv1alpha1.PreserveResourcesAnnotation+`: "true"`, 1)
	t.Run("are undone", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		obj := p.objects(scaledDeployment)[0]
		p.manage("mr", []*unstructured.Unstructured{obj})
		p.awaitReady("mr")
		recommend(p, obj)
		p.Eventually(resourcesOf(p, obj)).Should(Equal("10m 10Mi 0, <nil> 200Mi"))
		p.Eventually(p.corrections).Should(ContainElement(And(ContainSubstring("recommender"), ContainSubstring("cpu"))))
	})
	t.Run("persist if they are to be preserved", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		obj := p.objects(preserving)[0]
		p.manage("mr", []*unstructured.Unstructured{obj})
		p.awaitReady("mr")
		recommend(p, obj)
		p.nudge(obj)
		p.reapply("mr")
		p.nudge(obj)
		p.Expect(resourcesOf(p, obj)()).To(Equal("70m 70Mi 0, 1 200Mi"))
		// Others than CPU and memory are kept as the manifest says.
		p.mergePatch(obj, "another-client", `{"spec":{"template":{"spec":{"containers":[{
			"name":"app","image":"example.org/app:1","resources":{
			"requests":{"cpu":"70m","memory":"70Mi","ephemeral-storage":"9Gi"},"limits":{"cpu":"1","memory":"200Mi"}}}]}}}}`)
		p.Eventually(resourcesOf(p, obj)).Should(Equal("70m 70Mi 0, 1 200Mi"))
	})
}

func TestMR24_ScaledByHand(t *testing.T) {
	t.Parallel()
	preserving := strings.Replace(scaledDeployment, `mine: "1"`, resourcesv1alpha1.PreserveReplicasAnnotation+`: "true"`, 1)
	t.Run("is undone", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		obj := p.objects(scaledDeployment)[0]
		p.manage("mr", []*unstructured.Unstructured{obj})
		p.awaitReady("mr")
		scale(p, obj, 2)
		p.Eventually(replicasOf(p, obj)).Should(Equal(int64(1)))
		p.awaitReady("mr")
	})
	t.Run("persists if replicas are to be preserved", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		obj := p.objects(preserving)[0]
		p.manage("mr", []*unstructured.Unstructured{obj})
		p.awaitReady("mr")
		for _, replicas := range []int32{2, 3} {
			scale(p, obj, replicas)
			p.nudge(obj)
			p.reapply("mr")
			p.nudge(obj)
			p.Expect(replicasOf(p, obj)()).To(BeEquivalentTo(replicas))
		}
		p.awaitReady("mr")
	})
}

// What is preserved from then on is the live value, even if it differs from the manifest.
func TestBeginningToPreserveChangesNothing(t *testing.T) {
	t.Parallel()
	begin := map[string]func(p place, obj *unstructured.Unstructured) (more []*unstructured.Unstructured){
		"replicas": func(_ place, obj *unstructured.Unstructured) []*unstructured.Unstructured {
			annotate(obj, resourcesv1alpha1.PreserveReplicasAnnotation, "true")
			return nil
		},
		"resources": func(_ place, obj *unstructured.Unstructured) []*unstructured.Unstructured {
			annotate(obj, resourcesv1alpha1.PreserveResourcesAnnotation, "true")
			return nil
		},
		"replicas, other ones being in the manifest now": func(_ place, obj *unstructured.Unstructured) []*unstructured.Unstructured {
			annotate(obj, resourcesv1alpha1.PreserveReplicasAnnotation, "true")
			put(obj.Object, "spec.replicas", int64(7))
			return nil
		},
		"replicas by leaving them out of the manifest": func(_ place, obj *unstructured.Unstructured) []*unstructured.Unstructured {
			unstructured.RemoveNestedField(obj.Object, "spec", "replicas")
			return nil
		},
		"replicas for an autoscaler": func(p place, _ *unstructured.Unstructured) []*unstructured.Unstructured {
			p.create(p.objects(fmt.Sprintf(autoscaler, 1, 5, "Deployment"))...)
			return nil
		},
		"replicas for an autoscaler of the same ManagedResource": func(p place, _ *unstructured.Unstructured) []*unstructured.Unstructured {
			return p.objects(fmt.Sprintf(autoscaler, 1, 5, "Deployment"))
		},
	}
	for what, begin := range begin {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.awaitDefaultServiceAccount()
			obj := p.objects(strings.Replace(scaledDeployment, "replicas: 1", "replicas: 2", 1))[0]
			p.manage("mr", []*unstructured.Unstructured{obj})
			p.awaitReady("mr")
			spec, uid, pods := p.value(obj, "spec"), p.live(obj).GetUID(), p.pods()
			p.Expect(pods).To(HaveLen(2))

			more := begin(p, obj)
			put(obj.Object, "metadata.labels.new", "1")
			p.manage("mr", append(more, obj))
			p.Eventually(func() string { return p.live(obj).GetLabels()["new"] }).Should(Equal("1"))
			p.awaitReady("mr")
			p.nudge(obj)
			p.reapply("mr")
			p.nudge(obj)
			p.Expect(p.value(obj, "spec")).To(Equal(spec))
			p.Expect(p.live(obj).GetUID()).To(Equal(uid))
			p.Expect(p.pods()).To(Equal(pods))
		})
	}
}

func annotate(obj *unstructured.Unstructured, key, value string) {
	annotations := obj.GetAnnotations()
	annotations[key] = value
	obj.SetAnnotations(annotations)
}
