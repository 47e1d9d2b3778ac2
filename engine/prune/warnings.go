package prune

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/warnings"
)

// lastWarnings is what the last Warning events of a Service say: it is a cloud's load balancer that it waits for.
func (r *run) lastWarnings(ctx context.Context, service inventory.Key) string {
	if texts := r.warnings(ctx, service); len(texts) > 0 {
		return "last warnings: " + strings.Join(texts, "; ")
	}
	return ""
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
