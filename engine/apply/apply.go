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

// attempts bounds how often one object is tried within one run when it changes under our hands.
const attempts = 8

// ErrNotTried is the failure of an object that was not sent because of what happened before.
var ErrNotTried = errors.New("not tried")

// ErrTerminating is the failure of an object that is being deleted: it is created again when it is gone.
var ErrTerminating = errors.New("the object is being deleted; it is created again when it is gone")

// Target is the access to the cluster that is written to.
type Target struct {
	// Metadata is used for writes, whose answers then carry metadata only.
	Metadata metadata.Interface
	// Client reads live objects. It must not be cached.
	Client client.Client
	// Mapper resolves kinds, within a context if it implements meta.RESTMapperWithContext. If it can be reset, it is
	// when a kind is not known although its definition was just applied.
	Mapper meta.RESTMapper
	// Hold, if set, is called for each object. Objects that are read with the context that it returns may be large, and
	// are in use until done is called.
	Hold func(ctx context.Context) (held context.Context, done func())
}

// hold calls Hold, if it is set.
func (t Target) hold(ctx context.Context) (held context.Context, done func()) {
	if t.Hold == nil {
		return ctx, func() {}
	}
	return t.Hold(ctx)
}

// Intent is one object as it is to be in the target.
type Intent struct {
	// Object is what Prepare made of the manifest. It is not changed, and shares most of its content with others.
	Object *unstructured.Unstructured
	text   *manifest.Text // what the manifest looks like in JSON, if that is known
	Key    inventory.Key
	// UID is that of the live object if it is known to exist, else empty.
	UID types.UID
	// Adopt says that the object was probably applied by another manager for the same ManagedResource: the inventory has
	// it, but not its UID.
	Adopt bool
	// Digest condenses Object.
	Digest uint64
	// CreateOnly is for objects with the ignore annotation: created if absent and never touched afterwards.
	CreateOnly bool
	// Autoscaled is set by SetAutoscaled: somebody else scales the object, so its live replicas stay.
	Autoscaled bool
	// ForceLabels and ForceAnnotations drop live ones that are not in Object.
	ForceLabels, ForceAnnotations bool
	// Base is what the object's labels and annotations were to be at its last apply: the base of three-way merges.
	Base Base
	// Same says that this is what was applied last. Otherwise an object that exists may have fields that nobody owns
	// but that a former manifest, or somebody else's, led to. They are looked for.
	Same bool
}

// Base is the part of an inventory entry that later merges need: a label that was managed then, is not any more, and
// still has the value of then, goes.
type Base struct {
	Labels, Annotations map[string]string
}

// BaseOf returns the base that an inventory entry holds.
func BaseOf(ref *resourcesv1alpha1.ObjectReference) Base {
	return Base{Labels: ref.Labels, Annotations: ref.Annotations}
}

// SetAutoscaled says whether an autoscaler sets the replicas of the object. It is a part of what is sent, hence of the
// digest.
func (in *Intent) SetAutoscaled(yes bool) {
	if in.Autoscaled != yes {
		in.Autoscaled = yes
		in.Digest ^= autoscaledMark
	}
}

// Any numbers by which a digest tells what is not in the object.
const (
	autoscaledMark       = 0x9e3779b97f4a7c15
	forceLabelsMark      = 0xbf58476d1ce4e5b9
	forceAnnotationsMark = 0x94d049bb133111eb
)

// options are what the merge rules ask for.
func (in *Intent) options() merge.Options {
	return merge.Options{
		BaseLabels: in.Base.Labels, BaseAnnotations: in.Base.Annotations,
		ForceLabels: in.ForceLabels, ForceAnnotations: in.ForceAnnotations, Autoscaled: in.Autoscaled,
	}
}

// Exempt is the foreign payload that stays with its owners in the object of an intent.
func (in *Intent) Exempt() ownership.Exempt { return ownership.ExemptFor(in.Object, in.Autoscaled) }

// Kept is the foreign payload that wins over what an intent says.
func (in *Intent) Kept() ownership.Exempt { return ownership.KeptFor(in.Object, in.Autoscaled) }

// Outcome is what became of an intent.
type Outcome struct {
	Key inventory.Key
	// UID, ResourceVersion and State are those of the object after the last write; empty if it failed.
	UID             types.UID
	ResourceVersion string
	State           ownership.State
	// Digest is that of the intent; zero if what was sent is not what it says, for lack of fields that the target knows.
	Digest uint64
	// Unchanged is true if nothing was sent, because the object is known to be right.
	Unchanged bool
	// TakenBack is the payload of others that this run removed or took over.
	TakenBack []ownership.Foreign
	// UnknownFields are paths that the target's schema does not know; they were left out.
	UnknownFields []string
	// Duplicates say where the manifest has several list items that the target's schema takes for the same one.
	Duplicates []string
	// Recreated is true if the object was deleted and created again, because the server called the update invalid.
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

// Discreet keeps the values of Secrets out of what a server answered to a write of an object.
func Discreet(obj *unstructured.Unstructured, err error) error {
	if err != nil && obj.GetKind() == "Secret" {
		return withoutValues(err)
	}
	return err
}

// withoutValues cuts what a server quotes of an object from its answer, and what follows: nobody can tell where a value
// of several lines ends.
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

// mentionsUID tells whether the server refused because the object is not the one that we named.
func mentionsUID(err error) bool {
	if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "uid mismatch") || strings.Contains(text, "metadata.uid") || strings.Contains(text, "UID in precondition")
}

func mappingFor(
	ctx context.Context, mapper meta.RESTMapper, obj *unstructured.Unstructured,
) (*meta.RESTMapping, error) {
	gvk := obj.GroupVersionKind()
	return meta.ToRESTMapperWithContext(mapper).RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
}

// Resource returns the access to the metadata of the objects of an intent's kind and namespace.
func (t Target) Resource(ctx context.Context, in Intent) (metadata.ResourceInterface, error) {
	mapping, err := mappingFor(ctx, t.Mapper, in.Object)
	if err != nil {
		return nil, err
	}
	return resourceFor(t.Metadata, mapping, in.Key.Namespace), nil
}

// Head reads the metadata of the object of an intent, in full from servers that cannot give the metadata alone.
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

// partial is the metadata of an object.
func partial(obj *unstructured.Unstructured) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(),
		Labels: obj.GetLabels(), Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(), Finalizers: obj.GetFinalizers(),
		CreationTimestamp: obj.GetCreationTimestamp(), DeletionTimestamp: obj.GetDeletionTimestamp(), ManagedFields: obj.GetManagedFields(),
	}}
}

func resourceFor(c metadata.Interface, mapping *meta.RESTMapping, namespace string) metadata.ResourceInterface {
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.Resource(mapping.Resource).Namespace(namespace)
	}
	return c.Resource(mapping.Resource)
}
