package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"
)

// recipe returns the first template of a page for kubectl that contains a text.
func recipe(t *testing.T, page, about string) string {
	t.Helper()
	for _, match := range regexp.MustCompile(`(?s)-o go-template='([^']*)'`).FindAllStringSubmatch(read(t, page), -1) {
		if strings.Contains(match[1], about) {
			return match[1]
		}
	}
	t.Fatalf("%s has no template about %s", page, about)
	return ""
}

// TestTheRunbookFindsWhatIsNotApplied has kubectl's printer execute the template of the page for objects of which it
// has to find one.
func TestTheRunbookFindsWhatIsNotApplied(t *testing.T) {
	g := NewWithT(t)
	mr := func(name, conditions string) string {
		return `{"apiVersion":"a/b","kind":"M","metadata":{"namespace":"a","name":"` + name +
			`"},"status":{"conditions":[` + conditions + `]}}`
	}
	list := &unstructured.UnstructuredList{}
	g.Expect(list.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"List","items":[` + strings.Join([]string{
		mr("healthy", `{"type":"ResourcesApplied","status":"True"},{"type":"ResourcesProgressing","status":"False"}`),
		mr("broken", `{"type":"ResourcesApplied","status":"False"}`),
		mr("unhealthy", `{"type":"ResourcesApplied","status":"True"},{"type":"ResourcesHealthy","status":"False"}`),
		`{"apiVersion":"a/b","kind":"M","metadata":{"namespace":"a","name":"new"}}`,
	}, ",") + `]}`))).To(Succeed())
	printer, err := printers.NewGoTemplatePrinter([]byte(recipe(t, "docs/runbooks.md", "ResourcesApplied")))
	g.Expect(err).NotTo(HaveOccurred())
	printer.AllowMissingKeys(true) // as kubectl does
	out := &bytes.Buffer{}
	g.Expect(printer.PrintObj(list, out)).To(Succeed())
	g.Expect(out.String()).To(Equal("a/broken\n"))
}

// TestPagesDoNotGrepConditions: conditions whose good status is False make a grep for it find what is well.
func TestPagesDoNotGrepConditions(t *testing.T) {
	for _, file := range pages(t) {
		NewWithT(t).Expect(read(t, file)).NotTo(MatchRegexp(`grep (-\w+ )*(False|True|Unknown)`), "%s", file)
	}
}
