package webhookregistration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// maxMessage bounds the message of the condition, in bytes.
const maxMessage = 2 << 10

func conditionOf(tc *hubv1alpha1.TargetCluster) *metav1.Condition {
	return meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionWebhooksRegistered)
}

// condition is that of a plan which is carried out.
func (p *plan) condition(name string) *metav1.Condition {
	var parts []string
	if len(p.calls) > 0 {
		parts = append(parts,
			"the API server of the target calls the hub, see the configurations of webhooks "+name+" there")
	}
	if len(p.replaced) > 0 {
		parts = append(parts, "admission policies "+name+"-* of the target replace the webhooks "+names(p.replaced))
	}
	condition := &metav1.Condition{
		Status: metav1.ConditionTrue, Reason: hubv1alpha1.ReasonWebhooksRegistered, Message: strings.Join(parts, "; "),
	}
	if len(p.missing) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, hubv1alpha1.ReasonPoliciesNotServed
		p.complete(condition)
	}
	return condition
}

// complete adds to a condition what cannot be done as the settings demand.
func (p *plan) complete(condition *metav1.Condition) {
	if len(p.missing) == 0 {
		return
	}
	if condition.Message != "" {
		condition.Message += "; "
	}
	condition.Message += "webhooks whose mode is Policy are not registered: " + strings.Join(p.missing, ", ")
}

func names(webhooks []admission.Webhook) string {
	list := make([]string, 0, len(webhooks))
	for i := range webhooks {
		list = append(list, webhooks[i].Name)
	}
	return strings.Join(list, ", ")
}

// report writes the condition of a target, if it says something new; nil removes it.
func (r *reconciler) report(ctx context.Context, target *multicluster.Target, condition *metav1.Condition) error {
	tc := r.targetCluster(ctx, target.Key())
	if tc == nil {
		return nil
	}
	return r.set(ctx, tc, condition, target.Valid)
}

// set does the same for a TargetCluster, which belongs to the informer. valid, if it is not nil, is asked right before
// the write.
func (r *reconciler) set(
	ctx context.Context, tc *hubv1alpha1.TargetCluster, condition *metav1.Condition, valid func() error,
) error {
	if tc.DeletionTimestamp != nil {
		return nil
	}
	before := conditionOf(tc)
	changed := tc.DeepCopy()
	if condition == nil {
		meta.RemoveStatusCondition(&changed.Status.Conditions, hubv1alpha1.ConditionWebhooksRegistered)
	} else {
		condition.Type, condition.ObservedGeneration = hubv1alpha1.ConditionWebhooksRegistered, tc.Generation
		condition.Message = untrusted.Text(untrusted.Message(condition.Message), maxMessage)
		condition.LastTransitionTime = metav1.NewTime(r.Environment.Clock.Now().Truncate(time.Second))
		meta.SetStatusCondition(&changed.Status.Conditions, *condition)
	}
	if slices.Equal(tc.Status.Conditions, changed.Status.Conditions) {
		return nil
	}
	if valid != nil {
		if err := valid(); err != nil {
			return err
		}
	}
	patch := client.MergeFromWithOptions(tc, client.MergeFromWithOptimisticLock{})
	if err := r.Source.Status().Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the condition of the TargetCluster: %w", err)
	}
	say := func(kind, reason, message string) {
		r.Environment.Events.Eventf(tc, nil, kind, reason, action, "%s", message)
	}
	is := func(c *metav1.Condition, status metav1.ConditionStatus) bool { return c != nil && c.Status == status }
	switch {
	case condition == nil:
		say(corev1.EventTypeNormal, reasonDetached, "The target no longer has webhooks or policies of the hub.")
	case condition.Reason == hubv1alpha1.ReasonWebhooksLeftBehind:
		say(corev1.EventTypeWarning, reasonLeftBehind, untrusted.Message(condition.Message))
	case is(condition, metav1.ConditionTrue) && !is(before, metav1.ConditionTrue):
		say(corev1.EventTypeNormal, reasonAttached, condition.Message)
	case is(condition, metav1.ConditionFalse) && !is(before, metav1.ConditionFalse):
		say(corev1.EventTypeWarning, reasonFailed, untrusted.Message(condition.Message))
	}
	return nil
}
