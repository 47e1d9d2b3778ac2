package kinds

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/form"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/ownership"
)

// Resource is one served resource in one version. It is read only.
type Resource struct {
	// GVR names the resource.
	GVR schema.GroupVersionResource
	// Kind and ListKind are those of an object and of a list of them, Singular is the name of the resource for one.
	Kind, ListKind, Singular string
	// ShortNames and Categories are what kubectl understands instead of the name.
	ShortNames, Categories []string
	// Namespaced reports whether objects live in a namespace.
	Namespaced bool
	// Verbs are those of discovery. A resource without "get" stores nothing (the reviews, bindings).
	Verbs []string
	// HasStatus says that there is a subresource status.
	HasStatus bool
	// Storage is the same resource in the version that is stored; equal to GVR for built-in kinds.
	Storage schema.GroupVersionResource

	form       form.Form
	traits     traits
	managers   ownership.Managers
	selectable []string
}

// GVK is the group, version and kind of the resource.
func (r *Resource) GVK() schema.GroupVersionKind {
	return r.GVR.GroupVersion().WithKind(r.Kind)
}

// Custom reports whether a CustomResourceDefinition defines the resource.
func (r *Resource) Custom() bool { return r.form != nil && r.form.PatchReference() == nil }

// PatchTypes are the content types of patches the resource takes, as kube-apiserver lists them in a 415.
func (r *Resource) PatchTypes() []types.PatchType {
	if r.Custom() {
		return []types.PatchType{types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType}
	}
	return []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyYAMLPatchType}
}

func (r *Resource) groupResource() schema.GroupResource { return r.GVR.GroupResource() }

func (r *Resource) sortKey() string {
	return r.GVR.Group + "/" + r.GVR.Version + "/" + r.GVR.Resource
}

// Verb is what a write wants.
type Verb string

// The verbs of a Write.
const (
	Create Verb = "create"
	Update Verb = "update"
	Patch  Verb = "patch" // by Write.PatchType
	Apply  Verb = "apply" // an apply patch
)

// Write is one change asked for.
type Write struct {
	Verb Verb
	// Subresource is "" or "status".
	Subresource string
	// PatchType is the type of the patch in Body if Verb is Patch.
	PatchType types.PatchType
	// Body is as received: JSON, or YAML for Apply.
	Body []byte
	// Manager is the field manager, defaulted from the user agent.
	Manager string
	// Force takes fields from other managers, with Apply.
	Force bool
	// FieldValidation is Ignore, Warn (also if empty) or Strict.
	FieldValidation string
	// Namespace and Name are those of the URL. Name is empty for Create; the name is then that of the Body.
	Namespace, Name string
	// Now is what the clock of the server shows.
	Now time.Time
}

// Result of a write.
type Result struct {
	// Object is what is to be stored, in the version of Resource.Storage, complete but for uid, resourceVersion and
	// creationTimestamp of a new one. It may share content with the live object: neither may be changed.
	Object *unstructured.Unstructured
	// Warnings are for the headers of that name.
	Warnings []string
	// Changed is false for a write that changes nothing: the resourceVersion stays.
	Changed bool
}
