package kinds

import (
	stdjson "encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapply "k8s.io/apiextensions-apiserver/pkg/client/applyconfiguration"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientapply "k8s.io/client-go/applyconfigurations"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/defaults"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/validation"
)

// scheme knows the Go types of all built-in kinds.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(kubernetesscheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	s.AddKnownTypes(apiServiceGV, &APIService{})
	metav1.AddToGroupVersion(s, apiServiceGV)
	return s
}()

// strictSerializer reads JSON into Go types and tells what they have no place for.
var strictSerializer = json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})

// newBuiltIn makes a resource of what discovery says of it.
func newBuiltIn(gv schema.GroupVersion, d apidiscoveryv2.APIResourceDiscovery) *Resource {
	r := newResource(gv, d)
	r.Storage = r.GVR
	if !slices.Contains(r.Verbs, "get") && !slices.Contains(r.Verbs, "create") {
		return r
	}
	gvk := r.GVK()
	if r.GVR.Resource == "bindings" || r.Kind == "ComponentStatus" {
		return r
	}
	r.traits = traitsOf(r)
	f := &goForm{gvk: gvk, namespaced: r.Namespaced}
	f.prepare()
	r.form = f
	converter := clientConverter()
	switch gv {
	case apiextensionsv1.SchemeGroupVersion:
		converter = apiextensionsapply.NewTypeConverter(scheme)
	case apiServiceGV:
		converter = apiServiceConverter()
	}
	r.selectable = selectable[r.GVR.Group+"/"+r.GVR.Resource]
	r.managers = newManagers(r, converter, sameVersion{gv}, gv)
	if r.HasScale {
		r.scale = scalePaths{spec: []string{"spec", "replicas"}, status: []string{"status", "replicas"}, selector: []string{"spec", "selector"}}
	}
	return r
}

func clientConverter() managedfields.TypeConverter { return clientapply.NewTypeConverter(scheme) }

func newResource(gv schema.GroupVersion, d apidiscoveryv2.APIResourceDiscovery) *Resource {
	r := &Resource{
		GVR: gv.WithResource(d.Resource), Kind: d.ResponseKind.Kind, ListKind: d.ResponseKind.Kind + "List", Singular: d.SingularResource,
		ShortNames: d.ShortNames, Categories: d.Categories, Namespaced: d.Scope == apidiscoveryv2.ScopeNamespace, Verbs: d.Verbs,
		discovery: d,
	}
	for _, sub := range d.Subresources {
		r.HasStatus = r.HasStatus || sub.Subresource == "status"
		r.HasScale = r.HasScale || sub.Subresource == "scale"
	}
	return r
}

// goForm reads objects through the Go type of their kind, so that they look as a real server stores them.
type goForm struct {
	gvk        schema.GroupVersionKind
	namespaced bool
	reference  runtime.Object
	none       *unstructured.Unstructured
	status     any
}

func (f *goForm) prepare() {
	f.reference = f.new()
	f.none = f.unstructured(f.new())
	filled := f.new()
	defaults.Set(filled)
	f.status = f.unstructured(filled).Object["status"]
}

func (f *goForm) new() runtime.Object {
	obj, err := scheme.New(f.gvk)
	if err != nil {
		panic(err) // TestServesWhatKubeAPIServerServes would have failed
	}
	obj.GetObjectKind().SetGroupVersionKind(f.gvk)
	return obj
}

func (f *goForm) unstructured(obj runtime.Object) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(fmt.Sprintf("a %s cannot be converted: %v", f.gvk.Kind, err))
	}
	return &unstructured.Unstructured{Object: content}
}

func (f *goForm) decode(doc []byte) (*unstructured.Unstructured, []error, error) {
	obj := f.new()
	gvk := f.gvk
	decoded, actual, err := strictSerializer.Decode(doc, &gvk, obj)
	strictErr, isStrict := runtime.AsStrictDecodingError(err)
	if err != nil && !isStrict {
		return nil, nil, &decodeError{gvk: actual, err: err}
	}
	if *actual != f.gvk {
		return nil, nil, &decodeError{gvk: actual, err: fmt.Errorf("converting (%s) to (%s): unknown conversion", typeName(decoded), f.internalName())}
	}
	var strict []error
	if isStrict {
		strict = strictErr.Errors()
	}
	decoded.GetObjectKind().SetGroupVersionKind(f.gvk)
	return f.filled(decoded), strict, nil
}

// decodeError is what is wrong with a document, together with what it says it is.
type decodeError struct {
	gvk *schema.GroupVersionKind
	err error
}

func (e *decodeError) Error() string { return e.err.Error() }

// typeName is how a Go type prints: v1.Deployment.
func typeName(obj runtime.Object) string {
	return strings.TrimPrefix(reflect.TypeOf(obj).String(), "*")
}

// internalName is how the internal type of a real server prints: core.ConfigMap.
func (f *goForm) internalName() string {
	group, _, _ := strings.Cut(f.gvk.Group, ".")
	if group == "" {
		group = "core"
	}
	return group + "." + f.gvk.Kind
}

// filled gives an object its defaults and returns it as unstructured content.
func (f *goForm) filled(obj runtime.Object) *unstructured.Unstructured {
	defaults.Set(obj)
	return f.unstructured(obj)
}

func (f *goForm) settle(o *unstructured.Unstructured) (*unstructured.Unstructured, []error, error) {
	obj := f.new()
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, obj, true)
	strictErr, isStrict := runtime.AsStrictDecodingError(err)
	if err != nil && !isStrict {
		return nil, nil, err
	}
	var strict []error
	if isStrict {
		strict = strictErr.Errors()
	}
	return f.filled(obj), strict, nil
}

func (f *goForm) encode(o *unstructured.Unstructured) ([]byte, error) {
	obj, err := f.typed(o)
	if err != nil {
		return nil, err
	}
	return stdjson.Marshal(obj)
}

// empty returns one of its own for each: field managers write into it.
func (f *goForm) empty() *unstructured.Unstructured { return f.none.DeepCopy() }
func (f *goForm) initialStatus() any                { return f.status }
func (f *goForm) patchReference() runtime.Object    { return f.reference }
func (f *goForm) versions() []string                { return []string{f.gvk.GroupVersion().String()} }

func (f *goForm) typed(o *unstructured.Unstructured) (validation.Object, error) {
	obj, ok := f.new().(validation.Object)
	if !ok {
		return nil, fmt.Errorf("a %s has no metadata", f.gvk.Kind)
	}
	return obj, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, obj)
}

func (f *goForm) validate(o, old *unstructured.Unstructured, subresource string) field.ErrorList {
	now, err := f.typed(o)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if old == nil {
		return validation.Create(now, f.namespaced)
	}
	before, err := f.typed(old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if subresource != "" {
		return validation.UpdateStatus(now, before, f.namespaced)
	}
	return validation.Update(now, before, f.namespaced)
}
