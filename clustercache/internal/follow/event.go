package follow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"github.com/trellis-hub/trellis/clustercache/internal/envelope"
)

// Types of events.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
	bookmark = "BOOKMARK"
	failed   = "ERROR"
)

// event is what a watch brings.
type event struct {
	kind    string
	object  client.Object
	version string
	last    bool // a bookmark after which a list is complete
}

// watch is an open watch.
type watch struct {
	*frames
	collection *Collection
	opened     time.Time
	events     int // it brought, without those of a list
	end        func()
}

// errUnreadable is what is wrong with an event that is none.
var errUnreadable = errors.New("an event of the watch cannot be read")

// decode reads an event. One that says that something is wrong is an error.
func (w *watch) decode(raw []byte) (e event, err error) {
	defer w.free()
	switch {
	case w.protobuf:
		e, err = decodeProtobuf(raw)
	case w.collection.MetadataOnly:
		e, err = decodeMetadata(raw)
	default:
		e, err = decodeObject(raw, w.collection.fields)
	}
	var status *apierrors.StatusError
	switch {
	case errors.As(err, &status):
		return event{}, w.collection.said(status.ErrStatus)
	case err != nil:
		return event{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	e.version = e.object.GetResourceVersion()
	e.last = e.kind == bookmark && e.object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
	return e, nil
}

// decodeProtobuf reads an event with the metadata of an object.
func decodeProtobuf(raw []byte) (event, error) {
	kind, message, err := envelope.Event(raw)
	if err != nil {
		return event{}, err
	}
	if kind == failed {
		return event{}, statusOf(message)
	}
	object := &metav1.PartialObjectMetadata{}
	if err := envelope.Open(message, "", object); err != nil {
		return event{}, err
	}
	return event{kind: kind, object: object}, nil
}

// decodeMetadata reads an event in JSON, and of its object the metadata.
func decodeMetadata(raw []byte) (event, error) {
	e := struct {
		Type   string                        `json:"type"`
		Object *metav1.PartialObjectMetadata `json:"object"`
	}{}
	switch err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &e); {
	case e.Type == failed:
		return event{}, statusOf(raw)
	case err != nil:
		return event{}, err
	case e.Object == nil:
		return event{}, errors.New("there is no object in it")
	}
	return event{kind: e.Type, object: e.Object}, nil
}

// decodeObject reads an event in JSON with its object, of which no more is decoded than the fields that matter; nil for all.
func decodeObject(raw []byte, which *fields) (e event, err error) {
	if e, ok := decodeBookmark(raw); ok {
		return e, nil
	}
	if which != nil && cut(raw, which, func(text, managed []byte) { e, err = decodeWhole(text, raw, managed, true) }) {
		return e, err
	}
	return decodeWhole(raw, raw, nil, false)
}

// decodeBookmark reads a bookmark as servers write them: of tens of thousands of watches each brings one a minute, and nothing else of it
// is looked at. What is written otherwise is no less valid, and not for it.
func decodeBookmark(raw []byte) (event, bool) {
	if !bytes.HasPrefix(raw, bookmarkBegins) {
		return event{}, false
	}
	if version, plain := plainBookmark(raw); plain {
		object := &metav1.PartialObjectMetadata{}
		object.ResourceVersion = version
		return event{kind: bookmark, object: object}, true
	}
	var e struct {
		Object struct {
			Metadata struct {
				ResourceVersion string            `json:"resourceVersion"`
				Annotations     map[string]string `json:"annotations"`
			} `json:"metadata"`
		} `json:"object"`
	}
	read := false
	cut(raw, bookmarkFields, func(text, _ []byte) { read = kjson.UnmarshalCaseSensitivePreserveInts(text, &e) == nil })
	if !read || e.Object.Metadata.ResourceVersion == "" {
		return event{}, false // the whole tells better what is wrong with it
	}
	object := &metav1.PartialObjectMetadata{}
	object.ResourceVersion, object.Annotations = e.Object.Metadata.ResourceVersion, e.Object.Metadata.Annotations
	return event{kind: bookmark, object: object}, true
}

// plainBookmark returns the version of a bookmark that has no annotations, nor anything else that could be taken for one: it comes first in
// metadata, is the only one that is said, and in digits. Quotes in a text are escaped, so that no text looks like that.
func plainBookmark(raw []byte) (version string, ok bool) {
	_, rest, found := bytes.Cut(raw, versionBegins)
	if !found || bytes.Count(raw, versionKey) > 1 || bytes.Contains(raw, annotationsKey) {
		return "", false
	}
	digits := rest[:len(rest)-len(bytes.TrimLeft(rest, "0123456789"))]
	return string(digits), len(digits) > 0 && len(digits) < len(rest) && rest[len(digits)] == '"'
}

// bookmarkAlone reads a bookmark that some bytes are and nothing else, unless it is the end of a list.
func (w *watch) bookmarkAlone(data []byte) (event, bool) {
	if !w.protobuf && !bytes.HasPrefix(data, bookmarkBegins) {
		return event{}, false
	}
	raw, alone := w.alone(data)
	if !alone {
		return event{}, false
	}
	var e event
	var ok bool
	if !w.protobuf {
		e, ok = decodeBookmark(raw)
	} else if bytes.HasPrefix(raw, bookmarkMessage) {
		var err error
		e, err = decodeProtobuf(raw)
		ok = err == nil && e.kind == bookmark
	}
	if !ok {
		return event{}, false
	}
	e.version = e.object.GetResourceVersion()
	return e, e.version != "" && e.object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == ""
}

var (
	versionBegins              = []byte(`"metadata":{"resourceVersion":"`)
	versionKey, annotationsKey = []byte(`"resourceVersion"`), []byte(`"annotations"`)

	bookmarkBegins  = []byte(`{"type":"BOOKMARK",`)
	bookmarkMessage = append([]byte{0x0a, byte(len(bookmark))}, bookmark...) // the type is the first field
	bookmarkFields  = &fields{named: map[string]*field{"object": {beneath: &fields{named: map[string]*field{"metadata": {beneath: &fields{
		named: map[string]*field{"resourceVersion": {}, "annotations": {}},
	}}}}}}}
)

// decodeWhole reads an event in JSON with all of its object that is in the text, which was cut from what came.
func decodeWhole(text, raw, managed []byte, apart bool) (event, error) {
	e := struct {
		Type   string         `json:"type"`
		Object map[string]any `json:"object"`
	}{}
	switch err := kjson.UnmarshalCaseSensitivePreserveInts(text, &e); {
	case e.Type == failed:
		return event{}, statusOf(raw)
	case err != nil:
		return event{}, err
	case e.Object == nil:
		return event{}, errors.New("there is no object in it")
	}
	if !apart {
		return event{kind: e.Type, object: &unstructured.Unstructured{Object: e.Object}}, nil
	}
	object := &Object{Unstructured: unstructured.Unstructured{Object: e.Object}}
	if len(managed) > 0 {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(managed, &object.managed); err != nil {
			return event{}, err
		}
	}
	return event{kind: e.Type, object: object}, nil
}

// statusOf returns the error that an event of type ERROR tells of.
func statusOf(raw []byte) error {
	var status metav1.Status
	if envelope.Is(raw) {
		if err := envelope.Open(raw, "", &status); err != nil {
			return err
		}
		return &apierrors.StatusError{ErrStatus: status}
	}
	e := struct {
		Object *metav1.Status `json:"object"`
	}{&status}
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	return &apierrors.StatusError{ErrStatus: status}
}
