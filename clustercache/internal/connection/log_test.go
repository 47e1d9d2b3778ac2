package connection

import (
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
)

func TestReasonsAreLoggedAtABoundedRate(t *testing.T) {
	g := NewWithT(t)
	lines := 0
	log := funcr.New(func(string, string) { lines++ }, funcr.Options{})
	var l FailureLog
	now := time.Now()
	logged := func(after time.Duration, details string) int {
		now = now.Add(after)
		lines = 0
		l.Log(log, now, details)
		return lines
	}
	g.Expect(logged(0, "a")).To(Equal(1))
	g.Expect(logged(time.Second, "a")).To(BeZero())
	g.Expect(logged(time.Second, "b")).To(BeZero())
	g.Expect(logged(reasonEvery, "b")).To(Equal(1))
	g.Expect(logged(reasonEvery, "b")).To(BeZero())
	g.Expect(logged(sameReasonEvery, "b")).To(Equal(1))
	l.Repeat()
	g.Expect(logged(time.Second, "b")).To(Equal(1), "the state has changed")
	g.Expect(logged(sameReasonEvery, "")).To(BeZero())
}
