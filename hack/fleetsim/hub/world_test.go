package hub_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/fleetsim/player"
	"github.com/trellis-hub/trellis/hack/shoot20"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// byHub reports whether the hub made a change, by its user agent.
var byHub = journal.ByUserAgent("trellis")

// world is a fleet, and what the source has for it.
type world struct {
	*WithT
	t       *testing.T
	ctx     context.Context
	fleet   *fleetsim.Fleet
	journal *journal.Journal
	fixture *shoot20.Fixture
	base    int // objects in a target before the hub comes
}

// newWorld starts a fleet that ends with the test. The prefix of its names keeps it apart from others at the same
// source.
func newWorld(t *testing.T, prefix string, targets int) *world {
	t.Helper()
	w := &world{WithT: NewWithT(t), t: t, ctx: t.Context(), fixture: shoot20.New(shoot20.Options{}), journal: journal.New(journal.Options{History: 4096, Owner: byHub})}
	var err error
	// With the same seed, its targets would be the very clusters of another test, whose ManagedResources the source still
	// has.
	seed := fnv.New32()
	_, _ = seed.Write([]byte(prefix))
	w.fleet, err = fleetsim.Start(w.ctx, fleetsim.Options{Targets: targets, Prefix: prefix, Seed: int64(seed.Sum32()), Journal: w.journal})
	w.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(w.fleet.Stop)
	w.base = w.fleet.Targets()[0].Server().Count()
	return w
}

// namespace is where the registration of a target is, and what is for it.
func namespace(target *fleetsim.Target) string { return "fleet--" + target.Name() }

// eachTarget does something for all targets, some at a time.
func (w *world) eachTarget(do func(ctx context.Context, target *fleetsim.Target) error) {
	w.t.Helper()
	group, ctx := errgroup.WithContext(w.ctx)
	group.SetLimit(16)
	for _, target := range w.fleet.Targets() {
		group.Go(func() error {
			if err := do(ctx, target); err != nil {
				return fmt.Errorf("%s: %w", target.Name(), err)
			}
			return nil
		})
	}
	w.Expect(group.Wait()).To(Succeed())
}

// install registers the targets, and gives them the fixture.
func (w *world) install() {
	w.t.Helper()
	w.eachTarget(func(ctx context.Context, target *fleetsim.Target) error {
		ns := namespace(target)
		objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, target.Registration(ns)}
		for _, object := range append(objects, w.fixture.Source(ns, target.Name())...) {
			if err := source.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
			}
		}
		return nil
	})
}

// change changes one object in all targets at the source, and returns when it was sent.
func (w *world) change(value string) time.Time {
	w.t.Helper()
	sent := time.Now()
	w.eachTarget(func(ctx context.Context, target *fleetsim.Target) error {
		return source.Client.Update(ctx, w.fixture.Change(namespace(target), target.Name(), value, sent))
	})
	return sent
}

// notes are what the hub wrote down of the ManagedResources that change changes, by namespace: what is applied
// completely.
func (w *world) notes() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, mr := range w.managedResources() {
		if mr.Name == shoot20.Changing {
			out[mr.Namespace] = mr.Annotations[hubv1alpha1.AppliedAnnotation]
		}
	}
	return out
}

// eventuallyNoted waits until the hub has noted the latest change, given the notes before it. It does so a moment
// later.
func (w *world) eventuallyNoted(before map[string]string) {
	w.t.Helper()
	w.Eventually(func() bool {
		for ns, note := range w.notes() {
			if note == before[ns] {
				return false
			}
		}
		return true
	}).Should(BeTrue())
}

// eventuallyEverywhere waits until all targets have a change.
func (w *world) eventuallyEverywhere(sent time.Time) journal.Reach {
	w.t.Helper()
	w.Eventually(func() []string { return w.journal.Reached(sent).Missing }).Should(BeEmpty())
	return w.journal.Reached(sent)
}

// managedResources of all targets.
func (w *world) managedResources() []resourcesv1alpha1.ManagedResource {
	w.t.Helper()
	list := &resourcesv1alpha1.ManagedResourceList{}
	w.Expect(source.Client.List(w.ctx, list)).To(Succeed())
	return slices.DeleteFunc(list.Items, func(mr resourcesv1alpha1.ManagedResource) bool { return !w.has(mr.Namespace) })
}

// has reports whether a namespace is that of one of the targets. What other tests left in the source is
// none of this one's business.
func (w *world) has(ns string) bool {
	return slices.ContainsFunc(w.fleet.Targets(), func(target *fleetsim.Target) bool { return namespace(target) == ns })
}

// without returns the ManagedResources that do not have a condition with this status, or not for their latest
// generation, and are noted, and says why.
func (w *world) without(condition resourcesv1alpha1.ConditionType, status resourcesv1alpha1.ConditionStatus) []string {
	w.t.Helper()
	var out []string
	for _, mr := range w.managedResources() {
		c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, condition)
		switch {
		case c == nil:
			out = append(out, fmt.Sprintf("%s/%s has no condition %s", mr.Namespace, mr.Name, condition))
		case c.Status != status:
			out = append(out, fmt.Sprintf("%s/%s: %s is %s: %s", mr.Namespace, mr.Name, condition, c.Status, c.Message))
		case mr.Status.ObservedGeneration != mr.Generation:
			out = append(out, fmt.Sprintf("%s/%s: an older generation is observed", mr.Namespace, mr.Name))
		case mr.Annotations[hubv1alpha1.AppliedAnnotation] == "":
			out = append(out, fmt.Sprintf("%s/%s is not noted", mr.Namespace, mr.Name))
		}
	}
	return out[:min(len(out), 5)]
}

// eventually waits until all ManagedResources have a condition with this status.
func (w *world) eventually(condition resourcesv1alpha1.ConditionType, status resourcesv1alpha1.ConditionStatus) {
	w.t.Helper()
	w.Eventually(func() []string { return w.without(condition, status) }).WithPolling(time.Second).Should(BeEmpty())
}

// connect returns a client of the target's administrator, with its own name.
func connect(target *fleetsim.Target, userAgent string) (client.Client, func(), error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(target.Kubeconfig())
	if err != nil {
		return nil, nil, err
	}
	config.QPS, config.UserAgent, config.Timeout = -1, userAgent, time.Minute
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(config, client.Options{Scheme: testbed.Scheme(), HTTPClient: http})
	return c, http.CloseIdleConnections, err
}

// rollOut plays the controllers and kubelets of a target, once.
func rollOut(ctx context.Context, target *fleetsim.Target) error {
	c, done, err := connect(target, "player")
	if err != nil {
		return err
	}
	defer done()
	return player.RollOut(ctx, c)
}

// nothingWrong has the journal judge all that the hub wrote since a time.
func (w *world) nothingWrong(since time.Time) {
	w.t.Helper()
	w.Expect(journal.Repeated(byHub, journal.Since(since, w.journal.Histories()...)...).Err()).To(Succeed())
	w.nothingWorse(since)
}

// nothingWorse is nothingWrong without writes that wrote what was there already.
func (w *world) nothingWorse(since time.Time) {
	w.t.Helper()
	histories := journal.Since(since, w.journal.Histories()...)
	for _, verdict := range []journal.Verdict{
		journal.Flapping(time.Hour, byHub, histories...),
		journal.CreatedTwice(byHub, nil, histories...),
		journal.WrongDeletes(byHub, journal.Deletes{Allowed: w.ours()}, histories...),
	} {
		w.Expect(verdict.Err()).To(Succeed())
	}
}

// ours returns a function that reports whether a change is one to an object of the fixture.
func (w *world) ours() func(target string, c journal.Change) bool {
	names := map[string]bool{}
	for _, object := range w.fixture.Objects("") {
		names[object.GetNamespace()+"/"+object.GetName()] = true
	}
	return func(_ string, c journal.Change) bool { return names[c.Namespace+"/"+c.Name] }
}

// corrections returns what became of the edits of foreigners since a time, in some targets or, if none is
// given, in all.
func (w *world) corrections(since time.Time, targets ...*fleetsim.Target) journal.Corrections {
	if len(targets) == 0 {
		targets = w.fleet.Targets()
	}
	journals := make([]*journal.Target, 0, len(targets))
	for _, target := range targets {
		journals = append(journals, target.Journal())
	}
	return journal.CorrectionsIn(journals, since, time.Now(), journal.ByUserAgent(foreigner), byHub)
}

// writesOfHub are its requests to the targets that would have changed something, since the last reset of the journal.
func (w *world) writesOfHub() journal.Counts {
	return w.journal.Counts().Writes().Where(func(c journal.Count) bool { return byHub(journal.Change{UserAgent: c.UserAgent}) })
}

// requestsOfHub are how many of those there were, by verb.
func (w *world) requestsOfHub() map[string]int64 {
	requests := map[string]int64{}
	for _, count := range w.writesOfHub() {
		requests[count.Verb] += count.Requests
	}
	return requests
}

// eventuallyWritten waits until those are so many. They are counted when they are answered, a moment after others see
// the change.
func (w *world) eventuallyWritten(requests map[string]int64) {
	w.t.Helper()
	w.Eventually(w.requestsOfHub).Should(Equal(requests), func() string { return fmt.Sprintf("%+v", w.writesOfHub()) })
}

// eventuallyWritesNothing waits until the hub has not written for some seconds.
func (w *world) eventuallyWritesNothing() {
	w.t.Helper()
	before, still := w.requestsOfHub(), time.Now()
	w.Eventually(func() time.Duration {
		if now := w.requestsOfHub(); !maps.Equal(now, before) {
			before, still = now, time.Now()
		}
		return time.Since(still)
	}).WithPolling(time.Second).Should(BeNumerically(">", 5*time.Second))
}

// watchesOfHub are the resources that the hub watches in a target, since the last reset of the journal.
func (w *world) watchesOfHub(target *fleetsim.Target) []string {
	out := []string{}
	for _, count := range target.Journal().Counts().Verbs("watch") {
		if byHub(journal.Change{UserAgent: count.UserAgent}) && count.Code == 200 {
			out = append(out, count.Resource)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
