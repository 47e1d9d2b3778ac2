package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// TargetClusterOf refers to what the hub says of a target.
func TargetClusterOf(target *fleetsim.Target) testbed.Ref {
	return testbed.TargetClusterRef(Namespace(target), target.Name())
}

// TargetClustersOf is TargetClusterOf for all of them.
func TargetClustersOf(targets []*fleetsim.Target) []testbed.Ref {
	refs := make([]testbed.Ref, 0, len(targets))
	for _, target := range targets {
		refs = append(refs, TargetClusterOf(target))
	}
	return refs
}

// managedResources are those that the source has for targets.
func (r *Rig) managedResources(targets []*fleetsim.Target) []testbed.Ref {
	namespaces := map[string]bool{}
	for _, target := range targets {
		namespaces[Namespace(target)] = true
	}
	var refs []testbed.Ref
	for ref := range r.Observer.Entries() {
		if ref.Kind == testbed.ManagedResourceKind && namespaces[ref.Namespace] {
			refs = append(refs, ref)
		}
	}
	return refs
}

// AwaitStill waits until no ManagedResource has changed for a while: what the hub knows of them it has written down
// then.
func (r *Rig) AwaitStill(ctx context.Context, patience, while time.Duration) error {
	began := time.Now()
	return r.Until(ctx, patience, while/10, fmt.Sprintf("nothing has been written to ManagedResources for %s", while),
		func() (bool, error) {
			return time.Since(began) > while && time.Since(r.Observer.Latest()) > while, nil
		})
}

// Is reports whether a TargetCluster has a condition with this status.
func Is(condition string, status metav1.ConditionStatus) func(client.Object) bool {
	return func(object client.Object) bool {
		tc, ok := object.(*hubv1alpha1.TargetCluster)
		return ok && meta.IsStatusConditionPresentAndEqual(tc.Status.Conditions, condition, status)
	}
}

// Applied reports whether a ManagedResource is applied as it is now, and noted.
func Applied(object client.Object) bool {
	return has(object, resourcesv1alpha1.ConditionResourcesApplied) &&
		object.GetAnnotations()[hubv1alpha1.AppliedAnnotation] != ""
}

// Ready reports whether a ManagedResource is ready as it is now.
func Ready(object client.Object) bool { return has(object, resourcesv1alpha1.ConditionReady) }

// Gone reports whether there is no object.
func Gone(object client.Object) bool { return object == nil }

func has(object client.Object, condition resourcesv1alpha1.ConditionType) bool {
	mr, ok := object.(*resourcesv1alpha1.ManagedResource)
	if !ok || mr.Status.ObservedGeneration != mr.Generation {
		return false
	}
	c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, condition)
	return c != nil && c.Status == resourcesv1alpha1.ConditionTrue
}

// Describe says for people what the source says of a target and its ManagedResources.
func (r *Rig) Describe(target *fleetsim.Target) string {
	entries := r.Observer.Entries()
	var lines []string
	for _, ref := range append(r.managedResources([]*fleetsim.Target{target}), TargetClusterOf(target)) {
		lines = append(lines, fmt.Sprintf("%s %s", ref, entries[ref].Describe()))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}
