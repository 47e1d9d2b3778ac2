package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// printTable prints the figures: the median over runs, and beside it the range.
func printTable(out io.Writer, o options, r *result) {
	fmt.Fprintf(out, "\n%d processors, load %s -> %s\n", r.CPUs, firstWord(r.LoadBefore), firstWord(r.LoadAfter))
	if r.Drift != nil {
		printLatencies(out, fmt.Sprintf("Drift: an edit or delete is undone (%d in 3 targets, %d runs)", o.edits, o.runs), *r.Drift)
		printKinds(out, *r.Drift)
	}
	if r.Secret != nil {
		printLatencies(out, fmt.Sprintf("Secret: changed content is in the target (%d in 3 targets, %d runs)", o.changes, o.runs), *r.Secret)
	}
	if r.Apply != nil {
		printApply(out, o, r.Apply)
	}
	if r.Rest != nil {
		printRest(out, *r.Rest)
	}
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

func printLine(out io.Writer, name, unit string, s spread) {
	fmt.Fprintf(out, "  %-38s%10.2f %-12s (%.2f to %.2f)\n", name, s.Median, unit, s.Least, s.Most)
}

func printLatencies(out io.Writer, title string, s samples) {
	fmt.Fprintf(out, "\n%s\n", title)
	runs := s.latencies()
	printLine(out, "p50", "ms", overRuns(runs, func(l latencies) float64 { return l.P50 }))
	printLine(out, "p99", "ms", overRuns(runs, func(l latencies) float64 { return l.P99 }))
	printLine(out, "max", "ms", overRuns(runs, func(l latencies) float64 { return l.Max }))
}

// printKinds prints what the changes of all runs took, by kind and change.
func printKinds(out io.Writer, s samples) {
	byChange := map[string][]float64{}
	for _, run := range s.Runs {
		for _, one := range run {
			name := one.Kind + ": " + one.Change
			byChange[name] = append(byChange[name], one.Millis)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byChange)) {
		l := latenciesOf(byChange[name])
		fmt.Fprintf(out, "    %-36s%10.2f %-12s (max %.2f of %d)\n", name, l.P50, "ms", l.Max, len(byChange[name]))
	}
}

func printApply(out io.Writer, o options, rounds []round) {
	fmt.Fprintf(out, "\nApply: %d ManagedResources of %d ConfigMaps into one target, %d requests in flight (%d rounds)\n", o.resources, o.objects, o.inFlight, o.rounds)
	figures := map[string][]float64{}
	for _, r := range rounds {
		figures[r.Way] = append(figures[r.Way], r.PerSecond)
		if r.Way == byHub {
			figures["cpu"] = append(figures["cpu"], r.CPUMillis)
			figures["reported"] = append(figures["reported"], r.ReportedMillis-r.Millis)
			figures["removed"] = append(figures["removed"], r.RemovedPerSecond)
		}
	}
	for _, way := range []string{byHub, byApply, byPost} {
		printLine(out, way, "objects/s", spreadOf(figures[way]))
	}
	for _, way := range []string{byApply, byPost} {
		ratios := make([]float64, 0, o.rounds)
		for i, rate := range figures[byHub] {
			ratios = append(ratios, 100*rate/figures[way][i])
		}
		printLine(out, "hub, of "+way+" in the same round", "%", spreadOf(ratios))
	}
	printLine(out, "processor time of the hub", "ms/object", spreadOf(figures["cpu"]))
	printLine(out, "last object to last condition", "ms", spreadOf(figures["reported"]))
	printLine(out, "removed by the hub", "objects/s", spreadOf(figures["removed"]))
}

func printRest(out io.Writer, r atRest) {
	fmt.Fprintf(out, "\nRest: %d targets, %d ManagedResources of 15 objects, %.0f s\n", r.Targets, r.ManagedResources, r.Seconds)
	fmt.Fprintf(out, "  %-38s%10.2f millicores\n", "processor time of the hub", r.Millicores)
	fmt.Fprintf(out, "  %-38s%10.1f MiB\n", "resident memory of the hub", r.RSSMiB)
	for _, place := range []struct {
		name   string
		counts map[string]int
	}{{"one target", r.Target}, {"the source cluster", r.Source}} {
		fmt.Fprintf(out, "  requests to %s\n", place.name)
		if len(place.counts) == 0 {
			fmt.Fprintln(out, "    none")
		}
		for _, request := range slices.Sorted(maps.Keys(place.counts)) {
			fmt.Fprintf(out, "    %-36s%10d\n", request, place.counts[request])
		}
	}
}
