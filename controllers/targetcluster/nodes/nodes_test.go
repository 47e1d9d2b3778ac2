package nodes

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/fake"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

func TestStateOfANode(t *testing.T) {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	pressed := func(conditionType corev1.NodeConditionType) []corev1.NodeCondition {
		return []corev1.NodeCondition{ready, {Type: conditionType, Status: corev1.ConditionTrue, Reason: "Full"}}
	}
	tests := map[string]struct {
		conditions []corev1.NodeCondition
		problem    string
	}{
		"ready":              {[]corev1.NodeCondition{ready, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}}, ""},
		"no conditions":      {nil, "it has not reported its state yet"},
		"not ready":          {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletDown"}}, "Ready is False (KubeletDown)"},
		"lost":               {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}}, "Ready is Unknown (NodeStatusUnknown)"},
		"memory":             {pressed(corev1.NodeMemoryPressure), "MemoryPressure is True (Full)"},
		"disk":               {pressed(corev1.NodeDiskPressure), "DiskPressure is True (Full)"},
		"processes":          {pressed(corev1.NodePIDPressure), "PIDPressure is True (Full)"},
		"network":            {pressed(corev1.NodeNetworkUnavailable), "NetworkUnavailable is True (Full)"},
		"something else bad": {pressed("CoffeeEmpty"), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Conditions: test.conditions}}
			NewWithT(t).Expect(stateOf(asUnstructured(t, node)).problem).To(Equal(test.problem))
		})
	}
}

func TestCloudAndRegionOfANode(t *testing.T) {
	tests := map[string]struct {
		providerID string
		labels     map[string]string
		expected   state
	}{
		"usual":             {"aws:///eu-west-1a/i-0", map[string]string{"topology.kubernetes.io/region": "eu-west-1"}, state{cloud: "aws", region: "eu-west-1"}},
		"the older label":   {"gce://p/z/n", map[string]string{"failure-domain.beta.kubernetes.io/region": "eu"}, state{cloud: "gce", region: "eu"}},
		"neither":           {"", nil, state{}},
		"not a provider ID": {"something", nil, state{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}, Spec: corev1.NodeSpec{ProviderID: test.providerID}}
			got := stateOf(asUnstructured(t, node))
			got.problem = ""
			NewWithT(t).Expect(got).To(Equal(test.expected))
		})
	}
}

func TestWhatIsKeptOfANodeIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	got := stateOf(asUnstructured(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelTopologyRegion: long}},
		Spec:       corev1.NodeSpec{ProviderID: long + "://"},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: "False\n", Reason: long},
		}},
	}))
	g := NewWithT(t)
	g.Expect(got.problem).To(HavePrefix("Ready is False  (xxx"))
	g.Expect(got.problem).To(HaveLen(untrusted.MaxMessage))
	g.Expect([]int{len(got.cloud), len(got.region)}).To(HaveEach(untrusted.MaxToken))
}

func TestSummaryOfNodes(t *testing.T) {
	g := NewWithT(t)
	key := clustercache.ClusterKey{Namespace: "a", Name: "b"}
	clusters := fake.New(nil)
	clusters.Add(key, fake.Target{})
	var changes atomic.Int32
	n, err := New(multicluster.Environment{Clusters: clusters, Events: events.NewFakeRecorder(1)},
		func(...clustercache.ClusterKey) { changes.Add(1) })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(n.Summarize(key)).To(Equal(Summary{}), "nothing is known before it is connected")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Start(ctx) }()
	g.Eventually(func() any { return clusters.Watches(key) }).Should(HaveLen(1))
	watchName := slices.Collect(maps.Keys(clusters.Watches(key)))[0]

	g.Expect(n.Summarize(key)).To(Equal(Summary{}), "nothing is known before the list is complete")
	for name, value := range map[string]state{
		"z": {problem: "Ready is False (x)"}, "y": {problem: "Ready is Unknown (y)"}, "b": {cloud: "aws", region: "r1"}, "c": {cloud: "aws", region: "r2"},
	} {
		clusters.PutValue(key, watchName, clustercache.ClusterKey{Name: name}, value)
	}
	clusters.Sync(key, watchName, true)
	g.Expect(n.Summarize(key)).To(Equal(Summary{
		Known: true, Total: 4, Ready: 2, Problem: "node y: Ready is Unknown (y)", Cloud: "aws", Region: "r1",
	}))
	g.Eventually(changes.Load).ShouldNot(BeZero())

	g.Expect(ofTarget(types.NamespacedName{Name: "b"}, state{cloud: "aws"}, state{cloud: "aws"})).To(BeEmpty(),
		"a heartbeat is no change")

	before := changes.Load()
	clusters.Fail(key, watchName, errors.New("forbidden"))
	g.Expect(n.Summarize(key).Fault).To(MatchError("forbidden"))
	g.Eventually(changes.Load).Should(BeNumerically(">", before))
	before = changes.Load()
	clusters.Sync(key, watchName, true)
	g.Expect(n.Summarize(key).Known).To(BeTrue())
	g.Eventually(changes.Load).Should(BeNumerically(">", before))

	cancel()
	g.Eventually(ended).Should(Receive(BeNil()))
	g.Expect(clusters.Watches(key)).To(BeEmpty())
}

func asUnstructured(t *testing.T, node *corev1.Node) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(node)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}
