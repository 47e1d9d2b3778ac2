package kinds

import (
	"fmt"
	"slices"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapply "k8s.io/apiextensions-apiserver/pkg/client/applyconfiguration"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientapply "k8s.io/client-go/applyconfigurations"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/custom"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/form"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/ownership"
)

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
	r.form = form.NewTyped(gvk, r.Namespaced)
	converter := clientapply.NewTypeConverter(form.Scheme)
	switch gv {
	case apiextensionsv1.SchemeGroupVersion:
		converter = apiextensionsapply.NewTypeConverter(form.Scheme)
	case form.APIServiceGV:
		converter = apiServiceConverter()
	}
	r.selectable = selectable[r.GVR.Group+"/"+r.GVR.Resource]
	r.managers = ownership.New(ownership.Kind{
		GVK: gvk, Hub: gv, Form: r.form, Converter: converter, HasStatus: r.HasStatus, StatusKeeps: r.traits.statusKeeps,
	})
	return r
}

func newResource(gv schema.GroupVersion, d apidiscoveryv2.APIResourceDiscovery) *Resource {
	r := &Resource{
		GVR: gv.WithResource(d.Resource), Kind: d.ResponseKind.Kind, ListKind: d.ResponseKind.Kind + "List", Singular: d.SingularResource,
		ShortNames: d.ShortNames, Categories: d.Categories, Namespaced: d.Scope == apidiscoveryv2.ScopeNamespace, Verbs: d.Verbs,
	}
	for _, sub := range d.Subresources {
		r.HasStatus = r.HasStatus || sub.Subresource == "status"
	}
	return r
}

// newCustom makes a resource of a version of a CustomResourceDefinition.
func newCustom(d *custom.Definition, v custom.Version) *Resource {
	r := newResource(v.GroupVersion, v.Discovery)
	r.ListKind = d.ListKind
	r.Storage = d.Storage
	r.form = v.Form
	r.traits = traits{
		needsResourceVersion: true, generation: true, changes: payloadChanged, statusKeeps: [][]string{{"metadata"}, {"spec"}},
	}
	r.managers = ownership.New(ownership.Kind{
		GVK: r.GVK(), Hub: d.Storage.GroupVersion(), Form: v.Form, Converter: d.Converter, Versions: d.APIVersions,
		HasStatus: r.HasStatus, StatusKeeps: r.traits.statusKeeps,
	})
	r.selectable = v.Selectable
	return r
}

var apiServiceConverter = sync.OnceValue(func() managedfields.TypeConverter {
	converter, err := managedfields.NewTypeConverter(form.Schemas(), false)
	if err != nil {
		panic(fmt.Sprintf("schemas.json: %v", err))
	}
	return converter
})
