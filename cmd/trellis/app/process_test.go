package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/cmd/trellis/app"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// commandEnv makes the test binary the command.
const commandEnv = "TRELLIS_TEST_COMMAND"

// beCommand is what main does, and returns the exit code.
func beCommand() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := app.Main(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "trellis:", err)
		return 1
	}
	return 0
}

// command prepares a process that is the command. It does not outlive the test.
func command(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	executable, err := os.Executable()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	cmd, stdout, stderr = exec.CommandContext(t.Context(), executable, args...), &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Env = append(os.Environ(), commandEnv+"=1")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// startProcess starts the command as the hub's own identity, with the configuration's text.
func (e *env) startProcess(t *testing.T, config string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	kubeconfig, err := source.ServiceAccountKubeconfig(e.ctx, testbed.HubNamespace, chart.ServiceAccount, time.Hour)
	e.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(t.TempDir(), "kubeconfig")
	e.Expect(os.WriteFile(path, kubeconfig, 0o600)).To(Succeed())
	cmd, stdout, stderr = command(t, "--config", configFile(t, config))
	cmd.Env = append(cmd.Env, "KUBECONFIG="+path)
	e.Expect(cmd.Start()).To(Succeed())
	return cmd, stdout, stderr
}

func TestFaultyConfigurationEndsTheProcess(t *testing.T) {
	g := NewWithT(t)
	cmd, stdout, stderr := command(t, "--check", "--config", configFile(t, validConfig+"logLevle: info\n"))
	g.Expect(cmd.Run()).To(MatchError("exit status 1"))
	g.Expect(stdout.String()).To(BeEmpty())
	g.Expect(stderr.String()).To(And(ContainSubstring("logLevle"), ContainSubstring(`"logLevel"`)))

	cmd, stdout, _ = command(t, "--check", "--config", configFile(t, validConfig))
	g.Expect(cmd.Run()).To(Succeed())
	g.Expect(stdout.String()).To(ContainSubstring("is valid"))
}

// TestProcessIsAHub goes the whole way from the command line, by a kubeconfig from the environment, to a signal.
func TestProcessIsAHub(t *testing.T) {
	e := newEnv(t)
	probes, metrics := e.freePort(), e.freePort()
	config := validConfig + fmt.Sprintf("server:\n  healthProbes: {bindAddress: 127.0.0.1, port: %d}\n  metrics: {bindAddress: 127.0.0.1, port: %d}\n", probes, metrics)
	cmd, stdout, stderr := e.startProcess(t, config)

	e.expectWork()
	e.Expect(e.code(probes, "/readyz")).To(Equal(200))
	_, exposed := e.get(metrics, "/metrics")
	for _, name := range []string{"trellis_", "go_goroutines"} {
		e.Expect(exposed).To(ContainSubstring(name))
	}
	e.Expect(cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
	e.Expect(cmd.Wait()).To(Succeed(), "%s", stderr)
	e.Expect(stdout.String()).To(BeEmpty())
	e.Expect(stderr.String()).To(And(ContainSubstring(`"msg":"Starting"`), ContainSubstring(`"msg":"Leading"`),
		ContainSubstring(`"msg":"No longer leading"`)))
	e.Expect(e.holder()).To(BeEmpty())
}

// TestProcessThatWasStoppedBlamesNoTarget has a hub sleep, with a Lease that runs out meanwhile. Its sockets refuse
// everything, probes included, until the Lease is renewed, or are closed since the term is over. One probe that fails
// would be enough here for a target to be taken for lost.
func TestProcessThatWasStoppedBlamesNoTarget(t *testing.T) {
	e := newEnv(t)
	config := strings.NewReplacer(
		"{resourceNamespace: trellis",
		"{resourceNamespace: trellis, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 1s",
		"clusterCache: {", "clusterCache: {probeInterval: 1s, probeTimeout: 1s, failureThreshold: 1, ",
	).Replace(validConfig) + `
logLevel: debug
server:
  healthProbes: {bindAddress: 127.0.0.1, port: 0}
  metrics: {bindAddress: 127.0.0.1, port: 0}
`
	targets := e.simulate(10)
	for _, s := range targets {
		s.register("1")
	}
	cmd, _, stderr := e.startProcess(t, config)
	for _, s := range targets {
		s.expectCare("1")
	}
	for range 3 { // the term may be over before the first probe
		e.Expect(cmd.Process.Signal(syscall.SIGSTOP)).To(Succeed())
		time.Sleep(3 * time.Second) // as long as the Lease lasts
		e.Expect(cmd.Process.Signal(syscall.SIGCONT)).To(Succeed())
		for _, s := range targets {
			s.expectCare("1")
		}
	}
	for _, s := range targets {
		s.unregister()
	}
	e.Expect(cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
	e.Expect(cmd.Wait()).To(Succeed(), "%s", stderr)
	e.Expect(stderr.String()).To(ContainSubstring("The target was not asked"), "or nothing was tested")
	timedOut := map[string]bool{} // as a probe may have that was under way for all the time; the first reason is logged
	for line := range strings.Lines(stderr.String()) {
		var entry struct{ Msg, Target, State, Details string }
		if json.Unmarshal([]byte(line), &entry) != nil {
			continue
		}
		switch entry.Msg {
		case "The target cannot be reached":
			timedOut[entry.Target] = strings.Contains(entry.Details, context.DeadlineExceeded.Error())
		case "Target changes state":
			if entry.State == string(clustercache.StateDisconnected) {
				e.Expect(timedOut).To(HaveKeyWithValue(entry.Target, true), "%s", stderr)
			}
			delete(timedOut, entry.Target)
		}
	}
}
