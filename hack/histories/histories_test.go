package histories_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/histories"
	"github.com/trellis-hub/trellis/hack/testbed"
)

var (
	steps  = flag.Int("history.steps", 0, "how many steps to take, in histories of -history.length steps; 0 runs two short histories")
	length = flag.Int("history.length", 5000, "how long each history of a long run is")
	seed   = flag.Uint64("history.seed", 0, "the seed of the first history of a long run, 0 for a new one")
	replay = flag.String("history.replay", "", "a file with the steps of a history to run again")
	shrink = flag.Duration("history.shrink", 0, "for how long to look for a shorter history that fails in the same way")
	out    = flag.String("history.out", "", "a directory for results, and for what belongs to failures")
)

// all are the clusters, the source first.
var all [2]*testbed.Cluster

func TestMain(m *testing.M) {
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if testing.Short() {
		return m.Run()
	}
	clusters, err := testbed.StartSource(context.Background(), controlplane.Options{Name: "west"},
		controlplane.Options{Name: "east"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer testbed.StopClusters(clusters...)
	copy(all[:], clusters)
	return m.Run()
}

// TestNeverAWrongDelete runs the beginnings of two histories that are always the same, or a long run, or a history of a
// file. New histories are for long runs: what they find has a seed by which it can be found again.
func TestNeverAWrongDelete(t *testing.T) {
	if testing.Short() {
		t.Skip("histories need control planes")
	}
	switch {
	case *replay != "":
		text, err := os.ReadFile(*replay)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		history, err := histories.ParseSteps(string(text))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		live(t, histories.Options{Name: "replay", Replay: history})
	case *steps > 0:
		first := *seed
		if first == 0 {
			first = uint64(time.Now().UnixNano()) % 1e9
		}
		long(t, first)
	default:
		for _, seed := range []uint64{1, 20} {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				live(t, histories.Options{Name: fmt.Sprint("h", seed), Seed: seed, Steps: 100_000, For: 10 * time.Second})
			})
		}
	}
}

// long runs histories with one seed after the other until there were enough steps. Failures do not end it.
func long(t *testing.T, first uint64) {
	var total histories.Stats
	failures := 0
	for n := uint64(0); total.Total() < *steps; n++ {
		t.Run(fmt.Sprint("seed ", first+n), func(t *testing.T) {
			result := live(t, histories.Options{Name: fmt.Sprint("h", first+n), Seed: first + n, Steps: min(*length, *steps-total.Total())})
			total.Add(result.Stats)
			if result.Violation != nil {
				failures++
			}
		})
		fmt.Printf("%d histories, %d failures: %s\n", n+1, failures, total)
		if t.Failed() && failures == 0 {
			return // it is the environment
		}
	}
}

// live runs a history and reports what came of it.
func live(t *testing.T, o histories.Options) *histories.Result {
	t.Helper()
	g := NewWithT(t)
	result, err := histories.Run(context.Background(), all, o)
	g.Expect(err).NotTo(HaveOccurred())
	t.Log(result.Stats)
	write := func(name, text string) {
		if *out != "" {
			g.Expect(os.MkdirAll(*out, 0o755)).To(Succeed())
			g.Expect(os.WriteFile(filepath.Join(*out, o.Name+"-"+name), []byte(text), 0o644)).To(Succeed())
		}
	}
	raw, err := json.MarshalIndent(result, "", "  ")
	g.Expect(err).NotTo(HaveOccurred())
	write("result.json", string(raw))
	if result.Violation == nil {
		return result
	}
	if *shrink > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), *shrink)
		defer cancel()
		stats := result.Stats
		result, err = histories.Shrink(ctx, all, o.Name, result)
		g.Expect(err).NotTo(HaveOccurred())
		result.Stats = stats
	}
	var history strings.Builder
	for _, s := range result.History {
		fmt.Fprintln(&history, s)
	}
	write("history", history.String())
	write("trace", result.Trace)
	write("about", result.About)
	write("log", result.Log)
	t.Errorf("%v\n\nWhat led to it:\n%s\nThe whole history, for -history.replay:\n%s", result.Violation, end(result.About, 60), &history)
	return result
}

// end is the last lines of a text.
func end(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}
