package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/merge"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// object is the work on one intent within one run.
type object struct {
	*Applier
	ctx      context.Context
	target   Target
	resource metadata.ResourceInterface
	in       Intent
	options  merge.Options
	exempt   ownership.Exempt
	out      *Outcome

	manifest   *unstructured.Unstructured // the intent's object, without what the server does not know
	uid        types.UID                  // of the live object, empty if there is none or it is not known
	readLive   bool                       // the live object is read although the merge rules do not need it
	tidied     bool                       // labels, annotations and owner references were cleaned up
	adopting   bool                       // what another manager applied was not taken over yet
	whole      bool                       // it was updated as a whole, or cannot be
	wrote      bool                       // an update of ours changed it in this run
	updated    bool                       // that update changed it
	generation int64                      // after that update; notUpdated if it was refused
	spoiled    bool                       // an apply changed it after that update
	refused    int                        // how many applies were refused that an update can replace
}

// one applies a single intent.
func (a *Applier) one(ctx context.Context, t Target, in Intent) Outcome {
	ctx, done := t.hold(ctx)
	defer done()
	out := Outcome{Key: in.Key}
	mapping, err := mappingFor(ctx, t.Mapper, in.Object)
	if err != nil {
		out.Err = err
		return out
	}
	if in.Key.Namespace != "" && mapping.Scope.Name() == meta.RESTScopeNameRoot {
		// It was planned while the kind was not known. The object would not be found again under a key with a
		// namespace.
		out.Err = errors.New("its kind turned out to be cluster-scoped; it is planned again")
		return out
	}
	o := &object{
		Applier: a, ctx: ctx, target: t, resource: resourceFor(t.Metadata, mapping, in.Key.Namespace),
		in: in, options: in.options(), exempt: in.Exempt(), out: &out, manifest: in.Object, uid: in.UID, adopting: in.Adopt,
	}
	run := o.attempt
	if in.CreateOnly {
		run = o.createOnly
	}
	for range attempts {
		done, err := run()
		if err != nil {
			out.Err = err
			return out
		}
		if done {
			return out
		}
	}
	out.Err = fmt.Errorf("the object kept changing during %d attempts; it is tried again", attempts)
	return out
}

// attempt applies the object once. done is false without an error if it is to be tried again.
func (o *object) attempt() (done bool, err error) {
	if o.adopting {
		if adopted, err := o.adopt(); err != nil || !adopted {
			return false, err
		}
	}
	if o.uid != "" && !o.in.Same && !o.whole {
		if done, err := o.updateWhole(); err != nil || !done {
			return false, err
		}
	}
	var live *unstructured.Unstructured
	if o.readLive || merge.NeedsLive(o.manifest, o.options, o.uid != "") {
		if live, err = o.read(); err != nil {
			return false, err
		}
	}
	body, err := o.body(live)
	if err != nil {
		return false, err
	}
	answer, err := o.apply(body)
	switch {
	case err == nil:
		done, err := o.settle(answer, body)
		switch {
		case err != nil || !done || o.created(answer):
			return done, err
		case o.whole:
			// The update set the right content. If the apply changed it, an empty list was removed together with its
			// siblings.
			if o.generation == notUpdated || answer.Generation == o.generation || !hasEmpty(o.manifest.Object) {
				return true, nil
			}
			if o.spoiled {
				return o.update(nil)
			}
			o.whole, o.spoiled = false, true
			return false, nil
		case o.in.Same && !o.mayHaveLostEmpty():
			return true, nil
		}
		done, err = o.updateWhole()
		return done && !o.updated, err
	case live != nil && apierrors.IsConflict(err) && !mentionsUID(err):
		return false, nil // it changed since it was read
	case o.uid != "" && mentionsUID(err):
		// The known object is gone. If another one has its name now, it is read before it is written.
		o.uid, err = o.currentUID()
		o.in.Same = false
		return false, err
	}
	if unknown := o.cut(err); len(unknown) > 0 {
		o.out.UnknownFields = append(o.out.UnknownFields, unknown...)
		o.in.Same = false // the manifest is another one now
		return false, nil
	}
	switch {
	case refusesApply(err):
		o.out.Duplicates = duplicates(err)
		return o.update(live)
	case mayPassAsUpdate(err):
		return o.overcome(live, err)
	}
	return false, err
}

// mayHaveLostEmpty reports whether taking back what others owned may have removed an empty map or list of the manifest:
// an apply does not own empty lists, and removes fields without an owner together with parents that seem empty then.
func (o *object) mayHaveLostEmpty() bool {
	return len(o.out.TakenBack) > 0 && hasEmpty(o.manifest.Object)
}

// hasEmpty reports whether a node is or contains an empty map or list.
func hasEmpty(node any) bool {
	switch node := node.(type) {
	case map[string]any:
		for _, value := range node {
			if hasEmpty(value) {
				return true
			}
		}
		return len(node) == 0
	case []any:
		return len(node) == 0 || slices.ContainsFunc(node, hasEmpty)
	}
	return false
}

// created reports whether an apply created the object, from its response: it has no other writer, and is as old as our
// entry, within the time that a busy server needs between the two. An older object may be from an earlier call whose
// response was lost.
func (o *object) created(answer *metav1.PartialObjectMetadata) bool {
	entries := answer.ManagedFields
	if answer.UID == o.in.UID || answer.Generation > 1 || len(entries) != 1 || entries[0].Time == nil {
		return false
	}
	return entries[0].Time.Sub(answer.CreationTimestamp.Time).Abs() <= 5*time.Second
}

// adopt makes us the owner of what another manager applied for the same ManagedResource, so that the following apply
// changes nothing where the content is the same. A different description annotation stays until something else changes,
// too: a new one would cause a reconciliation of every Deployment. What is taken over is not reported, since it is
// everything that the other manager wrote, and hardly any of it will change. Where the manifest sets all fields of the
// other manager, the apply alone is enough. adopted is false if the object changed meanwhile.
func (o *object) adopt() (adopted bool, err error) {
	live, err := o.resource.Get(o.ctx, o.in.Key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		o.adopting = false
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the object that is adopted: %w", err)
	}
	if live.DeletionTimestamp != nil {
		return false, ErrTerminating
	}
	record := ownership.Read(live, o.FieldManager)
	foreign, err := record.Foreign(o.exempt)
	if err != nil {
		return false, err
	}
	intended := ownership.Fields(o.manifest.Object)
	if slices.ContainsFunc(foreign, func(f ownership.Foreign) bool { return !f.Within(intended) }) {
		if _, err = o.rewrite(live, record, nil, nil); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("taking over the fields of another manager: %w", err)
		}
	}
	annotations := o.manifest.GetAnnotations()
	theirs := live.Annotations[resourcesv1alpha1.DescriptionAnnotation]
	if theirs != "" && theirs != annotations[resourcesv1alpha1.DescriptionAnnotation] && !o.options.ForceAnnotations {
		delete(annotations, resourcesv1alpha1.DescriptionAnnotation)
		o.manifest = o.manifest.DeepCopy()
		o.manifest.SetAnnotations(annotations)
	}
	o.uid, o.adopting = live.UID, false
	return true, nil
}

// body returns what is sent: the manifest, adapted to the live object if that was read, with the UID of the known
// object.
func (o *object) body(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if live != nil {
		body := o.manifest.DeepCopy()
		if err := merge.Keep(body, live, ownership.Read(live, o.FieldManager).Owned(), o.options); err != nil {
			return nil, err
		}
		body.SetUID(live.GetUID())
		body.SetResourceVersion(live.GetResourceVersion())
		return body, nil
	}
	if o.uid == "" {
		return o.manifest, nil
	}
	content := maps.Clone(o.manifest.Object)
	metadata, _ := content["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["uid"] = string(o.uid)
	content["metadata"] = metadata
	for _, path := range merge.CreationOnly(o.manifest) {
		if len(path) == 2 {
			delete(metadata, path[1])
		} else {
			delete(content, path[0])
		}
	}
	return &unstructured.Unstructured{Object: content}, nil
}

func (o *object) apply(body *unstructured.Unstructured) (*metav1.PartialObjectMetadata, error) {
	raw, err := o.in.text.Append(nil, body.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	answer, err := o.resource.Patch(o.ctx, o.in.Key.Name, types.ApplyPatchType, raw,
		metav1.PatchOptions{FieldManager: o.FieldManager, Force: ptr.To(true)})
	return answer, o.redact(err)
}

func (o *object) redact(err error) error { return redact(o.in.Object, err) }

// cut removes fields that the server does not know from the manifest.
func (o *object) cut(err error) []string {
	if !mentionsUnknownFields(err) {
		return nil
	}
	manifest := o.manifest.DeepCopy()
	unknown := cutUnknownFields(manifest, err)
	if len(unknown) > 0 {
		o.manifest = manifest
	}
	return unknown
}

// settle checks the response to an apply and removes what has to go in addition to what the apply removed.
func (o *object) settle(answer *metav1.PartialObjectMetadata, body *unstructured.Unstructured) (done bool, err error) {
	if answer.DeletionTimestamp != nil {
		return false, ErrTerminating
	}
	o.uid = answer.UID
	record := ownership.Read(answer, o.FieldManager)
	if o.wrote {
		record.DropUpdates()
	}
	foreign, err := record.Foreign(o.exempt)
	if err != nil {
		return false, err
	}
	passing := merge.Passing(body)
	var tidy []patchOperation
	if !o.tidied { // once: what returns immediately is set by the target itself
		tidy = o.tidy(answer, record)
	}
	if len(foreign) == 0 && len(passing) == 0 && len(tidy) == 0 && !record.HasUpdates() {
		o.accept(answer, record.State())
		return true, nil
	}
	after, err := o.rewrite(answer, record, passing, tidy)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil // it changed or was deleted meanwhile; try again
	}
	if err != nil {
		return false, fmt.Errorf("taking back what is not in the manifest: %w", err)
	}
	o.tidied = true
	o.out.TakenBack = append(o.out.TakenBack, foreign...)
	if len(foreign) > 0 {
		return false, nil // it is ours now, and the next apply removes it
	}
	o.accept(after, ownership.Observe(after, o.FieldManager))
	return true, nil
}

func (o *object) accept(answer metav1.Object, state ownership.State) {
	o.out.UID, o.out.ResourceVersion, o.out.State = answer.GetUID(), answer.GetResourceVersion(), state
	if len(o.out.UnknownFields) == 0 {
		o.out.Digest = o.in.Digest
	}
}

// patchOperation is one step of a JSON patch.
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func remove(path string) patchOperation { return patchOperation{Op: "remove", Path: path} }

func replace(path string, value any) patchOperation {
	return patchOperation{Op: "replace", Path: path, Value: value}
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// tidy returns the changes to labels, annotations and owner references that an apply does not make.
func (o *object) tidy(live *metav1.PartialObjectMetadata, record *ownership.Record) (ops []patchOperation) {
	for _, key := range merge.StaleLabels(merge.LabelsOf(o.manifest), live.Labels, o.options) {
		ops = append(ops, remove("/metadata/labels/"+pointer.Replace(key)))
	}
	options := o.options
	if options.ForceAnnotations {
		options.ControlPlane = byControlPlane(record)
	}
	for _, key := range merge.StaleAnnotations(
		o.in.Key.GroupKind(), merge.AnnotationsOf(o.manifest), live.Annotations, options) {
		ops = append(ops, remove("/metadata/annotations/"+pointer.Replace(key)))
	}
	if len(live.OwnerReferences) == 0 {
		return ops
	}
	wanted := o.manifest.GetOwnerReferences()
	switch {
	case merge.SameOwners(wanted, live.OwnerReferences):
	case len(wanted) == 0:
		ops = append(ops, remove("/metadata/ownerReferences"))
	default:
		ops = append(ops, replace("/metadata/ownerReferences", wanted))
	}
	return ops
}

// byControlPlane returns a function that reports whether a part of the control plane wrote an annotation.
func byControlPlane(record *ownership.Record) func(key string) bool {
	notes := record.ByControlPlane()
	return func(key string) bool { return notes != nil && notes.Members.Has(field(key)) }
}

// rewrite makes us the owner of foreign payload, gives up ownership of fields that count at creation only, and applies
// tidy, provided that the object is unchanged since seen.
func (o *object) rewrite(seen *metav1.PartialObjectMetadata, record *ownership.Record, passing []fieldpath.Path,
	tidy []patchOperation) (*metav1.PartialObjectMetadata, error) {
	entries, changed, err := record.Rewrite(o.in.Object.GetAPIVersion(), o.exempt, passing)
	if err != nil {
		return nil, err
	}
	if !changed && len(tidy) == 0 {
		return seen, nil
	}
	ops := []patchOperation{replace("/metadata/resourceVersion", seen.ResourceVersion)}
	if changed {
		ops = append(ops, replace("/metadata/managedFields", entries))
	}
	raw, err := json.Marshal(append(ops, tidy...))
	if err != nil {
		return nil, fmt.Errorf("encoding managed fields: %w", err)
	}
	answer, err := o.resource.Patch(o.ctx, o.in.Key.Name, types.JSONPatchType, raw,
		metav1.PatchOptions{FieldManager: o.FieldManager})
	return answer, o.redact(err)
}

// read reads the live object in full and records its UID; it returns nil if the object does not exist.
func (o *object) read() (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(o.in.Object.GroupVersionKind())
	if err := o.target.Client.Get(o.ctx, client.ObjectKeyFromObject(o.in.Object), live); err != nil {
		if apierrors.IsNotFound(err) {
			o.uid = ""
			return nil, nil
		}
		return nil, fmt.Errorf("reading the live object: %w", err)
	}
	if live.GetDeletionTimestamp() != nil {
		return nil, ErrTerminating
	}
	o.uid = live.GetUID()
	return live, nil
}

// currentUID returns the UID of the object that has the name now, empty if there is none.
func (o *object) currentUID() (types.UID, error) {
	live, err := o.target.Head(o.ctx, o.in)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the live object: %w", err)
	}
	if live.DeletionTimestamp != nil {
		return "", ErrTerminating
	}
	return live.UID, nil
}

// createOnly creates the object as in the manifest, and leaves one that exists as it is. Only the description
// annotation is removed, since it would be wrong.
func (o *object) createOnly() (done bool, err error) {
	live, err := o.target.Head(o.ctx, o.in)
	if apierrors.IsNotFound(err) {
		obj := o.in.Object.DeepCopy()
		err := o.target.Client.Create(o.ctx, obj, client.FieldOwner(o.FieldManager))
		if apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		o.out.UID, o.out.ResourceVersion = obj.GetUID(), obj.GetResourceVersion()
		return true, o.redact(err)
	}
	if err != nil {
		return false, err
	}
	if live.DeletionTimestamp != nil {
		return false, ErrTerminating
	}
	if _, described := live.Annotations[resourcesv1alpha1.DescriptionAnnotation]; described {
		raw, err := json.Marshal([]patchOperation{
			replace("/metadata/resourceVersion", live.ResourceVersion),
			remove("/metadata/annotations/" + pointer.Replace(resourcesv1alpha1.DescriptionAnnotation)),
		})
		if err != nil {
			return false, err
		}
		live, err = o.resource.Patch(o.ctx, o.in.Key.Name, types.JSONPatchType, raw,
			metav1.PatchOptions{FieldManager: o.FieldManager})
		if apierrors.IsConflict(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("removing the description: %w", o.redact(err))
		}
	}
	o.out.UID, o.out.ResourceVersion = live.UID, live.ResourceVersion
	return true, nil
}

// sameContent reports whether two objects are semantically equal.
func sameContent(a, b *unstructured.Unstructured) bool {
	return semantic.DeepEqual(a.Object, b.Object)
}

func field(name string) fieldpath.PathElement { return fieldpath.PathElement{FieldName: &name} }
