package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/helm"
)

// upgradePage is the page whose commands TestUpgradeAndReinstallation runs. What trellisctl does there is run by
// e2e/trellisctl.
const upgradePage = "../../docs/how-to/upgrade.md"

// documented returns the arguments of a command of the page, with the namespace, chart and revision of the test.
func documented(t *testing.T, cli helm.CLI, namespace, program, verb string) []string {
	t.Helper()
	g := NewWithT(t)
	page, err := os.ReadFile(upgradePage)
	g.Expect(err).NotTo(HaveOccurred())
	for _, line := range regexp.MustCompile(`(?m)^ {4,}`+program+` (.*)$`).FindAllStringSubmatch(string(page), -1) {
		args := strings.Fields(line[1])
		if !slices.Contains(args, verb) {
			continue
		}
		for i, arg := range args {
			switch {
			case arg == "charts/trellis":
				args[i] = cli.Chart()
			case arg == "REVISION":
				args[i] = "1"
			case i > 0 && (args[i-1] == "-n" || args[i-1] == "--namespace"):
				args[i] = namespace
			}
		}
		return args
	}
	t.Fatalf("%s has no command %s %s", upgradePage, program, verb)
	return nil
}

// kubectl runs a command of the page.
func kubectl(t *testing.T, args ...string) {
	t.Helper()
	g := NewWithT(t)
	program, err := controlplane.Kubectl()
	g.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(file, source.Kubeconfig(), 0o600)).To(Succeed())
	command := exec.CommandContext(t.Context(), program, append(args, "--timeout=2m")...)
	command.Env = append(os.Environ(), "KUBECONFIG="+file)
	out, err := command.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), "%s", out)
}
