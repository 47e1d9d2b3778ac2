package bench

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespace is where everything is, in the targets.
const namespace = "bench"

// text is about as much as a ConfigMap has on average.
var text = strings.Repeat("some line of a configuration that nobody will ever read\n", 40)

// The kinds that are edited.
var (
	configMapKind      = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secretKind         = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	serviceAccountKind = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
	serviceKind        = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	roleKind           = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}
	roleBindingKind    = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}
	clusterRoleKind    = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	deploymentKind     = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	networkPolicyKind  = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}
	budgetKind         = schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}
	definitionKind     = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	widgetKind         = schema.GroupVersionKind{Group: "bench.example.com", Version: "v1", Kind: "Widget"}
)

func configMap(name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q,"labels":{"app":"bench"}},"data":{"key":%q,"text":%q}}`,
		namespace, name, value, text)
}

// mixture is what one ManagedResource of the fixture holds: the kinds that components consist of. value is in its first
// ConfigMap.
func mixture(prefix, value string) []string {
	named := func(name string) string {
		return fmt.Sprintf(`"metadata":{"name":%q,"labels":{"app":"bench"}}`, prefix+name)
	}
	meta := func(name string) string {
		return fmt.Sprintf(`"metadata":{"namespace":%q,"name":%q,"labels":{"app":"bench"}}`, namespace, prefix+name)
	}
	const rules = `"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]`
	manifests := []string{
		configMap(prefix+"config-0", value),
		configMap(prefix+"config-1", "steady"),
		configMap(prefix+"config-2", "steady"),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount",%s}`, meta("account")),
		fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",%s,%s}`, meta("role"), rules),
		fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding",%s,"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":%q},`+
			`"subjects":[{"kind":"ServiceAccount","namespace":%q,"name":%q}]}`, meta("binding"), prefix+"role", namespace, prefix+"account"),
		fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole",%s,%s}`, named("role"), rules),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Service",%s,"spec":{"selector":{"app":"bench"},"ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":8080}]}}`, meta("service")),
		fmt.Sprintf(`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy",%s,"spec":{"podSelector":{"matchLabels":{"app":"bench"}},"policyTypes":["Egress"]}}`, meta("policy")),
		fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget",%s,"spec":{"maxUnavailable":1,"selector":{"matchLabels":{"app":"bench"}}}}`, meta("budget")),
		fmt.Sprintf(`{"apiVersion":"bench.example.com/v1","kind":"Widget",%s,"spec":{"size":"steady"}}`, meta("widget")),
	}
	for i := range 2 {
		manifests = append(manifests,
			fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret",%s,"data":{"key":"c3RlYWR5"}}`, meta(fmt.Sprintf("secret-%d", i))),
			fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment",%s,"spec":{"replicas":2,"selector":{"matchLabels":{"app":"bench"}},"template":{"metadata":{"labels":{"app":"bench"}},`+
				`"spec":{"containers":[{"name":"main","image":"main:1.0","env":[{"name":"MODE","value":"steady"}],"resources":{"requests":{"cpu":"10m","memory":"16Mi"}}}]}}}}`,
				meta(fmt.Sprintf("deployment-%d", i))))
	}
	return manifests
}

// definitions are the kinds of a target that it does not come with. Only the first has objects.
func definitions() []string {
	manifests := make([]string, 0, 3)
	for _, kind := range []string{widgetKind.Kind, "Gadget", "Gear"} {
		manifests = append(manifests, definition(kind))
	}
	return manifests
}

func definition(kind string) string {
	singular := strings.ToLower(kind)
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]ss.%[3]s","labels":{"app":"bench"}},`+
		`"spec":{"group":%[3]q,"scope":"Namespaced","names":{"kind":%[2]q,"listKind":"%[2]sList","plural":"%[1]ss","singular":%[1]q},`+
		`"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"string"}}}}}}}]}}`,
		singular, kind, widgetKind.Group)
}

// victim is an object that gets edited.
type victim struct {
	kind     schema.GroupVersionKind
	key      types.NamespacedName
	manifest string
}

// victims are the objects of manifests that get edited.
func victims(manifests []string) []victim {
	out := make([]victim, 0, len(manifests))
	for _, manifest := range manifests {
		u := decode(manifest)
		out = append(out, victim{u.GroupVersionKind(), client.ObjectKeyFromObject(u), manifest})
	}
	return out
}

func decode(manifest string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(manifest)); err != nil {
		panic(err) // they are constants
	}
	return u
}

// edit is one way to change an object. Without a patch it is a delete.
type edit struct {
	name  string
	patch string
}

const label = `{"metadata":{"labels":{"app":"edited"}}}`

var changeLabel = edit{"change label", label}

var remove = edit{"delete", ""}

var edits = map[schema.GroupVersionKind][]edit{
	configMapKind: {
		{"change data", `{"data":{"key":"edited"}}`}, {"add data", `{"data":{"foreign":"added"}}`}, {"remove data", `{"data":{"text":null}}`},
		changeLabel, remove,
	},
	secretKind:         {{"change data", `{"data":{"key":"ZWRpdGVk"}}`}, changeLabel, remove},
	serviceAccountKind: {{"change field", `{"automountServiceAccountToken":false}`}, changeLabel, remove},
	roleKind:           {{"change rule", `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["*"]}]}`}, changeLabel, remove},
	roleBindingKind: {{"change subjects", `{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User",` +
		`"name":"another-user"}]}`}, changeLabel, remove},
	clusterRoleKind: {{"change rule", `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["*"]}]}`},
		changeLabel, remove},
	serviceKind: {
		{"change selector", `{"spec":{"selector":{"app":"edited"}}}`}, {"change port", `{"spec":{"ports":[{"name":"http","port":81,"protocol":"TCP","targetPort":8080}]}}`},
		changeLabel, remove,
	},
	deploymentKind: {
		{"change replicas", `{"spec":{"replicas":7}}`}, {"add to spec", `{"spec":{"paused":true}}`},
		{"change env", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"main:1.0","env":[{"name":"MODE","value":"edited"}]}]}}}}`},
		changeLabel, remove,
	},
	networkPolicyKind: {{"change spec", `{"spec":{"podSelector":{"matchLabels":{"app":"edited"}}}}`}, changeLabel, remove},
	budgetKind:        {{"change spec", `{"spec":{"maxUnavailable":2}}`}, changeLabel, remove},
	definitionKind:    {{"add to spec", `{"spec":{"names":{"shortNames":["edited"]}}}`}, changeLabel}, // a delete takes all objects with it
	widgetKind:        {{"change spec", `{"spec":{"size":"edited"}}`}, changeLabel, remove},
}

func randomEdit(random *rand.Rand, kind schema.GroupVersionKind) edit {
	return edits[kind][random.IntN(len(edits[kind]))]
}

// samePayload reports whether two states of an object have the same content, apart from what servers assign.
func samePayload(a, b *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(payload(a), payload(b))
}

func payload(u *unstructured.Unstructured) map[string]any {
	out := maps.Clone(u.Object)
	for _, part := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(out, part)
	}
	out["labels"] = u.GetLabels()
	if spec, ok := out["spec"].(map[string]any); ok && u.GetKind() == serviceKind.Kind {
		spec = maps.Clone(spec)
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
		out["spec"] = spec
	}
	return out
}

// object is an empty object to be read into.
func object(kind schema.GroupVersionKind, key client.ObjectKey) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	return u
}
