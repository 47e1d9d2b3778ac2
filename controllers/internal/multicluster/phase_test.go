package multicluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/clustercache"
)

// The periodic runs of a target are at the same times whenever the controller was started.
func TestPeriodicRunsDoNotDependOnTheStart(t *testing.T) {
	g := NewWithT(t)
	key := clustercache.ClusterKey{Namespace: "shoot--foo--bar", Name: "bar"}
	const period = 12 * time.Hour
	begin := time.Date(2026, 11, 27, 17, 0, 0, 0, time.UTC)
	first := begin.Add(phase(key, period, begin))
	for later := time.Duration(0); later < 3*period; later += 7 * time.Minute {
		next := begin.Add(later).Add(phase(key, period, begin.Add(later)))
		g.Expect(next).To(BeTemporally(">=", begin.Add(later)))
		g.Expect(next.Sub(begin.Add(later))).To(BeNumerically("<", period))
		g.Expect(next.Sub(first) % period).To(BeZero())
	}
	other := clustercache.ClusterKey{Namespace: "shoot--foo--baz", Name: "baz"}
	g.Expect(phase(other, period, begin)).NotTo(Equal(phase(key, period, begin)))
}
