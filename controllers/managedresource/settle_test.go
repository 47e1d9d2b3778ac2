package managedresource

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/controllers/managedresource/run"
)

// A run that fails, whether by its deadline or a conflict, has not applied the change.
func TestAChangeOfAFailedRunIsStillMeasured(t *testing.T) {
	name := types.NamespacedName{Namespace: "a", Name: "b"}
	since := time.Unix(1_700_000_000, 0)
	overdue, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for title, ctx := range map[string]context.Context{"overdue": overdue, "failed": t.Context()} {
		t.Run(title, func(t *testing.T) {
			g := NewWithT(t)
			r := &reconciler{changes: run.NewLatencies(), drifts: run.NewLatencies()}
			r.changes.Start(name, since)
			s := &scope{Subject: run.Subject{Name: name}, changed: r.changes.Stop(name)}
			_, err := r.settle(ctx, s, reconcile.Result{}, errors.New("no answer"))
			g.Expect(err).To(HaveOccurred())
			r.changes.Ended(name)
			g.Expect(r.changes.Began(name)).To(Equal(since))
		})
	}
}
