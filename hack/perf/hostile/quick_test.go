package hostile

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/perf/figures"
)

// TestQuickly goes through a selection of the attacks, with a real hub in a process of its own. Times mean nothing on a
// busy machine, so their goals do not count; memory, health and what must hold otherwise do.
func TestQuickly(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane, skipped by -short")
	}
	g := NewWithT(t)
	root, err := controlplane.Root()
	g.Expect(err).NotTo(HaveOccurred())
	report := figures.NewReport("hostile", nil)
	var progress strings.Builder
	err = Run(t.Context(), root, Options{
		Honest: 3, Quick: true, Window: 2 * time.Second, Rate: 5, Limit: 1 << 30, Patience: 3 * time.Minute,
		Progress: &progress,
	}, report)
	g.Expect(err).NotTo(HaveOccurred(), progress.String())
	var table strings.Builder
	g.Expect(report.Print(&table)).To(Succeed())
	g.Expect(report.Broken()).To(BeEmpty(), "%s", &table)
	t.Log(table.String())
}
