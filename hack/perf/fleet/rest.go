package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// settle is how long nothing happens before a measurement of rest: what is to be said of what was done turns up to a minute later.
const settle = 75 * time.Second

// unprobedConfig makes probes so rare that none happens in a measurement.
const unprobedConfig = `
clusterCache: {probeInterval: 2h}
controllers: {heartbeat: {monitorPeriod: 5h, targetMonitorPeriod: 10h}}
`

// memoryGoal is what the hub may take, in MiB: 64 MiB, 1.2 MiB a target, 2 KiB an object.
func (r *run) memoryGoal() float64 {
	const hub, perTarget, perObject = 64, 1.2, 2.0 / 1024
	return hub + perTarget*float64(len(r.targets)) + perObject*float64(r.all())
}

// memory shows what the hub takes beside what the goal allows, right after the roll-out.
func (r *run) memory(ctx context.Context, step *figures.Step) error {
	goal := r.memoryGoal()
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
	step.Add("series a target", float64(resources.TargetSeries)/float64(len(r.targets)), "").AtMost(15).Strictly()
	return nil
}

// rest measures while nothing happens.
func (r *run) rest(ctx context.Context, step *figures.Step) error {
	return r.restUntil(ctx, step, false)
}

// unprobed is rest with a hub that does not probe.
func (r *run) unprobed(ctx context.Context, step *figures.Step) error {
	config, err := merged(r.options.Config, unprobedConfig)
	if err != nil {
		return err
	}
	if err := r.startAnew(ctx, config); err != nil {
		return err
	}
	return r.restUntil(ctx, step, true)
}

func (r *run) restUntil(ctx context.Context, step *figures.Step, unprobed bool) error {
	if err := rig.Pause(ctx, settle); err != nil {
		return err
	}
	r.Journal.Reset()
	before, err := r.Source.Requests(ctx)
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
	after, err := r.Source.Requests(ctx)
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
	counts := byHub(r.Journal.Counts())
	for _, c := range counts {
		step.Count(fmt.Sprintf("target: %s %s %d", c.Verb, c.Resource, c.Code), c.Requests)
	}
	interval := probeInterval
	if unprobed {
		interval = 0
	}
	judgeRest(step, counts, len(r.targets), later.At.Sub(cpu.At), interval)
	perSecond := func(n int64) float64 { return float64(n) / later.At.Sub(cpu.At).Seconds() }
	leases, writes, what := testbed.Writes(before, after)
	step.Add("Lease writes to the source", perSecond(leases), "/s").AtMost(1)
	step.Add("other writes to the source", perSecond(writes), "/s")
	for request, n := range what {
		step.Count("source: "+request, n)
	}
	memory, err := r.Hub.Memory()
	if err != nil {
		return err
	}
	step.Add("RSS as it is", mib(memory.RSS), "MiB").AtMost(r.memoryGoal())
	step.Add("anonymous memory as it is", mib(memory.Anonymous), "MiB").AtMost(r.memoryGoal())
	return r.profile(ctx, step.Name, r.options.Rest)() // it would be measured with the rest
}

// probeInterval is that of the hub as it ships.
const probeInterval = 5 * time.Second

// byHub are the counts of the hub's own requests.
func byHub(counts journal.Counts) journal.Counts {
	return counts.Where(func(c journal.Count) bool { return rig.ByHub(journal.Change{UserAgent: c.UserAgent}) })
}

// judgeRest judges what a hub asks of targets for a time in which nothing happens, and probes at an interval; zero if it does not.
func judgeRest(step *figures.Step, counts journal.Counts, targets int, length, interval time.Duration) {
	step.Add("writes to targets", float64(counts.Writes().Sum().Requests), "").Exactly(0).Strictly()
	others := counts.Where(func(c journal.Count) bool { return !probe(c) })
	asked := others.Verbs("get", "list")
	goal := "0"
	for _, c := range asked {
		goal += fmt.Sprintf("; there were %d of %s %s", c.Requests, c.Verb, c.Resource)
	}
	step.Add("gets and lists of targets, but for probes", float64(asked.Sum().Requests), "").
		Holds(goal, len(asked) == 0).Strictly()
	// What is asked for more often than probes are due is none. Intervals vary by a fifth.
	due := 0.0
	if interval > 0 {
		due = float64(targets) * (1 + length.Seconds()/(0.8*interval.Seconds()))
	}
	for _, what := range []struct {
		name   string
		probes journal.Counts
	}{{"probes", counts.Where(identity)}, {"probes for versions", counts.Where(version)}, {"probes for the past", counts.Where(past)}} {
		n := float64(what.probes.Sum().Requests)
		step.Add(what.name, n/length.Seconds(), "/s").Holds(fmt.Sprintf("<= %.2f", due/length.Seconds()), n <= due).Strictly()
	}
	step.Add("watches begun", float64(counts.Verbs("watch").Sum().Requests)/length.Seconds(), "/s")
}

// probe reports whether a request is a probe.
func probe(c journal.Count) bool { return identity(c) || version(c) || past(c) }

// identity is the request for what identifies a cluster: its namespace kube-system.
func identity(c journal.Count) bool { return c.Verb == "get" && c.Resource == "namespaces" }

// version is the request for the version of a server, which probes make now and then.
func version(c journal.Count) bool { return c.Verb == "get" && c.Resource == "/version" }

// past is the request for what reports whether a cluster went back in time, which probes make now and then.
func past(c journal.Count) bool {
	return c.Verb == "list" && c.Resource == "leases.coordination.k8s.io"
}

// merged adds sections of YAML to others; a section in both is put together, and the latter wins.
func merged(sections ...string) (string, error) {
	all := map[string]any{}
	for _, section := range sections {
		one := map[string]any{}
		if err := yaml.Unmarshal([]byte(section), &one); err != nil {
			return "", fmt.Errorf("adding to the configuration of the hub: %w", err)
		}
		merge(all, one)
	}
	if len(all) == 0 {
		return "", nil
	}
	out, err := yaml.Marshal(all)
	return string(out), err
}

func merge(into, from map[string]any) {
	for key, value := range from {
		a, isMap := into[key].(map[string]any)
		b, wasMap := value.(map[string]any)
		if isMap && wasMap {
			merge(a, b)
		} else {
			into[key] = value
		}
	}
}
