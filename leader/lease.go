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

// lease is the lock of client-go's election, with what else is to be known of the Lease. Like that lock it is used by one
// goroutine at a time.
//
// Its calls are not cut short by the end of the hub, only by their own timeout: who cancels a call does not learn whether it
// took the Lease, cannot give it back, and has the next hub wait until it runs out.
type lease struct {
	resourcelock.Interface
	clock clock.PassiveClock
	fence *Fence
	term  *term // that is contended for, or under way; nil: the Lease is only looked at
	// renewed is called with the time when a renewal was sent, by the real clock.
	renewed func(sent time.Time)

	holder   string        // whom the source named last
	record   []byte        // what it said last
	since    time.Time     // since when it has said so
	duration time.Duration // how long that is worth something
}

// Get reads the Lease. One that has run out is said to be nobody's; an update of it fails if it was renewed after all.
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

// others reports whether the Lease was somebody else's, or had been when it ran out.
func (l *lease) others() bool { return l.holder != "" && l.holder != l.Identity() }

// free reports whether it makes sense to contend.
func (l *lease) free(ctx context.Context) (bool, error) {
	record, _, err := l.Get(ctx)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && (record.HolderIdentity == "" || record.HolderIdentity == l.Identity()), err
}

// Create makes the Lease, and takes it.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.take(record, func() error { return l.Interface.Create(context.WithoutCancel(ctx), record) })
}

// Update takes, renews or gives back the Lease. It is given back when the term is over: client-go does so as soon as it could
// not renew it in time. What is somebody else's is not given back: client-go's election does not look whose the Lease is by
// then, and would end the term of the successor.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		if l.others() {
			return errors.New("the Lease is somebody else's by now")
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
