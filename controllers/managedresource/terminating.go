package managedresource

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

// explainedNamespaces is how many namespaces that are being deleted are asked what they wait for.
const explainedNamespaces = 5

// sayWhatNamespacesWaitFor adds to failures that come from the deletion of a namespace why that does not end: the
// objects cannot be applied before, and their manifests are not to blame.
func sayWhatNamespacesWaitFor(ctx context.Context, target apply.Target, outcomes []apply.Outcome) {
	waits := map[string]string{}
	for i := range outcomes {
		o := &outcomes[i]
		name := endingNamespace(o)
		if name == "" {
			continue
		}
		text, asked := waits[name]
		if !asked {
			if len(waits) == explainedNamespaces {
				continue
			}
			text = prune.NamespaceWaits(ctx, target.Client, name)
			waits[name] = text
		}
		if text != "" {
			o.Err = fmt.Errorf("%w; namespace %s waits: %s", o.Err, name, text)
		}
	}
}

// endingNamespace is the namespace whose deletion keeps an object from being applied, empty if there is none.
func endingNamespace(o *apply.Outcome) string {
	switch {
	case apierrors.HasStatusCause(o.Err, corev1.NamespaceTerminatingCause):
		return o.Key.Namespace
	case inventory.IsNamespace(o.Key.GroupKind()) && errors.Is(o.Err, apply.ErrTerminating):
		return o.Key.Name
	}
	return ""
}
