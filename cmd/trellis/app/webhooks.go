package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers"
	"github.com/trellis-hub/trellis/webhooks"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/certificates"
	"github.com/trellis-hub/trellis/webhooks/controlplane/providers"
	"github.com/trellis-hub/trellis/webhooks/deletionprotection"
	"github.com/trellis-hub/trellis/webhooks/nodeagentauthorizer"
	"github.com/trellis-hub/trellis/webhooks/routes"
	"github.com/trellis-hub/trellis/webhooks/server"
	"github.com/trellis-hub/trellis/webhooks/state"
)

// serving is what serves webhooks to targets. Every replica does.
type serving struct {
	all    []admission.Webhook
	store  *certificates.Store
	server *server.Server
}

// newServing makes it; nil if it is switched off.
func (h *hub) newServing() (*serving, error) {
	config := h.Config.Server.Webhooks
	if !config.Enabled {
		return nil, nil
	}
	namespace := h.Config.LeaderElection.ResourceNamespace
	// Any replica may make the Secret, so the client is not fenced. Only the leader writes it later.
	unfenced, err := client.New(h.Source, client.Options{
		HTTPClient: h.manager.GetHTTPClient(), Scheme: h.manager.GetScheme(), Mapper: h.manager.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("client for the Secret of webhooks: %w", err)
	}
	ofProviders, err := h.ofProviders()
	if err != nil {
		return nil, err
	}
	s := &serving{all: append(webhooks.All(deletionprotection.NewLister(h.clusters)), ofProviders...)}
	options := certificates.Options{
		Secret: types.NamespacedName{Namespace: namespace, Name: config.Certificates.SecretName},
		Names:  config.ServerNames(), Client: unfenced, Validity: config.Certificates.Validity.Duration,
		Renewal: config.Certificates.RenewAfter.Duration, Overlap: config.Certificates.Overlap.Duration,
		Logger: h.Logger.WithName("webhooks"),
	}
	if external := config.Certificates.ExternalSecretName; external != "" {
		options.External = types.NamespacedName{Namespace: namespace, Name: external}
	}
	if clients := config.ClientAuthorities.SecretName; clients != "" {
		options.Clients = types.NamespacedName{Namespace: namespace, Name: clients}
	}
	if h.Certificates != nil {
		h.Certificates(&options)
	}
	if s.store, err = certificates.New(options); err != nil {
		return nil, err //nolint:wrapcheck // it says what it was about
	}
	metrics, err := server.NewMetrics(h.Registerer)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	serverOptions := server.Options{
		Address: config.Address(), Webhooks: s.all, Find: h.findForWebhooks,
		State: state.New(h.clusters, nil).Of, Keys: s.store.Keys, Certificate: s.store.Certificate,
		Limits: server.Limits{
			InFlight: config.Limits.MaxInFlight, TargetInFlight: config.Limits.MaxInFlightPerTarget,
			TargetQPS: float64(config.Limits.QPSPerTarget), TargetBurst: config.Limits.BurstPerTarget,
		},
		Notice: config.ShutdownNotice.Duration, Metrics: metrics, Logger: h.Logger.WithName("webhooks"),
		Extras: map[string]server.Extra{
			nodeagentauthorizer.Path: &nodeagentauthorizer.Authorizer{Source: unfenced, Targets: h.clusters},
		},
	}
	if options.Clients.Name != "" {
		serverOptions.Clients = s.store.ClientAuthorities
	}
	if config.ClientConfig.PerTarget() {
		serverOptions.ServerName = serverName(h)
	}
	if s.server, err = server.New(serverOptions); err != nil {
		return nil, err //nolint:wrapcheck // it says what it was about
	}
	if err := h.manager.AddReadyzCheck("webhooks", s.server.Ready); err != nil {
		return nil, fmt.Errorf("setting up the hub: %w", err)
	}
	return s, nil
}

// ofProviders returns the webhooks that change control planes.
func (h *hub) ofProviders() ([]admission.Webhook, error) {
	known := providers.Names()
	for _, class := range h.Config.Classes {
		wanted := class.Webhooks.ControlPlanes
		if wanted == nil {
			continue
		}
		for _, name := range wanted.Providers {
			if !slices.Contains(known, name) {
				return nil, fmt.Errorf("class %q: webhooks.controlPlanes.providers: the hub was not built with %q, but with %q",
					class.Name, name, known)
			}
		}
	}
	//nolint:wrapcheck // it names the provider
	return providers.Webhooks(func(ctx context.Context, r *admission.Request) (client.Reader, error) {
		return h.clusters.GetUncachedClient(ctx, r.Target)
	})
}

// serverName is the name by which a target calls the hub.
func serverName(h *hub) func(clustercache.ClusterKey, types.UID) string {
	config := h.Config.Server.Webhooks.ClientConfig
	return func(key clustercache.ClusterKey, uid types.UID) string {
		return config.ServerName(routes.Label(key, uid))
	}
}

// findForWebhooks returns a target, from memory. Its cluster UID is known from the source even if the target was not
// connected since this replica was started.
func (h *hub) findForWebhooks(key clustercache.ClusterKey) (server.Target, bool) {
	status, registered := h.clusters.GetStatus(key)
	if !registered {
		return server.Target{}, false
	}
	target := server.Target{UID: status.UID, Settings: h.settings.Webhooks(status)}
	tc := &hubv1alpha1.TargetCluster{}
	if key.Namespace != "" &&
		h.manager.GetCache().Get(context.Background(), key, tc, client.UnsafeDisableDeepCopy) == nil &&
		tc.Status.ClusterUID != "" {
		target.UID = tc.Status.ClusterUID
	}
	return target, true
}

// serve serves webhooks as soon as everything is known that it takes, until ctx ends and the last answer is sent.
func (h *hub) serve(ctx context.Context) error {
	if h.serving == nil {
		return nil
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the last answer
	followed := make(chan struct{})
	var failed error
	go func() {
		defer close(followed)
		failed = h.serving.store.Follow(following)
	}()
	defer func() {
		stop()
		<-followed
	}()
	for _, known := range []<-chan struct{}{h.synced, h.serving.store.Known()} {
		select {
		case <-known:
		case <-followed:
			return failed
		case <-ctx.Done():
			return nil
		}
	}
	// Webhooks that have to know something of a target refuse what comes before the hub is connected to it.
	awaitConnections(ctx, h.Clock, h.connecting)
	return h.serving.server.Start(ctx) //nolint:wrapcheck // it says what it was about
}

// connectTime is how long a replica waits for its first connections before it serves webhooks, and connectPoll how
// often it looks. A target that hangs must not keep it from serving others for longer.
const connectTime, connectPoll = 10 * time.Second, 100 * time.Millisecond

// awaitConnections waits until each target was tried to connect to, but not for long.
func awaitConnections(ctx context.Context, c clock.Clock, connecting func() bool) {
	late := c.NewTimer(connectTime)
	defer late.Stop()
	for connecting() {
		select {
		case <-c.After(connectPoll):
		case <-late.C():
			return
		case <-ctx.Done():
			return
		}
	}
}

// connecting reports whether no attempt to connect to a target with webhooks has ended yet.
func (h *hub) connecting() bool {
	all := h.clusters.List("")
	if source, registered := h.clusters.GetStatus(controllers.SourceTarget); registered {
		all = append(all, source)
	}
	return slices.ContainsFunc(all, func(status clustercache.Status) bool {
		if status.State != clustercache.StateConnecting {
			return false
		}
		settings := h.settings.Webhooks(status)
		return slices.ContainsFunc(h.serving.all, func(w admission.Webhook) bool { return w.Enabled(&settings) })
	})
}

// forControllers is what the controller of registrations has to know of the server; nil if there is none.
func (h *hub) forControllers() *controllers.Webhooks {
	if h.serving == nil {
		return nil
	}
	config := h.Config.Server.Webhooks.ClientConfig
	return &controllers.Webhooks{
		All: h.serving.all, Store: h.serving.store, Client: config,
		Served: func(ctx context.Context, route routes.Route, m *certificates.Material) error {
			name := config.ServerName(routes.Label(route.Target, route.UID))
			//nolint:wrapcheck // it says what it was about
			return h.serving.server.Served(ctx, name, m.Bundle, route.Path(m.Key))
		},
	}
}
