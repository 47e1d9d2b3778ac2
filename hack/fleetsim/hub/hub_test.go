package hub_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/shoot20"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// foreigner is the user agent of the writer that changes objects of targets.
const foreigner = "foreigner"

// edit is what a foreigner does to an object.
type edit struct {
	what      string
	kind      schema.GroupVersionKind
	namespace string
	name      string
	patch     string // a merge patch; empty: a delete
}

var (
	configMap  = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secret     = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	service    = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	role       = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	deployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	definition = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	autoscaler = schema.GroupVersionKind{Group: shoot20.Group, Version: "v1", Kind: "Autoscaler"}
	policy     = schema.GroupVersionKind{Group: shoot20.Group, Version: "v1", Kind: "ClusterPolicy"}
)

// changes are edits that one write undoes.
var changes = []edit{
	{"data of a ConfigMap are changed", configMap, "kube-system", "coredns", `{"data":{"config.yaml":"edited"}}`},
	{"a key of a Secret is removed", secret, "kube-system", "vpn-shoot-ca", `{"data":{"ca.crt":null}}`},
	{"a Service is deleted", service, "kube-system", "coredns", ""},
	{"a Deployment is scaled", deployment, "kube-system", "metrics-server", `{"spec":{"replicas":7}}`},
	{"a label of a ClusterRole is changed", role, "", "shoot20-network", `{"metadata":{"labels":{"origin":"edited"}}}`},
	{"a custom resource is changed", autoscaler, "kube-system", "coredns", `{"spec":{"updateMode":"Off"}}`},
	{"a custom resource is deleted", policy, "", "shoot20-network-default", ""},
	{"a label of a CustomResourceDefinition is changed", definition, "", "agents." + shoot20.Group, `{"metadata":{"labels":{"origin":"edited"}}}`},
}

// additions are edits of what the hub has no opinion about, and does not leave there all the same.
var additions = []edit{
	{"data are added to a ConfigMap", configMap, "kube-system", "coredns", `{"data":{"foreign":"added"}}`},
	{"a Deployment is paused", deployment, "kube-system", "metrics-server", `{"spec":{"paused":true}}`},
	{"a name is added to a CustomResourceDefinition", definition, "", "agents." + shoot20.Group, `{"spec":{"names":{"shortNames":["edited"]}}}`},
}

func TestHubServesASimulatedFleet(t *testing.T) {
	w := newWorld(t, "target-", *targets)
	o := testbed.HubOptions{Config: func(c *configv1alpha1.HubConfiguration) {
		c.TargetClientConnection.QPS, c.TargetClientConnection.Burst = 1000, 1000
		// A request that is given up is sent again, and what it did is then written twice. On a busy machine that must not
		// happen.
		c.TargetClientConnection.Timeout.Duration = 2 * time.Minute
	}}
	hub := testbed.StartHubForTest(t, source, o)
	n := len(w.fleet.Targets())
	watched := map[string][]string{} // by target

	// step runs a part of the test. What comes after it depends on it.
	step := func(name string, do func(w *world)) {
		t.Helper()
		passed := t.Run(name, func(t *testing.T) {
			inStep := *w
			inStep.WithT, inStep.t, inStep.ctx = NewWithT(t), t, t.Context()
			do(&inStep)
		})
		if !passed {
			t.FailNow()
		}
	}

	step("everything arrives, each object once", func(w *world) {
		w.install()
		w.Eventually(w.managedResources).Should(HaveLen(20 * n))
		w.eventually(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue)
		for _, target := range w.fleet.Targets() {
			w.Expect(target.Server().Count()).To(Equal(w.base+300), target.Name())
		}
		w.eachTarget(w.hasTheFixture)
		w.nothingWrong(time.Time{})
		for _, target := range w.fleet.Targets() {
			watched[target.Name()] = w.watchesOfHub(target)
			w.Expect(watched[target.Name()]).To(ContainElements("configmaps", "autoscalers."+shoot20.Group), target.Name())
		}
	})

	step("it is ready once its workloads are rolled out", func(w *world) {
		w.eachTarget(rollOut)
		w.eventually(resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionTrue)
		w.eventually(resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionFalse)
		w.nothingWrong(time.Time{})
	})

	step("changes are undone, each by one write", func(w *world) {
		began := time.Now()
		w.suffer(changes)
		w.nothingWrong(began)
		w.eventuallyWritten(map[string]int64{"apply": int64(n * len(changes))})
	})

	step("additions are removed", func(w *world) {
		began := time.Now()
		w.suffer(additions)
		// The hub applies, sees that more is left than it wants, makes that its own, and applies again: three writes, of
		// which the last one alone changes content. So they are not judged by Repeated.
		w.nothingWorse(began)
		w.eventuallyWritesNothing()
	})

	step("a change reaches all targets", func(w *world) {
		w.journal.Reset()
		began, before := time.Now(), w.notes()
		reach := w.eventuallyEverywhere(w.change("new"))
		t.Logf("the first target had the change after %s, the last one after %s", reach.First, reach.Last)
		w.eventuallyWritten(map[string]int64{"apply": int64(n)}) // one object is sent
		w.nothingWrong(began)
		w.eventuallyNoted(before)
	})

	step("a restart writes nothing", func(w *world) {
		w.eventually(resourcesv1alpha1.ConditionReady, resourcesv1alpha1.ConditionTrue)
		hub.Stop()
		w.Expect(hub.Err()).NotTo(HaveOccurred())
		w.journal.Reset()
		restarted := time.Now()
		hub = testbed.StartHubForTest(t, source, o)
		for _, target := range w.fleet.Targets() {
			w.Eventually(func() []string { return w.watchesOfHub(target) }).Should(ContainElements(watched[target.Name()]), target.Name())
		}
		w.Expect(w.writesOfHub()).To(BeEmpty())
		w.eventuallyEverywhere(w.change("newer")) // the hub is at work
		w.eventually(resourcesv1alpha1.ConditionReady, resourcesv1alpha1.ConditionTrue)
		// A note says that all of a ManagedResource is applied, not what. Once it does not hold, all 15
		// objects are sent again.
		w.Expect(w.requestsOfHub()).To(HaveKeyWithValue("apply", int64(15*n)),
			"only the ManagedResource with the change is sent")
		w.Expect(w.requestsOfHub()["update"]).To(BeNumerically("<=", 15*n), "for fields without an owner")
		w.nothingWorse(restarted)
		w.Expect(journal.TwoAtATime(time.Hour, func(c journal.Change) string {
			switch {
			case !byHub(c):
				return ""
			case c.Time.Before(restarted):
				return "the first hub"
			}
			return "the second hub"
		}, w.journal.Histories()...).Err()).To(Succeed())
	})

	step("deletion cleans up", func(w *world) {
		deleted := time.Now()
		w.eachTarget(func(ctx context.Context, target *fleetsim.Target) error {
			return source.Client.DeleteAllOf(ctx, &resourcesv1alpha1.ManagedResource{}, client.InNamespace(namespace(target)))
		})
		w.Eventually(w.managedResources).WithPolling(time.Second).Should(BeEmpty())
		w.nothingWrong(deleted)
		w.eachTarget(func(_ context.Context, target *fleetsim.Target) error {
			for _, object := range w.fixture.Objects(target.Name()) {
				if contents(target, object.GroupVersionKind())[client.ObjectKeyFromObject(object)] != nil {
					return fmt.Errorf("%s %s is left", object.GetKind(), object.GetName())
				}
			}
			return nil
		})
	})
}

// suffer has a foreigner do edits in all targets, one after the other, and waits until all is as it was.
func (w *world) suffer(edits []edit) {
	w.t.Helper()
	w.journal.Reset()
	began := time.Now()
	for i, edit := range edits {
		w.eachTarget(edit.do)
		w.Eventually(func() []float64 { return w.corrections(began).Millis }).Should(
			HaveLen((i+1)*len(w.fleet.Targets())), edit.what)
	}
	got := w.corrections(began)
	w.t.Logf("drift was corrected after, in ms: %.1f", got.Millis)
	w.Expect(got.Pending).To(BeEmpty())
	w.eachTarget(w.hasTheFixture)
	w.eachTarget(rollOut)
}

// do does the edit in one target.
func (e edit) do(ctx context.Context, target *fleetsim.Target) error {
	c, done, err := connect(target, foreigner)
	if err != nil {
		return err
	}
	defer done()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(e.kind)
	u.SetNamespace(e.namespace)
	u.SetName(e.name)
	if e.patch == "" {
		return c.Delete(ctx, u)
	}
	return c.Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(e.patch)))
}
