package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/merge"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// Preview is what an apply would do to an object.
type Preview struct {
	// Live is the object as it is; nil if there is none.
	Live *unstructured.Unstructured
	// After is the object after the apply. It is never nil without an error.
	After *unstructured.Unstructured
	// TakenBack is the payload of other owners that would be removed.
	TakenBack []ownership.Foreign
	// UnknownFields and Duplicates are those of an Outcome.
	UnknownFields, Duplicates []string
	// Recreated is true if the object would be deleted and created again.
	Recreated bool
}

// Preview finds out what Run would do with an intent. It uses the server's dry run, so nothing is written. What Run
// does in two steps, apply and update, is two dry runs as well, so that the result has the server's defaults for
// removed fields.
func (a *Applier) Preview(ctx context.Context, t Target, in Intent) (Preview, error) {
	if _, err := mappingFor(ctx, t.Mapper, in.Object); err != nil {
		return Preview{}, err
	}
	o := &object{Applier: a, ctx: ctx, target: t, in: in, options: in.options(), exempt: in.Exempt(), out: &Outcome{},
		manifest: in.Object}
	live, err := o.read()
	if err != nil {
		return Preview{}, err
	}
	p := Preview{Live: live}
	switch {
	case live == nil && in.CreateOnly:
		p.After, err = o.dryRunCreate()
	case in.CreateOnly:
		p.After = live.DeepCopy()
		unstructured.RemoveNestedField(p.After.Object, "metadata", "annotations", resourcesv1alpha1.DescriptionAnnotation)
	default:
		if err = o.dryRun(&p); err == nil && p.Live != nil && !p.Recreated {
			o.withoutStamps(p)
		}
	}
	p.UnknownFields, p.Duplicates = o.out.UnknownFields, o.out.Duplicates
	return p, o.redact(err)
}

// dryRun dry-runs an apply and what follows it.
func (o *object) dryRun(p *Preview) error {
	for range attempts {
		body, err := o.body(p.Live)
		if err != nil {
			return err
		}
		p.After, err = o.dryRunApply(body)
		switch {
		case err == nil:
			return o.dryRunTakeBack(p)
		case p.Live != nil && apierrors.IsConflict(err):
			if p.Live, err = o.read(); err != nil {
				return err
			}
			continue
		}
		if unknown := o.cut(err); len(unknown) > 0 {
			o.out.UnknownFields = append(o.out.UnknownFields, unknown...)
			continue
		}
		if refusesApply(err) {
			o.out.Duplicates = duplicates(err)
		}
		return o.dryRunFallback(p, err)
	}
	return fmt.Errorf("the object kept changing during %d attempts", attempts)
}

func (o *object) dryRunApply(body *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(body.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	after := body.DeepCopy()
	err = o.target.Client.Patch(o.ctx, after, client.RawPatch(types.ApplyPatchType, raw), client.DryRunAll,
		client.ForceOwnership, client.FieldOwner(o.FieldManager))
	return after, err
}

func (o *object) dryRunCreate() (*unstructured.Unstructured, error) {
	created := o.manifest.DeepCopy()
	return created, o.target.Client.Create(o.ctx, created, client.DryRunAll, client.FieldOwner(o.FieldManager))
}

// dryRunFallback dry-runs what is done where an apply is refused: an update, or a deletion and creation.
func (o *object) dryRunFallback(p *Preview, refusal error) (err error) {
	if p.Live == nil {
		if !refusesApply(refusal) && (!mayPassAsUpdate(refusal) || !hasNulls(o.manifest.Object)) {
			return refusal
		}
		p.After, err = o.dryRunCreate()
		return err
	}
	if !refusesApply(refusal) && !mayPassAsUpdate(refusal) {
		return refusal
	}
	merged, err := o.merged(p.Live)
	if err != nil {
		return err
	}
	if p.TakenBack, err = ownership.Read(p.Live, o.FieldManager).Foreign(o.exempt); err != nil {
		p.TakenBack = nil // it is only for the report
	}
	err = o.target.Client.Update(o.ctx, merged, client.DryRunAll, client.FieldOwner(o.FieldManager))
	if err == nil {
		p.After = merged
		return nil
	}
	asked, _, propagationErr := merge.DeleteOnInvalidUpdate(merge.Annotations(o.manifest, p.Live, o.options))
	if !apierrors.IsInvalid(err) || propagationErr != nil || !asked && !immutable(o.in, err) ||
		resourcesv1alpha1.IsTruthy(p.Live.GetAnnotations()[resourcesv1alpha1.KeepObjectAnnotation]) {
		return err
	}
	created, createErr := o.dryRunCreate()
	if createErr != nil && !apierrors.IsAlreadyExists(createErr) {
		return fmt.Errorf("%w; a new object would be refused as well: %w", o.redact(err), o.redact(createErr))
	}
	p.After, p.Recreated, p.TakenBack = created, true, nil
	return nil
}

// dryRunTakeBack removes from the result of an apply the fields of other owners, and the metadata that tidy removes.
func (o *object) dryRunTakeBack(p *Preview) error {
	if p.Live == nil {
		return nil
	}
	record := ownership.Read(p.After, o.FieldManager)
	foreign, err := record.Foreign(o.exempt)
	if err != nil {
		return err
	}
	tidy := o.tidy(partial(p.After), record)
	p.TakenBack = foreign
	merged, err := o.merged(p.Live)
	if err != nil {
		return err
	}
	err = o.target.Client.Update(o.ctx, merged, client.DryRunAll, client.FieldOwner(o.FieldManager))
	if err == nil {
		p.After = merged // with the server's defaults for removed fields
		return nil
	}
	if p.After, err = patched(p.After, tidy); err != nil {
		return err
	}
	for _, f := range foreign {
		removeAll(p.After.Object, f.Fields)
	}
	return nil
}

// withoutStamps removes from a preview what the admission of the target sets with each write, such as a counter or a
// time: a run writes nothing for that alone. A dry run of an update without a change shows these fields.
func (o *object) withoutStamps(p Preview) {
	if sameContent(p.After, p.Live) {
		return
	}
	stamped := p.Live.DeepCopy()
	if err := o.target.Client.Update(o.ctx, stamped, client.DryRunAll, client.FieldOwner(o.FieldManager)); err != nil {
		return // then the preview shows them
	}
	stamped.SetManagedFields(p.Live.GetManagedFields())
	stamped.SetResourceVersion(p.Live.GetResourceVersion())
	stamped.SetGeneration(p.Live.GetGeneration())
	unstamp(p.After.Object, p.Live.Object, stamped.Object, o.manifest.Object)
}

// unstamp resets the fields of after that every write changes to their live values, except those of the manifest.
func unstamp(after, live, stamped, manifest map[string]any) {
	for name := range stamped {
		was, stamp := live[name], stamped[name]
		if semantic.DeepEqual(was, stamp) {
			continue
		}
		wasMap, isMap := was.(map[string]any)
		stampMap, isStampMap := stamp.(map[string]any)
		afterMap, isAfterMap := after[name].(map[string]any)
		if isMap && isStampMap && isAfterMap {
			below, _ := manifest[name].(map[string]any)
			unstamp(afterMap, wasMap, stampMap, below)
			continue
		}
		_, intended := manifest[name]
		_, stays := after[name]
		switch {
		case intended, !stays: // set or removed by the manifest
		case was == nil:
			delete(after, name)
		default:
			after[name] = runtime.DeepCopyJSONValue(was)
		}
	}
}

func patched(obj *unstructured.Unstructured, ops []patchOperation) (*unstructured.Unstructured, error) {
	out := obj.DeepCopy()
	if len(ops) == 0 {
		return out, nil
	}
	before, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	raw, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		return nil, fmt.Errorf("decoding a patch: %w", err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, fmt.Errorf("patching the object: %w", err)
	}
	if err := out.UnmarshalJSON(after); err != nil {
		return nil, fmt.Errorf("decoding the object: %w", err)
	}
	return out, nil
}

// removeAll removes the fields of a set from a node, and returns the rest of the node. It visits each list item once.
func removeAll(node any, set *fieldpath.Set) any {
	switch node := node.(type) {
	case map[string]any:
		set.Children.Iterate(func(step fieldpath.PathElement) {
			if step.FieldName == nil {
				return
			}
			if child, found := node[*step.FieldName]; found {
				node[*step.FieldName] = removeAll(child, set.WithPrefix(step))
			}
		})
		set.Members.Iterate(func(step fieldpath.PathElement) {
			if step.FieldName != nil {
				delete(node, *step.FieldName)
			}
		})
		return node
	case []any:
		keys := keysOf(set)
		left := make([]any, 0, len(node))
		for i, item := range node {
			removed := false
			for _, step := range stepsTo(item, i, keys) {
				if removed = set.Members.Has(step); removed {
					break
				}
				if below, found := set.Children.Get(step); found {
					item = removeAll(item, below)
				}
			}
			if !removed {
				left = append(left, item)
			}
		}
		return left
	}
	return node
}

// maxKeys bounds the different keys by which the items of one list are found. A legitimate list has one.
const maxKeys = 4

// keysOf returns the names of the keys by which a set finds the items of a list.
func keysOf(set *fieldpath.Set) (keys [][]string) {
	note := func(step fieldpath.PathElement) {
		if step.Key == nil || len(keys) == maxKeys {
			return
		}
		names := make([]string, 0, len(*step.Key))
		for _, field := range *step.Key {
			names = append(names, field.Name)
		}
		if !slices.ContainsFunc(keys, func(known []string) bool { return slices.Equal(known, names) }) {
			keys = append(keys, names)
		}
	}
	set.Members.Iterate(note)
	set.Children.Iterate(note)
	return keys
}

// stepsTo returns the path elements that mean an item of a list.
func stepsTo(item any, i int, keys [][]string) []fieldpath.PathElement {
	v := value.NewValueInterface(item)
	steps := []fieldpath.PathElement{{Index: &i}}
	fields, ok := item.(map[string]any)
	if !ok {
		return append(steps, fieldpath.PathElement{Value: &v})
	}
	for _, names := range keys {
		key := make(value.FieldList, 0, len(names))
		for _, name := range names {
			if v, found := fields[name]; found {
				key = append(key, value.Field{Name: name, Value: value.NewValueInterface(v)})
			}
		}
		if len(key) == len(names) {
			steps = append(steps, fieldpath.PathElement{Key: &key})
		}
	}
	return steps
}
