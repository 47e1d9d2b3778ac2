package apply_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/engine/apply"
)

// workload is a kind with a pod template.
func workload(kind, extra string) func(ns, annotations, spec, container string) string {
	return func(ns, annotations, spec, container string) string {
		return fmt.Sprintf(`
apiVersion: apps/v1
kind: %s
metadata: {namespace: %s, name: web, annotations: {%s}}
spec:
  %s
  %s
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers: [{name: init, image: example/init:1, resources: {requests: {cpu: 10m}}}]
      containers:
      - {name: web, image: example/web:1, %s}
      - {name: side, image: example/side:1}
`, kind, ns, annotations, extra, spec, container)
	}
}

var deploymentWith, statefulSetWith, daemonSetWith = workload("Deployment", ""), workload("StatefulSet", "serviceName: web"), workload("DaemonSet", "")

const (
	keepReplicas  = `resources.gardener.cloud/preserve-replicas: "true"`
	keepResources = `resources.gardener.cloud/preserve-resources: "true"`
)

// kept is what became of a field: a path as in JSON with indexes, and its value.
type kept map[string]any

func expectKept(g *WithT, obj *unstructured.Unstructured, want kept) {
	for path, v := range want {
		if v == nil {
			g.Expect(find(obj.Object, path)).To(BeNil(), path)
			continue
		}
		g.Expect(find(obj.Object, path)).To(BeEquivalentTo(v), path)
	}
}

// find follows a path of fields and indexes.
func find(v any, path string) any {
	for step := range strings.SplitSeq(path, "|") {
		switch t := v.(type) {
		case map[string]any:
			v = t[step]
		case []any:
			i := 0
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(t) {
				return nil
			}
			v = t[i]
		default:
			return nil
		}
	}
	return v
}

func TestMR24_MR25_BUG15_LiveValuesThatWin(t *testing.T) {
	scale := func(n int) string { return fmt.Sprintf(`{"spec":{"replicas":%d}}`, n) }
	cpu := func(name, requests string) string {
		return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"resources":{"requests":%s}}]}}}}`, name, requests)
	}
	const webResources = "spec|template|spec|containers|0|resources|"
	for name, c := range map[string]struct {
		first, now string // manifests with %[1]s for the namespace
		autoscaled bool
		change     string // between the two, as a strategic merge patch
		sub        string // subresource of the change
		want       kept
		taken      bool
	}{
		"MR24 replicas are undone":                     {first: deploymentWith("%[1]s", "", "replicas: 2", ""), change: scale(5), want: kept{"spec|replicas": 2}},
		"MR24 replicas by scale are undone":            {first: deploymentWith("%[1]s", "", "replicas: 2", ""), change: scale(5), sub: "scale", want: kept{"spec|replicas": 2}},
		"MR24 preserved replicas":                      {first: deploymentWith("%[1]s", keepReplicas, "replicas: 2", ""), change: scale(5), want: kept{"spec|replicas": 5}},
		"replicas that the manifest omits":             {first: deploymentWith("%[1]s", "", "", ""), change: scale(5), want: kept{"spec|replicas": 5}},
		"replicas that the manifest omits from now on": {first: deploymentWith("%[1]s", "", "replicas: 2", ""), now: deploymentWith("%[1]s", "", "", ""), want: kept{"spec|replicas": 2}},
		"autoscaled replicas":                          {first: deploymentWith("%[1]s", "", "replicas: 2", ""), autoscaled: true, change: scale(5), sub: "scale", want: kept{"spec|replicas": 5}},
		"autoscaled replicas of a StatefulSet":         {first: statefulSetWith("%[1]s", "", "replicas: 2", ""), autoscaled: true, change: scale(5), sub: "scale", want: kept{"spec|replicas": 5}},
		"preserved replicas of a StatefulSet":          {first: statefulSetWith("%[1]s", keepReplicas, "replicas: 2", ""), change: scale(5), want: kept{"spec|replicas": 5}},
		"BUG15 preservation is said exactly": {first: deploymentWith("%[1]s", `resources.gardener.cloud/preserve-replicas: "True"`, "replicas: 2", ""), change: scale(5),
			want: kept{"spec|replicas": 2}},
		"preserved replicas and other changes": {first: deploymentWith("%[1]s", keepReplicas, "replicas: 2", ""), change: `{"spec":{"replicas":5,"minReadySeconds":7}}`, taken: true,
			want: kept{"spec|replicas": 5, "spec|minReadySeconds": nil}},

		"MR25 resources are undone": {first: deploymentWith("%[1]s", "", "", "resources: {requests: {cpu: 10m}}"), change: cpu("web", `{"cpu":"99m"}`), want: kept{webResources + "requests|cpu": "10m"}},
		"MR25 preserved resources": {first: deploymentWith("%[1]s", keepResources, "", "resources: {requests: {cpu: 10m, memory: 5Mi}}"), change: cpu("web", `{"cpu":"99m"}`),
			want: kept{webResources + "requests|cpu": "99m", webResources + "requests|memory": "5Mi"}},
		"preserved resources that the manifest does not have": {first: daemonSetWith("%[1]s", keepResources, "", ""), change: cpu("web", `{"cpu":"99m"}`), want: kept{webResources + "requests|cpu": "99m"}},
		"preserved resources that the manifest drops": {
			first: statefulSetWith("%[1]s", keepResources, "", "resources: {requests: {cpu: 10m}}"), now: statefulSetWith("%[1]s", keepResources, "", ""), want: kept{webResources + "requests|cpu": "10m"}},
		"preserved resources that the manifest adds to": {
			first: statefulSetWith("%[1]s", keepResources, "", ""), now: statefulSetWith("%[1]s", keepResources, "", "resources: {limits: {memory: 7Mi}}"), change: cpu("web", `{"cpu":"99m"}`),
			want: kept{webResources + "requests|cpu": "99m", webResources + "limits|memory": "7Mi"}},
		"other resources are not preserved": {first: deploymentWith("%[1]s", keepResources, "", "resources: {requests: {cpu: 10m}}"), taken: true,
			change: cpu("web", `{"cpu":"99m","ephemeral-storage":"1Mi"}`), want: kept{webResources + "requests|cpu": "99m", webResources + "requests|ephemeral-storage": nil}},
		"resources of init containers are not preserved": {first: deploymentWith("%[1]s", keepResources, "", ""),
			change: `{"spec":{"template":{"spec":{"initContainers":[{"name":"init","resources":{"requests":{"cpu":"99m"}}}]}}}}`,
			want:   kept{"spec|template|spec|initContainers|0|resources|requests|cpu": "10m"}},
		"preserved resources of a container of another client go with it": {first: deploymentWith("%[1]s", keepResources,
			"", ""), taken: true,
			change: `{"spec":{"template":{"spec":{"containers":[{"name":"other","image":"a","resources":{"requests":{"cpu":"99m"}}}]}}}}`,
			want:   kept{"spec|template|spec|containers|2": nil}},

		"X12 a restart": {first: daemonSetWith("%[1]s", "", "", ""), change: `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`,
			want: kept{"spec|template|metadata|annotations|kubectl.kubernetes.io/restartedAt": "now"}},
		"a restart beside another annotation": {first: deploymentWith("%[1]s", "", "", ""), taken: true,
			change: `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now","other":"1"}}}}}`,
			want:   kept{"spec|template|metadata|annotations|kubectl.kubernetes.io/restartedAt": "now", "spec|template|metadata|annotations|other": nil}},
		"a restart over one of the manifest": {first: strings.ReplaceAll(deploymentWith("%[1]s", "", "", ""), "labels: {app: web}}\n    spec", "labels: {app: web}, annotations: {kubectl.kubernetes.io/restartedAt: once}}\n    spec"),
			change: `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`,
			want:   kept{"spec|template|metadata|annotations|kubectl.kubernetes.io/restartedAt": "now"}},
		"a restart that the manifest drops": {first: strings.ReplaceAll(deploymentWith("%[1]s", "", "", ""), "labels: {app: web}}\n    spec", "labels: {app: web}, annotations: {kubectl.kubernetes.io/restartedAt: once}}\n    spec"),
			now:  deploymentWith("%[1]s", "", "", ""),
			want: kept{"spec|template|metadata|annotations|kubectl.kubernetes.io/restartedAt": "once"}},

		"secrets of a ServiceAccount": {
			first:  "apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: %[1]s, name: web}\nsecrets: [{name: a}]\nimagePullSecrets: [{name: a}]\n",
			change: `{"secrets":[{"name":"b"}],"imagePullSecrets":[{"name":"b"}]}`,
			want:   kept{"secrets|0|name": "b", "imagePullSecrets|0|name": "b"}},
		"secrets of a ServiceAccount that the manifest drops": {
			first: "apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: %[1]s, name: web}\nsecrets: [{name: a}]\nimagePullSecrets: [{name: a}]\n",
			now:   "apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: %[1]s, name: web}\n",
			want:  kept{"secrets|0|name": "a", "imagePullSecrets|0|name": "a"}},
		"finalizers that the manifest drops": {
			first: "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %[1]s, name: web, finalizers: [example.com/a]}\n",
			now:   "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %[1]s, name: web}\n", want: kept{"metadata|finalizers|0": "example.com/a"}},
		"finalizers that the manifest adds": {
			first: "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %[1]s, name: web}\n",
			now:   "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %[1]s, name: web, finalizers: [example.com/a]}\n", want: kept{"metadata|finalizers": nil}},
		"claim templates of a StatefulSet": {
			first: statefulSetWith("%[1]s", "", "volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]", ""),
			now:   statefulSetWith("%[1]s", "", "volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}]", ""),
			want:  kept{"spec|volumeClaimTemplates|0|spec|resources|requests|storage": "1Gi"}},
		"claim templates that the manifest drops": {
			first: statefulSetWith("%[1]s", "", "volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]", ""),
			now:   statefulSetWith("%[1]s", "", "", ""),
			want:  kept{"spec|volumeClaimTemplates|0|spec|resources|requests|storage": "1Gi"}},
		"selector and labels of a Job": {
			first: "apiVersion: batch/v1\nkind: Job\nmetadata: {namespace: %[1]s, name: web}\nspec: {template: {metadata: {labels: {a: '1', b: '1'}}, spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}\n",
			now:   "apiVersion: batch/v1\nkind: Job\nmetadata: {namespace: %[1]s, name: web}\nspec: {parallelism: 3, template: {metadata: {labels: {a: '1'}}, spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}\n",
			want:  kept{"spec|template|metadata|labels|b": "1", "spec|parallelism": 3, "spec|completions": 1}},
		"a restart in a CronJob": {taken: true,
			first:  "apiVersion: batch/v1\nkind: CronJob\nmetadata: {namespace: %[1]s, name: web}\nspec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}}\n",
			change: `{"spec":{"suspend":true,"jobTemplate":{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}}}`,
			want:   kept{"spec|jobTemplate|spec|template|metadata|annotations|kubectl.kubernetes.io/restartedAt": "now"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			if c.now == "" {
				c.now = c.first
			}
			intent := func(text string) apply.Intent {
				in := prepare(t, manifest(t, fmt.Sprintf(text, ns)))[0]
				in.SetAutoscaled(c.autoscaled)
				return in
			}
			first := applier.Run(t.Context(), access, []apply.Intent{intent(c.first)}, nil)[0]
			g.Expect(first.Err).NotTo(HaveOccurred())
			obj := live(t, intent(c.first).Object)
			if c.change != "" {
				writer := cluster.Client
				patch := client.RawPatch(types.StrategicMergePatchType, []byte(c.change))
				var err error
				if c.sub != "" {
					scaled := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": find(manifest(t, "kind: Scale\nspec: "+c.change[len(`{"spec":`):len(c.change)-1]).Object, "spec")}}
					err = writer.SubResource(c.sub).Update(t.Context(), obj, client.WithSubResourceBody(scaled), client.FieldOwner("scaler"))
				} else {
					err = writer.Patch(t.Context(), obj.DeepCopy(), patch, client.FieldOwner("someone"))
				}
				g.Expect(err).NotTo(HaveOccurred())
			}
			uids := []types.UID{"", first.UID} // an object whose UID is known is sent in another way
			var last apply.Outcome
			for i, uid := range uids {
				in := intent(c.now)
				in.UID = uid
				out := applier.Run(t.Context(), access, []apply.Intent{in}, nil)[0]
				g.Expect(out.Err).NotTo(HaveOccurred())
				g.Expect(out.UID).To(Equal(first.UID))
				expectKept(g, live(t, obj), c.want)
				if i == 0 {
					took := len(out.TakenBack) > 0
					g.Expect(took).To(Equal(c.taken), "%v", out.TakenBack)
				} else {
					g.Expect(out.TakenBack).To(BeEmpty())
					g.Expect(out.ResourceVersion).To(Equal(last.ResourceVersion), "applying again changes nothing")
					g.Expect(out.State).To(Equal(last.State))
				}
				last = out
			}
		})
	}
}

// Beginning to preserve something is no reason to change it. (A Deployment's generation would rise with any
// annotation.)
func TestPreservationChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		by          string // a change by another client, which owns the field from then on
		annotations string
		autoscaled  bool
	}{
		"replicas by an annotation":  {annotations: keepReplicas},
		"replicas by an autoscaler":  {autoscaled: true},
		"resources":                  {annotations: keepResources},
		"replicas that others set":   {annotations: keepReplicas, by: `{"spec":{"replicas":4}}`},
		"an autoscaler that scaled":  {autoscaled: true, by: `{"spec":{"replicas":4}}`},
		"resources that others set":  {annotations: keepResources, by: `{"spec":{"template":{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"77m"}}}]}}}}`},
		"both at once and no change": {annotations: keepResources + ", " + keepReplicas, autoscaled: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			const container = "resources: {requests: {cpu: 10m, memory: 5Mi}}"
			first := run1(t, statefulSetWith(ns, "", "replicas: 2", container))
			g.Expect(first.Err).NotTo(HaveOccurred())
			obj := live(t, manifest(t, statefulSetWith(ns, "", "", "")))
			if c.by != "" {
				g.Expect(cluster.Client.Patch(t.Context(), obj, client.RawPatch(types.StrategicMergePatchType, []byte(c.by)), client.FieldOwner("someone"))).To(Succeed())
			}
			before := live(t, obj)
			in := prepare(t, manifest(t, statefulSetWith(ns, c.annotations, "replicas: 2", container)))[0]
			plain := in.Digest
			in.SetAutoscaled(c.autoscaled)
			changed := in.Digest != plain
			g.Expect(changed).To(Equal(c.autoscaled))
			out := applier.Run(t.Context(), access, []apply.Intent{in}, nil)[0]
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.TakenBack).To(BeEmpty())
			after := live(t, obj)
			g.Expect(after.GetGeneration()).To(Equal(before.GetGeneration()))
			g.Expect(after.Object["spec"]).To(Equal(before.Object["spec"]))
		})
	}
}

// While nothing changes, the live object is read only where the rules have to.
func TestReadsAreRare(t *testing.T) {
	counting := &countingClient{Client: cluster.Client}
	counted := access
	counted.Client = counting
	for name, c := range map[string]struct {
		text func(ns string) string
		read bool
	}{
		"a ConfigMap":     {text: func(ns string) string { return configMap(ns, "a", "1") }},
		"a Deployment":    {text: func(ns string) string { return deploymentWith(ns, "", "replicas: 2", "") }},
		"a plain Service": {text: func(ns string) string { return serviceWith(ns, "", "{name: a, port: 80}") }},
		"an account": {text: func(ns string) string {
			return "apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: " + ns + ", name: web}\nsecrets: [{name: a}]\n"
		}},
		"omitted replicas":            {text: func(ns string) string { return deploymentWith(ns, "", "", "") }, read: true},
		"a Service of a loadbalancer": {text: func(ns string) string { return serviceWith(ns, "type: LoadBalancer,", "{name: a, port: 80}") }, read: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			text := c.text(namespace(t))
			first := run1(t, text)
			g.Expect(first.Err).NotTo(HaveOccurred())
			counting.gets = 0
			in := prepare(t, manifest(t, text))
			in[0].UID, in[0].Same = first.UID, true
			out := applier.Run(t.Context(), counted, in, nil)[0]
			g.Expect(out.Err).NotTo(HaveOccurred())
			read := counting.gets > 0
			g.Expect(read).To(Equal(c.read))
		})
	}
}
