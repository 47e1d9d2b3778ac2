package kinds

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// managers are the field managers of a resource, by subresource: "", "status", and "finalize" of namespaces.
type managers map[string]*managedfields.FieldManager

// newManagers makes the field managers of a resource. What a write cannot change it does not own either: the status in a
// write to the main resource, the rest in one to the status.
func newManagers(r *Resource, converter managedfields.TypeConverter, versions runtime.ObjectConvertor, hub schema.GroupVersion) managers {
	made := managers{}
	build := managedfields.NewDefaultFieldManager
	if r.Custom() {
		build = managedfields.NewDefaultCRDFieldManager
	}
	add := func(subresource string, reset *fieldpath.Set) {
		filters := map[fieldpath.APIVersion]fieldpath.Filter{}
		if reset != nil {
			filters[fieldpath.APIVersion(r.GVR.GroupVersion().String())] = fieldpath.NewExcludeSetFilter(reset)
		}
		manager, err := build(converter, versions, noDefaults{}, empties{r.form}, r.GVK(), hub, subresource, filters)
		if err != nil {
			panic(err) // only a missing converter is refused
		}
		made[subresource] = manager
	}
	if !r.HasStatus {
		add("", nil)
		return made
	}
	if r.traits.keepsStatus {
		add("", fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
	} else {
		add("", fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
	}
	kept := fieldpath.NewSet()
	for _, path := range r.traits.statusKeeps {
		parts := make([]any, len(path))
		for i, part := range path {
			parts[i] = part
		}
		kept.Insert(fieldpath.MakePathOrDie(parts...))
	}
	add("status", kept)
	if r.Kind == "Namespace" {
		add("finalize", fieldpath.NewSet(fieldpath.MakePathOrDie("status"))) // which alone can change its spec
	}
	return made
}

// empties makes empty objects for a field manager.
type empties struct{ form form }

// New implements runtime.ObjectCreater.
func (c empties) New(schema.GroupVersionKind) (runtime.Object, error) {
	return c.form.empty(), nil
}

// noDefaults: objects are settled after the field manager has seen them, which makes no difference to it.
type noDefaults struct{}

// Default implements runtime.ObjectDefaulter.
func (noDefaults) Default(runtime.Object) {}

// sameVersion converts between versions where there is one only: entries of managedFields that name another are dropped.
type sameVersion struct{ gv schema.GroupVersion }

// Convert implements runtime.ObjectConvertor, but is not used.
func (sameVersion) Convert(_, _, _ any) error { return nil }

// ConvertToVersion implements runtime.ObjectConvertor.
func (s sameVersion) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	gvk := in.GetObjectKind().GroupVersionKind()
	if target, ok := to.KindForGroupVersionKinds([]schema.GroupVersionKind{gvk}); !ok || target.GroupVersion() != s.gv {
		return nil, runtime.NewNotRegisteredErrForTarget("fleetsim", nil, to)
	}
	return in, nil
}

// ConvertFieldLabel implements runtime.ObjectConvertor, but is not used.
func (sameVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// entryKey tells entries of managedFields apart together with their time.
type entryKey struct{ manager, operation, apiVersion, subresource, time string }

func keyOf(entry any) entryKey {
	e, _ := entry.(map[string]any)
	text := func(name string) string { s, _ := e[name].(string); return s }
	return entryKey{text("manager"), text("operation"), text("apiVersion"), text("subresource"), text("time")}
}

// entriesOf returns the managedFields as they are. None is changed in place.
func entriesOf(o *unstructured.Unstructured) []any {
	metadata, _ := o.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	return entries
}

// stamp gives the entries that a field manager has touched just now, that is those with a time that none of the known ones
// has, the time of the server's own clock.
func stamp(o *unstructured.Unstructured, now time.Time, known ...[]any) {
	entries := entriesOf(o)
	if len(entries) == 0 {
		return
	}
	old := map[entryKey]bool{}
	for _, list := range known {
		for _, entry := range list {
			old[keyOf(entry)] = true
		}
	}
	for _, entry := range entries {
		if e, ok := entry.(map[string]any); ok && e["time"] != nil && !old[keyOf(entry)] {
			e["time"] = now.UTC().Format(time.RFC3339)
		}
	}
	slices.SortStableFunc(entries, func(a, b any) int {
		x, y := keyOf(a), keyOf(b)
		return cmp.Or(cmp.Compare(x.operation, y.operation), cmp.Compare(x.time, y.time), cmp.Compare(x.manager, y.manager),
			cmp.Compare(x.apiVersion, y.apiVersion), cmp.Compare(x.subresource, y.subresource))
	})
}
