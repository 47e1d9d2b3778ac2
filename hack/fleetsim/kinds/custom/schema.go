package custom

import (
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/form"
)

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
	s.SetProperty("metadata", *spec.RefSchema(form.SchemaPrefix + form.MetaPrefix + "ObjectMeta"))
}

// newValidator checks values against a structural schema.
func newValidator(structural *structuralschema.Structural) *validate.SchemaValidator {
	return validate.NewSchemaValidator(structural.ToKubeOpenAPI(), nil, "", strfmt.Default)
}
