package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

// Metrics of each target, by the leader.
var (
	metricTargetNotReady = MetricDefinitions.Gauge(
		"trellis_target_managedresources_not_ready", "ManagedResources of the target whose condition Ready is not True.",
		metrics.LabelTarget)
	metricTargetObjects = MetricDefinitions.Gauge(
		"trellis_target_objects", "Objects that ManagedResources have in the target.", metrics.LabelTarget)
	metricTargetDrift = MetricDefinitions.Counter(
		"trellis_target_drift_corrections_total",
		"Objects in the target that were corrected after another client had changed or deleted them.",
		metrics.LabelTarget)
	// These are zero for most targets, which then have no series of them.
	metricTargetNotApplied = MetricDefinitions.Gauge("trellis_target_managedresources_not_applied",
		"ManagedResources of the target whose condition ResourcesApplied is False. Absent if there are none.",
		metrics.LabelTarget)
	metricTargetContested = MetricDefinitions.Gauge("trellis_target_managedresources_contested",
		"ManagedResources of the target whose condition Contested is True. Absent if there are none.",
		metrics.LabelTarget)
	metricTargetDeletion = MetricDefinitions.Gauge("trellis_target_managedresources_deletion_oldest_seconds",
		"How long the oldest deletion of a ManagedResource of the target has taken so far. Absent if there is none.",
		metrics.LabelTarget)
	metricTargetLag = MetricDefinitions.Gauge("trellis_target_revision_lag_seconds",
		"Age of the oldest change of content of a ManagedResource of the target that is not applied yet. Absent if all "+
			"changes that this leader has seen are applied.", metrics.LabelTarget)
	metricTargetLate = MetricDefinitions.Counter("trellis_target_drift_late_total",
		"Corrections of drift in the target that took longer than 5 seconds. Absent until there is one.",
		metrics.LabelTarget)
	metricTargetApplyFailures = MetricDefinitions.Counter("trellis_target_apply_failures_total",
		"Objects that could not be applied to the target. Absent until there is one.", metrics.LabelTarget)
	metricTargetPruneFailures = MetricDefinitions.Counter("trellis_target_prune_failures_total",
		"Objects that could not be deleted from the target. Absent until there is one.", metrics.LabelTarget)
	metricTargetLongest = MetricDefinitions.Gauge("trellis_target_longest_run_seconds",
		"How long the oldest run over a ManagedResource of the target has taken so far. Absent up to 10 seconds. Runs "+
			"over ManagedResources that have no target have an empty label.", metrics.LabelTarget)
	metricTargetOverdue = MetricDefinitions.Gauge("trellis_target_reconcile_overdue",
		"Runs over ManagedResources of the target that continue after their deadline. Absent if there are none. Runs "+
			"over ManagedResources that have no target have an empty label.", metrics.LabelTarget)
	metricTargetOldest = MetricDefinitions.Gauge("trellis_target_queue_oldest_seconds",
		"How long the oldest item of the target has waited, for a worker or for other items of the target. "+
			"Periodic resyncs are excluded.", metrics.LabelTarget)
	metricTargetWait = MetricDefinitions.Histogram("trellis_target_queue_wait_seconds", "How long items of the "+
		"target waited for a worker. Periodic resyncs, and items that only report that the target is down, "+
		"are excluded. Only with metrics.targetHistograms.",
		[]float64{0.001, 0.01, 0.05, 0.25, 1, 5, 30, 120}, metrics.LabelTarget)
)

// Metrics of all targets together.
var (
	metricResources = MetricDefinitions.Gauge(
		"trellis_managedresources", "ManagedResources by class, condition, its status and its reason.", "class", "condition",
		"status", "reason")
	metricDeleting = MetricDefinitions.Gauge(
		"trellis_managedresources_deleting", "ManagedResources that are being deleted, by class.", "class")
	metricDeletion = MetricDefinitions.Gauge(
		"trellis_managedresources_deletion_oldest_seconds",
		"How long the oldest deletion of a ManagedResource has taken so far, by class.", "class")
	metricApplied = MetricDefinitions.Counter(
		"trellis_objects_applied_total", "Objects applied to targets, by class and result.", "class", "result")
	metricPruned = MetricDefinitions.Counter("trellis_objects_pruned_total",
		"Objects that left an inventory, by class, cause (removed: no manifest contains them; emptied: no "+
			"manifest is left; deleted: with the ManagedResource; transferred: to another class; moved: to "+
			"another target) and result.",
		"class", "cause", "result")
	metricDrift = MetricDefinitions.Counter("trellis_drift_corrections_total",
		"Objects in targets that were corrected after another client had changed or deleted them, by class, kind, "+
			"action, and the manager that had changed them.", "class", "kind", "action", "manager")
	metricDriftTime = MetricDefinitions.Histogram("trellis_drift_correction_duration_seconds",
		"How long drift lasted: from the event of the watch until the target accepted the correction.",
		latencyBuckets, "class")
	metricPropagation = MetricDefinitions.Histogram("trellis_secret_propagation_duration_seconds",
		"How long it took from the event about a changed Secret until all objects of the ManagedResource were "+
			"applied.", latencyBuckets, "class")
	metricRuns = MetricDefinitions.Histogram("trellis_reconcile_duration_seconds",
		"How long runs over a ManagedResource took, by class and result; error if the source cluster failed or the run took too long.", latencyBuckets, "class", "result")
	metricOverdue = MetricDefinitions.Gauge("trellis_reconcile_overdue",
		"Runs over ManagedResources that continue after their deadline, by class.", "class")
	metricOverdues = MetricDefinitions.Counter("trellis_reconcile_overdue_total",
		"Runs over ManagedResources that did not end within 10 seconds of their deadline, by class.", "class")
	latencyBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300}
)

// Metrics are the figures of the ManagedResource controller. One set lives as long as the process, through all terms of
// leadership.
type Metrics struct {
	applied, pruned, corrections       *prometheus.CounterVec
	driftTime, propagation, runs, wait *prometheus.HistogramVec
	overdue                            *prometheus.GaugeVec
	overdues                           *prometheus.CounterVec
	managers, kinds, reasons           *metrics.Names

	mu      sync.Mutex
	classes map[string]*ClassMetrics
	targets map[clustercache.ClusterKey]*targetMetrics
	term    *Term // the present one, nil between terms
	// overdueRuns are how many runs of a target are overdue, of targets that have some.
	overdueRuns map[clustercache.ClusterKey]int
}

// ClassMetrics are those of one class, looked up once.
type ClassMetrics struct {
	all   *Metrics
	Label string // of the class

	applied, applyFailed prometheus.Counter
	pruned               map[PruneCause]pruneMetrics
	driftTime            prometheus.Observer
	overdue              prometheus.Gauge
	// Propagation takes the seconds from a change of a Secret until all is applied; Run and RunFailed those that runs took
	// which succeeded, and which failed.
	Propagation, Run, RunFailed prometheus.Observer
	// OverdueTotal counts runs that did not end within the grace.
	OverdueTotal prometheus.Counter
}

// pruneMetrics are those of what one cause took out of inventories.
type pruneMetrics struct{ deleted, kept, failed prometheus.Counter }

// targetMetrics are those of one target.
type targetMetrics struct {
	hour        hour
	corrections uint64
	late        uint64
	notApplied  uint64 // objects, in total
	notPruned   uint64
	wait        prometheus.Observer // nil if there is no histogram of each target
}

// each calls f with the counters of a target that are only exported if they are not zero.
func (t *targetMetrics) each(f func(desc *prometheus.Desc, n uint64)) {
	f(descTargetLate, t.late)
	f(descTargetApplyFailures, t.notApplied)
	f(descTargetPruneFailures, t.notPruned)
}

// Bounds of the field managers and kinds that are distinguished: clients of a target may invent any number of names.
// What comes later is "other".
const (
	managerLimit = 50
	kindLimit    = 100
)

// NewMetrics registers the figures. targetHistograms adds histograms of each target to them.
func NewMetrics(registerer prometheus.Registerer, targetHistograms bool) *Metrics {
	m := &Metrics{
		applied: metricApplied.CounterVec(), pruned: metricPruned.CounterVec(), corrections: metricDrift.CounterVec(),
		driftTime: metricDriftTime.HistogramVec(), propagation: metricPropagation.HistogramVec(),
		runs:    metricRuns.HistogramVec(),
		overdue: metricOverdue.GaugeVec(), overdues: metricOverdues.CounterVec(),
		managers: metrics.NewNames(managerLimit), kinds: metrics.NewNames(kindLimit), reasons: metrics.NewNames(reasonLimit),
		classes: map[string]*ClassMetrics{}, targets: map[clustercache.ClusterKey]*targetMetrics{},
		overdueRuns: map[clustercache.ClusterKey]int{},
	}
	registerer.MustRegister(m.applied, m.pruned, m.corrections, m.driftTime, m.propagation, m.runs)
	registerer.MustRegister(m.overdue, m.overdues, gauges{m})
	if targetHistograms {
		m.wait = metricTargetWait.HistogramVec()
		registerer.MustRegister(m.wait)
	}
	return m
}

// Of returns the metrics of a class.
func (m *Metrics) Of(class string) *ClassMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.classes[class]
	if c == nil {
		label := assignment.ClassName(class)
		c = &ClassMetrics{
			all: m, Label: label,
			applied: m.applied.WithLabelValues(label, "ok"), applyFailed: m.applied.WithLabelValues(label, "error"),
			pruned:    make(map[PruneCause]pruneMetrics, len(pruneCauses)),
			driftTime: m.driftTime.WithLabelValues(label), Propagation: m.propagation.WithLabelValues(label),
			Run: m.runs.WithLabelValues(label, "success"), RunFailed: m.runs.WithLabelValues(label, "error"),
			overdue: m.overdue.WithLabelValues(label), OverdueTotal: m.overdues.WithLabelValues(label),
		}
		for _, cause := range pruneCauses {
			of := func(result string) prometheus.Counter { return m.pruned.WithLabelValues(label, string(cause), result) }
			c.pruned[cause] = pruneMetrics{deleted: of("deleted"), kept: of("kept"), failed: of("error")}
		}
		m.classes[class] = c
	}
	return c
}

// target returns the metrics of a target. The caller holds mu.
func (m *Metrics) target(key clustercache.ClusterKey) *targetMetrics {
	t := m.targets[key]
	if t == nil {
		t = &targetMetrics{}
		if m.wait != nil {
			t.wait = m.wait.WithLabelValues(metrics.TargetName(key))
		}
		m.targets[key] = t
	}
	return t
}

// Served notes how long an item waited for a worker.
func (m *Metrics) Served(req dispatch.Request, wait time.Duration) {
	if m.wait == nil || req.Target == (clustercache.ClusterKey{}) {
		return
	}
	m.mu.Lock()
	observer := m.target(req.Target).wait
	m.mu.Unlock()
	observer.Observe(wait.Seconds())
}

// Begin exports the state of a term, until end is called.
func (m *Metrics) Begin(t Term) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term = &t
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.term == &t {
			m.term = nil
		}
	}
}

// forgetAllBut drops the metrics of targets that are not registered any longer.
func (m *Metrics) forgetAllBut(registered map[clustercache.ClusterKey]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.targets {
		if registered[key] {
			continue
		}
		delete(m.targets, key)
		if m.wait != nil {
			m.wait.DeleteLabelValues(metrics.TargetName(key))
		}
	}
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

// Corrected counts the correction of an object.
func (m *Metrics) Corrected(s *run.Subject, d Drift, now time.Time) {
	action := "reset"
	if d.Created {
		action = "created"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	class := assignment.ClassName(s.Class.Name)
	m.corrections.WithLabelValues(class, m.kinds.Label(d.Intent.Key.Kind), action, m.manager(d)).Inc()
	t := m.target(s.Target)
	t.corrections++
	h := &t.hour
	minute := now.Unix() / 60
	h.advance(minute)
	h.minutes[minute%60]++
}

// manager is the label for the first of those who changed an object; empty if none is known, as for a delete.
func (m *Metrics) manager(d Drift) string {
	if len(d.By) == 0 {
		return ""
	}
	return m.managers.Label(d.By[0].Manager)
}

// driftGoal is how long drift may last.
const driftGoal = 5 * time.Second

// DriftLasted notes how long drift lasted.
func (m *Metrics) DriftLasted(s *run.Subject, lasted time.Duration) {
	m.Of(s.Class.Name).driftTime.Observe(lasted.Seconds())
	if lasted <= driftGoal {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.target(s.Target).late++
}

// failed counts objects that could not be applied to a target, and those that could not be deleted from it.
func (m *Metrics) failed(key clustercache.ClusterKey, applies, prunes uint64) {
	if applies+prunes == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.target(key)
	t.notApplied += applies
	t.notPruned += prunes
}

// OverdueBy notes that runs of a target became overdue, or have ended.
func (c *ClassMetrics) OverdueBy(key clustercache.ClusterKey, runs int) {
	c.overdue.Add(float64(runs))
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.all.overdueRuns[key] += runs; c.all.overdueRuns[key] == 0 {
		delete(c.all.overdueRuns, key)
	}
}

// DriftLastHour counts the corrections in a target during the last hour.
func (m *Metrics) DriftLastHour(cluster clustercache.ClusterKey, now time.Time) (sum int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.targets[cluster]
	if t == nil {
		return 0
	}
	t.hour.advance(now.Unix() / 60)
	for _, n := range t.hour.minutes {
		sum += n
	}
	return sum
}
