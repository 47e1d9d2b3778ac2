package histories

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/cmd/trellis/app"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// hubConfig has three classes: two that go by registrations, and one that goes to the source. There is one hub at a
// time, so there is no contention for a Lease.
const hubConfig = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection: {leaderElect: false}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: 1}
  metrics: {bindAddress: 127.0.0.1, port: 2}
classes:
- name: ""
  target: {type: Namespace}
  concurrentSyncs: 5
- name: b
  target: {type: Namespace}
  concurrentSyncs: 5
- name: seed
  target: {type: Source}
  namespaceSelector: {matchLabels: {seed: "true"}}
  concurrentSyncs: 5
sourceIdentity:
  serviceAccount: {namespace: trellis, name: trellis-source}
clusterCache: {probeInterval: 1s, probeTimeout: 1s, disconnectGrace: 1s, allowedNetworks: [127.0.0.0/8]}
`

// hubs starts one life of the hub after the other.
type hubs struct {
	ctx    context.Context
	wire   *wire
	trace  *trace
	config *configv1alpha1.HubConfiguration
	source *rest.Config
	logger logr.Logger
	// failed is called for a hub that ended without being asked to.
	failed func(error)

	commands chan command
	stopped  chan struct{}
	lives    int
}

// command is what the supervisor is asked for.
type command struct {
	crashed  *instance // start another one in its place
	handover bool
	await    chan struct{} // closed when a hub runs
}

func newHubs(ctx context.Context, w *wire, t *trace, source *testbed.Cluster, logger logr.Logger, failed func(error)) (
	*hubs, error) {
	kubeconfig, err := source.ServiceAccountKubeconfig(ctx, testbed.HubNamespace, chart.ServiceAccount, 24*time.Hour)
	if err != nil {
		return nil, fmt.Errorf("identity of the hub: %w", err)
	}
	config, err := configv1alpha1.Load([]byte(hubConfig))
	if err != nil {
		return nil, fmt.Errorf("configuration of the hub: %w", err)
	}
	config.Server.HealthProbes.Port, config.Server.Metrics.Port = 0, 0
	config.Controllers.TargetCluster.SyncPeriod = metav1.Duration{Duration: time.Second}
	config.ClusterCache.DrainTimeout = metav1.Duration{Duration: 5 * time.Second}
	h := &hubs{
		ctx: ctx, wire: w, trace: t, config: config, logger: logger, failed: failed,
		commands: make(chan command, 64), stopped: make(chan struct{}),
	}
	if h.source, err = clientcmd.RESTConfigFromKubeConfig(kubeconfig); err != nil {
		return nil, fmt.Errorf("identity of the hub: %w", err)
	}
	w.crashed = func(i *instance) { h.commands <- command{crashed: i} }
	go h.supervise(ctx)
	return h, nil
}

// supervise keeps one hub running until ctx ends.
func (h *hubs) supervise(ctx context.Context) {
	defer close(h.stopped)
	current := h.start(ctx)
	defer func() {
		current.cancel()
		<-current.ended
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-h.commands:
			switch {
			case c.crashed == current:
				h.trace.add("hub%d crashed", current.number)
				// What it sent is executed or not when the next one looks.
				for current.inFlight.Load() > 0 {
					time.Sleep(time.Millisecond)
				}
				current = h.start(ctx)
			case c.handover:
				h.trace.add("hub%d hands over", current.number)
				current.cancel()
				<-current.ended
				current = h.start(ctx)
			}
			if c.await != nil {
				close(c.await)
			}
		}
	}
}

// start starts a hub.
func (h *hubs) start(ctx context.Context) *instance {
	h.lives++
	i := &instance{number: h.lives, started: time.Now(), ended: make(chan struct{})}
	ctx, i.cancel = context.WithCancel(ctx)
	source := rest.CopyConfig(h.source)
	source.Wrap(func(next http.RoundTripper) http.RoundTripper { return h.wire.transport(i, "", next) })
	h.trace.add("hub%d started", i.number)
	go func() {
		defer close(i.ended)
		err := app.Run(ctx, app.Options{
			Config: h.config.DeepCopy(), Source: source, Logger: h.logger.WithValues("hub", i.number), Registerer: prometheus.NewRegistry(),
			WrapTransport: func(key clustercache.ClusterKey, next http.RoundTripper) http.RoundTripper {
				via := ""
				if key.Namespace != "" {
					via = key.String()
				}
				return h.wire.transport(i, via, next)
			},
		})
		if ctx.Err() == nil {
			// A hub may give up when its first calls fail; its deployment starts it again.
			h.trace.add("hub%d ended: %v", i.number, err)
			h.failed(err)
			h.wire.crash(i)
		}
	}()
	return i
}

// running returns when a hub is running and all earlier commands are done.
func (h *hubs) running() {
	c := command{await: make(chan struct{})}
	select {
	case h.commands <- c:
	case <-h.ctx.Done():
		return
	}
	select {
	case <-c.await:
	case <-h.stopped:
	}
}

func (w *world) call(s Step) error {
	w.wire.plan(due{mishap: mishap(s.A), after: s.B, writes: s.C == 1})
	return nil
}

// handover ends the hub in order and starts another one. It is as dear as a crash, and finds less.
func (w *world) handover(s Step) error {
	if s.A > 0 {
		return errVoid
	}
	select {
	case w.hubs.commands <- command{handover: true}:
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

func (w *world) stall(s Step) error {
	w.wire.stall(s.A, time.Duration(s.B)*time.Millisecond)
	return nil
}

func (w *world) cut(s Step) error {
	w.wire.cut(s.A)
	return nil
}
