package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
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

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
	"github.com/trellis-hub/trellis/controllers/managedresource/ownership"
)

// attempts bounds how often one object is tried within one run when it changes under our hands.
const attempts = 4

// ErrTerminating is the failure of an object that is being deleted: it is created again when it is gone.
var ErrTerminating = errors.New("the object is being deleted; it is created again when it is gone")

// Target is the access to the cluster that is written to.
type Target struct {
	// Metadata is used for writes, whose answers then carry metadata only.
	Metadata metadata.Interface
	// Client reads live objects. It must not be cached.
	Client client.Client
	// Mapper resolves kinds. If it can be reset, it is when a kind is not known although its definition was just applied.
	Mapper meta.RESTMapper
}

// Intent is one object as it is to be in the target.
type Intent struct {
	// Object is what Prepare made of the manifest. It is not changed.
	Object *unstructured.Unstructured
	Key    inventory.Key
	// UID is that of the live object if it is known to exist, else empty.
	UID types.UID
	// Digest condenses Object.
	Digest uint64
	// CreateOnly is for objects with the ignore annotation: created if absent and never touched afterwards.
	CreateOnly bool
	// Autoscaled is set by SetAutoscaled: somebody else scales the object, so its live replicas stay.
	Autoscaled bool
	// Base is what the object's labels and annotations were to be at its last apply: the base of three-way merges.
	Base Base
}

// Base is the part of an inventory entry that later merges need: a label that was managed then, is not any more, and still
// has the value of then, goes.
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
		in.Digest ^= autoscaledBit
	}
}

// autoscaledBit is any number that changes a digest.
const autoscaledBit = 0x9e3779b97f4a7c15

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

// one applies a single intent.
func (a *Applier) one(ctx context.Context, t Target, in Intent) Outcome {
	out := Outcome{Key: in.Key}
	mapping, err := mappingFor(t.Mapper, in.Object)
	if err != nil {
		out.Err = err
		return out
	}
	if in.Key.Namespace != "" && mapping.Scope.Name() == meta.RESTScopeNameRoot {
		// Planned while the kind was not known. Under a key with a namespace the object would not be found again.
		out.Err = errors.New("its kind turned out to be cluster-scoped; it is planned again")
		return out
	}
	resource := resourceFor(t.Metadata, mapping, in.Key.Namespace)
	if in.CreateOnly {
		a.createOnly(ctx, t, resource, in, &out)
		return out
	}

	exempt := ownership.ExemptFor(in.Object)
	body := in.Object
	copied := false
	mutable := func() *unstructured.Unstructured {
		if !copied {
			body, copied = body.DeepCopy(), true
		}
		return body
	}
	uid := in.UID
	for range attempts {
		version := ""
		if needsLive(in.Object) {
			live, err := a.live(ctx, t, in.Object)
			if err != nil {
				out.Err = err
				return out
			}
			if live != nil {
				if live.GetDeletionTimestamp() != nil {
					out.Err = ErrTerminating
					return out
				}
				uid, version = live.GetUID(), live.GetResourceVersion()
				preserve(mutable(), in.Object, live, ownership.Owned(live, a.FieldManager))
			}
		}
		if uid != "" || copied {
			mutable().SetUID(uid)
			mutable().SetResourceVersion(version)
		}
		answer, err := a.patch(ctx, resource, body)
		switch {
		case err == nil:
		case copied && version != "" && apierrors.IsConflict(err) && !mentionsUID(err):
			continue // it changed since it was read
		case uid != "" && mentionsUID(err):
			// The object that we knew is gone. What is there now, if anything, is looked at before it is written to.
			if uid, err = a.presentUID(ctx, resource, in.Key.Name); err != nil {
				out.Err = err
				return out
			}
			continue
		default:
			unknown := cutUnknownFields(mutable(), err)
			if len(unknown) == 0 {
				out.Err = err
				return out
			}
			in.Object = body.DeepCopy()
			out.UnknownFields = append(out.UnknownFields, unknown...)
			continue
		}
		if answer.DeletionTimestamp != nil {
			out.Err = ErrTerminating
			return out
		}
		uid = answer.UID
		foreign, err := ownership.ForeignPayload(answer, a.FieldManager, exempt)
		if err != nil {
			out.Err = err
			return out
		}
		if len(foreign) == 0 {
			out.UID, out.ResourceVersion, out.Digest = answer.UID, answer.ResourceVersion, in.Digest
			out.State = ownership.Observe(answer, a.FieldManager)
			return out
		}
		if err := a.takeBack(ctx, resource, answer, in.Object.GetAPIVersion(), exempt); err != nil {
			if apierrors.IsConflict(err) {
				continue // somebody wrote in between; look again
			}
			out.Err = fmt.Errorf("taking back fields of %s: %w", managers(foreign), err)
			return out
		}
		out.TakenBack = append(out.TakenBack, foreign...)
	}
	out.Err = fmt.Errorf("the object kept changing during %d attempts; it is tried again", attempts)
	return out
}

func (a *Applier) patch(ctx context.Context, resource metadata.ResourceInterface, obj *unstructured.Unstructured) (*metav1.PartialObjectMetadata, error) {
	raw, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	answer, err := resource.Patch(ctx, obj.GetName(), types.ApplyPatchType, raw,
		metav1.PatchOptions{FieldManager: a.FieldManager, Force: ptr.To(true)})
	if err != nil && obj.GetKind() == "Secret" {
		err = withoutValues(err)
	}
	return answer, err
}

// withoutValues cuts what a server quotes of an object from its answer, and what follows: nobody can tell where a value of
// several lines ends.
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

// takeBack moves foreign payload into our entry, provided that nobody wrote since the answer was given.
func (a *Applier) takeBack(ctx context.Context, resource metadata.ResourceInterface, seen *metav1.PartialObjectMetadata, apiVersion string, exempt ownership.Exempt) error {
	entries, changed, err := ownership.TakeBack(seen, a.FieldManager, apiVersion, exempt)
	if err != nil || !changed {
		return err
	}
	raw, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": seen.ResourceVersion},
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
	})
	if err != nil {
		return fmt.Errorf("encoding managed fields: %w", err)
	}
	_, err = resource.Patch(ctx, seen.Name, types.JSONPatchType, raw, metav1.PatchOptions{FieldManager: a.FieldManager})
	return err
}

// createOnly creates the object as the manifest says, and accepts whatever is there already.
func (a *Applier) createOnly(ctx context.Context, t Target, resource metadata.ResourceInterface, in Intent, out *Outcome) {
	live, err := resource.Get(ctx, in.Key.Name, metav1.GetOptions{})
	switch {
	case err == nil:
	case !apierrors.IsNotFound(err):
		out.Err = err
		return
	default:
		obj := in.Object.DeepCopy()
		err := t.Client.Create(ctx, obj, client.FieldOwner(a.FieldManager))
		if err == nil {
			out.UID, out.ResourceVersion = obj.GetUID(), obj.GetResourceVersion()
			return
		}
		if !apierrors.IsAlreadyExists(err) {
			out.Err = err
			return
		}
		if live, err = resource.Get(ctx, in.Key.Name, metav1.GetOptions{}); err != nil {
			out.Err = err
			return
		}
	}
	if live.DeletionTimestamp != nil {
		out.Err = ErrTerminating
		return
	}
	out.UID, out.ResourceVersion = live.UID, live.ResourceVersion
}

// live reads the object in full, nil if it does not exist.
func (a *Applier) live(ctx context.Context, t Target, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(obj.GroupVersionKind())
	if err := t.Client.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading the live object: %w", err)
	}
	return live, nil
}

// presentUID returns the UID of the object that has the name now, empty if there is none.
func (a *Applier) presentUID(ctx context.Context, resource metadata.ResourceInterface, name string) (types.UID, error) {
	live, err := resource.Get(ctx, name, metav1.GetOptions{})
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

// mentionsUID tells whether the server refused because the object is not the one that we named.
func mentionsUID(err error) bool {
	if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "uid mismatch") || strings.Contains(text, "metadata.uid") || strings.Contains(text, "UID in precondition")
}

func mappingFor(mapper meta.RESTMapper, obj *unstructured.Unstructured) (*meta.RESTMapping, error) {
	gvk := obj.GroupVersionKind()
	return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

// Knows tells whether a target serves the kind of an object. Only a certain answer counts as no.
func Knows(mapper meta.RESTMapper, obj *unstructured.Unstructured) bool {
	_, err := mappingFor(mapper, obj)
	return !meta.IsNoMatchError(err)
}

// Resource returns the access to the metadata of the objects of an intent's kind and namespace.
func (t Target) Resource(in Intent) (metadata.ResourceInterface, error) {
	mapping, err := mappingFor(t.Mapper, in.Object)
	if err != nil {
		return nil, err
	}
	return resourceFor(t.Metadata, mapping, in.Key.Namespace), nil
}

func resourceFor(c metadata.Interface, mapping *meta.RESTMapping, namespace string) metadata.ResourceInterface {
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.Resource(mapping.Resource).Namespace(namespace)
	}
	return c.Resource(mapping.Resource)
}

func managers(foreign []ownership.Foreign) string {
	names := make([]string, 0, len(foreign))
	for _, f := range foreign {
		names = append(names, fmt.Sprintf("%q", f.Manager))
	}
	return strings.Join(names, ", ")
}
