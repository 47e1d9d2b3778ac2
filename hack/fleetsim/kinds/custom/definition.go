package custom

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/defaults"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/form"
)

// Definition is a CustomResourceDefinition made ready. It is read only.
type Definition struct {
	// Group and ListKind are those of all versions.
	Group, ListKind string
	// Storage is the resource in the version that is stored.
	Storage schema.GroupVersionResource
	// Served are the versions that are served, in the order of the definition.
	Served []Version
	// APIVersions are all versions, served or not.
	APIVersions []string
	// Converter makes typed values of objects of any version, for a field manager.
	Converter managedfields.TypeConverter
}

// Version is one served version of a custom resource.
type Version struct {
	GroupVersion schema.GroupVersion
	// Discovery is what discovery says of it.
	Discovery apidiscoveryv2.APIResourceDiscovery
	Form      *Form
	// Schema is the OpenAPI schema of its kind, with what all objects have, and SchemaName what it is called.
	Schema     *spec.Schema
	SchemaName string
	// Selectable are the paths that field selectors may name.
	Selectable []string
}

// New reads a CustomResourceDefinition, an object of apiextensions.k8s.io/v1.
func New(o *unstructured.Unstructured) (*Definition, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &crd); err != nil {
		return nil, err
	}
	defaults.Set(&crd)
	d := &Definition{Group: crd.Spec.Group, ListKind: crd.Spec.Names.ListKind}
	all := maps.Clone(form.Schemas())
	for _, v := range crd.Spec.Versions {
		version, err := newVersion(&crd, v)
		if err != nil {
			return nil, fmt.Errorf("version %s: %w", v.Name, err)
		}
		all[version.SchemaName] = version.Schema
		d.APIVersions = append(d.APIVersions, version.GroupVersion.String())
		if v.Storage {
			d.Storage = version.GroupVersion.WithResource(crd.Spec.Names.Plural)
		}
		if v.Served {
			d.Served = append(d.Served, version)
		}
	}
	if d.Storage.Empty() {
		return nil, errors.New("no version is stored")
	}
	for _, version := range d.Served {
		version.Form.versions = d.APIVersions
	}
	var err error
	d.Converter, err = managedfields.NewTypeConverter(all, crd.Spec.PreserveUnknownFields)
	return d, err
}

func newVersion(crd *apiextensionsv1.CustomResourceDefinition, v apiextensionsv1.CustomResourceDefinitionVersion) (Version, error) {
	structural, err := structuralOf(crd, v)
	if err != nil {
		return Version{}, err
	}
	gv := schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}
	gvk := gv.WithKind(crd.Spec.Names.Kind)
	version := Version{
		GroupVersion: gv, Discovery: discoveryOf(crd, v), Form: newForm(gvk, structural, crd.Spec.Scope == apiextensionsv1.NamespaceScoped),
		Schema: openAPISchema(structural, gvk), SchemaName: schemaName(gvk),
	}
	for _, f := range v.SelectableFields {
		version.Selectable = append(version.Selectable, strings.TrimPrefix(f.JSONPath, "."))
	}
	return version, nil
}

func discoveryOf(crd *apiextensionsv1.CustomResourceDefinition, v apiextensionsv1.CustomResourceDefinitionVersion) apidiscoveryv2.APIResourceDiscovery {
	names := crd.Spec.Names
	kind := metav1.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: names.Kind}
	d := apidiscoveryv2.APIResourceDiscovery{
		Resource: names.Plural, ResponseKind: &kind, SingularResource: names.Singular, ShortNames: names.ShortNames, Categories: names.Categories,
		Scope: apidiscoveryv2.ScopeCluster,
		Verbs: []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"},
	}
	if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		d.Scope = apidiscoveryv2.ScopeNamespace
	}
	if v.Subresources == nil {
		return d
	}
	add := func(subresource string, kind metav1.GroupVersionKind) {
		d.Subresources = append(d.Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource: subresource, ResponseKind: &kind, Verbs: []string{"get", "patch", "update"},
		})
	}
	if v.Subresources.Status != nil {
		add("status", kind)
	}
	if v.Subresources.Scale != nil {
		add("scale", metav1.GroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale")))
	}
	return d
}
