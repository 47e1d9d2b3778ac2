package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// settle is how long nothing happens before the time of rest begins: what a target's conditions say of what was done to it
// turns up to a minute later, which is written.
const settle = 75 * time.Second

// atRest is what the hub costs while nothing happens.
type atRest struct {
	Seconds float64 `json:"seconds"`
	// Load is how busy the machine was when it began.
	Load string `json:"load"`
	fleet
	Millicores float64 `json:"millicores"`
	// RSSMiB is what is resident as it is, CollectedMiB after a garbage collection, of which LiveMiB are in use on the heap.
	RSSMiB       float64 `json:"rssMiB"`
	CollectedMiB float64 `json:"collectedMiB"`
	LiveMiB      float64 `json:"liveMiB"`
	// Target and Source are the requests of the hub at the audited target and at the source cluster, by what they are.
	Target map[string]int `json:"target"`
	Source map[string]int `json:"source"`
	// Writes are those of all clients to all targets.
	Writes map[string]int64 `json:"writes"`
	// SourceWrites and LeaseWrites are the writes among those to the source cluster, a minute.
	SourceWrites float64 `json:"sourceWritesPerMinute"`
	LeaseWrites  float64 `json:"leaseWritesPerMinute"`
}

// fleet is what the hub looks after.
type fleet struct {
	Targets          int `json:"targets"`
	ManagedResources int `json:"managedResources"`
	Objects          int `json:"objects"`
	// GoalMiB is what the hub may take for that.
	GoalMiB float64 `json:"goalMiB"`
}

// fleet counts what the hub looks after.
func (w *world) fleet(ctx context.Context) (fleet, error) {
	f := fleet{Targets: w.targetCount}
	var list resourcesv1alpha1.ManagedResourceList
	if err := w.source.Client.List(ctx, &list); err != nil {
		return f, fmt.Errorf("counting what there is: %w", err)
	}
	for i := range list.Items {
		if class := list.Items[i].Spec.Class; class == nil || *class != foreignClass {
			f.ManagedResources++
			f.Objects += len(list.Items[i].Status.Resources)
		}
	}
	const hub, perTarget, perObject = 64, 1.2, 2.0 / 1024
	f.GoalMiB = hub + perTarget*float64(f.Targets) + perObject*float64(f.Objects)
	return f, nil
}

// measureUnprobed is measureRest with a hub that was started again and does not probe, which is what the goal of rest
// is about.
func measureUnprobed(ctx context.Context, w *world) (atRest, error) {
	if _, err := w.restartHub(ctx, unprobed); err != nil {
		return atRest{}, err
	}
	return measureRest(ctx, w)
}

func measureRest(ctx context.Context, w *world) (r atRest, err error) {
	if err := pause(ctx, settle); err != nil {
		return r, err
	}
	r.Seconds, r.Load = w.rest.Seconds(), figures.LoadOfMinute(figures.Load())
	if r.fleet, err = w.fleet(ctx); err != nil {
		return r, err
	}
	asked, err := w.asked(ctx)
	if err != nil {
		return r, err
	}
	began := time.Now()
	before, err := w.hub.CPU()
	if err != nil {
		return r, err
	}
	if err := pause(ctx, w.rest); err != nil {
		return r, err
	}
	after, err := w.hub.CPU()
	if err != nil {
		return r, err
	}
	ended := time.Now()
	r.Millicores = 1000 * (after - before).Seconds() / ended.Sub(began).Seconds()
	if r.Writes, err = w.writesSince(ctx, asked); err != nil {
		return r, err
	}
	if err := r.countRequests(w, began, ended); err != nil {
		return r, err
	}
	err = r.weigh(ctx, w.hub)
	return r, err
}

// countRequests counts those of the hub.
func (r *atRest) countRequests(w *world, began, ended time.Time) (err error) {
	if r.Target, err = requests(w.audited, began, ended); err != nil {
		return err
	}
	if r.Source, err = requests(w.source, began, ended); err != nil {
		return err
	}
	for request, n := range r.Source {
		verb, what, _ := strings.Cut(request, " ")
		perMinute := float64(n) / ended.Sub(began).Minutes()
		switch {
		case !slices.Contains(writing, verb):
		case what == "leases":
			r.LeaseWrites += perMinute
		default:
			r.SourceWrites += perMinute
		}
	}
	return nil
}

// weigh looks at the memory of the hub, as it is and after its garbage was collected: three times, since what is only weakly held,
// and what finalizers let go, needs more than one.
func (r *atRest) weigh(ctx context.Context, hub *testbed.Process) error {
	memory, err := hub.Memory()
	if err != nil {
		return err
	}
	r.RSSMiB = mib(memory.RSS)
	var heap testbed.Heap
	for range 3 {
		if heap, err = hub.Collect(ctx); err != nil {
			return err
		}
	}
	r.LiveMiB = mib(heap.Live)
	if memory, err = hub.Memory(); err != nil {
		return err
	}
	r.CollectedMiB = mib(memory.RSS)
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// reviews is what resources end with that are questions: they are created, and nothing is stored.
const reviews = "reviews"

// writing are the verbs of audit logs that change something.
var writing = []string{"create", "update", "patch", "delete", "deletecollection"}

// asked counts the requests of all clients to all targets so far, as API servers count them: audit logs of
// all would slow all down.
func (w *world) asked(ctx context.Context) (map[string]int64, error) {
	sum := map[string]int64{}
	for _, target := range w.all() {
		counts, err := target.Requests(ctx)
		if err != nil {
			return nil, err
		}
		for request, n := range counts {
			sum[request] += n
		}
	}
	return sum, nil
}

// writesSince are the writes that were added to what was asked before, but of Leases, which API servers have of their own.
func (w *world) writesSince(ctx context.Context, before map[string]int64) (map[string]int64, error) {
	after, err := w.asked(ctx)
	if err != nil {
		return nil, err
	}
	_, _, what := testbed.Writes(before, after)
	return what, nil
}

// requests counts what the hub asked of a cluster.
func requests(cluster *testbed.Cluster, from, to time.Time) (map[string]int, error) {
	entries, err := cluster.AuditEntries()
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, e := range entries {
		if e.UserAgent == "trellis" && e.Time.After(from) && e.Time.Before(to) {
			counts[describe(e)]++
		}
	}
	return counts, nil
}

func describe(e controlplane.AuditEntry) string {
	switch {
	case e.Verb == "get" && e.Resource == "namespaces" && e.Name == "kube-system":
		return "probe (get namespace)"
	case e.Verb == "list" && e.Resource == "leases" && e.Namespace == "kube-system":
		return "probe (list leases)"
	case e.Resource == "" && strings.HasPrefix(e.RequestURI, "/version"):
		return "probe (" + e.Verb + " " + e.RequestURI + ")"
	case e.Resource == "":
		return e.Verb + " " + e.RequestURI
	case strings.HasSuffix(e.Resource, reviews):
		return "ask by " + e.Resource
	case e.Subresource != "":
		return fmt.Sprintf("%s %s/%s", e.Verb, e.Resource, e.Subresource)
	}
	return e.Verb + " " + e.Resource
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
