package bench

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/testbed"
)

var managedResourceKind = resourcesv1alpha1.GroupVersion.WithKind("ManagedResource")

// The directions in which a Deployment changes.
const (
	toUnavailable = "becomes unavailable"
	toAvailable   = "becomes available"
)

// The ManagedResources whose Deployments change, each with one of the same name. They take turns, because what is said of one
// ManagedResource is calmed down when it changes several times a second, or more than five times without a quiet minute.
const (
	watchedCount   = 80
	watchedPrefix  = "watched-"
	watchedByBench = referencePrefix + "watched"
)

// foreignClass is one that the hub does not serve.
const foreignClass = "bench"

// measureHealth makes a Deployment unavailable and available again, as its controller would, and measures until its
// ManagedResource says so.
func measureHealth(ctx context.Context, w *world) (samples, error) {
	turns := map[*testbed.Cluster]*int{}
	for _, target := range w.targets {
		if err := w.watchDeployments(ctx, target); err != nil {
			return samples{}, err
		}
		turns[target] = new(int)
	}
	return w.inRuns(ctx, 2*w.flips, func(ctx context.Context, target *testbed.Cluster) (sample, error) {
		turn := *turns[target]
		*turns[target]++
		available := turn/watchedCount%2 == 1
		s := sample{Target: target.Name, Kind: deploymentKind.Kind, Change: toUnavailable}
		if available {
			s.Change = toAvailable
		}
		took, err := w.flip(ctx, target, fmt.Sprint(watchedPrefix, turn%watchedCount), available, nil)
		if err != nil {
			return s, err
		}
		s.Millis = figures.Milliseconds(took)
		took, err = w.flip(ctx, target, watchedByBench, turn%2 == 1, func() error { return w.note(ctx, target, turn%2 == 1) })
		s.ReferenceMillis = figures.Milliseconds(took)
		return s, err
	})
}

// watchDeployments makes Deployments and their ManagedResources, those of the reference included.
func (w *world) watchDeployments(ctx context.Context, target *testbed.Cluster) error {
	ns := sourceNamespace(target)
	for i := range watchedCount {
		name := fmt.Sprint(watchedPrefix, i)
		if err := w.create(ctx, target, name, []string{withoutPods(name)}); err != nil {
			return err
		}
		if _, err := w.observer.Await(ctx, testbed.ManagedResourceRef(ns, name), applied); err != nil {
			return err
		}
		if err := report(ctx, target, name, true); err != nil {
			return err
		}
	}
	for i := range watchedCount {
		if _, err := w.observer.Await(ctx, testbed.ManagedResourceRef(ns, fmt.Sprint(watchedPrefix, i)), func(
			e testbed.Entry) bool {
			return e.Is(string(resourcesv1alpha1.ConditionReady), string(resourcesv1alpha1.ConditionTrue))
		}); err != nil {
			return err
		}
	}
	if err := target.Client.Create(ctx, decode(withoutPods(watchedByBench))); err != nil {
		return fmt.Errorf("creating the Deployment of the reference: %w", err)
	}
	if err := report(ctx, target, watchedByBench, true); err != nil {
		return err
	}
	foreign := testbed.ManagedResource(ns, watchedByBench)
	foreign.Spec.Class = new(foreignClass)
	if err := w.source.Client.Create(ctx, foreign); err != nil {
		return fmt.Errorf("creating the ManagedResource of the reference: %w", err)
	}
	return w.note(ctx, target, true)
}

// withoutPods is a Deployment that is rolled out as soon as its status says so: there is no controller here.
func withoutPods(name string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":%q,"labels":{"app":"bench"}},"spec":{"replicas":0,"selector":{"matchLabels":{"bench":%q}},`+
		`"template":{"metadata":{"labels":{"bench":%q}},"spec":{"containers":[{"name":"main","image":"main:1.0"}]}}}}`, namespace, name, name, name)
}

// report writes the status of a Deployment.
func report(ctx context.Context, target *testbed.Cluster, name string, available bool) error {
	status, reason := "False", "MinimumReplicasUnavailable"
	if available {
		status, reason = "True", "MinimumReplicasAvailable"
	}
	patch := fmt.Sprintf(`{"status":{"observedGeneration":1,"conditions":[{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"done"},`+
		`{"type":"Available","status":%q,"reason":%q,"message":"as said"}]}}`, status, reason)
	object := object(deploymentKind, types.NamespacedName{Namespace: namespace, Name: name})
	if err := target.Client.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("deployment-controller")); err != nil {
		return fmt.Errorf("reporting the status of Deployment %s: %w", name, err)
	}
	return nil
}

// note says on the ManagedResource of the reference what the hub says on its own: all that is needed, known beforehand.
func (w *world) note(ctx context.Context, target *testbed.Cluster, available bool) error {
	status, now := resourcesv1alpha1.ConditionFalse, time.Now()
	if available {
		status = resourcesv1alpha1.ConditionTrue
	}
	mr := testbed.ManagedResource(sourceNamespace(target), watchedByBench)
	base := mr.DeepCopy()
	for _, t := range []resourcesv1alpha1.ConditionType{resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionReady} {
		mr.Status.Conditions = resourcesv1alpha1.SetCondition(now, mr.Status.Conditions, t, status, "Noted", "as seen")
	}
	if err := w.source.Client.Status().Patch(ctx, mr, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("writing the condition of the reference: %w", err)
	}
	return nil
}

// flip changes the status of a Deployment and measures until the ManagedResource of the same name says so, as a watch on
// the source shows. relay, if not nil, is called when a watch on the target shows the change.
func (w *world) flip(ctx context.Context, target *testbed.Cluster, name string, available bool, relay func() error) (
	time.Duration, error) {
	here, err := testbed.Follow(ctx, w.source, managedResourceKind,
		types.NamespacedName{Namespace: sourceNamespace(target), Name: name})
	if err != nil {
		return 0, err
	}
	defer here.Stop()
	var there *testbed.Follower
	if relay != nil {
		if there, err = testbed.Follow(ctx, target, deploymentKind,
			types.NamespacedName{Namespace: namespace, Name: name}); err != nil {
			return 0, err
		}
		defer there.Stop()
	}
	want := string(resourcesv1alpha1.ConditionFalse)
	if available {
		want = string(resourcesv1alpha1.ConditionTrue)
	}
	if err := report(ctx, target, name, available); err != nil {
		return 0, err
	}
	answered := time.Now()
	if relay != nil {
		if _, err := there.Until(ctx, func(u *unstructured.Unstructured) bool {
			return testbed.Entry{Object: u}.Is("Available", want)
		}); err != nil {
			return 0, err
		}
		if err := relay(); err != nil {
			return 0, err
		}
	}
	seen, err := here.Until(ctx, func(u *unstructured.Unstructured) bool {
		return testbed.Entry{Object: u}.Is(string(resourcesv1alpha1.ConditionResourcesHealthy), want)
	})
	return max(0, seen.Sub(answered)), err
}
