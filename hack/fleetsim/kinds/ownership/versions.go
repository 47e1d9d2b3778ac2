package ownership

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sameVersion converts between versions where there is one only: entries of managedFields that name another are
// dropped. What it returns is for the comparison of objects and has no managedFields, which have no owner.
type sameVersion struct{ gv schema.GroupVersion }

// Convert implements runtime.ObjectConvertor, but is not used.
func (sameVersion) Convert(_, _, _ any) error { return nil }

// ConvertToVersion implements runtime.ObjectConvertor.
func (s sameVersion) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	gvk := in.GetObjectKind().GroupVersionKind()
	if target, ok := to.KindForGroupVersionKinds([]schema.GroupVersionKind{gvk}); !ok || target.GroupVersion() != s.gv {
		return nil, runtime.NewNotRegisteredErrForTarget("fleetsim", nil, to)
	}
	if o, ok := in.(*unstructured.Unstructured); ok {
		return Without(o), nil
	}
	return in, nil
}

// ConvertFieldLabel implements runtime.ObjectConvertor, but is not used.
func (sameVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// versionsOf converts between the versions of a custom resource, which differ in name only. It leaves out managedFields as well.
type versionsOf struct{ known []string }

// Convert implements runtime.ObjectConvertor, but is not used.
func (versionsOf) Convert(_, _, _ any) error { return nil }

// ConvertToVersion implements runtime.ObjectConvertor.
func (v versionsOf) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	o, ok := in.(*unstructured.Unstructured)
	target, matches := to.KindForGroupVersionKinds([]schema.GroupVersionKind{in.GetObjectKind().GroupVersionKind()})
	if gv, isVersion := to.(schema.GroupVersion); isVersion {
		target, matches = gv.WithKind(in.GetObjectKind().GroupVersionKind().Kind), true
	}
	if !ok || !matches || !slices.Contains(v.known, target.GroupVersion().String()) {
		return nil, runtime.NewNotRegisteredErrForTarget("fleetsim", nil, to)
	}
	return InVersion(Without(o), target.GroupVersion()), nil
}

// ConvertFieldLabel implements runtime.ObjectConvertor, but is not used.
func (versionsOf) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// InVersion returns the object if it is in that version, and otherwise one that shares its content but for apiVersion.
func InVersion(o *unstructured.Unstructured, gv schema.GroupVersion) *unstructured.Unstructured {
	if o.GetAPIVersion() == gv.String() {
		return o
	}
	content := maps.Clone(o.Object)
	content["apiVersion"] = gv.String()
	return &unstructured.Unstructured{Object: content}
}
