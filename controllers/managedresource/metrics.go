package managedresource

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/apply"
	"github.com/trellis-hub/trellis/controllers/managedresource/prune"
)

// Metrics are the figures of the ManagedResource controller. One set lives as long as the process, through all terms of
// leadership.
type Metrics struct {
	applied     *prometheus.CounterVec
	pruned      *prometheus.CounterVec
	corrections *prometheus.CounterVec

	mu       sync.Mutex
	drift    map[clustercache.ClusterKey]*hour
	managers map[string]bool // those that have a series of their own
	kinds    map[string]bool // the same
}

// Bounds of the field managers and kinds that are told apart: anybody in a target may invent any number of names. What comes
// later is "other".
const (
	managerLimit = 50
	kindLimit    = 100
)

// NewMetrics registers the figures.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		applied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "trellis_objects_applied_total", Help: "Objects applied to targets, by class and result.",
		}, []string{"class", "result"}),
		pruned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "trellis_objects_pruned_total", Help: "Objects that left an inventory, by class and what became of them.",
		}, []string{"class", "result"}),
		corrections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "trellis_drift_corrections_total", Help: "Objects in targets brought back after somebody else changed or deleted them, by class, kind, what was done, and who had changed it.",
		}, []string{"class", "kind", "action", "manager"}),
		managers: map[string]bool{}, kinds: map[string]bool{},
		drift: map[clustercache.ClusterKey]*hour{},
	}
	registerer.MustRegister(m.applied, m.pruned, m.corrections)
	return m
}

// hour counts in a ring of minutes.
type hour struct {
	minutes [60]int32
	last    int64 // the minute that was counted last
}

func (h *hour) advance(minute int64) {
	for i := max(h.last+1, minute-59); i <= minute; i++ {
		h.minutes[i%60] = 0
	}
	h.last = max(h.last, minute)
}

func (m *Metrics) corrected(work *run, d drift, now time.Time) {
	action := "reset"
	if d.created {
		action = "created"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.corrections.WithLabelValues(work.class.Name, known(m.kinds, kindLimit, d.intent.Key.Kind), action, m.manager(d)).Inc()
	h := m.drift[work.target]
	if h == nil {
		h = &hour{}
		m.drift[work.target] = h
	}
	minute := now.Unix() / 60
	h.advance(minute)
	h.minutes[minute%60]++
}

// manager is the label for who changed an object first of those who did; empty if nobody can tell, as for a delete.
func (m *Metrics) manager(d drift) string {
	if len(d.by) == 0 {
		return ""
	}
	return known(m.managers, managerLimit, d.by[0].Manager)
}

// known is the label for a name: itself, if it is among the first so many.
func known(names map[string]bool, limit int, name string) string {
	if !names[name] {
		if len(names) >= limit {
			return "other"
		}
		names[name] = true
	}
	return name
}

// driftLastHour counts the corrections in a target during the last hour.
func (m *Metrics) driftLastHour(cluster clustercache.ClusterKey, now time.Time) (sum int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.drift[cluster]
	if h == nil {
		return 0
	}
	h.advance(now.Unix() / 60)
	for _, n := range h.minutes {
		sum += n
	}
	if sum == 0 {
		delete(m.drift, cluster)
	}
	return sum
}

// report counts and tells what a run did.
func (r *reconciler) report(work *run, outcomes []apply.Outcome, pruned []prune.Outcome) {
	for _, o := range outcomes {
		if o.Unchanged {
			continue
		}
		result := "ok"
		if o.Err != nil {
			result = "error"
			work.log.V(1).Info("Could not apply", "object", o.Key.String(), "error", o.Err.Error())
		}
		r.metrics.applied.WithLabelValues(work.class.Name, result).Inc()
		if len(o.UnknownFields) > 0 {
			r.events.unknownFields(work.mr, o.Key, o.UnknownFields)
		}
		if len(o.Duplicates) > 0 {
			r.events.duplicates(work.mr, o.Key, o.Duplicates)
		}
		if o.Recreated {
			r.events.recreated(work.mr, o.Key)
		}
		if o.Err == nil && len(o.TakenBack) > 0 {
			r.events.takenBack(work.mr, o)
		}
	}
	for _, o := range pruned {
		if len(o.Finalized) > 0 {
			work.log.Info("Took the finalizers off an object", "object", o.Key.String(), "finalizers", o.Finalized)
		}
		switch {
		case o.Err != nil:
			r.metrics.pruned.WithLabelValues(work.class.Name, "error").Inc()
		case o.Result == prune.Gone, o.Deleted:
			r.metrics.pruned.WithLabelValues(work.class.Name, "deleted").Inc()
		case o.Result == prune.Kept:
			r.metrics.pruned.WithLabelValues(work.class.Name, "kept").Inc()
			work.log.Info("Left an object in the target", "object", o.Key.String(), "reason", o.Reason)
		}
	}
}
