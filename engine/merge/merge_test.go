package merge_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/engine/merge"
)

// y reads YAML as a bundle would.
func y(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	obj := &unstructured.Unstructured{}
	NewWithT(t).Expect(obj.UnmarshalJSON(raw)).To(Succeed())
	return obj
}

// expectMerged merges in full and compares everything but the metadata, unless it is asked for.
func expectMerged(t *testing.T, desired, live, want string, o merge.Options) {
	t.Helper()
	g := NewWithT(t)
	got, err := merge.Object(y(t, desired), y(t, live), o)
	g.Expect(err).NotTo(HaveOccurred())
	expected := y(t, want)
	if _, asked := expected.Object["metadata"]; !asked {
		delete(got.Object, "metadata")
	}
	g.Expect(got.Object).To(Equal(expected.Object))
}

func TestMR27Metadata(t *testing.T) {
	const head = "{apiVersion: v1, kind: ConfigMap, "
	for name, c := range map[string]struct{ desired, live, want string }{
		"no desired metadata keeps live's":  {head + "data: {a: b}}", head + "metadata: {name: a, uid: u, resourceVersion: '1', finalizers: [f]}}", head + "metadata: {name: a, uid: u, resourceVersion: '1', finalizers: [f]}, data: {a: b}}"},
		"desired finalizers come too late":  {head + "metadata: {name: a, finalizers: [g]}}", head + "metadata: {name: a, uid: u}}", head + "metadata: {name: a, uid: u}}"},
		"owner references are removed":      {head + "metadata: {name: a}}", head + "metadata: {name: a, ownerReferences: [{uid: x}]}}", head + "metadata: {name: a}}"},
		"owner references are replaced":     {head + "metadata: {name: a, ownerReferences: [{uid: new}]}}", head + "metadata: {name: a, ownerReferences: [{uid: x}]}}", head + "metadata: {name: a, ownerReferences: [{uid: new}]}}"},
		"status is kept":                    {head + "metadata: {name: a}, status: {a: desired}}", head + "metadata: {name: a}, status: {a: live}}", head + "metadata: {name: a}, status: {a: live}}"},
		"status of the manifest is dropped": {head + "metadata: {name: a}, status: {a: desired}}", head + "metadata: {name: a}}", head + "metadata: {name: a}}"},
		"an empty status is dropped":        {head + "metadata: {name: a}}", head + "metadata: {name: a}, status: {}}", head + "metadata: {name: a}}"},
		"live-only payload goes":            {head + "metadata: {name: a}, data: {a: b}}", head + "metadata: {name: a}, data: {a: c, d: e}, binaryData: {x: eA==}}", head + "metadata: {name: a}, data: {a: b}}"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, force := range []bool{false, true} {
				expectMerged(t, c.desired, c.live, c.want, merge.Options{ForceLabels: force, ForceAnnotations: force})
			}
		})
	}
}

func TestMR28LabelsAndAnnotations(t *testing.T) {
	type values = map[string]string
	for name, c := range map[string]struct {
		desired, live, base values
		force               bool
		stale               []string
	}{
		"once managed and unchanged":  {live: values{"a": "1"}, base: values{"a": "1"}, stale: []string{"a"}},
		"once managed and changed":    {live: values{"a": "2"}, base: values{"a": "1"}},
		"once managed and gone":       {live: values{}, base: values{"a": "1"}},
		"still managed":               {desired: values{"a": "1"}, live: values{"a": "1"}, base: values{"a": "1"}},
		"never managed":               {live: values{"a": "1"}},
		"forced":                      {desired: values{"b": "1"}, live: values{"a": "1", "b": "2"}, force: true, stale: []string{"a"}},
		"an empty value is a value":   {live: values{"a": ""}, base: values{"a": ""}, stale: []string{"a"}},
		"forced, though it changed":   {live: values{"a": "2"}, base: values{"a": "1"}, force: true, stale: []string{"a"}},
		"several, in order of keys":   {live: values{"c": "1", "a": "1", "b": "1"}, force: true, stale: []string{"a", "b", "c"}},
		"base and desired, both same": {desired: values{"a": "2"}, live: values{"a": "1"}, base: values{"a": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			desired := y(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
			desired.SetLabels(c.desired)
			desired.SetAnnotations(c.desired)
			o := merge.Options{BaseLabels: c.base, BaseAnnotations: c.base, ForceLabels: c.force, ForceAnnotations: c.force}
			g.Expect(merge.StaleLabels(merge.LabelsOf(desired), c.live, o)).To(Equal(c.stale))
			kind := desired.GroupVersionKind().GroupKind()
			g.Expect(merge.StaleAnnotations(kind, merge.AnnotationsOf(desired), c.live, o)).To(Equal(c.stale))

			live := desired.DeepCopy()
			live.SetLabels(c.live)
			want := values{}
			for _, from := range []values{c.live, c.desired} {
				for k, v := range from {
					want[k] = v
				}
			}
			for _, k := range c.stale {
				delete(want, k)
			}
			merged, err := merge.Object(desired, live, o)
			g.Expect(err).NotTo(HaveOccurred())
			if len(want) == 0 {
				g.Expect(merged.GetLabels()).To(BeNil())
			} else {
				g.Expect(merged.GetLabels()).To(Equal(want))
			}
		})
	}
	t.Run("references for the garbage collector", func(t *testing.T) {
		g := NewWithT(t)
		desired := y(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {annotations: {reference.resources.gardener.cloud/secret-1: x}}}")
		live := values{"reference.resources.gardener.cloud/secret-1": "old", "reference.resources.gardener.cloud/secret-2": "y", "other": "z"}
		g.Expect(merge.StaleAnnotations(desired.GroupVersionKind().GroupKind(), merge.AnnotationsOf(desired), live, merge.Options{})).To(Equal([]string{"reference.resources.gardener.cloud/secret-2"}))
	})
	t.Run("what the control plane notes stays although it is forced", func(t *testing.T) {
		g := NewWithT(t)
		desired := y(t, "{apiVersion: apps/v1, kind: Deployment}")
		o := merge.Options{ForceAnnotations: true, ControlPlane: func(key string) bool { return key == "revision" }}
		g.Expect(merge.StaleAnnotations(desired.GroupVersionKind().GroupKind(), nil, values{"revision": "1", "other": "1"}, o)).To(Equal([]string{"other"}))
	})
}

func TestMR29Service(t *testing.T) {
	spec := func(s string) string { return "{apiVersion: v1, kind: Service, spec: {" + s + "}}" }
	const cluster, node, lb = "clusterIP: 10.0.0.1", "type: NodePort, clusterIP: 10.0.0.1, ports: [{port: 80, nodePort: 30000}]", "type: LoadBalancer, clusterIP: 10.0.0.1, externalTrafficPolicy: Local, healthCheckNodePort: 31000, loadBalancerIP: 1.2.3.4, ports: [{name: a, port: 80, nodePort: 30000}]"
	for name, c := range map[string]struct{ desired, live, want string }{
		"ClusterIP with other ports":             {"type: ClusterIP, ports: [{port: 81}]", cluster + ", ports: [{port: 80}]", "type: ClusterIP, " + cluster + ", ports: [{port: 81}]"},
		"ClusterIP with another address":         {"clusterIP: 10.0.0.2", cluster, "clusterIP: 10.0.0.2"},
		"ClusterIP to headless":                  {"clusterIP: None", cluster, "clusterIP: None"},
		"ClusterIP without a type":               {"ports: [{port: 80}]", "type: ClusterIP, " + cluster, cluster + ", ports: [{port: 80}]"},
		"ClusterIP to NodePort":                  {"type: NodePort, ports: [{port: 80}]", cluster + ", ports: [{port: 80}]", "type: NodePort, " + cluster + ", ports: [{port: 80}]"},
		"ClusterIP to ExternalName":              {"type: ExternalName, externalName: a", cluster, "type: ExternalName, externalName: a"},
		"NodePort by number":                     {"type: NodePort, ports: [{name: x, port: 80}]", node, "type: NodePort, clusterIP: 10.0.0.1, ports: [{name: x, port: 80, nodePort: 30000}]"},
		"NodePort by name":                       {"type: NodePort, ports: [{name: a, port: 81}]", lb, "type: NodePort, clusterIP: 10.0.0.1, loadBalancerIP: 1.2.3.4, ports: [{name: a, port: 81, nodePort: 30000}]"},
		"NodePort by the missing name":           {"type: NodePort, ports: [{port: 81}]", node, "type: NodePort, clusterIP: 10.0.0.1, ports: [{port: 81, nodePort: 30000}]"},
		"NodePort of its own":                    {"type: NodePort, ports: [{port: 80, nodePort: 30001}]", node, "type: NodePort, clusterIP: 10.0.0.1, ports: [{port: 80, nodePort: 30001}]"},
		"NodePort that says zero":                {"type: NodePort, ports: [{port: 80, nodePort: 0}]", node, "type: NodePort, clusterIP: 10.0.0.1, ports: [{port: 80, nodePort: 30000}]"},
		"NodePort of two protocols":              {"type: NodePort, ports: [{name: t, port: 53}, {name: u, port: 53, protocol: UDP}]", "type: NodePort, ports: [{name: t, port: 53, protocol: TCP, nodePort: 30001}, {name: u, port: 53, protocol: UDP, nodePort: 30002}]", "type: NodePort, ports: [{name: t, port: 53, nodePort: 30001}, {name: u, port: 53, protocol: UDP, nodePort: 30002}]"},
		"NodePort whose ports swap numbers":      {"type: NodePort, ports: [{name: a, port: 2}, {name: b, port: 1}]", "type: NodePort, ports: [{name: a, port: 1, nodePort: 30001}, {name: b, port: 2, nodePort: 30002}]", "type: NodePort, ports: [{name: a, port: 2, nodePort: 30001}, {name: b, port: 1, nodePort: 30002}]"},
		"NodePort with a new port":               {"type: NodePort, ports: [{name: b, port: 81}]", lb, "type: NodePort, clusterIP: 10.0.0.1, loadBalancerIP: 1.2.3.4, ports: [{name: b, port: 81}]"},
		"no two ports get one node port":         {"type: NodePort, ports: [{name: a, port: 81}, {name: b, port: 80}]", lb, "type: NodePort, clusterIP: 10.0.0.1, loadBalancerIP: 1.2.3.4, ports: [{name: a, port: 81, nodePort: 30000}, {name: b, port: 80}]"},
		"NodePort to ClusterIP":                  {"ports: [{port: 80}]", node, cluster + ", ports: [{port: 80}]"},
		"LoadBalancer to LoadBalancer":           {"type: LoadBalancer, externalTrafficPolicy: Local, ports: [{name: a, port: 80}]", lb, lb},
		"LoadBalancer with an address":           {"type: LoadBalancer, loadBalancerIP: 5.6.7.8", lb, "type: LoadBalancer, clusterIP: 10.0.0.1, loadBalancerIP: 5.6.7.8"},
		"LoadBalancer with a health check":       {"type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 32000", lb, "type: LoadBalancer, clusterIP: 10.0.0.1, externalTrafficPolicy: Local, loadBalancerIP: 1.2.3.4, healthCheckNodePort: 32000"},
		"LoadBalancer with other traffic":        {"type: LoadBalancer, externalTrafficPolicy: Cluster", lb, "type: LoadBalancer, clusterIP: 10.0.0.1, externalTrafficPolicy: Cluster, loadBalancerIP: 1.2.3.4"},
		"LoadBalancer to ClusterIP":              {"ports: [{name: a, port: 80}]", lb, cluster + ", ports: [{name: a, port: 80}]"},
		"LoadBalancer to ExternalName":           {"type: ExternalName, externalName: a", lb, "type: ExternalName, externalName: a"},
		"ExternalName to ClusterIP with address": {"clusterIP: 10.0.0.2", "type: ExternalName, externalName: a, clusterIP: 10.0.0.9", "clusterIP: 10.0.0.2"},
		"ExternalName to NodePort":               {"type: NodePort, ports: [{port: 80}]", "type: ExternalName, externalName: a", "type: NodePort, ports: [{port: 80}]"},
		"ExternalName to LoadBalancer":           {"type: LoadBalancer, ports: [{port: 80}]", "type: ExternalName, externalName: a", "type: LoadBalancer, ports: [{port: 80}]"},
	} {
		t.Run(name, func(t *testing.T) { expectMerged(t, spec(c.desired), spec(c.live), spec(c.want), merge.Options{}) })
	}
	t.Run("annotations of OpenStack survive", func(t *testing.T) {
		g := NewWithT(t)
		got, err := merge.Object(y(t, "{apiVersion: v1, kind: Service, metadata: {annotations: {loadbalancer.openstack.org/a: ours}}}"),
			y(t, "{apiVersion: v1, kind: Service, metadata: {annotations: {loadbalancer.openstack.org/a: theirs, loadbalancer.openstack.org/b: theirs, other: x}}}"), merge.Options{ForceAnnotations: true})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.GetAnnotations()).To(Equal(map[string]string{"loadbalancer.openstack.org/a": "ours", "loadbalancer.openstack.org/b": "theirs"}))
	})
}

func TestMR30Kinds(t *testing.T) {
	for name, c := range map[string]struct{ desired, live, want string }{
		"claim templates before creation": {"{apiVersion: apps/v1, kind: StatefulSet, spec: {volumeClaimTemplates: [{a: desired}]}}", "{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 1, volumeClaimTemplates: [{a: live}]}}",
			"{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 1, volumeClaimTemplates: [{a: desired}]}}"},
		"claim templates after creation": {"{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 2, volumeClaimTemplates: [{a: desired}]}}", "{apiVersion: apps/v1, kind: StatefulSet, metadata: {creationTimestamp: '2026-01-01T00:00:00Z'}, spec: {replicas: 1, volumeClaimTemplates: [{a: live}]}}",
			"{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 2, volumeClaimTemplates: [{a: live}]}}"},
		"claim templates in the old group": {"{apiVersion: extensions/v1beta1, kind: StatefulSet, spec: {volumeClaimTemplates: [{a: desired}]}}", "{apiVersion: extensions/v1beta1, kind: StatefulSet, metadata: {creationTimestamp: '2026-01-01T00:00:00Z'}, spec: {volumeClaimTemplates: [{a: live}]}}",
			"{apiVersion: extensions/v1beta1, kind: StatefulSet, spec: {volumeClaimTemplates: [{a: live}]}}"},
		"selector and labels of a Job, nil": {"{apiVersion: batch/v1, kind: Job, spec: {template: {}}}", "{apiVersion: batch/v1, kind: Job, spec: {selector: {a: live}, template: {metadata: {labels: {a: live}}}}}",
			"{apiVersion: batch/v1, kind: Job, spec: {selector: {a: live}, template: {metadata: {labels: {a: live}}}}}"},
		"selector and labels of a Job, set": {"{apiVersion: batch/v1, kind: Job, spec: {selector: {a: desired}, template: {metadata: {labels: {a: desired, b: desired}}}}}", "{apiVersion: batch/v1, kind: Job, spec: {selector: {a: live}, template: {metadata: {labels: {a: live, c: live}}}}}",
			"{apiVersion: batch/v1, kind: Job, spec: {selector: {a: live}, template: {metadata: {labels: {a: desired, b: desired, c: live}}}}}"},
		"a CronJob": {"{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {}}}}}", "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: now, other: x}}}}}}}",
			"{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: now}}}}}}}"},
		"a CronJob, beta": {"{apiVersion: batch/v1beta1, kind: CronJob, spec: {}}", "{apiVersion: batch/v1beta1, kind: CronJob, spec: {a: b}}", "{apiVersion: batch/v1beta1, kind: CronJob, spec: {}}"},
		"a ServiceAccount": {"{apiVersion: v1, kind: ServiceAccount, secrets: [{name: desired}], imagePullSecrets: [{name: desired}]}", "{apiVersion: v1, kind: ServiceAccount, secrets: [{name: live}]}",
			"{apiVersion: v1, kind: ServiceAccount, secrets: [{name: live}]}"},
		"replicas that are omitted, old group": {"{apiVersion: extensions/v1beta1, kind: Deployment, spec: {}}", "{apiVersion: extensions/v1beta1, kind: Deployment, spec: {replicas: 3}}", "{apiVersion: extensions/v1beta1, kind: Deployment, spec: {replicas: 3}}"},
		"replicas of another kind":             {"{apiVersion: apps/v1, kind: ReplicaSet, spec: {}}", "{apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 3}}", "{apiVersion: apps/v1, kind: ReplicaSet, spec: {}}"},
		"a CA bundle that the manifest leaves empty": {"{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, webhooks: [{name: a, clientConfig: {}}, {name: b, clientConfig: {caBundle: eA==}}]}",
			"{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, webhooks: [{name: b, clientConfig: {caBundle: eQ==}}, {name: a, clientConfig: {caBundle: eg==}}]}",
			"{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, webhooks: [{name: a, clientConfig: {caBundle: eg==}}, {name: b, clientConfig: {caBundle: eA==}}]}"},
	} {
		t.Run(name, func(t *testing.T) { expectMerged(t, c.desired, c.live, c.want, merge.Options{}) })
	}
	t.Run("a CronJob of an unknown version", func(t *testing.T) {
		o := y(t, "{apiVersion: batch/v2alpha1, kind: CronJob}")
		_, err := merge.Object(o, o, merge.Options{})
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("batch/v2alpha1 are not supported")))
	})
}

// What the hub owns is sent with its live value, what others own is not sent: nothing is given up by leaving it out.
func TestKeepSendsOnlyWhatIsOurs(t *testing.T) {
	const desired = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, finalizers: [ours, gone, theirs], annotations: {resources.gardener.cloud/preserve-resources: "true"}}
spec:
  template: {spec: {containers: [{name: a, resources: {requests: {cpu: 1, memory: 1}, limits: {memory: 1}}}, {name: b}]}}
`
	const live = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, finalizers: [ours, theirs]}
spec:
  replicas: 7
  template: {spec: {containers: [{name: a, resources: {requests: {cpu: 2, memory: 2}}}, {name: b, resources: {limits: {cpu: 2}}}]}}
`
	for name, c := range map[string]struct{ owned, want string }{
		"nothing is ours": {`{}`, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, annotations: {resources.gardener.cloud/preserve-resources: "true"}}
spec:
  template: {spec: {containers: [{name: a, resources: {requests: {}, limits: {memory: 1}}}, {name: b}]}}
`},
		"some is ours": {`{"f:metadata":{"f:finalizers":{"v:\"ours\"":{}}},"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{
"k:{\"name\":\"a\"}":{"f:resources":{"f:requests":{"f:cpu":{}}}},"k:{\"name\":\"b\"}":{"f:resources":{"f:limits":{"f:cpu":{}}}}}}}}}`, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, finalizers: [ours], annotations: {resources.gardener.cloud/preserve-resources: "true"}}
spec:
  replicas: 7
  template: {spec: {containers: [{name: a, resources: {requests: {cpu: 2}, limits: {memory: 1}}}, {name: b, resources: {limits: {cpu: 2}}}]}}
`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			owned := &fieldpath.Set{}
			g.Expect(owned.FromJSON(strings.NewReader(c.owned))).To(Succeed())
			body := y(t, desired)
			g.Expect(merge.Keep(body, y(t, live), owned, merge.Options{})).To(Succeed())
			g.Expect(body.Object).To(Equal(y(t, c.want).Object))
		})
	}
}

func TestMR36DeletionPropagation(t *testing.T) {
	for value, valid := range map[string]bool{"Foreground": true, "Background": true, "Orphan": true, "orphan": false, "": false, "Other": false} {
		t.Run("with "+value, func(t *testing.T) {
			g := NewWithT(t)
			yes, propagation, err := merge.DeleteOnInvalidUpdate(map[string]string{
				"resources.gardener.cloud/delete-on-invalid-update": "T", "resources.gardener.cloud/deletion-propagation-on-invalid-update": value,
			})
			g.Expect(yes).To(BeTrue())
			if !valid {
				g.Expect(err).To(HaveOccurred())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(*propagation)).To(Equal(value))
		})
	}
	g := NewWithT(t)
	yes, propagation, err := merge.DeleteOnInvalidUpdate(nil)
	g.Expect(yes).To(BeFalse())
	g.Expect(propagation).To(BeNil())
	g.Expect(err).NotTo(HaveOccurred())
}
