package hub_test

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/fleetsim"
)

// hasTheFixture returns an error that names what a target lacks of the fixture.
func (w *world) hasTheFixture(_ context.Context, target *fleetsim.Target) error {
	live := map[schema.GroupVersionKind]map[client.ObjectKey]*unstructured.Unstructured{}
	for _, object := range w.fixture.Objects(target.Name()) {
		gvk := object.GroupVersionKind()
		if live[gvk] == nil {
			live[gvk] = contents(target, gvk)
		}
		found := live[gvk][client.ObjectKeyFromObject(object)]
		if found == nil {
			return fmt.Errorf("%s %s is missing", gvk.Kind, object.GetName())
		}
		if difference := lacks(found.Object, object.Object); difference != "" {
			return fmt.Errorf("%s %s differs at %s", gvk.Kind, object.GetName(), difference)
		}
	}
	return nil
}

// contents returns all objects of a kind in a target.
func contents(target *fleetsim.Target, gvk schema.GroupVersionKind) map[client.ObjectKey]*unstructured.Unstructured {
	gvr, _ := meta.UnsafeGuessKindToResource(gvk) // the fixture has no irregular plural
	out := map[client.ObjectKey]*unstructured.Unstructured{}
	for _, object := range target.Server().Objects(gvr) {
		out[client.ObjectKeyFromObject(object)] = object
	}
	return out
}

// lacks returns the path at which the first value does not have what the second one has. A server may add fields.
func lacks(have, want any) string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return "."
		}
		for key, value := range want {
			if difference := lacks(have[key], value); difference != "" {
				return "." + key + difference
			}
		}
		return ""
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) != len(want) {
			return "[]"
		}
		for i, value := range want {
			if difference := lacks(have[i], value); difference != "" {
				return fmt.Sprintf("[%d]%s", i, difference)
			}
		}
		return ""
	}
	if !reflect.DeepEqual(have, want) {
		return "."
	}
	return ""
}
