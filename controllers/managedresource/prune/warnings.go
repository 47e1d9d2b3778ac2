package prune

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
)

// Bounds of what is told about Services that do not go.
const (
	explainedServices = 20
	warningsEach      = 5
)

// explain adds to the reasons of pending Services what their last Warning events say: it is a cloud's load balancer that
// they wait for (spec/managedresource.md 2.12). It is for people, so it fails in silence.
func (r *run) explain(ctx context.Context) {
	var pending []int
	for i := range r.outcomes {
		out := &r.outcomes[i]
		if out.Result == Pending && out.Key.Group == "" && out.Key.Kind == "Service" && out.lingers && len(pending) < explainedServices {
			pending = append(pending, i)
		}
	}
	r.parallel(pending, func(out *Outcome) {
		if warnings := r.warnings(ctx, out.Key); len(warnings) > 0 {
			out.Reason += fmt.Sprintf("; last warnings: %s", strings.Join(warnings, "; "))
		}
	})
}

// warnings are the texts of an object's last Warning events, in an order that does not change when one of them repeats.
func (r *run) warnings(ctx context.Context, key inventory.Key) []string {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("v1")
	list.SetKind("EventList")
	about := fields.Set{
		"involvedObject.kind": key.Kind, "involvedObject.namespace": key.Namespace, "involvedObject.name": key.Name, "type": corev1.EventTypeWarning,
	}
	if err := r.Client.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFieldsSelector{Selector: about.AsSelector()}, client.Limit(500)); err != nil {
		return nil
	}
	events := make([]corev1.Event, 0, len(list.Items))
	for i := range list.Items {
		event := corev1.Event{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &event) == nil {
			events = append(events, event)
		}
	}
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return lastSeen(&b).Compare(lastSeen(&a)) })
	var texts []string
	for _, e := range events[:min(len(events), warningsEach)] {
		texts = append(texts, fmt.Sprintf("%s: %s", e.Reason, strings.TrimSpace(e.Message)))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// lastSeen is when an event happened last. Events of the newer API have no lastTimestamp.
func lastSeen(e *corev1.Event) time.Time {
	switch {
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	default:
		return e.EventTime.Time
	}
}
