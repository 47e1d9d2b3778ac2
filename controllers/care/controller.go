package care

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

// Name is that of the controller, for logs and metrics.
const Name = "care"

const (
	// workers is how many targets are looked at at a time. Runs wait for targets most of the time; with fewer workers,
	// some targets that hang would occupy them all.
	workers = 32
	// runTimeout bounds a look at a target.
	runTimeout = 2 * time.Minute
	// conflictRetry is the pause after another client wrote the TargetCluster at the same time.
	conflictRetry = 5 * time.Second
	// awayAfter is for how long a target is away until what was known of it says nothing any longer.
	awayAfter = 5 * time.Minute

	defaultSweepPeriod       = time.Minute
	defaultPageSize          = 100
	defaultMaxConfigurations = 2000
	defaultMaxDefinitions    = 5000
	defaultMaxReads          = 200
	defaultMaxRemedies       = 20
)

// Reasons and action of events on a TargetCluster.
const (
	reasonRemedied = "WebhooksRemedied"
	reasonFailed   = "CareFailed"
	action         = "LookAfterTarget"
)

// Settings are those of one target.
type Settings struct {
	// SyncPeriod is the time between two looks at the target.
	SyncPeriod time.Duration
	// Remediate has webhooks changed that can stop the target.
	Remediate bool
}

// Options say what the controller is made of. Environment, Source and Settings are required.
type Options struct {
	// Environment is that of all controllers in targets. Its Source has the TargetClusters.
	Environment multicluster.Environment
	// Source calls the API server of the source.
	Source client.Client
	// Settings returns those of a target, from memory; false: the controller is switched off there.
	Settings func(clustercache.Status) (Settings, bool)
	// Follow reports targets whose settings have changed. Nil: they do not change.
	Follow multicluster.FollowFunc
	// Metrics receives what was found out. Nil: it is not recorded.
	Metrics *Metrics

	// sweepPeriod is how often the constraints of targets are updated in which the controller does not work. Default: a
	// minute.
	sweepPeriod time.Duration
	// pageSize is how many objects are listed at a time, maxConfigurations how many configurations of webhooks of a kind
	// a target may have, and maxDefinitions how many CustomResourceDefinitions. Defaults: 100, 2000 and 5000.
	pageSize                          int64
	maxConfigurations, maxDefinitions int
	// maxReads is how many CustomResourceDefinitions are read whole in a run, and maxRemedies how many configurations
	// are changed. Defaults: 200 and 20.
	maxReads, maxRemedies int
}

// Controller is the controller. Make it with New.
type Controller struct {
	targets    *multicluster.Controller
	reconciler *reconciler
}

// New returns a controller that does nothing until it is started.
func New(options Options) (*Controller, error) {
	if options.Settings == nil || options.Source == nil || options.Environment.Source == nil {
		return nil, fmt.Errorf("controller %s: %w", Name, errors.New("a required option is missing"))
	}
	r := newReconciler(options)
	builder := multicluster.New(Name, options.Environment).
		EveryFor(func(status clustercache.Status) time.Duration {
			settings, _ := options.Settings(status)
			return settings.SyncPeriod
		}).
		EnabledFor(func(status clustercache.Status) bool {
			_, on := options.Settings(status)
			return on
		}).
		Workers(workers, 1).
		Timeout(runTimeout)
	c := &Controller{reconciler: r}
	if options.Follow != nil {
		builder.FollowsSettings(func(
			ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey),
		) error {
			return options.Follow(ctx, work, func(cluster clustercache.ClusterKey) {
				changed(cluster)
				c.targets.Enqueue(cluster, types.NamespacedName{}) // the remediator may have been switched on
			})
		})
	}
	var err error
	c.targets, err = builder.Complete(r)
	return c, err //nolint:wrapcheck // it names the controller
}

// Start works until ctx ends, and returns when nothing is left of the controller. It can be called once.
func (c *Controller) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.targets.Start(ctx) })
	group.Go(func() error { return c.reconciler.sweep(ctx) })
	return group.Wait() //nolint:wrapcheck // it names the controller
}

// StuckSince returns since when the controller has not been able to begin anything; zero if that is not so.
func (c *Controller) StuckSince(now time.Time) time.Time { return c.targets.StuckSince(now) }

// reconciler is the Reconciler.
type reconciler struct {
	Options
	clock  clock.PassiveClock
	logger logr.Logger
	faults *multicluster.Faults

	mu      sync.Mutex
	targets map[clustercache.ClusterKey]*memory
}

// memory is what is known of a target from earlier looks. Only its runs use it, of which there is one at a time.
type memory struct {
	// harmless are the CustomResourceDefinitions that need not be read again.
	harmless map[version]struct{}
	// attempts are those to change configurations of webhooks.
	attempts map[types.UID]attempts
	// said is what was logged last about each constraint, of a target without a TargetCluster.
	said map[string]string
}

func newReconciler(options Options) *reconciler {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&options.maxConfigurations, defaultMaxConfigurations)
	set(&options.maxDefinitions, defaultMaxDefinitions)
	set(&options.maxReads, defaultMaxReads)
	set(&options.maxRemedies, defaultMaxRemedies)
	if options.pageSize == 0 {
		options.pageSize = defaultPageSize
	}
	if options.sweepPeriod == 0 {
		options.sweepPeriod = defaultSweepPeriod
	}
	r := &reconciler{
		Options: options, clock: options.Environment.Clock, logger: options.Environment.Logger,
		faults:  multicluster.NewFaults(options.Environment.Clock, reasonFailed, action, errTooMany, errRefused),
		targets: map[clustercache.ClusterKey]*memory{},
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	if r.logger.GetSink() == nil {
		r.logger = logr.Discard()
	}
	return r
}

// Forget implements multicluster.Forgetter.
func (r *reconciler) Forget(cluster clustercache.ClusterKey) {
	r.Metrics.forget(cluster)
	r.faults.Forget(cluster)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.targets, cluster)
}

func (r *reconciler) memoryOf(cluster clustercache.ClusterKey) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.targets[cluster]
	if m == nil {
		m = &memory{
			harmless: map[version]struct{}{}, attempts: map[types.UID]attempts{}, said: map[string]string{},
		}
		r.targets[cluster] = m
	}
	return m
}

// mayChange reports whether a configuration may be changed, or was changed so often that it has to wait.
func (m *memory) mayChange(uid types.UID, now time.Time) bool {
	return !now.Before(m.attempts[uid].next)
}

// changed notes that a configuration was changed.
func (m *memory) changed(uid types.UID, now time.Time) {
	a := m.attempts[uid]
	if len(m.attempts) >= maxAttempts && a.n == 0 {
		clear(m.attempts)
	}
	if now.Sub(a.next) > longestPause {
		a.n = 0
	}
	a.next = now.Add(min(firstPause<<min(a.n, 10), longestPause))
	a.n++
	m.attempts[uid] = a
}

// Reconcile looks at a target. The kit repeats it after the target's period.
func (r *reconciler) Reconcile(
	ctx context.Context, target *multicluster.Target, _ types.NamespacedName,
) (reconcile.Result, error) {
	settings, on := r.Settings(target.Status)
	if !on {
		return reconcile.Result{}, nil
	}
	findings, err := r.look(ctx, target, settings)
	if err != nil && concernsAll(err) {
		return reconcile.Result{}, err
	}
	switch written := r.write(ctx, target, findings); {
	case apierrors.IsConflict(written) && err == nil:
		return reconcile.Result{RequeueAfter: min(conflictRetry, settings.SyncPeriod)}, nil
	case written != nil:
		return reconcile.Result{}, errors.Join(err, written)
	}
	return reconcile.Result{RequeueAfter: settings.SyncPeriod}, err
}

// look finds out about all constraints of a target.
func (r *reconciler) look(
	ctx context.Context, target *multicluster.Target, settings Settings,
) (findings []finding, err error) {
	for _, check := range []struct {
		constraint string
		run        func() (finding, error)
	}{
		{
			hubv1alpha1.ConstraintWebhooksUnproblematic,
			func() (finding, error) { return r.webhooks(ctx, target, settings.Remediate) },
		},
		{
			hubv1alpha1.ConstraintCRDsWithProblematicConversionWebhooks,
			func() (finding, error) { return r.conversions(ctx, target) },
		},
		{
			hubv1alpha1.ConstraintCACertificateValiditiesAcceptable,
			func() (finding, error) { return r.authorities(ctx, target) },
		},
	} {
		f, failed := check.run()
		switch {
		case failed == nil:
		case concernsAll(failed):
			return nil, failed
		case lasts(failed):
			r.faults.Report(target, failed)
			f = finding{
				constraint: check.constraint, status: metav1.ConditionUnknown, reason: hubv1alpha1.ReasonCheckFailed,
				message: untrusted.Message(failed.Error()),
			}
		default:
			err = errors.Join(err, fmt.Errorf("constraint %s: %w", check.constraint, failed))
			f = finding{constraint: check.constraint, keep: true}
		}
		findings = append(findings, f)
	}
	return findings, err
}

// concernsAll reports whether an error would meet every other call, too.
func concernsAll(err error) bool {
	return errors.Is(err, clustercache.ErrConnectionReplaced) || errors.Is(err, clustercache.ErrClusterNotConnected) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// lasts reports whether an error does not go away by itself.
func lasts(err error) bool {
	return apierrors.IsForbidden(err) || errors.Is(err, errTooMany) || errors.Is(err, untrusted.ErrExceeded)
}

// isAway reports whether a target has been away for so long that what was known of it says nothing any longer. One that
// is hibernated keeps what it has.
func isAway(status clustercache.Status, now time.Time) bool {
	switch status.State {
	case clustercache.StateDisconnected, clustercache.StateRefused:
		return !status.InGrace && now.Sub(status.Since) > awayAfter
	default:
		return false
	}
}

// about is the TargetCluster of a target. The source as a target has none.
func (r *reconciler) about(target *multicluster.Target) client.Object {
	key := target.Key()
	if key.Namespace == "" {
		return nil
	}
	return &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
}
