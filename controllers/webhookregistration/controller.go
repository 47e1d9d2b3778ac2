package webhookregistration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/certificates"
	"github.com/trellis-hub/trellis/webhooks/routes"
)

// Name is that of the controller, for logs and metrics.
const Name = "webhook-registration"

const (
	// workers is how many targets are worked on at a time. Runs wait for targets most of the time.
	workers = 32
	// runTimeout bounds a run.
	runTimeout = time.Minute
	// defaultPeriod is the time between two probes of a target.
	defaultPeriod = 5 * time.Minute
	// defaultPropagation is how long an API server may take to use a configuration or a policy. Policies are compiled
	// once a second at most.
	defaultPropagation = 10 * time.Second
	// lookRate, a second, and lookBurst bound how often one target is worked on: it may change its configurations as
	// often as it likes.
	lookRate, lookBurst = 1, 10
)

// Reasons and action of events on a TargetCluster.
const (
	reasonFailed   = "WebhooksFailed"
	reasonAttached = "WebhooksRegistered"
	reasonDetached = "WebhooksRemoved"
	// reasonLeftBehind says that the hub can no longer remove what is registered in a target.
	reasonLeftBehind = hubv1alpha1.ReasonWebhooksLeftBehind
	action           = "RegisterWebhooks"
)

// Store is what calls are secured with.
type Store interface {
	// Material returns what is in use, nil if nothing is known yet, and a channel that is closed when that changes.
	Material() (*certificates.Material, <-chan struct{})
	// Rotate renews it until ctx ends.
	Rotate(ctx context.Context, write client.Client, progress func(hash string) certificates.Progress) error
}

// Options say what the controller is made of. All are required but those with a default.
type Options struct {
	// Environment is that of all controllers in targets. Its Source has the TargetClusters.
	Environment multicluster.Environment
	// Source calls the API server of the source.
	Source client.Client
	// ID distinguishes this hub from others: two that look after the same target must not take the same names.
	ID string
	// Settings returns those of a target's webhooks, from memory.
	Settings func(clustercache.Status) hubv1alpha1.TargetWebhooks
	// Follow reports targets whose settings have changed. Nil: they do not change.
	Follow multicluster.FollowFunc
	// Webhooks are all that there are, in the order in which they are called. Nil: the hub serves none, and what it
	// registered before is deleted. Endpoint, Store and Served are not needed then.
	Webhooks []admission.Webhook
	// Endpoint is where targets call the hub, Store what their calls are secured with.
	Endpoint Endpoint
	Store    Store
	// Attached, if set, records the targets in which something is registered.
	Attached *Attached
	// Served returns why this hub itself does not serve a route; nil if it does.
	Served func(ctx context.Context, route routes.Route, m *certificates.Material) error

	// period is the time between two probes. Default: 5 minutes.
	period time.Duration
	// propagation is how long an API server may take to use what was written. Default: 10 seconds.
	propagation time.Duration
}

// Controller is the controller. Make it with New.
type Controller struct {
	targets    *multicluster.Controller
	reconciler *reconciler
}

// New returns a controller that does nothing until it is started.
func New(options Options) (*Controller, error) {
	o := &options
	serves := len(o.Webhooks) > 0
	if o.Settings == nil || o.Source == nil || o.Environment.Source == nil || o.ID == "" ||
		serves && (o.Store == nil || o.Served == nil || o.Endpoint.URL == "" && o.Endpoint.Service == nil) {
		return nil, fmt.Errorf("controller %s: %w", Name, errors.New("a required option is missing"))
	}
	if o.period == 0 {
		o.period = defaultPeriod
	}
	if o.propagation == 0 {
		o.propagation = defaultPropagation
	}
	if o.Attached == nil {
		o.Attached = &Attached{}
	}
	if o.Environment.Clock == nil {
		o.Environment.Clock = clock.RealClock{}
	}
	r := &reconciler{
		Options: options, faults: multicluster.NewFaults(o.Environment.Clock, reasonFailed, action),
		known: map[clustercache.ClusterKey]*known{},
	}
	builder := multicluster.New(Name, options.Environment).
		EveryFor(func(clustercache.Status) time.Duration { return options.period }).
		EnabledFor(func(status clustercache.Status) bool { return r.wanted(status) || r.leftOver(status.Cluster) }).
		OnSync().
		Workers(workers, 1).
		Paced(lookRate, lookBurst).
		Timeout(runTimeout)
	selector := labels.SelectorFromSet(labels.Set{hubv1alpha1.WebhooksLabel: "true"})
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		builder.Watches(&multicluster.Objects{
			Kind:         admissionregistrationv1.SchemeGroupVersion.WithKind(kind),
			MetadataOnly: true, LabelSelector: selector,
		}, wholeTarget)
	}
	r.watchPolicies(builder, selector)
	c := &Controller{reconciler: r}
	if options.Follow != nil {
		builder.FollowsSettings(func(
			ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey),
		) error {
			return options.Follow(ctx, work, func(cluster clustercache.ClusterKey) {
				changed(cluster)
				c.targets.Enqueue(cluster, types.NamespacedName{})
			})
		})
	}
	var err error
	c.targets, err = builder.Complete(r)
	return c, err //nolint:wrapcheck // it names the controller
}

// wholeTarget has the target reconciled, whatever has changed.
func wholeTarget(types.NamespacedName, any, any) []types.NamespacedName {
	return []types.NamespacedName{{}}
}

// Start works until ctx ends, and returns when nothing is left of the controller. It can be called once.
func (c *Controller) Start(ctx context.Context) error {
	defer c.reconciler.Attached.clear()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.targets.Start(ctx) })
	group.Go(func() error { return newLeaving(c.reconciler).start(ctx) })
	if r := c.reconciler; len(r.Webhooks) > 0 {
		group.Go(func() error { return r.Store.Rotate(ctx, r.Source, r.progress) })
		group.Go(func() error { return c.followMaterial(ctx) })
	}
	return group.Wait() //nolint:wrapcheck // it names the controller
}

// StuckSince returns since when the controller has not been able to begin anything; zero if that is not so.
func (c *Controller) StuckSince(now time.Time) time.Time { return c.targets.StuckSince(now) }

// followMaterial has all targets registered again when what calls are secured with has changed.
func (c *Controller) followMaterial(ctx context.Context) error {
	_, changed := c.reconciler.Store.Material()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		_, changed = c.reconciler.Store.Material()
		for _, key := range c.reconciler.engaged() {
			c.targets.Enqueue(key, types.NamespacedName{})
		}
	}
}

// configurationName is that of both configurations in a target. Names of policies begin with it.
func (r *reconciler) configurationName(key clustercache.ClusterKey) string {
	sum := sha256.Sum256([]byte(r.ID + "\x00" + key.String()))
	return "trellis-" + hex.EncodeToString(sum[:6])
}
