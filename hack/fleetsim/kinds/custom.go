package kinds

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/defaults"
)

var seed = maphash.MakeSeed()

// digest folds JSON content into a number, which differs from process to process.
func digest(value any) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	switch v := value.(type) {
	case map[string]any:
		sum := uint64(len(v))
		for key, inner := range v {
			h.Reset()
			_, _ = h.WriteString(key)
			sum += h.Sum64() * (digest(inner)<<1 | 1)
		}
		return sum
	case []any:
		sum := uint64(len(v)) ^ 0x5bd1e995
		for _, inner := range v {
			sum = sum*0x9E3779B97F4A7C15 + digest(inner)
		}
		return sum
	case string:
		_, _ = h.WriteString(v)
		return h.Sum64()
	case int64:
		return uint64(v)*0xff51afd7ed558ccd + 3
	case float64:
		return math.Float64bits(v)*0xff51afd7ed558ccd + 4
	case bool:
		if v {
			return 0x517cc1b727220a95
		}
		return 0x2545F4914F6CDD1D
	}
	return 0x9e3779b97f4a7c15
}

// definition is a CustomResourceDefinition made ready: a resource for each served version.
type definition struct {
	group     string
	resources []*Resource
	schemas   map[string]*spec.Schema
}

// newDefinition reads a CustomResourceDefinition.
func newDefinition(o *unstructured.Unstructured) (*definition, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &crd); err != nil {
		return nil, err
	}
	defaults.Set(&crd)
	d := &definition{group: crd.Spec.Group, schemas: map[string]*spec.Schema{}}
	all := maps.Clone(commonSchemas())
	var storage schema.GroupVersionResource
	var versions []string
	forms := map[string]*customForm{}
	for _, v := range crd.Spec.Versions {
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}
		if v.Storage {
			storage = gv.WithResource(crd.Spec.Names.Plural)
		}
		structural, err := structuralOf(&crd, v)
		if err != nil {
			return nil, fmt.Errorf("version %s: %w", v.Name, err)
		}
		gvk := gv.WithKind(crd.Spec.Names.Kind)
		forms[v.Name] = newCustomForm(gvk, structural, crd.Spec.Scope == apiextensionsv1.NamespaceScoped, v)
		name := schemaName(gvk)
		d.schemas[name] = openAPISchema(structural, gvk)
		all[name] = d.schemas[name]
		versions = append(versions, gv.String())
	}
	if storage.Empty() {
		return nil, errors.New("no version is stored")
	}
	converter, err := managedfields.NewTypeConverter(all, crd.Spec.PreserveUnknownFields)
	if err != nil {
		return nil, err
	}
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}
		r := newResource(gv, discoveryOf(&crd, v))
		r.ListKind = crd.Spec.Names.ListKind
		r.Storage = storage
		r.form = forms[v.Name]
		forms[v.Name].served = versions
		r.traits = traits{
			needsResourceVersion: true, generation: true, changes: payloadChanged, statusKeeps: [][]string{{"metadata"}, {"spec"}},
		}
		r.managers = newManagers(r, converter, versionsOf{versions}, storage.GroupVersion())
		if v.Subresources != nil && v.Subresources.Scale != nil {
			r.scale = scalePaths{spec: pathOf(v.Subresources.Scale.SpecReplicasPath), status: pathOf(v.Subresources.Scale.StatusReplicasPath)}
			if selector := v.Subresources.Scale.LabelSelectorPath; selector != nil {
				r.scale.selector = pathOf(*selector)
			}
		}
		for _, f := range v.SelectableFields {
			r.selectable = append(r.selectable, strings.TrimPrefix(f.JSONPath, "."))
		}
		d.resources = append(d.resources, r)
	}
	return d, nil
}

// structuralOf is the structural schema of a version; one without a schema takes everything.
func structuralOf(crd *apiextensionsv1.CustomResourceDefinition, v apiextensionsv1.CustomResourceDefinitionVersion) (*structuralschema.Structural, error) {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil || crd.Spec.PreserveUnknownFields {
		return &structuralschema.Structural{
			Generic:    structuralschema.Generic{Type: "object"},
			Extensions: structuralschema.Extensions{XPreserveUnknownFields: true},
		}, nil
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		return nil, err
	}
	return structuralschema.NewStructural(&internal)
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
		add("scale", metav1.GroupVersionKind(scaleGVK))
	}
	return d
}

// versionsOf converts between the versions of a custom resource, which differ in name only.
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
	return inVersion(o, target.GroupVersion()), nil
}

// ConvertFieldLabel implements runtime.ObjectConvertor, but is not used.
func (versionsOf) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// inVersion returns the object if it is in that version, and otherwise one that shares its content but for apiVersion.
func inVersion(o *unstructured.Unstructured, gv schema.GroupVersion) *unstructured.Unstructured {
	if o.GetAPIVersion() == gv.String() {
		return o
	}
	content := maps.Clone(o.Object)
	content["apiVersion"] = gv.String()
	return &unstructured.Unstructured{Object: content}
}

const metaPrefix = "io.k8s.apimachinery.pkg.apis.meta.v1."

// schemaName is what kube-apiserver calls the schema of a custom resource: com.example.v1.Widget.
func schemaName(gvk schema.GroupVersionKind) string {
	parts := strings.Split(gvk.Group, ".")
	slices.Reverse(parts)
	return strings.Join(append(parts, gvk.Version, gvk.Kind), ".")
}

// openAPISchema is the schema of a custom resource with what all objects have.
func openAPISchema(structural *structuralschema.Structural, gvk schema.GroupVersionKind) *spec.Schema {
	s := structural.ToKubeOpenAPI()
	addObjectFields(s)
	withMetadata(s)
	s.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind},
	})
	return s
}

// addObjectFields completes objects embedded in an object.
func addObjectFields(s *spec.Schema) {
	for name, inner := range s.Properties {
		addObjectFields(&inner)
		s.Properties[name] = inner
	}
	if s.Items != nil && s.Items.Schema != nil {
		addObjectFields(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		addObjectFields(s.AdditionalProperties.Schema)
	}
	if embedded, _ := s.Extensions["x-kubernetes-embedded-resource"].(bool); embedded {
		withMetadata(s)
	}
}

func withMetadata(s *spec.Schema) {
	s.SetProperty("apiVersion", *spec.StringProperty())
	s.SetProperty("kind", *spec.StringProperty())
	s.SetProperty("metadata", *spec.RefSchema(schemaPrefix + metaPrefix + "ObjectMeta"))
}

// newValidator checks values against a structural schema.
func newValidator(structural *structuralschema.Structural) *validate.SchemaValidator {
	return validate.NewSchemaValidator(structural.ToKubeOpenAPI(), nil, "", strfmt.Default)
}
