package writers

import (
	"maps"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

const resourceManager = "a resource manager"

// creators make an object in the ways in which it may exist before the hub.
var creators = map[string]func(p place, obj *unstructured.Unstructured){
	// A Gardener resource manager writes whole objects with its own marks. The real one is in package e2e, behind a build
	// tag.
	resourceManager: func(p place, obj *unstructured.Unstructured) {
		labels := maps.Clone(obj.GetLabels())
		labels[resourcesv1alpha1.ManagedByLabel] = "gardener"
		obj.SetLabels(labels)
		obj.SetAnnotations(map[string]string{
			resourcesv1alpha1.OriginAnnotation: p.ns + "/mr", resourcesv1alpha1.DescriptionAnnotation: "DO NOT EDIT - in other words than the hub's.",
		})
		p.Expect(target.Client.Create(p.ctx, obj, client.FieldOwner("gardener-resource-manager"))).To(Succeed())
		p.update(obj, "gardener-resource-manager", func(content map[string]any) {
			for field, value := range obj.DeepCopy().Object {
				if field != "metadata" && field != "status" {
					content[field] = value
				}
			}
		})
	},
	"kubectl create": func(p place, obj *unstructured.Unstructured) {
		p.Expect(target.Client.Create(p.ctx, obj, client.FieldOwner("kubectl-create"))).To(Succeed())
	},
	"kubectl apply": func(p place, obj *unstructured.Unstructured) {
		obj.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": string(p.mustJSON(obj.Object))})
		p.Expect(target.Client.Create(p.ctx, obj, client.FieldOwner("kubectl-client-side-apply"))).To(Succeed())
	},
	"kubectl apply --server-side": func(p place, obj *unstructured.Unstructured) {
		p.send(obj, types.ApplyPatchType, p.mustJSON(obj.Object), "kubectl")
	},
}

// adopted are manifests of which the pod templates have the label that the hub puts there, so that their content is
// what the hub wants.
var adopted = map[string]string{
	"ConfigMap": "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: $ns, name: app}\ndata: {a: \"1\"}\n",
	"Secret":    "apiVersion: v1\nkind: Secret\nmetadata: {namespace: $ns, name: app}\ndata: {a: MQ==}\n",
	"Service":   "apiVersion: v1\nkind: Service\nmetadata: {namespace: $ns, name: app}\nspec: {type: NodePort, selector: {app: a}, ports: [{name: http, port: 80}]}\n",
	"Deployment": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: $ns, name: app}\nspec: {replicas: 1, selector: {matchLabels: {app: deployment}}, template: {metadata: {labels: {app: deployment, resources.gardener.cloud/managed-by: gardener}}, " +
		"spec: {containers: [{name: app, image: \"example.org/app:1\", env: [{name: A, value: \"1\"}]}]}}}\n",
	"StatefulSet": "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {namespace: $ns, name: app}\nspec: {replicas: 1, serviceName: app, selector: {matchLabels: {app: set}}, template: {metadata: {labels: {app: set, resources.gardener.cloud/managed-by: gardener}}, " +
		"spec: {containers: [{name: app, image: \"example.org/app:1\"}]}}}\n",
	"DaemonSet": "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {namespace: $ns, name: app}\nspec: {selector: {matchLabels: {app: daemon}}, template: {metadata: {labels: {app: daemon, resources.gardener.cloud/managed-by: gardener}}, " +
		"spec: {nodeSelector: {kubernetes.io/hostname: node-0}, containers: [{name: app, image: \"example.org/app:1\"}]}}}\n",
	"NetworkPolicy":  "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: $ns, name: app}\nspec: {podSelector: {matchLabels: {app: a}}, policyTypes: [Ingress], ingress: [{ports: [{port: 80, protocol: TCP}]}]}\n",
	"ServiceAccount": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: $ns, name: app}\nautomountServiceAccountToken: false\n",
	"CustomResourceDefinition": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.$ns.trellis.test}\nspec: {group: $ns.trellis.test, scope: Cluster, names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}, " +
		"versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}]}\n---\n" +
		"apiVersion: $ns.trellis.test/v1\nkind: Thing\nmetadata: {name: one}\nspec: {height: 3, colours: [red]}\n",
}

// Adoption changes the owner of an object, and not its content.
func TestAdoptionChangesOwnershipOnly(t *testing.T) {
	t.Parallel()
	for creator, create := range creators {
		t.Run("from "+creator, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.awaitDefaultServiceAccount()
			var objects []*unstructured.Unstructured
			for _, manifest := range adopted {
				for _, obj := range p.objects(manifest) {
					p.Eventually(func() error { // a kind is served a moment after it was defined
						_, err := target.Client.RESTMapper().RESTMapping(obj.GroupVersionKind().GroupKind(), obj.GroupVersionKind().Version)
						return err
					}).Should(Succeed())
					objects = append(objects, obj)
					create(p, obj.DeepCopy())
				}
			}
			p.Eventually(func() []types.UID { return p.running() }).Should(HaveLen(3))
			before := map[*unstructured.Unstructured]*unstructured.Unstructured{}
			for _, obj := range objects {
				p.Eventually(func() any { return p.value(obj, "status.observedGeneration") }).Should(Or(BeNil(), Equal(p.value(obj, "metadata.generation"))))
				if obj.GetKind() == "Deployment" { // its ReplicaSet says what it has after the pods are there
					p.Eventually(func() any { return p.value(obj, "status.readyReplicas") }).Should(Equal(p.value(obj, "spec.replicas")))
				}
				before[obj] = p.live(obj)
			}
			pods, sets := p.pods(), p.replicaSets()

			if creator == resourceManager {
				p.manage("mr", objects, func(mr *resourcesv1alpha1.ManagedResource) {
					mr.Annotations = map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
					mr.Finalizers = []string{"resources.gardener.cloud/gardener-resource-manager"}
				})
				p.listAsItsOwn("mr", objects)
			} else {
				p.manage("mr", objects)
			}
			p.awaitReady("mr")
			for _, obj := range objects {
				was, is := before[obj], p.live(obj)
				what := is.GetKind()
				p.Expect(is.GetUID()).To(Equal(was.GetUID()), what)
				p.Expect(payloadOf(is)).To(Equal(payloadOf(was)), what)
				// An API server counts a change of a Deployment's annotations as one of its generation, and an object without an
				// origin has to get one.
				if what != "Deployment" || was.GetAnnotations()[resourcesv1alpha1.OriginAnnotation] != "" {
					p.Expect(is.GetGeneration()).To(Equal(was.GetGeneration()), what)
				}
				p.Expect(is.GetAnnotations()).To(HaveKeyWithValue(resourcesv1alpha1.OriginAnnotation, p.ns+"/mr"), what)
				p.Expect(is.GetLabels()).To(HaveKeyWithValue(resourcesv1alpha1.ManagedByLabel, "gardener"), what)
			}
			p.Expect(p.pods()).To(Equal(pods), "no pod was replaced")
			p.Expect(p.replicaSets()).To(Equal(sets))
			p.Expect(p.corrections()).To(BeEmpty())

			// From now on it is the manifest that counts, also for what the creator once wanted.
			cm := p.objects(strings.Replace(adopted["ConfigMap"], `a: "1"`, `b: "2"`, 1))[0]
			p.manage("mr", append([]*unstructured.Unstructured{cm}, without(objects, "ConfigMap")...))
			p.Eventually(func() any { return p.value(cm, "data") }).Should(Equal(map[string]any{"b": "2"}))
			p.awaitReady("mr")
			p.Expect(p.pods()).To(Equal(pods))
		})
	}
}

// listAsItsOwn writes the inventory that a resource manager leaves, and has the ManagedResource, which was ignored,
// kept.
func (p place) listAsItsOwn(name string, objects []*unstructured.Unstructured) {
	p.t.Helper()
	p.Eventually(func() error {
		mr := p.mr(name)
		mr.Status.Resources = nil
		for _, obj := range objects {
			mr.Status.Resources = append(mr.Status.Resources, resourcesv1alpha1.ObjectReference{
				ObjectReference: corev1.ObjectReference{APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()},
				Labels:          obj.GetLabels(),
			})
		}
		if err := source.Client.Status().Update(p.ctx, mr); err != nil {
			return err
		}
		delete(mr.Annotations, resourcesv1alpha1.IgnoreAnnotation)
		return source.Client.Update(p.ctx, mr)
	}).Should(Succeed())
}

func without(objects []*unstructured.Unstructured, kind string) (out []*unstructured.Unstructured) {
	for _, obj := range objects {
		if obj.GetKind() != kind {
			out = append(out, obj)
		}
	}
	return out
}

// replicaSets lists the UIDs of all ReplicaSets of the namespace with their numbers of pods.
func (p place) replicaSets() map[types.UID]int32 {
	p.t.Helper()
	list := &appsv1.ReplicaSetList{}
	p.Expect(target.Client.List(p.ctx, list, client.InNamespace(p.ns))).To(Succeed())
	out := map[types.UID]int32{}
	for _, set := range list.Items {
		out[set.UID] = set.Status.Replicas
	}
	return out
}
