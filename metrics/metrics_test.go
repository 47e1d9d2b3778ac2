package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/metrics"
)

func TestNamesAreKeptUpToALimit(t *testing.T) {
	g := NewWithT(t)
	names := metrics.NewNames(3)
	for i := range 3 {
		g.Expect(names.Label(fmt.Sprint(i))).To(Equal(fmt.Sprint(i)))
	}
	g.Expect(names.Label("3")).To(Equal(metrics.Other))
	g.Expect(names.Label("1")).To(Equal("1"), "those known before stay so")
	g.Expect(names.Label("3")).To(Equal(metrics.Other))
}

// Texts of others must neither cause a panic nor be sent with each scrape in full.
func TestLabelsOfOthersAreBounded(t *testing.T) {
	definition := (&metrics.Set{}).Gauge("trellis_target_info", "Info.", "version")
	for name, label := range map[string]string{
		"long": strings.Repeat("v", 1<<20), "no UTF-8": "v1\xff\xfe", "long and no UTF-8": strings.Repeat("\xff", 1<<20),
		"of several lines": "v1\nv2", "empty": "",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var written dto.Metric
			g.Expect(metrics.Const(definition.Desc(), prometheus.GaugeValue, 1, label).Write(&written)).To(Succeed())
			counter := definition.CounterVec()
			counter.WithLabelValues(metrics.NewNames(1).Label(label)).Inc()
			for _, value := range []string{written.GetLabel()[0].GetValue(), metrics.NewNames(1).Label(label)} {
				g.Expect(len(value)).To(BeNumerically("<=", 512))
				g.Expect(utf8.ValidString(value)).To(BeTrue())
				g.Expect(value).NotTo(ContainSubstring("\n"))
			}
		})
	}
}

func TestTargetName(t *testing.T) {
	g := NewWithT(t)
	g.Expect(metrics.TargetName(types.NamespacedName{Namespace: "a", Name: "b"})).To(Equal("a/b"))
	g.Expect(metrics.TargetName(types.NamespacedName{Name: "source"})).To(Equal("source"))
}

func TestSetHoldsWhatWasDefined(t *testing.T) {
	g := NewWithT(t)
	set := &metrics.Set{}
	depth := set.Gauge("trellis_queue_depth", "Items.", "class")
	up := set.Gauge("trellis_target_up", "Up.", metrics.LabelTarget)
	g.Expect(set.All()).To(Equal([]*metrics.Definition{depth, up}))
	g.Expect(depth.PerTarget()).To(BeFalse())
	g.Expect(up.PerTarget()).To(BeTrue())
}

func TestTargetsAreThereUntilTheyAreForgotten(t *testing.T) {
	g := NewWithT(t)
	var targets metrics.Targets[int]
	values := func() map[string]int {
		found := map[string]int{}
		targets.Range(func(target string, value *int) { found[target] = *value })
		return found
	}
	a, b := types.NamespacedName{Namespace: "shoot--a", Name: "a"}, types.NamespacedName{Name: "source"}
	add := func(n *int) { *n++ }
	targets.Update(a, add)
	g.Expect(values()).To(BeEmpty(), "a target that is not engaged has no series")
	targets.Engage(a, 0)
	targets.Engage(b, 7)
	targets.Update(a, add)
	g.Expect(values()).To(Equal(map[string]int{"shoot--a/a": 1, "source": 7}))
	targets.Forget(a)
	targets.Update(a, add)
	g.Expect(values()).To(Equal(map[string]int{"source": 7}))
}
