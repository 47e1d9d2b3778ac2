package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// recipe returns the filter of the first jq command of a page that contains a text.
func recipe(t *testing.T, page, about string) string {
	t.Helper()
	for _, match := range regexp.MustCompile(`jq (?:-\w+ )?'([^']*)'`).FindAllStringSubmatch(read(t, page), -1) {
		if strings.Contains(match[1], about) {
			return match[1]
		}
	}
	t.Fatalf("%s has no jq command about %s", page, about)
	return ""
}

// TestRecipesFindWhatTheyAreFor runs commands of pages for operators over objects of which they have to find one.
func TestRecipesFindWhatTheyAreFor(t *testing.T) {
	jq, err := exec.LookPath("jq")
	if err != nil {
		t.Skip("needs jq")
	}
	mr := func(name, conditions string) string {
		return `{"metadata":{"namespace":"a","name":"` + name + `"},"status":{"conditions":[` + conditions + `]}}`
	}
	for name, test := range map[string]struct{ page, about, items, finds string }{
		"not applied": {"docs/runbooks.md", "ResourcesApplied",
			mr("healthy", `{"type":"ResourcesApplied","status":"True"},{"type":"ResourcesProgressing","status":"False"}`) +
				"," + mr("broken", `{"type":"ResourcesApplied","status":"False"}`) +
				"," + mr("unhealthy", `{"type":"ResourcesApplied","status":"True"},{"type":"ResourcesHealthy","status":"False"}`) +
				`,{"metadata":{"namespace":"a","name":"new"}}`,
			"a/broken\n"},
		"credentials that end": {"docs/how-to/trellisctl.md", "credentialExpiry",
			`{"metadata":{"name":"ends"},"status":{"credentialExpiry":"2026-11-30T00:00:00Z"}},` +
				`{"metadata":{"name":"later"},"status":{"credentialExpiry":"2027-11-30T00:00:00Z"}},` +
				`{"metadata":{"name":"never"},"status":{}},{"metadata":{"name":"new"}}`,
			"ends\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			command := exec.CommandContext(t.Context(), jq, "-r", recipe(t, test.page, test.about))
			command.Stdin = strings.NewReader(`{"items":[` + test.items + `]}`)
			out, err := command.CombinedOutput()
			g.Expect(err).NotTo(HaveOccurred(), string(out))
			g.Expect(string(out)).To(Equal(test.finds))
		})
	}
}

// TestPagesDoNotGrepConditions: conditions whose good status is False make a grep for it find what is well.
func TestPagesDoNotGrepConditions(t *testing.T) {
	for _, file := range pages(t) {
		NewWithT(t).Expect(read(t, file)).NotTo(MatchRegexp(`grep (-\w+ )*(False|True|Unknown)`), "%s", file)
	}
}
