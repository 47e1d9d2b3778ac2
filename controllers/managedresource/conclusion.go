package managedresource

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/apply"
	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
	"github.com/trellis-hub/trellis/controllers/managedresource/ownership"
	"github.com/trellis-hub/trellis/controllers/managedresource/prune"
)

// concluded is the value of ResourcesApplied after a run.
type concluded struct {
	status          resourcesv1alpha1.ConditionStatus
	reason, message string
}

// conclusion sums up a run. What failed comes first, then what could not be read, then what is still going away.
func conclusion(p *plan, failures []apply.Outcome, pending []prune.Outcome, releases map[inventory.Key]error, yields map[inventory.Key]types.NamespacedName) concluded {
	var lines []string
	c := concluded{status: resourcesv1alpha1.ConditionTrue, reason: resourcesv1alpha1.ReasonApplySucceeded, message: "All resources are applied."}
	fail := func(reason string) {
		if c.reason == resourcesv1alpha1.ReasonApplySucceeded {
			c.status, c.reason = resourcesv1alpha1.ConditionFalse, reason
		}
	}
	applyLines := slices.Clone(p.faults)
	// Waiting for a deletion is no fault, but it must not read as success either. Real failures come first.
	waiting := func(o apply.Outcome) int { return map[bool]int{true: 1}[errors.Is(o.Err, apply.ErrTerminating)] }
	slices.SortStableFunc(failures, func(a, b apply.Outcome) int { return cmp.Compare(waiting(a), waiting(b)) })
	for _, o := range failures {
		applyLines = append(applyLines, fmt.Sprintf("error during apply of object %q: %v", describeKey(o.Key), o.Err))
	}
	if len(applyLines) > 0 {
		fail(resourcesv1alpha1.ReasonApplyFailed)
		lines = append(lines, "Could not apply all new resources: "+bounded(applyLines))
	}
	if len(releases) > 0 {
		fail(resourcesv1alpha1.ReasonReleaseOfOrphanedResourcesFailed)
		var texts []string
		for _, k := range sortedByInventory(releases) {
			texts = append(texts, releases[k].Error())
		}
		lines = append(lines, "Could not release all orphaned resources: "+bounded(texts))
	}
	if p.decoding != "" {
		fail(resourcesv1alpha1.ReasonDecodingFailed)
		lines = append(lines, "Could not decode all new resources: "+p.decoding)
	}
	if len(yields) > 0 {
		fail(resourcesv1alpha1.ReasonOwnedByOther)
		lines = append(lines, "Left some resources to other ManagedResources: "+bounded(ownedByOther(yields)))
	}
	if len(pending) > 0 {
		if c.reason == resourcesv1alpha1.ReasonApplySucceeded {
			c.status, c.reason = resourcesv1alpha1.ConditionProgressing, resourcesv1alpha1.ReasonDeletionPending
		}
		lines = append(lines, pendingMessage(pending))
	}
	if len(lines) > 0 {
		c.message = strings.Join(lines, "\n")
	}
	return c
}

// pendingMessage lists what is still there, in the order of the inventory, so that the text does not change by itself.
func pendingMessage(pending []prune.Outcome) string {
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
	return "Could not clean all old resources: " + bounded(texts)
}

// bounded joins errors the way consumers know them, at most problemLimit.
func bounded(texts []string) string {
	if len(texts) == 1 {
		return "1 error occurred: " + texts[0]
	}
	shown := texts[:min(len(texts), problemLimit)]
	out := fmt.Sprintf("%d errors occurred: [%s", len(texts), strings.Join(shown, ", "))
	if rest := len(texts) - len(shown); rest > 0 {
		out += fmt.Sprintf(", and %d more", rest)
	}
	return out + "]"
}

func describeKey(k inventory.Key) string {
	group := k.Group
	if group != "" {
		group += "/"
	}
	return strings.Join([]string{group + k.Kind, k.Namespace, k.Name}, "/")
}

// describeForeign names managers with a few of their fields.
func describeForeign(foreign []ownership.Foreign) string {
	byManager := map[string][]string{}
	for _, f := range foreign {
		byManager[f.Manager] = append(byManager[f.Manager], f.Paths(5)...)
	}
	var out []string
	for _, m := range sortedKeys(byManager) {
		paths := slices.Compact(slices.Sorted(slices.Values(byManager[m])))
		if len(paths) > 5 {
			paths = append(paths[:5], "...")
		}
		text := m
		if m == "" {
			text = "somebody who left no name"
		}
		if len(paths) > 0 {
			text += " (" + strings.Join(paths, ", ") + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func sortedByInventory[V any](m map[inventory.Key]V) []inventory.Key {
	return slices.SortedFunc(maps.Keys(m), inventory.Key.Compare)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
