package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Object is one object of one server. It is never modified: a write makes a new one.
type Object struct {
	key        unique.Handle[string] // see Key
	uid        uuid.UUID
	version    uint64
	created    int64 // seconds since 1970; 0: unknown
	deleted    int64 // the same of the deletionTimestamp; 0: not being deleted
	generation int64
	grace      int64 // deletionGracePeriodSeconds; -1: none

	// The content, as JSON. Servers with the same content share it.
	meta    unique.Handle[string] // members of metadata that are not named here: ,"labels":{...},"annotations":{...}
	managed unique.Handle[string] // entries of managedFields without time and closing brace, each ended by endOfEntry
	body    unique.Handle[string] // members beside apiVersion, kind, metadata and status: ,"spec":{...}
	status  unique.Handle[string] // the value of status; empty: none

	times string // of the entries in managed, 4 bytes each, seconds since 1970; 0: none
}

// endOfEntry never occurs in JSON text, where control characters are escaped.
const endOfEntry = "\x00"

// Key returns what an object is stored under, and listed in the order of: its name, after its namespace and a slash if it
// has one.
func Key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// New returns the object with this content. Its uid must be a UUID, its resourceVersion is left out: Tx.Put gives it one.
func New(u *unstructured.Unstructured) (*Object, error) {
	o := &Object{grace: -1, generation: u.GetGeneration()}
	o.key = unique.Make(Key(u.GetNamespace(), u.GetName()))
	var err error
	if o.uid, err = uuid.Parse(string(u.GetUID())); err != nil {
		return nil, fmt.Errorf("reading the uid %q of %q: %w", u.GetUID(), o.Key(), err)
	}
	if t := u.GetCreationTimestamp(); !t.IsZero() {
		o.created = t.Unix()
	}
	if t := u.GetDeletionTimestamp(); t != nil {
		o.deleted = t.Unix()
	}
	if g := u.GetDeletionGracePeriodSeconds(); g != nil {
		o.grace = *g
	}

	metadata, _ := u.Object["metadata"].(map[string]any)
	var text bytes.Buffer
	if err := appendMembers(&text, metadata, "labels"); err != nil {
		return nil, fmt.Errorf("encoding the labels of %q: %w", o.Key(), err)
	}
	rest := slices.DeleteFunc(slices.Sorted(maps.Keys(metadata)), func(name string) bool {
		switch name {
		case "labels", "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
			"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink":
			return true
		}
		return false
	})
	if err := appendMembers(&text, metadata, rest...); err != nil {
		return nil, fmt.Errorf("encoding the metadata of %q: %w", o.Key(), err)
	}
	o.meta = unique.Make(text.String())

	if o.managed, o.times, err = managedFields(metadata["managedFields"]); err != nil {
		return nil, fmt.Errorf("encoding the managed fields of %q: %w", o.Key(), err)
	}

	text.Reset()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(u.Object)), func(name string) bool {
		return name == "apiVersion" || name == "kind" || name == "metadata" || name == "status"
	})
	if err := appendMembers(&text, u.Object, names...); err != nil {
		return nil, fmt.Errorf("encoding %q: %w", o.Key(), err)
	}
	o.body = unique.Make(text.String())

	text.Reset()
	if status, ok := u.Object["status"]; ok {
		if err := appendValue(&text, status); err != nil {
			return nil, fmt.Errorf("encoding the status of %q: %w", o.Key(), err)
		}
	}
	o.status = unique.Make(text.String())
	return o, nil
}

// managedFields takes the times out of the list, for they differ from server to server when the rest does not.
func managedFields(list any) (unique.Handle[string], string, error) {
	var text bytes.Buffer
	var times []byte
	entries, _ := list.([]any)
	for _, entry := range entries {
		fields, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		var seconds uint32
		if s, ok := fields["time"].(string); ok {
			t, err := time.Parse(time.RFC3339, s)
			if err != nil {
				return unique.Handle[string]{}, "", err
			}
			seconds = uint32(t.Unix())
		}
		times = binary.LittleEndian.AppendUint32(times, seconds)
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), func(name string) bool { return name == "time" })
		start := text.Len()
		if err := appendMembers(&text, fields, names...); err != nil {
			return unique.Handle[string]{}, "", err
		}
		text.Bytes()[start] = '{' // the comma before the first member
		text.WriteString(endOfEntry)
	}
	return unique.Make(text.String()), string(times), nil
}

// appendMembers writes the members of these names that there are, each after a comma.
func appendMembers(b *bytes.Buffer, from map[string]any, names ...string) error {
	for _, name := range names {
		value, ok := from[name]
		if !ok {
			continue
		}
		b.WriteByte(',')
		b.Write(appendString(b.AvailableBuffer(), name))
		b.WriteByte(':')
		if err := appendValue(b, value); err != nil {
			return err
		}
	}
	return nil
}

func appendValue(b *bytes.Buffer, value any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the newline of the encoder
	return nil
}

// appendString writes a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == '"' || s[i] == '\\' || s[i] > '~' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // there is no string that cannot be encoded
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendTime(b []byte, seconds int64) []byte {
	b = append(b, '"')
	b = time.Unix(seconds, 0).UTC().AppendFormat(b, time.RFC3339)
	return append(b, '"')
}

// Key is what the object is stored under, see the function Key.
func (o *Object) Key() string { return o.key.Value() }

// Name of the object.
func (o *Object) Name() string {
	_, name := o.split()
	return name
}

// Namespace of the object; empty if it has none.
func (o *Object) Namespace() string {
	namespace, _ := o.split()
	return namespace
}

func (o *Object) split() (namespace, name string) {
	key := o.key.Value()
	if i := strings.IndexByte(key, '/'); i >= 0 {
		return key[:i], key[i+1:]
	}
	return "", key
}

// UID of the object.
func (o *Object) UID() types.UID { return types.UID(o.uid.String()) }

// Version is the resourceVersion, 0 before the object is put into a Store.
func (o *Object) Version() uint64 { return o.version }

// WithVersion returns the same object with another version.
func (o *Object) WithVersion(version uint64) *Object {
	other := *o
	other.version = version
	return &other
}

// Terminating reports whether the object has a deletionTimestamp.
func (o *Object) Terminating() bool { return o.deleted != 0 }

// HasFinalizer reports whether the object has this finalizer.
func (o *Object) HasFinalizer(name string) bool {
	_, list, _ := strings.Cut(o.meta.Value(), `,"finalizers":[`) // the quotes of such a text in a value would be escaped
	list, _, _ = strings.Cut(list, "]")
	return strings.Contains(list, `"`+name+`"`)
}

// Labels of the object, to match selectors with; they are read from the content, at no cost while they are not.
func (o *Object) Labels() Labels {
	text, _ := strings.CutPrefix(o.meta.Value(), `,"labels":{`)
	if len(text) == len(o.meta.Value()) {
		return ""
	}
	return Labels(text)
}

// Annotation returns the value of an annotation, empty if there is none.
func (o *Object) Annotation(name string) string {
	if !strings.Contains(o.meta.Value(), name) {
		return ""
	}
	var m struct{ Annotations map[string]string }
	if err := json.Unmarshal([]byte("{"+strings.TrimPrefix(o.meta.Value(), ",")+"}"), &m); err != nil {
		return ""
	}
	return m.Annotations[name]
}

// Digest is a hash of what clients want the object to be: all but its identity, times, managedFields and status.
func (o *Object) Digest() uint64 {
	var d xxhash.Digest
	d.Reset()
	for _, s := range []string{o.key.Value(), endOfEntry, o.meta.Value(), endOfEntry, o.body.Value()} {
		_, _ = d.WriteString(s) // never fails
	}
	return d.Sum64()
}

// distinct returns the size of the content that the other object does not have; nil has none.
func (o *Object) distinct(other *Object) (size int) {
	var parts [4]unique.Handle[string]
	if other != nil {
		parts = [4]unique.Handle[string]{other.meta, other.managed, other.body, other.status}
	}
	for i, part := range []unique.Handle[string]{o.meta, o.managed, o.body, o.status} {
		if part != parts[i] {
			size += len(part.Value())
		}
	}
	return size
}

// SameContent reports whether two objects differ in nothing but their version.
func (o *Object) SameContent(other *Object) bool {
	a, b := *o, *other
	a.version, b.version = 0, 0
	return a == b
}

// As says how an object is written.
type As struct {
	APIVersion, Kind string // left out if empty, as in lists of built-in kinds
	MetadataOnly     bool   // as PartialObjectMetadata
	Version          uint64 // resourceVersion, in place of the object's own; 0: its own
}

// AppendJSON appends the object as JSON.
func (o *Object) AppendJSON(b []byte, as As) []byte {
	b = append(b, '{')
	if as.Kind != "" {
		b = append(b, `"kind":`...)
		b = appendString(b, as.Kind)
		b = append(b, `,"apiVersion":`...)
		b = appendString(b, as.APIVersion)
		b = append(b, ',')
	}
	namespace, name := o.split()
	b = append(b, `"metadata":{"name":`...)
	b = appendString(b, name)
	if namespace != "" {
		b = append(b, `,"namespace":`...)
		b = appendString(b, namespace)
	}
	b = append(b, `,"uid":"`...)
	b = append(b, o.uid.String()...)
	b = append(b, '"')
	if version := cmp.Or(as.Version, o.version); version != 0 {
		b = append(b, `,"resourceVersion":"`...)
		b = strconv.AppendUint(b, version, 10)
		b = append(b, '"')
	}
	if o.generation != 0 {
		b = append(b, `,"generation":`...)
		b = strconv.AppendInt(b, o.generation, 10)
	}
	if o.created != 0 {
		b = append(b, `,"creationTimestamp":`...)
		b = appendTime(b, o.created)
	}
	if o.deleted != 0 {
		b = append(b, `,"deletionTimestamp":`...)
		b = appendTime(b, o.deleted)
	}
	if o.grace >= 0 {
		b = append(b, `,"deletionGracePeriodSeconds":`...)
		b = strconv.AppendInt(b, o.grace, 10)
	}
	b = append(b, o.meta.Value()...)
	b = o.appendManaged(b)
	b = append(b, '}')
	if !as.MetadataOnly {
		b = append(b, o.body.Value()...)
		if status := o.status.Value(); status != "" {
			b = append(b, `,"status":`...)
			b = append(b, status...)
		}
	}
	return append(b, '}')
}

func (o *Object) appendManaged(b []byte) []byte {
	rest := o.managed.Value()
	if rest == "" {
		return b
	}
	b = append(b, `,"managedFields":[`...)
	for i := 0; rest != ""; i++ {
		var entry string
		entry, rest, _ = strings.Cut(rest, endOfEntry)
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, entry...)
		if seconds := binary.LittleEndian.Uint32([]byte(o.times[4*i : 4*i+4])); seconds != 0 {
			b = append(b, `,"time":`...)
			b = appendTime(b, int64(seconds))
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// Unstructured returns a copy of the object as this kind, which the caller may modify.
func (o *Object) Unstructured(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	text := o.AppendJSON(nil, As{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind})
	content := map[string]any{}
	if err := utiljson.Unmarshal(text, &content); err != nil {
		panic(fmt.Sprintf("storage: an object is not JSON: %v: %s", err, text)) // New encoded it
	}
	return &unstructured.Unstructured{Object: content}
}

// Labels are the labels of an object in a form that costs nothing to get at; it implements labels.Labels.
type Labels string

// Lookup implements labels.Labels.
func (l Labels) Lookup(name string) (value string, exists bool) {
	rest := string(l)
	for strings.HasPrefix(rest, `"`) {
		var k, v string
		if k, rest = quoted(rest); !strings.HasPrefix(rest, ":") {
			return "", false
		}
		v, rest = quoted(rest[1:])
		if k == name {
			return v, true
		}
		rest = strings.TrimPrefix(rest, ",")
	}
	return "", false
}

// Has implements labels.Labels.
func (l Labels) Has(name string) bool {
	_, ok := l.Lookup(name)
	return ok
}

// Get implements labels.Labels.
func (l Labels) Get(name string) string {
	value, _ := l.Lookup(name)
	return value
}

// quoted takes a JSON string off the beginning of s. Labels have nothing in them that would be escaped, so escapes are skipped
// but not resolved.
func quoted(s string) (inner, rest string) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[1:i], s[i+1:]
		}
	}
	return "", ""
}
