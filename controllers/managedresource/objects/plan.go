package objects

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/content"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// InventoryLimit bounds the inventory in the status. An API server takes requests of about 1.5 MiB, and the rest of the
// object needs its share.
const InventoryLimit = 1 << 20

// Plan is what a bundle means for a target.
type Plan struct {
	// Objects are to be applied, in the order of the inventory.
	Objects []apply.Prepared
	// Released are objects that are not managed any longer, and stay.
	Released map[inventory.Key]resourcesv1alpha1.ObjectReference
	// Faults say what cannot be applied, whatever the target says.
	Faults []string
	// Decoding names documents that could not be read; empty if all could.
	Decoding string
	// Checksum is that of the Secrets' data, as the status has it.
	Checksum string
	// strange is true if the target knows the kind of some object not at all: a kind that is misspelt now may be the
	// object that the inventory still has under its right name.
	strange bool
}

// NewPlan prepares the objects of a bundle. If it is for only some of them, what it says of the others does not count:
// they are not looked at unless they bear the same names. Errors are those of content.IsError, of the connection, and
// the end of ctx.
func NewPlan(
	ctx context.Context, s *run.Subject, managedBy string, b *bundle.Bundle, target apply.Target, only ...inventory.Key,
) (*Plan, error) {
	if size := len(b.Objects) * sizeOf(s.MR.Spec.InjectLabels); size > InventoryLimit {
		// Each entry of the inventory would have them, and each object in memory.
		return nil, &content.TooLargeError{
			Reason: resourcesv1alpha1.ReasonInventoryTooLarge, Message: InventoryTooLarge(len(b.Objects), size),
		}
	}
	p := &Plan{
		Released: map[inventory.Key]resourcesv1alpha1.ObjectReference{}, Decoding: b.FaultMessage(), Checksum: b.Checksum,
	}
	manifests := make([]*unstructured.Unstructured, 0, len(b.Objects))
	for _, o := range b.Objects {
		manifests = append(manifests, o.Unstructured)
	}
	scoped := apply.ScopeOfDefined(manifests)
	marks := apply.Marks{
		Labels: labelsOf(s.MR, managedBy), Origin: s.Origin(),
		ForceLabels:      ptr.Deref(s.MR.Spec.ForceOverwriteLabels, false),
		ForceAnnotations: ptr.Deref(s.MR.Spec.ForceOverwriteAnnotations, false),
	}
	byKey := map[inventory.Key]int{}
	wanted := named(only)
	for _, o := range b.Objects {
		if !wanted(o.Unstructured) {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := o.Invalid(); err != nil {
			p.Faults = append(p.Faults, err.Error())
			continue
		}
		prepared, err := apply.Prepare(ctx, o.Unstructured, o.Text, target.Mapper, scoped, marks)
		if err != nil {
			if IsDown(err) {
				return nil, err
			}
			p.Faults = append(p.Faults, fmt.Sprintf("%s: %v", o.Position, err))
			continue
		}
		if o.ModeIgnore {
			p.Released[prepared.Key] = prepared.Entry
			continue
		}
		p.strange = p.strange || prepared.Unserved
		if i, twice := byKey[prepared.Key]; twice {
			p.Objects[i] = prepared // the later document wins, as with kubectl apply
			continue
		}
		byKey[prepared.Key] = len(p.Objects)
		p.Objects = append(p.Objects, prepared)
	}
	slices.SortStableFunc(p.Objects, func(a, b apply.Prepared) int { return a.Key.Compare(b.Key) })
	return p, nil
}

// InventoryTooLarge is the message for an inventory of a number of objects and bytes.
func InventoryTooLarge(objects, bytes int) string {
	return fmt.Sprintf("The inventory of %d objects takes %d KiB, more than the %d KiB that fit into one "+
		"ManagedResource. Nothing was written; split the ManagedResource.", objects, bytes>>10, InventoryLimit>>10)
}

// sizeOf is how many bytes labels take at least.
func sizeOf(labels map[string]string) (size int) {
	for name, value := range labels {
		size += len(name) + len(value)
	}
	return size
}

// labelsOf are the injected labels of a ManagedResource with the managed-by label, which always wins.
func labelsOf(mr *resourcesv1alpha1.ManagedResource, managedBy string) map[string]string {
	out := make(map[string]string, len(mr.Spec.InjectLabels)+1)
	for k, v := range mr.Spec.InjectLabels {
		out[k] = v
	}
	out[resourcesv1alpha1.ManagedByLabel] = managedBy
	return out
}

// named returns a function that reports whether a manifest may be that of one of the given objects: only the target
// knows in which namespace it is. No objects mean all.
func named(objects []inventory.Key) func(*unstructured.Unstructured) bool {
	wanted := make(sets.Set[inventory.Key], len(objects))
	for _, k := range objects {
		k.Namespace = ""
		wanted.Insert(k)
	}
	return func(o *unstructured.Unstructured) bool {
		if len(wanted) == 0 {
			return true
		}
		k := inventory.KeyOfObject(o)
		k.Namespace = ""
		return wanted.Has(k)
	}
}

// Complete reports whether everything in the bundle is understood. An incomplete plan prunes nothing.
func (p *Plan) Complete() bool { return len(p.Faults) == 0 && p.Decoding == "" && !p.strange }

// Entries are the inventory of what is to be applied.
func (p *Plan) Entries() []resourcesv1alpha1.ObjectReference {
	out := make([]resourcesv1alpha1.ObjectReference, 0, len(p.Objects))
	for i := range p.Objects {
		out = append(out, p.Objects[i].Entry)
	}
	return out
}

// Prepared returns the objects of a plan: those with the keys, all of them without.
func (p *Plan) Prepared(keys ...inventory.Key) []*apply.Prepared {
	var out []*apply.Prepared
	wanted := sets.New(keys...)
	for i := range p.Objects {
		if len(keys) == 0 || wanted.Has(p.Objects[i].Key) {
			out = append(out, &p.Objects[i])
		}
	}
	return out
}

// Intents are the planned objects, addressed by the UIDs that the inventory knows.
func (p *Plan) Intents(known inventory.Lookup) []apply.Intent {
	out := make([]apply.Intent, 0, len(p.Objects))
	for i := range p.Objects {
		in := p.Objects[i].Intent
		if ref := known.Find(in.Key); ref != nil {
			in.UID, in.Base, in.Adopt = ref.UID, apply.BaseOf(ref), ref.UID == ""
		}
		out = append(out, in)
	}
	return out
}

// Orphan is an entry of an object that is not managed any longer, and stays.
type Orphan struct {
	Entry resourcesv1alpha1.ObjectReference
	// manifest is what asks for it, possibly under an equivalent kind.
	manifest resourcesv1alpha1.ObjectReference
}

// Leaving are the entries of an inventory that are not wanted any longer: old ones are to be deleted, orphans are to
// stay. An entry counts for an object of any equivalent kind.
func (p *Plan) Leaving(
	book inventory.Lookup, refs []resourcesv1alpha1.ObjectReference,
) (old []resourcesv1alpha1.ObjectReference, orphans []Orphan) {
	wanted := sets.Set[inventory.Key]{}
	for i := range p.Objects {
		for _, ref := range book.Same(p.Objects[i].Key) {
			wanted.Insert(inventory.KeyOf(*ref))
		}
	}
	stay := map[inventory.Key]resourcesv1alpha1.ObjectReference{}
	for key, manifest := range p.Released {
		for _, ref := range book.Same(key) {
			stay[inventory.KeyOf(*ref)] = manifest
		}
	}
	for _, ref := range refs {
		key := inventory.KeyOf(ref)
		if wanted.Has(key) {
			continue
		}
		if manifest, ok := stay[key]; ok {
			orphans = append(orphans, Orphan{ref, manifest})
		} else {
			old = append(old, ref)
		}
	}
	return old, orphans
}

// PruneCause is why objects that are not in a plan are pruned.
func (p *Plan) PruneCause() telemetry.PruneCause {
	if len(p.Objects) == 0 && len(p.Released) == 0 {
		return telemetry.CauseEmptied
	}
	return telemetry.CauseRemoved
}

// autoscalerListTimeout bounds the list of the autoscalers of one namespace.
const autoscalerListTimeout = 10 * time.Second

// NoteAutoscalers finds out which planned objects have their replicas from an autoscaler. The watch knows; while it
// does not, the target is asked, because a Deployment that is scaled down for lack of a cache is an outage. For the
// same reason it is asked about objects that drifted: the autoscaler that just scaled one may be younger than what the
// watch shows. If the target does not answer, the replicas stay as they are until the watch does.
func (o *Writer) NoteAutoscalers(
	ctx context.Context, s *run.Subject, target apply.Target, planned []*apply.Prepared, drifted bool,
) {
	unsure := map[string][]*apply.Prepared{}
	for _, p := range planned {
		if !setsReplicas(p) {
			continue
		}
		scaled, synced := o.Tracker.Autoscaled(s.Target, p.Key)
		switch {
		case synced && (scaled || !drifted):
			p.SetAutoscaled(scaled)
		default:
			unsure[p.Key.Namespace] = append(unsure[p.Key.Namespace], p)
		}
	}
	for namespace, planned := range unsure {
		scaled, err := autoscaled(ctx, target, namespace)
		if err != nil {
			s.Log.Info("Cannot find out what is scaled by autoscalers; replicas stay as they are",
				"namespace", namespace, "error", err.Error())
		}
		for _, p := range planned {
			key, _ := tracker.Scalable(p.Key)
			_, synced := o.Tracker.Autoscaled(s.Target, p.Key)
			p.SetAutoscaled(scaled[key] || err != nil && !synced)
		}
	}
}

// setsReplicas reports whether applying an object may scale it.
func setsReplicas(o *apply.Prepared) bool {
	if _, scalable := tracker.Scalable(o.Key); !scalable || o.CreateOnly ||
		o.Object.GetAnnotations()[resourcesv1alpha1.PreserveReplicasAnnotation] == "true" {
		return false
	}
	_, set, _ := unstructured.NestedFieldNoCopy(o.Object.Object, "spec", "replicas")
	return set
}

// autoscaled asks the target what autoscalers scale in a namespace. A target that does not know them has none.
func autoscaled(ctx context.Context, target apply.Target, namespace string) (map[inventory.Key]bool, error) {
	kind := tracker.AutoscalerKind
	mapper := meta.ToRESTMapperWithContext(target.Mapper)
	mapping, err := mapper.RESTMappingWithContext(ctx, kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = mapper.RESTMappingWithContext(ctx, kind.GroupKind())
	}
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mapping of %s: %w", kind.Kind, err)
	}
	ctx, cancel := context.WithTimeout(ctx, autoscalerListTimeout)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := target.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing autoscalers: %w", err)
	}
	scaled := make(map[inventory.Key]bool, len(list.Items))
	for i := range list.Items {
		if key, ok := tracker.ScaledBy(&list.Items[i]); ok {
			scaled[key] = true
		}
	}
	return scaled, nil
}
