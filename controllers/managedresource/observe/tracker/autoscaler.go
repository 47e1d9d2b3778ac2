package tracker

import (
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/untrusted"
)

// AutoscalerKind is that of the objects that scale others.
var AutoscalerKind = schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}

// autoscalerWatch sees all autoscalers of a target, ours or not. Its name is not that of the kind: autoscalers that are
// managed have a watch of their own.
const autoscalerWatch = "HorizontalPodAutoscaler.autoscaling scaleTargetRef"

// autoscaler is what is kept of one: what it scales; the zero key if that is unknown.
type autoscaler struct{ scales inventory.Key }

func (t *Tracker) autoscalerWatcher() *clustercache.Watcher {
	return &clustercache.Watcher{
		Name:   autoscalerWatch,
		Form:   "scaleTargetRef",
		Kind:   AutoscalerKind,
		Fields: [][]string{{"spec", "scaleTargetRef"}},
		Transform: func(obj client.Object) any {
			full, ok := wholeOf(obj)
			if !ok {
				return &autoscaler{}
			}
			key, _ := ScaledBy(full)
			return &autoscaler{scales: key}
		},
		Handler: (*handler)(t),
	}
}

// ScaledBy returns what an autoscaler scales. One whose reference cannot be read scales nothing, which concerns no
// other object.
func ScaledBy(autoscaler *unstructured.Unstructured) (key inventory.Key, ok bool) {
	ref, _, err := unstructured.NestedStringMap(autoscaler.Object, "spec", "scaleTargetRef")
	if err != nil || ref["name"] == "" || untrusted.Name(ref["name"]) != ref["name"] {
		return inventory.Key{}, false
	}
	gv, err := schema.ParseGroupVersion(ref["apiVersion"])
	if err != nil {
		return inventory.Key{}, false
	}
	return Scalable(inventory.Key{Group: gv.Group, Kind: ref["kind"], Namespace: autoscaler.GetNamespace(),
		Name: ref["name"]})
}

// Scalable reports whether an object is of a kind whose replicas belong to an autoscaler that aims at it, and returns
// its key in the group that has the kind today.
func Scalable(key inventory.Key) (inventory.Key, bool) {
	if key.Kind != "Deployment" && key.Kind != "StatefulSet" || key.Group != appsGroup && key.Group != extensionsGroup {
		return inventory.Key{}, false
	}
	return canonical(key), true
}

func canonical(scalable inventory.Key) inventory.Key {
	scalable.Group = appsGroup
	return scalable
}

func (m *tracked) scalable() bool {
	for _, o := range m.objects {
		if o.scalable {
			return true
		}
	}
	return false
}

// The group of workloads, now and long ago.
const (
	appsGroup       = "apps"
	extensionsGroup = "extensions"
)

// needsAutoscalers reports whether an autoscaler of an object of an inventory matters. What its manifest says of
// replicas is not in there.
func needsAutoscalers(ref *resourcesv1alpha1.ObjectReference, key inventory.Key) bool {
	_, scalable := Scalable(key)
	return scalable && !isCreateOnly(ref) && ref.Annotations[resourcesv1alpha1.PreserveReplicasAnnotation] != "true"
}

// Autoscaled reports whether an autoscaler of a target scales an object. synced is false while the watches are not
// synced.
func (t *Tracker) Autoscaled(cluster clustercache.ClusterKey, key inventory.Key) (yes, synced bool) {
	key, scalable := Scalable(key)
	if !scalable {
		return false, true
	}
	tgt := t.target(cluster)
	if tgt == nil {
		return false, false
	}
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	scaled, synced := t.autoscaled(tgt)
	return scaled[key], synced
}

// autoscaled returns what is scaled in a target. A target that does not know autoscalers has none.
func (t *Tracker) autoscaled(tgt *target) (scaled map[inventory.Key]bool, synced bool) {
	need := tgt.watches[autoscalerWatch]
	if need == nil || need.objects == nil {
		return nil, false
	}
	scaled = map[inventory.Key]bool{}
	synced = need.objects.Range(func(_ types.NamespacedName, value any) bool {
		if a, ok := value.(*autoscaler); ok {
			scaled[a.scales] = true
		}
		return true
	})
	return scaled, synced || meta.IsNoMatchError(need.err)
}

// autoscalerChanged notifies those whose objects have lost their autoscaler: the manifest's replicas come back. One
// that appears changes nothing; only ManagedResources that already know it from the target are notified.
func (h *handler) autoscalerChanged(n notifications, tgt *target, before, after *autoscaler) {
	switch {
	case before == nil:
		h.ownersOfScaled(n, tgt, after.scales, CauseHealth)
	case after == nil || before.scales != after.scales:
		h.ownersOfScaled(n, tgt, before.scales, CauseDrift)
		if after != nil {
			h.ownersOfScaled(n, tgt, after.scales, CauseHealth)
		}
	}
}

func (*handler) ownersOfScaled(n notifications, tgt *target, key inventory.Key, cause Cause) {
	for _, group := range []string{appsGroup, extensionsGroup} {
		key.Group = group
		h := unique.Make(key)
		for _, m := range tgt.owners[h] {
			if o := m.objects[h]; o != nil && !m.busy && o.scalable &&
				(cause == CauseDrift || o.known && o.accepted.Autoscaled && !o.scaledSeen) {
				n.add(m.name, cause)
			}
		}
	}
}
