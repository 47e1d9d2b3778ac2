package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
	"github.com/trellis-hub/trellis/engine/prune"
	"github.com/trellis-hub/trellis/untrusted"
)

// Reasons of events on ManagedResources.
const (
	eventDriftCorrected = "DriftCorrected"
	eventReleased       = "ObjectsReleased"
	eventUnknownFields  = "UnknownFields"
	eventDuplicates     = "DuplicateListKeys"
	eventRecreated      = "Recreated"
	eventApplied        = "Applied"
	eventTakenBack      = "FieldsTakenBack"
	eventPruned         = "Pruned"
	eventAllPruned      = "AllPruned"
	eventFinalized      = "FinalizersRemoved"

	eventDefaultNamespace = "DefaultNamespace"
)

// maxManagers is how many managers a text names.
const maxManagers = 10

// noteLimit is the length of an event's note that API servers accept.
const noteLimit = 1024

// Recorder writes events. The events client aggregates repeated ones into series and keeps the note of the first. What
// makes two events the same is everything but their notes, so an event about an object of the target refers to it, and
// to the fields that are concerned.
//
// An object that fails, drifts or is contested all the time must not flood the source: the events of a ManagedResource
// are rate-limited, except for the last ones about its objects. It counts in metrics what it writes events about.
type Recorder struct {
	events   events.EventRecorder
	clock    clock.PassiveClock
	metrics  *Metrics
	limiters *lru.Cache[types.UID, *rate.Limiter] // by the UID of the ManagedResource
}

// A ManagedResource writes that many events at once, and one more after each pause.
const (
	eventBurst = 25
	eventPause = 30 * time.Second
	// limiterLimit bounds the rate limiters that are kept. One that is forgotten starts again.
	limiterLimit = 4096
)

// NewRecorder returns a recorder that writes through another one.
func NewRecorder(r events.EventRecorder, c clock.PassiveClock, m *Metrics) *Recorder {
	limiters, err := lru.New[types.UID, *rate.Limiter](limiterLimit)
	if err != nil {
		panic(err) // of a size that is not positive
	}
	return &Recorder{events: r, clock: c, metrics: m, limiters: limiters}
}

func (r *Recorder) write(mr *resourcesv1alpha1.ManagedResource, about *corev1.ObjectReference, kind, reason, action,
	note string) {
	if r.allow(mr.UID) {
		r.send(mr, about, kind, reason, action, note)
	}
}

// allow reports whether a ManagedResource may write one more event.
func (r *Recorder) allow(mr types.UID) bool {
	limiter, known := r.limiters.Get(mr)
	if !known { // one worker at a time writes events of a ManagedResource
		limiter = rate.NewLimiter(rate.Every(eventPause), eventBurst)
		r.limiters.Add(mr, limiter)
	}
	return limiter.AllowN(r.clock.Now(), 1)
}

// Forget drops the rate limiter of a ManagedResource that goes, before those of thousands that are gone fill the cache.
func (r *Recorder) Forget(mr types.UID) { r.limiters.Remove(mr) }

func (r *Recorder) send(mr *resourcesv1alpha1.ManagedResource, about *corev1.ObjectReference, kind, reason, action,
	note string) {
	note = untrusted.Text(note, noteLimit)
	var related runtime.Object
	if about != nil {
		related = about
	}
	r.events.Eventf(mr, related, kind, reason, action, "%s", note)
}

// aboutObject refers to fields of an object of the target.
func aboutObject(mr *resourcesv1alpha1.ManagedResource, key inventory.Key, fields string) *corev1.ObjectReference {
	about := &corev1.ObjectReference{
		Kind: untrusted.Name(key.Kind), Namespace: untrusted.Name(key.Namespace), Name: untrusted.Name(key.Name),
		FieldPath: untrusted.Message(fields),
	}
	if ref := inventory.Index(mr.Status.Resources)[key]; ref != nil {
		about.APIVersion = untrusted.Name(ref.APIVersion)
	}
	return about
}

// Drift is one object that is not as it was accepted, with what a look at it showed.
type Drift struct {
	Intent  apply.Intent
	Created bool                // it is gone and will be created again
	By      []ownership.Foreign // which writers changed what, as far as known
	Owner   string              // that it named when it went, as the watches showed
}

// Corrected reports what was changed in the target, by which writer, and that it is undone.
func (r *Recorder) Corrected(mr *resourcesv1alpha1.ManagedResource, d Drift) {
	note := fmt.Sprintf("%s was changed", d.Intent.Key)
	if d.Created {
		note = fmt.Sprintf("%s was deleted; it is created again", d.Intent.Key)
	}
	by := describeForeign(d.By)
	if by != "" {
		note += " by " + by
	}
	switch why := d.deletedBy(); {
	case why != "":
		note += ", and will be deleted again by " + why
	case d.Created && d.Owner != "":
		note += fmt.Sprintf(". Another client had made %s its owner: if that does not exist, "+
			"it was the target's garbage collector", d.Owner)
	}
	r.write(mr, aboutObject(mr, d.Intent.Key, by), corev1.EventTypeNormal, eventDriftCorrected, "Apply", note)
}

// released lists objects that stay in a target because they cannot or may not be deleted there. It is the last event
// about them, so it is not rate limited.
func (r *Recorder) released(mr *resourcesv1alpha1.ManagedResource, why string,
	refs []resourcesv1alpha1.ObjectReference) {
	r.send(mr, nil, corev1.EventTypeWarning, eventReleased, "Release",
		fmt.Sprintf("Not deleted because %s: %s", why, orphans(refs, 20)))
}

// prunedNames is how many deleted objects an event names.
const prunedNames = 20

// Who returns the writers that changed an object, as far as they are known.
func (d Drift) Who() string {
	if why := d.deletedBy(); why != "" {
		return why
	}
	return describeForeign(d.By)
}

// deletedBy says of a deleted object what in its manifest has the target delete it by itself, again and again; empty
// if nothing has.
func (d Drift) deletedBy() string {
	obj := d.Intent.Object
	if !d.Created || obj == nil {
		return ""
	}
	ttl, has, _ := unstructured.NestedInt64(obj.Object, "spec", "ttlSecondsAfterFinished")
	if has && d.Intent.Key.GroupKind() == (schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}) {
		return fmt.Sprintf("the target's TTL controller, %d s after the Job has ended, "+
			"as ttlSecondsAfterFinished of the manifest says", ttl)
	}
	if owners := obj.GetOwnerReferences(); len(owners) > 0 {
		return fmt.Sprintf("the target's garbage collector, unless the owner exists that the manifest names: %s %s with UID %s",
			untrusted.Name(owners[0].Kind), untrusted.Name(owners[0].Name), untrusted.Name(string(owners[0].UID)))
	}
	return ""
}

// pruned reports which objects a run deleted. It refers to the first of them, so that it is not taken for the event
// before.
func (r *Recorder) pruned(mr *resourcesv1alpha1.ManagedResource, cause PruneCause, deleted []prune.Outcome) {
	refs := make([]resourcesv1alpha1.ObjectReference, 0, len(deleted))
	claims := 0
	for _, o := range deleted {
		refs, claims = append(refs, o.Ref), claims+o.Claims
	}
	what := fmt.Sprintf("%d objects", len(refs))
	if claims > 0 {
		what += fmt.Sprintf(" and %d PersistentVolumeClaims of StatefulSets", claims)
	}
	note := fmt.Sprintf("Deleted %s%s: %v", what, pruneReasons[cause], names(refs, prunedNames))
	r.write(mr, aboutDeleted(mr, deleted[0]), corev1.EventTypeNormal, eventPruned, "Delete", note)
}

// allPruned warns that a ManagedResource has no object any longer, and what has led to it. An empty Secret may be
// intended, or the output of a program that failed, so the event is not rate limited.
func (r *Recorder) allPruned(mr *resourcesv1alpha1.ManagedResource, deleted []prune.Outcome, of int, why string) {
	note := fmt.Sprintf("Deleted %d of %d objects, because %s", len(deleted), of, why)
	r.send(mr, aboutDeleted(mr, deleted[0]), corev1.EventTypeWarning, eventAllPruned, "Delete", note)
}

// aboutDeleted refers to an object that was deleted. The UID makes it another one than a later object of the same name.
func aboutDeleted(mr *resourcesv1alpha1.ManagedResource, o prune.Outcome) *corev1.ObjectReference {
	about := aboutObject(mr, o.Key, "")
	about.APIVersion, about.UID = untrusted.Name(o.Ref.APIVersion), types.UID(untrusted.Name(string(o.Ref.UID)))
	return about
}

// finalized warns that an object lost its finalizers, so that the controllers that had set them could not clean up.
func (r *Recorder) finalized(mr *resourcesv1alpha1.ManagedResource, o prune.Outcome) {
	const annotation = resourcesv1alpha1.FinalizeDeletionAfterAnnotation
	note := fmt.Sprintf("%s lost its finalizers %v, as its annotation %s asks for", o.Key, o.Finalized, annotation)
	r.write(mr, aboutDeleted(mr, o), corev1.EventTypeWarning, eventFinalized, "Finalize", note)
}

// unknownFields warns of parts of a manifest that the target's API server does not know.
func (r *Recorder) unknownFields(mr *resourcesv1alpha1.ManagedResource, key inventory.Key, fields []string) {
	r.write(mr, aboutObject(mr, key, strings.Join(fields, " ")), corev1.EventTypeWarning, eventUnknownFields, "Apply",
		fmt.Sprintf("%s is applied without fields that the target's API does not know: %v", key, fields))
}

// duplicates warns of list items in a manifest that are the same to the target's API server, which may drop one of
// them.
func (r *Recorder) duplicates(mr *resourcesv1alpha1.ManagedResource, key inventory.Key, places []string) {
	r.write(mr, aboutObject(mr, key, strings.Join(places, " ")), corev1.EventTypeWarning, eventDuplicates, "Apply",
		fmt.Sprintf("%s cannot be applied server-side, so it is updated as a whole: %v", key, places))
}

// recreated reports that an object was deleted because it could not be updated.
func (r *Recorder) recreated(mr *resourcesv1alpha1.ManagedResource, key inventory.Key) {
	r.write(mr, aboutObject(mr, key, ""), corev1.EventTypeNormal, eventRecreated, "Delete",
		fmt.Sprintf("%s was deleted because its update was invalid, to be created again", key))
}

// takenBack reports that payload of others was removed or taken over while the manifest was applied.
func (r *Recorder) takenBack(mr *resourcesv1alpha1.ManagedResource, o apply.Outcome) {
	by := describeForeign(o.TakenBack)
	r.write(mr, aboutObject(mr, o.Key, by), corev1.EventTypeNormal, eventTakenBack, "Apply",
		fmt.Sprintf("%s had fields that the manifest does not have, set by %s", o.Key, by))
}

// Applied reports that the result of a run differs from that of the run before: that it failed and why, or that it no
// longer failed.
func (r *Recorder) Applied(mr *resourcesv1alpha1.ManagedResource, before *conditions.Condition,
	c conditions.Condition) {
	if before != nil && *before == c {
		return
	}
	switch {
	case c.Status == resourcesv1alpha1.ConditionFalse:
		r.write(mr, nil, corev1.EventTypeWarning, c.Reason, eventApplied, c.Message)
	case c.Status == resourcesv1alpha1.ConditionTrue && before != nil && before.Status == resourcesv1alpha1.ConditionFalse:
		r.write(mr, nil, corev1.EventTypeNormal, c.Reason, eventApplied, c.Message)
	}
}

// describeForeign names managers with a few of their fields.
func describeForeign(foreign []ownership.Foreign) string {
	byManager := map[string][]string{}
	for _, f := range foreign {
		manager := untrusted.Token(f.Manager)
		byManager[manager] = append(byManager[manager], f.Paths(5)...)
	}
	var out []string
	for _, m := range sortedKeys(byManager) {
		if len(out) == maxManagers {
			out = append(out, "...")
			break
		}
		paths := slices.Compact(slices.Sorted(slices.Values(byManager[m])))
		if len(paths) > 5 {
			paths = append(paths[:5], "...")
		}
		text := m
		if m == "" {
			text = "a client without a name"
		}
		if len(paths) > 0 {
			text += " (" + strings.Join(paths, ", ") + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
