package managedresource_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// exempt is payload that others own on purpose. It stays through drift, a forced apply and new content, while a change
// of what the manifest says is undone.
type exempt struct {
	manifest string
	// foreign is a merge patch that adds what has to stay, and stays the check for it.
	foreign string
	stays   map[string]any // path -> value
	// drift is a merge patch that has to be undone, and undone its sign.
	drift  string
	undone map[string]any
}

var nodePorts atomic.Int32

// nodePort is another one for each place. API servers assign the first 86 only to Services that ask for them.
func (p place) nodePort() int32 {
	if p.ns == "" { // only the names of the cases are wanted
		return 0
	}
	return 30000 + nodePorts.Add(1)%86
}

func exempts(p place) map[string]exempt {
	const bundle = "Zm9yZWlnbg==" // "foreign"
	name := p.ns + "-obj"
	webhook := func(kind, extra string) string {
		return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":%q,"metadata":{"name":%q},"webhooks":[{"name":"a.trellis.test",
"clientConfig":{%s"service":{"namespace":"nowhere","name":"nothing"}},"failurePolicy":"Ignore","sideEffects":"None","admissionReviewVersions":["v1"],
"rules":[{"apiGroups":["nothing.trellis.test"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["things"]}]}]}`, kind, name, extra)
	}
	webhookPatch := func(ca, policy string) string {
		return fmt.Sprintf(`{"webhooks":[{"name":"a.trellis.test","clientConfig":{"caBundle":%s,"service":{"namespace":"nowhere","name":"nothing"}},"failurePolicy":%q,"sideEffects":"None","admissionReviewVersions":["v1"],
"rules":[{"apiGroups":["nothing.trellis.test"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["things"]}]}]}`, ca, policy)
	}
	webhookCase := func(kind, extra string) exempt {
		return exempt{
			manifest: webhook(kind, extra),
			foreign:  webhookPatch(`"`+bundle+`"`, "Ignore"), stays: map[string]any{"webhooks.0.clientConfig.caBundle": bundle},
			drift: webhookPatch(`"`+bundle+`"`, "Fail"), undone: map[string]any{"webhooks.0.failurePolicy": "Ignore"},
		}
	}
	service := func(spec string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":%q,"name":"svc"},"spec":{%s"selector":{"app":"a"},"ports":[{"name":"http","port":80}]}}`, p.ns, spec)
	}
	return map[string]exempt{
		"caBundle of validating webhooks":                        webhookCase("ValidatingWebhookConfiguration", ""),
		"caBundle of mutating webhooks":                          webhookCase("MutatingWebhookConfiguration", ""),
		"caBundle of webhooks that the manifest sets to nothing": webhookCase("MutatingWebhookConfiguration", `"caBundle":"",`),
		"caBundle of an APIService": {
			manifest: fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.%s"},
"spec":{"group":%q,"version":"v1","groupPriorityMinimum":100,"versionPriority":100,"service":{"namespace":"nowhere","name":"nothing"}}}`, p.group(), p.group()),
			foreign: `{"spec":{"caBundle":"` + bundle + `"}}`, stays: map[string]any{"spec.caBundle": bundle},
			drift: `{"spec":{"versionPriority":7}}`, undone: map[string]any{"spec.versionPriority": int64(100)},
		},
		"secrets of a ServiceAccount": {
			manifest: fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":%q,"name":"sa"},"automountServiceAccountToken":false}`, p.ns),
			foreign:  `{"secrets":[{"name":"token"}],"imagePullSecrets":[{"name":"pull"}]}`,
			stays:    map[string]any{"secrets.0.name": "token", "imagePullSecrets.0.name": "pull"},
			drift:    `{"automountServiceAccountToken":true}`, undone: map[string]any{"automountServiceAccountToken": false},
		},
		"nodePort and health check of a Service": {
			manifest: service(`"type":"LoadBalancer","externalTrafficPolicy":"Local",`),
			foreign:  fmt.Sprintf(`{"spec":{"ports":[{"name":"http","port":80,"nodePort":%d}],"loadBalancerIP":"192.0.2.7"}}`, p.nodePort()),
			stays:    map[string]any{"spec.ports.0.nodePort": nil, "spec.loadBalancerIP": "192.0.2.7", "spec.clusterIP": nil, "spec.healthCheckNodePort": nil},
			drift:    `{"spec":{"selector":{"app":"b"},"sessionAffinity":"ClientIP"}}`, undone: map[string]any{"spec.selector.app": "a", "spec.sessionAffinity": "None"},
		},
		"rules of an aggregated ClusterRole": {
			manifest: fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"aggregate":"a"}}]}}`, name),
			foreign:  `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`, stays: map[string]any{"rules.0.resources.0": "pods"},
			drift: `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"aggregate":"b"}}]}}`, undone: map[string]any{"aggregationRule.clusterRoleSelectors.0.matchLabels.aggregate": "a"},
		},
		"data of a service account token": {
			manifest: fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"namespace":%q,"name":"token","annotations":{"kubernetes.io/service-account.name":"some"}}}`, p.ns),
			foreign:  `{"data":{"token":"` + bundle + `"}}`, stays: map[string]any{"data.token": bundle},
			drift: `{"metadata":{"annotations":{"resources.gardener.cloud/origin":null}}}`, undone: map[string]any{"metadata.annotations.resources\\.gardener\\.cloud/origin": p.ns + "/mr"},
		},
		"volumeName of a PersistentVolumeClaim": {
			manifest: fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":%q,"name":"pvc","labels":{"mine":"1"}},
"spec":{"storageClassName":"","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`, p.ns),
			foreign: `{"spec":{"volumeName":"volume"}}`, stays: map[string]any{"spec.volumeName": "volume"},
			drift: `{"metadata":{"labels":{"mine":"2"}}}`, undone: map[string]any{"metadata.labels.mine": "1"},
		},
		"claimRef of a PersistentVolume": {
			manifest: fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":%q},
"spec":{"storageClassName":"none","accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"persistentVolumeReclaimPolicy":"Retain","hostPath":{"path":"/nowhere"}}}`, name),
			foreign: `{"spec":{"claimRef":{"namespace":"default","name":"claim"}}}`, stays: map[string]any{"spec.claimRef.name": "claim"},
			drift: `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`, undone: map[string]any{"spec.persistentVolumeReclaimPolicy": "Retain"},
		},
		"nodeName and tolerations of a Pod": {
			manifest: fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":%q,"name":"pod"},"spec":{"automountServiceAccountToken":false,"nodeName":"node","containers":[{"name":"app","image":"example.org/app:1"}]}}`, p.ns),
			foreign:  `{"spec":{"tolerations":[{"key":"foreign","operator":"Exists"},{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]}}`,
			stays:    map[string]any{"spec.tolerations.0.key": "foreign", "spec.nodeName": "node"},
			drift:    `{"spec":{"containers":[{"name":"app","image":"example.org/other:1"}]}}`, undone: map[string]any{"spec.containers.0.image": "example.org/app:1"},
		},
		"spec of a Node": {
			manifest: fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"labels":{"mine":"1"}}}`, name),
			foreign:  `{"spec":{"unschedulable":true}}`, stays: map[string]any{"spec.unschedulable": true},
			drift: `{"metadata":{"labels":{"mine":"2"}}}`, undone: map[string]any{"metadata.labels.mine": "1"},
		},
		"finalizers in the spec of a Namespace": {
			manifest: fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{"mine":"1"}}}`, name),
			foreign:  `{"metadata":{"labels":{"foreign":"1"}}}`, stays: map[string]any{"spec.finalizers.0": "kubernetes"},
			drift: `{"metadata":{"labels":{"mine":"2"}}}`, undone: map[string]any{"metadata.labels.mine": "1"},
		},
	}
}

func TestExemptPayloadStays(t *testing.T) {
	t.Parallel()
	for name := range exempts(place{}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			test := exempts(p)[name]
			p.content("content", test.manifest)
			p.mr("mr", "content")
			p.awaitApplied("mr")
			obj := p.object(test.manifest)
			live := func() map[string]any { return read(p, obj.DeepCopy()).Object }
			uid := read(p, obj.DeepCopy()).GetUID()

			p.patch(obj, test.foreign)
			stays := map[string]any{}
			for path, value := range test.stays {
				if value == nil {
					value = at(live(), path)
				}
				p.Expect(value).NotTo(BeNil(), path)
				p.Expect(at(live(), path)).To(Equal(value), path)
				stays[path] = value
			}
			expectStays := func() {
				t.Helper()
				for path, value := range stays {
					p.Expect(at(live(), path)).To(Equal(value), path)
				}
			}
			p.fence()
			expectStays()

			p.patch(obj, test.drift)
			for path, value := range test.undone {
				p.Eventually(func() any { return at(live(), path) }).Should(Equal(value), func() string { return path + hub.Log.About(p.ns) })
			}
			p.fence()
			expectStays()

			p.operation("mr", resourcesv1alpha1.OperationReconcile)
			p.Eventually(func() map[string]string { return p.get("mr").Annotations }).ShouldNot(HaveKey(resourcesv1alpha1.OperationAnnotation))
			p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.InjectLabels = map[string]string{"injected": "1"} })
			p.awaitApplied("mr")
			p.Eventually(func() any { return at(live(), "metadata.labels.injected") }).Should(Equal("1"))
			expectStays()
			p.Expect(read(p, obj.DeepCopy()).GetUID()).To(Equal(uid))
		})
	}
}

// A caBundle that the manifest does set is payload like any other.
func TestSetCABundleIsKept(t *testing.T) {
	t.Parallel()
	p := registered(t)
	manifest := fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.%s"},
"spec":{"group":%q,"version":"v1","groupPriorityMinimum":100,"versionPriority":100,"caBundle":"b3Vycw==","service":{"namespace":"nowhere","name":"nothing"}}}`, p.group(), p.group())
	p.content("content", manifest)
	p.mr("mr", "content")
	p.awaitApplied("mr")
	obj := p.object(manifest)
	p.patch(obj, `{"spec":{"caBundle":"Zm9yZWlnbg=="}}`)
	p.Eventually(func() any { return at(read(p, obj.DeepCopy()).Object, "spec.caBundle") }).Should(Equal("b3Vycw=="))
}

// A ClusterRole without an aggregation rule has its rules from the manifest alone.
func TestForeignRulesWithoutAggregationAreTakenBack(t *testing.T) {
	t.Parallel()
	p := registered(t)
	manifest := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"%s-obj"}}`, p.ns)
	p.content("content", manifest)
	p.mr("mr", "content")
	p.awaitApplied("mr")
	obj := p.object(manifest)
	p.patch(obj, `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`)
	p.Eventually(func() any { return at(read(p, obj.DeepCopy()).Object, "rules") }).Should(BeNil())
}

// patch changes an object of the target as another client.
func (p place) patch(obj *unstructured.Unstructured, patch string) {
	p.t.Helper()
	p.Expect(target.Client.Patch(p.ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)),
		client.FieldOwner("other-client"))).To(Succeed())
}
