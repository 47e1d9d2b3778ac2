package faults_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/perf/faults"
	"github.com/trellis-hub/trellis/hack/perf/figures"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	controlplane.VerifyTestMain(m)
}

// TestQuickly goes through a handful of cells, with nothing asserted that depends on time: a refusal, silence, a rotation, and
// all phases.
func TestQuickly(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane, skipped by -short")
	}
	g := NewWithT(t)
	root, err := controlplane.Root()
	g.Expect(err).NotTo(HaveOccurred())
	report := figures.NewReport("faults", nil)
	var progress strings.Builder
	err = faults.Run(t.Context(), root, faults.Options{
		Healthy: 2, Filter: regexp.MustCompile("^(503|blackhole|token)/"), Patience: 3 * time.Minute, Progress: &progress,
	}, report)
	g.Expect(err).NotTo(HaveOccurred(), progress.String())
	var table strings.Builder
	g.Expect(report.Print(&table)).To(Succeed())
	g.Expect(report.Broken()).To(BeEmpty(), "%s", &table)
	g.Expect(table.String()).To(ContainSubstring("the matrix: 18 cells"))
	for _, phase := range []string{"connecting", "listing", "watching", "applying", "pruning", "deleting"} {
		g.Expect(strings.Count(table.String(), phase+" recovered after")).To(Equal(3), table.String())
	}
}
