package criticalcomponents

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/controllers/internal/nodemarks"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
)

func TestNODE1_OnlyNodesWithTheTaintAreLookedAt(t *testing.T) {
	name := types.NamespacedName{Name: "n"}
	tests := map[string]struct {
		old, value any
		looked     bool
	}{
		"created with it":    {nil, nodemarks.Marks{Waits: true}, true},
		"created without it": {nil, nodemarks.Marks{}, false},
		"updated with it":    {nodemarks.Marks{Waits: true}, nodemarks.Marks{Waits: true}, true},
		"gets it":            {nodemarks.Marks{}, nodemarks.Marks{Waits: true}, true},
		"lost it":            {nodemarks.Marks{Waits: true}, nodemarks.Marks{}, false},
		"deleted":            {nodemarks.Marks{Waits: true}, nil, false},
		"no Node":            {nil, "something else", false},
	}
	for title, test := range tests {
		t.Run("NODE-1 "+title, func(t *testing.T) {
			var want []types.NamespacedName
			if test.looked {
				want = []types.NamespacedName{name}
			}
			NewWithT(t).Expect(waiting(name, test.old, test.value)).To(Equal(want))
		})
	}
}

func TestNODE2_WithoutCriticalComponentsTheTaintIsRemoved(t *testing.T) {
	b := start(t)
	b.node(shared.A, "bare")
	b.becomesReady(shared.A, "bare")

	t.Log("components that are not critical")
	d := newDaemonSet("usual")
	d.Labels, d.Spec.Template.Labels = nil, map[string]string{"app": "usual"}
	shared.A.Create(t, d)
	p := newPod("usual", "usual")
	p.Labels = nil
	shared.A.Create(t, p)
	b.node(shared.A, "usual")
	b.becomesReady(shared.A, "usual")
}

func TestNODE3_PodOfACriticalDaemonSetIsAwaited(t *testing.T) {
	b := start(t)
	d := newDaemonSet("network")
	shared.A.Create(t, d)
	node := b.node(shared.A, "n")
	b.waits(shared.A, node, reasonUnscheduled, "network")

	p := of(d, newPod("network-1", "n"))
	shared.A.Create(t, p)
	b.waits(shared.A, node, reasonUnready, "network-1")

	b.ready(shared.A, p)
	b.becomesReady(shared.A, "n")
}

func TestNODE4_DaemonSetsWhoseTemplateHasNoLabelAreIgnored(t *testing.T) {
	b := start(t)
	template, value := newDaemonSet("template"), newDaemonSet("value")
	delete(template.Spec.Template.Labels, criticalLabel)
	value.Spec.Template.Labels[criticalLabel] = "false"
	shared.A.Create(t, template)
	shared.A.Create(t, value)
	b.node(shared.A, "n")
	b.becomesReady(shared.A, "n")
}

func TestNODE5_DaemonSetsForOtherNodesAreIgnored(t *testing.T) {
	b := start(t)
	d := newDaemonSet("elsewhere")
	d.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "b"}
	shared.A.Create(t, d)
	b.node(shared.A, "n")
	b.becomesReady(shared.A, "n")
}

func TestNODE6_OnlyTheMissingDaemonSetIsNamed(t *testing.T) {
	b := start(t)
	there, missing := newDaemonSet("a-there"), newDaemonSet("b-missing")
	shared.A.Create(t, there)
	shared.A.Create(t, missing)
	p := of(there, newPod("there", "n"))
	shared.A.Create(t, p)
	b.ready(shared.A, p)
	node := b.node(shared.A, "n")
	b.waits(shared.A, node, reasonUnscheduled, "b-missing")

	t.Log("a pod of another owner is none of the DaemonSet")
	other := newPod("other", "n")
	shared.A.Create(t, other)
	b.ready(shared.A, other)
	b.looks(shared.A, "n")
	b.waits(shared.A, node, reasonUnscheduled, "b-missing")
}

func TestNODE7_PodsOfTheirOwnAreAwaited(t *testing.T) {
	b := start(t)
	p := newPod("static", "n")
	shared.A.Create(t, p)
	elsewhere := newPod("elsewhere", "other")
	shared.A.Create(t, elsewhere)
	node := b.node(shared.A, "n")
	b.waits(shared.A, node, reasonUnready, "static")
	b.ready(shared.A, p)
	b.becomesReady(shared.A, "n")
}

// Pods that will never be ready again do not count.
func TestNODE7_FinishedPodsDoNotCount(t *testing.T) {
	b := start(t)
	for name, phase := range map[string]corev1.PodPhase{"evicted": corev1.PodFailed, "done": corev1.PodSucceeded} {
		p := needing(newPod(name, "n"), "gone.example.org")
		shared.A.Create(t, p)
		b.becomes(shared.A, p, phase, corev1.ConditionFalse)
	}
	deleted := newPod("deleted", "n")
	deleted.Finalizers = []string{"example.org/test"}
	shared.A.Create(t, deleted)
	shared.A.Delete(t, deleted)
	t.Cleanup(func() {
		deleted.Finalizers = nil
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		NewWithT(t).Expect(shared.A.Client.Patch(context.Background(), deleted, patch)).To(Succeed())
	})
	b.node(shared.A, "n")
	b.becomesReady(shared.A, "n")
}

// A DaemonSet whose only pod is over has none: its controller makes another one.
func TestNODE3_FinishedPodIsNoneOfItsDaemonSet(t *testing.T) {
	b := start(t)
	d := newDaemonSet("network")
	shared.A.Create(t, d)
	p := of(d, newPod("network-1", "n"))
	shared.A.Create(t, p)
	b.becomes(shared.A, p, corev1.PodFailed, corev1.ConditionFalse)
	b.waits(shared.A, b.node(shared.A, "n"), reasonUnscheduled, "network")
}

func TestNODE8_DriversAreThoseOfAnnotations(t *testing.T) {
	pods := []pod{
		podOf(needing(newPod("a", "n"), "disk.example.org")), podOf(needing(newPod("b", "n"), "disk.example.org")),
		podOf(newPod("c", "n")),
	}
	NewWithT(t).Expect(requiredDrivers(pods)).To(And(HaveLen(1), HaveKey("disk.example.org")))
	NewWithT(t).Expect(requiredDrivers([]pod{podOf(needing(newPod("d", "n")))})).To(BeEmpty())
}

func TestNODE9_DriversAreAwaited(t *testing.T) {
	b := start(t)
	p := needing(newPod("driver", "n"), "file.example.org", "disk.example.org")
	shared.A.Create(t, p)
	b.ready(shared.A, p)
	node := b.node(shared.A, "n")
	b.waits(shared.A, node, reasonDrivers, "disk.example.org, file.example.org")

	driver := func(name string) storagev1.CSINodeDriver { return storagev1.CSINodeDriver{Name: name, NodeID: "n"} }
	csiNode := &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver("file.example.org")}},
	}
	shared.A.Create(t, csiNode)
	b.waits(shared.A, node, reasonDrivers, "disk.example.org")

	csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, driver("disk.example.org"))
	b.Expect(shared.A.Client.Update(t.Context(), csiNode)).To(Succeed())
	b.becomesReady(shared.A, "n")
}

func TestNODE10_WithoutDriversNoCSINodeIsRead(t *testing.T) {
	b := start(t)
	p := needing(newPod("none", "n"))
	shared.A.Create(t, p)
	b.node(shared.A, "n")
	b.looks(shared.A, "n")
	b.ready(shared.A, p)
	b.becomesReady(shared.A, "n")
	b.Expect(shared.Calls(shared.A.Key, func(c twins.Call) bool {
		return strings.Contains(c.Path, "csinodes")
	})).To(BeEmpty())
}

func TestNODE11_OtherTaintsStay(t *testing.T) {
	b := start(t)
	other := func(key string) corev1.Taint { return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule} }
	again := taint
	again.Effect, again.Value = corev1.TaintEffectNoExecute, "any"
	b.node(shared.A, "n", other("z"), again, other("a"))
	b.becomesReady(shared.A, "n")
	b.Expect(b.taints(shared.A, "n")()).To(Equal([]string{"z", "a"}))
}

// patchesOf are the patches of a Node.
func patchesOf(in *twins.Target, node string) []twins.Call {
	return shared.Calls(in.Key, func(c twins.Call) bool {
		return c.Method == http.MethodPatch && c.Path == "/api/v1/nodes/"+node
	})
}

func TestNODE12_PatchIsOfTheVersionThatWasRead(t *testing.T) {
	b := start(t)
	node := b.node(shared.A, "n")
	b.becomesReady(shared.A, "n")
	patches := patchesOf(shared.A, "n")
	b.Expect(patches).To(HaveLen(1))
	b.Expect(patches[0].Body).To(MatchJSON(
		`{"metadata":{"resourceVersion":"` + node.ResourceVersion + `"},"spec":{"taints":null}}`))

	t.Log("also if nothing changes")
	b.Expect(shared.A.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node)).To(Succeed())
	c, err := shared.Clusters.GetUncachedClient(t.Context(), shared.A.Key)
	b.Expect(err).NotTo(HaveOccurred())
	version := node.ResourceVersion
	b.Expect(removeTaint(t.Context(), c, node)).To(Succeed())
	b.Expect(patchesOf(shared.A, "n")[1].Body).To(MatchJSON(`{"metadata":{"resourceVersion":"` + version + `"}}`))
}

func TestNODE13_ConflictIsTriedAgain(t *testing.T) {
	b := newBench(t)
	b.node(shared.A, "n")
	var meanwhile atomic.Int64
	shared.Intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
		if r.Method == http.MethodPatch && r.URL.Path == "/api/v1/nodes/n" && meanwhile.Add(1) == 1 {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"meanwhile"}}}`))
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			if err := shared.A.Client.Patch(context.Background(), node, patch); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	b.start(shared.A.Key)
	b.becomesReady(shared.A, "n")
	b.Expect(meanwhile.Load()).To(BeNumerically(">=", 2))
	node := &corev1.Node{}
	b.Expect(shared.A.Client.Get(t.Context(), client.ObjectKey{Name: "n"}, node)).To(Succeed())
	b.Expect(node.Labels).To(HaveKeyWithValue("changed", "meanwhile"))
}

func TestNODE14_NodeIsLookedAtAgainAfterTheBackoff(t *testing.T) {
	b := newBench(t)
	shared.A.Create(t, newDaemonSet("network"))
	b.node(shared.A, "n")
	look := func(settings Settings) (reconcile.Result, error) {
		r := newReconciler(Options{Settings: func(clustercache.Status) (Settings, bool) { return settings, true }})
		target := &multicluster.Target{Client: shared.A.Client}
		return r.Reconcile(t.Context(), target, types.NamespacedName{Name: "n"})
	}
	b.Expect(look(Settings{Backoff: 42})).To(Equal(reconcile.Result{RequeueAfter: 42}))
	b.Expect(look(Settings{})).To(Equal(reconcile.Result{RequeueAfter: defaultBackoff}))
}

// Another backoff counts at once, even if the one before is long.
func TestNODE14_AnotherBackoffIsFollowed(t *testing.T) {
	b := newBench(t)
	d := newDaemonSet("network")
	shared.A.Create(t, d)
	var backoff atomic.Int64
	backoff.Store(int64(time.Hour))
	follows := make(chan func(clustercache.ClusterKey), 1)
	b.startWith(Options{
		Settings: func(status clustercache.Status) (Settings, bool) {
			return Settings{Backoff: time.Duration(backoff.Load())}, status.Cluster == shared.A.Key
		},
		Follow: func(_ context.Context, _ *sync.WaitGroup, changed func(clustercache.ClusterKey)) error {
			follows <- changed
			return nil
		},
	})
	node := b.node(shared.A, "n")
	b.waits(shared.A, node, reasonUnscheduled, "network")
	shared.A.Delete(t, d)
	backoff.Store(int64(settings.Backoff))
	var changed func(clustercache.ClusterKey)
	b.Eventually(follows).Should(Receive(&changed))
	changed(shared.A.Key)
	b.becomesReady(shared.A, "n")
}

func TestNODE15_EventsSayWhatIsAwaited(t *testing.T) {
	b := start(t)
	d := newDaemonSet("driver")
	shared.A.Create(t, d)
	node := b.node(shared.A, "n")
	b.waits(shared.A, node, reasonUnscheduled, "driver")
	p := needing(of(d, newPod("driver-1", "n")), "disk.example.org")
	shared.A.Create(t, p)
	b.waits(shared.A, node, reasonUnready, "driver-1")
	b.ready(shared.A, p)
	b.waits(shared.A, node, reasonDrivers, "disk.example.org")
	b.looks(shared.A, "n")
	shared.A.Create(t, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "disk.example.org", NodeID: "n"}}},
	})
	b.becomesReady(shared.A, "n")
	// The same is not said twice.
	b.Expect(b.said(shared.A, node)()).To(HaveExactElements(
		"Warning UnscheduledNodeCriticalDaemonSets: Critical DaemonSets without a pod on the node: driver",
		"Warning UnreadyNodeCriticalPods: Critical pods that are not ready: driver-1",
		"Warning UnreadyRequiredCSIDrivers: Required CSI drivers that are not registered: disk.example.org",
		"Normal NodeCriticalComponentsReady: All critical components of the node are ready",
	))
	b.Expect(b.events.Events).To(BeEmpty(), "nothing is said in the source")
}

func TestNODE15_EventsAreBounded(t *testing.T) {
	g := NewWithT(t)
	n := waitingFor(reasonDrivers, "Drivers", []string{strings.Repeat("x", 1<<20), "\xff\n"})
	g.Expect(len(n.note)).To(BeNumerically("<=", 1024))
	n = waitingFor(reasonDrivers, "Drivers", []string{"\xff\n"})
	g.Expect(n.note).NotTo(ContainSubstring("\n"))
}

func TestNODE16_ComponentsOutsideKubeSystemAreIgnored(t *testing.T) {
	b := start(t)
	d, p := newDaemonSet("default"), newPod("default", "n")
	d.Namespace, p.Namespace = metav1.NamespaceDefault, metav1.NamespaceDefault
	shared.A.Create(t, d)
	shared.A.Create(t, p)
	b.node(shared.A, "n")
	b.becomesReady(shared.A, "n")
}

func TestNODE17_DaemonSetsThatDoNotTolerateTheTaintAreIgnored(t *testing.T) {
	b := start(t)
	d := newDaemonSet("picky")
	d.Spec.Template.Spec.Tolerations = nil
	shared.A.Create(t, d)
	b.node(shared.A, "n")
	b.becomesReady(shared.A, "n")
}

func TestNODE40_NODE43_TargetsAreApart(t *testing.T) {
	b := start(t)
	d := newDaemonSet("network")
	shared.B.Create(t, d)
	node := b.node(shared.B, "n")
	b.waits(shared.B, node, reasonUnscheduled, "network")
	b.node(shared.A, "n")
	b.becomesReady(shared.A, "n")
	b.looks(shared.B, "n")
	b.waits(shared.B, node, reasonUnscheduled, "network")
}

// A target in which not everything can be seen keeps its taints, and its TargetCluster says why.
func TestNODE44_TaintStaysWhileNotEverythingIsSeen(t *testing.T) {
	b := newBench(t)
	user := "weak-" + rand.String(5) // the test may run several times
	weak := clustercache.ClusterKey{Namespace: "shoot-" + user, Name: user}
	nodes := rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch", "patch"},
	}
	kubeconfig, err := shared.B.Restricted(t.Context(), user, nodes)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(shared.Register(t.Context(), weak, kubeconfig)).To(Succeed())
	b.node(shared.B, "n")
	b.start(weak)
	b.Eventually(b.events.Events).Should(Receive(And(HavePrefix("Warning "+reasonFailed),
		ContainSubstring("critical components of Node n: listing critical DaemonSets"))))
	b.Expect(b.taints(shared.B, "n")()).To(ContainElement(nodemarks.CriticalComponentsTaint))

	t.Log("the rights come, all but that for events")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}}
	b.Expect(shared.B.Client.Get(t.Context(), client.ObjectKeyFromObject(role), role)).To(Succeed())
	role.Rules = append(role.Rules, rbacv1.PolicyRule{
		APIGroups: []string{"", "apps"}, Resources: []string{"pods", "daemonsets"}, Verbs: []string{"list"},
	})
	b.Expect(shared.B.Client.Update(t.Context(), role)).To(Succeed())
	b.becomesReady(shared.B, "n")
}

func TestNODE44_TooManyComponents(t *testing.T) {
	b := newBench(t)
	var answers atomic.Int64
	shared.Intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
		if !strings.HasSuffix(r.URL.Path, "/daemonsets") {
			return nil
		}
		answers.Add(1)
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(`{"kind":"DaemonSetList","apiVersion":"apps/v1",` +
				`"metadata":{"continue":"more"},"items":[{}` + strings.Repeat(",{}", pageSize-1) + `]}`)),
		}
	})
	node := b.node(shared.A, "n")
	b.start(shared.A.Key)
	b.Eventually(b.events.Events).Should(Receive(
		ContainSubstring("listing critical DaemonSets: there are too many: 500 in kube-system")))
	b.Expect(b.taints(shared.A, "n")()).To(ContainElement(nodemarks.CriticalComponentsTaint))
	b.Expect(b.said(shared.A, node)()).To(BeEmpty())
	b.Eventually(answers.Load).Should(BeNumerically(">", most/pageSize), "it is tried again")
	b.Expect(b.events.Events).To(BeEmpty(), "it is said once")
}

// More DaemonSets than a page has.
func TestNODE3_AllPagesAreLookedAt(t *testing.T) {
	b := start(t)
	for i := range pageSize {
		d := newDaemonSet(fmt.Sprintf("elsewhere-%03d", i))
		d.Spec.Template.Spec.NodeName = "other"
		shared.A.Create(t, d)
	}
	shared.A.Create(t, newDaemonSet("last"))
	b.waits(shared.A, b.node(shared.A, "n"), reasonUnscheduled, "last")
}

func TestRequiredOptions(t *testing.T) {
	_, err := New(Options{})
	NewWithT(t).Expect(err).To(MatchError("controller node-critical-components: a required option is missing"))
}
