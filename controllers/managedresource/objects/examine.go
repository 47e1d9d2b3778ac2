package objects

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// Examination is what a look at objects that drifted showed.
type Examination struct {
	Drifts []telemetry.Drift
	Unread []apply.Outcome // of those that could not be looked at
	Wait   time.Duration   // for the owner of one that is gone to bring it back; zero if there is nothing to wait for
}

// Examine reads drifted objects live: whether they exist, and which writers changed them since they were accepted.
// Objects that turn out to be right, or to be those of another ManagedResource, are accepted as they are.
func (o *Writer) Examine(
	ctx context.Context, sh *Sharers, p *Plan, drifted []inventory.Key, accepted map[inventory.Key]tracker.Accepted,
) (found Examination) {
	s, now := sh.subject, sh.subject.Clock.Now()
	yields := s.State.Yields
	if yields == nil {
		yields = map[inventory.Key]types.NamespacedName{}
	}
	defer func() { s.State.Yield(yields) }() // what cannot be looked at stays whose it was
	known := inventory.Index(s.MR.Status.Resources)
	planned := make(map[inventory.Key]*apply.Prepared, len(p.Objects))
	for i := range p.Objects {
		planned[p.Objects[i].Key] = &p.Objects[i]
	}
	var todo []apply.Intent
	for _, key := range drifted {
		if planned[key] != nil && known[key] != nil { // else on its way out, or kept because the bundle is incomplete
			todo = append(todo, planned[key].Intent)
		}
	}
	for i, head := range o.heads(ctx, s.Access, todo) {
		key, live := todo[i].Key, head.live
		prepared, ref := planned[key], known[key]
		_, yielded := yields[key]
		d := telemetry.Drift{Intent: prepared.Intent}
		d.Intent.Base = apply.BaseOf(ref)
		was, ok := accepted[key]
		switch {
		case head.absent():
			if yielded && len(sh.owners(key)) > 0 {
				if left := s.State.LeaveTo(key, now); left > 0 {
					found.waitAtMost(left)
					continue
				}
			}
			delete(yields, key)
			d.Created, d.Intent.UID, d.Owner = true, "", o.Tracker.OwnerOf(s.Name, key)
		case head.err != nil:
			err := fmt.Errorf("reading the live object: %w", head.err)
			found.Unread = append(found.Unread, apply.Outcome{Key: key, Err: err})
			continue
		case live.DeletionTimestamp != nil:
			continue // its delete event brings us back
		case o.yieldTo(sh, key, live, yields):
			continue
		case d.Intent.CreateOnly:
			o.Tracker.Accept(s.Name, key, tracker.Accepted{UID: live.UID, ResourceVersion: live.ResourceVersion})
			continue
		default:
			manager := o.Applier.FieldManager
			d.Intent.UID = live.UID
			d.Created = ref.UID != "" && ref.UID != live.UID && live.Annotations[resourcesv1alpha1.OriginAnnotation] == ""
			// After a start it is not known what was applied last, but that it was this.
			d.Intent.Same = ok && was.UID == live.UID && (was.Intent == prepared.Digest || was.Intent == 0 && !yielded)
			if ok && isUndisturbed(live, manager, prepared, was, Exact(s.MR)) {
				s.State.Undisturbed(key, now)
				o.Tracker.Accept(s.Name, key, tracker.Accepted{
					UID: live.UID, ResourceVersion: live.ResourceVersion, State: ownership.Observe(live, manager),
					Autoscaled: was.Autoscaled, Intent: was.Intent,
				})
				continue
			}
			d.By = blame(live, manager, prepared)
			if len(d.By) == 0 && ok && !yielded {
				d.By = removed(live, manager, prepared, was)
			}
		}
		found.Drifts = append(found.Drifts, d)
	}
	return found
}

// waitAtMost has another look come after some time at the latest.
func (e *Examination) waitAtMost(wait time.Duration) {
	if e.Wait == 0 || wait < e.Wait {
		e.Wait = wait
	}
}

// yieldTo accepts an object that belongs to another ManagedResource, and notes to which.
func (o *Writer) yieldTo(sh *Sharers, key inventory.Key, live *metav1.PartialObjectMetadata,
	yields map[inventory.Key]types.NamespacedName) bool {
	owner, owned := sh.ownerOf(key, live)
	if !owned {
		delete(yields, key)
		return false
	}
	yields[key] = owner
	o.acceptForeign(sh.subject, key, live)
	return true
}

// isUndisturbed reports whether an object that differs from its accepted state does so only in fields that others may
// write. The watches do not show that: which fields these are depends on the manifest.
func isUndisturbed(live *metav1.PartialObjectMetadata, manager string, prepared *apply.Prepared,
	was tracker.Accepted, exact tracker.Exact) bool {
	record := ownership.Read(live, manager)
	if record.Owned() == nil || was.UID != live.UID || was.Intent != prepared.Digest ||
		was.Autoscaled != prepared.Autoscaled {
		return false
	}
	before, now := was.State, record.State().Within(exact.Labels, exact.Annotations)
	before.Foreign, now.Foreign = 0, 0
	foreign, err := record.Foreign(prepared.Exempt())
	return err == nil && len(foreign) == 0 && before == now
}

// blame lists the writers that own fields that are ours to set, or added payload beside them.
func blame(live *metav1.PartialObjectMetadata, manager string, prepared *apply.Prepared) []ownership.Foreign {
	by := ownership.LostTo(live, manager, toBeOurs(prepared), prepared.Kept())
	if added, err := ownership.ForeignPayload(live, manager, prepared.Exempt()); err == nil {
		by = append(by, added...)
	}
	return by
}

// removed returns our fields that an object lacks although no other writer owns any of them: a writer that removes a
// field does not own it afterwards. Nil: none.
func removed(live *metav1.PartialObjectMetadata, manager string, prepared *apply.Prepared,
	was tracker.Accepted) []ownership.Foreign {
	record := ownership.Read(live, manager)
	sameIntent := was.Intent == prepared.Digest || was.Intent == 0 // the latter after a restart
	if record.Owned() == nil || was.UID != live.UID || !sameIntent || was.State.Own == record.State().Own {
		return nil
	}
	if taken := ownership.LostTo(live, manager, toBeOurs(prepared), nil); len(taken) > 0 {
		return nil // another writer owns them, and its values count
	}
	gone := record.Gone(toBeOurs(prepared), prepared.Kept())
	if gone.Empty() {
		return nil
	}
	return []ownership.Foreign{{Fields: gone}}
}

// toBeOurs are the fields that no other writer may change: those of the manifest, but for what counts at creation only,
// and the owner references, of which there are to be none but the manifest's.
func toBeOurs(prepared *apply.Prepared) *fieldpath.Set {
	finalizers := fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "finalizers"))
	set := ownership.Fields(prepared.Object.Object).Difference(finalizers)
	set.Insert(fieldpath.MakePathOrDie("metadata", "ownerReferences"))
	return set
}
