package managedresource

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/apply"
	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
)

// Reasons of events on ManagedResources.
const (
	eventDriftCorrected = "DriftCorrected"
	eventReleased       = "ObjectsReleased"
	eventUnknownFields  = "UnknownFields"
	eventApplied        = "Applied"
	eventTakenBack      = "FieldsTakenBack"
)

// noteLimit is the length of an event's note that API servers accept.
const noteLimit = 1024

// recorder writes events. The events client aggregates repeated ones into series.
type recorder struct{ events.EventRecorder }

func (r *recorder) write(mr *resourcesv1alpha1.ManagedResource, kind, reason, action, note string) {
	if len(note) > noteLimit {
		note = note[:noteLimit-3] + "..."
	}
	r.Eventf(mr, nil, kind, reason, action, "%s", note)
}

// corrected tells what was changed in the target, by whom, and that it is undone.
func (r *recorder) corrected(mr *resourcesv1alpha1.ManagedResource, d drift) {
	note := fmt.Sprintf("%s was changed", d.intent.Key)
	if d.created {
		note = fmt.Sprintf("%s was deleted; it is created again", d.intent.Key)
	}
	if by := describeForeign(d.by); by != "" {
		note += " by " + by
	}
	r.write(mr, corev1.EventTypeNormal, eventDriftCorrected, "Apply", note)
}

// released lists objects that stay in a target because nobody can or may delete them there.
func (r *recorder) released(mr *resourcesv1alpha1.ManagedResource, why string, refs []resourcesv1alpha1.ObjectReference) {
	r.write(mr, corev1.EventTypeWarning, eventReleased, "Release", fmt.Sprintf("Not deleted because %s: %s", why, orphans(refs, 20)))
}

// unknownFields warns of parts of a manifest that the target's API server does not know.
func (r *recorder) unknownFields(mr *resourcesv1alpha1.ManagedResource, key inventory.Key, fields []string) {
	r.write(mr, corev1.EventTypeWarning, eventUnknownFields, "Apply",
		fmt.Sprintf("%s is applied without fields that the target's API does not know: %v", key, fields))
}

// takenBack tells that payload of others was removed or taken over while the manifest was applied.
func (r *recorder) takenBack(mr *resourcesv1alpha1.ManagedResource, o apply.Outcome) {
	r.write(mr, corev1.EventTypeNormal, eventTakenBack, "Apply",
		fmt.Sprintf("%s had fields that the manifest does not have, set by %s", o.Key, describeForeign(o.TakenBack)))
}

// applied tells the result of a run when it differs from the one before.
func (r *recorder) applied(mr *resourcesv1alpha1.ManagedResource, c concluded) {
	if c.status == resourcesv1alpha1.ConditionFalse {
		r.write(mr, corev1.EventTypeWarning, c.reason, eventApplied, c.message)
	}
}
