package conditions

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

// Run lists what failed, or is not done yet, when a ManagedResource was applied.
type Run struct {
	// Faults say what cannot be applied, whatever the target says. Undecoded says what could not be read.
	Faults    []string
	Undecoded string
	// Failures are of objects that could not be applied.
	Failures []apply.Outcome
	// Pending are deletions that are not done.
	Pending []prune.Outcome
	// Unreleased are objects that are not managed any longer and still bear our marks.
	Unreleased map[inventory.Key]error
	// Yielded are objects that were left to other ManagedResources.
	Yielded map[inventory.Key]types.NamespacedName
}

// Applied is the value of ResourcesApplied. What failed comes first, then what could not be read, then what is still
// going away.
func (r *Run) Applied() Condition {
	c := Condition{resourcesv1alpha1.ConditionTrue, resourcesv1alpha1.ReasonApplySucceeded, "All resources are applied."}
	var paragraphs []string
	say := func(status resourcesv1alpha1.ConditionStatus, reason, text string) {
		if len(paragraphs) == 0 {
			c.Status, c.Reason = status, reason
		}
		paragraphs = append(paragraphs, text)
	}
	if texts := append(slices.Clone(r.Faults), failures(r.Failures)...); len(texts) > 0 {
		say(resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonApplyFailed,
			"Could not apply all new resources: "+List(texts))
	}
	if len(r.Unreleased) > 0 {
		var texts []string
		for _, k := range byInventory(r.Unreleased) {
			texts = append(texts, r.Unreleased[k].Error())
		}
		say(resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonReleaseOfOrphanedResourcesFailed,
			"Could not release all orphaned resources: "+List(texts))
	}
	if r.Undecoded != "" {
		say(resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonDecodingFailed,
			"Could not decode all new resources: "+r.Undecoded)
	}
	if len(r.Yielded) > 0 {
		texts := make([]string, 0, len(r.Yielded))
		for _, key := range byInventory(r.Yielded) {
			texts = append(texts, fmt.Sprintf("%s is applied by ManagedResource %s, which listed it last", key, r.Yielded[key]))
		}
		say(resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonOwnedByOther,
			"Left some resources to other ManagedResources: "+List(texts))
	}
	if len(r.Pending) > 0 {
		say(resourcesv1alpha1.ConditionProgressing, resourcesv1alpha1.ReasonDeletionPending, Pending(r.Pending))
	}
	if len(paragraphs) > 0 {
		c.Message = strings.Join(paragraphs, "\n")
	}
	return c
}

// Pending lists what is still there, in the order of the inventory, so that the text does not change by itself.
func Pending(pending []prune.Outcome) string {
	texts := make([]string, 0, len(pending))
	for _, o := range pending {
		text := fmt.Sprintf("deletion of %q is still pending", inventory.Describe(o.Ref))
		if o.Reason != "" {
			text += ": " + o.Reason
		}
		if o.Err != nil {
			text += ": " + o.Err.Error()
		}
		texts = append(texts, text)
	}
	return "Could not clean all old resources: " + List(texts)
}

// failures are the texts of failed applies in the form that consumers match, those first that may have caused others.
// What fails many objects in the same way, and is no fault of theirs, is reported once.
func failures(outcomes []apply.Outcome) []string {
	outcomes = slices.Clone(outcomes)
	slices.SortStableFunc(outcomes, func(a, b apply.Outcome) int { return cmp.Compare(order(a), order(b)) })
	texts := make([]string, 0, len(outcomes))
	indices := map[string]int{} // of what is common to several, in texts
	more := map[int]int{}
	for _, o := range outcomes {
		if common := commonCause(o); common != "" {
			if i, listed := indices[common]; listed {
				more[i]++
				continue
			}
			indices[common] = len(texts)
		}
		texts = append(texts, fmt.Sprintf("error during apply of object %q: %v", describe(o.Key), o.Err))
	}
	for i, n := range more {
		texts[i] += fmt.Sprintf(" (%d more objects fail for the same reason)", n)
	}
	return texts
}

// commonCause names what keeps an object, and others with it, from being applied: that their namespace ends or does
// not exist, or the failure of another object. It is empty if the failure is its own.
func commonCause(o apply.Outcome) string {
	switch {
	case apierrors.HasStatusCause(o.Err, corev1.NamespaceTerminatingCause):
		return "the end of namespace " + o.Key.Namespace
	case isWithoutNamespace(o.Err):
		return "no namespace " + o.Key.Namespace
	case errors.Is(o.Err, apply.ErrNotTried):
		return o.Err.Error()
	}
	return ""
}

// order is less for what may be the cause of other failures, and greater for what may be their consequence.
func order(o apply.Outcome) int {
	switch err := o.Err; {
	case errors.Is(err, apply.ErrTerminating):
		return 5 // that is no fault, but it must not read as success either
	case errors.Is(err, apply.ErrNotTried), meta.IsNoMatchError(err), isWithoutNamespace(err):
		return 4
	case apierrors.IsUnauthorized(err):
		return 0
	case apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook"):
		return 1
	default:
		return 2 + need(o.Key)
	}
}

// Lacks reports whether an object failed because the target lacks its kind or its namespace, which others may create.
func Lacks(err error) bool { return meta.IsNoMatchError(err) || isWithoutNamespace(err) }

// isWithoutNamespace reports whether an answer says that the namespace of the object does not exist.
func isWithoutNamespace(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Group == "" && details.Kind == "namespaces"
}

func describe(k inventory.Key) string {
	group := k.Group
	if group != "" {
		group += "/"
	}
	return strings.Join([]string{group + k.Kind, k.Namespace, k.Name}, "/")
}

func byInventory[V any](m map[inventory.Key]V) []inventory.Key {
	return slices.SortedFunc(maps.Keys(m), inventory.Key.Compare)
}
