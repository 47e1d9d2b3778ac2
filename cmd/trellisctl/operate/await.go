package operate

import (
	"context"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// Say returns a condition of a ManagedResource as one line.
func Say(mr *resourcesv1alpha1.ManagedResource, conditionType resourcesv1alpha1.ConditionType) string {
	c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, conditionType)
	if c == nil {
		return "no hub has looked at it yet"
	}
	return c.Reason + ": " + cli.FirstLine(c.Message)
}

// is reports whether a condition has a status.
func is(mr *resourcesv1alpha1.ManagedResource, conditionType resourcesv1alpha1.ConditionType,
	status resourcesv1alpha1.ConditionStatus) bool {
	c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, conditionType)
	return c != nil && c.Status == status
}

// because reports whether a condition has a reason.
func because(mr *resourcesv1alpha1.ManagedResource, conditionType resourcesv1alpha1.ConditionType, reason string) bool {
	c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, conditionType)
	return c != nil && c.Reason == reason
}

// observed reports whether the hub has applied the current generation.
func observed(mr *resourcesv1alpha1.ManagedResource) bool {
	return mr.Status.ObservedGeneration == mr.Generation && mr.Generation > 0
}

// settled reports whether nothing is in progress.
func settled(mr *resourcesv1alpha1.ManagedResource) bool {
	return !because(mr, resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ReasonApplyProgressing) &&
		!because(mr, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ReasonChecksPending) &&
		resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionReady) != nil
}

// AwaitReady waits until the current generation of a ManagedResource is ready, or only applied. Problems may resolve
// themselves, so only the timeout ends the wait.
func AwaitReady(ctx context.Context, env *cli.Env, source *cli.Source, name string, timeout time.Duration,
	ready bool) error {
	var mr *resourcesv1alpha1.ManagedResource
	err := env.Await(ctx, timeout, func(ctx context.Context) (done bool, state string, err error) {
		if mr, err = source.ManagedResource(ctx, name); err != nil {
			return false, "", err
		}
		wanted := resourcesv1alpha1.ConditionResourcesApplied
		if ready {
			wanted = resourcesv1alpha1.ConditionReady
		}
		if is(mr, wanted, resourcesv1alpha1.ConditionTrue) && observed(mr) {
			return true, "", nil
		}
		if !observed(mr) && is(mr, wanted, resourcesv1alpha1.ConditionTrue) {
			return false, "waiting for the hub to apply the new content", nil
		}
		return false, "waiting for the ManagedResource: " + Say(mr, wanted), nil
	})
	if err != nil {
		return fmt.Errorf("managedResource %s: %w", name, err)
	}
	env.Note("managedresource/%s: %s", name, Say(mr, resourcesv1alpha1.ConditionReady))
	return nil
}
