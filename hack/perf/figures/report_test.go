package figures_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/perf/figures"
)

func TestReportListsWhatIsBroken(t *testing.T) {
	g := NewWithT(t)
	r := figures.NewReport("some trial", nil)
	s := r.Begin("first step")
	s.AddLatencies("drift", []float64{1, 2, 30}, []float64{1, 1, 1})
	s.Add("idle", 70, "m").AtMost(60)
	s.Add("writes", 0, "").Exactly(0).Strictly()
	g.Expect(r.Broken()).To(BeEmpty(), "a goal that is missed breaks nothing")
	g.Expect(r.Missed()).To(ConsistOf("first step: idle is 70 m, not <= 60"))
	s.Add("writes to targets", 3, "").Exactly(0).Strictly()
	s.Add("never measured", math.NaN(), "ms").AtMost(1).Strictly()
	g.Expect(r.Broken()).To(ConsistOf(
		"first step: writes to targets is 3 , not 0", "first step: never measured is - ms, not <= 1"))

	var out strings.Builder
	s.Note("a sentence about %s", "it")
	s.End()
	g.Expect(r.Print(&out)).To(Succeed())
	g.Expect(out.String()).To(And(
		ContainSubstring("drift, p99"), ContainSubstring("MISSED"), ContainSubstring("BROKEN"), ContainSubstring("held"), ContainSubstring("a sentence about it")))

	path, err := r.Write("", filepath.Join(t.TempDir(), "results"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(path).To(ContainSubstring("some-trial-"))
	content, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	var read figures.Report
	g.Expect(json.Unmarshal(content, &read)).To(Succeed())
	g.Expect(read.Steps).To(HaveLen(1))
	g.Expect(read.Steps[0].Samples["drift"]).To(Equal([]float64{1, 2, 30}))
	g.Expect(*read.Steps[0].Figures[0].Reference).To(Equal(1.0))
	g.Expect(read.Steps[0].Find("never measured").Value).To(Equal(-1.0), "JSON has no NaN")
}
