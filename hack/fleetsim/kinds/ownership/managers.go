package ownership

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/form"
)

// Managers are the field managers of a resource, by subresource: "", "status", and "finalize" of namespaces.
type Managers map[string]*managedfields.FieldManager

// Kind is what a field manager has to know of a kind.
type Kind struct {
	GVK schema.GroupVersionKind
	// Hub is the version in which objects are compared, the one that is stored.
	Hub  schema.GroupVersion
	Form form.Form
	// Converter makes typed values of objects.
	Converter managedfields.TypeConverter
	// Versions are the API versions of a custom resource, between which objects convert in name only. A built-in kind has
	// none: entries of managedFields that name another version than that of GVK are dropped.
	Versions []string
	// HasStatus says that there is a subresource status.
	HasStatus bool
	// StatusKeeps are the paths that a write to status leaves alone.
	StatusKeeps [][]string
}

// New makes the field managers of a kind. What a write cannot change it does not own either: the status in a write to
// the main resource, the rest in one to the status.
func New(k Kind) Managers {
	made := Managers{"": k.manager("", nil)}
	if !k.HasStatus {
		return made
	}
	status := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	made[""] = k.manager("", status)
	kept := fieldpath.NewSet()
	for _, path := range k.StatusKeeps {
		kept.Insert(pathOf(path))
	}
	made["status"] = k.manager("status", kept)
	if k.GVK == namespaceGVK {
		made["finalize"] = k.manager("finalize", status) // which alone can change its spec
	}
	return made
}

var namespaceGVK = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// manager makes one that takes no note of the paths in reset.
func (k Kind) manager(subresource string, reset *fieldpath.Set) *managedfields.FieldManager {
	build, versions := managedfields.NewDefaultFieldManager, runtime.ObjectConvertor(sameVersion{k.GVK.GroupVersion()})
	if k.Versions != nil {
		build, versions = managedfields.NewDefaultCRDFieldManager, versionsOf{k.Versions}
	}
	filters := map[fieldpath.APIVersion]fieldpath.Filter{}
	if reset != nil {
		filters[fieldpath.APIVersion(k.GVK.GroupVersion().String())] = fieldpath.NewExcludeSetFilter(reset)
	}
	manager, err := build(k.Converter, versions, noDefaults{}, empties{k.Form}, k.GVK, k.Hub, subresource, filters)
	if err != nil {
		panic(err) // only a missing converter is refused
	}
	return manager
}

func pathOf(names []string) fieldpath.Path {
	parts := make([]any, len(names))
	for i, name := range names {
		parts[i] = name
	}
	return fieldpath.MakePathOrDie(parts...)
}

// empties makes empty objects for a field manager.
type empties struct{ form form.Form }

// New implements runtime.ObjectCreater.
func (c empties) New(schema.GroupVersionKind) (runtime.Object, error) {
	return c.form.Empty(), nil
}

// noDefaults: objects are settled after the field manager has seen them, which makes no difference to it.
type noDefaults struct{}

// Default implements runtime.ObjectDefaulter.
func (noDefaults) Default(runtime.Object) {}
