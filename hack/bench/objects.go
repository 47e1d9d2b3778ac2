package main

import (
	"fmt"
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

var (
	configMapKind  = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secretKind     = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	serviceKind    = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	deploymentKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
)

func configMap(name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q,"labels":{"app":"bench"}},"data":{"key":%q,"text":%q}}`,
		namespace, name, value, text)
}

// mixture is what one ManagedResource of the fixture holds: the kinds that components consist of. value is in its first
// ConfigMap.
func mixture(prefix, value string) []string {
	meta := func(name string) string {
		return fmt.Sprintf(`"metadata":{"namespace":%q,"name":%q,"labels":{"app":"bench"}}`, namespace, prefix+name)
	}
	manifests := []string{
		configMap(prefix+"config-0", value),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount",%s}`, meta("account")),
		fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",%s,"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]}`, meta("role")),
		fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding",%s,"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":%q},`+
			`"subjects":[{"kind":"ServiceAccount","namespace":%q,"name":%q}]}`, meta("binding"), prefix+"role", namespace, prefix+"account"),
	}
	for i := 1; i < 5; i++ {
		manifests = append(manifests, configMap(fmt.Sprintf("%sconfig-%d", prefix, i), "steady"))
	}
	for i := range 2 {
		manifests = append(manifests,
			fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret",%s,"data":{"key":"c3RlYWR5"}}`, meta(fmt.Sprintf("secret-%d", i))),
			fmt.Sprintf(`{"apiVersion":"v1","kind":"Service",%s,"spec":{"selector":{"app":"bench"},"ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":8080}]}}`,
				meta(fmt.Sprintf("service-%d", i))),
			fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment",%s,"spec":{"replicas":2,"selector":{"matchLabels":{"app":"bench"}},"template":{"metadata":{"labels":{"app":"bench"}},`+
				`"spec":{"containers":[{"name":"main","image":"main:1.0","env":[{"name":"MODE","value":"steady"}],"resources":{"requests":{"cpu":"10m","memory":"16Mi"}}}]}}}}`,
				meta(fmt.Sprintf("deployment-%d", i))))
	}
	return append(manifests, fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget",%s,"spec":{"maxUnavailable":1,"selector":{"matchLabels":{"app":"bench"}}}}`, meta("budget")))
}

// editable are the objects of a mixture that get edited.
func editable(prefix string) []victim {
	victims := make([]victim, 0, 11)
	for i := range 5 {
		victims = append(victims, victim{configMapKind, types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("%sconfig-%d", prefix, i)}})
	}
	for i := range 2 {
		for name, kind := range map[string]schema.GroupVersionKind{"secret": secretKind, "service": serviceKind, "deployment": deploymentKind} {
			victims = append(victims, victim{kind, types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("%s%s-%d", prefix, name, i)}})
		}
	}
	return victims
}

// victim is an object that gets edited.
type victim struct {
	kind schema.GroupVersionKind
	key  types.NamespacedName
}

// edit is one way to meddle with an object. Without a patch it is a delete.
type edit struct {
	name  string
	patch string
}

const label = `{"metadata":{"labels":{"app":"edited"}}}`

var edits = map[schema.GroupVersionKind][]edit{
	configMapKind: {
		{"change data", `{"data":{"key":"edited"}}`}, {"add data", `{"data":{"foreign":"added"}}`}, {"remove data", `{"data":{"text":null}}`},
		{"change label", label}, {"delete", ""},
	},
	secretKind:  {{"change data", `{"data":{"key":"ZWRpdGVk"}}`}, {"change label", label}, {"delete", ""}},
	serviceKind: {{"change spec", `{"spec":{"selector":{"app":"edited"}}}`}, {"change label", label}, {"delete", ""}},
	deploymentKind: {
		{"change spec", `{"spec":{"replicas":7}}`}, {"add to spec", `{"spec":{"paused":true}}`},
		{"change label", label}, {"delete", ""},
	},
}

func randomEdit(random *rand.Rand, kind schema.GroupVersionKind) edit {
	return edits[kind][random.IntN(len(edits[kind]))]
}

// samePayload tells whether two states of an object have the same content, apart from what servers assign.
func samePayload(a, b *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(payload(a), payload(b))
}

func payload(u *unstructured.Unstructured) map[string]any {
	out := map[string]any{"labels": u.GetLabels()}
	for _, part := range []string{"data", "spec", "type"} {
		if value, ok := u.Object[part]; ok {
			out[part] = value
		}
	}
	if spec, ok := out["spec"].(map[string]any); ok && u.GetKind() == serviceKind.Kind {
		kept := map[string]any{}
		for key, value := range spec {
			if key != "clusterIP" && key != "clusterIPs" {
				kept[key] = value
			}
		}
		out["spec"] = kept
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
