package targetcluster

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/targetcluster/care"
)

// keep leaves a condition as it is, with the time since when its check fails, until an event says more.
func (c *conditions) keep(conditionType string) {
	if since, failing := c.failed[conditionType]; failing && c.has(conditionType) {
		c.failing[conditionType] = since
	}
}

// components sums up the ManagedResources.
func (c *conditions) components(o observation) {
	if !o.membersKnown {
		for _, condition := range c.list {
			if care.Concerns(condition.Type) {
				c.keep(condition.Type)
			}
		}
		return
	}
	checks, due := care.RollUp(care.Situation{
		Now: o.now, Namespace: o.namespace, Members: o.members, Down: o.down(), ProgressingLimit: c.rules.progressingLimit,
	})
	if !due.IsZero() {
		c.at(due)
	}
	c.list = slices.DeleteFunc(c.list, func(condition metav1.Condition) bool {
		_, exists := checks[condition.Type]
		return care.Concerns(condition.Type) && !exists
	})
	for _, conditionType := range slices.Sorted(maps.Keys(checks)) {
		check := checks[conditionType]
		if o.connecting() && check.Reason == hubv1alpha1.ReasonTargetUnreachable && c.has(conditionType) {
			c.keep(conditionType) // it is known in a moment
			continue
		}
		threshold, listed := c.rules.thresholds[conditionType]
		if !listed && care.IsOwn(conditionType) {
			threshold = care.DefaultThreshold
		}
		c.check(conditionType, check, threshold)
	}
}

// hubReady reports whether the hub itself does its work on the target, and expires the other conditions if it does not.
// The first monitor period of a term does not count.
func (c *conditions) hubReady(o observation) {
	const conditionType = hubv1alpha1.ConditionHubReady
	idle, grace := o.now.Sub(o.sign), c.rules.monitor-o.now.Sub(c.rules.termBegan)
	switch {
	case idle > c.rules.monitor && grace > 0:
		c.at(o.now.Add(grace))
	case idle > c.rules.monitor:
		c.set(conditionType, metav1.ConditionUnknown, hubv1alpha1.ReasonTargetStatusUnknown,
			"Hub stopped posting status for this target. Its last sign of life is from "+timeText(o.sign)+".")
		if left := c.rules.monitor + c.rules.targetMonitor - idle; left > 0 {
			c.at(o.now.Add(left))
		} else {
			c.expire(o.sign)
		}
	case o.connecting():
		// It stays as it was.
	case o.registered && (o.connected() || o.status.State == clustercache.StateDraining):
		c.set(conditionType, metav1.ConditionTrue, hubv1alpha1.ReasonHubReady, "Hub is posting ready status.")
	default:
		c.set(conditionType, metav1.ConditionUnknown, hubv1alpha1.ReasonTargetUnreachable,
			"the hub works, and does not reach the target: "+o.down())
	}
}

// expire sets all other conditions to Unknown.
func (c *conditions) expire(since time.Time) {
	for _, condition := range c.list {
		if condition.Type != hubv1alpha1.ConditionHubReady {
			c.set(condition.Type, metav1.ConditionUnknown, hubv1alpha1.ReasonStatusUnknown,
				"the hub has not looked after the target since "+timeText(since))
		}
	}
	clear(c.failing)
}

// summary is the value of the status label: what the worst condition says. It is empty if there is no condition.
func summary(conditions []metav1.Condition) string {
	worst := -1
	order := []string{hubv1alpha1.StatusHealthy, hubv1alpha1.StatusProgressing, hubv1alpha1.StatusUnknown,
		hubv1alpha1.StatusUnhealthy}
	for _, condition := range conditions {
		value := hubv1alpha1.StatusHealthy
		switch {
		case condition.Status == metav1.ConditionFalse:
			value = hubv1alpha1.StatusUnhealthy
		case isFailing(condition.Reason):
			value = hubv1alpha1.StatusProgressing
		case condition.Status != metav1.ConditionTrue:
			value = hubv1alpha1.StatusUnknown
		}
		worst = max(worst, slices.Index(order, value))
	}
	if worst < 0 {
		return ""
	}
	return order[worst]
}

// isFailing reports whether a reason is one of a check that fails for less than its threshold.
func isFailing(reason string) bool {
	return slices.Contains([]string{
		hubv1alpha1.ReasonProbeFailing, hubv1alpha1.ReasonNodesFailing, hubv1alpha1.ReasonManagedResourcesFailing,
	}, reason)
}
