package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestConfigurationFileIsLookedAtAgain(t *testing.T) {
	e := newEnv(t)
	probes, port := e.freePort(), e.freePort()
	kubeconfig, err := source.ServiceAccountKubeconfig(e.ctx, testbed.HubNamespace, chart.ServiceAccount, time.Hour)
	e.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(t.TempDir(), "kubeconfig")
	e.Expect(os.WriteFile(path, kubeconfig, 0o600)).To(Succeed())
	config := validConfig + fmt.Sprintf("server:\n  healthProbes: {bindAddress: 127.0.0.1, port: %d}\n  metrics: {bindAddress: 127.0.0.1, port: %d}\n", probes, port)
	file := configFile(t, config)
	cmd, _, stderr := command(t, "--config", file)
	cmd.Env = append(cmd.Env, "KUBECONFIG="+path)
	e.Expect(cmd.Start()).To(Succeed())
	metric := func(name string) func() string {
		return func() string {
			_, text := e.get(port, "/metrics")
			for line := range strings.Lines(text) {
				if rest, found := strings.CutPrefix(line, name+" "); found {
					return strings.TrimSpace(rest)
				}
			}
			return ""
		}
	}
	rewrite := func(content string) { // at once: half of it may be valid, or not
		e.Expect(os.WriteFile(file+".new", []byte(content), 0o600)).To(Succeed())
		e.Expect(os.Rename(file+".new", file)).To(Succeed())
	}
	valid, outdated := metric("trellis_hub_config_last_reload_successful"), metric("trellis_hub_config_restart_needed")
	e.Eventually(valid).Should(Equal("1"))
	e.Expect(outdated()).To(Equal("0"))

	rewrite(config + "nonsense: true\n")
	e.Eventually(valid).Should(Equal("0"))
	rewrite(config + "logFormat: text\n")
	e.Eventually(outdated).Should(Equal("1"))
	e.Expect(valid()).To(Equal("1"))
	rewrite(config + "logLevel: error\n")
	e.Eventually(outdated).Should(Equal("0"))
	rewrite(config + "logLevel: debug\nlogFormat: text\n")
	e.Eventually(outdated).Should(Equal("1"), "it was looked at")
	e.expectWork()
	e.Expect(cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
	e.Expect(cmd.Wait()).To(Succeed())
	e.Expect(stderr.String()).To(And(
		ContainSubstring("nonsense"), ContainSubstring("takes a restart"),
		ContainSubstring(`"logLevel":"debug","before":"error"`), ContainSubstring(`"level":"debug"`),
	))
}
