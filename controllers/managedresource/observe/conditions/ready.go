package conditions

import (
	"fmt"
	"slices"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// Condition is the value of a condition.
type Condition struct {
	Status          resourcesv1alpha1.ConditionStatus
	Reason, Message string
}

// unreachable are reasons that take precedence over all others: as long as the target does not answer, the rest is
// outdated.
var unreachable = []string{
	resourcesv1alpha1.ReasonTargetUnreachable, resourcesv1alpha1.ReasonTargetRefused,
	resourcesv1alpha1.ReasonIdentityChanged,
}

// IsSilent reports whether a condition is unknown because the target cannot be asked.
func IsSilent(c *resourcesv1alpha1.Condition) bool {
	return c != nil && c.Status == resourcesv1alpha1.ConditionUnknown && slices.Contains(unreachable, c.Reason)
}

// parts are the conditions that Ready sums up, in the order in which their problems matter: what is not applied cannot
// be healthy, and what is not healthy is not rolled out either.
var parts = []struct {
	conditionType resourcesv1alpha1.ConditionType
	good          resourcesv1alpha1.ConditionStatus
}{
	{resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue},
	{resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionTrue},
	{resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionFalse},
}

// Ready sums up the other conditions: it is the first problem to solve.
func Ready(conditions []resourcesv1alpha1.Condition, generation, observed int64) Condition {
	var problem *resourcesv1alpha1.Condition
	var missing resourcesv1alpha1.ConditionType
	for _, part := range parts {
		c := resourcesv1alpha1.GetCondition(conditions, part.conditionType)
		switch {
		case c == nil:
			if missing == "" {
				missing = part.conditionType
			}
		case IsSilent(c) && !IsSilent(problem), problem == nil && c.Status != part.good:
			problem = c
		}
	}
	applied := resourcesv1alpha1.GetCondition(conditions, resourcesv1alpha1.ConditionResourcesApplied)
	switch {
	case problem == nil && applied != nil && applied.Reason == resourcesv1alpha1.ReasonManagedResourceIgnored:
		return Condition{resourcesv1alpha1.ConditionTrue, applied.Reason, applied.Message} // whatever its objects are like
	case problem != nil:
		status := resourcesv1alpha1.ConditionFalse
		if problem.Status == resourcesv1alpha1.ConditionUnknown {
			status = resourcesv1alpha1.ConditionUnknown
		}
		return Condition{status, problem.Reason, headline(problem.Message)}
	case missing != "":
		return Condition{resourcesv1alpha1.ConditionUnknown, resourcesv1alpha1.ReasonChecksPending,
			fmt.Sprintf("%s is not known yet.", missing)}
	case observed != generation:
		return Condition{resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonApplyProgressing,
			"The present generation is not applied yet."}
	}
	return Condition{resourcesv1alpha1.ConditionTrue, "Ready", "All resources are applied, healthy and rolled out."}
}
