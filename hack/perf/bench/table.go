package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/trellis-hub/trellis/hack/perf/figures"
)

// printTable prints the figures: the median over runs, and beside it the range.
func printTable(out io.Writer, o Options, r *result) {
	fmt.Fprintf(out, "\n%d processors, load %s -> %s\n", r.CPUs, figures.LoadOfMinute(r.LoadBefore), figures.LoadOfMinute(r.LoadAfter))
	if r.Drift != nil {
		printLatencies(out, fmt.Sprintf("Drift: an edit or delete is undone (%d in %d targets, %d runs)", o.edits, o.targetCount-1, o.runs), *r.Drift)
		printGroups(out, *r.Drift, "kind", "edits", func(s sample) string { return s.Kind })
	}
	if r.Secret != nil {
		printLatencies(out, fmt.Sprintf("Secret: changed content is in the target (%d in %d targets, %d runs)", o.changes, o.targetCount-1, o.runs), *r.Secret)
	}
	if r.Health != nil {
		printLatencies(out, fmt.Sprintf("Health: a Deployment that becomes unavailable or available is reported (%d in %d targets, %d runs)", 2*o.flips, o.targetCount-1, o.runs), *r.Health)
		printGroups(out, *r.Health, "direction", "flips", func(s sample) string { return s.Change })
	}
	if r.Apply != nil {
		printApply(out, o, r.Apply)
	}
	if r.Rest != nil {
		printRest(out, "Rest", *r.Rest)
	}
	if r.Unprobed != nil {
		printRest(out, "Rest without probes", *r.Unprobed)
	}
	if r.Restart != nil {
		printRestart(out, *r.Restart)
	}
	if r.Memory != nil {
		printMemory(out, r.Memory)
	}
}

func printLine(out io.Writer, name, unit string, s figures.Spread) {
	fmt.Fprintf(out, "  %-38s%10.2f %-12s (%.2f to %.2f)\n", name, s.Median, unit, s.Least, s.Most)
}

func printLatencies(out io.Writer, title string, s samples) {
	fmt.Fprintf(out, "\n%s\n", title)
	for _, who := range []struct {
		name   string
		figure func(sample) float64
	}{{"", ofHub}, {", reference", ofReference}} {
		runs := s.latencies(who.figure)
		printLine(out, "p50"+who.name, "ms", figures.OverRuns(runs, func(l figures.Latencies) float64 { return l.P50 }))
		printLine(out, "p99"+who.name, "ms", figures.OverRuns(runs, func(l figures.Latencies) float64 { return l.P99 }))
		printLine(out, "max"+who.name, "ms", figures.OverRuns(runs, func(l figures.Latencies) float64 { return l.Max }))
	}
}

// printGroups prints what the changes of all runs took, by something that they have in common.
func printGroups(out io.Writer, s samples, by, changes string, group func(sample) string) {
	hub, reference := map[string][]float64{}, map[string][]float64{}
	for _, run := range s.Runs {
		for _, one := range run {
			hub[group(one)] = append(hub[group(one)], one.Millis)
			reference[group(one)] = append(reference[group(one)], one.ReferenceMillis)
		}
	}
	fmt.Fprintf(out, "    %-26s%8s%10s%10s%10s%16s%10s\n", "ms, by "+by, changes, "p50", "p99", "max", "reference p50", "p99")
	for _, name := range slices.Sorted(maps.Keys(hub)) {
		l, r := figures.LatenciesOf(hub[name]), figures.LatenciesOf(reference[name])
		fmt.Fprintf(out, "    %-26s%8d%10.2f%10.2f%10.2f%16.2f%10.2f\n", name, len(hub[name]), l.P50, l.P99, l.Max, r.P50, r.P99)
	}
}

func printApply(out io.Writer, o Options, rounds []round) {
	fmt.Fprintf(out, "\nApply: %d ManagedResources of %d ConfigMaps into one target, %d requests in flight (%d rounds)\n", o.resources, o.objects, o.inFlight, o.rounds)
	rates := map[string][]float64{}
	for _, r := range rounds {
		rates[r.Way] = append(rates[r.Way], r.PerSecond)
		if r.Way == byHub {
			rates["cpu"] = append(rates["cpu"], r.CPUMillis)
			rates["reported"] = append(rates["reported"], r.ReportedMillis-r.Millis)
			rates["removed"] = append(rates["removed"], r.RemovedPerSecond)
		}
	}
	for _, way := range []string{byHub, byApply, byPost} {
		printLine(out, way, "objects/s", figures.SpreadOf(rates[way]))
	}
	for _, way := range []string{byApply, byPost} {
		ratios := make([]float64, 0, o.rounds)
		for i, rate := range rates[byHub] {
			ratios = append(ratios, 100*rate/rates[way][i])
		}
		printLine(out, "hub, of "+way+" in the same round", "%", figures.SpreadOf(ratios))
	}
	printLine(out, "processor time of the hub, to the end", "ms/object", figures.SpreadOf(rates["cpu"]))
	printProcessors(out, rounds)
	counts := map[string][]float64{}
	for _, r := range rounds {
		for request, n := range r.Requests {
			counts[request] = append(counts[request], float64(n)/float64(o.resources))
		}
	}
	for _, request := range slices.Sorted(maps.Keys(counts)) {
		printLine(out, request, "/MR", figures.SpreadOf(counts[request]))
	}
	printLine(out, "last object to last condition", "ms", figures.SpreadOf(rates["reported"]))
	printLine(out, "removed by the hub", "objects/s", figures.SpreadOf(rates["removed"]))
}

// printProcessors prints what each process used for an object, one column for each way: the rates follow from that where
// the processors are what there is too little of.
func printProcessors(out io.Writer, rounds []round) {
	ways := []string{byHub, byApply, byPost}
	used := map[string]map[string][]float64{}
	for _, r := range rounds {
		total := 0.0
		for name, cpu := range r.Processors {
			total += cpu
			if used[name] == nil {
				used[name] = map[string][]float64{}
			}
			used[name][r.Way] = append(used[name][r.Way], cpu)
		}
		if used["all"] == nil {
			used["all"] = map[string][]float64{}
		}
		used["all"][r.Way] = append(used["all"][r.Way], total)
	}
	fmt.Fprintf(out, "  %-30s%14s%14s%14s\n", "ms/object, to the last object", ways[0], ways[1], ways[2])
	for _, name := range slices.Sorted(maps.Keys(used)) {
		fmt.Fprintf(out, "    %-28s", name)
		for _, way := range ways {
			fmt.Fprintf(out, "%14.2f", figures.Median(used[name][way]))
		}
		fmt.Fprintln(out)
	}
}

func printRest(out io.Writer, name string, r atRest) {
	fmt.Fprintf(out, "\n%s: %s, %.0f s, load %s\n", name, r.fleet, r.Seconds, r.Load)
	fmt.Fprintf(out, "  %-38s%10.2f millicores (%.2f for each target)\n", "processor time of the hub", r.Millicores, r.Millicores/float64(r.Targets))
	fmt.Fprintf(out, "  %-38s%10.1f MiB (goal: at most %.1f)\n", "resident memory of the hub", r.RSSMiB, r.GoalMiB)
	fmt.Fprintf(out, "  %-38s%10.1f MiB, of which %.1f are alive on the heap\n", "the same after a collection", r.CollectedMiB, r.LiveMiB)
	fmt.Fprintf(out, "  %-38s%10.1f /min (and %.1f of Leases)\n", "writes to the source cluster", r.SourceWrites, r.LeaseWrites)
	printAsked(out, r.Target, r.Writes)
	printCounts(out, "requests to the audited target", r.Target)
	printCounts(out, "requests to the source cluster", r.Source)
}

// String says for people what there is.
func (f fleet) String() string {
	return fmt.Sprintf("%d targets, %d ManagedResources, %d objects (%d a target)", f.Targets, f.ManagedResources, f.Objects, f.Objects/f.Targets)
}

func printRestart(out io.Writer, r restarted) {
	fmt.Fprintf(out, "\nRestart with nothing changed: %s, load %s\n", r.fleet, r.Load)
	fmt.Fprintf(out, "  %-38s%10.2f s\n", "ready", r.ReadySeconds)
	fmt.Fprintf(out, "  %-38s%10.2f s\n", fmt.Sprintf("all %d watches synced", r.Watches), r.SyncedSeconds)
	fmt.Fprintf(out, "  %-38s%10.2f s\n", "processor time of the hub until then", r.CPUSeconds)
	fmt.Fprintf(out, "  %-38s%10.1f MiB (goal: at most %.1f)\n", "resident memory a minute later", r.SteadyMiB, r.GoalMiB)
	fmt.Fprintf(out, "  %-38s%10.1f MiB, %.2f times as much\n", "the most until then", r.PeakMiB, r.PeakMiB/r.SteadyMiB)
	printAsked(out, r.Target, r.Writes)
	printCounts(out, "requests to the audited target", r.Target)
}

// printAsked prints how often targets were asked for what, and in which there is nothing to do.
func printAsked(out io.Writer, audited map[string]int, writes map[string]int64) {
	sums := map[string]int{}
	for request, n := range audited {
		verb, _, _ := strings.Cut(request, " ")
		if slices.Contains(writing, verb) {
			verb = "write"
		}
		sums[verb] += n
	}
	fmt.Fprintf(out, "  %-38s%10d writes, %d gets, %d lists; %d probes, %d watches begun, %d reviews\n", "the audited target was asked for",
		sums["write"], sums["get"], sums["list"], sums["probe"], sums["watch"], sums["ask"])
	printCounts(out, "writes of all clients to all targets, but Leases and reviews", writes)
}

func printCounts[N int | int64](out io.Writer, name string, counts map[string]N) {
	fmt.Fprintf(out, "  %s\n", name)
	if len(counts) == 0 {
		fmt.Fprintln(out, "    none")
	}
	for _, request := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "    %-36s%10d\n", request, counts[request])
	}
}

func printMemory(out io.Writer, footprints []footprint) {
	for _, f := range footprints {
		fmt.Fprintf(out, "\nMemory: one watched %s of %d, of %d bytes each\n", f.Kind, f.Objects, f.Bytes)
		printLine(out, "hub", "B/object", figures.SpreadOf(f.Hub))
		printLine(out, "informer of client-go, metadata only", "B/object", figures.SpreadOf(f.Metadata))
		printLine(out, "informer of client-go, whole objects", "B/object", figures.SpreadOf(f.Typed))
	}
}
