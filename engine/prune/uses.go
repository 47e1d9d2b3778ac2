package prune

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/engine/inventory"
)

// user is a workload that still exists, with the objects that its pods refer to.
type user struct {
	key inventory.Key
	// gone is true if it no longer exists, unknown if it could not be read.
	gone, unknown bool
	refers        map[inventory.Key]bool
}

// podSpecs has the path of the pod spec in each kind that runs pods.
var podSpecs = map[schema.GroupKind][]string{
	{Kind: "Pod"}:                              {"spec"},
	{Kind: "ReplicationController"}:            {"spec", "template", "spec"},
	{Group: "apps", Kind: "Deployment"}:        {"spec", "template", "spec"},
	{Group: "apps", Kind: "StatefulSet"}:       {"spec", "template", "spec"},
	{Group: "apps", Kind: "DaemonSet"}:         {"spec", "template", "spec"},
	{Group: "apps", Kind: "ReplicaSet"}:        {"spec", "template", "spec"},
	{Group: "extensions", Kind: "Deployment"}:  {"spec", "template", "spec"},
	{Group: "extensions", Kind: "StatefulSet"}: {"spec", "template", "spec"},
	{Group: "extensions", Kind: "DaemonSet"}:   {"spec", "template", "spec"},
	{Group: "extensions", Kind: "ReplicaSet"}:  {"spec", "template", "spec"},
	{Group: "batch", Kind: "Job"}:              {"spec", "template", "spec"},
	{Group: "batch", Kind: "CronJob"}:          {"spec", "jobTemplate", "spec", "template", "spec"},
}

func runsPods(gk schema.GroupKind) bool { return podSpecs[gk] != nil }

// user reads a workload.
func (r *run) user(ctx context.Context, out *Outcome) user {
	u := user{key: out.Key, refers: map[inventory.Key]bool{}}
	at, found, err := r.kinds.place(ctx, out.Ref)
	if err != nil || !found {
		u.gone, u.unknown = err == nil, err != nil
		return u
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(at.mapping.GroupVersionKind)
	if err := r.Client.Get(ctx, out.Key.NamespacedName(), live); err != nil {
		u.gone, u.unknown = apierrors.IsNotFound(err), true
		return u
	}
	spec, found, err := unstructured.NestedMap(live.Object, podSpecs[out.Key.GroupKind()]...)
	if err != nil || !found {
		u.unknown = true
		return u
	}
	u.refer("ServiceAccount", "default") // if the spec does not name another one
	u.walk(spec)
	return u
}

// walk records the references in a pod's spec, at any depth.
func (u *user) walk(value any) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			u.walk(element)
		}
	case map[string]any:
		for field, content := range v {
			named, _ := content.(map[string]any)
			switch field {
			case "configMap", "configMapRef", "configMapKeyRef":
				u.refer("ConfigMap", named["name"])
			case "secret", "secretRef", "secretKeyRef", "nodePublishSecretRef":
				u.refer("Secret", named["name"])
				u.refer("Secret", named["secretName"])
			case "imagePullSecrets":
				for _, ref := range asSlice(content) {
					named, _ := ref.(map[string]any)
					u.refer("Secret", named["name"])
				}
			case "persistentVolumeClaim":
				u.refer("PersistentVolumeClaim", named["claimName"])
			case "serviceAccountName":
				u.refer("ServiceAccount", content)
			case "priorityClassName":
				if name, ok := content.(string); ok {
					u.refers[inventory.Key{Group: "scheduling.k8s.io", Kind: "PriorityClass", Name: name}] = true
				}
			}
			u.walk(content)
		}
	}
}

func asSlice(value any) []any {
	s, _ := value.([]any)
	return s
}

func (u *user) refer(kind string, name any) {
	if name, ok := name.(string); ok && name != "" {
		u.refers[inventory.Key{Kind: kind, Namespace: u.key.Namespace, Name: name}] = true
	}
}

// needs reports whether the pods may need an object until they are gone. Their roles are not determined, so all roles
// wait.
func (u *user) needs(k inventory.Key) bool {
	switch {
	case u.gone:
		return false
	case k.Group == "rbac.authorization.k8s.io":
		return true
	case k.Group == "networking.k8s.io":
		return k.Namespace == u.key.Namespace
	case u.unknown:
		return k.Namespace == u.key.Namespace || k.Namespace == ""
	default:
		return u.refers[k]
	}
}
