package isolation_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// What runs if nothing else is asked for. New programs are for long runs: what they find has a seed by which it can be
// found again.
const (
	usualPrograms = 2
	usualSteps    = 20
	usualSeed     = 4
)

var (
	programs = flag.Int("isolation.programs", usualPrograms, "how many pairs of programs to run")
	length   = flag.Int("isolation.steps", usualSteps, "how many steps each program has, at least one for each controller")
	first    = flag.Uint64("isolation.seed", usualSeed, "the seed of the first pair; the next ones count up")
)

var (
	source *testbed.Cluster
	places [2]*place
)

func TestMain(m *testing.M) {
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(3 * time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if testing.Short() {
		return m.Run()
	}
	clusters, err := testbed.StartSource(context.Background(),
		controlplane.Options{Name: "source"}, controlplane.Options{Name: "east"}, controlplane.Options{Name: "west"})
	defer func() { testbed.StopClusters(clusters...) }()
	if err == nil {
		err = prepare(clusters)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func prepare(clusters []*testbed.Cluster) (err error) {
	source = clusters[0]
	for i := range places {
		if places[i], err = newPlace(clusters[i+1], i+1); err != nil {
			return err
		}
	}
	if err := define("csrapprover/testdata/machines.yaml", source); err != nil {
		return err
	}
	return define("istioclusterconfig/testdata/istio.yaml", clusters[1:]...)
}

// define installs the CRDs of a file of a controller.
func define(path string, clusters ...*testbed.Cluster) error {
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(root, "controllers", filepath.FromSlash(path)))
	if err != nil {
		return fmt.Errorf("reading CRDs: %w", err)
	}
	for _, document := range strings.Split(string(data), "\n---\n") {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(document), crd); err != nil {
			return fmt.Errorf("reading the CRDs of %s: %w", path, err)
		}
		for _, cluster := range clusters {
			if err := cluster.Client.Create(context.Background(), crd.DeepCopy()); err != nil {
				return fmt.Errorf("installing CRD %s in %s: %w", crd.Name, cluster.Name, err)
			}
		}
	}
	return nil
}

// ahead is a clock by which everything is old enough to be collected, and to be denied permanently.
type ahead struct{ clock.RealClock }

// lead is longer than the shortest life of what is collected.
const lead = 11 * time.Minute

func (c ahead) Now() time.Time                  { return c.RealClock.Now().Add(lead) }
func (c ahead) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// configured switches all controllers on for the one class.
func configured(c *configv1alpha1.HubConfiguration) {
	var settings strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&settings, "    %s\n", p.settings)
	}
	config, err := configv1alpha1.Load(fmt.Appendf(nil, `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection: {resourceNamespace: trellis}
classes:
- name: ""
  target: {type: Namespace}
  controllers:
%s`, settings.String()))
	if err != nil {
		panic(err) // it is written here
	}
	c.Classes = config.Classes
}

// bench is the test with its hub.
type bench struct {
	*WithT
	t     *testing.T
	hub   *testbed.Hub
	calls *recorder
}

// runs is how many there were, of all tests.
var runs int

func start(t *testing.T) *bench {
	t.Helper()
	return startWith(t, testbed.HubOptions{})
}

func startWith(t *testing.T, o testbed.HubOptions) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	b := &bench{WithT: NewWithT(t), t: t, calls: newRecorder()}
	testbed.AwaitInstances(t, source, "machines.machine.sapcloud.io")
	for _, p := range places {
		testbed.AwaitInstances(t, p.Cluster, "destinationrules.networking.istio.io")
		testbed.AwaitInstances(t, p.Cluster, "envoyfilters.networking.istio.io")
	}
	b.startHub(o)
	return b
}

// startHub starts a hub with all controllers.
func (b *bench) startHub(o testbed.HubOptions) {
	b.t.Helper()
	o.Config, o.Clock, o.WrapTarget = configured, ahead{}, b.calls.wrap
	b.hub = testbed.StartHubForTest(b.t, source, o)
}

// MC-7 For random programs in two targets, the calls that change something in a target follow from what is in it and in
// its home namespace only.
func TestMC7_TargetsAreKeptApart(t *testing.T) {
	b := start(t)
	for i := range *programs {
		seed := *first + uint64(i) //nolint:gosec // it is a small number
		kept := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Logf("run it again with: -isolation.seed=%d -isolation.programs=1 -isolation.steps=%d", seed, *length)
			b.WithT, b.t = NewWithT(t), t
			b.compare(seed)
		})
		if !kept {
			return // what it left behind would be in the way of others
		}
	}
}

// compare runs the programs of a seed alone and interleaved.
func (b *bench) compare(seed uint64) {
	b.t.Helper()
	var alone [2][]string
	for i := range places {
		alone[i] = b.run(seed, i)[i]
		b.Expect(alone[i]).NotTo(BeEmpty())
	}
	together := b.run(seed, 0, 1)
	for i, p := range places {
		b.Expect(together[i]).To(Equal(alone[i]), "%s beside %s has other calls than alone", p.Name, places[1-i].Name)
	}
}

// run runs the programs of some places at once, and returns the calls to each: sorted, and each only once.
func (b *bench) run(seed uint64, who ...int) (sets [2][]string) {
	b.t.Helper()
	ctx := b.t.Context()
	var stages [2]*stage
	var before [2]int
	runs++
	for _, i := range who {
		before[i] = len(b.calls.to(places[i].host))
		stages[i] = b.register(i)
	}
	b.engaged(len(who))
	b.play(seed, stages)
	for i, s := range stages {
		if s == nil {
			continue
		}
		b.Eventually(func() bool { return b.calls.answered(s.host) }).Should(BeTrue())
		calls := b.calls.to(s.host)[before[i]:]
		sets[i] = b.setOf(s, calls, stages[1-i])
		b.Expect(s.leave(ctx)).To(Succeed())
	}
	b.engaged(0)
	for _, s := range stages {
		if s != nil {
			b.Expect(s.clear(ctx)).To(Succeed())
		}
	}
	return sets
}

// register gives a place its namespaces, and registers it.
func (b *bench) register(place int) *stage {
	b.t.Helper()
	s := places[place].stage(runs)
	b.Expect(s.open(b.t.Context())).To(Succeed())
	return s
}

// engaged waits until all controllers work in a number of targets.
func (b *bench) engaged(targets int) {
	b.t.Helper()
	b.Eventually(func() map[string]float64 {
		families, err := b.hub.Registry.Gather()
		b.Expect(err).NotTo(HaveOccurred())
		working := map[string]float64{}
		for _, family := range families {
			if family.GetName() != "trellis_controller_targets" {
				continue
			}
			for _, m := range family.GetMetric() {
				for _, label := range m.GetLabel() {
					if label.GetName() == "controller" {
						working[label.GetValue()] = m.GetGauge().GetValue()
					}
				}
			}
		}
		return working
	}).Should(Satisfy(func(working map[string]float64) bool {
		return !slices.ContainsFunc(parts, func(p part) bool { return working[p.name] != float64(targets) })
	}), "controllers do not work in %d targets", targets)
}

// play takes the steps of all stages in the order of a seed.
func (b *bench) play(seed uint64, stages [2]*stage) {
	b.t.Helper()
	ctx := b.t.Context()
	var left [2][]step
	var after, pending [2]func(context.Context, *stage) error
	var turns []int
	for i := range stages {
		left[i], after[i] = program(2*seed+uint64(i), *length) //nolint:gosec // one of two
		turns = append(turns, slices.Repeat([]int{i}, len(left[i]))...)
	}
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	wait := func(i int) {
		if pending[i] != nil {
			b.Eventually(func() error { return pending[i](ctx, stages[i]) }).Should(Succeed())
			pending[i] = nil
		}
	}
	for _, i := range turns {
		next := left[i][0]
		left[i] = left[i][1:]
		if stages[i] == nil {
			continue
		}
		wait(i)
		b.t.Logf("%s: %s", stages[i].Name, next.text)
		b.Expect(next.do(ctx, stages[i])).To(Succeed(), "%s: %s", stages[i].Name, next.text)
		pending[i] = next.done
	}
	for i, s := range stages {
		if s != nil {
			wait(i)
			pending[i] = after[i]
			wait(i)
		}
	}
}

// setOf returns the calls to a target as texts, and insists that none mentions the home namespace of the other one.
func (b *bench) setOf(s *stage, calls []call, other *stage) (set []string) {
	b.t.Helper()
	for _, c := range calls {
		if other != nil {
			b.Expect(c.String()).NotTo(ContainSubstring(other.home), "a call to %s", s.Name)
		}
		if c.compared {
			set = append(set, s.plain(c.String()))
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// The programs that usually run have all that matters in them.
func TestProgramsHaveEverything(t *testing.T) {
	g := NewWithT(t)
	var all []string
	for seed := range uint64(2 * usualPrograms) {
		steps, _ := program(2*usualSeed+seed, usualSteps)
		for _, s := range steps {
			all = append(all, s.text)
		}
	}
	for _, wanted := range []string{
		"referred to: true", "referred to: false", "nothing refers to", "Secret of the target: true",
		"Secret of the target: false", "to be Approved", "to be Denied", "critical pod: true", "critical pod: false",
		"node-0 goes", "may call: true", "other namespace: true", "other namespace: false", "failed: Evicted",
		"failed: Error", "mounts its token: true", "mounts its token: false", "has a rule", "hook-", "workload-",
	} {
		g.Expect(all).To(ContainElement(ContainSubstring(wanted)))
	}
}
