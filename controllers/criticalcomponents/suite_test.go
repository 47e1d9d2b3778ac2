package criticalcomponents

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/controllers/internal/nodemarks"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
)

// shared are the targets of all tests, which run one after the other: DaemonSets concern all Nodes.
var shared *twins.Twins

func TestMain(m *testing.M) {
	twins.Main(m, func(t *twins.Twins) { shared = t })
}

// bench is a test with the controller at work in both targets.
type bench struct {
	*WithT
	t      *testing.T
	events *events.FakeRecorder // those about objects of the source
}

func needsControlPlanes(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
}

// settings are those of tests: a Node is looked at often.
var settings = Settings{ConcurrentSyncs: 5, Backoff: 20 * time.Millisecond}

// newBench starts nothing.
func newBench(t *testing.T) *bench {
	t.Helper()
	needsControlPlanes(t)
	shared.Reset()
	return &bench{WithT: NewWithT(t), t: t, events: events.NewFakeRecorder(1000)}
}

// start starts the controller in both targets until the test ends.
func start(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.start(shared.A.Key, shared.B.Key)
	return b
}

// start starts the controller in some targets until the test ends.
func (b *bench) start(targets ...clustercache.ClusterKey) {
	b.t.Helper()
	b.startWith(Options{Settings: func(status clustercache.Status) (Settings, bool) {
		return settings, slices.Contains(targets, status.Cluster)
	}})
}

// startWith starts the controller with some options until the test ends.
func (b *bench) startWith(options Options) {
	b.t.Helper()
	options.Environment = multicluster.Environment{Clusters: shared.Clusters, Events: b.events}
	controller, err := New(options)
	b.Expect(err).NotTo(HaveOccurred())
	twins.Run(b.t, controller.Start)
}

// taint is that of a Node that waits.
var taint = corev1.Taint{Key: nodemarks.CriticalComponentsTaint, Effect: corev1.TaintEffectNoSchedule}

// node creates one that waits, with more taints if there are any.
func (b *bench) node(in *twins.Target, name string, more ...corev1.Taint) *corev1.Node {
	b.t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "a"}},
		Spec:       corev1.NodeSpec{Taints: append([]corev1.Taint{taint}, more...)},
	}
	in.Create(b.t, node)
	return node
}

// taints are the keys of those that a Node has.
func (b *bench) taints(in *twins.Target, name string) func() []string {
	return func() []string {
		node := &corev1.Node{}
		b.Expect(in.Client.Get(context.Background(), client.ObjectKey{Name: name}, node)).To(Succeed())
		keys := []string{}
		for _, taint := range node.Spec.Taints {
			keys = append(keys, taint.Key)
		}
		return keys
	}
}

// becomesReady waits until a Node does not wait any longer.
func (b *bench) becomesReady(in *twins.Target, name string) {
	b.t.Helper()
	b.Eventually(b.taints(in, name)).ShouldNot(ContainElement(nodemarks.CriticalComponentsTaint))
}

// waits waits until it was said of a Node that it waits for something, and insists that it does.
func (b *bench) waits(in *twins.Target, node *corev1.Node, reason, what string) {
	b.t.Helper()
	b.Eventually(b.said(in, node)).Should(ContainElement(And(HavePrefix("Warning "+reason+": "), HaveSuffix(": "+what))))
	b.Expect(b.taints(in, node.Name)()).To(ContainElement(nodemarks.CriticalComponentsTaint))
}

// looks waits until a Node was looked at as a whole after it was called.
func (b *bench) looks(in *twins.Target, node string) {
	b.t.Helper()
	reads := func() int {
		return len(shared.Calls(in.Key, func(c twins.Call) bool {
			return c.Method == http.MethodGet && c.Path == "/api/v1/nodes/"+node
		}))
	}
	before := reads()
	b.Eventually(reads).Should(BeNumerically(">=", before+2))
}

// said are the events about a Node in its target: type, reason and note.
func (b *bench) said(in *twins.Target, node *corev1.Node) func() []string {
	return func() (all []string) {
		list := &eventsv1.EventList{}
		b.Expect(in.Client.List(context.Background(), list, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
		slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
		for _, event := range list.Items {
			if event.Regarding.UID == node.UID {
				all = append(all, event.Type+" "+event.Reason+": "+event.Note)
			}
		}
		return all
	}
}

// everywhere tolerates all taints.
var everywhere = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}

// newDaemonSet is a critical one for all Nodes.
func newDaemonSet(name string) *appsv1.DaemonSet {
	labels := map[string]string{"app": name, criticalLabel: "true"}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{criticalLabel: "true"}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Tolerations: everywhere, Containers: []corev1.Container{{Name: "c", Image: "i"}},
				},
			},
		},
	}
}

// newPod is a critical one on a Node.
func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{criticalLabel: "true"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// of makes a pod one of a DaemonSet, which has to exist.
func of(d *appsv1.DaemonSet, pod *corev1.Pod) *corev1.Pod {
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "DaemonSet", Name: d.Name, UID: d.UID, Controller: ptr.To(true),
	}}
	return pod
}

// needing makes a pod one that needs CSI drivers.
func needing(pod *corev1.Pod, drivers ...string) *corev1.Pod {
	pod.Annotations = map[string]string{"other.gardener.cloud/wait-for-csi-node-x": "unrelated"}
	for _, driver := range drivers {
		pod.Annotations[driverPrefix+strings.ReplaceAll(driver, ".", "-")] = driver
	}
	return pod
}

// becomes sets the state of a pod.
func (b *bench) becomes(in *twins.Target, pod *corev1.Pod, phase corev1.PodPhase, ready corev1.ConditionStatus) {
	b.t.Helper()
	pod.Status.Phase = phase
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	b.Expect(in.Client.Status().Update(context.Background(), pod)).To(Succeed())
}

func (b *bench) ready(in *twins.Target, pod *corev1.Pod) {
	b.t.Helper()
	b.becomes(in, pod, corev1.PodRunning, corev1.ConditionTrue)
}
