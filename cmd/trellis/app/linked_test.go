package app_test

import (
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// TestLinkerRemovesUnusedMethods: the hub must not link text/template. Templates call methods by their names, so with
// it the linker keeps every exported method of every type, and the hub is half as large again.
func TestLinkerRemovesUnusedMethods(t *testing.T) {
	g := NewWithT(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/trellis-hub/trellis/cmd/trellis").Output()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Fields(string(out))).To(And(ContainElement("net/http"), Not(ContainElement("text/template"))))
}
