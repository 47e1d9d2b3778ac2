package mask

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
)

func TestValuesOfSecretsAreMasked(t *testing.T) {
	g := NewWithT(t)
	const value = "geheim"
	secret := func() map[string]any {
		return map[string]any{
			"kind": "Secret", "data": map[string]any{"a": "Z2VoZWlt"},
			"stringData": map[string]any{"b": value, "c": int64(7)},
			"metadata": map[string]any{"name": "s",
				"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": value, "other": "x"}},
		}
	}
	given := secret()
	masked := Masked(given)
	g.Expect(fmt.Sprint(masked)).NotTo(Or(ContainSubstring(value), ContainSubstring("Z2Vo")))
	g.Expect(masked["data"]).To(Equal(map[string]any{"a": "(hidden, 6 bytes)"}))
	g.Expect(fmt.Sprint(masked)).To(ContainSubstring("other:x"))
	g.Expect(given).To(Equal(secret()), "what was given is not changed")
	misspelt := map[string]any{"kind": "Secret", "type": "Opaque", "stringdata": map[string]any{"b": value},
		"Data": value, "immutable": true}
	g.Expect(Masked(misspelt)).To(Equal(map[string]any{
		"kind": "Secret", "type": "Opaque", "stringdata": map[string]any{"b": "(hidden, 6 bytes)"},
		"Data": "(hidden)", "immutable": true,
	}))
	g.Expect(Hidden("Secret", "stringdata", "b")).To(BeTrue())
	g.Expect(Hidden("Secret", "type")).To(BeFalse())

	for _, kind := range []string{"List", "SecretList"} {
		item := secret()
		if kind == "SecretList" {
			delete(item, "kind")
		}
		g.Expect(fmt.Sprint(Masked(map[string]any{"kind": kind, "items": []any{item}}))).
			NotTo(Or(ContainSubstring(value), ContainSubstring("Z2Vo")), kind)
	}
	g.Expect(fmt.Sprint(Masked(map[string]any{"kind": "Secret", "data": value}))).NotTo(ContainSubstring(value))
	configMap := map[string]any{"kind": "ConfigMap", "data": map[string]any{"a": value}}
	g.Expect(Masked(configMap)).To(Equal(configMap))
}

func TestValuesOfMisspeltSecretsAreMasked(t *testing.T) {
	const value = "geheim"
	values := map[string]any{"password": value}
	for name, obj := range map[string]map[string]any{
		"a plural":                 {"apiVersion": "v1", "kind": "Secrets", "stringData": values},
		"lower case":               {"apiVersion": "v1", "kind": "secret", "data": values},
		"a typo":                   {"apiVersion": "v1", "kind": "Secert", "data": values},
		"two typos":                {"apiVersion": "v1", "kind": "Secert", "sringData": values},
		"no kind":                  {"apiVersion": "v1", "data": values},
		"no apiVersion":            {"kind": "Secrets", "data": values},
		"no type at all":           {"stringData": values},
		"a wrong apiVersion":       {"apiVersion": "core/v1", "kind": "Secret", "data": values},
		"an impossible apiVersion": {"apiVersion": "a/b/c", "kind": "Secrets", "Data": values},
		"a wrong group and a typo": {"apiVersion": "core/v1", "kind": "Secrets", "data": values},
		"fields of two kinds":      {"apiVersion": "v1", "kind": "ConfigMap", "stringData": values, "data": values},
		"fields in lower case":     {"apiVersion": "core/v1", "kind": "Secrets", "stringdata": values},
		"what kubectl noted of it": {"apiVersion": "v1", "kind": "Secrets",
			"metadata": map[string]any{"annotations": map[string]any{
				"kubectl.kubernetes.io/last-applied-configuration": value}}},
		"a list of a misspelt kind": {"apiVersion": "v1", "kind": "SecretsList",
			"items": []any{map[string]any{"stringData": values}}},
		"an item of a misspelt kind": {"apiVersion": "v1", "kind": "List",
			"items": []any{map[string]any{"apiVersion": "v1", "kind": "Secrets", "data": values}}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(fmt.Sprint(Masked(obj))).To(And(Not(ContainSubstring(value)),
				ContainSubstring("(hidden")))
		})
	}
	for name, obj := range map[string]map[string]any{
		"a ConfigMap": {"apiVersion": "v1", "kind": "ConfigMap", "data": values,
			"binaryData": values},
		"a Deployment":            {"apiVersion": "apps/v1", "kind": "Deployment", "spec": values},
		"a kind in a wrong group": {"apiVersion": "v1", "kind": "Deployment", "spec": values, "status": values},
		"a custom resource": {"apiVersion": "example.org/v1", "kind": "ExternalSecret", "spec": values,
			"rules": []any{value}},
		"a kind that Kubernetes defines": {"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": values},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Masked(obj)).To(Equal(obj))
		})
	}
}
