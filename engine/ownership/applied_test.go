package ownership_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trellis-hub/trellis/engine/ownership"
)

// An apply takes off what our last apply in the same version owns alone.
func TestAppliedIsWhatTheNextApplyTakesOff(t *testing.T) {
	const both, second = `{"f:data":{"f:a":{},"f:b":{}}}`, `{"f:data":{"f:b":{}}}`
	const update = metav1.ManagedFieldsOperationUpdate
	a, b := fieldpath.MakePathOrDie("data", "a"), fieldpath.MakePathOrDie("data", "b")
	ours := entries{}.ours(both)
	for name, c := range map[string]struct {
		entries entries
		version string
		alone   *fieldpath.Set // nil: nothing is known
	}{
		"ours":             {ours, "apps/v1", fieldpath.NewSet(a, b)},
		"with others":      {ours.update(second), "apps/v1", fieldpath.NewSet(a)},
		"with our update":  {ours.of(manager, update, "", second), "apps/v1", fieldpath.NewSet(a)},
		"with a status":    {ours.of("kubelet", update, "status", both), "apps/v1", fieldpath.NewSet(a, b)},
		"another version":  {ours, "apps/v1beta1", nil},
		"our update alone": {entries{}.of(manager, update, "", both), "apps/v1", nil},
		"unreadable":       {ours.update(`{"f:`), "apps/v1", nil},
		"no entries":       {nil, "apps/v1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			all, alone := ownership.Read(object(c.entries), manager).Applied(c.version)
			if c.alone == nil {
				g.Expect(all).To(BeNil())
				g.Expect(alone).To(BeNil())
				return
			}
			g.Expect(all.Equals(fieldpath.NewSet(a, b))).To(BeTrue(), all.String())
			g.Expect(alone.Equals(c.alone)).To(BeTrue(), alone.String())
		})
	}
}
