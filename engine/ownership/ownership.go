package ownership

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trellis-hub/trellis/engine/merge"
	"github.com/trellis-hub/trellis/untrusted"
)

// State is a digest of the ownership of one object. Two equal states of the same object mean that no client changed
// what the hub set, and none added or removed other payload. The zero value is that of an object that the hub never
// applied.
type State struct {
	// Own is a digest of our Apply entry, of the values of the labels and annotations it names, and of all owner
	// references, which have to be exactly those of the manifest.
	Own uint64
	// Foreign is a digest of the payload that only others own, zero if there is none.
	Foreign uint64
	// Labels is a digest of the labels that our entry does not name, zero if there are none.
	Labels uint64
	// Annotations is the same for annotations, without those that the control plane itself wrote (ControlPlane), such
	// as the revision of a Deployment, which change without a user.
	Annotations uint64
}

// Within clears the parts that are not drift: labels and annotations of others, unless the ManagedResource forces
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

// ControlPlane reports whether a field manager is a part of the control plane, whose annotations are a record of what
// it did and not a change by a user.
func ControlPlane(manager string) bool {
	return manager == "kube-controller-manager" || manager == "kube-scheduler"
}

// Foreign is payload that one other manager owns and we do not. Manager is empty for removed fields.
type Foreign struct {
	Manager     string
	Operation   metav1.ManagedFieldsOperationType
	Subresource string
	Fields      *fieldpath.Set
}

// Paths renders at most limit of the fields for users, sorted.
func (f Foreign) Paths(limit int) []string {
	var out []string
	f.Fields.Leaves().Iterate(func(p fieldpath.Path) {
		if len(out) < limit {
			out = append(out, untrusted.Name(p.String()))
		}
	})
	sort.Strings(out)
	return out
}

// Within reports whether an intent sets all of the fields, as far as that can be decided without a schema.
func (f Foreign) Within(intended *fieldpath.Set) bool {
	within := true
	f.Fields.Leaves().Iterate(func(p fieldpath.Path) { within = within && coveredBy(p, intended) })
	return within
}

// Record has the managedFields of an object. Each entry is parsed once, on first use, so a Record is not safe for
// concurrent use, and is valid as long as the object does not change.
type Record struct {
	obj     metav1.Object
	manager string
	entries []entry
	own     int // index of our entry, -1 without one

	dropUpdates bool
}

// entry is one entry. Those of the status are parsed only where they matter.
type entry struct {
	*metav1.ManagedFieldsEntry
	tooLarge error  // the error if the entries together exceed a bound
	names    *names // of our entry
	parsed   bool
	set      *fieldpath.Set
	err      error
}

// fields parses the entry; nil if there is nothing to parse.
func (e *entry) fields() (*fieldpath.Set, error) {
	if !e.parsed && e.hasFields() {
		e.set, e.err = e.parse()
	}
	e.parsed = true
	return e.set, e.err
}

func (e *entry) hasFields() bool { return e.FieldsV1 != nil && e.Subresource != "status" }

// readNames reads the names in the entry, and reports whether it can be read.
func (e *entry) readNames() bool {
	if !e.hasFields() {
		return false
	}
	if n, ok := namesIn(e.FieldsV1.GetRawBytes()); ok && e.tooLarge == nil {
		e.names = &n
		return true
	}
	set, err := e.fields()
	switch {
	case err == nil:
		e.names = new(namesOf(set))
	case errors.Is(err, ErrTooLarge):
		e.names = &names{} // it is still our entry
	default:
		return false
	}
	return true
}

// Read reads the managedFields of an object for a field manager. Only the metadata of the object is read. Entries that
// exceed bounds count as unreadable.
func Read(obj metav1.Object, manager string) *Record {
	managed := obj.GetManagedFields()
	r := &Record{obj: obj, manager: manager, entries: make([]entry, len(managed)), own: -1}
	tooLarge := checkSize(managed)
	for i := range managed {
		r.entries[i] = entry{ManagedFieldsEntry: &managed[i], tooLarge: tooLarge}
	}
	for i := range r.entries {
		if e := &r.entries[i]; isOwn(e.ManagedFieldsEntry, manager) && e.readNames() {
			r.own = i
			return r
		}
	}
	for i := range r.entries { // an object that was written by updates, because the server refuses applies
		e := &r.entries[i]
		if isUpdate(e.ManagedFieldsEntry, manager) && e.readNames() {
			r.own = i
		}
	}
	return r
}

// Owned returns the fields of our entry, nil without one.
func (r *Record) Owned() *fieldpath.Set {
	if r.own < 0 {
		return nil
	}
	set, err := r.entries[r.own].fields()
	if err != nil {
		return nil // only its names could be read: no field of others counts as ours, too
	}
	return set
}

// Applied returns the fields of our entry if an apply in the given version wrote it, and those among them that no other
// entry has, including those of our own updates: the next apply without them removes these. Both are nil for an entry
// of an update or of another version, and if an entry cannot be read.
func (r *Record) Applied(apiVersion string) (all, alone *fieldpath.Set) {
	if r.own < 0 || !isOwn(r.entries[r.own].ManagedFieldsEntry, r.manager) || r.entries[r.own].APIVersion != apiVersion {
		return nil, nil
	}
	if all = r.Owned(); all == nil {
		return nil, nil
	}
	alone = all
	for i := range r.entries {
		if i == r.own || !r.entries[i].hasFields() {
			continue
		}
		set, err := r.entries[i].fields()
		if err != nil || set == nil {
			return nil, nil
		}
		alone = alone.Difference(set)
	}
	return all, alone
}

// others iterates over the entries of others that may hold payload.
func (r *Record) others(f func(e *entry, set *fieldpath.Set, err error)) {
	for i := range r.entries {
		if e := &r.entries[i]; i != r.own && !isOwn(e.ManagedFieldsEntry, r.manager) && !r.dropped(i) && e.hasFields() {
			set, err := e.fields()
			f(e, set, err)
		}
	}
}

// DropUpdates makes the record give up fields that our updates own and our apply does not: after an update of the whole
// object, these are defaults of the server, and empty lists, which no apply owns. Otherwise they count as foreign.
func (r *Record) DropUpdates() {
	r.dropUpdates = r.own >= 0 && isOwn(r.entries[r.own].ManagedFieldsEntry, r.manager)
}

// HasUpdates reports whether DropUpdates gives up any fields.
func (r *Record) HasUpdates() bool {
	for i := range r.entries {
		if r.dropped(i) {
			if set, err := r.entries[i].fields(); err == nil && set != nil && !payload(set, r.Owned(), "", nil).Empty() {
				return true
			}
		}
	}
	return false
}

func (r *Record) dropped(i int) bool {
	return r.dropUpdates && isUpdate(r.entries[i].ManagedFieldsEntry, r.manager)
}

// Observe computes the state of an object for a field manager. Only the metadata of the object is read. Entries that
// cannot be parsed count as foreign, so that they lead to an apply and are not ignored.
//
// An object without managedFields is from a server that does not support them. Then its generation represents its
// payload, or its resourceVersion if it has none, and all its labels and annotations count.
func Observe(obj metav1.Object, manager string) State { return Read(obj, manager).State() }

// State returns the state of the object.
func (r *Record) State() State {
	if len(r.entries) == 0 {
		return stateWithoutFields(r.obj)
	}
	var state State
	var own names
	if r.own >= 0 {
		own = *r.entries[r.own].names
		state.Own = ownDigest(r.obj, r.entries[r.own].ManagedFieldsEntry, own)
		for i := range r.entries { // the entry of our updates distinguishes one write from another as well
			if e := &r.entries[i]; i != r.own && isUpdate(e.ManagedFieldsEntry, r.manager) {
				state.Own = 31*state.Own + ownDigest(r.obj, e.ManagedFieldsEntry, names{})
			}
		}
	}
	state.Labels = restDigest(r.obj.GetLabels(), own.labels, nil)
	state.Annotations = restDigest(r.obj.GetAnnotations(), own.annotations, r.ByControlPlane)
	hash := xxhash.New()
	r.others(func(e *entry, set *fieldpath.Set, err error) {
		if err != nil {
			_, _ = hash.Write(e.FieldsV1.GetRawBytes())
			state.Foreign = hash.Sum64()
			return
		}
		left := payload(set, r.Owned(), e.Subresource, nil)
		if left.Empty() {
			return
		}
		_, _ = hash.WriteString(e.Manager)
		_, _ = hash.WriteString(string(e.Operation))
		_, _ = hash.WriteString(e.Subresource)
		if raw, err := left.ToJSON(); err == nil {
			_, _ = hash.Write(raw)
		}
		state.Foreign = hash.Sum64()
	})
	return state
}

func stateWithoutFields(obj metav1.Object) State {
	hash := xxhash.New()
	if generation := obj.GetGeneration(); generation > 0 {
		_, _ = fmt.Fprintf(hash, "generation %d;", generation)
	} else {
		_, _ = hash.WriteString("version " + obj.GetResourceVersion() + ";")
	}
	writeOwners(hash, obj)
	return State{Own: hash.Sum64() + restDigest(obj.GetLabels(), nil, nil) + 3*restDigest(obj.GetAnnotations(), nil, nil)}
}

// ForeignPayload lists the payload that only others own and that is not exempt.
func ForeignPayload(obj metav1.Object, manager string, exempt Exempt) ([]Foreign, error) {
	return Read(obj, manager).Foreign(exempt)
}

// Foreign lists the payload that only others own and that is not exempt.
func (r *Record) Foreign(exempt Exempt) (out []Foreign, err error) {
	r.others(func(e *entry, set *fieldpath.Set, unreadable error) {
		if unreadable != nil {
			err = fmt.Errorf("reading the fields of manager %q: %w", untrusted.Token(e.Manager), unreadable)
			return
		}
		if left := payload(set, r.Owned(), e.Subresource, exempt); !left.Empty() {
			out = append(out, Foreign{Manager: e.Manager, Operation: e.Operation, Subresource: e.Subresource, Fields: left})
		}
	})
	return out, err
}

// LostTo lists the managers of fields that an intent sets and that we no longer own: the writers whose changes an apply
// will revert. List elements count with their list. Kept fields (KeptFor) are not reverted.
func LostTo(obj metav1.Object, manager string, intended *fieldpath.Set, kept Exempt) []Foreign {
	r := Read(obj, manager)
	ownSet := r.Owned()
	var out []Foreign
	r.others(func(e *entry, set *fieldpath.Set, err error) {
		if err != nil {
			return
		}
		taken := fieldpath.NewSet()
		set.Leaves().Iterate(func(p fieldpath.Path) {
			if (ownSet == nil || !ownSet.Has(p)) && coveredBy(p, intended) && (kept == nil || !kept(p, ownSet, e.Subresource)) {
				taken.Insert(p.Copy())
			}
		})
		if !taken.Empty() {
			out = append(out, Foreign{Manager: e.Manager, Operation: e.Operation, Subresource: e.Subresource, Fields: taken})
		}
	})
	return out
}

// Gone lists the fields that an intent sets and that have no owner any longer: they were removed, which records no
// manager. List elements count with their list. Kept fields (KeptFor) may be missing.
func (r *Record) Gone(intended *fieldpath.Set, kept Exempt) *fieldpath.Set {
	var sets []*fieldpath.Set
	for i := range r.entries {
		if set, err := r.entries[i].fields(); err == nil && set != nil {
			sets = append(sets, set)
		}
	}
	all := union(sets)
	gone := fieldpath.NewSet()
	intended.Leaves().Iterate(func(p fieldpath.Path) {
		if isPayloadOrMark(p) && !coveredBy(p, all) && !hasBelow(all, p) && (kept == nil || !kept(p, r.Owned(), "")) {
			gone.Insert(p.Copy())
		}
	})
	return gone
}

// isPayloadOrMark excludes fields that are never in managedFields.
func isPayloadOrMark(p fieldpath.Path) bool {
	switch first := p[0].FieldName; {
	case first == nil:
		return false
	case *first == "metadata":
		return len(p) == 3 && p[1].FieldName != nil && (*p[1].FieldName == "labels" || *p[1].FieldName == "annotations")
	default:
		return *first != "apiVersion" && *first != "kind"
	}
}

// Rewrite returns the managedFields in which we own the foreign payload that is not exempt, and do not own the fields
// in giveUp, and whether they differ from those of the object. Our fields are always in an Apply entry. apiVersion is
// the version of our applies; it is used if we have no entry yet.
func (r *Record) Rewrite(apiVersion string, exempt Exempt, giveUp []fieldpath.Path) (
	[]metav1.ManagedFieldsEntry, bool, error) {
	applied := r.own >= 0 && isOwn(r.entries[r.own].ManagedFieldsEntry, r.manager)
	var ownSet *fieldpath.Set
	var toBeOurs []*fieldpath.Set
	if applied {
		if ownSet = r.Owned(); ownSet == nil {
			return nil, false, fmt.Errorf("reading our own fields: %w", r.entries[r.own].err)
		}
		toBeOurs = append(toBeOurs, ownSet)
	}
	changed := false
	out := make([]metav1.ManagedFieldsEntry, 0, len(r.entries)+1)
	for i := range r.entries {
		e := &r.entries[i]
		if i == r.own && applied || isOwn(e.ManagedFieldsEntry, r.manager) {
			continue
		}
		set, err := e.fields()
		switch {
		case err != nil:
			return nil, false, fmt.Errorf("reading the fields of manager %q: %w", untrusted.Token(e.Manager), err)
		case set == nil:
			out = append(out, *e.ManagedFieldsEntry)
			continue
		}
		left := payload(set, ownSet, e.Subresource, exempt)
		if r.dropped(i) && !left.Empty() {
			changed = true
			continue
		}
		if left.Empty() {
			out = append(out, *e.ManagedFieldsEntry)
			continue
		}
		changed = true
		toBeOurs = append(toBeOurs, left)
		if rest := set.Difference(left); !rest.Empty() {
			raw, err := rest.ToJSON()
			if err != nil {
				return nil, false, fmt.Errorf("encoding the remaining fields of manager %q: %w", untrusted.Token(e.Manager), err)
			}
			other := *e.ManagedFieldsEntry
			other.FieldsV1 = rawFields(raw)
			out = append(out, other)
		}
	}
	ours := union(toBeOurs)
	for _, path := range giveUp {
		if given := below(ours, path); !given.Empty() {
			ours, changed = ours.Difference(given), true
		}
	}
	if !changed {
		return r.obj.GetManagedFields(), false, nil
	}
	raw, err := ours.ToJSON()
	if err != nil {
		return nil, false, fmt.Errorf("encoding our fields: %w", err)
	}
	mine := metav1.ManagedFieldsEntry{
		Manager: r.manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: apiVersion, FieldsType: "FieldsV1",
	}
	if applied {
		mine = *r.entries[r.own].ManagedFieldsEntry
	}
	mine.FieldsV1 = rawFields(raw)
	return append([]metav1.ManagedFieldsEntry{mine}, out...), true, nil
}

func rawFields(raw []byte) *metav1.FieldsV1 {
	f := &metav1.FieldsV1{}
	f.SetRawBytes(raw)
	return f
}

func isOwn(e *metav1.ManagedFieldsEntry, manager string) bool {
	return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// isUpdate reports whether an entry is that of our updates.
func isUpdate(e *metav1.ManagedFieldsEntry, manager string) bool {
	return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == ""
}

// parse reads the fields of the entry, if they are within bounds.
func (e *entry) parse() (*fieldpath.Set, error) {
	if e.tooLarge != nil {
		return nil, e.tooLarge
	}
	if err := checkDepth(e.FieldsV1.GetRawBytes()); err != nil {
		return nil, err
	}
	set := &fieldpath.Set{}
	if err := set.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
		return nil, err
	}
	return set, nil
}

// withoutMetadataAndStatus returns the payload of a set. It shares its parts with the set.
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

// payload returns the part of a foreign set that is payload, not ours and not exempt.
func payload(set, own *fieldpath.Set, subresource string, exempt Exempt) *fieldpath.Set {
	left := withoutMetadataAndStatus(set)
	if own != nil {
		left = notOwned(left, own)
	}
	if exempt == nil || left.Empty() {
		return left
	}
	return filter(left, nil, func(p fieldpath.Path) bool { return !exempt(p, own, subresource) })
}

// ownDigest hashes our entry and the values of the labels and annotations it names; the entry itself has only names.
// The time of the entry is that of our last write that changed something. It alone distinguishes that write from an
// earlier one with other values, which reappears when the etcd of a target is restored from a backup.
func ownDigest(obj metav1.Object, own *metav1.ManagedFieldsEntry, named names) uint64 {
	hash := xxhash.New()
	_, _ = hash.WriteString(own.APIVersion)
	if own.Time != nil {
		_, _ = hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(own.Time.Unix()))) //nolint:gosec // any number will do
	}
	_, _ = hash.Write(own.FieldsV1.GetRawBytes())
	writeValues(hash, named.labels, obj.GetLabels())
	writeValues(hash, named.annotations, obj.GetAnnotations())
	writeOwners(hash, obj)
	return hash.Sum64()
}

func writeOwners(hash *xxhash.Digest, obj metav1.Object) {
	for _, o := range obj.GetOwnerReferences() {
		_, _ = fmt.Fprintf(hash, "%s/%s/%s/%s/%t/%t;", o.APIVersion, o.Kind, o.Name, o.UID,
			o.Controller != nil && *o.Controller, o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion)
	}
}

// restDigest hashes the values whose keys are neither our own nor in the set of except, in any order; zero if there are
// none. except is called only if needed.
func restDigest(values map[string]string, own [][]byte, except func() *fieldpath.Set) (sum uint64) {
	var others *fieldpath.Set
	asked := except == nil
	for k, v := range values {
		if has(own, k) {
			continue
		}
		if !asked {
			others, asked = except(), true
		}
		if others != nil && others.Members.Has(fieldpath.PathElement{FieldName: &k}) || except != nil && merge.ByServer(k) {
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

// ByControlPlane returns the annotations that parts of the control plane own, through any subresource; nil if there are
// none.
func (r *Record) ByControlPlane() *fieldpath.Set {
	var sets []*fieldpath.Set
	for i := range r.entries {
		e := &r.entries[i]
		if !ControlPlane(e.Manager) || e.FieldsV1 == nil ||
			!bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:annotations"`)) {
			continue
		}
		set, err := e.fields()
		if set == nil && err == nil { // a status
			set, err = e.parse()
		}
		if err != nil {
			continue
		}
		if annotations := child(child(set, "metadata"), "annotations"); annotations != nil {
			sets = append(sets, annotations)
		}
	}
	if len(sets) == 0 {
		return nil
	}
	return union(sets)
}

func writeValues(hash *xxhash.Digest, names [][]byte, values map[string]string) {
	var size [8]byte
	for _, name := range names {
		v, ok := values[string(name)]
		if !ok {
			continue
		}
		binary.LittleEndian.PutUint64(size[:], uint64(len(v)))
		_, _ = hash.Write(name)
		_, _ = hash.Write(size[:])
		_, _ = hash.WriteString(v)
	}
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
