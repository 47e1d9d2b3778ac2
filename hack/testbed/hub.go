package testbed

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/cmd/trellis/app"
)

// KubeConfig is a decoded kubeconfig.
type KubeConfig = clientcmdapi.Config

// DefaultConfig serves the default class by the registrations of a namespace, and class seed by the source in
// namespaces labelled seed=true. What becomes of an outage shows after a second, and it is never the hub's own network:
// tests that run beside each other lose their targets together. Targets are on this machine.
const DefaultConfig = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection:
  resourceNamespace: trellis
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
classes:
- name: ""
  target: {type: Namespace}
  concurrentSyncs: 20
- name: seed
  target: {type: Source}
  namespaceSelector: {matchLabels: {seed: "true"}}
  concurrentSyncs: 5
- name: planned
  target: {type: Namespace}
  dryRun: true
clusterCache: {disconnectGrace: 1s, massDisconnectPercent: 100, allowedNetworks: [127.0.0.0/8]}
sourceIdentity:
  serviceAccount: {namespace: trellis, name: trellis-source}
`

// Hub is a hub in this process.
type Hub struct {
	Registry *prometheus.Registry
	Log      *Log

	cancel  context.CancelFunc
	done    chan error
	stopped sync.Once
	err     error
}

// HubOptions change the hub that StartHub starts.
type HubOptions struct {
	// Config changes the default configuration.
	Config func(*configv1alpha1.HubConfiguration)
	Clock  clock.Clock
	// Patience is how long a write may take that is under way at the end of a term.
	Patience time.Duration
	// Logger replaces the collected log.
	Logger logr.Logger
	// WrapSource, if set, is put around the transport of the connections to the source.
	WrapSource transport.WrapperFunc
	// DialSource, if set, opens those sockets to the source for which the hub has no dialler of its own.
	DialSource func(ctx context.Context, network, address string) (net.Conn, error)
	// WrapTarget, if set, is put around the transport of the connections to targets.
	WrapTarget transport.WrapperFunc
}

// StartHub starts a hub on a source cluster that InstallSource prepared, and returns when it contends for the Lease.
func StartHub(ctx context.Context, source *Cluster, o HubOptions) (*Hub, error) {
	kubeconfig, err := source.ServiceAccountKubeconfig(ctx, HubNamespace, chart.ServiceAccount, 12*time.Hour)
	if err != nil {
		return nil, fmt.Errorf("identity of the hub: %w", err)
	}
	rest, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("identity of the hub: %w", err)
	}
	if o.WrapSource != nil {
		rest.Wrap(o.WrapSource)
	}
	rest.Dial = o.DialSource
	config, err := Config()
	if err != nil {
		return nil, err
	}
	if o.Config != nil {
		o.Config(config)
	}
	var wrapTarget func(clustercache.ClusterKey, http.RoundTripper) http.RoundTripper
	if o.WrapTarget != nil {
		wrapTarget = func(_ clustercache.ClusterKey, next http.RoundTripper) http.RoundTripper { return o.WrapTarget(next) }
	}
	h := &Hub{Registry: prometheus.NewRegistry(), Log: &Log{}, done: make(chan error, 1)}
	logger := o.Logger
	if logger.GetSink() == nil {
		logger = h.Log.Logger()
	}
	var run context.Context
	run, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	started := make(chan struct{})
	go func() {
		h.done <- app.Run(run, app.Options{
			Config: config, Source: rest, Logger: logger, Registerer: h.Registry, Clock: o.Clock, Patience: o.Patience, WrapTransport: wrapTarget,
			Started: func() { close(started) },
		})
	}()
	select {
	case <-started:
		return h, nil
	case err := <-h.done:
		h.done <- err
		return nil, fmt.Errorf("the hub ended: %w\n%s", err, h.Log)
	case <-time.After(time.Minute):
		h.Stop()
		return nil, fmt.Errorf("the hub did not start in time\n%s", h.Log)
	}
}

// Config returns the default configuration with free ports.
func Config() (*configv1alpha1.HubConfiguration, error) {
	config, err := configv1alpha1.Load(fmt.Appendf(nil, DefaultConfig, 1, 2))
	if err != nil {
		return nil, fmt.Errorf("default configuration: %w", err)
	}
	// Port 0 has the kernel choose; a configuration file cannot say that.
	config.Server.HealthProbes.Port, config.Server.Metrics.Port = 0, 0
	return config, nil
}

// StartHubForTest starts a hub that ends with the test.
func StartHubForTest(t testing.TB, source *Cluster, o HubOptions) *Hub {
	t.Helper()
	h, err := StartHub(context.Background(), source, o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		h.Stop()
		if t.Failed() {
			t.Logf("log of the hub:\n%s", h.Log)
		}
	})
	return h
}

// Stop ends the hub in order.
func (h *Hub) Stop() {
	h.stopped.Do(func() {
		h.cancel()
		select {
		case h.err = <-h.done:
		case <-time.After(time.Minute):
			h.err = fmt.Errorf("the hub did not end in time")
		}
	})
}

// Err is how the hub ended, nil before.
func (h *Hub) Err() error { return h.err }

// Log collects the last lines of a hub's log.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// logLimit bounds the memory of a Log.
const logLimit = 1 << 20

// Logger writes into the log.
func (l *Log) Logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.buf.Len() > logLimit {
			l.buf.Next(l.buf.Len() / 2)
		}
		fmt.Fprintf(&l.buf, "%s %s\n", prefix, args)
	}, funcr.Options{LogTimestamp: true, Verbosity: 1})
}

// About returns the lines of the log that contain a text.
func (l *Log) About(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out strings.Builder
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// String returns the end of the log.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.buf.String()
	if len(text) > 20000 {
		text = text[len(text)-20000:]
	}
	return text
}
