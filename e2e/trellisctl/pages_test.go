package trellisctl

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// howTo is the page whose commands are run.
const howTo = "../../docs/how-to/trellisctl.md"

var (
	// codeBlocks are those of the language "shell", which have commands only, and those without a language, in which
	// commands begin with "$ " and the other lines are output.
	codeBlocks = regexp.MustCompile("(?s)```(shell)?\n(.*?)```")
	// needed are the commands that others need, wherever they are in the page.
	needed = regexp.MustCompile(` cluster add | pack .* --apply `)
)

// pageCommand is a command of a page.
type pageCommand struct {
	line string
	// fails is true if the page shows an error as its output.
	fails bool
}

// commandsOf are the commands of a page: first those that others need, then all others in the order of the page.
func commandsOf(page string) []pageCommand {
	var first, others []pageCommand
	for _, block := range codeBlocks.FindAllStringSubmatch(page, -1) {
		lines := strings.Split(block[2], "\n")
		for i, line := range lines {
			line, prompt := strings.CutPrefix(line, "$ ")
			if line == "" || block[1] == "" && !prompt {
				continue
			}
			command := pageCommand{line: line, fails: prompt && strings.HasPrefix(lines[i+1], "Error: ")}
			if needed.MatchString(line) {
				first = append(first, command)
			} else {
				others = append(others, command)
			}
		}
	}
	return append(first, others...)
}

// TestCommandsOfTheHowToRun runs the commands of the page, pipes included, as its reader does: with the program, in
// bash, in a folder with the files that the page names. Only those that build and install trellisctl are left out. A
// command may find something, which is exit code 3, and 123 behind xargs. It must not fail otherwise, unless the page
// shows an error. What kubectl would do is left out, and what is printed is tested elsewhere.
func TestCommandsOfTheHowToRun(t *testing.T) {
	p := newCluster(t)
	directory := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", directory,
		"github.com/trellis-hub/trellis/cmd/trellisctl")
	out, err := build.CombinedOutput()
	p.Expect(err).NotTo(HaveOccurred(), string(out))
	access := p.file("kubeconfig", string(testbed.Rewrite(source.Kubeconfig(), func(c *testbed.KubeConfig) {
		c.Contexts[c.CurrentContext].Namespace = p.name
	})))
	administrator, err := os.ReadFile(p.own)
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(os.Mkdir(filepath.Join(directory, "manifests"), 0o700)).To(Succeed())
	for name, content := range map[string]string{
		"kubectl":          "#!/bin/sh\ntest -s \"$KUBECONFIG\"\n",
		"admin.yaml":       string(administrator),
		"manifests/a.yaml": p.configMap("a", "1"),
		"grm.yaml": "apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: ResourceManagerConfiguration\n" +
			"targetClientConnection: {kubeconfig: /kubeconfig}\n",
	} {
		p.Expect(os.WriteFile(filepath.Join(directory, name), []byte(content), 0o700)).To(Succeed())
	}
	request := &corev1.Secret{ObjectMeta: metaOf(p.name, "shoot-access-autoscaler")}
	request.Labels = map[string]string{resourcesv1alpha1.PurposeLabel: resourcesv1alpha1.PurposeTokenRequestor}
	p.Expect(source.Client.Create(p.ctx, request)).To(Succeed())

	page, err := os.ReadFile(howTo)
	p.Expect(err).NotTo(HaveOccurred())
	commands := commandsOf(string(page))
	p.Expect(len(commands)).To(BeNumerically(">", 30))
	for _, c := range commands {
		line := strings.ReplaceAll(c.line, "shoot--foo--a", p.name)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		command := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
		command.Dir = directory
		command.Env = append(os.Environ(), "PATH="+directory+":"+os.Getenv("PATH"), "KUBECONFIG="+access,
			"TRELLISCTL_ALLOW_NETWORK=127.0.0.0/8")
		out, err := command.CombinedOutput()
		cancel()
		t.Logf("$ %s\n%s", line, out)
		code := command.ProcessState.ExitCode()
		switch {
		case c.fails:
			p.Expect(code).To(BeElementOf(cli.ExitRefused, cli.ExitNotFound), line)
			p.Expect(string(out)).To(HavePrefix("Error: "), line)
			continue
		case err != nil:
			p.Expect(code).To(BeElementOf(cli.ExitFound, 123), "%s\n%s", line, out)
		}
		p.Expect(string(out)).NotTo(ContainSubstring("--help'."), line)
	}
}
