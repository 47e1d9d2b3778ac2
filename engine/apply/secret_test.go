package apply_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/engine/apply"
)

const hidden = "s3cr3t-of-the-user"

func TestPrepareRefusesValuesOfSecretsThatAreNoStrings(t *testing.T) {
	for name, c := range map[string]struct{ fields, says string }{
		"a number":              {"stringData: {user: me, pin: 12345678}", "stringData.pin"},
		"a truth value":         {"stringData: {pin: true}", "stringData.pin"},
		"a map":                 {"data: {pw: {nested: " + hidden + "}}", "data.pw"},
		"a list":                {"data: {pw: [" + hidden + "]}", "data.pw"},
		"text instead of a map": {"data: " + hidden, "data of the Secret is not a map"},
		"a list of values":      {"stringData: [" + hidden + "]", "stringData of the Secret is not a map"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := apply.Prepare(t.Context(),
				manifest(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"+c.fields), nil, mapper(), nil, marks)
			g.Expect(err).To(MatchError(And(ContainSubstring(c.says), Not(ContainSubstring(hidden)), Not(ContainSubstring("12345678")))))
		})
	}
	t.Run("of Secrets only", func(t *testing.T) {
		_, err := apply.Prepare(t.Context(),
			manifest(t, "{apiVersion: example.com/v1, kind: Secret, metadata: {name: a}, data: {pin: 1}}"),
			nil, mapper(), nil, marks)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	})
	t.Run("no value is none", func(t *testing.T) {
		_, err := apply.Prepare(t.Context(),
			manifest(t, "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {pin: null}, stringData: null}"),
			nil, mapper(), nil, marks)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	})
}

// Errors that only the server finds have the value in its answer. It is not reported.
func TestErrorsOfServersHaveNoContentOfSecrets(t *testing.T) {
	for name, c := range map[string]struct{ fields, says string }{
		"a truth value that is text":           {"immutable: " + hidden, "immutable"},
		"text of several lines":                {"immutable: \"one\\n" + hidden + "\"", "immutable"},
		"a type that is a map":                 {"type: {a: " + hidden + "}", "type"},
		"a type that is a map of lines":        {"type: {a: \"one\\n" + hidden + "\"}", "type"},
		"data that is not base64":              {"data: {pw: '" + hidden + "!'}", "base64"},
		"registry credentials that are none":   {"type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: " + hidden + "}", "dockerconfigjson"},
		"a certificate without its other half": {"type: kubernetes.io/tls\nstringData: {tls.crt: " + hidden + "}", "tls.key"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out := run1(t, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {namespace: %s, name: a}\n", namespace(t))+c.fields)
			g.Expect(out.Err).To(MatchError(And(ContainSubstring(c.says), Not(ContainSubstring(hidden)))))
		})
	}
}
