package managedresource

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// The safety net is one timer for each ManagedResource, and those that began together do not stay together.
func TestW08_TimersAreSpread(t *testing.T) {
	g := NewWithT(t)
	s := &scope{syncPeriod: time.Hour}
	pauses := map[time.Duration]bool{}
	for range 100 {
		pause := s.resync().RequeueAfter
		g.Expect(pause).To(BeNumerically("~", time.Hour, 6*time.Minute))
		pauses[pause] = true
	}
	g.Expect(len(pauses)).To(BeNumerically(">", 50))
}
