package app

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

// CMN-20: a replica serves webhooks when it has tried to connect to all targets, or some of them take too long.
func TestReplicasConnectBeforeTheyServe(t *testing.T) {
	for name, end := range map[string]func(*clocktesting.FakeClock, chan<- bool, context.CancelFunc){
		"all were tried": func(_ *clocktesting.FakeClock, connecting chan<- bool, _ context.CancelFunc) {
			connecting <- false
		},
		"one hangs": func(clock *clocktesting.FakeClock, connecting chan<- bool, _ context.CancelFunc) {
			clock.Step(connectTime)
			connecting <- true
		},
		"the hub ends": func(_ *clocktesting.FakeClock, connecting chan<- bool, end context.CancelFunc) {
			end()
			connecting <- true
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			clock := clocktesting.NewFakeClock(time.Now())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked, connecting, waited := make(chan struct{}), make(chan bool), make(chan struct{})
			go func() {
				defer close(waited)
				awaitConnections(ctx, clock, func() bool {
					asked <- struct{}{}
					return <-connecting
				})
			}()
			g.Eventually(asked).Should(Receive())
			connecting <- true
			g.Eventually(func() <-chan struct{} {
				clock.Step(connectPoll / 10)
				return asked
			}).WithPolling(10*time.Millisecond).Should(Receive(), "it looks again")
			g.Expect(waited).NotTo(BeClosed())
			end(clock, connecting, cancel)
			g.Eventually(waited).Should(BeClosed())
		})
	}
}
