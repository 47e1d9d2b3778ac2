package nodeagentdelay

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/controllers/internal/nodemarks"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
)

// shared are the targets of all tests, which run one after the other: delays follow from all Nodes.
var shared *twins.Twins

func TestMain(m *testing.M) {
	twins.Main(m, func(t *twins.Twins) { shared = t })
}

// bench is a test with the controller.
type bench struct {
	*WithT
	t      *testing.T
	events *events.FakeRecorder
	runs   *multicluster.Controller // the last one that was started

	mu       sync.Mutex
	settings map[clustercache.ClusterKey]Settings
	changed  func(clustercache.ClusterKey) // of a controller that runs
}

// newBench has the controller on in both targets, with delays from 5s to 30s.
func newBench(t *testing.T) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	shared.Reset()
	usual := Settings{MinDelay: 5 * time.Second, MaxDelay: 30 * time.Second}
	return &bench{
		WithT: NewWithT(t), t: t, events: events.NewFakeRecorder(1000),
		settings: map[clustercache.ClusterKey]Settings{shared.A.Key: usual, shared.B.Key: usual},
	}
}

// start starts the controller until the test ends, or the returned function is called.
func (b *bench) start(change ...func(*Options)) (stop func()) {
	b.t.Helper()
	options := Options{
		Environment: multicluster.Environment{Clusters: shared.Clusters, Events: b.events},
		Settings: func(status clustercache.Status) (Settings, bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			settings, on := b.settings[status.Cluster]
			return settings, on
		},
		Follow: func(_ context.Context, _ *sync.WaitGroup, changed func(clustercache.ClusterKey)) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.changed = changed
			return nil
		},
	}
	for _, c := range change {
		c(&options)
	}
	controller, err := New(options)
	b.Expect(err).NotTo(HaveOccurred())
	b.runs = controller
	return twins.Run(b.t, controller.Start)
}

// set changes the settings of a target.
func (b *bench) set(target clustercache.ClusterKey, settings Settings) {
	b.mu.Lock()
	b.settings[target] = settings
	changed := b.changed
	b.mu.Unlock()
	changed(target)
}

// nodes creates several, with a name that they begin with.
func (b *bench) nodes(in *twins.Target, prefix string, n int, secret string) {
	b.t.Helper()
	for i := range n {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)}}
		if secret != "" {
			node.Labels = map[string]string{nodemarks.AgentSecretLabel: secret}
		}
		in.Create(b.t, node)
	}
}

// has returns the delays of all Nodes that have one, by their names.
func (b *bench) has(in *twins.Target) func() map[string]string {
	return func() map[string]string {
		list := &corev1.NodeList{}
		b.Expect(in.Client.List(context.Background(), list)).To(Succeed())
		delays := map[string]string{}
		for _, node := range list.Items {
			if delay, has := node.Annotations[delayAnnotation]; has {
				delays[node.Name] = delay
			}
		}
		return delays
	}
}

// spread is what Nodes get that are named prefix-0 and so on.
func spread(prefix string, n int, settings Settings) map[string]string {
	names := make([]string, n)
	for i := range n {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	slices.Sort(names)
	all := map[string]string{}
	for i, name := range names {
		all[name] = delayOf(i, n, settings).String()
	}
	return all
}

func patchesOf(in *twins.Target) []twins.Call {
	return shared.Calls(in.Key, func(c twins.Call) bool { return c.Method == http.MethodPatch })
}

// looks is how often the Nodes of a target were listed.
func looks(in *twins.Target) func() int {
	return func() int {
		return len(shared.Calls(in.Key, func(c twins.Call) bool {
			return c.Path == "/api/v1/nodes" && strings.Contains(c.Query, "limit=") &&
				!strings.Contains(c.Query, "watch=") && !strings.Contains(c.Query, "continue=")
		}))
	}
}

// looksAgain waits until everything was looked at that the watch has shown so far, and then twice.
func (b *bench) looksAgain(in *twins.Target) {
	b.t.Helper()
	b.Eventually(func() bool {
		nodes, err := b.runs.Objects(in.Key, nodemarks.Nodes)
		b.Expect(err).NotTo(HaveOccurred())
		return nodes != nil && nodes.Range(func(types.NamespacedName, any) bool { return true })
	}).Should(BeTrue(), "the watch has shown all")
	before := looks(in)()
	for i := 1; i <= 2; i++ {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		changed(in.Key)
		b.Eventually(looks(in)).Should(BeNumerically(">=", before+i))
	}
}

func TestNODE20_NodesAreSortedByName(t *testing.T) {
	b := newBench(t)
	b.nodes(shared.A, "node", 11, "")
	b.start(func(o *Options) { o.pageSize = 3 })
	usual := b.settings[shared.A.Key]
	b.Eventually(b.has(shared.A)).Should(Equal(spread("node", 11, usual)))
	b.Expect(b.has(shared.A)()).To(HaveKeyWithValue("node-10", delayOf(2, 11, usual).String()))
	b.Expect(b.has(shared.A)()).To(HaveKeyWithValue("node-2", delayOf(3, 11, usual).String()))
}

func TestNODE21_DelaysFollowTheNodes(t *testing.T) {
	b := newBench(t)
	stop := b.start()
	b.nodes(shared.A, "n", 1, "")
	b.Eventually(b.has(shared.A)).Should(Equal(map[string]string{"n-0": "5s"}))
	added := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-1"}}
	shared.A.Create(t, added)
	b.Eventually(b.has(shared.A)).Should(Equal(map[string]string{"n-0": "5s", "n-1": "17.5s"}))
	shared.A.Delete(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-0"}})
	b.Eventually(b.has(shared.A)).Should(Equal(map[string]string{"n-1": "5s"}))

	t.Log("nothing is written without need, not even by another term")
	b.looksAgain(shared.A)
	stop()
	shared.Reset()
	b.start()
	b.Eventually(looks(shared.A)).Should(BeNumerically(">=", 1))
	b.looksAgain(shared.A)
	b.Expect(patchesOf(shared.A)).To(BeEmpty())

	t.Log("a change of a Node is no reason to look")
	before := looks(shared.A)()
	b.Expect(shared.A.Client.Get(t.Context(), client.ObjectKeyFromObject(added), added)).To(Succeed())
	added.Spec.Taints = []corev1.Taint{{Key: nodemarks.CriticalComponentsTaint, Effect: corev1.TaintEffectNoSchedule}}
	b.Expect(shared.A.Client.Update(t.Context(), added)).To(Succeed())
	b.looksAgain(shared.A)
	b.Expect(looks(shared.A)()).To(Equal(before + 2))
	b.Expect(patchesOf(shared.A)).To(BeEmpty())
}

// config creates the Secret of some agents.
func config(t *testing.T, name string, serial string) {
	t.Helper()
	shared.A.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: name, Labels: map[string]string{roleLabel: roleOfConfig},
		Annotations: map[string]string{serialAnnotation: serial},
	}})
}

func TestNODE22_AgentsThatTakeTurnsGetNoDelay(t *testing.T) {
	b := newBench(t)
	config(t, "serial", "true")
	config(t, "parallel", "false")
	b.nodes(shared.A, "a", 5, "serial")
	b.nodes(shared.A, "m", 10, "parallel")
	b.nodes(shared.A, "z", 5, "serial")
	b.start()
	b.Eventually(b.has(shared.A)).Should(Equal(spread("m", 10, b.settings[shared.A.Key])))
	b.looksAgain(shared.A)
	b.Expect(b.has(shared.A)()).To(HaveLen(10))

	t.Log("one gets another agent, and keeps what it has")
	label := `{"metadata":{"labels":{"` + nodemarks.AgentSecretLabel + `":"serial"}}}`
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m-9"}}
	b.Expect(shared.A.Client.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, []byte(label)))).To(Succeed())
	want := spread("m", 9, b.settings[shared.A.Key])
	want["m-9"] = "27.5s"
	b.Eventually(b.has(shared.A)).Should(Equal(want))
	// Only metadata of Secrets was asked for, and only of those of agents.
	secrets := shared.Calls(shared.A.Key, func(c twins.Call) bool { return strings.HasSuffix(c.Path, "/secrets") })
	b.Expect(secrets).NotTo(BeEmpty())
	for _, call := range secrets {
		b.Expect(call.Path).To(Equal("/api/v1/namespaces/kube-system/secrets"))
		b.Expect(call.Query).To(ContainSubstring("labelSelector=gardener.cloud%2Frole%3Doperating-system-config"))
	}
}

func TestNODE23_OnlyTrueMeansThatAgentsTakeTurns(t *testing.T) {
	b := newBench(t)
	config(t, "one", "True")
	config(t, "two", "")
	b.nodes(shared.A, "n-one", 1, "one")
	b.nodes(shared.A, "n-two", 1, "two")
	b.nodes(shared.A, "n-unknown", 1, "unknown")
	b.nodes(shared.A, "n-unlabelled", 1, "")
	t.Log("a Secret with the annotation and another role")
	shared.A.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: "unknown", Annotations: map[string]string{serialAnnotation: "true"},
	}})
	b.start()
	b.Eventually(b.has(shared.A)).Should(Equal(map[string]string{
		"n-one-0": "5s", "n-two-0": "11.25s", "n-unknown-0": "17.5s", "n-unlabelled-0": "23.75s",
	}))
}

func TestNODE25_FailedPatchIsTriedAgain(t *testing.T) {
	b := newBench(t)
	b.nodes(shared.A, "n", 3, "")
	var tried atomic.Int64
	shared.Intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
		if r.Method != http.MethodPatch || r.URL.Path != "/api/v1/nodes/n-1" || tried.Add(1) > 1 {
			return nil
		}
		// Another client changes the Node first.
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"meanwhile"}}}`))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-1"}}
		if err := shared.A.Client.Patch(context.Background(), node, patch); err != nil {
			t.Error(err)
		}
		return nil
	})
	b.start()
	b.Eventually(b.has(shared.A)).Should(Equal(spread("n", 3, b.settings[shared.A.Key])))
	b.Expect(tried.Load()).To(BeEquivalentTo(2))
	for _, call := range patchesOf(shared.A) {
		b.Expect(call.Body).To(ContainSubstring(`"resourceVersion":"`))
	}
	b.Expect(patchesOf(shared.A)).To(HaveLen(4), "the others are not patched again")
	b.Expect(b.events.Events).To(BeEmpty(), "a conflict is not reported as a fault")
}

func TestNODE26_OtherSettingsAreFollowed(t *testing.T) {
	b := newBench(t)
	b.nodes(shared.A, "n", 2, "")
	b.start()
	b.Eventually(b.has(shared.A)).Should(Equal(map[string]string{"n-0": "5s", "n-1": "17.5s"}))
	b.set(shared.A.Key, Settings{MinDelay: 5 * time.Second, MaxDelay: time.Minute})
	b.Eventually(b.has(shared.A)).Should(Equal(map[string]string{"n-0": "5s", "n-1": "32.5s"}))
	b.set(shared.A.Key, Settings{MaxDelay: time.Minute})
	b.Eventually(b.has(shared.A)).Should(Equal(map[string]string{"n-0": "0s", "n-1": "30s"}))
}

func TestMC8_OtherDelaysOfATargetConcernNoOther(t *testing.T) {
	b := newBench(t)
	b.nodes(shared.A, "n", 2, "")
	b.nodes(shared.B, "n", 2, "")
	b.start()
	usual := spread("n", 2, b.settings[shared.A.Key])
	b.Eventually(b.has(shared.A)).Should(Equal(usual))
	b.Eventually(b.has(shared.B)).Should(Equal(usual))
	b.looksAgain(shared.B)
	before := looks(shared.B)()

	b.set(shared.A.Key, Settings{MaxDelay: time.Minute})
	b.Eventually(b.has(shared.A)).Should(Equal(map[string]string{"n-0": "0s", "n-1": "30s"}))
	b.Expect(looks(shared.B)()).To(Equal(before))
	b.Expect(patchesOf(shared.B)).To(HaveLen(2))
	b.Expect(b.has(shared.B)()).To(Equal(usual))
}

func TestNODE40_NODE41_NodesOfATargetConcernNoOther(t *testing.T) {
	b := newBench(t)
	b.nodes(shared.A, "n", 2, "")
	b.start()
	b.Eventually(b.has(shared.A)).Should(Equal(spread("n", 2, b.settings[shared.A.Key])))
	b.looksAgain(shared.A)
	before := looks(shared.A)()
	for n := 1; n <= 3; n++ {
		shared.B.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n-%d", n-1)}})
		b.Eventually(b.has(shared.B)).Should(Equal(spread("n", n, b.settings[shared.B.Key])))
	}
	b.Expect(looks(shared.A)()).To(Equal(before))
	b.Expect(patchesOf(shared.A)).To(HaveLen(2))
}

func TestTargetsThatCannotBeSeenAreReported(t *testing.T) {
	b := newBench(t)
	user := "weak-" + rand.String(5) // the test may run several times
	weak := clustercache.ClusterKey{Namespace: "shoot-" + user, Name: user}
	kubeconfig, err := shared.B.Restricted(t.Context(), user, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"},
	})
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(shared.Register(t.Context(), weak, kubeconfig)).To(Succeed())
	b.settings = map[clustercache.ClusterKey]Settings{weak: {MaxDelay: time.Minute}, shared.A.Key: {MaxDelay: time.Minute}}
	b.nodes(shared.B, "n", 1, "")
	b.start(func(o *Options) { o.maxObjects = 2 })
	b.Eventually(b.events.Events).Should(Receive(And(
		HavePrefix("Warning "+reasonFailed), ContainSubstring("setting the delay of Node n-0"))))

	t.Log("too many")
	b.nodes(shared.A, "n", 2, "")
	b.Eventually(b.has(shared.A)).Should(Equal(map[string]string{"n-0": "0s", "n-1": "30s"}))
	b.nodes(shared.A, "z", 1, "")
	b.Eventually(b.events.Events).Should(Receive(ContainSubstring("listing all of kind Node: there are too many: 2 are looked at")))
	b.Expect(b.has(shared.A)()).To(HaveLen(2))
}

func TestRequiredOptions(t *testing.T) {
	_, err := New(Options{})
	NewWithT(t).Expect(err).To(MatchError("controller node-agent-reconciliation-delay: a required option is missing"))
}
