package app_test

import (
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// TestLinkerLeavesOutWhatNobodyCalls looks for the packages because of which it cannot: templates call methods by their
// names, so every exported method of every type stays, and the hub is half as large again.
func TestLinkerLeavesOutWhatNobodyCalls(t *testing.T) {
	g := NewWithT(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/trellis-hub/trellis/cmd/trellis").Output()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Fields(string(out))).To(And(ContainElement("net/http"), Not(ContainElement("text/template"))))
}
