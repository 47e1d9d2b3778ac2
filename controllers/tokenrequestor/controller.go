package tokenrequestor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// Name is that of the controller, for logs and metrics.
const Name = "token-requestor"

// Defaults of Options.
const defaultSpread = 5 * time.Minute

// runRate, a second, and runBurst bound how often Secrets of one target are worked on, each of which may lead to a
// review and a request of a token: a Secret may be changed as often as its owner likes.
const runRate, runBurst = 10, 20

// allWorkers is how many Secrets are worked on at a time. They wait for targets most of the time; with fewer, some
// targets that hang would occupy them all.
const allWorkers = 64

// runTimeout bounds a run: a handful of calls.
const runTimeout = 30 * time.Second

// Options say what the controller is made of.
type Options struct {
	// Environment is that of all controllers in targets. Its Source is not needed.
	Environment multicluster.Environment
	// Source calls the API server of the source; Metadata does for the watch of access Secrets. Both are required.
	Source   client.Client
	Metadata metadata.Interface
	// Namespaces are those in which access Secrets are looked for. None: all.
	Namespaces []string
	// Settings returns those of a target, from memory; false: the controller is switched off there. Required.
	Settings func(clustercache.Status) (Settings, bool)
	// Follow reports targets whose settings have changed. Nil: they do not change.
	Follow multicluster.FollowFunc
	// Spread is within which time after the beginning of a term tokens are reviewed that are not due. Default 5m;
	// negative: at once.
	Spread time.Duration
	// Jitter lengthens a time by a part of it that is random, and at most the factor. Nil: it does.
	Jitter func(d time.Duration, factor float64) time.Duration
	// Metrics takes figures. Nil: they are not recorded.
	Metrics *Metrics
}

// Controller keeps the tokens of access Secrets for one term of leadership.
type Controller struct {
	*multicluster.Controller
	reconciler *reconciler
	// serverCAs are hashes of the certificates that targets were connected with last. Only follow uses them.
	serverCAs map[clustercache.ClusterKey][sha256.Size]byte
}

// New returns a controller that does nothing until it is started.
func New(options Options) (*Controller, error) {
	if options.Source == nil || options.Metadata == nil || options.Settings == nil {
		return nil, fmt.Errorf("controller %s: %w", Name, errors.New("a required option is missing"))
	}
	if options.Spread == 0 {
		options.Spread = defaultSpread
	}
	if options.Jitter == nil {
		options.Jitter = func(d time.Duration, factor float64) time.Duration {
			return d + time.Duration(rand.Float64()*factor*float64(d)) //nolint:gosec // no secret depends on it
		}
	}
	environment := options.Environment
	if environment.Clock == nil {
		environment.Clock = clock.RealClock{}
	}
	secrets, err := informers.NewMetadata(options.Metadata, corev1.SchemeGroupVersion.WithResource("secrets"),
		labels.SelectorFromSet(labels.Set{PurposeLabel: Purpose}), options.Namespaces, trim, environment.Logger)
	if err != nil {
		return nil, fmt.Errorf("controller %s: %w", Name, err)
	}
	r := &reconciler{
		source: options.Source, secrets: secrets, clusters: environment.Clusters, settings: options.Settings,
		clock: environment.Clock, jitter: options.Jitter, spread: options.Spread, tokens: newTokens(environment.Clock),
		metrics: options.Metrics,
	}
	c := &Controller{reconciler: r, serverCAs: map[clustercache.ClusterKey][sha256.Size]byte{}}
	builder := multicluster.New(Name, environment).
		WatchesSourceBy(secrets, func(obj client.Object) []types.NamespacedName {
			return []types.NamespacedName{client.ObjectKeyFromObject(obj)}
		}).
		EnabledFor(func(status clustercache.Status) bool {
			_, on := options.Settings(status)
			return on && status.Cluster.Namespace != ""
		}).
		WorkersFor(allWorkers, func(status clustercache.Status) int {
			settings, _ := options.Settings(status)
			return settings.ConcurrentSyncs
		}).
		Paced(runRate, runBurst).
		Timeout(runTimeout)
	if options.Follow != nil {
		builder.FollowsSettings(func(
			ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey),
		) error {
			return options.Follow(ctx, work, func(cluster clustercache.ClusterKey) {
				changed(cluster)
				// Whether a Secret is for a target depends on all targets of its namespace.
				for _, status := range environment.Clusters.List(cluster.Namespace) {
					c.recheck(ctx, status.Cluster)
				}
			})
		})
	}
	if c.Controller, err = builder.Complete(r); err != nil {
		return nil, err //nolint:wrapcheck // it names the controller
	}
	return c, nil
}

// trim keeps of an access Secret what is looked at before it is read.
func trim(secret *metav1.PartialObjectMetadata) {
	secret.ManagedFields, secret.OwnerReferences, secret.Finalizers = nil, nil, nil
	secret.Labels = only(secret.Labels, PurposeLabel, ClassLabel, hubv1alpha1.ClusterNameLabel)
	secret.Annotations = only(secret.Annotations, InjectCAAnnotation, RenewTimestampAnnotation)
}

// keptValue is how many bytes of a value of an annotation are kept.
const keptValue = 64

// only returns the entries of some keys, but for values that are too long to mean something.
func only(all map[string]string, keys ...string) map[string]string {
	kept := map[string]string{}
	for _, key := range keys {
		if value, has := all[key]; has && len(value) <= keptValue {
			kept[key] = value
		}
	}
	return kept
}

// Start works until ctx ends, and returns when nothing is left of the controller. It can be called once.
func (c *Controller) Start(ctx context.Context) error {
	c.reconciler.metrics.begin(c.reconciler)
	defer c.reconciler.metrics.end()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { c.reconciler.secrets.Run(ctx); return nil })
	group.Go(func() error { return c.Controller.Start(ctx) })
	group.Go(func() error { return c.follow(ctx) })
	return group.Wait() //nolint:wrapcheck // it names the controller
}

// recheck has all access Secrets of a target reconciled whose settings have changed.
func (c *Controller) recheck(ctx context.Context, cluster clustercache.ClusterKey) {
	c.enqueue(ctx, cluster, func(client.Object) bool { return true })
}

// enqueue has access Secrets of a target reconciled.
func (c *Controller) enqueue(ctx context.Context, cluster clustercache.ClusterKey, which func(client.Object) bool) {
	objects, err := c.reconciler.secrets.InNamespace(ctx, cluster.Namespace)
	if err != nil {
		return // there is no such index, which a test would have found
	}
	for _, obj := range objects {
		if which(obj) {
			c.Enqueue(cluster, client.ObjectKeyFromObject(obj))
		}
	}
}

// follow has reconciled what the state of registrations changes.
func (c *Controller) follow(ctx context.Context) error {
	events := c.reconciler.clusters.GetClusterSource(Name + " states")
	defer events.Close()
	for {
		event, err := events.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("controller %s: following the events of targets: %w", Name, err)
		}
		if event.Cluster.Namespace != "" {
			c.followServerCA(ctx, event)
			c.followServing(ctx, event)
		}
	}
}

// followServerCA has Secrets that want the certificates of a target reconciled when these are others.
func (c *Controller) followServerCA(ctx context.Context, event clustercache.Event) {
	status, registered := c.reconciler.clusters.GetStatus(event.Cluster)
	if !registered {
		delete(c.serverCAs, event.Cluster)
		return
	}
	if status.State != clustercache.StateConnected {
		return
	}
	hash := sha256.Sum256(status.CA)
	before, known := c.serverCAs[event.Cluster]
	if known && before == hash {
		return
	}
	c.serverCAs[event.Cluster] = hash
	if known {
		c.enqueue(ctx, event.Cluster, wantsCA)
	}
}

func wantsCA(obj client.Object) bool {
	wants, err := strconv.ParseBool(obj.GetAnnotations()[InjectCAAnnotation])
	return wants && err == nil
}

// followServing has Secrets that pick no target reconciled when there may be only one for them now.
func (c *Controller) followServing(ctx context.Context, event clustercache.Event) {
	if !event.Has(clustercache.EventRegistered) && !event.Has(clustercache.EventDraining) &&
		!event.Has(clustercache.EventGone) && !event.Has(clustercache.EventDisconnected) {
		return
	}
	byClass := map[string][]clustercache.ClusterKey{}
	for _, status := range c.reconciler.clusters.List(event.Cluster.Namespace) {
		if status.State != clustercache.StateDraining {
			class := hubClass(status)
			byClass[class] = append(byClass[class], status.Cluster)
		}
	}
	for _, keys := range byClass {
		if len(keys) == 1 {
			c.enqueue(ctx, keys[0], func(obj client.Object) bool {
				return obj.GetLabels()[hubv1alpha1.ClusterNameLabel] == ""
			})
		}
	}
}
