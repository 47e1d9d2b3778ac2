package prune

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/untrusted"
)

// firstAnswer is how long after its creation an APIService gets its first condition at the latest. One that has not
// been available by then, and never since, has served nothing.
const firstAnswer = time.Minute

// maxWords bounds what is quoted of a target about one object.
const maxWords = 512

// backend is the server behind an APIService, as far as the API server tells.
type backend struct {
	// away says why it cannot be reached; empty if it can, or if nobody can tell.
	away string
	// never is true if it has not been available since the APIService was created.
	never bool
}

// backendOf tells how the server is that serves a version of a group.
func (r *run) backendOf(ctx context.Context, gv schema.GroupVersion) backend {
	live := &unstructured.Unstructured{}
	live.SetAPIVersion("apiregistration.k8s.io/v1")
	live.SetKind("APIService")
	name := gv.Version + "." + gv.Group
	if gv.Group == "" || r.Client == nil || r.Client.Get(ctx, client.ObjectKey{Name: name}, live) != nil {
		return backend{}
	}
	if _, remote, _ := unstructured.NestedMap(live.Object, "spec", "service"); !remote {
		return backend{}
	}
	available := conditionOf(live, "Available")
	if available["status"] != "False" {
		return backend{}
	}
	reason, message := stringIn(available, "reason"), stringIn(available, "message")
	since, err := time.Parse(time.RFC3339, stringIn(available, "lastTransitionTime"))
	return backend{
		away: untrusted.Text(fmt.Sprintf("APIService %s is not available (%s): %s", name, reason, message), maxWords),
		// The time is that of the last change between available and not available.
		never: err == nil && since.Sub(live.GetCreationTimestamp().Time) <= firstAnswer,
	}
}

// conditionOf returns a condition of an object, nil if it has none of that type.
func conditionOf(obj *unstructured.Unstructured, conditionType string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, _ := c.(map[string]any); condition["type"] == conditionType {
			return condition
		}
	}
	return nil
}

func stringIn(fields map[string]any, name string) string {
	value, _ := fields[name].(string)
	return value
}

// unreached deals with objects that could not be looked at because the aggregated API that serves them is away. Its
// APIService, as long as it is there, keeps every namespace of the target from being deleted, that of its backend
// among them, so it must not wait for what nobody can delete before it is gone:
//
//   - An object that was never created holds nothing back: the inventory does not know its UID, and its API was never
//     available. Without the latter it may have been created by another manager, or by a call whose answer was lost.
//   - Others are waited for until the API is back, or a user gives them up, as with a target that cannot be reached.
func (r *run) unreached(ctx context.Context, members []int) {
	backends := map[schema.GroupVersion]backend{}
	for _, i := range members {
		out := &r.outcomes[i]
		if out.Result != Pending || out.Err == nil || out.Deleted {
			continue
		}
		gv, err := schema.ParseGroupVersion(out.Ref.APIVersion)
		if err != nil {
			continue
		}
		b, asked := backends[gv]
		if !asked {
			b = r.backendOf(ctx, gv)
			backends[gv] = b
		}
		switch {
		case b.away == "":
		case r.policy.Forced:
			out.Result, out.Err, out.Released = Kept, nil, true
			out.Reason = "it cannot be reached and its deletion is forced: " + b.away
		default:
			out.passed = out.Ref.UID == "" && b.never
			out.Reason = b.away
			if !out.passed {
				out.Reason += "; once the ManagedResource is being deleted, the annotation " +
					resourcesv1alpha1.ForceDeletionAnnotation + "=true gives up on it"
			}
		}
	}
}
