package prune

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
	"github.com/trellis-hub/trellis/controllers/managedresource/warnings"
)

// explainedServices bounds how many Services that do not go are explained.
const explainedServices = 20

// explain adds to the reasons of pending Services what their last Warning events say: it is a cloud's load balancer
// that they wait for. It is for people, so it fails in silence.
func (r *run) explain(ctx context.Context) {
	var pending []int
	for i := range r.outcomes {
		out := &r.outcomes[i]
		if out.Result == Pending && out.Key.Group == "" && out.Key.Kind == "Service" && out.lingers && len(pending) < explainedServices {
			pending = append(pending, i)
		}
	}
	r.parallel(pending, func(out *Outcome) {
		if texts := r.warnings(ctx, out.Key); len(texts) > 0 {
			out.Reason += fmt.Sprintf("; last warnings: %s", strings.Join(texts, "; "))
		}
	})
}

// warnings are the texts of an object's last Warning events, in an order that does not change when one of them repeats.
func (r *run) warnings(ctx context.Context, key inventory.Key) []string {
	last, err := warnings.Last(ctx, r.Client, key)
	if err != nil {
		return nil
	}
	var texts []string
	for _, w := range last {
		texts = append(texts, fmt.Sprintf("%s: %s", w.Reason, w.Message))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}
