package kinds

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/allocation"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/form"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/ownership"
)

const (
	// generatedSuffix and maxGeneratedBase are the lengths of the parts of a generated name.
	generatedSuffix  = 5
	maxGeneratedBase = 63 - generatedSuffix

	modified = "the object has been modified; please apply your changes to the latest version and try again"
)

// Next computes what live becomes by a write; live is nil if the object does not exist, and in the version of r.Storage
// otherwise. It is never modified. Errors are those of a real kube-apiserver, *apierrors.StatusError with its code,
// reason, message and causes. That an object to create exists already is for the caller to see, once its name is known,
// as is whether its namespace exists.
func (r *Resource) Next(live *unstructured.Unstructured, w Write) (Result, error) {
	if r.form == nil || r.managers[w.Subresource] == nil {
		return Result{}, apierrors.NewMethodNotSupported(r.groupResource(), string(w.Verb))
	}
	n := &next{Resource: r, Write: w, stored: live}
	if live != nil {
		n.live = r.Convert(live)
	}
	object, err := n.run()
	if err != nil {
		return Result{Warnings: n.warnings}, asStatus(err)
	}
	if object == n.live {
		return Result{Object: live, Warnings: n.warnings}, nil
	}
	if r.Storage != r.GVR {
		object = ownership.InVersion(object, r.Storage.GroupVersion())
	}
	return Result{Object: object, Warnings: n.warnings, Changed: true}, nil
}

// asStatus makes any error one of a server.
func asStatus(err error) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return status
	}
	return unknown(err)
}

// unknown is how a server answers an error that it has no reason for.
func unknown(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
	}}
}

// Convert returns an object of the same kind, of any served version, in the version of r: conversion is "None" for all.
func (r *Resource) Convert(o *unstructured.Unstructured) *unstructured.Unstructured {
	return ownership.InVersion(o, r.GVR.GroupVersion())
}

// next is one write under way.
type next struct {
	*Resource
	Write

	// live is the object in the version of the request, stored the same in that of the storage.
	live, stored *unstructured.Unstructured
	warnings     []string
}

// run returns what is to be stored, or live if nothing changes.
func (n *next) run() (*unstructured.Unstructured, error) {
	switch n.Verb {
	case Create:
		return n.create()
	case Update:
		return n.update()
	case Patch:
		return n.patch()
	case Apply:
		return n.apply()
	}
	return nil, fmt.Errorf("unknown verb %q", n.Verb)
}

func (n *next) create() (*unstructured.Unstructured, error) {
	o, err := n.decode()
	if err != nil {
		return nil, err
	}
	for _, system := range []string{"creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", system)
	}
	if err := n.adjustNamespace(o); err != nil {
		return nil, err
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		base := o.GetGenerateName()
		o.SetName(base[:min(len(base), maxGeneratedBase)] + rand.String(generatedSuffix))
	}
	o = n.note(n.form.Empty(), o)
	if err := n.finishNew(o); err != nil {
		return nil, err
	}
	if o.GetResourceVersion() != "" {
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	}
	return o, nil
}

func (n *next) update() (*unstructured.Unstructured, error) {
	o, err := n.decode()
	if err != nil {
		return nil, err
	}
	if err := n.adjustNamespace(o); err != nil {
		return nil, err
	}
	if err := n.checkName(o); err != nil {
		return nil, err
	}
	if n.live == nil && (!n.traits.createOnUpdate || n.Subresource != "") {
		return nil, apierrors.NewNotFound(n.groupResource(), n.Name)
	}
	if uid := o.GetUID(); uid != "" && (n.live == nil || uid != n.live.GetUID()) {
		found := ""
		if n.live != nil {
			found = string(n.live.GetUID())
		}
		return nil, apierrors.NewConflict(n.groupResource(), n.Name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, "+
			"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s",
			n.storageKey(), uid, found))
	}
	if n.live == nil {
		o = n.note(n.form.Empty(), o)
		return o, n.finishNew(o)
	}
	return n.finish(n.note(n.live, o))
}

// note lets the field manager take note of what live becomes by a write that is no apply.
func (n *next) note(live, o *unstructured.Unstructured) *unstructured.Unstructured {
	// Entries that the body brings are known before the field manager adds its own.
	brought := ownership.Entries(o)
	if noted, ok := n.managers[n.Subresource].UpdateNoErrors(live, o, n.Manager).(*unstructured.Unstructured); ok {
		o = noted
	}
	ownership.Stamp(o, n.Now, ownership.Entries(live), brought)
	return o
}

func (n *next) patch() (*unstructured.Unstructured, error) {
	if n.live == nil {
		return nil, apierrors.NewNotFound(n.groupResource(), n.Name)
	}
	o, err := n.patched()
	if err != nil {
		return nil, err
	}
	o = n.note(n.live, o)
	if err := n.adjustNamespace(o); err != nil {
		return nil, err
	}
	if err := n.checkName(o); err != nil {
		return nil, err
	}
	return n.finish(o)
}

func (n *next) apply() (*unstructured.Unstructured, error) {
	intent, repeated, err := decodeYAML(n.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	live := n.live
	if live == nil {
		if n.Subresource != "" {
			return nil, apierrors.NewNotFound(n.groupResource(), n.Name)
		}
		live = n.form.Empty()
	}
	merged, err := n.managers[n.Subresource].Apply(live, intent, n.Manager, n.Force)
	if err != nil {
		return nil, err
	}
	applied, ok := merged.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("the field manager gives a %T", merged)
	}
	if repeated != nil {
		if n.FieldValidation == metav1.FieldValidationStrict {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: %v", repeated))
		}
		n.warn(yamlProblems(repeated)...)
	}
	// The definition of a custom resource may have changed since live was settled.
	if n.live != nil && !n.Custom() && ownership.Untouched(applied, n.live) && ownership.Same(applied, n.live) {
		return n.live, nil
	}
	o, _, err := n.form.Settle(ownership.Without(applied))
	if err != nil {
		return nil, err
	}
	setOrDelete(o.Object, anyOrNil(ownership.Entries(applied)), "metadata", "managedFields")
	if n.live == nil {
		if uid := o.GetUID(); uid != "" {
			return nil, apierrors.NewConflict(n.groupResource(), n.Name,
				fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
		}
	}
	ownership.Stamp(o, n.Now, ownership.Entries(live))
	if err := n.adjustNamespace(o); err != nil {
		return nil, err
	}
	if err := n.checkName(o); err != nil {
		return nil, err
	}
	if n.live == nil {
		// A resourceVersion is not looked at here [seen].
		o.SetResourceVersion("")
		return o, n.finishNew(o)
	}
	return n.finish(o)
}

// finishNew makes a new object, of which its field manager has taken note, one that can be stored.
func (n *next) finishNew(o *unstructured.Unstructured) error {
	if n.HasStatus && !n.traits.keepsStatus {
		setOrDelete(o.Object, n.form.InitialStatus(), "status")
	}
	// A kind that does not count generations keeps the one it is given [seen].
	if n.traits.generation {
		o.SetGeneration(1)
	}
	if n.Subresource == "" {
		allocation.Fill(n.GVR.GroupResource(), o, n.live)
	}
	if errs := n.form.Validate(o, nil, ""); len(errs) > 0 {
		return apierrors.NewInvalid(o.GroupVersionKind().GroupKind(), o.GetName(), errs)
	}
	n.warnOfFinalizers(o)
	return nil
}

// warnOfFinalizers warns the writer of a custom resource of new finalizers that others could have chosen as well.
func (n *next) warnOfFinalizers(o *unstructured.Unstructured) {
	if !n.Custom() || n.Subresource != "" {
		return
	}
	var old []string
	if n.live != nil {
		old = n.live.GetFinalizers()
	}
	for _, finalizer := range o.GetFinalizers() {
		if !slices.Contains(old, finalizer) && !strings.Contains(finalizer, "/") && !form.StandardFinalizers.Has(finalizer) {
			n.warnings = append(n.warnings, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name to avoid "+
				"accidental conflicts with other finalizer writers", finalizer))
		}
	}
}

// finish makes an object that changes, of which its field manager has taken note, one that can be stored. It returns
// live if nothing changes.
func (n *next) finish(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if err := n.checkResourceVersion(o); err != nil {
		return nil, err
	}
	n.keep(o)
	if n.Subresource == "" && n.traits.generation && n.traits.changes(o.Object, n.live.Object) {
		o.SetGeneration(n.live.GetGeneration() + 1)
	}
	if n.Subresource == "" {
		allocation.Fill(n.GVR.GroupResource(), o, n.live)
	}
	if ownership.Same(o, n.live) {
		return n.live, nil // which has been checked already
	}
	if errs := n.form.Validate(o, n.live, n.Subresource); len(errs) > 0 {
		return nil, apierrors.NewInvalid(o.GroupVersionKind().GroupKind(), o.GetName(), errs)
	}
	n.warnOfFinalizers(o)
	return o, nil
}

// keep puts back what the write cannot change.
func (n *next) keep(o *unstructured.Unstructured) {
	if n.Subresource == "status" {
		entries := ownership.Entries(o)
		for _, path := range n.traits.statusKeeps {
			value, _, _ := unstructured.NestedFieldNoCopy(n.live.Object, path...)
			setOrDelete(o.Object, value, path...)
		}
		if n.Custom() {
			// Nothing but the status of a custom resource can be written there, whatever else it has.
			content := make(map[string]any, len(n.live.Object))
			for key, value := range n.live.Object {
				content[key] = value
			}
			setOrDelete(content, o.Object["status"], "status")
			o.Object = content
		}
		// The metadata may be that of live now, which must not be changed.
		copyMetadata(o)
		setOrDelete(o.Object, anyOrNil(entries), "metadata", "managedFields")
	} else if n.HasStatus {
		setOrDelete(o.Object, n.live.Object["status"], "status")
	}
	for _, system := range []string{"generation", "creationTimestamp", "deletionTimestamp", "selfLink"} {
		value, found, _ := unstructured.NestedFieldNoCopy(n.live.Object, "metadata", system)
		switch {
		case found:
			setOrDelete(o.Object, value, "metadata", system)
		case system == "generation":
			setOrDelete(o.Object, nil, "metadata", system)
		}
	}
	if o.GetDeletionGracePeriodSeconds() == nil {
		value, _, _ := unstructured.NestedFieldNoCopy(n.live.Object, "metadata", "deletionGracePeriodSeconds")
		setOrDelete(o.Object, value, "metadata", "deletionGracePeriodSeconds")
	}
	if o.GetUID() == "" {
		o.SetUID(n.live.GetUID())
	}
	o.SetResourceVersion(n.live.GetResourceVersion())
}

func (n *next) checkResourceVersion(o *unstructured.Unstructured) error {
	version, text := uint64(0), o.GetResourceVersion()
	if text != "" {
		var err error
		if version, err = strconv.ParseUint(text, 10, 64); err != nil {
			return err
		}
	}
	if version == 0 && n.traits.needsResourceVersion {
		kind := n.GVK().GroupKind()
		kind.Kind = n.GVR.Resource
		return apierrors.NewInvalid(kind, n.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), version, "must be specified for an update"),
		})
	}
	if version != 0 && text != n.live.GetResourceVersion() {
		return apierrors.NewConflict(n.groupResource(), n.Name, errors.New(modified))
	}
	return nil
}

// adjustNamespace fills in the namespace of the request.
func (n *next) adjustNamespace(o *unstructured.Unstructured) error {
	switch has := o.GetNamespace(); {
	case has == n.Namespace:
	case has == "" || n.Namespace == "":
		o.SetNamespace(n.Namespace)
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

func (n *next) checkName(o *unstructured.Unstructured) error {
	switch name := o.GetName(); name {
	case n.Name:
		return nil
	case "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", n.Name))
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, n.Name))
	}
}

// storageKey is where a real server would keep the object.
func (n *next) storageKey() string {
	key := "/registry/"
	switch {
	case n.Custom() || n.GVR.Group == "apiextensions.k8s.io" || n.GVR.Group == "apiregistration.k8s.io":
		key += n.GVR.Group + "/" + n.GVR.Resource
	case storagePrefixes[n.GVR.Resource] != "":
		key += storagePrefixes[n.GVR.Resource]
	default:
		key += n.GVR.Resource
	}
	if n.Namespaced {
		key += "/" + n.Namespace
	}
	return key + "/" + n.Name
}

var storagePrefixes = map[string]string{
	"services": "services/specs", "endpoints": "services/endpoints", "nodes": "minions", "replicationcontrollers": "controllers",
	"ingresses": "ingress", "podsecuritypolicies": "podsecuritypolicy",
}

func (n *next) warn(errs ...error) {
	if n.FieldValidation == metav1.FieldValidationIgnore {
		return
	}
	for _, err := range errs {
		n.warnings = append(n.warnings, err.Error())
	}
}

// decode reads the body of a create or update.
func (n *next) decode() (*unstructured.Unstructured, error) {
	o, strict, err := n.form.Decode(n.Body)
	if err == nil && len(strict) > 0 && n.FieldValidation == metav1.FieldValidationStrict {
		gvk := n.GVK()
		err = &form.DecodeError{GVK: &gvk, Err: runtime.NewStrictDecodingError(strict)}
	}
	if err != nil {
		return nil, n.refuse(err)
	}
	n.warn(strict...)
	return o, nil
}

// refuse words that a body cannot be read.
func (n *next) refuse(err error) error {
	var version *form.VersionError
	if errors.As(err, &version) {
		return apierrors.NewBadRequest(version.Error())
	}
	var decoding *form.DecodeError
	if !errors.As(err, &decoding) {
		return err
	}
	if decoding.GVK != nil && decoding.GVK.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
			decoding.GVK.Kind, decoding.GVK.Version, n.Kind, decoding.Err))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)",
		n.Kind, decoding.Err, summary(n.Body)))
}

// summary shows the beginning of a body.
func summary(body []byte) string {
	if len(body) == 0 {
		return "<empty>"
	}
	const enough = 30
	end, more := len(body), ""
	if end > enough {
		end, more = enough, " ..."
	}
	if body[0] == '{' {
		return string(body[:end]) + more
	}
	return hex.EncodeToString(body[:end]) + more
}

// setOrDelete sets a field, or deletes it if the value is nil. Maps on the way must belong to the caller.
func setOrDelete(content map[string]any, value any, path ...string) {
	for _, step := range path[:len(path)-1] {
		inner, ok := content[step].(map[string]any)
		if !ok {
			if value == nil {
				return
			}
			inner = map[string]any{}
			content[step] = inner
		}
		content = inner
	}
	if last := path[len(path)-1]; value == nil {
		delete(content, last)
	} else {
		content[last] = value
	}
}

func anyOrNil(list []any) any {
	if list == nil {
		return nil
	}
	return list
}

// copyMetadata gives an object metadata of its own, one level deep.
func copyMetadata(o *unstructured.Unstructured) {
	metadata, _ := o.Object["metadata"].(map[string]any)
	own := make(map[string]any, len(metadata))
	for key, value := range metadata {
		own[key] = value
	}
	o.Object["metadata"] = own
}
