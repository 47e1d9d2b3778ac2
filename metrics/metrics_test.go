package metrics_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/metrics"
)

func TestNamesAreToldApartUpToALimit(t *testing.T) {
	g := NewWithT(t)
	names := metrics.NewNames(3)
	for i := range 3 {
		g.Expect(names.Label(fmt.Sprint(i))).To(Equal(fmt.Sprint(i)))
	}
	g.Expect(names.Label("3")).To(Equal(metrics.Other))
	g.Expect(names.Label("1")).To(Equal("1"), "those known before stay so")
	g.Expect(names.Label("3")).To(Equal(metrics.Other))
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
