package criticalcomponents

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/untrusted"
)

// Waits reports whether a Node has the taint.
func Waits(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, isOurs) }

// Explain returns what a Node of a target waits for, as the reason and the note of the event about it. Both are empty
// if it waits for nothing. It fails if not everything can be seen; then the taint stays, too.
func Explain(ctx context.Context, target client.Reader, node *corev1.Node) (reason, note string, err error) {
	missing, err := look(ctx, target, node)
	if err != nil {
		return "", "", fmt.Errorf("critical components of Node %s: %w", untrusted.Name(node.Name), err)
	}
	if missing == nil {
		return "", "", nil
	}
	return missing.reason, missing.note, nil
}
