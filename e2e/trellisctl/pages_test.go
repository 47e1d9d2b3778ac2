package trellisctl

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// howTo is the page whose commands are run.
const howTo = "../../docs/how-to/trellisctl.md"

var shellBlocks = regexp.MustCompile("(?s)```shell\n(.*?)```")

// TestCommandsOfTheHowToRun runs each line of the blocks of the language "shell" of the page, pipes included, as its reader
// does: with the program, in bash. A line may find something, which is exit code 3, and 123 behind xargs. What kubectl
// would do is left out.
func TestCommandsOfTheHowToRun(t *testing.T) {
	p := newPlace(t)
	p.succeeds("cluster", "add", "shoot-a", "--from-kubeconfig", admin, "--create-service-account", "--service-account", p.name+"/trellis", "--wait", "--timeout", "90s")
	p.apply("addons", p.configMap("a", "1"))
	directory := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", directory, "github.com/trellis-hub/trellis/cmd/trellisctl")
	out, err := build.CombinedOutput()
	p.Expect(err).NotTo(HaveOccurred(), string(out))
	p.Expect(os.WriteFile(filepath.Join(directory, "kubectl"), []byte("#!/bin/sh\ntest -s \"$KUBECONFIG\"\n"), 0o700)).To(Succeed())
	access := p.file("kubeconfig", string(testbed.Rewrite(source.Kubeconfig(), func(c *testbed.KubeConfig) {
		c.Contexts[c.CurrentContext].Namespace = p.name
	})))

	page, err := os.ReadFile(howTo)
	p.Expect(err).NotTo(HaveOccurred())
	ran := 0
	for _, block := range shellBlocks.FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			command := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
			command.Env = append(os.Environ(), "PATH="+directory+":"+os.Getenv("PATH"), "KUBECONFIG="+access, "TRELLISCTL_ALLOW_NETWORK=127.0.0.0/8")
			out, err := command.CombinedOutput()
			cancel()
			t.Logf("$ %s%s", line, out)
			var ended *exec.ExitError
			if err != nil {
				p.Expect(errors.As(err, &ended)).To(BeTrue(), line)
				p.Expect(ended.ExitCode()).To(BeElementOf(3, 123), line)
			}
			p.Expect(string(out)).NotTo(ContainSubstring("--help'."), line)
			ran++
		}
	}
	p.Expect(ran).To(BeNumerically(">", 12))
}
