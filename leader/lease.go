package leader

import (
	"bytes"
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// lease is the lock of client-go's election, with more state of the Lease. Like that lock it is not safe for concurrent
// use.
//
// Its calls end only by their own timeout, and not with the hub: after a canceled call it is not known whether it
// acquired the Lease. The Lease could not be released then, and the next hub would have to wait until it expires.
type lease struct {
	resourcelock.Interface
	clock clock.PassiveClock
	fence *Fence
	term  *term // that is contended for, or running; nil: the Lease is only read
	// renewed is called with the time when a renewal was sent, by the real clock.
	renewed func(sent time.Time)

	holder   string        // last known holder
	record   []byte        // last known content
	since    time.Time     // when that content was read first
	duration time.Duration // how long the content is valid
}

// Get reads the Lease. An expired one is returned without a holder; an update of it fails if it was renewed meanwhile.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(context.WithoutCancel(ctx))
	if err != nil {
		if apierrors.IsNotFound(err) {
			l.fence.revoke()
		}
		return nil, nil, err
	}
	now := l.clock.Now()
	if !bytes.Equal(raw, l.record) {
		l.record, l.since, l.duration = raw, now, time.Duration(record.LeaseDurationSeconds)*time.Second
	}
	l.holder = record.HolderIdentity
	switch {
	case l.holder == l.Identity():
		return record, raw, nil
	case l.holder == "": // others may take it at any time
	case now.Sub(l.since) >= l.duration:
		record.HolderIdentity = ""
	case l.term != nil:
		l.term.lost()
	}
	l.fence.revoke()
	return record, raw, nil
}

// others reports whether another replica holds the Lease, or held it when it expired.
func (l *lease) others() bool { return l.holder != "" && l.holder != l.Identity() }

// free reports whether it makes sense to contend.
func (l *lease) free(ctx context.Context) (bool, error) {
	record, _, err := l.Get(ctx)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && (record.HolderIdentity == "" || record.HolderIdentity == l.Identity()), err
}

// Create creates and acquires the Lease.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.take(record, func() error { return l.Interface.Create(context.WithoutCancel(ctx), record) })
}

// Update acquires, renews or releases the Lease. client-go releases it as soon as it could not renew it in time; this
// waits until the term is over. A Lease of another replica is not released: client-go does not check its holder, and
// would end the term of the successor.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		if l.others() {
			return errors.New("another replica holds the Lease by now")
		}
		l.term.over()
		l.fence.revoke()
	}
	return l.take(record, func() error { return l.Interface.Update(context.WithoutCancel(ctx), record) })
}

func (l *lease) take(record resourcelock.LeaderElectionRecord, write func() error) error {
	sent, began := l.clock.Now(), time.Now()
	if err := write(); err != nil {
		return err
	}
	l.holder = record.HolderIdentity
	if record.HolderIdentity == l.Identity() {
		l.fence.extend(sent)
		l.renewed(began)
	}
	return nil
}
