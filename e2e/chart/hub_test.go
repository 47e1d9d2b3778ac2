package chart

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/hubtest"
)

// build builds the hub into a directory and returns its path.
func build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "trellis")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/trellis-hub/trellis/cmd/trellis").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the hub: %w: %s", err, out)
	}
	return binary, nil
}

// process is a hub as a pod of the chart would run it.
type process struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
	ready  string // URL
}

// local are values that have a hub listen where nobody else does: there are no pods around these processes.
func local(t *testing.T) (values string, probes int) {
	t.Helper()
	g := NewWithT(t)
	ports := make([]int, 2)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = listener.Close() }()
		ports[i] = listener.Addr().(*net.TCPAddr).Port //nolint:errcheck,forcetypeassert // it is TCP
	}
	return fmt.Sprintf("server: {healthProbes: {bindAddress: 127.0.0.1, port: %d}, metrics: {bindAddress: 127.0.0.1, port: %d}}", ports[0], ports[1]), ports[0]
}

// startHub starts a hub with what the chart installed in a namespace, and nothing else, and waits until it is ready.
func startHub(t *testing.T, namespace string, probes int) *process {
	t.Helper()
	g := NewWithT(t)
	config := &corev1.ConfigMap{}
	g.Expect(source.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "trellis"}, config)).To(Succeed())
	g.Expect(source.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "trellis"}, &corev1.ServiceAccount{})).To(Succeed())
	kubeconfig, err := source.ServiceAccountKubeconfig(t.Context(), namespace, "trellis", time.Hour)
	g.Expect(err).NotTo(HaveOccurred())
	dir := t.TempDir()
	for name, content := range map[string]string{"config.yaml": config.Data["config.yaml"], "kubeconfig": string(kubeconfig)} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
	}

	p := &process{output: &bytes.Buffer{}, ready: fmt.Sprintf("http://127.0.0.1:%d/readyz", probes)}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), binary, "--config", filepath.Join(dir, "config.yaml")) //nolint:gosec // built above
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "kubeconfig"))
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	g.Expect(p.cmd.Start()).To(Succeed())
	t.Cleanup(func() {
		p.stop(NewWithT(t))
		if t.Failed() {
			t.Logf("output of the hub:\n%s", p.output)
		}
	})
	client := &http.Client{Timeout: 5 * time.Second}
	t.Cleanup(client.CloseIdleConnections)
	g.Eventually(func() (int, error) {
		answer, err := client.Get(p.ready)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}).Should(Equal(http.StatusOK))
	return p
}

// stop ends the hub as a kubelet does, once.
func (p *process) stop(g *WithT) {
	if p.cmd.ProcessState != nil {
		return
	}
	g.Expect(p.cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
	g.Expect(p.cmd.Wait()).To(Succeed(), "%s", p.output)
}

// register registers the target in a namespace.
func register(ctx context.Context, g *WithT, namespace, name string) {
	kubeconfig, err := target.ClientCertKubeconfig("trellis", []string{"system:masters"}, time.Hour)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(source.Client.Create(ctx, hubtest.Registration(namespace, name, kubeconfig))).To(Succeed())
}
