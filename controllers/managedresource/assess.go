package managedresource

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/health"
	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
)

var semantic = equality.Semantic

// problemLimit bounds how many objects a condition's message names.
const problemLimit = 20

// evaluate writes what the watches say about health and progress. It sends nothing to the target, and nothing to the
// source unless a condition changes.
func (r *reconciler) evaluate(ctx context.Context, work *run, status clustercache.Status) (reconcile.Result, error) {
	if status.State != clustercache.StateConnected {
		return r.unreachable(ctx, work, status)
	}
	hibernated := r.hibernated(ctx, work)
	err := r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) { r.assess(s, work, status, hibernated) })
	return r.settled(work, r.tracker.Judge(work.name)), err
}

// evaluateApplied is evaluate for a ManagedResource that is known to be applied, whatever its condition said in the
// meantime: that it had no target, or was ignored.
func (r *reconciler) evaluateApplied(ctx context.Context, work *run, status clustercache.Status) (reconcile.Result, error) {
	if appliedTrue(work.mr) && len(r.memory.yields(work.name)) == 0 {
		return r.evaluate(ctx, work, status)
	}
	hibernated := r.hibernated(ctx, work)
	err := r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		c := conclusion(&plan{}, nil, nil, nil, r.memory.yields(work.name))
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesApplied, c.status, c.reason, c.message)
		r.assess(s, work, status, hibernated)
	})
	return r.settled(work, r.tracker.Judge(work.name)), err
}

// problem is one object that is not as it should be.
type problem struct {
	key     inventory.Key
	reason  string
	message string
}

// assess sets ResourcesHealthy and ResourcesProgressing from what was observed. While the watches have not shown the last
// write of some object, the conditions stay pending: nothing is claimed that was not seen.
func (r *reconciler) assess(s *resourcesv1alpha1.ManagedResourceStatus, work *run, status clustercache.Status, hibernated bool) {
	if status.State != clustercache.StateConnected {
		if !hibernated && status.State != clustercache.StateConnecting {
			r.setUnreachable(s, work, status)
		}
		return
	}
	applied := resourcesv1alpha1.GetCondition(s.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
	if applied == nil || applied.Status != resourcesv1alpha1.ConditionTrue &&
		applied.Reason != resourcesv1alpha1.ReasonDecodingFailed && applied.Reason != resourcesv1alpha1.ReasonOwnedByOther {
		return // spec/managedresource.md 3.1: health is said of what was applied
	}
	var unhealthy, progressing []problem
	verdict := r.tracker.Judge(work.name)
	podsUnknown := verdict.PodsUnknown
	work.unjudged = verdict.Unseen > 0 || !verdict.Synced || podsUnknown
	for _, ref := range s.Resources {
		key := inventory.KeyOf(ref)
		obs, found, synced := r.tracker.Observed(work.name, key)
		switch {
		case !synced:
			continue // the verdict is not synced either
		case !found:
			if verdict.Unseen == 0 {
				unhealthy = append(unhealthy, problem{key, key.Kind + "Missing", fmt.Sprintf("%s does not exist.", key)})
			}
			continue
		case obs.Judgement == nil:
			continue
		}
		if j := obs.Judgement; j.Health.Checked && !j.Health.Healthy {
			unhealthy = append(unhealthy, problem{key, key.Kind + "Unhealthy", fmt.Sprintf("%s is unhealthy: %s", key, j.Health.Message)})
		}
		message, yes, known := r.progressing(work, key, obs.Judgement.Progress)
		podsUnknown = podsUnknown || !known
		if yes {
			progressing = append(progressing, problem{key, key.Kind + "Progressing", fmt.Sprintf("%s is progressing: %s", key, message)})
		}
	}
	if verdict.Unseen > 0 || !verdict.Synced || len(verdict.Failed) > 0 {
		if len(verdict.Failed) > 0 {
			r.setCondition(s, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonHealthCheckError, failedWatches(verdict.Failed))
		}
		return
	}
	if len(unhealthy) > 0 {
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionFalse, unhealthy[0].reason, messages(unhealthy))
	} else {
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionTrue, resourcesv1alpha1.ReasonResourcesHealthy, "All resources are healthy.")
	}
	switch {
	case len(progressing) > 0:
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionTrue, progressing[0].reason, messages(progressing))
	case podsUnknown: // what was said before is the best that is known
	default:
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonResourcesRolledOut, "All resources have been fully rolled out.")
	}
}

// progressing tells whether an object is being rolled out; the pods of a Deployment have the last word. known is false
// while they are not known.
func (r *reconciler) progressing(work *run, key inventory.Key, p health.ProgressResult) (message string, yes, known bool) {
	if !p.CountPods {
		return p.Message, p.Progressing, true
	}
	pods, synced := r.tracker.Pods(work.target)
	if !synced {
		return "", false, false
	}
	done, message := health.PodsRolledOut(p, pods.In(key.Namespace))
	return message, !done, true
}

func messages(problems []problem) string {
	lines := make([]string, 0, min(len(problems), problemLimit)+1)
	for i, p := range problems {
		if i == problemLimit {
			lines = append(lines, fmt.Sprintf("... and %d more", len(problems)-i))
			break
		}
		lines = append(lines, p.message)
	}
	return strings.Join(lines, "\n")
}

func failedWatches(failed map[string]error) string {
	problems := make([]problem, 0, len(failed))
	for _, name := range sortedKeys(failed) {
		problems = append(problems, problem{message: fmt.Sprintf("%s cannot be watched: %v", name, failed[name])})
	}
	return messages(problems)
}
