package leader

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
)

// pollInterval is how often a standby reads the Lease.
const pollInterval = 250 * time.Millisecond

// Options configures an Election.
type Options struct {
	// Config is a valid configuration, with its defaults.
	Config configv1alpha1.LeaderElection
	// Source is the access to the cluster with the Lease.
	Source *rest.Config
	// Identity is the name in the Lease.
	Identity string
	// Term is the work of a leader. It must return soon after its context ended, and write nothing after that.
	Term func(ctx context.Context) error
	// Patience is how long a write may take to finish after its caller has canceled it, bounded by the margin of the
	// Lease. A target that does not respond prolongs each end of a term by that time. Default: one second. Without a
	// Lease it is zero.
	Patience time.Duration
	// Clock measures the age of renewals; the election itself uses the real clock. Default: the real clock.
	Clock clock.PassiveClock
	// Logger is the logger of the election. Default: nothing is logged.
	Logger logr.Logger
}

// Election contends for the Lease repeatedly, and runs a term each time it holds it.
type Election struct {
	Options
	fence *Fence
}

// New returns an election that does nothing until it is started.
func New(o Options) *Election {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
	if o.Patience == 0 {
		o.Patience = time.Second
	}
	fence := &Fence{clock: o.Clock}
	if o.Config.Enabled() {
		margin := (o.Config.LeaseDuration.Duration - o.Config.RenewDeadline.Duration) / 2
		fence.validity, fence.patience = o.Config.LeaseDuration.Duration-margin, min(margin, o.Patience)
	}
	return &Election{Options: o, fence: fence}
}

// Fence returns the fence that guards the writes of a term.
func (e *Election) Fence() *Fence { return e.fence }

// Leading reports whether a term is under way.
func (e *Election) Leading() bool { return e.fence.Leading() }

// Start contends until ctx ends.
func (e *Election) Start(ctx context.Context) error {
	if !e.Config.Enabled() {
		return e.term(ctx)
	}
	// The Lease has a client of its own, so that its renewal is not delayed by other calls of the process.
	config := rest.CopyConfig(e.Source)
	config.QPS, config.Burst = -1, 0
	config.Timeout = e.Config.RenewDeadline.Duration / 2
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	lock, err := resourcelock.New(e.Config.ResourceLock, e.Config.ResourceNamespace, e.Config.ResourceName,
		client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: e.Identity})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	lease := &lease{Interface: lock, clock: e.Clock, fence: e.fence}
	for e.await(ctx, lease) {
		if err := e.contend(ctx, lease); err != nil {
			return err
		}
	}
	return nil
}

// await waits until the Lease is free, and returns false if ctx ended first.
func (e *Election) await(ctx context.Context, lease *lease) bool {
	pause := min(pollInterval, e.Config.RetryPeriod.Duration)
	for ctx.Err() == nil {
		free, err := lease.free(ctx)
		if err != nil {
			e.Logger.V(1).Info("Cannot read the Lease", "reason", err.Error())
		} else if free {
			return true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return false
}

// contend acquires the Lease, runs a term, and releases the Lease when the term has ended. It returns immediately if
// another replica has acquired the Lease first.
func (e *Election) contend(ctx context.Context, lease *lease) error {
	// The elector runs until the end of the term, which is after that of ctx: until then it renews the Lease.
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	leading, end := context.WithCancel(ctx)
	defer end()
	// client-go ends a term only after its last call to the source, however long that hangs. So there is a timer in
	// addition, which is reset by each renewal.
	deadline := time.AfterFunc(math.MaxInt64, end)
	defer deadline.Stop()
	term := &term{end: end, stop: stop}
	lease.term = term
	lease.renewed = func(sent time.Time) { deadline.Reset(e.Config.RenewDeadline.Duration - time.Since(sent)) }
	defer func() { lease.term = nil }()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lease,
		LeaseDuration:   e.Config.LeaseDuration.Duration,
		RenewDeadline:   e.Config.RenewDeadline.Duration,
		RetryPeriod:     e.Config.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		Name:            "trellis",
		Callbacks: leaderelection.LeaderCallbacks{
			// The context of client-go ends after it has released the Lease, which is too late.
			OnStartedLeading: func(context.Context) { term.run(leading, e.term) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	// Without a term, the elector ends with ctx.
	defer context.AfterFunc(ctx, func() {
		term.over()
		stop()
	})()
	elector.Run(electing)
	term.over()
	if term.err != nil && ctx.Err() == nil {
		e.Logger.Error(term.err, "A term of leadership failed; contending again")
		select {
		case <-time.After(e.Config.RetryPeriod.Duration):
		case <-ctx.Done():
		}
	}
	return nil
}

// term runs a term, during which the fence is open.
func (e *Election) term(ctx context.Context) error {
	e.Logger.Info("Leading", "identity", e.Identity)
	e.fence.open()
	defer func() {
		e.fence.close()
		e.Logger.Info("No longer leading", "identity", e.Identity)
	}()
	return e.Term(ctx)
}
