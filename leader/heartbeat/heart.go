package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/metrics"
)

// NameSuffix follows the name of the leader election's Lease.
const NameSuffix = "-heartbeat"

const (
	// reasonUnwatched is that of the event about a time in which no hub watched.
	reasonUnwatched = "TargetsWereNotWatched"
	actionLead      = "Lead"
)

// Events takes events. An events.EventRecorder does.
type Events interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Options of a Heart. All are required but Registerer.
type Options struct {
	// Leases are those of the namespace in which the Lease is. Their calls should not wait for those of other clients.
	Leases coordinationv1client.LeaseInterface
	// Namespace and Name are those of the Lease, Identity is that of the replica that renews it.
	Namespace, Name, Identity string
	// Version is that of the hub, for the Lease; empty: it is not said.
	Version string
	// Registrations selects registrations by their labels, for the Lease; empty: all of them.
	Registrations string
	// Interval is how often it is renewed.
	Interval time.Duration
	// Validity is how long it says that the hub works.
	Validity time.Duration
	Loops    *Loops
	Events   Events
	Clock    clock.Clock
	Logger   logr.Logger
	// Registerer takes the metric. Nil: none.
	Registerer prometheus.Registerer
}

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var (
	metricHeartbeat = MetricDefinitions.Gauge("trellis_hub_heartbeat_timestamp_seconds",
		"When this replica last renewed the heartbeat, in seconds since 1970. Only the leader does; zero if it "+
			"never did.")
	metricStuck = MetricDefinitions.Gauge("trellis_hub_loop_stuck_seconds",
		"For how long a loop of the hub has made no progress, at most. Zero if all loops make progress.")
)

// Heart renews the Lease. It lives as long as the process.
type Heart struct {
	Options
	renewed prometheus.Gauge
	watched atomic.Pointer[time.Time]
}

// New returns a heart that does not beat.
func New(o Options) (*Heart, error) {
	h := &Heart{Options: o, renewed: metricHeartbeat.Gauge()}
	if o.Registerer != nil {
		if err := o.Registerer.Register(h.renewed); err != nil {
			return nil, fmt.Errorf("register the metric of the heartbeat: %w", err)
		}
	}
	return h, nil
}

// WatchedUntil is when a hub gave its last sign of life before the present term, zero if that is unknown.
func (h *Heart) WatchedUntil() time.Time {
	if t := h.watched.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// Start beats for one term, until ctx ends. What the source does not take is tried again in the next interval and not
// sooner, so that the heartbeat is never more than one write in each.
func (h *Heart) Start(ctx context.Context) error {
	h.watched.Store(nil)
	var lease *coordinationv1.Lease // what the source has; nil: not known
	known, reported, stuck := false, false, ""
	for {
		name, duration := h.Loops.Stuck()
		switch {
		case name != "" && name != stuck:
			h.Logger.Error(errors.New("a loop makes no progress"), "The heartbeat stops", "loop", name, "stuckFor", duration)
		case name == "" && stuck != "":
			h.Logger.Info("The heartbeat continues", "loop", stuck)
		}
		stuck = name

		var err error
		if !known {
			if lease, err = h.read(ctx); err == nil {
				known = true
				if !reported { // later it is our own
					reported = true
					h.reportPause(lease)
				}
			}
		}
		if known && stuck == "" {
			lease, err = h.renew(ctx, lease)
			known = err == nil
		}
		if err != nil && ctx.Err() == nil {
			h.Logger.Error(err, "The heartbeat is not shown")
		}
		pause := h.Clock.NewTimer(h.Interval)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C():
		}
	}
}

// read returns the Lease, nil if there is none.
func (h *Heart) read(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := h.Leases.Get(ctx, h.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Lease %s/%s: %w", h.Namespace, h.Name, err)
	}
	return lease, nil
}

// reportPause records what the predecessor left, and logs if no hub has watched for longer than it should be.
func (h *Heart) reportPause(lease *coordinationv1.Lease) {
	if lease == nil || lease.Spec.RenewTime == nil {
		return
	}
	until := lease.Spec.RenewTime.Time
	h.watched.Store(&until)
	pause := h.Clock.Since(until).Truncate(time.Second)
	if pause <= h.Validity {
		return
	}
	h.Logger.Info("No hub has watched the targets", "since", until, "for", pause)
	h.Events.Eventf(lease, nil, corev1.EventTypeWarning, reasonUnwatched, actionLead,
		"no hub has watched the targets for %s, since %s", pause, until.UTC().Format(time.RFC3339))
}

// renew creates the Lease or renews it, and returns what the source has then.
func (h *Heart) renew(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	now := metav1.NewMicroTime(h.Clock.Now())
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}}
	if lease != nil {
		next = lease.DeepCopy()
	}
	if holder := next.Spec.HolderIdentity; holder == nil || *holder != h.Identity {
		next.Spec.HolderIdentity, next.Spec.AcquireTime = &h.Identity, &now
		if lease != nil {
			var transitions int32
			if next.Spec.LeaseTransitions != nil {
				transitions = *next.Spec.LeaseTransitions
			}
			next.Spec.LeaseTransitions = new(transitions + 1)
		}
	}
	if h.Version != "" {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, hubv1alpha1.VersionAnnotation, h.Version)
	}
	if h.Registrations == "" {
		delete(next.Annotations, hubv1alpha1.RegistrationSelectorAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, hubv1alpha1.RegistrationSelectorAnnotation, h.Registrations)
	}
	next.Spec.LeaseDurationSeconds, next.Spec.RenewTime = new(int32(h.Validity.Seconds())), &now

	var err error
	if lease == nil {
		next, err = h.Leases.Create(ctx, next, metav1.CreateOptions{})
	} else {
		next, err = h.Leases.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("renewing Lease %s/%s: %w", h.Namespace, h.Name, err)
	}
	h.renewed.Set(float64(now.UnixMilli()) / 1000)
	return next, nil
}
