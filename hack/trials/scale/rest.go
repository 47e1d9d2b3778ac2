package scale

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trellis-hub/trellis/hack/figures"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/trials/rig"
)

// settle is how long nothing happens before a measurement of rest: what is to be said of what was done turns up to a minute later.
const settle = 75 * time.Second

// unprobedConfig makes probes so rare that none happens in a measurement.
const unprobedConfig = `
clusterCache: {probeInterval: 2h}
controllers: {heartbeat: {monitorPeriod: 5h, targetMonitorPeriod: 10h}}
`

// memory shows what the hub takes beside what the goal allows: 64 MiB, 1.2 MiB a target, 2 KiB an object.
func (r *run) memory(ctx context.Context, step *figures.Step) error {
	const hub, perTarget, perObject = 64, 1.2, 2.0 / 1024
	goal := hub + perTarget*float64(len(r.targets)) + perObject*float64(r.all())
	uncollected, err := r.Hub.Memory()
	if err != nil {
		return err
	}
	resources, err := r.Resources(ctx)
	if err != nil {
		return err
	}
	step.Add("RSS as it is", mib(uncollected.RSS), "MiB").AtMost(goal)
	step.Add("anonymous memory as it is", mib(uncollected.Anonymous), "MiB").AtMost(goal)
	step.Add("RSS after a collection", mib(resources.RSS), "MiB").AtMost(goal)
	step.Add("anonymous memory after a collection", mib(resources.Anonymous), "MiB").AtMost(goal)
	step.Add("live heap", mib(resources.Heap), "MiB")
	step.Add("live heap a target", mib(resources.Heap)/float64(len(r.targets)), "MiB")
	step.Add("peak RSS so far", mib(uncollected.Peak), "MiB")
	step.Add("goroutines a target", float64(resources.Goroutines)/float64(len(r.targets)), "")
	step.Add("sockets a target", float64(resources.Sockets)/float64(len(r.targets)), "")
	step.Add("series of the hub", float64(resources.Series), "")
	step.Add("series a target", float64(resources.TargetSeries)/float64(len(r.targets)), "").AtMost(15)
	return nil
}

// rest measures while nothing happens.
func (r *run) rest(ctx context.Context, step *figures.Step) error {
	return r.restUntil(ctx, step, false)
}

// unprobed is rest with a hub that does not probe.
func (r *run) unprobed(ctx context.Context, step *figures.Step) error {
	if err := r.StopHub(); err != nil {
		return err
	}
	if err := r.StartHub(ctx, unprobedConfig); err != nil {
		return err
	}
	if err := r.awaitSynced(ctx); err != nil {
		return err
	}
	return r.restUntil(ctx, step, true)
}

func (r *run) restUntil(ctx context.Context, step *figures.Step, unprobed bool) error {
	if err := rig.Pause(ctx, settle); err != nil {
		return err
	}
	r.Journal.Reset()
	before, err := r.SourceRequests(ctx)
	if err != nil {
		return err
	}
	cpu, err := r.CPU()
	if err != nil {
		return err
	}
	if err := rig.Pause(ctx, r.options.Rest); err != nil {
		return err
	}
	later, err := r.CPU()
	if err != nil {
		return err
	}
	after, err := r.SourceRequests(ctx)
	if err != nil {
		return err
	}
	used := step.Add("hub CPU", later.Millicores(cpu), "m")
	if unprobed {
		// The goal is for a thousand targets.
		used.AtMost(60 * max(1, float64(len(r.targets))/1000))
		if i := slices.IndexFunc(r.report.Steps, func(s *figures.Step) bool { return s.Name == "rest" }); i >= 0 {
			if f := r.report.Steps[i].Find("hub CPU"); f != nil {
				step.Add("hub CPU of probes", f.Value-used.Value, "m")
			}
		}
	}
	counts := r.Journal.Counts().Where(func(c journal.Count) bool { return rig.ByHub(journal.Change{UserAgent: c.UserAgent}) })
	perSecond := func(n int64) float64 { return float64(n) / later.At.Sub(cpu.At).Seconds() }
	probes := counts.Where(probe)
	others := counts.Where(func(c journal.Count) bool { return !probe(c) })
	for _, c := range counts {
		step.Count(fmt.Sprintf("target: %s %s %d", c.Verb, c.Resource, c.Code), c.Requests)
	}
	step.Add("writes to targets", float64(counts.Writes().Sum().Requests), "").Exactly(0).Strictly()
	step.Add("gets and lists of targets, but for probes", float64(others.Verbs("get", "list").Sum().Requests), "").Exactly(0)
	step.Add("probes", perSecond(probes.Sum().Requests), "/s")
	step.Add("watches begun", perSecond(counts.Verbs("watch").Sum().Requests), "/s")
	leases, writes, what := rig.Writes(before, after)
	step.Add("Lease writes to the source", perSecond(leases), "/s").AtMost(1)
	step.Add("other writes to the source", perSecond(writes), "/s")
	for request, n := range what {
		step.Count("source: "+request, n)
	}
	memory, err := r.Hub.Memory()
	if err != nil {
		return err
	}
	step.Add("RSS", mib(memory.RSS), "MiB")
	return nil
}

// probe tells which requests are probes: what is no resource, and the identity of the cluster.
func probe(c journal.Count) bool {
	return len(c.Resource) > 0 && c.Resource[0] == '/' || c.Verb == "get" && c.Resource == "namespaces"
}
