package stalepods

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
)

func TestSTALE1_OnlyConfiguredNamespacesAreLookedAt(t *testing.T) {
	b := newBench(t)
	elsewhere := b.ended(shared.A, metav1.NamespaceDefault, "evicted", corev1.PodFailed, "Evicted")
	other := b.ended(shared.B, b.namespace, "evicted", corev1.PodFailed, "Evicted")
	here := b.ended(shared.A, b.namespace, "evicted", corev1.PodFailed, "Evicted")
	b.start(shared.A, Settings{}, Options{})
	b.gone(shared.A, here)
	b.passes(shared.A, b.namespace)
	b.stays(shared.A, elsewhere)
	b.stays(shared.B, other) // it is switched off there
}

func TestSTALE_PodsThatHaveFailed(t *testing.T) {
	b := newBench(t)
	tests := []struct {
		statement, name string
		phase           corev1.PodPhase
		reason          string
		stale           bool
	}{
		{"STALE-2 evicted", "evicted", corev1.PodFailed, "Evicted", true},
		{"STALE-3 out of CPU", "out-of-cpu", corev1.PodFailed, "OutOfcpu", true},
		{"STALE-3 out of pods", "out-of-pods", corev1.PodFailed, "OutOfpods", true},
		{"STALE-4 node affinity", "node-affinity", corev1.PodFailed, "NodeAffinity", true},
		{"STALE-5 another reason", "shutdown", corev1.PodFailed, "Terminated", false},
		{"STALE-5 no reason", "failed", corev1.PodFailed, "", false},
		{"STALE-5 a reason that contains one", "not-evicted", corev1.PodFailed, "NotEvicted", false},
		{"STALE-5 not failed", "running", corev1.PodRunning, "Evicted", false},
		{"STALE-5 succeeded", "succeeded", corev1.PodSucceeded, "Evicted", false},
	}
	pods := map[string]*corev1.Pod{}
	for _, test := range tests {
		pods[test.name] = b.ended(shared.A, b.namespace, test.name, test.phase, test.reason)
	}
	b.start(shared.A, Settings{}, Options{})
	b.passes(shared.A, b.namespace)
	for _, test := range tests {
		t.Run(test.statement, func(t *testing.T) {
			b := &bench{WithT: NewWithT(t), t: t}
			if test.stale {
				b.gone(shared.A, pods[test.name])
			} else {
				b.stays(shared.A, pods[test.name])
			}
		})
	}
}

func TestSTALE6_PodsThatAreStuckAreRemoved(t *testing.T) {
	b := newBench(t)
	pod := b.terminating(shared.A, b.namespace, "stuck")
	b.start(shared.A, Settings{}, later(10*time.Minute))
	b.gone(shared.A, pod)
}

func TestSTALE6_PodsThatEndStay(t *testing.T) {
	b := newBench(t)
	ending, running := b.terminating(shared.A, b.namespace, "ending"), b.pod(shared.A, b.namespace, "running")
	b.start(shared.A, Settings{}, later(4*time.Minute))
	b.passes(shared.A, b.namespace)
	b.stays(shared.A, ending, running)
	b.Expect(deletions(shared.A)).To(BeEmpty())
}

// A pod is replaced, or changes, between its list and its deletion.
func TestSTALE7_ADeletionIsOfWhatWasListed(t *testing.T) {
	for _, test := range []struct {
		name   string
		meddle func(b *bench, pod *corev1.Pod)
	}{
		{"STALE-7 another pod of the name", func(b *bench, pod *corev1.Pod) {
			shared.A.Delete(b.t, pod)
			b.pod(shared.A, pod.Namespace, pod.Name)
		}},
		{"STALE-7 a change", func(b *bench, pod *corev1.Pod) {
			pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "SomethingElse"}
			b.Expect(shared.A.Client.Status().Update(b.t.Context(), pod)).To(Succeed())
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			pod := b.ended(shared.A, b.namespace, "pod", corev1.PodFailed, "Evicted")
			meddled := false
			shared.Intercept(t, func(key clustercache.ClusterKey, r *http.Request) *http.Response {
				if key == shared.A.Key && r.Method == http.MethodDelete && !meddled {
					meddled = true
					test.meddle(b, pod)
				}
				return nil
			})
			b.start(shared.A, Settings{}, Options{})
			b.Eventually(func() []string { return deletions(shared.A) }).Should(ContainElement("pod"))
			b.passes(shared.A, b.namespace)
			now := &corev1.Pod{}
			b.Expect(shared.A.Client.Get(t.Context(), types.NamespacedName{Namespace: b.namespace, Name: "pod"}, now)).
				To(Succeed())
			b.Expect(now.DeletionTimestamp).To(BeNil())
		})
	}
}

func TestSTALE8_OnePodThatCannotBeDeletedDoesNotStopTheOthers(t *testing.T) {
	b := newBench(t)
	shared.Intercept(t, func(key clustercache.ClusterKey, r *http.Request) *http.Response {
		if key == shared.A.Key && r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/first") {
			return answer(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		return nil
	})
	first := b.ended(shared.A, b.namespace, "first", corev1.PodFailed, "Evicted")
	second := b.ended(shared.A, b.namespace, "second", corev1.PodFailed, "Evicted")
	third := b.terminating(shared.A, b.namespace, "third")
	b.start(shared.A, Settings{}, later(10*time.Minute))
	b.gone(shared.A, second, third)
	b.stays(shared.A, first)
}

func TestSTALE9_APassTriesABoundedNumberAndTheNextGoesOn(t *testing.T) {
	b := newBench(t)
	// The first ones, as many as a pass may try, cannot be deleted.
	shared.Intercept(t, func(key clustercache.ClusterKey, r *http.Request) *http.Response {
		if key == shared.A.Key && r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/pods/a-") {
			return answer(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		return nil
	})
	var held, free []*corev1.Pod
	for i := range 3 {
		held = append(held, b.ended(shared.A, b.namespace, fmt.Sprintf("a-%d", i), corev1.PodFailed, "Evicted"))
	}
	for i := range 4 {
		free = append(free, b.ended(shared.A, b.namespace, fmt.Sprintf("b-%d", i), corev1.PodFailed, "Evicted"))
	}
	free = append(free, b.terminating(shared.A, b.namespace, "c"))
	options := later(10 * time.Minute)
	options.maxDeletes, options.pageSize = 3, 2
	b.start(shared.A, Settings{}, options)
	b.gone(shared.A, free...)
	b.stays(shared.A, held...)
}

func TestSTALE10_TheHomeNamespace(t *testing.T) {
	home, other := shared.B.Key.Namespace, shared.A.Key.Namespace // both are namespaces of the source
	for _, test := range []struct {
		name string
		on   bool
	}{{"STALE-10 is left alone", false}, {"STALE-10 is looked at if that is switched on", true}} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			inHome := b.ended(shared.A, home, "evicted", corev1.PodFailed, "Evicted")
			stuck := b.terminating(shared.A, home, "stuck")
			foreign := b.ended(shared.A, other, "evicted", corev1.PodFailed, "Evicted")
			inTarget := b.ended(shared.B, b.namespace, "evicted", corev1.PodFailed, "Evicted")
			b.start(shared.B, Settings{HomeNamespace: test.on}, later(10*time.Minute))
			b.gone(shared.B, inTarget)
			if test.on {
				b.gone(shared.A, inHome, stuck)
			}
			b.passes(shared.B, b.namespace)
			b.passes(shared.B, b.namespace)
			if !test.on {
				b.stays(shared.A, inHome, stuck)
			}
			b.stays(shared.A, foreign)
		})
	}
}

func TestSTALE11_PodsThatWaitForFinalizersAreNotDeletedAgain(t *testing.T) {
	b := newBench(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "held", Finalizers: []string{"example.org/held"}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "example.org/c"}}},
	}
	shared.A.Create(t, pod)
	t.Cleanup(func() {
		release := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		b.Expect(shared.A.Client.Patch(context.Background(), pod, release)).To(Succeed())
	})
	shared.A.Delete(t, pod) // at once
	b.start(shared.A, Settings{}, later(10*time.Minute))
	b.passes(shared.A, b.namespace)
	b.Expect(deletions(shared.A)).To(BeEmpty())
	b.stays(shared.A, pod)
}

func TestSTALE12_DeletionsAreCounted(t *testing.T) {
	b := newBench(t)
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	b.Expect(err).NotTo(HaveOccurred())
	options := later(10 * time.Minute)
	options.Metrics = metrics
	b.ended(shared.B, b.namespace, "one", corev1.PodFailed, "Evicted")
	b.ended(shared.B, b.namespace, "two", corev1.PodFailed, "OutOfmemory")
	b.terminating(shared.B, b.namespace, "three")
	b.ended(shared.A, shared.B.Key.Namespace, "four", corev1.PodFailed, "NodeAffinity")
	b.start(shared.B, Settings{HomeNamespace: true}, options)
	want := `
# HELP trellis_controller_stale_pods_deleted_total Stale pods that were deleted, by the cluster they were in and by reason.
# TYPE trellis_controller_stale_pods_deleted_total counter
trellis_controller_stale_pods_deleted_total{cluster="source",reason="Evicted"} 0
trellis_controller_stale_pods_deleted_total{cluster="source",reason="NodeAffinity"} 1
trellis_controller_stale_pods_deleted_total{cluster="source",reason="OutOf"} 0
trellis_controller_stale_pods_deleted_total{cluster="source",reason="Terminating"} 0
trellis_controller_stale_pods_deleted_total{cluster="target",reason="Evicted"} 1
trellis_controller_stale_pods_deleted_total{cluster="target",reason="NodeAffinity"} 0
trellis_controller_stale_pods_deleted_total{cluster="target",reason="OutOf"} 1
trellis_controller_stale_pods_deleted_total{cluster="target",reason="Terminating"} 1
`
	b.Eventually(func() error { return testutil.GatherAndCompare(registry, strings.NewReader(want)) }).Should(Succeed())
}

func TestSTALE13_MissingRightsAreReportedOnce(t *testing.T) {
	b := newBench(t)
	user := "lists-pods-" + rand.String(5) // the test may run several times
	kubeconfig, err := shared.B.Restricted(t.Context(), user,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}})
	b.Expect(err).NotTo(HaveOccurred())
	key := clustercache.ClusterKey{Namespace: "shoot-" + user, Name: user}
	b.Expect(shared.Register(t.Context(), key, kubeconfig)).To(Succeed())
	pod := b.ended(shared.B, b.namespace, "evicted", corev1.PodFailed, "Evicted")
	restricted := &twins.Target{ControlPlane: shared.B.ControlPlane, Client: shared.B.Client, Key: key}
	b.start(restricted, Settings{}, Options{})
	b.Eventually(b.events.Events).Should(Receive(And(
		HavePrefix("Warning StalePodsFailed "), ContainSubstring("deleting Pod "+b.namespace+"/evicted"))))
	b.Eventually(func() int { return len(deletions(restricted)) }).Should(BeNumerically(">=", 3))
	b.Expect(b.events.Events).To(BeEmpty())
	b.stays(shared.B, pod)
}

func TestSTALE14_ListsArePagedAndBounded(t *testing.T) {
	b := newBench(t)
	var pods []*corev1.Pod
	for i := range 5 {
		pods = append(pods, b.ended(shared.A, b.namespace, fmt.Sprintf("p-%d", i), corev1.PodFailed, "Evicted"))
	}
	b.pod(shared.A, b.namespace, "running")
	b.start(shared.A, Settings{}, Options{pageSize: 2})
	b.gone(shared.A, pods...)
	lists := shared.Calls(shared.A.Key, func(c twins.Call) bool { return isList(c, b.namespace) })
	b.Expect(lists).To(HaveEach(HaveField("Query", ContainSubstring("limit=2"))))
	b.Expect(lists).To(ContainElement(HaveField("Query", ContainSubstring("continue="))))
	b.Expect(lists).To(HaveEach(HaveField("Query", Not(ContainSubstring("watch=")))))
}

func TestSTALE14_TooManyPodsAreReported(t *testing.T) {
	b := newBench(t)
	for i := range 5 {
		b.pod(shared.A, b.namespace, fmt.Sprintf("p-%d", i))
	}
	b.start(shared.A, Settings{}, Options{pageSize: 2, maxPods: 3})
	b.Eventually(b.events.Events).Should(Receive(ContainSubstring("too many pods to look at")))
}

func TestSTALE10_TheSourceAsATargetHasNoHomeNamespace(t *testing.T) {
	g := NewWithT(t)
	target := clustercache.ClusterKey{Namespace: "shoot", Name: "a"}
	g.Expect(Settings{HomeNamespace: true}.home(clustercache.ClusterKey{Name: "source"})).To(BeEmpty())
	g.Expect(Settings{HomeNamespace: true}.home(target)).To(Equal("shoot"))
	g.Expect(Settings{}.home(target)).To(BeEmpty())
}

func TestSTALE9_TheOrderOfAPass(t *testing.T) {
	g := NewWithT(t)
	g.Expect(place{"a", false, "z"}.order(place{"a", true, "a"})).To(BeNumerically("<", 0))
	g.Expect(place{"a", true, "z"}.order(place{"b", false, "a"})).To(BeNumerically("<", 0))
	g.Expect(place{"a", true, "a"}.order(place{"a", true, "a"})).To(BeZero())
}

func TestRequiredOptions(t *testing.T) {
	_, err := New(Options{})
	NewWithT(t).Expect(err).To(MatchError("controller stale-pods: a required option is missing"))
}
