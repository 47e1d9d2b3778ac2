package tokenrequestor

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trellis-hub/trellis/clustercache"
)

func TestRenewalsInARowWait(t *testing.T) {
	g := NewWithT(t)
	now := time.Now()
	tokens := newTokens(clocktesting.NewFakePassiveClock(now))
	key, name := clustercache.ClusterKey{Name: "one"}, types.NamespacedName{Name: "a"}
	renew := func() time.Duration {
		rest := tokens.rest(key, name, now)
		tokens.issued(key, name, now)
		tokens.renewed(key, name, now.Add(time.Hour), now.Add(time.Hour))
		return rest
	}
	for _, wait := range []time.Duration{0, 0, 0, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
		g.Expect(renew()).To(Equal(wait))
	}
	tokens.failed(key, name, now, now)
	g.Expect(tokens.rest(key, name, now)).To(Equal(80*time.Second), "a failure changes nothing")
	for range 100 {
		renew()
	}
	g.Expect(tokens.rest(key, name, now)).To(Equal(againLast))
	tokens.good(key, name, now.Add(time.Hour), now.Add(time.Hour))
	g.Expect(renew()).To(BeZero(), "one was good")
}

func TestTokensAreOverdueByThemselves(t *testing.T) {
	g := NewWithT(t)
	now := time.Now()
	tokens := newTokens(clocktesting.NewFakePassiveClock(now))
	key := clustercache.ClusterKey{Name: "one"}
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	tokens.good(key, a, now.Add(time.Hour), now.Add(2*time.Hour))
	tokens.issued(key, b, now)
	tokens.renewed(key, b, now.Add(2*time.Hour), now.Add(90*time.Minute))
	at := func(after time.Duration) overdue { return tokens.overdue(now.Add(after))[key] }
	g.Expect(at(59 * time.Minute)).To(Equal(overdue{}))
	g.Expect(at(time.Hour)).To(Equal(overdue{1, now.Add(2 * time.Hour)}), "that needs no run")
	g.Expect(at(2 * time.Hour)).To(Equal(overdue{2, now.Add(90 * time.Minute)}))
	tokens.failed(key, a, now.Add(90*time.Minute), time.Time{})
	g.Expect(at(time.Hour)).To(Equal(overdue{number: 1}), "it is overdue since it was first, and may have none")
	tokens.drop(key, a)
	g.Expect(at(time.Hour)).To(Equal(overdue{}))
}
