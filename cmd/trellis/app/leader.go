package app

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
)

// leadership contends for the Lease again and again, and runs a term each time it has it.
type leadership struct {
	config   configv1alpha1.LeaderElection
	source   *rest.Config
	identity string
	term     func(ctx context.Context) error
	log      logr.Logger
	leading  atomic.Bool
}

// NeedLeaderElection is false: this is the leader election.
func (l *leadership) NeedLeaderElection() bool { return false }

// Start contends until ctx ends.
func (l *leadership) Start(ctx context.Context) error {
	if !l.config.Enabled() {
		l.leading.Store(true)
		return l.term(ctx)
	}
	// The Lease has calls of its own, so that it is renewed in time whatever else the process is doing.
	config := rest.CopyConfig(l.source)
	config.QPS, config.Burst = -1, 0
	config.Timeout = l.config.RenewDeadline.Duration / 2
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	lock, err := resourcelock.New(l.config.ResourceLock, l.config.ResourceNamespace, l.config.ResourceName,
		client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: l.identity})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	for ctx.Err() == nil {
		if err := l.contend(ctx, wholeCalls{lock}); err != nil {
			return err
		}
	}
	return nil
}

// wholeCalls is a lock whose calls are not cut short by the end of the hub, only by their own timeout. Who cancels a call does
// not learn whether it took the Lease, cannot give it back, and has the next hub wait until it runs out.
type wholeCalls struct{ resourcelock.Interface }

func (w wholeCalls) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return w.Interface.Get(context.WithoutCancel(ctx))
}

func (w wholeCalls) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return w.Interface.Create(context.WithoutCancel(ctx), record)
}

func (w wholeCalls) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return w.Interface.Update(context.WithoutCancel(ctx), record)
}

// contend waits for the Lease, runs a term, and gives the Lease back when the term has ended.
func (l *leadership) contend(ctx context.Context, lock resourcelock.Interface) error {
	// The elector outlives ctx by the end of the term: it releases the Lease when its own context ends, and that must not
	// happen before the last write.
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var term sync.WaitGroup
	var termErr error
	var started atomic.Bool
	term.Add(1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   l.config.LeaseDuration.Duration,
		RenewDeadline:   l.config.RenewDeadline.Duration,
		RetryPeriod:     l.config.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		Name:            "trellis",
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				if !started.CompareAndSwap(false, true) {
					return // it was over before it began
				}
				defer term.Done()
				defer stop()
				leading, cancel := context.WithCancel(leading)
				defer cancel()
				defer context.AfterFunc(ctx, cancel)()
				l.log.Info("Leading", "identity", l.identity)
				l.leading.Store(true)
				termErr = l.term(leading)
				l.leading.Store(false)
				l.log.Info("Not leading any more", "identity", l.identity)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	// Without a term there is nothing to wait for at the end.
	defer context.AfterFunc(ctx, func() {
		if !started.Load() {
			stop()
		}
	})()
	elector.Run(electing)
	if !started.CompareAndSwap(false, true) {
		term.Wait()
	}
	if termErr != nil && ctx.Err() == nil {
		l.log.Error(termErr, "A term of leadership failed; contending again")
		select {
		case <-time.After(l.config.RetryPeriod.Duration):
		case <-ctx.Done():
		}
	}
	return nil
}
