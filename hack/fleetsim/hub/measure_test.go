package hub_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/demo/stage"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// config has no limit on the rate, which would be what is measured then, and lets requests take as long as they do on a busy
// machine.
const config = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection:
  resourceNamespace: trellis
targetClientConnection: {qps: 100000, burst: 100000, timeout: 2m}
classes:
- name: ""
  target: {type: Namespace}
  concurrentSyncs: 50
`

// meter tells the processor time of the hub from that of the simulator, which is this process with all that the test does.
type meter struct {
	*world
	hub         *stage.Hub
	table       *tabwriter.Writer
	began       time.Time
	hubs, tests time.Duration
}

func (m *meter) start() {
	m.t.Helper()
	m.hubs, m.tests = m.spent()
	m.began = time.Now()
}

func (m *meter) spent() (hub, simulator time.Duration) {
	m.t.Helper()
	hub, err := m.hub.CPU()
	m.Expect(err).NotTo(HaveOccurred())
	simulator, err = controlplane.ProcessCPU(os.Getpid())
	m.Expect(err).NotTo(HaveOccurred())
	return hub, simulator
}

// stop writes a line about what happened since start.
func (m *meter) stop(what, figures string) {
	m.t.Helper()
	hub, simulator := m.spent()
	rss, err := m.hub.RSS()
	m.Expect(err).NotTo(HaveOccurred())
	_, _ = fmt.Fprintf(m.table, "%s\t%.1fs\t%.2fs\t%.2fs\t%d MiB\t%s\n", what, time.Since(m.began).Seconds(), (hub - m.hubs).Seconds(), (simulator - m.tests).Seconds(), rss>>20, figures)
}

// build builds the hub.
func build(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	root, err := stage.Root(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	binary := filepath.Join(t.TempDir(), "trellis")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/trellis")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	return binary
}

func TestMeasure(t *testing.T) {
	if !*measured {
		t.Skip("nothing is measured without -fleet.measure")
	}
	binary := build(t)
	w := newWorld(t, "target-", *targets)
	w.SetDefaultEventuallyTimeout(10 * time.Minute)
	hub, err := stage.StartHub(w.ctx, binary, t.TempDir(), &stage.Cluster{Cluster: source}, config)
	w.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(hub.Kill)
	var report strings.Builder
	m := &meter{world: w, hub: hub, table: tabwriter.NewWriter(&report, 0, 0, 2, ' ', 0)}
	_, _ = fmt.Fprintln(m.table, "PHASE\tTOOK\tCPU HUB\tCPU SIMULATOR\tRSS HUB\t")
	n := len(w.fleet.Targets())

	m.start()
	w.install()
	m.stop("written to the source", fmt.Sprintf("%d ManagedResources", 20*n))
	w.Eventually(func() int {
		objects := 0
		for _, target := range w.fleet.Targets() {
			objects += target.Server().Count() - w.base
		}
		return objects
	}).Should(Equal(300 * n))
	m.stop("in all targets", fmt.Sprintf("%d objects; since the start", 300*n))
	w.eventually(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue)
	m.stop("said to be applied", "since the start")
	w.Expect(journal.Repeated(byHub, w.journal.Histories()...).Err()).To(Succeed())

	// What the hub still has to say of it, and to note.
	const pause = 20 * time.Second
	time.Sleep(pause)

	w.journal.Reset()
	m.start()
	time.Sleep(pause)
	m.stop("at rest", fmt.Sprintf("%d requests to targets, %d of them writes", w.journal.Counts().Sum().Requests, w.writesOfHub().Sum().Requests))

	w.journal.Reset()
	m.start()
	for _, edit := range changes {
		if edit.kind != definition { // they are so large that they are a matter of their own
			before := w.journal.Latencies().Drift.Samples
			w.eachTarget(edit.do)
			w.Eventually(func() uint64 { return w.journal.Latencies().Drift.Samples - before }).Should(BeEquivalentTo(n), edit.what)
		}
	}
	m.stop("drift", w.journal.Latencies().Drift.String())

	for _, value := range []string{"first", "second", "third"} {
		w.journal.Reset()
		m.start()
		changed := w.change(value)
		written := time.Since(changed)
		reach := w.eventuallyEverywhere(changed)
		m.stop("one object changed", fmt.Sprintf("all targets after %s, %s of it to write to the source; %s", reach.Last.Round(time.Millisecond), written.Round(time.Millisecond), w.journal.Latencies().Propagation))
	}
	w.Expect(m.table.Flush()).To(Succeed())
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("%d targets; load of the machine: %s\n%s", n, strings.TrimSpace(string(load)), report.String())
}
