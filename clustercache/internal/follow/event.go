package follow

import (
	"context"
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
	"github.com/trellis-hub/trellis/untrusted"
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
	last    bool   // a bookmark after which a list is complete
	release func() // gives its seat in the budget back
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

// event reads the next event. The caller has to release it.
func (w *watch) event() (event, error) {
	raw, err := w.next()
	if err != nil {
		return event{}, err
	}
	return w.decode(raw)
}

// decode reads an event. One that says that something is wrong is an error.
func (w *watch) decode(raw []byte) (e event, err error) {
	defer w.free()
	d := decoding{ctx: w.ctx, call: w.call, share: w.share}
	switch {
	case w.protobuf:
		e, err = d.protobuf(raw)
	case w.collection.MetadataOnly:
		e, err = d.metadata(raw, w.collection.event)
	default:
		e, err = d.object(raw, w.collection.event)
	}
	if err == nil {
		err = check(e.kind, e.object)
	}
	if err != nil && d.release != nil {
		d.release()
	}
	var status *apierrors.StatusError
	switch {
	case errors.As(err, &status):
		return event{}, w.collection.said(status.ErrStatus)
	case err != nil && w.ctx.Err() != nil:
		return event{}, &endedError{context.Cause(w.ctx)}
	case err != nil:
		return event{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if e.release = d.release; e.release == nil {
		e.release = func() {}
	}
	e.version = e.object.GetResourceVersion()
	e.last = e.kind == bookmark && e.object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
	return e, nil
}

// check returns an error if the names of an object, which are kept, are missing or invalid. A name that is too long is
// not cut: no API server accepts it, and a cut one could be the name of another object.
func check(kind string, o client.Object) error {
	switch {
	case kind != added && kind != modified && kind != deleted:
		// It is ignored, or has no name.
	case o.GetName() == "":
		return errors.New("it has no name")
	case untrusted.Name(o.GetName()) != o.GetName():
		return errors.New("its name is invalid")
	case untrusted.Name(o.GetNamespace()) != o.GetNamespace():
		return errors.New("its namespace is invalid")
	case untrusted.Token(string(o.GetUID())) != string(o.GetUID()):
		return errors.New("its UID is invalid")
	}
	return checkVersion(o.GetResourceVersion())
}

// checkVersion returns an error if a version is malformed.
func checkVersion(version string) error {
	if untrusted.Token(version) != version {
		return errors.New("its version is invalid")
	}
	return nil
}

// decoding is the state of decoding one document.
type decoding struct {
	ctx     context.Context
	call    context.Context // of the request, for answers.Pause
	share   *Share
	release func() // nil unless something was taken
}

// admit waits until the parts of a document that matter may be decoded: the JSON, and managedFields separately. It is
// an error if they exceed a bound.
func (d *decoding) admit(text, managed []byte) error {
	elements, depth := untrusted.Count(text)
	entries, known := managers(managed)
	switch {
	case elements > maxElements:
		return &untrusted.ExceededError{What: "elements", Most: maxElements}
	case depth > maxDepth:
		return &untrusted.ExceededError{What: "levels of nesting", Most: maxDepth}
	case entries > maxManagers:
		return &untrusted.ExceededError{What: "managed fields", Most: maxManagers}
	case !known:
		return errors.New("its managed fields cannot be read")
	}
	return d.take(len(text)+len(managed), elements+entries)
}

func (d *decoding) take(bytes, elements int) (err error) {
	d.release, err = d.share.decode(d.ctx, d.call, bytes, elements)
	return err
}

// protobuf reads an event with the metadata of an object.
func (d *decoding) protobuf(raw []byte) (event, error) {
	kind, message, err := envelope.Event(raw)
	if err != nil {
		return event{}, err
	}
	if kind == failed {
		return event{}, statusOf(message)
	}
	elements, err := envelope.Elements(message)
	if err == nil {
		err = d.take(len(message), elements)
	}
	if err != nil {
		return event{}, err
	}
	object := &metav1.PartialObjectMetadata{}
	if err := envelope.Open(message, "", object); err != nil {
		return event{}, err
	}
	return event{kind: kind, object: object}, nil
}

// metadata reads an event in JSON, and of its object the metadata.
func (d *decoding) metadata(raw []byte, which *fields) (e event, err error) {
	if cut(raw, which, func(text, managed []byte) { e, err = d.partial(text, raw, managed) }) {
		return e, err
	}
	return d.partial(raw, raw, nil)
}

// partial reads an event in JSON with the metadata of an object, which were cut out of the event.
func (d *decoding) partial(text, raw, managed []byte) (event, error) {
	if err := d.admit(text, managed); err != nil {
		return event{}, err
	}
	e := struct {
		Type   string                        `json:"type"`
		Object *metav1.PartialObjectMetadata `json:"object"`
	}{}
	switch err := kjson.UnmarshalCaseSensitivePreserveInts(text, &e); {
	case e.Type == failed:
		return event{}, statusOf(raw)
	case err != nil:
		return event{}, err
	case e.Object == nil:
		return event{}, errNoObject
	}
	if len(managed) > 0 {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(managed, &e.Object.ManagedFields); err != nil {
			return event{}, err
		}
	}
	return event{kind: e.Type, object: e.Object}, nil
}

var errNoObject = errors.New("there is no object in it")

// object reads an event in JSON with its object, of which only the fields that matter are decoded; nil for all.
func (d *decoding) object(raw []byte, which *fields) (e event, err error) {
	if which != nil && cut(raw, which, func(text, managed []byte) { e, err = d.whole(text, raw, managed, true) }) {
		return e, err
	}
	return d.whole(raw, raw, nil, false)
}

// whole reads an event in JSON with all of its object that is in the text, which was cut from what came.
func (d *decoding) whole(text, raw, managed []byte, apart bool) (event, error) {
	if err := d.admit(text, managed); err != nil {
		return event{}, err
	}
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
		return event{}, errNoObject
	}
	object, err := objectOf(e.Object, managed, apart)
	return event{kind: e.Type, object: object}, err
}

// objectOf returns an object with its content.
func objectOf(content map[string]any, managed []byte, apart bool) (client.Object, error) {
	if !apart {
		return &unstructured.Unstructured{Object: content}, nil
	}
	object := &Object{Unstructured: unstructured.Unstructured{Object: content}}
	if len(managed) > 0 {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(managed, &object.managed); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// statusOf returns the error in an event of type ERROR.
func statusOf(raw []byte) error {
	if len(raw) > maxError {
		return fmt.Errorf("it reports a failure in more than %d bytes", maxError)
	}
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
