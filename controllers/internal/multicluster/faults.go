package multicluster

import (
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/untrusted"
)

// faultPause is the time after which a fault is reported again. API servers keep events for an hour by default.
const faultPause = 30 * time.Minute

// Faults reports on TargetClusters what keeps a reconciler from its work and does not go away by itself: that it lacks
// a right, that an answer exceeds a bound, or one of some errors of its own. Each of these is reported once in half an
// hour for a target, whatever its text says: that has names and messages of the target, which may differ each time.
type Faults struct {
	clock          clock.PassiveClock
	reason, action string
	lasting        []error

	mu       sync.Mutex
	reported map[clustercache.ClusterKey]map[error]time.Time // by what was reported
}

// errForbidden stands for all errors that say so.
var errForbidden = errors.New("forbidden")

// NewFaults returns Faults that write events with a reason and an action. lasting are errors of the caller that do not
// go away by themselves. Without a clock, it is the real one.
func NewFaults(c clock.PassiveClock, reason, action string, lasting ...error) *Faults {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Faults{
		clock: c, reason: reason, action: action, lasting: append(lasting, untrusted.ErrExceeded),
		reported: map[clustercache.ClusterKey]map[error]time.Time{},
	}
}

// Report writes an event on the TargetCluster of a target about the error of a run, if that is one to report and it is
// time to. The source as a target has no TargetCluster; its errors are in the log, as all are.
func (f *Faults) Report(target *Target, err error) {
	kind := f.kindOf(err)
	if kind == nil || target.Namespace() == "" || !f.isTime(target.Key(), kind) {
		return
	}
	about := &hubv1alpha1.TargetCluster{}
	about.Namespace, about.Name = target.Key().Namespace, target.Key().Name
	target.Warn(about, f.reason, f.action, untrusted.Message(err.Error()))
}

// kindOf returns what an error is that does not go away by itself; nil for others.
func (f *Faults) kindOf(err error) error {
	if apierrors.IsForbidden(err) {
		return errForbidden
	}
	for _, lasting := range f.lasting {
		if errors.Is(err, lasting) {
			return lasting
		}
	}
	return nil
}

// isTime reports whether something is to be reported now, and notes it.
func (f *Faults) isTime(cluster clustercache.ClusterKey, kind error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if at, reported := f.reported[cluster][kind]; reported && now.Sub(at) < faultPause {
		return false
	}
	if f.reported[cluster] == nil {
		f.reported[cluster] = map[error]time.Time{}
	}
	f.reported[cluster][kind] = now
	return true
}

// Forget forgets what was reported of a target, as Forgetter.
func (f *Faults) Forget(cluster clustercache.ClusterKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.reported, cluster)
}
