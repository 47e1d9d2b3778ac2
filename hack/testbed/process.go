package testbed

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

const (
	// startTimeout bounds the start of the hub if the caller does not.
	startTimeout = time.Minute
	// stopTimeout bounds its orderly end. The hub bounds itself to less, on a machine that lets it run: with a thousand targets
	// beside it, that takes longer than the clock of the hub says.
	stopTimeout = 2 * time.Minute
	// logTail is how much of the log errors quote.
	logTail = 8 << 10
	// portAttempts is how often other ports are chosen after another process took the last ones.
	portAttempts = 3
)

// connection and endpoints complete a configuration by what only a start knows.
const (
	connection = `
sourceClientConnection:
  kubeconfig: %s
`
	endpoints = `
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
`
)

// complete adds connection and endpoints to a configuration, which may have more in its section server.
func complete(config, kubeconfigFile string, probes, metrics int) string {
	config = "\n" + config + fmt.Sprintf(connection, strconv.Quote(kubeconfigFile))
	own := fmt.Sprintf(endpoints, probes, metrics)
	if before, after, has := strings.Cut(config, "\nserver:\n"); has {
		return before + own + after
	}
	return config + own
}

// Build builds the hub into bin/ and returns its path.
func Build(ctx context.Context, root string) (string, error) {
	return BuildInto(ctx, root, filepath.Join(root, "bin"))
}

// BuildInto is Build with another directory than bin/, and with flags of "go build".
func BuildInto(ctx context.Context, root, dir string, flags ...string) (string, error) {
	return BuildCommand(ctx, root, "trellis", dir, flags...)
}

// BuildCommand builds a command of the repository into a directory and returns its path. It builds as "go run" does, so that what
// was compiled for one serves the other.
func BuildCommand(ctx context.Context, root, name, dir string, flags ...string) (string, error) {
	binary := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-o", binary}, flags, []string{"./cmd/" + name})...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return binary, nil
}

// Process is a hub in a process of its own.
type Process struct {
	// LogFile is where its output goes.
	LogFile string

	probes, metrics string // host and port
	cmd             *exec.Cmd
	guard           *guard
	done            chan struct{} // closed when it has ended
	err             error         // how
}

// StartProcess starts a hub on a source cluster that was prepared by InstallSource, and returns when it is ready.
// Its files go to dir. The configuration must not have what complete adds; targets on this machine are allowed in
// it. The environment, as "NAME=value", is added to what the hub needs. A minute is enough unless ctx has a
// deadline of its own.
func StartProcess(
	ctx context.Context, binary, dir string, source *Cluster, config string, environment ...string,
) (*Process, error) {
	kubeconfig, err := source.ServiceAccountKubeconfig(ctx, HubNamespace, chart.ServiceAccount, 12*time.Hour)
	if err != nil {
		return nil, fmt.Errorf("identity of the hub: %w", err)
	}
	kubeconfigFile := filepath.Join(dir, "hub.kubeconfig")
	if err := os.WriteFile(kubeconfigFile, kubeconfig, 0o600); err != nil {
		return nil, fmt.Errorf("identity of the hub: %w", err)
	}
	if config, err = allowLoopback(config); err != nil {
		return nil, fmt.Errorf("configuration of the hub: %w", err)
	}
	for attempt := 1; ; attempt++ {
		ports, err := freePorts(2)
		if err != nil {
			return nil, err
		}
		configFile := filepath.Join(dir, "config.yaml")
		content := complete(config, kubeconfigFile, ports[0], ports[1])
		if err := os.WriteFile(configFile, []byte(content), 0o600); err != nil {
			return nil, fmt.Errorf("configuration of the hub: %w", err)
		}
		h := &Process{
			LogFile: filepath.Join(dir, "hub.log"),
			probes:  fmt.Sprintf("127.0.0.1:%d", ports[0]), metrics: fmt.Sprintf("127.0.0.1:%d", ports[1]),
			done: make(chan struct{}),
		}
		if err = h.start(ctx, binary, configFile, environment); err == nil {
			return h, nil
		}
		h.Kill()
		if attempt == portAttempts || !strings.Contains(h.LogTail(), "address already in use") {
			return nil, fmt.Errorf("starting the hub: %w", err)
		}
	}
}

// allowLoopback lets a hub connect to targets on this machine, which it refuses otherwise.
func allowLoopback(config string) (string, error) {
	sections := map[string]any{}
	if err := yaml.Unmarshal([]byte(config), &sections); err != nil {
		return "", err
	}
	section, exists := sections["clusterCache"].(map[string]any)
	switch {
	case !exists:
		return config + "\nclusterCache: {allowedNetworks: [127.0.0.0/8]}\n", nil
	case section["allowedNetworks"] != nil:
		return config, nil
	}
	section["allowedNetworks"] = []string{"127.0.0.0/8"}
	out, err := yaml.Marshal(sections)
	return string(out), err
}

func (h *Process) start(ctx context.Context, binary, configFile string, environment []string) error {
	log, err := os.OpenFile(h.LogFile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	h.cmd = exec.Command(binary, "--config", configFile)
	// Nothing of our own environment: $KUBECONFIG would win over the identity that it is to run with.
	// GODEBUG, so that its heap can be looked at more closely: memprofilerate=512.
	h.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(configFile), "GODEBUG=" + os.Getenv("GODEBUG")}
	h.cmd.Env = append(h.cmd.Env, environment...)
	h.cmd.Stdout, h.cmd.Stderr = log, log
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us; we end it in order
	if err := h.cmd.Start(); err != nil {
		close(h.done)
		return err
	}
	go func() {
		h.err = h.cmd.Wait()
		close(h.done)
	}()
	if h.guard, err = startGuard(h.cmd.Process.Pid); err != nil {
		return err
	}
	return h.awaitReady(ctx)
}

func (h *Process) awaitReady(ctx context.Context) error {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startTimeout)
		defer cancel()
	}
	for {
		_, err := h.get(ctx, h.ReadyURL())
		if err == nil {
			return nil
		}
		select {
		case <-h.done:
			return fmt.Errorf("it ended: %w\n%s", h.err, h.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("it does not become ready: %w\n%s", err, h.LogTail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop ends the hub in order and says if it did not end well.
func (h *Process) Stop() error {
	defer h.Kill()
	_ = h.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already, which is what is asked next
	select {
	case <-h.done:
	case <-time.After(stopTimeout):
		return fmt.Errorf("the hub does not end\n%s", h.LogTail())
	}
	if h.err != nil {
		return fmt.Errorf("the hub ended: %w\n%s", h.err, h.LogTail())
	}
	return nil
}

// Kill ends the hub at once. Killing twice is fine.
func (h *Process) Kill() {
	if h.cmd == nil || h.cmd.Process == nil {
		return
	}
	_ = h.cmd.Process.Kill()
	<-h.done
	h.guard.stop()
}

// Done is closed when the hub has ended.
func (h *Process) Done() <-chan struct{} { return h.done }

// Pid is the number of the process.
func (h *Process) Pid() int { return h.cmd.Process.Pid }

// ReadyURL reports whether the hub is ready.
func (h *Process) ReadyURL() string { return "http://" + h.probes + "/readyz" }

// HealthURL reports whether the hub is to continue, or to be started again.
func (h *Process) HealthURL() string { return "http://" + h.probes + "/healthz" }

// MetricsURL is where the figures are.
func (h *Process) MetricsURL() string { return "http://" + h.metrics + "/metrics" }

// ProfileURL is where profiles of the processor are, if the configuration allows profiles.
func (h *Process) ProfileURL(d time.Duration) string {
	return fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", h.metrics, max(1, int(d.Seconds())))
}

// TraceURL is where execution traces are, if the configuration allows profiles.
func (h *Process) TraceURL(d time.Duration) string {
	return fmt.Sprintf("http://%s/debug/pprof/trace?seconds=%d", h.metrics, max(1, int(d.Seconds())))
}

// LogTail returns the end of the log.
func (h *Process) LogTail() string {
	content, err := os.ReadFile(h.LogFile)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-logTail):])
}

// Get reads an address of the hub.
func (h *Process) Get(ctx context.Context, url string) ([]byte, error) { return h.get(ctx, url) }

func (h *Process) get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("asking the hub: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the hub: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	if err != nil {
		return nil, fmt.Errorf("asking the hub: %w", err)
	}
	return body, nil
}

// Sum adds up all series of a counter or gauge with labels that have the given ones.
func (h *Process) Sum(ctx context.Context, name string, labels map[string]string) (sum float64, err error) {
	err = h.series(ctx, name, func(series string, value float64) {
		if hasAll(series, labels) {
			sum += value
		}
	})
	return sum, err
}

// SumBy adds up all series of a counter or gauge with labels for each value of one of them.
func (h *Process) SumBy(ctx context.Context, name, by string) (map[string]float64, error) {
	sums := map[string]float64{}
	err := h.series(ctx, name, func(series string, value float64) {
		sums[Label(series, by)] += value
	})
	return sums, err
}

// series calls f for the series of a counter or gauge with labels.
func (h *Process) series(ctx context.Context, name string, f func(series string, value float64)) error {
	body, err := h.get(ctx, h.MetricsURL())
	if err != nil {
		return err
	}
	if err := EachSeries(body, name, f); err != nil {
		return fmt.Errorf("reading the figures of the hub: %w", err)
	}
	return nil
}

// EachSeries calls f for the series of a counter or gauge with labels, in a page of the exposition format.
func EachSeries(page []byte, name string, f func(series string, value float64)) error {
	for line := range strings.Lines(string(page)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if !strings.HasPrefix(series, name+"{") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return err
		}
		f(series, n)
	}
	return nil
}

// hasAll reports whether a line of the exposition format has the labels.
func hasAll(series string, labels map[string]string) bool {
	for name, value := range labels {
		if !strings.Contains(series, fmt.Sprintf("%s=%q", name, value)) {
			return false
		}
	}
	return true
}

// freePorts returns ports on the loopback interface that no process listens on.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		var err error
		if ports[i], err = controlplane.FreePort(); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

// guard kills a process when this one is gone.
type guard struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

const guardScript = `trap '' HUP INT TERM; read -r _; kill -KILL "$1"`

func startGuard(pid int) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "trellis-hub-guard", strconv.Itoa(pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making the pipe of the guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the guard: %w", err)
	}
	return &guard{cmd: cmd, pipe: pipe}, nil
}

// stop ends the guard without a kill: what it guarded is gone.
func (g *guard) stop() {
	if g == nil {
		return
	}
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
	_ = g.pipe.Close()
}
