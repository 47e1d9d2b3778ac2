package helm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/tools"
)

// timeout bounds each call.
const timeout = 5 * time.Minute

// CLI is Helm, with a cluster or without.
type CLI struct {
	root, path, home, kubeconfig string
}

// ForTest returns a Helm that knows no cluster and whose files go with the test.
func ForTest(t testing.TB) CLI {
	t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return CLI{root: root, path: path, home: t.TempDir()}
}

// WithCluster returns the same Helm with a cluster, by the content of its kubeconfig.
func (c CLI) WithCluster(t testing.TB, kubeconfig []byte) CLI {
	t.Helper()
	c.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(c.kubeconfig, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// Chart is the folder of the chart.
func (c CLI) Chart() string { return filepath.Join(c.root, "charts", "trellis") }

// Run runs a command and returns what it prints. The error holds what it says to stderr. Values are a YAML document for
// --values; none if it is empty.
func (c CLI) Run(ctx context.Context, values string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if values != "" {
		args = append(args, "--values", "-")
	}
	cmd := exec.CommandContext(ctx, c.path, args...)
	kubeconfig := c.kubeconfig
	if kubeconfig == "" {
		kubeconfig = os.DevNull
	}
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CACHE_HOME="+c.home, "HELM_CONFIG_HOME="+c.home, "HELM_DATA_HOME="+c.home)
	cmd.Stdin = strings.NewReader(values)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// build builds Helm, if the cache does not have it, and returns the path of the executable.
var build = sync.OnceValues(func() (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	return tools.Path(context.Background(), root, "helm", "helm")
})
