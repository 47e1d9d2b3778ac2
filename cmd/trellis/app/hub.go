package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/trellis-hub/trellis/addresses"
	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/mapperpool"
	"github.com/trellis-hub/trellis/controllers"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/secretindex"
	"github.com/trellis-hub/trellis/controllers/targetcluster"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
	"github.com/trellis-hub/trellis/controllers/targetcluster/members"
	"github.com/trellis-hub/trellis/controllers/targetcluster/settings"
	"github.com/trellis-hub/trellis/controllers/webhookregistration"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/fairqueue"
	"github.com/trellis-hub/trellis/leader"
	"github.com/trellis-hub/trellis/leader/heartbeat"
	"github.com/trellis-hub/trellis/webhooks/certificates"
)

// userAgent is what sources and targets see. It is a variable so that the linker can give the replicas of a trial
// different ones, by which targets distinguish them.
var userAgent = "trellis"

const (
	// bundleMemory bounds what decoded bundles may take, bundleRest for how long a bundle is kept that is not used.
	bundleMemory = 64 << 20
	bundleRest   = time.Minute
	// startTime is how long targets are connected to, and listed, after the source is known.
	startTime = time.Minute
	// shutdownTimeout bounds the orderly end: runs are cancelled, watches closed, and the Lease is given back.
	shutdownTimeout = 20 * time.Second
)

// Options of a hub.
type Options struct {
	// Config is a valid configuration.
	Config *configv1alpha1.HubConfiguration
	// Source is the access to the source cluster by the hub's own identity.
	Source *rest.Config
	Logger logr.Logger
	// Registerer takes the figures; default that of controller-runtime, which /metrics serves. Several hubs in one process
	// need one each.
	Registerer prometheus.Registerer
	// Identity is the name in the Lease; default host name and a random part.
	Identity string
	// Patience is how long a write that is under way at the end of a term may take to finish. Default: as of
	// leader.Options.
	Patience time.Duration
	// Clock defaults to the real one. It times decisions, not connections.
	Clock clock.Clock
	// WrapTransport, if set, is put around the transport of every connection to a target. For the source there is
	// Source.WrapTransport.
	WrapTransport func(target clustercache.ClusterKey, next http.RoundTripper) http.RoundTripper
	// ConfigFile, if set, is where Config was read from. It is looked at again now and then: a change of the log level is
	// handed to SetLogLevel, which is required then; other changes need a restart.
	ConfigFile  string
	SetLogLevel func(level string)
	// Certificates, if set, changes how often certificates and keys of webhooks are read and renewed.
	Certificates func(*certificates.Options)
	// Started, if set, is called once when the hub contends for leadership: everything else is running.
	Started func()
}

// Run runs a hub until ctx ends. The error is nil if it was that, and the end was an orderly one.
func Run(ctx context.Context, o Options) error {
	h, err := newHub(o)
	if err != nil {
		return err
	}
	defer h.closeIdle()
	err = h.manager.Start(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("running the hub: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("ending the hub: %w", err) // not everything ended in time
	}
	return nil // what else comes after the end of ctx comes from it
}

// hub is what lives as long as the process.
type hub struct {
	Options
	manager        ctrl.Manager
	client         client.Client       // not cached
	sockets        []http.RoundTripper // that are only the hub's own
	clusters       *clustercache.Cache
	secrets        *secretindex.Index
	secretMetadata metadata.Interface
	bundles        *bundle.Cache
	guard          *identity.Guard
	holders        *identity.Holders
	settings       *settings.Settings
	attached       webhookregistration.Attached
	members        *members.Index
	metrics        *controllers.Metrics
	leader         *leader.Election
	loops          *heartbeat.Loops
	heart          *heartbeat.Heart // nil if there is no namespace for its Lease
	serving        *serving         // nil if no webhooks are served
	synced         chan struct{}    // closed when every informer of the source has shown what is there
}

func newScheme() (*k8sruntime.Scheme, error) {
	scheme := k8sruntime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), resourcesv1alpha1.AddToScheme(scheme),
		hubv1alpha1.AddToScheme(scheme))
}

func newHub(o Options) (*hub, error) {
	if o.Registerer == nil {
		o.Registerer = ctrlmetrics.Registry
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("finding an identity: %w", err)
		}
		o.Identity = host + "_" + string(uuid.NewUUID())
	}
	o.Source = rest.CopyConfig(o.Source)
	o.Source.QPS, o.Source.Burst = o.Config.SourceClientConnection.QPS, int(o.Config.SourceClientConnection.Burst)
	o.Source.UserAgent = userAgent

	scheme, err := newScheme()
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	h := &hub{Options: o, synced: make(chan struct{}), loops: heartbeat.NewLoops(o.Clock)}
	if h.manager, err = newManager(o, scheme); err != nil {
		return nil, err
	}
	h.leader = leader.New(
		leader.Options{Config: o.Config.LeaderElection, Source: o.Source, Identity: o.Identity, Term: h.term,
			Patience: o.Patience, Logger: o.Logger.WithName("leader")})
	if err := h.newSourceClient(scheme); err != nil {
		return nil, err
	}
	if h.secretMetadata, err = metadata.NewForConfig(o.Source); err != nil {
		return nil, fmt.Errorf("client for Secrets of the source cluster: %w", err)
	}
	namespaces := configv1alpha1.SecretNamespaces(o.Config.Classes)
	h.secrets = secretindex.New(h.secretMetadata, h.manager.GetCache(), namespaces...)
	h.bundles = bundle.NewCache(bundleMemory, bundle.Limits{}, h.Clock)
	h.guard = identity.NewGuard(h.manager.GetCache())
	h.holders = newHolders(h.manager.GetCache(), o.Config)
	h.settings = settings.New(h.manager.GetCache(), o.Config, h.holders)
	if h.metrics, err = controllers.NewMetrics(o.Registerer, o.Config); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	if h.clusters, err = h.newClusterCache(scheme); err != nil {
		return nil, err
	}
	// The times of connections are real ones.
	h.members, err = members.New(h.manager.GetCache(), h.clusters, o.Config.Classes, clock.RealClock{})
	if err != nil {
		return nil, fmt.Errorf("finding the ManagedResources of targets: %w", err)
	}
	if h.heart, err = h.newHeart(); err != nil {
		return nil, err
	}
	if h.serving, err = h.newServing(); err != nil {
		return nil, err
	}
	for _, c := range []prometheus.Collector{
		own{h.leader}, h.loops, h.bundles, targetcluster.NewCollector(h.manager.GetCache(), h.leader.Leading),
	} {
		if err := o.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return h, h.assemble()
}

// newHolders returns what decides for which registration of a cluster controllers work.
func newHolders(informers cache.Cache, config *configv1alpha1.HubConfiguration) *identity.Holders {
	var source clustercache.ClusterKey
	if config.SourceIdentity != nil && settings.InSource(config) {
		source = controllers.SourceTarget
	}
	return identity.NewHolders(informers, source)
}

// newSourceClient makes the client by which a term reads and writes the source. It has sockets of its own, for the
// fence.
func (h *hub) newSourceClient(scheme *k8sruntime.Scheme) error {
	config := rest.CopyConfig(h.Source)
	config.Wrap(h.leader.Fence().Wrap)
	config.Dial = h.leader.Fence().Dial
	http, err := rest.HTTPClientFor(config)
	if err == nil {
		h.sockets = append(h.sockets, http.Transport)
		mapper := mapperpool.Remember(h.manager.GetRESTMapper()) // which goes through all groups each time
		h.client, err = client.New(config, client.Options{HTTPClient: http, Scheme: scheme, Mapper: mapper})
	}
	if err != nil {
		return fmt.Errorf("client for the source cluster: %w", err)
	}
	return nil
}

func (h *hub) closeIdle() {
	for _, transport := range h.sockets {
		utilnet.CloseIdleConnectionsFor(transport)
	}
}

// toTarget is put around the transports of targets: the fence, and what the options have.
func (h *hub) toTarget(key clustercache.ClusterKey, next http.RoundTripper) http.RoundTripper {
	if h.WrapTransport != nil {
		next = h.WrapTransport(key, next)
	}
	return h.leader.Fence().Wrap(next)
}

func newManager(o Options, scheme *k8sruntime.Scheme) (ctrl.Manager, error) {
	shutdown := shutdownTimeout
	if w := o.Config.Server.Webhooks; w.Enabled {
		shutdown += w.ShutdownNotice.Duration
	}
	m, err := ctrl.NewManager(o.Source, ctrl.Options{
		Scheme: scheme,
		Logger: o.Logger,
		Cache: cache.Options{
			ReaderFailOnMissingInformer: true,
			DefaultTransform:            cache.TransformStripManagedFields(),
			ByObject:                    controllers.SourceObjects(o.Config, o.Clock),
		},
		Metrics:                 metricsOptions(o.Config, o.Clock),
		HealthProbeBindAddress:  o.Config.Server.HealthProbes.Address(),
		GracefulShutdownTimeout: &shutdown,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up access to the source cluster: %w", err)
	}
	return m, nil
}

// metricsOptions say how metrics are served, and who may read them.
func metricsOptions(c *configv1alpha1.HubConfiguration, now clock.PassiveClock) metricsserver.Options {
	o := metricsserver.Options{BindAddress: c.Server.Metrics.Address(), ExtraHandlers: profiling(c.Debugging)}
	if authentication := c.Server.MetricsAuthentication; authentication.Enabled {
		o.SecureServing, o.CertDir = true, authentication.CertificateDirectory
		o.FilterProvider = authenticated(now)
	}
	return o
}

// profiling returns the handlers of pprof, none unless they are switched on.
func profiling(d configv1alpha1.Debugging) map[string]http.Handler {
	if !d.EnableProfiling {
		return nil
	}
	if d.EnableContentionProfiling {
		runtime.SetBlockProfileRate(1)
		runtime.SetMutexProfileFraction(1)
	}
	return map[string]http.Handler{
		"/debug/pprof/":        http.HandlerFunc(pprof.Index),
		"/debug/pprof/cmdline": http.HandlerFunc(pprof.Cmdline),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}

// isFenced reports whether a call failed because of the fence.
func isFenced(err error) bool { return errors.Is(err, leader.ErrNotLeading) }

func (h *hub) newClusterCache(scheme *k8sruntime.Scheme) (*clustercache.Cache, error) {
	c := h.Config.ClusterCache
	allowed, err := addresses.Allow(c.AllowedNetworks...)
	if err != nil {
		return nil, fmt.Errorf("clusterCache.allowedNetworks: %w", err)
	}
	options := clustercache.Options{
		Secrets:          h.manager.GetCache(),
		VerifyIdentity:   h.guard.Verify,
		StillNeeded:      h.stillNeeded,
		DrainTimeout:     c.DrainTimeout.Duration,
		UserAgent:        userAgent,
		WrapTransport:    h.toTarget,
		Fenced:           isFenced,
		Calling:          fairqueue.Call,
		Limits:           h.settings.Limits,
		Asleep:           h.settings.Hibernated,
		Scheme:           scheme,
		MaxRegistrations: c.MaxRegistrationsPerNamespace,
		Logger:           h.Logger.WithName("clustercache"),
		Registerer:       h.Registerer,
		TargetHistograms: h.Config.Metrics.TargetHistograms,
		Dial: clustercache.DialOptions{
			AllowedProxyURLs: c.AllowedProxyURLs,
			Addresses:        allowed,
			WrapConn:         h.leader.Fence().WrapConn,
			ConnectParallel:  c.ConnectConcurrency,
		},
		Grace: clustercache.GraceOptions{
			Disconnect:  c.DisconnectGrace.Duration,
			MassPercent: c.MassDisconnectPercent,
			MassLimit:   c.MassDisconnectLimit.Duration,
		},
		Probe: clustercache.ProbeOptions{
			Interval: c.ProbeInterval.Duration,
			Timeout:  c.ProbeTimeout.Duration,
			Failures: c.FailureThreshold,
		},
		Watch: clustercache.WatchOptions{MaxObjects: c.MaxObjectsPerTarget},
	}
	if h.Config.SourceIdentity != nil {
		source, err := secondIdentity(h.Source, h.Config.SourceIdentity.ServiceAccount)
		if err != nil {
			return nil, err
		}
		options.Static = map[clustercache.ClusterKey]*rest.Config{controllers.SourceTarget: source}
	}
	clusters, err := clustercache.New(options)
	if err != nil {
		return nil, fmt.Errorf("setting up the cluster cache: %w", err)
	}
	return clusters, nil
}

// stillNeeded reports whether a controller still cleans up in a target whose registration is gone.
func (h *hub) stillNeeded(key clustercache.ClusterKey) bool {
	status, known := h.clusters.GetStatus(key)
	return h.members.StillNeeded(key) || known && h.attached.StillNeeded(h.manager.GetCache(), status)
}

// assemble adds what every replica runs to the manager.
func (h *hub) assemble() error {
	replica := []everyReplica{h.secrets.Start, h.work, h.forgetBundles, h.releaseMemory}
	if h.ConfigFile != "" {
		r := newReloader(h.Options)
		if err := h.Registerer.Register(r); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
		replica = append(replica, r.Start)
	}
	for _, run := range replica {
		if err := h.manager.Add(run); err != nil {
			return fmt.Errorf("setting up the hub: %w", err)
		}
	}
	if err := h.manager.AddHealthzCheck("loops", h.loops.Alive(
		h.Config.Controllers.Heartbeat.LivenessStuckAfter.Duration)); err != nil {
		return fmt.Errorf("setting up the hub: %w", err)
	}
	if h.Config.Server.EnableDebugHandlers {
		if err := h.manager.AddMetricsServerExtraHandler(debugPath, http.HandlerFunc(h.debugTargets)); err != nil {
			return fmt.Errorf("setting up the hub: %w", err)
		}
	}
	return h.manager.AddReadyzCheck("source", h.ready)
}

// everyReplica is a Runnable that does not wait for a leader election of the manager.
type everyReplica func(context.Context) error

func (f everyReplica) Start(ctx context.Context) error { return f(ctx) }
func (everyReplica) NeedLeaderElection() bool          { return false }

// forgetBundles drops decoded bundles that are of no use any longer.
func (h *hub) forgetBundles(ctx context.Context) error {
	timer := h.Clock.NewTimer(bundleRest / 4)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
			h.bundles.Forget(h.Clock.Now().Add(-bundleRest))
			timer.Reset(bundleRest / 4)
		}
	}
}

// releaseMemory gives back, once, what only the first lists of the source and of targets needed. The runtime takes long
// to do so in a hub that allocates little.
func (h *hub) releaseMemory(ctx context.Context) error {
	select {
	case <-h.synced:
	case <-ctx.Done():
		return nil
	}
	select {
	case <-h.Clock.After(startTime):
		debug.FreeOSMemory()
	case <-ctx.Done():
	}
	return nil
}

// ready reports whether the source is known: then a replica can lead, or take over at once.
func (h *hub) ready(*http.Request) error {
	select {
	case <-h.synced:
		return nil
	default:
		return errors.New("the informers of the source cluster are not synced")
	}
}

// work is connected to targets, contends for leadership, and serves webhooks. The connections end after the last term,
// whose writes have to be finished, and after the last answer, which may need one.
func (h *hub) work(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	group := errgroup.Group{}
	group.Go(func() error {
		defer end()
		return h.connect(connected)
	})
	group.Go(func() error {
		defer disconnect()
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() error { return h.lead(ctx) })
		both.Go(func() error { return h.serve(ctx) })
		return both.Wait()
	})
	return group.Wait()
}

// connect runs the connections to targets. They begin when the TargetClusters are known, however long the source takes
// to answer: hibernated targets must not be dialled.
func (h *hub) connect(ctx context.Context) error {
	if _, err := h.manager.GetCache().GetInformer(ctx, &hubv1alpha1.TargetCluster{}); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of the hub is no error
		}
		return fmt.Errorf("watching TargetClusters: %w", err)
	}
	return h.clusters.Start(ctx)
}

func (h *hub) lead(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	for _, kind := range controllers.SourceKinds() { // the controllers would start some of them too late
		if _, err := h.manager.GetCache().GetInformer(ctx, kind); err != nil {
			return fmt.Errorf("watching the source cluster: %w", err)
		}
	}
	if err := h.members.Register(ctx); err != nil {
		return fmt.Errorf("finding the ManagedResources of targets: %w", err)
	}
	if err := h.holders.Register(ctx); err != nil {
		return fmt.Errorf("finding the registrations of clusters: %w", err)
	}
	if !h.manager.GetCache().WaitForCacheSync(ctx) || !h.secrets.WaitForSync(ctx) || !h.clusters.WaitForSync(ctx) {
		return nil
	}
	close(h.synced)
	if err := h.settings.Follow(ctx, &work, h.clusters.Recheck); err != nil && ctx.Err() == nil {
		return err //nolint:wrapcheck // it says what was watched
	}
	h.watchProbes(ctx)
	if h.Started != nil {
		h.Started()
	}
	return h.leader.Start(ctx)
}
