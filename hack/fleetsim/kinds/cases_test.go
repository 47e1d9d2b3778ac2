package kinds_test

import "strings"

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"%s","labels":{"app":"x"}},"spec":{"selector":{"matchLabels":{"app":"x"}},
"template":{"metadata":{"labels":{"app":"x"}},"spec":{"serviceAccountName":"robot","containers":[{"name":"c","image":"registry/app:v1","args":["-v"],"env":[{"name":"A","value":"1"}],
"ports":[{"containerPort":8080,"name":"http"}],"resources":{"requests":{"cpu":"1000m","memory":"64Mi"},"limits":{"memory":"1Gi"}},
"livenessProbe":{"httpGet":{"path":"/healthz","port":"http"}},"volumeMounts":[{"name":"config","mountPath":"/etc/config"}]}],
"volumes":[{"name":"config","configMap":{"name":"config"}},{"name":"tmp","emptyDir":{}},{"name":"token","projected":{"sources":[{"serviceAccountToken":{"path":"token"}}]}},
{"name":"h","hostPath":{"path":"/x"}},{"name":"s","secret":{"secretName":"s"}}]}}}}`

type testCase struct {
	name  string
	steps []step
	crd   string
}

func named(template, name string) string { return replace(template, name) }

var cases = []testCase{
	{name: "patches of managedFields", steps: []step{
		{verb: "apply", resource: "/v1/configmaps", name: "mf", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mf"},"data":{"a":"b"}}`},
		{verb: "json", resource: "/v1/configmaps", name: "mf", body: `[{"op":"test","path":"/metadata/managedFields/0/manager","value":"test"},{"op":"add","path":"/data/x","value":"y"}]`},
		{verb: "json", resource: "/v1/configmaps", name: "mf", body: `[{"op":"test","path":"/metadata/managedFields/0/manager","value":"nobody"},{"op":"add","path":"/data/x","value":"z"}]`},
		{verb: "json", resource: "/v1/configmaps", name: "mf", body: `[{"op":"copy","from":"/metadata/managedFields/0/manager","path":"/data/owner"}]`},
		{verb: "json", resource: "/v1/configmaps", name: "mf", body: `[{"op":"replace","path":"/metadata/managedFields/0/manager","value":"renamed"}]`},
		{verb: "merge", resource: "/v1/configmaps", name: "mf", body: `{"metadata":{"managedFields":null},"data":{"a":"c"}}`},
		{verb: "merge", resource: "/v1/configmaps", name: "mf", manager: "other", body: `{"metadata":{"managedFields":[{}]},"data":{"a":"d"}}`},
		{verb: "json", resource: "/v1/configmaps", name: "mf", body: `[{"op":"replace","path":"/metadata","value":{"name":"mf","labels":{"l":"m"}}}]`},
	}},
	{name: "applies of what is there", steps: []step{
		{verb: "apply", resource: "/v1/configmaps", name: "again", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"again"},"data":{"a":"b"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "again", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"again"},"data":{"a":"b"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "again", manager: "other", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"again"},"data":{"a":"b"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "again", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"again","resourceVersion":"1"},"data":{"a":"b"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "again", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"again","resourceVersion":"<rv>"},"data":{"a":"b"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "again", body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: again}\ndata: {a: c, a: b}\n"},
		{verb: "apply", resource: "/v1/configmaps", name: "again", validation: "Strict", body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: again}\ndata: {a: c, a: b}\n"},
	}},
	{name: "a ConfigMap", steps: []step{
		{verb: "create", resource: "/v1/configmaps", name: "cm", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"},"data":{"a":"b"}}`},
		{verb: "update", resource: "/v1/configmaps", name: "cm", body: `{"metadata":{"name":"cm"},"data":{"a":"b"}}`},
		{verb: "update", resource: "/v1/configmaps", name: "cm", body: `{"metadata":{"name":"cm","resourceVersion":"1"},"data":{"a":"b"}}`},
		{verb: "update", resource: "/v1/configmaps", name: "cm", manager: "other", body: `{"metadata":{"name":"cm","resourceVersion":"<rv>","labels":{"x":"y"}},"data":{"a":"c","b":"d"}}`},
		{verb: "json", resource: "/v1/configmaps", name: "cm", body: `[{"op":"replace","path":"/metadata/uid","value":"x"}]`},
		{verb: "json", resource: "/v1/configmaps", name: "cm", body: `[{"op":"test","path":"/data/a","value":"x"}]`},
		{verb: "json", resource: "/v1/configmaps", name: "cm", body: `{"op":"test"}`},
		{verb: "json", resource: "/v1/configmaps", name: "cm", body: `[{"op":"add","path":"/data/c","value":"x"},{"op":"remove","path":"/data/b"}]`},
		{verb: "merge", resource: "/v1/configmaps", name: "cm", body: `{"data":{"c":null},"foo":1}`},
		{verb: "merge", resource: "/v1/configmaps", name: "cm", body: `{"metadata":{"name":"other"}}`},
		{verb: "merge", resource: "/v1/configmaps", name: "cm", body: `{"data":{"c":"d"}}`},
		{verb: "strategic", resource: "/v1/configmaps", name: "cm", body: `{"data":{"c":"e"},"foo":1}`},
		{verb: "merge", resource: "/v1/configmaps", name: "cm", body: `{"immutable":true}`},
		{verb: "merge", resource: "/v1/configmaps", name: "missing", body: `{"data":{"c":"d"}}`},
		{verb: "create", resource: "/v1/configmaps", name: "cm2", body: `{"metadata":{"name":"cm2"},"foo":1,"data":{"a":"b","a":"c"}}`},
		{verb: "create", resource: "/v1/configmaps", name: "cm3", validation: "Strict", body: `{"metadata":{"name":"cm3"},"foo":1,"data":{"a":"b","a":"c"}}`},
		{verb: "create", resource: "/v1/configmaps", name: "cm4", validation: "Ignore", body: `{"metadata":{"name":"cm4"},"foo":1,"data":{"a":"b","a":"c"}}`},
		{verb: "create", resource: "/v1/configmaps", name: "cm5", body: `{"metadata":{"name":"C_M"},"data":{"a":"b"}}`},
		{verb: "create", resource: "/v1/configmaps", name: "cm5", body: `{"metadata":{"name":"cm5","resourceVersion":"4"},"data":{"a":"b"}}`},
		{verb: "create", resource: "/v1/configmaps", name: "cm5", body: `{"metadata":{"name":"cm5","namespace":"other"},"data":{"a":"b"}}`},
		{verb: "create", resource: "/v1/configmaps", name: "cm5", body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"cm5"},"data":{"a":"b"}}`},
		{verb: "create", resource: "/v1/configmaps", name: "cm5", body: `{"metadata":{"name":"cm5"},"data":{"a":1}}`},
		{verb: "create", resource: "/v1/configmaps", name: "cm5", body: `{"metadata":{"name":"cm5"},"data":{"a`},
		{verb: "create", resource: "/v1/configmaps", name: "cm5", body: `{"metadata":{"name":"cm5","ownerReferences":[{"name":"x"},{"apiVersion":"v1","kind":"Y","uid":"z"}],"labels":{"a b":"c d"},"finalizers":["x"]},"data":{"ab":"b"}}`},
		{verb: "create", resource: "/v1/configmaps", name: "cm6", body: `{"metadata":{"name":"cm6","uid":"x","creationTimestamp":"2020-01-01T00:00:00Z","deletionTimestamp":"2020-01-01T00:00:00Z","generation":7,"selfLink":"x","finalizers":["example.com/x"],"managedFields":[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:z":{}}}}]},"data":{"a":"b"}}`},
		{verb: "merge", resource: "/v1/configmaps", name: "cm6", body: `{"metadata":{"managedFields":[{}]}}`},
		{verb: "merge", resource: "/v1/configmaps", name: "cm6", body: `{"data":{"x":"y"}}`},
	}},
	{name: "apply of a ConfigMap", steps: []step{
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap"},"data":{"a":"b"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap"},"data":{"a":"b"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ap}\ndata:\n  a: c\n"},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", manager: "other", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap"},"data":{"a":"d","z":"z"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", manager: "other", force: true, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap"},"data":{"a":"d","z":"z"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", manager: "other", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap","uid":"x"},"data":{"a":"d"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap","resourceVersion":"1"},"data":{"a":"d"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap","uid":"<uid>","resourceVersion":"<rv>"},"data":{"a":"e"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap-absent", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap-absent","uid":"x"},"data":{"a":"d"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap-absent", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap-absent","resourceVersion":"1"},"data":{"a":"d"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap"},"foo":1}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap"},"data":{"a":["b"]}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"ap"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: `{"kind":"ConfigMap","metadata":{"name":"ap"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap2"}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap","managedFields":[]}}`},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ap}\ndata:\n  a: c\n  a: d\n"},
		{verb: "apply", resource: "/v1/configmaps", name: "ap", body: "a: b: c"},
	}},
	{name: "a Secret", steps: []step{
		{verb: "create", resource: "/v1/secrets", name: "se", body: `{"metadata":{"name":"se"},"stringData":{"a":"b"},"data":{"c":"ZA=="}}`},
		{verb: "apply", resource: "/v1/secrets", name: "se", force: true, body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"se"},"stringData":{"a":"x","e":"f"}}`},
		{verb: "apply", resource: "/v1/secrets", name: "se", force: true, body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"se"},"stringData":{"a":"x"}}`},
		{verb: "merge", resource: "/v1/secrets", name: "se", body: `{"stringData":{"a":"y"}}`},
	}},
	{name: "a Deployment", steps: []step{
		{verb: "create", resource: "apps/v1/deployments", name: "de", body: named(deployment, "de")},
		{verb: "apply", resource: "apps/v1/deployments", name: "de", body: named(deployment, "de"), force: true, manager: "applier"},
		{verb: "apply", resource: "apps/v1/deployments", name: "de", body: named(deployment, "de"), manager: "applier"},
		{verb: "merge", resource: "apps/v1/deployments", name: "de", body: `{"spec":{"replicas":3},"status":{"replicas":9}}`},
		{verb: "merge", resource: "apps/v1/deployments/status", name: "de", body: `{"spec":{"replicas":7},"metadata":{"annotations":{"a":"b"},"labels":{"q":"r"}},"status":{"replicas":3,"observedGeneration":1}}`, manager: "kcm"},
		{verb: "apply", resource: "apps/v1/deployments/status", name: "de", body: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"de"},"status":{"readyReplicas":2}}`, manager: "sa"},
		{verb: "merge", resource: "apps/v1/deployments", name: "de", body: `{"metadata":{"annotations":{"x":"y"}}}`},
		{verb: "merge", resource: "apps/v1/deployments", name: "de", body: `{"metadata":{"labels":{"x":"y"}}}`},
		{verb: "strategic", resource: "apps/v1/deployments", name: "de", body: `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"other:latest"}]}}}}`},
		{verb: "merge", resource: "apps/v1/deployments", name: "de", body: `{"spec":{"replicas":"x"}}`},
		{verb: "json", resource: "apps/v1/deployments", name: "de", body: `[{"op":"add","path":"/spec/template/spec/foo","value":1}]`},
		{verb: "json", resource: "apps/v1/deployments", name: "de", body: `[{"op":"remove","path":"/spec/replicas"}]`},
		{verb: "apply", resource: "apps/v1/deployments", name: "de3", body: named(deployment, "de3"), manager: "applier"},
		{verb: "apply", resource: "apps/v1/deployments", name: "de3", body: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"de3"},"spec":{"replicas":4,"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"x"},{"name":"c","image":"y"}]}}}}`, manager: "applier"},
		{verb: "apply", resource: "apps/v1/deployments", name: "de3", body: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"de3"},"spec":{"replicas":4,"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"x"},{"name":"d","image":"y"}]}}}}`, manager: "applier"},
	}},
	{name: "other workloads", steps: []step{
		{verb: "create", resource: "apps/v1/statefulsets", name: "st", body: `{"metadata":{"name":"st"},"spec":{"serviceName":"st","selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"initContainers":[{"name":"i","image":"a/b"}],"containers":[{"name":"c","image":"x@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","volumeMounts":[{"name":"data","mountPath":"/data"}]}]}},"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]}}`},
		{verb: "merge", resource: "apps/v1/statefulsets", name: "st", body: `{"spec":{"replicas":3}}`},
		{verb: "create", resource: "batch/v1/cronjobs", name: "cj", body: `{"metadata":{"name":"cj"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"OnFailure","containers":[{"name":"c","image":"x"}]}}}}}}`},
		{verb: "create", resource: "autoscaling/v2/horizontalpodautoscalers", name: "hp", body: `{"metadata":{"name":"hp"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"x","apiVersion":"apps/v1"},"behavior":{"scaleDown":{"stabilizationWindowSeconds":5}}}}`},
		{verb: "create", resource: "policy/v1/poddisruptionbudgets", name: "pd", body: `{"metadata":{"name":"pd"},"spec":{"maxUnavailable":1,"selector":{"matchLabels":{"a":"b"}}}}`},
		{verb: "update", resource: "policy/v1/poddisruptionbudgets", name: "pd", body: `{"metadata":{"name":"pd"},"spec":{"maxUnavailable":2,"selector":{"matchLabels":{"a":"b"}}}}`},
		{verb: "apply", resource: "policy/v1/poddisruptionbudgets", name: "pd", force: true, body: `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"pd"},"spec":{"maxUnavailable":2}}`},
	}},
	{name: "Services", steps: []step{
		{verb: "create", resource: "/v1/services", name: "sv", body: `{"metadata":{"name":"sv"},"spec":{"selector":{"a":"b"},"ports":[{"port":80}]}}`},
		{verb: "update", resource: "/v1/services", name: "sv", body: `{"metadata":{"name":"sv"},"spec":{"selector":{"a":"c"},"ports":[{"port":80}]}}`},
		{verb: "create", resource: "/v1/services", name: "sv2", body: `{"metadata":{"name":"sv2"},"spec":{"clusterIP":"None","selector":{"a":"b"}}}`},
		{verb: "create", resource: "/v1/services", name: "sv3", body: `{"metadata":{"name":"sv3"},"spec":{"type":"ExternalName","externalName":"a.b"}}`},
		{verb: "update", resource: "/v1/services", name: "sv6", body: `{"metadata":{"name":"sv6","uid":"x"},"spec":{"ports":[{"port":80}]}}`},
	}},
	{name: "access and the like", steps: []step{
		{verb: "create", resource: "rbac.authorization.k8s.io/v1/roles", name: "ro", body: `{"metadata":{"name":"ro"}}`},
		{verb: "create", resource: "rbac.authorization.k8s.io/v1/rolebindings", name: "rb", body: `{"metadata":{"name":"rb"},"roleRef":{"kind":"Role","name":"ro"},"subjects":[{"kind":"User","name":"u"},{"kind":"ServiceAccount","name":"s","namespace":"n"}]}`},
		{verb: "create", resource: "rbac.authorization.k8s.io/v1/clusterroles", name: "kinds-cr", body: `{"metadata":{"name":"kinds-cr"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`},
		{verb: "create", resource: "/v1/serviceaccounts", name: "sa", body: `{"metadata":{"name":"sa"}}`},
		{verb: "create", resource: "networking.k8s.io/v1/networkpolicies", name: "np", body: `{"metadata":{"name":"np"},"spec":{"podSelector":{},"egress":[{"ports":[{"port":53}]}]}}`},
		{verb: "create", resource: "networking.k8s.io/v1/ingresses", name: "in", body: `{"metadata":{"name":"in"},"spec":{"rules":[{"host":"a.b","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"x","port":{"number":80}}}}]}}]}}`},
		{verb: "create", resource: "coordination.k8s.io/v1/leases", name: "le", body: `{"metadata":{"name":"le"},"spec":{"holderIdentity":"x","renewTime":"2020-01-01T00:00:00.000000Z"}}`},
		{verb: "update", resource: "coordination.k8s.io/v1/leases", name: "le", body: `{"metadata":{"name":"le"},"spec":{"holderIdentity":"x"}}`},
		{verb: "update", resource: "coordination.k8s.io/v1/leases", name: "le", body: `{"metadata":{"name":"le","resourceVersion":"<rv>"},"spec":{"holderIdentity":"x"}}`},
		{verb: "create", resource: "scheduling.k8s.io/v1/priorityclasses", name: "kinds-pc", body: `{"metadata":{"name":"kinds-pc"},"value":7}`},
		{verb: "create", resource: "storage.k8s.io/v1/storageclasses", name: "kinds-sc", body: `{"metadata":{"name":"kinds-sc"},"provisioner":"a.b/c"}`},
		{verb: "create", resource: "admissionregistration.k8s.io/v1/validatingwebhookconfigurations", name: "kinds-vw", body: `{"metadata":{"name":"kinds-vw"},"webhooks":[{"name":"a.b.c","admissionReviewVersions":["v1"],"sideEffects":"None","clientConfig":{"service":{"name":"x","namespace":"y"}},"namespaceSelector":{"matchLabels":{"no":"where"}},"rules":[{"apiGroups":["x.y"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["zs"]}]}]}`},
		{verb: "create", resource: "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", name: "kinds-mw", body: `{"metadata":{"name":"kinds-mw"},"webhooks":[{"name":"a.b.c","admissionReviewVersions":["v1"],"sideEffects":"None","clientConfig":{"url":"https://x.y/z"},"namespaceSelector":{"matchLabels":{"no":"where"}}}]}`},
		{verb: "create", resource: "apiregistration.k8s.io/v1/apiservices", name: "v1.other.example.org", body: `{"metadata":{"name":"v1.other.example.org"},"spec":{"group":"other.example.org","version":"v1","groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,"service":{"name":"x","namespace":"y"}}}`},
		{verb: "create", resource: "/v1/namespaces", name: "kinds-ns", body: `{"metadata":{"name":"kinds-ns"}}`},
		{verb: "merge", resource: "/v1/namespaces", name: "kinds-ns", body: `{"metadata":{"labels":{"a":"b"}}}`},
		{verb: "create", resource: "/v1/nodes", name: "kinds-no", body: `{"metadata":{"name":"kinds-no"},"status":{"capacity":{"cpu":"2"}}}`},
		{verb: "create", resource: "/v1/resourcequotas", name: "rq", body: `{"metadata":{"name":"rq"},"spec":{"hard":{"pods":"1000"}}}`},
		{verb: "create", resource: "/v1/limitranges", name: "lr", body: `{"metadata":{"name":"lr"},"spec":{"limits":[{"type":"PersistentVolumeClaim","max":{"storage":"100Gi"}}]}}`},
		{verb: "create", resource: "discovery.k8s.io/v1/endpointslices", name: "es", body: `{"metadata":{"name":"es"},"addressType":"IPv4","endpoints":[{"addresses":["1.2.3.4"]}],"ports":[{"port":80}]}`},
	}},
	{name: "a CustomResourceDefinition", steps: []step{
		{verb: "create", resource: "apiextensions.k8s.io/v1/customresourcedefinitions", name: "things.kinds.example.org", body: thing},
	}},
	{name: "a custom resource", crd: widgets, steps: []step{
		{verb: "create", resource: "kinds.example.org/v1/widgets", name: "a", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"a","foo":1},"spec":{"size":3,"color":"red","nested":{"x":null},"bogus":{"a":1}},"status":{"ready":true},"extra":1}`},
		{verb: "update", resource: "kinds.example.org/v1/widgets", name: "a", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":4}}`},
		{verb: "update", resource: "kinds.example.org/v1/widgets", name: "a", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"<rv>"},"spec":{"size":4}}`},
		{verb: "update", resource: "kinds.example.org/v1/widgets", name: "a", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"<rv>"},"spec":{"size":4}}`},
		{verb: "merge", resource: "kinds.example.org/v1/widgets", name: "a", body: `{"spec":{"size":"x"}}`},
		// One at a time: several are reported in any order, by the real server as well.
		{verb: "merge", resource: "kinds.example.org/v1/widgets", name: "a", body: `{"spec":{"size":-1}}`},
		{verb: "merge", resource: "kinds.example.org/v1/widgets", name: "a", body: `{"spec":{"color":"green"}}`},
		{verb: "merge", resource: "kinds.example.org/v1/widgets", name: "a", body: `{"spec":{"size":null}}`},
		{verb: "merge", resource: "kinds.example.org/v1/widgets", name: "a", validation: "Strict", body: `{"spec":{"bogus":1}}`},
		{verb: "merge", resource: "kinds.example.org/v1/widgets", name: "a", body: `{"spec":{"bogus":1}}`},
		{verb: "merge", resource: "kinds.example.org/v1/widgets/status", name: "a", manager: "c", body: `{"spec":{"size":9},"metadata":{"labels":{"a":"b"}},"status":{"ready":true,"replicas":2}}`},
		{verb: "apply", resource: "kinds.example.org/v1/widgets", name: "a", manager: "ap", force: true, body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"a","labels":{"x":"y"}},"spec":{"size":5,"items":[{"name":"a","value":1},{"name":"b"}]}}`},
		{verb: "apply", resource: "kinds.example.org/v1/widgets", name: "a", manager: "ap", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"a","labels":{"x":"y"}},"spec":{"size":5,"items":[{"name":"a","value":1},{"name":"b"}]}}`},
		{verb: "apply", resource: "kinds.example.org/v1/widgets", name: "a", manager: "ap", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":5,"items":[{"name":"a","value":2}],"free":{"x":{"y":1}}}}`},
		{verb: "apply", resource: "kinds.example.org/v1/widgets", name: "a", manager: "ap2", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":6,"items":[{"name":"a","value":3}]}}`},
		{verb: "apply", resource: "kinds.example.org/v1/widgets", name: "a", manager: "ap", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":5,"bogus":1}}`},
		{verb: "apply", resource: "kinds.example.org/v1/widgets", name: "a", manager: "ap", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":"x"}}`},
		{verb: "apply", resource: "kinds.example.org/v1/widgets", name: "a", manager: "ap", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"a","uid":"x"},"spec":{"size":5}}`},
		{verb: "apply", resource: "kinds.example.org/v1/widgets", name: "absent", manager: "ap", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"absent","uid":"x"},"spec":{"size":5}}`},
		{verb: "apply", resource: "kinds.example.org/v1/widgets", name: "new", manager: "ap", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"new"},"spec":{"size":5}}`},
		{verb: "apply", resource: "kinds.example.org/v1beta1/widgets", name: "new", manager: "ap", body: `{"apiVersion":"kinds.example.org/v1beta1","kind":"Widget","metadata":{"name":"new"},"spec":{"size":6}}`},
		{verb: "merge", resource: "kinds.example.org/v1beta1/widgets", name: "new", manager: "old", body: `{"spec":{"size":7}}`},
		{verb: "create", resource: "kinds.example.org/v1/widgets", name: "b", body: `{"apiVersion":"kinds.example.org/v1beta1","kind":"Widget","metadata":{"name":"b"},"spec":{"size":3}}`},
		{verb: "create", resource: "kinds.example.org/v1/widgets", name: "b", body: `{"apiVersion":"kinds.example.org/v1","kind":"Gadget","metadata":{"name":"b"},"spec":{"size":3}}`},
		{verb: "create", resource: "kinds.example.org/v1/widgets", name: "b", body: `{"metadata":{"name":"b"},"spec":{"size":3}}`},
		{verb: "create", resource: "kinds.example.org/v1/widgets", name: "b", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"b","labels":{"a":1}},"spec":{"size":3}}`},
		{verb: "create", resource: "kinds.example.org/v1/widgets", name: "b", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"b"}}`},
		{verb: "create", resource: "kinds.example.org/v1/widgets", name: "b", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"B"},"spec":{"size":3}}`},
		{verb: "create", resource: "kinds.example.org/v1/widgets", name: "b", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"b"},"spec":{"size":3,"size":4,"items":[{"name":"a"},{"name":"a"}]}}`},
		{verb: "create", resource: "kinds.example.org/v1/widgets", name: "b", body: `{"apiVersion":"kinds.ex`},
		{verb: "create", resource: "kinds.example.org/v1/widgets", name: "b", body: `{"kind":"Widget","metadata":{"name":"b"},"spec":{"size":1}}`},
		{verb: "create", resource: "kinds.example.org/v1/widgets", name: "b", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"b","finalizers":["x"]},"spec":{"size":1,"nested":null,"color":null}}`},
		{verb: "strategic", resource: "kinds.example.org/v1/widgets", name: "b", body: `{"spec":{"size":5}}`},
		{verb: "update", resource: "kinds.example.org/v1/widgets", name: "a", body: `{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"a","uid":"x"},"spec":{"size":4}}`},
		{verb: "json", resource: "kinds.example.org/v1/widgets", name: "a", body: `[{"op":"replace","path":"/kind","value":"Other"}]`},
	}},
}

func replace(template, name string) string { return strings.ReplaceAll(template, "%s", name) }

const thing = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.kinds.example.org"},
"spec":{"group":"kinds.example.org","scope":"Namespaced","names":{"kind":"Thing","plural":"things"},"versions":[{"name":"v1","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.kinds.example.org}
spec:
  group: kinds.example.org
  names: {kind: Widget, plural: widgets, shortNames: [wi], categories: [all]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: &sub
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    schema: &schema
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 0}
              replicas: {type: integer}
              color: {type: string, enum: [red, blue], default: blue}
              nested: {type: object, default: {}, properties: {x: {type: string, default: why}}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              items:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, value: {type: integer}}}
          status:
            type: object
            properties: {ready: {type: boolean}, replicas: {type: integer}, selector: {type: string}}
  - name: v1beta1
    served: true
    storage: false
    subresources: *sub
    schema: *schema
`

func replaceAll(s, from, to string) string { return strings.ReplaceAll(s, from, to) }
