package diff

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/mask"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/merge"
	"github.com/trellis-hub/trellis/engine/prune"
)

const (
	// parallel bounds the concurrent dry runs.
	parallel = 8
	// sampled bounds how many objects are read to find out the marks that the hub uses.
	sampled = 5
)

// Action is what an apply would do with an object.
type Action string

// Actions.
const (
	Create   Action = "create"
	Change   Action = "change"
	Recreate Action = "recreate"
	Delete   Action = "delete"
	Keep     Action = "keep"
	Fail     Action = "fail"
	Nothing  Action = "nothing"
)

// Difference is what an apply would do with an object, and why.
type Difference struct {
	Object string  `json:"object"`
	Action Action  `json:"action"`
	Fields []Field `json:"fields,omitempty"`
	// New is an object that would be created, with the values of Secrets masked.
	New map[string]any `json:"new,omitempty"`
	// Notes are texts for users.
	Notes []string `json:"notes,omitempty"`

	key inventory.Key
}

// planner is the plan for one ManagedResource.
type planner struct {
	mr         *resourcesv1alpha1.ManagedResource
	bundle     *bundle.Bundle
	connection *remote.Connection
	marks      apply.Marks
	applier    *apply.Applier
	// others are the ManagedResources of the namespace, for the objects that they list.
	others []resourcesv1alpha1.ManagedResource

	intents  []apply.Intent
	released map[inventory.Key]bool
	// unplaced are objects whose manifests have no namespace.
	unplaced map[inventory.Key]bool
	problems []string
}

// run makes the plan.
func (r *planner) run(ctx context.Context) ([]Difference, error) {
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if err := r.noteAutoscalers(ctx); err != nil {
		return nil, err
	}
	out := make([]Difference, len(r.intents))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(parallel, len(r.intents)) {
		wg.Go(func() {
			for i := range next {
				out[i] = r.object(ctx, r.intents[i])
				if d := &out[i]; d.Action != Nothing && r.unplaced[d.key] {
					d.note("the manifest has no namespace: it goes to the namespace %s", d.key.Namespace)
				}
			}
		})
	}
	for i := range r.intents {
		next <- i
	}
	close(next)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return append(out, r.leaving(ctx)...), nil
}

// complete reports whether everything in the Secrets can be read; else the hub deletes nothing.
func (r *planner) complete() bool { return r.bundle.Complete() && len(r.problems) == 0 }

// inventory returns the inventory of the ManagedResource.
func (r *planner) inventory() inventory.Lookup {
	return inventory.NewLookup(r.mr.Status.Resources, inventory.NewEquivalences(r.mr.Spec.Equivalences...))
}

// prepare makes intents of the manifests, as the hub does.
func (r *planner) prepare(ctx context.Context) error {
	manifests := make([]*unstructured.Unstructured, 0, len(r.bundle.Objects))
	for _, o := range r.bundle.Objects {
		manifests = append(manifests, o.Unstructured)
	}
	scoped, listed := apply.ScopeOfDefined(manifests), r.inventory()
	at := map[inventory.Key]int{}
	r.released, r.unplaced = map[inventory.Key]bool{}, map[inventory.Key]bool{}
	for _, fault := range r.bundle.Faults {
		r.problems = append(r.problems, fault.String())
	}
	for _, o := range r.bundle.Objects {
		if err := o.Invalid(); err != nil {
			r.problems = append(r.problems, err.Error())
			continue
		}
		prepared, err := apply.Prepare(ctx, o.Unstructured, o.Text, r.connection.Mapper, scoped, r.marks)
		if err != nil {
			if cli.IsUnreachable(err) {
				return err
			}
			r.problems = append(r.problems, fmt.Sprintf("%s: %v", o.Position, err))
			continue
		}
		if o.ModeIgnore {
			r.released[prepared.Key] = true
			continue
		}
		if prepared.Unserved {
			r.problems = append(r.problems, fmt.Sprintf("%s: the target does not serve %s", o.Position,
				prepared.Key.GroupKind()))
		}
		in := prepared.Intent
		r.unplaced[in.Key] = o.GetNamespace() == "" && in.Object.GetNamespace() != ""
		if ref := listed.Find(in.Key); ref != nil {
			in.UID, in.Base, in.Adopt = ref.UID, apply.BaseOf(ref), ref.UID == ""
		}
		if i, twice := at[in.Key]; twice {
			r.intents[i] = in // the later document wins
			continue
		}
		at[in.Key] = len(r.intents)
		r.intents = append(r.intents, in)
	}
	slices.SortStableFunc(r.intents, func(a, b apply.Intent) int { return a.Key.Compare(b.Key) })
	return nil
}

// noteAutoscalers finds out which objects are scaled by an autoscaler.
func (r *planner) noteAutoscalers(ctx context.Context) error {
	asked := map[string]map[inventory.Key]bool{}
	for i := range r.intents {
		in := &r.intents[i]
		key, scalable := tracker.Scalable(in.Key)
		if !scalable || in.CreateOnly || merge.KeepsReplicas(in.Object, false) {
			continue
		}
		scaled, known := asked[in.Key.Namespace]
		if !known {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(tracker.AutoscalerKind)
			if err := r.connection.Client.List(ctx, list, client.InNamespace(in.Key.Namespace)); err != nil &&
				!meta.IsNoMatchError(err) {
				return fmt.Errorf("listing the autoscalers of namespace %s: %w", in.Key.Namespace, err)
			}
			scaled = map[inventory.Key]bool{}
			for j := range list.Items {
				if what, ok := tracker.ScaledBy(&list.Items[j]); ok {
					scaled[what] = true
				}
			}
			asked[in.Key.Namespace] = scaled
		}
		in.SetAutoscaled(scaled[key])
	}
	return nil
}

// object dry-runs the apply of one object.
func (r *planner) object(ctx context.Context, in apply.Intent) Difference {
	d := Difference{key: in.Key, Object: in.Key.String()}
	preview, err := r.applier.Preview(ctx, r.connection.Target, in)
	if err != nil {
		return r.withoutDryRun(d, in, err)
	}
	for _, path := range preview.UnknownFields {
		d.note("the target does not know the field %s: it is left out", path)
	}
	for _, place := range preview.Duplicates {
		d.note("the manifest has list items that the target takes for the same: %s", place)
	}
	if preview.Live == nil {
		d.Action, d.New = Create, mask.Masked(content(preview.After))
		return d
	}
	if origin := preview.Live.GetAnnotations()[resourcesv1alpha1.OriginAnnotation]; origin != "" &&
		origin != r.marks.Origin {
		d.note("it bears the origin %s: if that ManagedResource lists it, too, the last one to list it has it", origin)
	}
	d.Fields = Compare(preview.Live, preview.After)
	d.Action = Nothing
	switch {
	case preview.Recreated:
		d.Action = Recreate
	case len(d.Fields) > 0:
		d.Action = Change
		for _, f := range preview.TakenBack {
			d.note("taken back from %s: %s", managerName(f.Manager), strings.Join(f.Paths(10), ", "))
		}
	}
	return d
}

func managerName(name string) string {
	if name == "" {
		return "an unknown field manager"
	}
	return name
}

func (d *Difference) note(format string, args ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
}

// withoutDryRun is for objects without a dry run, with the reason.
func (r *planner) withoutDryRun(d Difference, in apply.Intent, err error) Difference {
	created := func(gk func(apply.Intent) bool) bool { return slices.ContainsFunc(r.intents, gk) }
	switch {
	case errors.Is(err, apply.ErrTerminating):
		d.Action, d.New = Recreate, mask.Masked(content(in.Object))
		d.note("the object is being deleted; it is created again when it is gone")
	case meta.IsNoMatchError(err) && created(func(other apply.Intent) bool {
		return inventory.IsCustomResourceDefinition(other.Key.GroupKind()) && defines(other, in)
	}):
		d.Action, d.New = Create, mask.Masked(content(in.Object))
		d.note("no dry run: its kind is defined by the same ManagedResource")
	case apierrors.IsNotFound(err) && created(func(other apply.Intent) bool {
		return inventory.IsNamespace(other.Key.GroupKind()) && other.Key.Name == in.Key.Namespace
	}):
		d.Action, d.New = Create, mask.Masked(content(in.Object))
		d.note("no dry run: its namespace is created by the same ManagedResource")
	default:
		d.Action = Fail
		d.note("%v", err)
	}
	return d
}

// defines reports whether an intent is the definition of another one's kind.
func defines(definition, in apply.Intent) bool {
	group, _, _ := unstructured.NestedString(definition.Object.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object.Object, "spec", "names", "kind")
	return group == in.Key.Group && kind == in.Key.Kind
}

// leaving returns what would be done with objects that are in the inventory and no longer wanted.
func (r *planner) leaving(ctx context.Context) []Difference {
	listed := r.inventory()
	wanted, stay := map[inventory.Key]bool{}, map[inventory.Key]bool{}
	for i := range r.intents {
		for _, ref := range listed.Same(r.intents[i].Key) {
			wanted[inventory.KeyOf(*ref)] = true
		}
	}
	for key := range r.released {
		for _, ref := range listed.Same(key) {
			stay[inventory.KeyOf(*ref)] = true
		}
	}
	var out []Difference
	for _, ref := range r.mr.Status.Resources {
		key := inventory.KeyOf(ref)
		if wanted[key] {
			continue
		}
		d := Difference{key: key, Object: key.String(), Action: Keep}
		switch {
		case stay[key]:
			d.note("it is no longer managed (mode: Ignore), and stays")
		case !r.complete():
			d.note("nothing is deleted while documents cannot be read or applied")
		default:
			if !r.deletion(ctx, ref, &d) {
				continue
			}
		}
		out = append(out, d)
	}
	return out
}

// deletion says whether an object would be deleted. It returns false if it is gone already.
func (r *planner) deletion(ctx context.Context, ref resourcesv1alpha1.ObjectReference, d *Difference) bool {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(ref.GroupVersionKind())
	obj.SetNamespace(ref.Namespace)
	obj.SetName(ref.Name)
	live, err := r.connection.Head(ctx, apply.Intent{Object: obj, Key: d.key})
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return false
	case err != nil:
		d.Action = Fail
		d.note("%v", err)
		return true
	}
	policy := prune.Policy{Origin: r.marks.Origin, FieldManager: r.applier.FieldManager, ListedByOther: r.listedByOther}
	if reason := prune.KeptBecause(live, ref, policy); reason != "" {
		d.note("%s", reason)
	} else {
		d.Action = Delete
	}
	return true
}

// listedByOther reports whether another ManagedResource of the namespace lists an object of the same target.
func (r *planner) listedByOther(key inventory.Key) bool {
	uid := r.mr.Annotations[hubv1alpha1.TargetUIDAnnotation]
	for i := range r.others {
		other := &r.others[i]
		if other.Name == r.mr.Name || other.DeletionTimestamp != nil || uid == "" ||
			other.Annotations[hubv1alpha1.TargetUIDAnnotation] != uid {
			continue
		}
		if slices.ContainsFunc(other.Status.Resources, func(
			ref resourcesv1alpha1.ObjectReference) bool {
			return inventory.KeyOf(ref) == key
		}) {
			return true
		}
	}
	return false
}

// findMarks finds out the marks that the hub writes on objects from existing objects.
func findMarks(ctx context.Context, connection *remote.Connection, mr *resourcesv1alpha1.ManagedResource, managedBy,
	clusterID string) apply.Marks {
	name := mr.Namespace + "/" + mr.Name
	marks := apply.Marks{Labels: map[string]string{}, Origin: name, ForceLabels: isTrue(mr.Spec.ForceOverwriteLabels),
		ForceAnnotations: isTrue(mr.Spec.ForceOverwriteAnnotations)}
	learnt := resourcesv1alpha1.ManagedByDefault
	for _, ref := range mr.Status.Resources[:min(len(mr.Status.Resources), sampled)] {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(ref.GroupVersionKind())
		obj.SetNamespace(ref.Namespace)
		obj.SetName(ref.Name)
		live, err := connection.Head(ctx, apply.Intent{Object: obj, Key: inventory.KeyOf(ref)})
		if err != nil {
			continue
		}
		origin, label := live.Annotations[resourcesv1alpha1.OriginAnnotation], live.Labels[resourcesv1alpha1.ManagedByLabel]
		if (origin == name || strings.HasSuffix(origin, ":"+name)) && label != "" {
			marks.Origin, learnt = origin, label
			break
		}
	}
	if clusterID != "" {
		marks.Origin = clusterID + ":" + name
	}
	if managedBy != "" {
		learnt = managedBy
	}
	for key, value := range mr.Spec.InjectLabels {
		marks.Labels[key] = value
	}
	marks.Labels[resourcesv1alpha1.ManagedByLabel] = learnt
	return marks
}

func isTrue(b *bool) bool { return b != nil && *b }
