package transport

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const watch = "/api/v1/configmaps?watch=true"

// While a gate is closed calls fail, and watches wait until it opens or they end.
func TestGate(t *testing.T) {
	expect, g := NewWithT(t), newGuarded(t)
	var sent atomic.Int32
	g.answer = func(*http.Request) (*http.Response, error) {
		sent.Add(1)
		return code(http.StatusOK)
	}
	open := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() { ended <- g.get(ctx, watch) }()
		return ended
	}
	lost := errors.New("lost")
	g.gate.Close(lost)
	g.gate.Close(errors.New("twice"))
	expect.Expect(g.gate.Holds()).To(BeEquivalentTo(1))
	expect.Expect(g.gate.Closed()).NotTo(BeClosed())
	expect.Expect(g.get(t.Context(), configMap)).To(MatchError(lost))

	waits := open(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	ends := open(ctx)
	expect.Consistently(waits, 50*time.Millisecond).ShouldNot(Receive())
	cancel()
	expect.Eventually(ends).Should(Receive(MatchError(context.Canceled)))
	expect.Expect(sent.Load()).To(BeZero())

	g.gate.Open()
	g.gate.Open()
	expect.Eventually(waits).Should(Receive(BeNil()))
	expect.Expect(g.gate.Closed()).To(BeNil())
	expect.Expect(g.get(t.Context(), configMap)).To(Succeed())
	expect.Expect(sent.Load()).To(BeEquivalentTo(2))
}
