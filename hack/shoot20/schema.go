package shoot20

import (
	"reflect"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Group of the three kinds.
const Group = "shoot20.hub.gardener.cloud"

// The specifications of the three kinds. They are as large as they are because, like real ones, they embed types of Pods.

type autoscalerSpec struct {
	TargetRef       autoscalingv1.CrossVersionObjectReference `json:"targetRef"`
	UpdateMode      string                                    `json:"updateMode,omitempty"`
	ContainerPolicy []containerPolicy                         `json:"containerPolicies,omitempty"`
	Recommender     *corev1.Container                         `json:"recommender,omitempty"`
	Updater         *corev1.Container                         `json:"updater,omitempty"`
	Affinity        *corev1.Affinity                          `json:"affinity,omitempty"`
}

type containerPolicy struct {
	ContainerName string              `json:"containerName"`
	Mode          string              `json:"mode,omitempty"`
	MinAllowed    corev1.ResourceList `json:"minAllowed,omitempty"`
	MaxAllowed    corev1.ResourceList `json:"maxAllowed,omitempty"`
}

type policySpec struct {
	Order       int32                                   `json:"order,omitempty"`
	PodSelector *metav1.LabelSelector                   `json:"podSelector,omitempty"`
	Ingress     []networkingv1.NetworkPolicyIngressRule `json:"ingress,omitempty"`
	Egress      []networkingv1.NetworkPolicyEgressRule  `json:"egress,omitempty"`
	Proxy       *corev1.Container                       `json:"proxy,omitempty"`
	Init        []corev1.Container                      `json:"initContainers,omitempty"`
	Volumes     []corev1.Volume                         `json:"volumes,omitempty"`
}

type agentSpec struct {
	Replicas     int32                  `json:"replicas,omitempty"`
	Config       map[string]string      `json:"config,omitempty"`
	NodeSelector *metav1.LabelSelector  `json:"nodeSelector,omitempty"`
	Template     corev1.PodTemplateSpec `json:"template,omitempty"`
}

// definition makes a CustomResourceDefinition with the schema of a type.
func definition(kind, plural string, scope apiextensionsv1.ResourceScope, spec any) *apiextensionsv1.CustomResourceDefinition {
	schema := schemaOf(reflect.TypeOf(spec))
	schema.Description = "What is wanted."
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: Group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{{
					Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
				}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Required: []string{"spec"},
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"},
						"spec":   schema,
						"status": {Type: "object", XPreserveUnknownFields: ptr.To(true)},
					},
				}},
			}},
		},
	}
}

// schemaOf is the structural schema of a Go type, with the descriptions of its fields, as generators make them.
func schemaOf(t reflect.Type) apiextensionsv1.JSONSchemaProps {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return apiextensionsv1.JSONSchemaProps{Type: "string", Format: "date-time"}
	case reflect.TypeFor[intstr.IntOrString]():
		return apiextensionsv1.JSONSchemaProps{XIntOrString: true}
	case reflect.TypeFor[resource.Quantity]():
		return apiextensionsv1.JSONSchemaProps{XIntOrString: true}
	case reflect.TypeFor[metav1.ObjectMeta]():
		return apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)} // or labels would be dropped
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.String:
		return apiextensionsv1.JSONSchemaProps{Type: "string"}
	case reflect.Bool:
		return apiextensionsv1.JSONSchemaProps{Type: "boolean"}
	case reflect.Int32:
		return apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int32"}
	case reflect.Int64:
		return apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int64"}
	case reflect.Map:
		elem := schemaOf(t.Elem())
		return apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &elem}}
	case reflect.Slice:
		elem := schemaOf(t.Elem())
		return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &elem}}
	case reflect.Struct:
		schema := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		addFields(&schema, t)
		return schema
	}
	panic("no schema for " + t.String()) // the types are compiled in
}

func addFields(schema *apiextensionsv1.JSONSchemaProps, t reflect.Type) {
	docs := map[string]string{}
	if documented, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		docs = documented.SwaggerDoc()
	}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			addFields(schema, field.Type) // inlined
			continue
		}
		property := schemaOf(field.Type)
		property.Description = docs[name]
		schema.Properties[name] = property
		if !strings.Contains(options, "omit") {
			schema.Required = append(schema.Required, name)
		}
	}
}
