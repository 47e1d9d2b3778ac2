package failover_test

import (
	"bytes"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/perf/failover"
	"github.com/trellis-hub/trellis/hack/perf/figures"
)

// TestLeaderIsReplacedAndNothingDoneTwice ends a leader once in each way. How long that takes is no property.
func TestLeaderIsReplacedAndNothingDoneTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	g := NewWithT(t)
	root, err := controlplane.Root()
	g.Expect(err).NotTo(HaveOccurred())
	report, progress := figures.NewReport("failover", nil), &bytes.Buffer{}
	o := failover.Options{Kills: 3, Targets: 3, Rate: 10, Seed: uint64(time.Now().UnixNano()), Awake: 2 * time.Second, Patience: 3 * time.Minute, Progress: progress}
	t.Cleanup(func() { t.Logf("seed %d\n%s", o.Seed, progress) })
	g.Expect(failover.Run(t.Context(), root, o, report)).To(Succeed())
	g.Expect(report.Broken()).To(BeEmpty())
	for _, way := range []string{"term", "kill", "stop"} {
		g.Expect(report.Steps[0].Find(way + " until the successor writes, max")).NotTo(BeNil())
	}
}
