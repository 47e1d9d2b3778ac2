package apply

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/manifest"
	"github.com/trellis-hub/trellis/engine/merge"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// attempts bounds how often one object is tried within one run if others change it meanwhile.
const attempts = 8

// ErrNotTried is the failure of an object that was not sent because something that it depends on failed, or the run
// ended.
var ErrNotTried = errors.New("not tried")

// ErrTerminating is the failure of an object that is being deleted: it is created again when it is gone.
var ErrTerminating = errors.New("the object is being deleted; it is created again when it is gone")

// Target is the access to the cluster that is written to.
type Target struct {
	// Metadata is used for writes, so that responses carry metadata only.
	Metadata metadata.Interface
	// Client reads live objects. It must not be cached.
	Client client.Client
	// Mapper resolves kinds, within a context if it implements meta.RESTMapperWithContext. If it can be reset, it is
	// reset when a kind is not known although its definition was just applied.
	Mapper meta.RESTMapper
	// Hold, if set, is called for each object. Objects that are read with the returned context may be large, and are in
	// use until done is called.
	Hold func(ctx context.Context) (held context.Context, done func())
}

// hold calls Hold, if it is set.
func (t Target) hold(ctx context.Context) (held context.Context, done func()) {
	if t.Hold == nil {
		return ctx, func() {}
	}
	return t.Hold(ctx)
}

// Intent is the desired state of one object in the target.
type Intent struct {
	// Object is what Prepare made of the manifest. It is not changed, and shares most of its content with other
	// objects.
	Object *unstructured.Unstructured
	text   *manifest.Text // the manifest as JSON, if it is known
	Key    inventory.Key
	// UID is that of the live object if it is known to exist, else empty.
	UID types.UID
	// Adopt says that the object was probably applied by another manager for the same ManagedResource: the inventory has
	// it, but not its UID.
	Adopt bool
	// Digest is a hash of Object and of the options that change what is sent.
	Digest uint64
	// CreateOnly is for objects with the ignore annotation: created if absent and never touched afterwards.
	CreateOnly bool
	// Autoscaled is set by SetAutoscaled: an autoscaler scales the object, so its live replicas stay.
	Autoscaled bool
	// ForceLabels and ForceAnnotations remove live labels and annotations that are not in Object.
	ForceLabels, ForceAnnotations bool
	// Base is the desired labels and annotations of the last apply: the base of three-way merges.
	Base Base
	// Same says that this is what was applied last. Otherwise an object that exists may have fields without an owner
	// that an earlier manifest or another manager left, and these are removed.
	Same bool
}

// Base is the part of an inventory entry that later merges need: a label that was managed, is not any longer, and still
// has the managed value, is removed.
type Base struct {
	Labels, Annotations map[string]string
}

// BaseOf returns the base that an inventory entry holds.
func BaseOf(ref *resourcesv1alpha1.ObjectReference) Base {
	return Base{Labels: ref.Labels, Annotations: ref.Annotations}
}

// SetAutoscaled sets whether an autoscaler sets the replicas of the object. It changes what is sent, hence the digest.
func (in *Intent) SetAutoscaled(yes bool) {
	if in.Autoscaled != yes {
		in.Autoscaled = yes
		in.Digest ^= autoscaledSalt
	}
}

// Arbitrary numbers that represent options in a digest which are not in the object.
const (
	autoscaledSalt       = 0x9e3779b97f4a7c15
	forceLabelsSalt      = 0xbf58476d1ce4e5b9
	forceAnnotationsSalt = 0x94d049bb133111eb
)

// options returns the options of the merge rules.
func (in *Intent) options() merge.Options {
	return merge.Options{
		BaseLabels: in.Base.Labels, BaseAnnotations: in.Base.Annotations,
		ForceLabels: in.ForceLabels, ForceAnnotations: in.ForceAnnotations, Autoscaled: in.Autoscaled,
	}
}

// Exempt returns the foreign payload that stays with its owners.
func (in *Intent) Exempt() ownership.Exempt { return ownership.ExemptFor(in.Object, in.Autoscaled) }

// Kept returns the foreign payload that wins over the manifest.
func (in *Intent) Kept() ownership.Exempt { return ownership.KeptFor(in.Object, in.Autoscaled) }

// Outcome is the result of applying an intent.
type Outcome struct {
	Key inventory.Key
	// UID, ResourceVersion and State are those of the object after the last write; empty if it failed.
	UID             types.UID
	ResourceVersion string
	State           ownership.State
	// Digest is that of the intent; zero if something else was sent, because the target does not know some of its
	// fields.
	Digest uint64
	// Unchanged is true if nothing was sent, because the object is known to be as desired.
	Unchanged bool
	// TakenBack is the payload of other owners that this run removed or took over.
	TakenBack []ownership.Foreign
	// UnknownFields are paths that the target's schema does not know; they were left out.
	UnknownFields []string
	// Duplicates say where the manifest has several list items with equal keys according to the target's schema.
	Duplicates []string
	// Recreated is true if the object was deleted and created again, because the server rejected the update as invalid.
	Recreated bool
	// Err is nil if the object is as it should be.
	Err error
}

// Applier applies intents to targets. It holds no state of any target.
type Applier struct {
	// FieldManager is the manager of all applies.
	FieldManager string
	// Parallel bounds how many objects of a stage are applied at the same time.
	Parallel int
	// KindTimeout bounds the wait for a kind whose definition is in the same bundle.
	KindTimeout time.Duration
}

// redact removes the values of Secrets from a server's error about a write of an object.
func redact(obj *unstructured.Unstructured, err error) error {
	if err != nil && obj.GetKind() == "Secret" {
		return withoutValues(err)
	}
	return err
}

// withoutValues cuts quoted values from a server's message, with all that follows: the end of a value of several lines
// cannot be found.
func withoutValues(err error) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !quotedValue.MatchString(status.ErrStatus.Message) {
		return err
	}
	status = &apierrors.StatusError{ErrStatus: *status.ErrStatus.DeepCopy()}
	status.ErrStatus.Message = quotedValue.ReplaceAllString(status.ErrStatus.Message, "$1 (not shown)")
	return status
}

// quotedValue matches the two ways in which API servers quote values, with the rest of the text.
var quotedValue = regexp.MustCompile(`(?s)(, got|Invalid value:) .*`)

// mentionsUID reports whether the server refused because the UID of the object is another one than that of the request.
func mentionsUID(err error) bool {
	if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "uid mismatch") || strings.Contains(text, "metadata.uid") ||
		strings.Contains(text, "UID in precondition")
}

func mappingFor(
	ctx context.Context, mapper meta.RESTMapper, obj *unstructured.Unstructured,
) (*meta.RESTMapping, error) {
	gvk := obj.GroupVersionKind()
	return meta.ToRESTMapperWithContext(mapper).RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
}

// Resource returns a metadata client for an intent's kind and namespace.
func (t Target) Resource(ctx context.Context, in Intent) (metadata.ResourceInterface, error) {
	mapping, err := mappingFor(ctx, t.Mapper, in.Object)
	if err != nil {
		return nil, err
	}
	return resourceFor(t.Metadata, mapping, in.Key.Namespace), nil
}

// Head reads the metadata of the object of an intent. From servers that cannot return metadata alone, the object is
// read in full.
func (t Target) Head(ctx context.Context, in Intent) (*metav1.PartialObjectMetadata, error) {
	resource, err := t.Resource(ctx, in)
	if err != nil {
		return nil, err
	}
	live, err := resource.Get(ctx, in.Key.Name, metav1.GetOptions{})
	if !apierrors.IsNotAcceptable(err) {
		return live, err
	}
	full := &unstructured.Unstructured{}
	full.SetGroupVersionKind(in.Object.GroupVersionKind())
	if err := t.Client.Get(ctx, client.ObjectKeyFromObject(in.Object), full); err != nil {
		return nil, err
	}
	return partial(full), nil
}

// partial returns the metadata of an object.
func partial(obj *unstructured.Unstructured) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		Generation: obj.GetGeneration(),
		Labels:     obj.GetLabels(), Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(),
		Finalizers:        obj.GetFinalizers(),
		CreationTimestamp: obj.GetCreationTimestamp(), DeletionTimestamp: obj.GetDeletionTimestamp(),
		ManagedFields: obj.GetManagedFields(),
	}}
}

func resourceFor(c metadata.Interface, mapping *meta.RESTMapping, namespace string) metadata.ResourceInterface {
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.Resource(mapping.Resource).Namespace(namespace)
	}
	return c.Resource(mapping.Resource)
}
