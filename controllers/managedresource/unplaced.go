package managedresource

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
)

const eventDefaultNamespace = "DefaultNamespace"

// shownUnplaced is how many objects a warning names.
const shownUnplaced = 10

// warnUnplaced warns of objects that were just applied to the namespace "default" because their manifests name none.
// Mostly they were meant for another one.
func (r *reconciler) warnUnplaced(work *run, b *bundle.Bundle, outcomes []apply.Outcome) {
	unplaced := sets.Set[inventory.Key]{}
	for _, o := range b.Objects {
		if key := inventory.KeyOfObject(o.Unstructured); key.Namespace == "" {
			key.Namespace = metav1.NamespaceDefault // of those that are in one
			unplaced.Insert(key)
		}
	}
	var names []string
	for _, o := range outcomes {
		if o.Err == nil && !o.Unchanged && unplaced.Has(o.Key) {
			names = append(names, o.Key.String())
		}
	}
	if len(names) == 0 {
		return
	}
	more := ""
	if n := len(names) - shownUnplaced; n > 0 {
		names, more = names[:shownUnplaced], fmt.Sprintf(" and %d more", n)
	}
	r.events.write(work.mr, nil, corev1.EventTypeWarning, eventDefaultNamespace, "Apply",
		"Applied to the namespace default, because the manifests name none: "+strings.Join(names, ", ")+more)
}
