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

// firstCheck is the time within which a new APIService gets its first condition. One that has been unavailable since
// then has never served anything.
const firstCheck = time.Minute

// maxQuote bounds what is quoted from a target about one object.
const maxQuote = 512

// backend is the server behind an APIService, as reported by the API server.
type backend struct {
	// away says why it cannot be reached; empty if it can, or if that is not known.
	away string
	// never is true if it has not been available since the APIService was created.
	never bool
}

// backendOf returns the server of a version of a group.
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
		away: untrusted.Text(fmt.Sprintf("APIService %s is not available (%s): %s", name, reason, message), maxQuote),
		// The time is that of the last change between available and not available.
		never: err == nil && since.Sub(live.GetCreationTimestamp().Time) <= firstCheck,
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

// unreached handles objects that could not be read because their aggregated API is unavailable. As long as its
// APIService exists, no namespace of the target can be deleted, including that of its backend. So the APIService must
// not wait for objects that cannot be deleted:
//
//   - An object that was never created does not block: the inventory has no UID for it, and its API was never
//     available. If the API was available, the object may have been created by another manager, or by a call whose
//     response was lost.
//   - Other objects block until the API is available, or until a user gives them up, as for a target that cannot be
//     reached.
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
