package telemetry

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

// Report counts what a run applied, and writes events about it.
func (r *Recorder) Report(s *run.Subject, outcomes []apply.Outcome) {
	figures := r.metrics.Of(s.Class.Name)
	failed := uint64(0)
	for _, o := range outcomes {
		if o.Unchanged {
			continue
		}
		counter := figures.applied
		if o.Err != nil {
			counter = figures.applyFailed
			failed++
			s.Log.V(1).Info("Could not apply", "object", o.Key.String(), "error", o.Err.Error())
		}
		counter.Inc()
		if len(o.UnknownFields) > 0 {
			r.unknownFields(s.MR, o.Key, o.UnknownFields)
		}
		if len(o.Duplicates) > 0 {
			r.duplicates(s.MR, o.Key, o.Duplicates)
		}
		if o.Recreated {
			r.recreated(s.MR, o.Key)
		}
		if o.Err == nil && len(o.TakenBack) > 0 {
			r.takenBack(s.MR, o)
		}
	}
	r.metrics.failed(s.Target, failed, 0)
}

// shownUnplaced is how many objects a warning names.
const shownUnplaced = 10

// WarnUnplaced warns of objects that were just applied to the namespace "default" because their manifests name none.
// Mostly they were meant for another one.
func (r *Recorder) WarnUnplaced(s *run.Subject, b *bundle.Bundle, outcomes []apply.Outcome) {
	unplaced := sets.Set[inventory.Key]{}
	for _, o := range b.Objects {
		if key := inventory.KeyOfObject(o.Unstructured); key.Namespace == "" {
			key.Namespace = metav1.NamespaceDefault // of those that are in one
			unplaced.Insert(key)
		}
	}
	var names []string
	for _, o := range outcomes {
		if o.Err == nil && !o.Unchanged && unplaced.Has(o.Key) {
			names = append(names, o.Key.String())
		}
	}
	if len(names) == 0 {
		return
	}
	more := ""
	if n := len(names) - shownUnplaced; n > 0 {
		names, more = names[:shownUnplaced], fmt.Sprintf(" and %d more", n)
	}
	r.write(s.MR, nil, corev1.EventTypeWarning, eventDefaultNamespace, "Apply",
		"Applied to the namespace default, because the manifests name none: "+strings.Join(names, ", ")+more)
}

// PruneCause is why objects leave an inventory.
type PruneCause string

// Causes, as metrics have them.
const (
	CauseRemoved     PruneCause = "removed"
	CauseEmptied     PruneCause = "emptied"
	causeDeleted     PruneCause = "deleted"
	causeTransferred PruneCause = "transferred"
	causeMoved       PruneCause = "moved"
)

var pruneCauses = []PruneCause{CauseRemoved, CauseEmptied, causeDeleted, causeTransferred, causeMoved}

// pruneReasons say of deleted objects why they were.
var pruneReasons = map[PruneCause]string{
	CauseRemoved:     " that no manifest names any longer",
	CauseEmptied:     " that no manifest names any longer",
	causeDeleted:     " with the ManagedResource",
	causeTransferred: ", because another class has the ManagedResource now",
	causeMoved:       " in the former target cluster",
}

// CleanCause is why all objects of a ManagedResource are deleted from a target.
func CleanCause(s *run.Subject) PruneCause {
	switch {
	case s.MR.DeletionTimestamp != nil:
		return causeDeleted
	case s.Decision.Leaving:
		return causeTransferred
	default:
		return causeMoved
	}
}

// ReportPruned counts what a run deleted and what it left, and writes events about it. emptiedBy says why no manifest
// is left; it is called for that cause only.
func (r *Recorder) ReportPruned(s *run.Subject, cause PruneCause, outcomes []prune.Outcome, emptiedBy func() string) {
	figures := r.metrics.Of(s.Class.Name).pruned[cause]
	var deleted []prune.Outcome
	failed := uint64(0)
	released := map[string][]resourcesv1alpha1.ObjectReference{} // by reason
	for _, o := range outcomes {
		if len(o.Finalized) > 0 {
			s.Log.Info("Took the finalizers off an object", "object", o.Key.String(), "finalizers", o.Finalized)
			r.finalized(s.MR, o)
		}
		if o.Claims > 0 {
			s.Log.Info("Deleted PersistentVolumeClaims of a StatefulSet", "object", o.Key.String(), "claims", o.Claims)
		}
		if o.Deleted {
			deleted = append(deleted, o)
			s.Log.Info("Deleted an object", "object", o.Key.String(), "uid", o.Ref.UID, "cause", cause)
		}
		switch {
		case o.Err != nil:
			figures.failed.Inc()
			failed++
		case o.Result == prune.Gone:
			figures.deleted.Inc()
		case o.Result == prune.Kept:
			figures.kept.Inc()
			s.Log.Info("Left an object in the target", "object", o.Key.String(), "reason", o.Reason)
			if o.Released {
				released[o.Reason] = append(released[o.Reason], o.Ref)
			}
		}
	}
	r.metrics.failed(s.Target, 0, failed)
	for _, why := range sortedKeys(released) {
		r.released(s.MR, why, released[why])
	}
	if len(deleted) == 0 {
		return
	}
	r.pruned(s.MR, cause, deleted)
	if cause == CauseEmptied {
		why := emptiedBy()
		r.allPruned(s.MR, deleted, len(outcomes), why)
		s.Log.Info("No manifest is left", "objects", len(outcomes), "deleted", len(deleted), "why", why)
	}
}

// Left says of all that is in the inventory that it stays in the target: in the log of each object, for an event holds
// few.
func (r *Recorder) Left(s *run.Subject, why string) {
	r.released(s.MR, why, s.MR.Status.Resources)
	for _, ref := range s.MR.Status.Resources {
		s.Log.Info("Left an object in the target", "object", inventory.KeyOf(ref).String(), "reason", why)
	}
}

// orphans are what an event lists of objects that stay behind.
func orphans(refs []resourcesv1alpha1.ObjectReference, limit int) string {
	return fmt.Sprintf("%d objects stay behind: %v", len(refs), names(refs, limit))
}

// names are those of the first of some objects, and the number of the rest.
func names(refs []resourcesv1alpha1.ObjectReference, limit int) []string {
	var names []string
	for i, ref := range refs {
		if i == limit {
			return append(names, fmt.Sprintf("and %d more", len(refs)-limit))
		}
		names = append(names, inventory.KeyOf(ref).String())
	}
	return names
}
