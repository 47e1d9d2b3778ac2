package nodehighavailability

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/controllers/internal/nodemarks"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
	"github.com/trellis-hub/trellis/hack/testbed/webhooks"
)

// shared are the targets of all tests, which run one after the other: the number of all Nodes counts.
var shared *twins.Twins

func TestMain(m *testing.M) {
	twins.Main(m, func(t *twins.Twins) { shared = t })
}

// anyway and strictly are the constraints for one Node, and for several.
const anyway, strictly = corev1.ScheduleAnyway, corev1.DoNotSchedule

// bench is a test with a namespace of its own in both targets.
type bench struct {
	*WithT
	t         *testing.T
	namespace string
	events    *events.FakeRecorder // those about objects of the source
	runs      *multicluster.Controller
}

// newBench starts nothing.
func newBench(t *testing.T) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	b := &bench{WithT: NewWithT(t), t: t, namespace: "ha-" + rand.String(8), events: events.NewFakeRecorder(1000)}
	for _, in := range []*twins.Target{shared.A, shared.B} {
		b.space(in, b.namespace, "true")
	}
	shared.Reset()
	return b
}

// space creates a Namespace, with a value of considerLabel if that is not empty.
func (b *bench) space(in *twins.Target, name, consider string) {
	b.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if consider != "" {
		namespace.Labels = map[string]string{considerLabel: consider}
	}
	in.Create(b.t, namespace)
}

// start starts the controller, in some targets, until the test ends or the returned function is called.
func (b *bench) start(change func(*Options), targets ...clustercache.ClusterKey) (stop func()) {
	b.t.Helper()
	if len(targets) == 0 {
		targets = []clustercache.ClusterKey{shared.A.Key, shared.B.Key}
	}
	options := Options{
		Environment: multicluster.Environment{Clusters: shared.Clusters, Events: b.events},
		Enabled:     func(status clustercache.Status) bool { return slices.Contains(targets, status.Cluster) },
	}
	if change != nil {
		change(&options)
	}
	controller, err := New(options)
	b.Expect(err).NotTo(HaveOccurred())
	b.runs = controller
	return twins.Run(b.t, controller.Start)
}

// webhook has one work in a target, until the test ends, as far as this controller is concerned: the first constraint
// for the hostname is one for the number of Nodes.
func (b *bench) webhook(in *twins.Target) {
	b.t.Helper()
	webhooks.Serve(b.t, in.Client, webhooks.Webhook{
		Name: "high-availability-config.resources.gardener.cloud",
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments", "statefulsets"},
		},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{considerLabel: "true"}},
		ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: skipLabel, Operator: metav1.LabelSelectorOpDoesNotExist},
		}},
		Mutate: func(ctx context.Context, object []byte) ([]byte, error) {
			nodes := &corev1.NodeList{}
			if err := in.Client.List(ctx, nodes); err != nil {
				return nil, err
			}
			want := anyway
			if len(nodes.Items) > 1 {
				want = strictly
			}
			return respread(object, want)
		},
		Probe: deployment(b.namespace, "probe", anyway),
	})
}

// respread sets the first constraint for the hostname.
func respread(object []byte, want corev1.UnsatisfiableConstraintAction) ([]byte, error) {
	content := map[string]any{}
	if err := json.Unmarshal(object, &content); err != nil {
		return nil, err
	}
	path := []string{"spec", "template", "spec", "topologySpreadConstraints"}
	constraints, _, err := unstructured.NestedSlice(content, path...)
	if err != nil {
		return nil, err
	}
	for _, c := range constraints {
		if constraint, _ := c.(map[string]any); constraint["topologyKey"] == corev1.LabelHostname {
			constraint["whenUnsatisfiable"] = string(want)
			if err := unstructured.SetNestedSlice(content, constraints, path...); err != nil {
				return nil, err
			}
			break
		}
	}
	return json.Marshal(content)
}

// template has constraints for the hostname, after one for the zone.
func template(name string, constraints ...corev1.UnsatisfiableConstraintAction) corev1.PodTemplateSpec {
	labels := map[string]string{"app": name}
	spec := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: anyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
		}},
	}
	for i, constraint := range constraints {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: int32(i + 1), TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: constraint,
			LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
		})
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
}

func deployment(namespace, name string, constraints ...corev1.UnsatisfiableConstraintAction) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: template(name, constraints...),
		},
	}
}

func statefulSet(namespace, name string, constraints ...corev1.UnsatisfiableConstraintAction) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: template(name, constraints...),
		},
	}
}

// spread is the first constraint of a workload for the hostname.
func (b *bench) spread(in *twins.Target, workload client.Object) func() corev1.UnsatisfiableConstraintAction {
	return func() corev1.UnsatisfiableConstraintAction {
		b.Expect(in.Client.Get(context.Background(), client.ObjectKeyFromObject(workload), workload)).To(Succeed())
		var spec corev1.PodSpec
		switch w := workload.(type) {
		case *appsv1.Deployment:
			spec = w.Spec.Template.Spec
		case *appsv1.StatefulSet:
			spec = w.Spec.Template.Spec
		}
		return spec.TopologySpreadConstraints[1].WhenUnsatisfiable
	}
}

// node creates one.
func (b *bench) node(in *twins.Target, name string) *corev1.Node {
	b.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	in.Create(b.t, node)
	return node
}

// patched are the workloads that were patched in namespaces that begin with that of the test, by the ends of their
// paths. All patches are without content.
func (b *bench) patched(in *twins.Target) func() []string {
	return func() (names []string) {
		calls := shared.Calls(in.Key, func(c twins.Call) bool {
			return c.Method == http.MethodPatch && strings.Contains(c.Path, "/namespaces/"+b.namespace)
		})
		for _, call := range calls {
			b.Expect(call.Body).To(Equal("{}"))
			names = append(names, call.Path[strings.LastIndexByte(call.Path, '/')+1:])
		}
		return names
	}
}

// looks is how often the Nodes of a target were counted.
func looks(in *twins.Target) func() int {
	return func() int {
		return len(shared.Calls(in.Key, func(c twins.Call) bool {
			query, err := url.ParseQuery(c.Query)
			return err == nil && c.Path == "/api/v1/nodes" && query.Get("limit") == "2"
		}))
	}
}

// settles waits until the watch has shown some number of Nodes, and what follows was done.
func (b *bench) settles(in *twins.Target, nodes int) {
	b.t.Helper()
	b.Eventually(func() int {
		watched, err := b.runs.Objects(in.Key, nodemarks.Nodes)
		b.Expect(err).NotTo(HaveOccurred())
		if watched == nil {
			return -1
		}
		return count(watched)
	}).Should(Equal(nodes))
	for range 2 { // one may have begun before
		before := looks(in)()
		b.runs.Enqueue(in.Key, wholeTarget)
		b.Eventually(looks(in)).Should(BeNumerically(">", before))
	}
}
