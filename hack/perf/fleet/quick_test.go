package fleet_test

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
	"github.com/trellis-hub/trellis/hack/perf/fleet"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	controlplane.VerifyTestMain(m)
}

// TestQuickly goes through all steps with a handful of targets. Times and sizes mean nothing then, so their goals do
// not count; that nothing is written, asked or lost where nothing should be does.
func TestQuickly(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane, skipped by -short")
	}
	g := NewWithT(t)
	root, err := controlplane.Root()
	g.Expect(err).NotTo(HaveOccurred())
	report := figures.NewReport("fleet", nil)
	err = fleet.Run(t.Context(), root, fleet.Options{
		Targets: 4, Objects: 60, Extra: 2, Struck: 30, Rounds: 2, Flood: 200, Void: 10 * time.Second, Window: 2 * time.Second, Rest: 10 * time.Second, Rate: 5, Patience: 5 * time.Minute, Limit: 15 * time.Minute,
	}, report)
	var table strings.Builder
	g.Expect(report.Print(&table)).To(Succeed())
	g.Expect(err).NotTo(HaveOccurred(), "%s", &table)
	g.Expect(report.Broken()).To(BeEmpty(), "%s", &table)
	for _, figure := range []string{
		"journal: ", "writes to targets", "registered until", "tokens taken over", "vanished until shown as down, max", "hub RSS",
		"workers that are free from 15 s on", "what came before a single change",
	} {
		g.Expect(table.String()).To(ContainSubstring(figure))
	}
}

// TestControllersQuickly goes through the step of controllers with a handful of targets. What they take means nothing
// then; that they do what there is to do, and nothing after that but what there is a timer for, does.
func TestControllersQuickly(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane, skipped by -short")
	}
	g := NewWithT(t)
	root, err := controlplane.Root()
	g.Expect(err).NotTo(HaveOccurred())
	report := figures.NewReport("fleet", nil)
	err = fleet.Run(t.Context(), root, fleet.Options{
		Targets: 4, Objects: 60, Steps: []string{"controllers"}, Rest: 10 * time.Second, Patience: 5 * time.Minute,
		Limit: 15 * time.Minute,
	}, report)
	var table strings.Builder
	g.Expect(report.Print(&table)).To(Succeed())
	g.Expect(err).NotTo(HaveOccurred(), "%s", &table)
	g.Expect(report.Broken()).To(BeEmpty(), "%s", &table)
	g.Expect(table.String()).To(ContainSubstring("all: live heap a target more"))
}
