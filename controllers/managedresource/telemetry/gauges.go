package telemetry

import (
	"context"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/fairqueue"
	"github.com/trellis-hub/trellis/metrics"
)

// gauges are read when they are asked for, in one pass over the ManagedResources in memory. A replica that does not
// lead has none.
type gauges struct{ metrics *Metrics }

var (
	descResources      = metricResources.Desc()
	descDeleting       = metricDeleting.Desc()
	descDeletion       = metricDeletion.Desc()
	descTargetNotReady = metricTargetNotReady.Desc()
	descTargetObjects  = metricTargetObjects.Desc()
	descTargetDrift    = metricTargetDrift.Desc()
	descTargetLate     = metricTargetLate.Desc()
	descTargetOldest   = metricTargetOldest.Desc()

	descTargetNotApplied = metricTargetNotApplied.Desc()
	descTargetContested  = metricTargetContested.Desc()
	descTargetDeletion   = metricTargetDeletion.Desc()
	descTargetLag        = metricTargetLag.Desc()

	descTargetApplyFailures = metricTargetApplyFailures.Desc()
	descTargetPruneFailures = metricTargetPruneFailures.Desc()
	descTargetLongest       = metricTargetLongest.Desc()
	descTargetOverdue       = metricTargetOverdue.Desc()
)

// Term is what the gauges are read from during a term of leadership.
type Term struct {
	Cache        client.Reader // the informer of ManagedResources
	Clusters     clustercache.ClusterCache
	Assigner     *assignment.Assigner
	Tracker      *tracker.Tracker
	Changes      *run.Latencies     // since a change of content was seen
	QueueMetrics *fairqueue.Metrics // nil: nothing is said of what waits
	Clock        clock.PassiveClock
}

// Describe implements prometheus.Collector.
func (gauges) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descResources, descDeleting, descDeletion, descTargetNotReady, descTargetObjects,
		descTargetDrift, descTargetLate, descTargetOldest, descTargetNotApplied, descTargetContested, descTargetDeletion,
		descTargetLag, descTargetApplyFailures, descTargetPruneFailures, descTargetLongest, descTargetOverdue} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(collected chan<- prometheus.Metric) {
	g.metrics.mu.Lock()
	t := g.metrics.term
	overdue := maps.Clone(g.metrics.overdueRuns)
	g.metrics.mu.Unlock()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		collected <- metrics.Const(desc, prometheus.GaugeValue, value, labels...)
	}
	for key, runs := range overdue { // also of a term that is over
		gauge(descTargetOverdue, float64(runs), metrics.TargetName(key))
	}
	if t == nil {
		return
	}
	found, ok := t.census(g.metrics.reasons)
	if !ok {
		return
	}
	for r, n := range found.conditions {
		gauge(descResources, float64(n), r.class, r.condition, r.status, r.reason)
	}
	for class, d := range found.deleting {
		gauge(descDeleting, float64(d.count), class)
		gauge(descDeletion, d.oldest.Seconds(), class)
	}
	oldest, longest := t.flowsByTarget()
	for key, run := range longest {
		if run > longRun {
			gauge(descTargetLongest, run.Seconds(), metrics.TargetName(key))
		}
	}
	objects := t.Tracker.Objects()
	registered := map[clustercache.ClusterKey]bool{}
	for _, key := range t.targets() {
		registered[key] = true
		name := metrics.TargetName(key)
		gauge(descTargetNotReady, float64(found.targets[key].notReady), name)
		found.targets[key].each(func(desc *prometheus.Desc, value float64) {
			if value > 0 {
				gauge(desc, value, name)
			}
		})
		gauge(descTargetObjects, float64(objects[key]), name)
		gauge(descTargetOldest, oldest[key].Seconds(), name)
	}
	g.metrics.forgetAllBut(registered)
	counters := map[clustercache.ClusterKey]targetMetrics{}
	g.metrics.mu.Lock()
	for key, t := range g.metrics.targets {
		counters[key] = *t
	}
	g.metrics.mu.Unlock()
	for key := range registered {
		figures, name := counters[key], metrics.TargetName(key)
		counter := func(desc *prometheus.Desc, n uint64) {
			collected <- metrics.Const(desc, prometheus.CounterValue, float64(n), name)
		}
		counter(descTargetDrift, figures.corrections)
		figures.each(func(desc *prometheus.Desc, n uint64) {
			if n > 0 {
				counter(desc, n)
			}
		})
	}
}

// targets are those that ManagedResources can be in: the registered ones and those of classes with a fixed one.
func (t *Term) targets() []clustercache.ClusterKey {
	all := map[clustercache.ClusterKey]bool{}
	for _, st := range t.Clusters.List("") {
		all[st.Cluster] = true
	}
	for _, class := range t.Assigner.Classes {
		if fixed := class.FixedTarget(); fixed.Namespace == "" && fixed.Name != "" {
			all[fixed] = true
		}
	}
	keys := make([]clustercache.ClusterKey, 0, len(all))
	for key := range maps.Keys(all) {
		keys = append(keys, key)
	}
	return keys
}

// longRun is how long a run takes at least that has a series of its target.
const longRun = 10 * time.Second

// flowsByTarget returns how long requests of each target have waited, and how long its oldest run has taken, all
// classes together. What needs no target is under the empty key.
func (t *Term) flowsByTarget() (oldest, longest map[clustercache.ClusterKey]time.Duration) {
	oldest, longest = map[clustercache.ClusterKey]time.Duration{}, map[clustercache.ClusterKey]time.Duration{}
	if t.QueueMetrics == nil {
		return oldest, longest
	}
	for _, q := range t.QueueMetrics.Snapshots() {
		for _, f := range q.Flows {
			key := dispatch.TargetOf(f.Name)
			oldest[key], longest[key] = max(oldest[key], f.Oldest), max(longest[key], f.LongestRun)
		}
	}
	return oldest, longest
}

// census counts the ManagedResources of this hub.
type census struct {
	conditions map[conditionOf]int
	deleting   map[string]*deletions
	targets    map[clustercache.ClusterKey]troubles
}

// troubles counts the ManagedResources of one target that have a problem, and says how long the oldest one lasts.
type troubles struct {
	notReady, notApplied, contested int
	deletion, lag                   time.Duration
}

// each calls f with the values of a target that are only exported if they are not zero.
func (t troubles) each(f func(desc *prometheus.Desc, value float64)) {
	f(descTargetNotApplied, float64(t.notApplied))
	f(descTargetContested, float64(t.contested))
	f(descTargetDeletion, t.deletion.Seconds())
	f(descTargetLag, t.lag.Seconds())
}

// add counts a ManagedResource.
func (t *troubles) add(mr *resourcesv1alpha1.ManagedResource, changed, now time.Time) {
	ready := false
	for _, condition := range mr.Status.Conditions {
		switch condition.Type {
		case resourcesv1alpha1.ConditionReady:
			ready = condition.Status == resourcesv1alpha1.ConditionTrue
		case resourcesv1alpha1.ConditionResourcesApplied:
			if condition.Status == resourcesv1alpha1.ConditionFalse {
				t.notApplied++
			}
		case resourcesv1alpha1.ConditionContested:
			if condition.Status == resourcesv1alpha1.ConditionTrue {
				t.contested++
			}
		}
	}
	if !ready {
		t.notReady++
	}
	if mr.DeletionTimestamp != nil {
		t.deletion = max(t.deletion, now.Sub(mr.DeletionTimestamp.Time))
	} else if !changed.IsZero() {
		t.lag = max(t.lag, now.Sub(changed))
	}
}

type conditionOf struct{ class, condition, status, reason string }

type deletions struct {
	count  int
	oldest time.Duration
}

// CacheTimeout bounds a read that informers answer, which cannot take long.
const CacheTimeout = time.Second

// reasonLimit bounds the reasons that are distinguished. All of ours are fewer; others may write conditions, too.
const reasonLimit = 64

// census looks at what the informer holds. ok is false if it holds nothing yet.
func (t *Term) census(reasons *metrics.Names) (_ census, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), CacheTimeout)
	defer cancel()
	list := &resourcesv1alpha1.ManagedResourceList{}
	if err := t.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return census{}, false
	}
	found := census{conditions: map[conditionOf]int{}, deleting: map[string]*deletions{},
		targets: map[clustercache.ClusterKey]troubles{}}
	for _, class := range t.Assigner.Classes {
		found.deleting[assignment.ClassName(class.Name)] = &deletions{}
	}
	now := t.Clock.Now()
	for i := range list.Items {
		mr := &list.Items[i]
		class, target, ours := t.place(ctx, mr)
		if !ours {
			continue
		}
		for _, condition := range mr.Status.Conditions {
			if !counted[condition.Type] {
				continue
			}
			found.conditions[conditionOf{class, string(condition.Type), string(condition.Status),
				reasons.Label(condition.Reason)}]++
		}
		if target != (clustercache.ClusterKey{}) {
			of := found.targets[target]
			of.add(mr, t.Changes.Began(types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}), now)
			found.targets[target] = of
		}
		if d := found.deleting[class]; mr.DeletionTimestamp != nil && d != nil {
			d.count++
			d.oldest = max(d.oldest, now.Sub(mr.DeletionTimestamp.Time))
		}
	}
	return found, true
}

// counted are the conditions that this hub writes.
var counted = map[resourcesv1alpha1.ConditionType]bool{
	resourcesv1alpha1.ConditionReady: true, resourcesv1alpha1.ConditionResourcesApplied: true,
	resourcesv1alpha1.ConditionResourcesHealthy:     true,
	resourcesv1alpha1.ConditionResourcesProgressing: true, resourcesv1alpha1.ConditionContested: true,
}

// place returns the label of the class and the target of a ManagedResource; the target is empty if there is none.
func (t *Term) place(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (
	class string, target clustercache.ClusterKey, ours bool) {
	name := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	if target, tracked := t.Tracker.Target(name); tracked {
		class := assignment.SpecClass(mr)
		if t.Assigner.Classes[class] == nil {
			return metrics.Other, target, true // it is about to leave for a class that is not ours, and may have any name
		}
		return assignment.ClassName(class), target, true
	}
	decision, err := t.Assigner.Decide(ctx, mr)
	if err != nil || decision.Class == nil || !decision.ElsewhereUntil.IsZero() {
		return "", clustercache.ClusterKey{}, false
	}
	return assignment.ClassName(decision.Class.Name), decision.Target, true
}
