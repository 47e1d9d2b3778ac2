package soak_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/soak"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	controlplane.VerifyTestMain(m)
}

// TestTargetsThatComeAndGoLeaveNothing is the quick form of cycles: goroutines, sockets and series of the hub return to where they were.
func TestTargetsThatComeAndGoLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane, skipped by -short")
	}
	g := NewWithT(t)
	root, err := controlplane.Root()
	g.Expect(err).NotTo(HaveOccurred())
	report := figures.NewReport("cycles", nil)
	var progress strings.Builder
	err = soak.Cycle(t.Context(), root, soak.Options{
		Targets: 2, Visitors: 5, Cycles: 20, Rate: 2, Rest: time.Second, Seed: 1, Patience: 3 * time.Minute, Progress: &progress,
	}, report)
	g.Expect(err).NotTo(HaveOccurred(), progress.String())
	var table strings.Builder
	g.Expect(report.Print(&table)).To(Succeed())
	g.Expect(report.Broken()).To(BeEmpty(), "%s", &table)
	t.Log(table.String())
}

// TestMinutesOfASoakFollowEachOther is the quick form of a soak: with all its trouble, and minutes of a few seconds. What it leaves behind has no
// goal in so short a time; that nothing is written wrongly does.
func TestMinutesOfASoakFollowEachOther(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane, skipped by -short")
	}
	g := NewWithT(t)
	root, err := controlplane.Root()
	g.Expect(err).NotTo(HaveOccurred())
	report := figures.NewReport("soak", nil)
	var progress strings.Builder
	err = soak.Run(t.Context(), root, soak.Options{
		Targets: 4, Visitors: 2, Minutes: 6, Minute: 6 * time.Second, Rate: 2, Seed: 1, Patience: 3 * time.Minute, Progress: &progress,
	}, report)
	g.Expect(err).NotTo(HaveOccurred(), progress.String())
	var table strings.Builder
	g.Expect(report.Print(&table)).To(Succeed())
	g.Expect(progress.String()).To(ContainSubstring("minute 6: heap"))
	for _, broken := range report.Broken() {
		g.Expect(broken).NotTo(Or(ContainSubstring("journal: "), ContainSubstring("deleted wrongly"), ContainSubstring("created twice")), "%s", &table)
	}
	g.Expect(table.String()).To(ContainSubstring("created twice"))
	t.Log(table.String())
}
