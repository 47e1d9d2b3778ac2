package workers

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
)

// However long the source was away, what is to be written about targets is written soon after it is back.
func TestPausesAfterErrorsOfTheSourceAreBounded(t *testing.T) {
	g := NewWithT(t)
	retries := sourceRetries()
	var last time.Duration
	for range 100 {
		next := retries.When(dispatch.Request{})
		g.Expect(next).To(And(BeNumerically(">=", last), BeNumerically("<=", 15*time.Second)))
		last = next
	}
	g.Expect(last).To(BeNumerically(">", time.Second), "but it is not run down")
	retries.Forget(dispatch.Request{})
	g.Expect(retries.When(dispatch.Request{})).To(BeNumerically("<", time.Second))
}
