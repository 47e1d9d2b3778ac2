package inspect

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/engine/health"
)

// parseKind reads "apps/v1 ReplicaSet".
func parseKind(text string) schema.GroupVersionKind {
	version, kind, _ := strings.Cut(text, " ")
	return schema.FromAPIVersionAndKind(version, kind)
}

// adopt adds the children of workloads, by their owner references. ReplicaSets without pods are old ones and omitted.
func (l *reader) adopt(objects []Object) {
	byOwner := map[types.UID][]*unstructured.Unstructured{}
	for _, p := range l.pods {
		for i := range p.children {
			for _, owner := range p.children[i].GetOwnerReferences() {
				if owner.Controller != nil && *owner.Controller {
					byOwner[owner.UID] = append(byOwner[owner.UID], &p.children[i])
				}
			}
		}
	}
	for i := range objects {
		objects[i].Children = l.children(objects[i].uid, byOwner, 0)
	}
}

// deepest bounds the depth: a CronJob has Jobs, which have Pods.
const deepest = 3

func (l *reader) children(of types.UID, byOwner map[types.UID][]*unstructured.Unstructured, depth int) []Object {
	if of == "" || depth == deepest {
		return nil
	}
	var out []Object
	for _, live := range byOwner[of] {
		child := Object{APIVersion: live.GetAPIVersion(), Kind: live.GetKind(), Namespace: live.GetNamespace(),
			Name: live.GetName(), uid: live.GetUID()}
		created := live.GetCreationTimestamp().Time
		child.Created = &created
		child.Children = l.children(child.uid, byOwner, depth+1)
		if child.Kind == "ReplicaSet" && len(child.Children) == 0 {
			if replicas, _, _ := unstructured.NestedInt64(live.Object, "spec", "replicas"); replicas == 0 {
				continue
			}
		}
		if child.Kind == "Pod" {
			child.podProblem(live)
		} else {
			child.check(live, nil)
		}
		out = append(out, child)
	}
	return out
}

// podProblem adds what the containers of a pod wait for, while a running pod is always healthy to Check.
func (o *Object) podProblem(live *unstructured.Unstructured) {
	o.check(live, nil)
	if problem := health.PodOf(live).Problem; problem != (health.Problem{}) && live.GetDeletionTimestamp() == nil {
		o.Message = problem.Message
		switch {
		case problem.Severity > health.Waiting:
			o.Health = Unhealthy
		case o.Health == Healthy:
			o.Health = Progressing
		}
	}
}
