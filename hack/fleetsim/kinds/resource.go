package kinds

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Resource is one served resource in one version. It is read only.
type Resource struct {
	// GVR names the resource.
	GVR schema.GroupVersionResource
	// Kind and ListKind are those of an object and of a list of them, Singular is the name of the resource for one.
	Kind, ListKind, Singular string
	// ShortNames and Categories are what kubectl understands instead.
	ShortNames, Categories []string
	Namespaced             bool
	// Verbs are those of discovery. A resource without "list" stores nothing (the reviews).
	Verbs []string
	// HasStatus and HasScale tell of the subresources.
	HasStatus, HasScale bool
	// Storage is the same resource in the version that is stored; equal to GVR for built-in kinds.
	Storage schema.GroupVersionResource
}

// GVK is the group, version and kind of the resource.
func (r *Resource) GVK() schema.GroupVersionKind { return r.GVR.GroupVersion().WithKind(r.Kind) }

// Verb is what a write wants.
type Verb string

// The verbs of a Write.
const (
	Create Verb = "create"
	Update Verb = "update"
	Patch  Verb = "patch"
	Apply  Verb = "apply"
)

// Write is one change asked for.
type Write struct {
	Verb            Verb
	Subresource     string // "", "status" or "scale"
	PatchType       types.PatchType
	Body            []byte
	Manager         string
	Force           bool
	FieldValidation string
	Namespace, Name string
	Now             time.Time
}

// Result of a write.
type Result struct {
	Object   *unstructured.Unstructured
	Warnings []string
	Changed  bool
}

// Next computes what live becomes.
func (r *Resource) Next(live *unstructured.Unstructured, w Write) (Result, error) {
	return Result{}, errors.ErrUnsupported
}

// Scale converts an object to a Scale of autoscaling/v1.
func (r *Resource) Scale(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return nil, errors.ErrUnsupported
}

// Convert returns the object, of any served version of the same kind, in the version of r.
func (r *Resource) Convert(obj *unstructured.Unstructured) *unstructured.Unstructured { return obj }

// Fields returns what field selectors see of an object.
func (r *Resource) Fields(obj *unstructured.Unstructured) fields.Set { return nil }
