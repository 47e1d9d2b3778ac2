package prune

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/warnings"
)

// lastWarnings returns the last Warning events of a Service, which have the errors of the cloud's load balancer.
func (r *run) lastWarnings(ctx context.Context, service inventory.Key) string {
	if texts := r.warnings(ctx, service); len(texts) > 0 {
		return "last warnings: " + strings.Join(texts, "; ")
	}
	return ""
}

// warnings returns the texts of an object's last Warning events, sorted, so that a repeated event does not change their
// order.
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
