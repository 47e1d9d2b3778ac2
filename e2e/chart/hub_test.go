package chart

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// stamp is the version that is compiled into the hub, as in releases.
var stamp = []string{"VERSION=v1.2.3", "COMMIT=0123abc", "DATE=2026-03-01T12:00:00Z"}

// build builds the hub into a directory and returns its path.
func build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "trellis")
	flags := exec.CommandContext(ctx, "../../hack/stamp.sh")
	flags.Env = append(os.Environ(), stamp...)
	ldflags, err := flags.Output()
	if err != nil {
		return "", fmt.Errorf("stamping the hub: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w "+strings.TrimSpace(string(ldflags)), "-o", binary, "github.com/trellis-hub/trellis/cmd/trellis")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the hub: %w: %s", err, out)
	}
	return binary, nil
}

// process is a hub as a pod of the chart would run it.
type process struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
	// served is what it had for a scrape when it was ready.
	served string
}

// onThisMachine is the section that lets a hub connect to the clusters of a test.
const onThisMachine = "clusterCache: {allowedNetworks: [127.0.0.0/8]}"

// local are values with which a hub listens on free ports: these processes do not run in pods.
func local(t *testing.T) (values string) {
	t.Helper()
	g := NewWithT(t)
	ports := make([]int, 2)
	for i := range ports {
		var err error
		ports[i], err = controlplane.FreePort()
		g.Expect(err).NotTo(HaveOccurred())
	}
	return fmt.Sprintf("server: {healthProbes: {bindAddress: 127.0.0.1, port: %d}, metrics: {bindAddress: 127.0.0.1, port: %d}}", ports[0], ports[1])
}

// startHub starts a hub as a kubelet would start the pod of the Deployment in a namespace, as far as that goes without
// containers, and waits until it is ready: with its arguments, environment, files and service account, and nothing
// else.
func startHub(t *testing.T, namespace string) *process {
	t.Helper()
	g := NewWithT(t)
	deployment := &appsv1.Deployment{}
	g.Expect(source.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "trellis"}, deployment)).To(Succeed())
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	dir := t.TempDir()
	// Files are in this folder instead of at the root, so paths in arguments change.
	args := slices.Clone(container.Args)
	for _, volume := range pod.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		config := &corev1.ConfigMap{}
		g.Expect(source.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: volume.ConfigMap.Name}, config)).To(Succeed())
		for _, mount := range container.VolumeMounts {
			if mount.Name != volume.Name {
				continue
			}
			folder := filepath.Join(dir, mount.MountPath)
			g.Expect(os.MkdirAll(folder, 0o700)).To(Succeed())
			for name, content := range config.Data {
				g.Expect(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600)).To(Succeed())
			}
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], mount.MountPath+"/", folder+"/")
			}
		}
	}
	// Its token is among the files of a pod, at a path that cannot be had here.
	account := types.NamespacedName{Namespace: namespace, Name: pod.ServiceAccountName}
	g.Expect(source.Client.Get(t.Context(), account, &corev1.ServiceAccount{})).To(Succeed())
	kubeconfig, err := source.ServiceAccountKubeconfig(t.Context(), namespace, account.Name, time.Hour)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "kubeconfig"), kubeconfig, 0o600)).To(Succeed())

	p := &process{output: &bytes.Buffer{}}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), binary, args...) //nolint:gosec // built above
	p.cmd.Env = []string{"KUBECONFIG=" + filepath.Join(dir, "kubeconfig")}
	for _, variable := range container.Env {
		p.cmd.Env = append(p.cmd.Env, variable.Name+"="+variable.Value)
	}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p.output, p.output
	g.Expect(p.cmd.Start()).To(Succeed())
	t.Cleanup(func() {
		p.stop(NewWithT(t))
		if t.Failed() {
			t.Logf("output of the hub:\n%s", p.output)
		}
	})
	client := &http.Client{Timeout: 5 * time.Second}
	t.Cleanup(client.CloseIdleConnections)
	for _, url := range []string{
		address(g, container, container.ReadinessProbe.HTTPGet.Port.String()) + container.ReadinessProbe.HTTPGet.Path,
		address(g, container, container.LivenessProbe.HTTPGet.Port.String()) + container.LivenessProbe.HTTPGet.Path,
		address(g, container, "metrics") + "/metrics",
	} {
		g.Eventually(func() (int, error) {
			answer, err := client.Get(url)
			if err != nil {
				return 0, err
			}
			defer func() { _ = answer.Body.Close() }()
			body, err := io.ReadAll(answer.Body)
			p.served = string(body) // of metrics in the end
			return answer.StatusCode, err
		}).Should(Equal(http.StatusOK), url)
	}
	return p
}

// address is where a container serves a port that has a name.
func address(g *WithT, container corev1.Container, port string) string {
	for _, p := range container.Ports {
		if p.Name == port {
			return fmt.Sprintf("http://127.0.0.1:%d", p.ContainerPort)
		}
	}
	g.Expect(container.Ports).To(ContainElement(HaveField("Name", port)))
	return ""
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
	g.Expect(source.Client.Create(ctx, testbed.Registration(namespace, name, kubeconfig))).To(Succeed())
}
