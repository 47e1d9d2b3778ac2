package multicluster_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/fake"
	. "github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

func TestMain(m *testing.M) {
	// This belongs to the logging of client-go and lives as long as the process.
	controlplane.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

var (
	east = clustercache.ClusterKey{Namespace: "garden-east", Name: "east"}
	west = clustercache.ClusterKey{Namespace: "garden-west", Name: "west"}
)

const patience = 2 * time.Minute

// watchName is what the fake knows the watch of Namespaces by.
const watchName = "test Namespace"

// world has two targets and a controller that notes what it is asked for.
type world struct {
	*WithT
	t        *testing.T
	clusters *fake.Cache

	mu        sync.Mutex
	runs      map[Request]int
	forgotten map[clustercache.ClusterKey]int
	do        func(ctx context.Context, target *Target, name types.NamespacedName) (reconcile.Result, error)
}

func newWorld(t *testing.T) *world {
	w := &world{WithT: NewWithT(t), t: t, runs: map[Request]int{}, forgotten: map[clustercache.ClusterKey]int{}}
	w.SetDefaultEventuallyTimeout(patience)
	w.clusters = fake.New(map[clustercache.ClusterKey]client.Client{
		east: fakeclient.NewClientBuilder().Build(), west: fakeclient.NewClientBuilder().Build(),
	})
	return w
}

func (w *world) environment() Environment {
	return Environment{Clusters: w.clusters, Events: events.NewFakeRecorder(100)}
}

// Reconcile implements Reconciler.
func (w *world) Reconcile(ctx context.Context, target *Target, name types.NamespacedName) (reconcile.Result, error) {
	w.mu.Lock()
	w.runs[Request{Cluster: target.Key(), NamespacedName: name}]++
	do := w.do
	w.mu.Unlock()
	if do != nil {
		return do(ctx, target, name)
	}
	return reconcile.Result{}, nil
}

// Forget implements Forgetter.
func (w *world) Forget(key clustercache.ClusterKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgotten[key]++
}

func (w *world) count(key clustercache.ClusterKey, name string) func() int {
	return func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.runs[Request{Cluster: key, NamespacedName: types.NamespacedName{Name: name}}]
	}
}

func (w *world) timesForgotten(key clustercache.ClusterKey) func() int {
	return func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.forgotten[key]
	}
}

// start runs a controller until the test ends, or the returned function is called.
func (w *world) start(build func(*Builder) *Builder) (stop func()) {
	w.t.Helper()
	c, err := build(New("test", w.environment())).Complete(w)
	w.Expect(err).NotTo(HaveOccurred())
	return w.run(c)
}

func (w *world) run(c *Controller) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		w.Eventually(ended).Should(Receive(BeNil()))
	})
	w.t.Cleanup(stop)
	return stop
}

func (w *world) startForNamespaces() (stop func()) {
	stop = w.start(func(b *Builder) *Builder { return b.For(namespaces) })
	w.Eventually(func() int { return len(w.clusters.Watches(east)) + len(w.clusters.Watches(west)) }).Should(Equal(2))
	return stop
}

func (w *world) put(key clustercache.ClusterKey, name string) {
	w.clusters.Put(key, watchName, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func TestRequestsFollowFromChangesInTheirOwnTarget(t *testing.T) {
	w := newWorld(t)
	w.startForNamespaces()
	w.put(east, "one")
	w.Eventually(w.count(east, "one")).Should(Equal(1))
	w.clusters.Delete(east, watchName, types.NamespacedName{Name: "one"})
	w.Eventually(w.count(east, "one")).Should(Equal(2))
	w.Expect(w.count(west, "one")()).To(BeZero())
}

func TestTargetThatIsDownCostsNothingAndGoesOnWhenItIsBack(t *testing.T) {
	w := newWorld(t)
	w.startForNamespaces()
	w.clusters.SetState(east, clustercache.StateDisconnected, clustercache.ReasonProbeFailed, "")
	w.put(east, "one")
	w.put(west, "one")
	w.Eventually(w.count(west, "one")).Should(Equal(1), "another target has nothing to do with it")
	w.Consistently(w.count(east, "one"), "100ms").Should(BeZero())
	w.clusters.SetState(east, clustercache.StateConnected, clustercache.ReasonConnected, "")
	w.Eventually(w.count(east, "one")).Should(Equal(1))
	w.Expect(w.timesForgotten(east)()).To(BeZero())
}

func TestRunThatFindsTheTargetDownIsRepeatedWhenItIsBack(t *testing.T) {
	w := newWorld(t)
	w.do = func(context.Context, *Target, types.NamespacedName) (reconcile.Result, error) {
		if status, _ := w.clusters.GetStatus(east); status.State == clustercache.StateConnected && status.Message == "" {
			w.clusters.SetState(east, clustercache.StateDisconnected, clustercache.ReasonProbeFailed, "was down")
			return reconcile.Result{}, clustercache.ErrClusterNotConnected
		}
		return reconcile.Result{}, nil
	}
	w.startForNamespaces()
	w.put(east, "one")
	w.Eventually(w.count(east, "one")).Should(Equal(1))
	w.clusters.SetState(east, clustercache.StateConnected, clustercache.ReasonConnected, "was down")
	w.Eventually(w.count(east, "one")).Should(Equal(2))
}

func TestTargetThatIsGoneLeavesNoTrace(t *testing.T) {
	for name, leave := range map[string]func(w *world){
		"the registration is gone": func(w *world) { w.clusters.Remove(east) },
		"it drains": func(w *world) {
			w.clusters.SetState(east, clustercache.StateDraining, clustercache.ReasonRegistrationGone, "")
		},
		"it is disabled": func(w *world) {
			status, _ := w.clusters.GetStatus(east)
			status.Labels = map[string]string{"off": "true"}
			w.clusters.SetStatus(status)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.start(func(b *Builder) *Builder {
				return b.For(namespaces).EnabledFor(func(s clustercache.Status) bool { return s.Labels["off"] == "" })
			})
			w.Eventually(func() int { return len(w.clusters.Watches(east)) }).Should(Equal(1))
			w.put(east, "one")
			w.Eventually(w.count(east, "one")).Should(Equal(1))
			leave(w)
			w.Eventually(w.timesForgotten(east)).Should(Equal(1))
			w.Expect(w.clusters.Watches(east)).To(BeEmpty())
			w.Expect(w.clusters.Watches(west)).NotTo(BeEmpty())
		})
	}
}

func TestAnotherClusterBehindTheRegistrationIsAnotherTarget(t *testing.T) {
	w := newWorld(t)
	w.startForNamespaces()
	status, _ := w.clusters.GetStatus(east)
	status.UID = "another"
	w.clusters.SetStatus(status)
	w.clusters.Emit(east, clustercache.EventConnected)
	w.Eventually(w.timesForgotten(east)).Should(Equal(1))
	w.Eventually(func() int { return len(w.clusters.Watches(east)) }).Should(Equal(1), "it is engaged again")
	w.put(east, "one")
	w.Eventually(w.count(east, "one")).Should(Equal(1))
}

func TestRunIsCancelledWhenItsTargetGoes(t *testing.T) {
	w := newWorld(t)
	inside := make(chan struct{})
	w.do = func(ctx context.Context, _ *Target, _ types.NamespacedName) (reconcile.Result, error) {
		close(inside)
		<-ctx.Done()
		w.Expect(w.timesForgotten(east)()).To(BeZero(), "nothing is forgotten while it may be used")
		return reconcile.Result{}, ctx.Err()
	}
	w.startForNamespaces()
	w.put(east, "one")
	w.Eventually(inside).Should(BeClosed())
	w.clusters.Remove(east)
	w.Eventually(w.timesForgotten(east)).Should(Equal(1))
	w.Consistently(w.count(east, "one"), "100ms").Should(Equal(1), "it is not tried again")
}

func TestClientRefusesToWriteToWhatIsNotTheTargetAnyMore(t *testing.T) {
	for name, change := range map[string]func(w *world, status clustercache.Status){
		"the registration is gone": func(w *world, _ clustercache.Status) { w.clusters.Remove(east) },
		"another cluster": func(w *world, s clustercache.Status) {
			s.UID = "another"
			w.clusters.SetStatus(s)
		},
		"another connection": func(w *world, s clustercache.Status) {
			s.Connection++
			w.clusters.SetStatus(s)
		},
		"another registration": func(w *world, s clustercache.Status) {
			s.SecretName = "another"
			w.clusters.SetStatus(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			target, err := w.clusters.GetClient(t.Context(), east)
			w.Expect(err).NotTo(HaveOccurred())
			refused := make(chan []error, 10)
			w.do = func(_ context.Context, target *Target, name types.NamespacedName) (reconcile.Result, error) {
				status, _ := w.clusters.GetStatus(east)
				change(w, status)
				c, ctx := target.Client, context.Background() // that of the run may have ended
				object := func() *corev1.ConfigMap {
					return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name.Name}}
				}
				patch := client.RawPatch(types.MergePatchType, []byte("{}"))
				errs := []error{
					c.Create(ctx, object()), c.Update(ctx, object()), c.Patch(ctx, object(), patch), c.Delete(ctx, object()),
					c.DeleteAllOf(ctx, object(), client.InNamespace("default")), c.Apply(ctx, nil),
					c.Status().Update(ctx, object()), c.Status().Patch(ctx, object(), patch), c.Status().Apply(ctx, nil),
					c.SubResource("token").Create(ctx, object(), object()), target.Valid(),
				}
				refused <- errs
				w.mu.Lock()
				defer w.mu.Unlock()
				w.do = nil
				return reconcile.Result{}, errs[len(errs)-1]
			}
			w.startForNamespaces()
			w.put(east, "one")
			var errs []error
			w.Eventually(refused).Should(Receive(&errs))
			w.Expect(errs).To(HaveEach(MatchError(clustercache.ErrConnectionReplaced)))
			list := &corev1.ConfigMapList{}
			w.Expect(target.List(t.Context(), list)).To(Succeed())
			w.Expect(list.Items).To(BeEmpty())
			now, registered := w.clusters.GetStatus(east)
			if !registered || now.UID == "another" { // it is engaged again, and the test shows nothing of it
				w.Eventually(w.timesForgotten(east)).Should(Equal(1))
				return
			}
			w.Eventually(w.count(east, "one")).Should(BeNumerically(">=", 2), "it is reconciled with what is there now")
		})
	}
}

func TestErrorsAreRepeated(t *testing.T) {
	w := newWorld(t)
	w.do = func(context.Context, *Target, types.NamespacedName) (reconcile.Result, error) {
		return reconcile.Result{}, errors.New("broken")
	}
	w.startForNamespaces()
	w.put(east, "one")
	w.Eventually(w.count(east, "one")).Should(BeNumerically(">=", 3))
}

func TestEverythingIsReconciledAfterATargetWentBackInTime(t *testing.T) {
	w := newWorld(t)
	w.startForNamespaces()
	w.put(east, "one")
	w.put(east, "two")
	w.Eventually(w.count(east, "two")).Should(Equal(1))
	status, _ := w.clusters.GetStatus(east)
	status.Rewinds++
	w.clusters.SetStatus(status)
	w.clusters.Emit(east, clustercache.EventRewound)
	w.Eventually(w.count(east, "one")).Should(Equal(2))
	w.Eventually(w.count(east, "two")).Should(Equal(2))
}

// A rotation is another connection to the same cluster: work continues.
func TestRotationIsNoDeparture(t *testing.T) {
	w := newWorld(t)
	w.startForNamespaces()
	w.put(east, "one")
	w.Eventually(w.count(east, "one")).Should(Equal(1))
	status, _ := w.clusters.GetStatus(east)
	status.Connection++
	w.clusters.SetStatus(status)
	w.clusters.Emit(east, clustercache.EventRotated)
	w.put(east, "two")
	w.Eventually(w.count(east, "two")).Should(Equal(1))
	w.Expect(w.timesForgotten(east)()).To(BeZero())
	w.Expect(w.clusters.Watches(east)).To(HaveLen(1))
}

func TestTargetIsReconciledWhenAWatchCanBeReliedUponOrNot(t *testing.T) {
	w := newWorld(t)
	c, err := New("test", w.environment()).Watches(namespaces, nil).OnSync().Complete(w)
	w.Expect(err).NotTo(HaveOccurred())
	watched := func() any {
		objects, fault := c.Objects(east, namespaces)
		if objects == nil {
			return "nothing"
		}
		_, _, synced := objects.Lookup(types.NamespacedName{})
		return []any{synced, fault}
	}
	w.Expect(watched()).To(Equal("nothing"))
	stop := w.run(c)
	w.Eventually(watched).Should(Equal([]any{false, nil}))

	w.clusters.Sync(east, watchName, true)
	w.Eventually(w.count(east, "")).Should(Equal(1))
	w.Expect(watched()).To(Equal([]any{true, nil}))
	broken := errors.New("forbidden")
	w.clusters.Fail(east, watchName, broken)
	w.Eventually(w.count(east, "")).Should(Equal(2))
	w.Expect(watched()).To(Equal([]any{false, broken}))
	w.clusters.Fail(east, watchName, errors.New("forbidden")) // and again, as it is tried again
	w.clusters.Sync(east, watchName, true)
	w.Eventually(w.count(east, "")).Should(Equal(3))
	w.Expect(watched()).To(Equal([]any{true, nil}))
	w.put(east, "one")
	w.Expect(w.count(east, "one")()).To(BeZero(), "it is only looked up")
	stop()
	w.Expect(watched()).To(Equal("nothing"))
}

func TestControllerIsStuckWhenRunsThatDoNotEndHaveAllItsWorkers(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	w.do = func(context.Context, *Target, types.NamespacedName) (reconcile.Result, error) {
		<-release // whatever becomes of the context
		return reconcile.Result{}, nil
	}
	environment := w.environment()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	environment.Clock = clock
	c, err := New("test", environment).For(namespaces).Workers(2, 1).Timeout(time.Minute).Complete(w)
	w.Expect(err).NotTo(HaveOccurred())
	stop := w.run(c)
	t.Cleanup(end) // before the controller is stopped
	w.Eventually(func() int { return len(w.clusters.Watches(east)) + len(w.clusters.Watches(west)) }).Should(Equal(2))
	stuck := func() bool {
		now := clock.Now()
		since := c.StuckSince(now)
		return !since.IsZero() && since.Before(now)
	}

	w.put(east, "one")
	w.Eventually(w.count(east, "one")).Should(Equal(1))
	clock.SetTime(clock.Now().Add(time.Hour))
	w.Expect(stuck()).To(BeFalse(), "another worker is left")
	w.put(west, "one")
	w.Eventually(w.count(west, "one")).Should(Equal(1))
	w.Expect(stuck()).To(BeFalse(), "the last one has just begun")
	clock.SetTime(clock.Now().Add(time.Hour))
	w.Expect(stuck()).To(BeTrue())
	end()
	w.Eventually(stuck).Should(BeFalse())
	stop()
}

func TestMetricsOfATerm(t *testing.T) {
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	w.Expect(err).NotTo(HaveOccurred())
	environment := w.environment()
	environment.Metrics = metrics
	c, err := New("test", environment).For(namespaces).Complete(w)
	w.Expect(err).NotTo(HaveOccurred())
	stop := w.run(c)
	w.Eventually(func() int { return len(w.clusters.Watches(east)) + len(w.clusters.Watches(west)) }).Should(Equal(2))
	w.put(east, "one")
	series := func(name string) func() []float64 {
		return func() (values []float64) {
			families, err := registry.Gather()
			w.Expect(err).NotTo(HaveOccurred())
			for _, f := range families {
				for _, m := range f.GetMetric() {
					if f.GetName() == name {
						values = append(values, m.GetGauge().GetValue()+m.GetCounter().GetValue())
					}
				}
			}
			return values
		}
	}
	w.Eventually(series("trellis_controller_reconciles_total")).Should(Equal([]float64{1}))
	w.Expect(series("trellis_controller_targets")()).To(Equal([]float64{2}))
	stop()
	w.Expect(series("trellis_controller_targets")()).To(BeEmpty(), "it works in none any more")
}

func TestTimer(t *testing.T) {
	w := newWorld(t)
	w.start(func(b *Builder) *Builder { return b.Every(20 * time.Millisecond) })
	w.Eventually(w.count(east, "")).Should(BeNumerically(">=", 3))
	w.Eventually(w.count(west, "")).Should(BeNumerically(">=", 3))
	w.clusters.Remove(east)
	w.Eventually(w.timesForgotten(east)).Should(Equal(1))
	before := w.count(east, "")()
	w.Consistently(w.count(east, ""), "200ms").Should(Equal(before))
}

func TestRunsOfATargetArePaced(t *testing.T) {
	w := newWorld(t)
	w.start(func(b *Builder) *Builder { return b.For(namespaces).Paced(2, 1) })
	w.Eventually(func() int { return len(w.clusters.Watches(east)) + len(w.clusters.Watches(west)) }).Should(Equal(2))
	began := time.Now()
	for _, name := range []string{"one", "two", "three"} {
		w.put(east, name)
	}
	w.put(west, "one")
	for _, name := range []string{"one", "two", "three"} {
		w.Eventually(w.count(east, name)).Should(BeNumerically(">=", 1))
	}
	w.Expect(time.Since(began)).To(BeNumerically(">=", time.Second), "two of them had to wait for half a second each")
	w.Eventually(w.count(west, "one")).Should(Equal(1))
}

func TestTimersOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	var periods sync.Map // by target
	for _, key := range []clustercache.ClusterKey{east, west} {
		periods.Store(key, time.Hour)
	}
	var changed func(clustercache.ClusterKey)
	following := make(chan struct{})
	w.start(func(b *Builder) *Builder {
		return b.EveryFor(func(status clustercache.Status) time.Duration {
			period, _ := periods.Load(status.Cluster)
			d, _ := period.(time.Duration)
			return d
		}).FollowsSettings(func(_ context.Context, _ *sync.WaitGroup, f func(clustercache.ClusterKey)) error {
			changed = f
			close(following)
			return nil
		})
	})
	w.Eventually(following).Should(BeClosed())

	periods.Store(east, 20*time.Millisecond)
	changed(east)
	w.Eventually(w.count(east, "")).Should(BeNumerically(">=", 3))
	w.Expect(w.count(west, "")()).To(BeNumerically("<=", 1), "its periodic run may come just now")
	w.Expect(w.timesForgotten(west)()).To(BeZero())

	periods.Store(east, time.Duration(0))
	before := w.timesForgotten(east)()
	changed(east)
	w.Eventually(w.timesForgotten(east)).Should(Equal(before+1), "it has no timer any more")
	stopped := w.count(east, "")()
	w.Consistently(w.count(east, ""), "200ms").Should(BeNumerically("<=", stopped+1), "one was due already")
}

func TestWhatIsWatchedFollowsFromSettings(t *testing.T) {
	w := newWorld(t)
	var wanted sync.Map // by target
	pods := &Objects{
		Kind: corev1.SchemeGroupVersion.WithKind("Pod"), MetadataOnly: true,
		When: func(status clustercache.Status) bool {
			_, is := wanted.Load(status.Cluster)
			return is
		},
	}
	var nothing sync.Map // targets whose runs found no subscription
	w.do = func(_ context.Context, target *Target, _ types.NamespacedName) (reconcile.Result, error) {
		if target.Objects(pods) == nil {
			nothing.Store(target.Key(), true)
		}
		return reconcile.Result{}, nil
	}
	var changed func(clustercache.ClusterKey)
	following := make(chan struct{})
	wanted.Store(east, true)
	w.start(func(b *Builder) *Builder {
		return b.For(namespaces).Watches(pods, nil).FollowsSettings(
			func(_ context.Context, _ *sync.WaitGroup, f func(clustercache.ClusterKey)) error {
				changed = f
				close(following)
				return nil
			})
	})
	w.Eventually(following).Should(BeClosed())
	watches := func(key clustercache.ClusterKey) func() int {
		return func() int { return len(w.clusters.Watches(key)) }
	}
	w.Eventually(watches(east)).Should(Equal(2))
	w.Eventually(watches(west)).Should(Equal(1))
	for _, key := range []clustercache.ClusterKey{east, west} {
		w.put(key, "one")
		w.Eventually(w.count(key, "one")).Should(Equal(1))
	}
	found, _ := nothing.Load(west)
	w.Expect(found).To(BeTrue())
	_, missed := nothing.Load(east)
	w.Expect(missed).To(BeFalse())
	status, _ := w.clusters.GetStatus(west)
	status.Rewinds++
	w.clusters.SetStatus(status)
	w.clusters.Emit(west, clustercache.EventRewound)
	w.Eventually(w.count(west, "one")).Should(Equal(2), "what is not watched is left out")

	wanted.Store(west, true)
	wanted.Delete(east)
	changed(west)
	changed(east)
	w.Eventually(watches(west)).Should(Equal(2))
	w.Eventually(watches(east)).Should(Equal(1))
}

func TestChangesAreCountedInTheirOwnTarget(t *testing.T) {
	w := newWorld(t)
	var seen sync.Map // by target
	w.do = func(_ context.Context, target *Target, _ types.NamespacedName) (reconcile.Result, error) {
		seen.Store(target.Key(), target.Changes(namespaces))
		return reconcile.Result{}, nil
	}
	w.start(func(b *Builder) *Builder {
		return b.Watches(namespaces, func(name types.NamespacedName, _, _ any) []types.NamespacedName {
			if name.Name == "irrelevant" {
				return nil
			}
			return []types.NamespacedName{name}
		})
	})
	w.Eventually(func() int { return len(w.clusters.Watches(east)) + len(w.clusters.Watches(west)) }).Should(Equal(2))
	changes := func(key clustercache.ClusterKey) func() any {
		return func() any {
			n, _ := seen.Load(key)
			return n
		}
	}
	w.put(east, "one")
	w.Eventually(changes(east)).Should(BeEquivalentTo(1))
	w.put(east, "irrelevant")
	w.put(east, "two")
	w.Eventually(changes(east)).Should(BeEquivalentTo(2))
	w.put(west, "one")
	w.Eventually(changes(west)).Should(BeEquivalentTo(1))
}

func TestNothingIsLeftOfATerm(t *testing.T) {
	w := newWorld(t)
	stop := w.startForNamespaces()
	w.put(east, "one")
	w.Eventually(w.count(east, "one")).Should(Equal(1))
	stop()
	w.Expect(w.clusters.Watches(east)).To(BeEmpty())
	w.Expect(w.clusters.Watches(west)).To(BeEmpty())
	w.Expect(w.timesForgotten(east)()).To(Equal(1))

	again := newWorld(t)
	again.clusters = w.clusters
	again.startForNamespaces()
	again.put(west, "two")
	again.Eventually(again.count(west, "two")).Should(Equal(1))
}

func TestExample(t *testing.T) {
	w := newWorld(t)
	c, err := newExample(w.environment())
	w.Expect(err).NotTo(HaveOccurred())
	w.run(c)
	w.Eventually(func() int { return len(w.clusters.Watches(east)) + len(w.clusters.Watches(west)) }).Should(Equal(2))
	for _, key := range []clustercache.ClusterKey{east, west} {
		name := slices.Collect(maps.Keys(w.clusters.Watches(key)))[0]
		w.clusters.Sync(key, name, true)
		w.clusters.Put(key, name, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		target, err := w.clusters.GetClient(t.Context(), key)
		w.Expect(err).NotTo(HaveOccurred())
		owner := &corev1.ConfigMap{}
		w.Eventually(func() error {
			return target.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "owner"}, owner)
		}).Should(Succeed())
		w.Expect(owner.Data).To(HaveKeyWithValue("owner", key.Namespace))
	}
}

func TestBuilderRefusesWhatCannotWork(t *testing.T) {
	w := newWorld(t)
	for name, build := range map[string]func() *Builder{
		"nothing to do":         func() *Builder { return New("x", w.environment()) },
		"no workers":            func() *Builder { return New("x", w.environment()).For(namespaces).Workers(0, 1) },
		"no time":               func() *Builder { return New("x", w.environment()).For(namespaces).Timeout(0) },
		"no environment":        func() *Builder { return New("x", Environment{}).For(namespaces) },
		"no informers":          func() *Builder { return New("x", w.environment()).WatchesSource(nil, nil, nil) },
		"time that is negative": func() *Builder { return New("x", w.environment()).Every(-time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build().Complete(w)
			NewWithT(t).Expect(err).To(HaveOccurred())
		})
	}
}
