package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// The ManagedResources of targets that need few objects, named after what happens to them.
const (
	Steady    = "steady"    // foreigners edit its objects
	Changing  = "changing"  // its content changes
	Shrinking = "shrinking" // it loses an object
	Going     = "going"     // it is deleted
	Custom    = "custom"    // its object is of a custom kind
)

// How many ConfigMaps each has. They are named after it, with a number.
var counts = map[string]int{Steady: 10, Changing: 2, Shrinking: 2, Going: 2}

// Crowd is more that foreigners can edit: the hub corrects the drift of an object at once only a few times, until there was none
// for ten minutes.
var Crowd = func() []string {
	const resources, objects = 8, 25
	var names []string
	for i := range resources {
		name := fmt.Sprintf("crowd-%d", i)
		names, counts[name] = append(names, name), objects
	}
	return names
}()

// contentNamespace is where they are in a target.
const contentNamespace = metav1.NamespaceDefault

// manifests of a ManagedResource.
func manifests(name, value string, count int, sent time.Time) []string {
	if name == Custom {
		return []string{`{"apiVersion":"trials.example.org/v1","kind":"Widget","metadata":{"namespace":"` + contentNamespace + `","name":"custom"},"spec":{"size":3}}`}
	}
	var out []string
	for i := range count {
		object := map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"namespace": contentNamespace, "name": fmt.Sprintf("%s-%d", name, i), "labels": map[string]any{"origin": "trials"}},
			"data":     map[string]any{"key": value},
		}
		if !sent.IsZero() && i == 0 {
			object["metadata"].(map[string]any)["annotations"] = map[string]any{journal.SentAtAnnotation: sent.Format(time.RFC3339Nano)} //nolint:errcheck // it is a map, as made above
		}
		text, err := json.Marshal(object)
		if err != nil {
			panic(err) // maps and strings
		}
		out = append(out, string(text))
	}
	return out
}

// Widgets is the definition of the custom kind. Only the trial brings it to a target.
func Widgets() *unstructured.Unstructured {
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": WidgetsName},
		"spec": map[string]any{
			"group": "trials.example.org", "scope": "Namespaced",
			"names":    map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": open}}},
		},
	}}
}

// WidgetsName is the name of that definition.
const WidgetsName = "widgets.trials.example.org"

// VictimsOf are the objects of ManagedResources.
func VictimsOf(names ...string) []Victim {
	var objects []*unstructured.Unstructured
	for _, name := range names {
		for _, text := range manifests(name, "value", counts[name], time.Time{}) {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON([]byte(text)); err != nil {
				panic(err) // it is made here
			}
			objects = append(objects, object)
		}
	}
	return Victims(objects)
}

// ContentOf is the Secret of one ManagedResource of a target: its first objects with a value, and with the time when it was
// sent unless that is zero. A count of zero means all that it has.
func ContentOf(target *fleetsim.Target, name, value string, count int, sent time.Time) *corev1.Secret {
	if count == 0 {
		count = counts[name]
	}
	return testbed.Content(Namespace(target), name, "objects.yaml", manifests(name, value, count, sent)...)
}

// Contents is what the source has for a target with these ManagedResources: its namespace, Secrets and ManagedResources.
func Contents(target *fleetsim.Target, names ...string) []client.Object {
	ns := Namespace(target)
	out := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}}
	for _, name := range names {
		out = append(out, ContentOf(target, name, "value", 0, time.Time{}), testbed.ManagedResource(ns, name, name))
	}
	return out
}

// Has reports whether a target has the n-th ConfigMap of a ManagedResource, with this value unless it is empty.
func Has(ctx context.Context, target *fleetsim.Target, name string, n int, value string) bool {
	object, ok := find(ctx, target, fmt.Sprintf("%s-%d", name, n))
	if !ok || value == "" {
		return ok
	}
	is, _, _ := unstructured.NestedString(object.Object, "data", "key") // what is no string is not it
	return is == value
}

func find(ctx context.Context, target *fleetsim.Target, name string) (*unstructured.Unstructured, bool) {
	body, err := target.Call(ctx, fleetsim.Call{Method: "GET", Path: "/api/v1/namespaces/" + contentNamespace + "/configmaps/" + name})
	if err != nil {
		return nil, false
	}
	object := &unstructured.Unstructured{}
	return object, object.UnmarshalJSON(body) == nil
}

// HasCustom reports whether a target has the object of the custom kind.
func HasCustom(ctx context.Context, target *fleetsim.Target) bool {
	_, err := target.Call(ctx, fleetsim.Call{Method: "GET", Path: "/apis/trials.example.org/v1/namespaces/" + contentNamespace + "/widgets/custom"})
	return err == nil
}

// Bring registers targets that have their contents at the source, and waits until all is applied.
func (r *Rig) Bring(ctx context.Context, targets []*fleetsim.Target, patience time.Duration, names ...string) error {
	var refs []testbed.Ref
	for _, target := range targets {
		for _, name := range names {
			refs = append(refs, testbed.ManagedResourceRef(Namespace(target), name))
		}
	}
	applied := r.Observer.Expect("the contents of targets are applied", refs, Applied)
	if err := EachOf(ctx, targets, nil, func(ctx context.Context, target *fleetsim.Target) error {
		if err := target.AddCRD(ctx, Widgets()); err != nil {
			return err
		}
		if err := r.Writers.Create(ctx, Contents(target, names...)...); err != nil {
			return err
		}
		return r.Writers.Create(ctx, target.Registration(Namespace(target)))
	}); err != nil {
		applied.End()
		return err
	}
	_, err := applied.Wait(ctx, r, patience)
	return err
}

// Forget has the hub give up targets in order: it cleans up, and then they are no longer registered.
func (r *Rig) Forget(ctx context.Context, targets []*fleetsim.Target, patience time.Duration) error {
	gone := r.Observer.Expect("the ManagedResources of targets are gone", r.managedResources(targets), Gone)
	if err := EachOf(ctx, targets, nil, func(ctx context.Context, target *fleetsim.Target) error {
		return r.Writers.DeleteManagedResources(ctx, Namespace(target), "")
	}); err != nil {
		gone.End()
		return err
	}
	if _, err := gone.Wait(ctx, r, patience); err != nil {
		return err
	}
	gone = r.Observer.Expect("targets are forgotten", TargetClustersOf(targets), Gone)
	if err := EachOf(ctx, targets, nil, func(ctx context.Context, target *fleetsim.Target) error {
		secret := target.Registration(Namespace(target))
		return r.Writers.DeleteSecret(ctx, secret.Namespace, secret.Name)
	}); err != nil {
		gone.End()
		return err
	}
	if _, err := gone.Wait(ctx, r, patience); err != nil {
		return err
	}
	return EachOf(ctx, targets, nil, func(ctx context.Context, target *fleetsim.Target) error {
		return r.Writers.DeleteNamespace(ctx, Namespace(target))
	})
}
