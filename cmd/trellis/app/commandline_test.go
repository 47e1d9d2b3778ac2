package app_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/cmd/trellis/app"
	"github.com/trellis-hub/trellis/version"
)

const validConfig = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection: {resourceNamespace: trellis}
classes:
- name: ""
  target: {type: Namespace}
clusterCache: {allowedNetworks: [127.0.0.0/8]}
`

// run runs the command line and returns what it writes.
func run(args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	err = app.Main(context.Background(), args, &out, &errs)
	return out.String(), errs.String(), err
}

func configFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	NewWithT(t).Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

func TestConfigIsRequired(t *testing.T) {
	g := NewWithT(t)
	_, _, err := run()
	g.Expect(err).To(MatchError(ContainSubstring("--config is required")))
}

func TestConfigThatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "missing.yaml")
	_, _, err := run("--config", path)
	g.Expect(err).To(MatchError(And(ContainSubstring("reading the configuration"), ContainSubstring(path))))
	g.Expect(err).To(MatchError(os.ErrNotExist))
	_, _, err = run("--config", t.TempDir())
	g.Expect(err).To(MatchError(ContainSubstring("is a directory")))
}

func TestCheckOfAValidConfig(t *testing.T) {
	g := NewWithT(t)
	path := configFile(t, validConfig)
	stdout, stderr, err := run("--config", path, "--check")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stdout).To(Equal(path + " is valid\n"))
	g.Expect(stderr).To(BeEmpty())
}

func TestCheckNamesEachFaultAndTheNearestKey(t *testing.T) {
	g := NewWithT(t)
	path := configFile(t, `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection: {resourceNamespace: trellis, leaseDuratoin: 20s}
logLevel: loud
classes:
- name: ""
  target: {type: Namespace}
  concurentSyncs: 7
`)
	for _, args := range [][]string{{"--config", path, "--check"}, {"--config", path}} {
		stdout, _, err := run(args...)
		g.Expect(err).To(MatchError(And(
			ContainSubstring(path),
			ContainSubstring("leaderElection.leaseDuratoin"), ContainSubstring(`"leaseDuration"`),
			ContainSubstring("classes[0].concurentSyncs"), ContainSubstring(`"concurrentSyncs"`),
			ContainSubstring("logLevel"), ContainSubstring("loud"),
		)), "with %v", args)
		g.Expect(stdout).To(BeEmpty())
	}
}

func TestVersion(t *testing.T) {
	g := NewWithT(t)
	stdout, stderr, err := run("--version")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stdout).To(Equal("trellis " + version.Get().String() + "\n"))
	g.Expect(stderr).To(BeEmpty())
}

func TestHelp(t *testing.T) {
	g := NewWithT(t)
	stdout, stderr, err := run("--help")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stdout).To(BeEmpty())
	g.Expect(stderr).To(And(ContainSubstring("Usage: trellis --config FILE"), ContainSubstring("-check"), ContainSubstring("-version")))
}

func TestUnknownArguments(t *testing.T) {
	g := NewWithT(t)
	_, _, err := run("--conifg", "x")
	g.Expect(err).To(MatchError(ContainSubstring("-conifg")))
	_, _, err = run("config.yaml")
	g.Expect(err).To(MatchError(ContainSubstring(`unexpected argument "config.yaml"`)))
}

// A process of its own, because the command sets the loggers of its libraries, which hubs of other tests may be using.
func TestSourceWithoutAccess(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	cmd, _, stderr := command(t, "--config", configFile(t, validConfig))
	g.Expect(cmd.Run()).To(MatchError("exit status 1"))
	g.Expect(stderr.String()).To(ContainSubstring("access to the source cluster"))
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing"))
	cmd, _, stderr = command(t, "--config", configFile(t, validConfig))
	g.Expect(cmd.Run()).To(MatchError("exit status 1"))
	g.Expect(stderr.String()).To(And(ContainSubstring("access to the source cluster"), ContainSubstring("missing")))
}
