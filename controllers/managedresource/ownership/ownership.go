package ownership

import (
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// State condenses the ownership of one object. Two equal states of the same object mean that nobody touched what the hub
// set and that nobody added or gave up payload beside it. The zero value stands for an object that the hub never applied.
type State struct {
	// Own is a digest of our Apply entry, of the values of the labels and annotations it names, and of all owner references:
	// those are to be exactly what the manifest says, also if it says none.
	Own uint64
	// Foreign is a digest of the payload that others own beside ours, zero if there is none.
	Foreign uint64
	// Labels is a digest of the labels that our entry does not name, zero if there are none.
	Labels uint64
	// Annotations is the same for annotations, but for those that the control plane itself wrote (ControlPlane), such as
	// the revision of a Deployment: they come and go with what the object does.
	Annotations uint64
}

// Within leaves what counts. Labels and annotations of others belong to the object, unless its ManagedResource wants to have
// exactly its own.
func (s State) Within(exactLabels, exactAnnotations bool) State {
	if !exactLabels {
		s.Labels = 0
	}
	if !exactAnnotations {
		s.Annotations = 0
	}
	return s
}

// ControlPlane tells of a field manager whether it is a part of the control plane whose annotations on an object are not
// anybody's wish but a record of what it did.
func ControlPlane(manager string) bool {
	return manager == "kube-controller-manager" || manager == "kube-scheduler"
}

// Foreign is payload that one other manager owns and we do not.
type Foreign struct {
	Manager     string
	Operation   metav1.ManagedFieldsOperationType
	Subresource string
	Fields      *fieldpath.Set
}

// Paths renders at most limit of the fields for people, in order.
func (f Foreign) Paths(limit int) []string {
	var out []string
	f.Fields.Leaves().Iterate(func(p fieldpath.Path) {
		if len(out) < limit {
			out = append(out, p.String())
		}
	})
	sort.Strings(out)
	return out
}

// Observe computes the state of an object for a field manager. Only the metadata of the object is read. Entries that
// cannot be parsed count as foreign, so that they lead to an apply and never to silence.
func Observe(obj metav1.Object, manager string) State {
	entries := obj.GetManagedFields()
	own, ownSet := ownEntry(entries, manager)
	var state State
	if own != nil {
		state.Own = ownDigest(obj, own, ownSet)
	}
	metadata := child(ownSet, "metadata")
	state.Labels = restDigest(obj.GetLabels(), child(metadata, "labels"), nil)
	state.Annotations = restDigest(obj.GetAnnotations(), child(metadata, "annotations"), func() *fieldpath.Set { return controlPlaneAnnotations(entries) })
	hash := xxhash.New()
	for i := range entries {
		e := &entries[i]
		if isOwn(e, manager) || e.Subresource == "status" || e.FieldsV1 == nil {
			continue
		}
		set, err := parse(e)
		if err != nil {
			_, _ = hash.WriteString(e.FieldsV1.GetRawString())
			state.Foreign = hash.Sum64()
			continue
		}
		left := withoutMetadataAndStatus(set)
		if ownSet != nil {
			left = left.Difference(ownSet)
		}
		if left.Empty() {
			continue
		}
		_, _ = hash.WriteString(e.Manager)
		_, _ = hash.WriteString(string(e.Operation))
		_, _ = hash.WriteString(e.Subresource)
		if raw, err := left.ToJSON(); err == nil {
			_, _ = hash.Write(raw)
		}
		state.Foreign = hash.Sum64()
	}
	return state
}

// ForeignPayload lists the payload that others own beside ours and that is not exempt.
func ForeignPayload(obj metav1.Object, manager string, exempt Exempt) ([]Foreign, error) {
	entries := obj.GetManagedFields()
	_, ownSet := ownEntry(entries, manager)
	var out []Foreign
	for i := range entries {
		e := &entries[i]
		if isOwn(e, manager) || e.Subresource == "status" || e.FieldsV1 == nil {
			continue
		}
		set, err := parse(e)
		if err != nil {
			return nil, fmt.Errorf("reading the fields of manager %q: %w", e.Manager, err)
		}
		if left := payload(set, ownSet, e.Subresource, exempt); !left.Empty() {
			out = append(out, Foreign{Manager: e.Manager, Operation: e.Operation, Subresource: e.Subresource, Fields: left})
		}
	}
	return out, nil
}

// LostTo lists who holds fields that an intent sets and that we do not own any more: the writers whose changes an apply is
// about to undo. Elements of lists count with their list.
func LostTo(obj metav1.Object, manager string, intended *fieldpath.Set) []Foreign {
	entries := obj.GetManagedFields()
	_, ownSet := ownEntry(entries, manager)
	var out []Foreign
	for i := range entries {
		e := &entries[i]
		if isOwn(e, manager) || e.FieldsV1 == nil || e.Subresource == "status" {
			continue
		}
		set, err := parse(e)
		if err != nil {
			continue
		}
		taken := fieldpath.NewSet()
		set.Leaves().Iterate(func(p fieldpath.Path) {
			if (ownSet == nil || !ownSet.Has(p)) && coveredBy(p, intended) {
				taken.Insert(p.Copy())
			}
		})
		if !taken.Empty() {
			out = append(out, Foreign{Manager: e.Manager, Operation: e.Operation, Subresource: e.Subresource, Fields: taken})
		}
	}
	return out
}

// coveredBy tells whether a path, or one of its ancestors, is in the set.
func coveredBy(p fieldpath.Path, set *fieldpath.Set) bool {
	for i := len(p); i > 0; i-- {
		if set.Has(p[:i]) {
			return true
		}
	}
	return false
}

// TakeBack returns the managedFields in which everything that ForeignPayload lists belongs to our Apply entry, and whether
// that differs from what the object has. apiVersion is the version of our applies; it is used if we have no entry yet.
func TakeBack(obj metav1.Object, manager, apiVersion string, exempt Exempt) ([]metav1.ManagedFieldsEntry, bool, error) {
	entries := obj.GetManagedFields()
	own, ownSet := ownEntry(entries, manager)
	union := fieldpath.NewSet()
	if ownSet != nil {
		union = ownSet.Copy()
	}
	changed := false
	out := make([]metav1.ManagedFieldsEntry, 0, len(entries)+1)
	for i := range entries {
		e := entries[i]
		if isOwn(&e, manager) {
			continue
		}
		if e.Subresource == "status" || e.FieldsV1 == nil {
			out = append(out, e)
			continue
		}
		set, err := parse(&e)
		if err != nil {
			return nil, false, fmt.Errorf("reading the fields of manager %q: %w", e.Manager, err)
		}
		left := payload(set, ownSet, e.Subresource, exempt)
		if left.Empty() {
			out = append(out, e)
			continue
		}
		changed = true
		union = union.Union(left)
		if rest := set.Difference(left); !rest.Empty() {
			raw, err := rest.ToJSON()
			if err != nil {
				return nil, false, fmt.Errorf("encoding the remaining fields of manager %q: %w", e.Manager, err)
			}
			e.FieldsV1 = rawFields(raw)
			out = append(out, e)
		}
	}
	if !changed {
		return entries, false, nil
	}
	raw, err := union.ToJSON()
	if err != nil {
		return nil, false, fmt.Errorf("encoding our fields: %w", err)
	}
	mine := metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: apiVersion, FieldsType: "FieldsV1",
	}
	if own != nil {
		mine = *own
	}
	mine.FieldsV1 = rawFields(raw)
	return append([]metav1.ManagedFieldsEntry{mine}, out...), true, nil
}

// Owned returns the fields of our Apply entry, nil without one.
func Owned(obj metav1.Object, manager string) *fieldpath.Set {
	_, set := ownEntry(obj.GetManagedFields(), manager)
	return set
}

func rawFields(raw []byte) *metav1.FieldsV1 {
	f := &metav1.FieldsV1{}
	f.SetRawBytes(raw)
	return f
}

func isOwn(e *metav1.ManagedFieldsEntry, manager string) bool {
	return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

func ownEntry(entries []metav1.ManagedFieldsEntry, manager string) (*metav1.ManagedFieldsEntry, *fieldpath.Set) {
	for i := range entries {
		if e := &entries[i]; isOwn(e, manager) && e.FieldsV1 != nil {
			if set, err := parse(e); err == nil {
				return e, set
			}
		}
	}
	return nil, nil
}

func parse(e *metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	if err := set.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
		return nil, err
	}
	return set, nil
}

// withoutMetadataAndStatus leaves the payload of a set, sharing its parts.
func withoutMetadataAndStatus(set *fieldpath.Set) *fieldpath.Set {
	out := fieldpath.NewSet()
	set.Members.Iterate(func(pe fieldpath.PathElement) {
		if !isMetadataOrStatus(pe) {
			out.Members.Insert(pe)
		}
	})
	set.Children.Iterate(func(pe fieldpath.PathElement) {
		if isMetadataOrStatus(pe) {
			return
		}
		if child, ok := set.Children.Get(pe); ok {
			*out.Children.Descend(pe) = *child
		}
	})
	return out
}

func isMetadataOrStatus(pe fieldpath.PathElement) bool {
	return pe.FieldName != nil && (*pe.FieldName == "metadata" || *pe.FieldName == "status")
}

// payload is what of a foreign set is payload, not ours and not exempt.
func payload(set, own *fieldpath.Set, subresource string, exempt Exempt) *fieldpath.Set {
	left := withoutMetadataAndStatus(set)
	if own != nil {
		left = left.Difference(own)
	}
	if exempt == nil || left.Empty() {
		return left
	}
	kept := fieldpath.NewSet()
	left.Iterate(func(p fieldpath.Path) {
		if !exempt(p, own, subresource) {
			kept.Insert(p.Copy())
		}
	})
	return kept
}

// ownDigest hashes our entry without its time, and the metadata values it names: an entry alone holds names, and values
// of labels and annotations come with the metadata for free.
func ownDigest(obj metav1.Object, own *metav1.ManagedFieldsEntry, set *fieldpath.Set) uint64 {
	hash := xxhash.New()
	_, _ = hash.WriteString(own.APIVersion)
	_, _ = hash.WriteString(own.FieldsV1.GetRawString())
	meta := child(set, "metadata")
	writeValues(hash, child(meta, "labels"), obj.GetLabels())
	writeValues(hash, child(meta, "annotations"), obj.GetAnnotations())
	for _, o := range obj.GetOwnerReferences() {
		_, _ = fmt.Fprintf(hash, "%s/%s/%s/%s/%t/%t;", o.APIVersion, o.Kind, o.Name, o.UID,
			o.Controller != nil && *o.Controller, o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion)
	}
	return hash.Sum64()
}

// restDigest hashes the values whose keys are in neither set, whatever their order; zero if there are none. but is asked
// for only if it matters.
func restDigest(values map[string]string, own *fieldpath.Set, but func() *fieldpath.Set) (sum uint64) {
	var others *fieldpath.Set
	asked := but == nil
	for k, v := range values {
		pe := fieldpath.PathElement{FieldName: &k}
		if own != nil && own.Members.Has(pe) {
			continue
		}
		if !asked {
			others, asked = but(), true
		}
		if others != nil && others.Members.Has(pe) {
			continue
		}
		hash := xxhash.New()
		_, _ = hash.WriteString(k)
		_, _ = hash.Write([]byte{0})
		_, _ = hash.WriteString(v)
		sum += hash.Sum64()
	}
	return sum
}

// controlPlaneAnnotations are the annotations that parts of the control plane own, through whatever subresource; nil if
// there are none.
func controlPlaneAnnotations(entries []metav1.ManagedFieldsEntry) (out *fieldpath.Set) {
	for i := range entries {
		e := &entries[i]
		if !ControlPlane(e.Manager) || e.FieldsV1 == nil {
			continue
		}
		set, err := parse(e)
		if err != nil {
			continue
		}
		annotations := child(child(set, "metadata"), "annotations")
		switch {
		case annotations == nil:
		case out == nil:
			out = annotations
		default:
			out = out.Union(annotations)
		}
	}
	return out
}

func writeValues(hash *xxhash.Digest, set *fieldpath.Set, values map[string]string) {
	if set == nil {
		return
	}
	var size [8]byte
	set.Members.Iterate(func(pe fieldpath.PathElement) {
		if pe.FieldName == nil {
			return
		}
		v, ok := values[*pe.FieldName]
		if !ok {
			return
		}
		binary.LittleEndian.PutUint64(size[:], uint64(len(v)))
		_, _ = hash.WriteString(*pe.FieldName)
		_, _ = hash.Write(size[:])
		_, _ = hash.WriteString(v)
	})
}

func child(set *fieldpath.Set, name string) *fieldpath.Set {
	if set == nil {
		return nil
	}
	c, ok := set.Children.Get(fieldpath.PathElement{FieldName: &name})
	if !ok {
		return nil
	}
	return c
}

// Fields returns the paths that an intent sets, as far as they can be told without a schema: map keys by name, and whole
// lists. It serves to name who changed something; nothing is decided by it.
func Fields(intent map[string]any) *fieldpath.Set {
	set := fieldpath.NewSet()
	collect(set, nil, intent)
	return set
}

func collect(set *fieldpath.Set, prefix fieldpath.Path, value any) {
	m, ok := value.(map[string]any)
	if !ok || len(m) == 0 {
		set.Insert(prefix.Copy())
		return
	}
	for k, v := range m {
		name := k
		collect(set, append(prefix.Copy(), fieldpath.PathElement{FieldName: &name}), v)
	}
}
