package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/clustercache/internal/answers"
	"github.com/trellis-hub/trellis/untrusted"
)

// failing is the body of an answer that fails when it is read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Answers that are not accepted, or that waited too long for a place, are no reason to stop calling a target.
func TestRefusedAnswersDoNotCountAgainstTheTarget(t *testing.T) {
	for name, fault := range map[string]error{
		"over a bound":              &answers.Error{Err: &untrusted.ExceededError{What: "bytes", Most: 1}},
		"in an unexpected encoding": &answers.Error{Err: &answers.EncodingError{Header: "Content-Type", Value: "a/b"}},
		"waited for too long":       answers.ErrNoSeat,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				expect, g := NewWithT(t), newGuarded(t)
				g.answer = func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(failing{fault})}, nil
				}
				for range 20 {
					time.Sleep(time.Second)
					request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://target"+configMap, http.NoBody)
					expect.Expect(err).NotTo(HaveOccurred())
					response, err := g.RoundTrip(request)
					expect.Expect(err).NotTo(HaveOccurred())
					_, err = io.ReadAll(response.Body)
					expect.Expect(err).To(MatchError(fault))
				}
				expect.Expect(g.opened.Load()).To(BeZero())
			})
		})
	}
}

// pausing is the body of an answer that waits for its place before it can be read.
type pausing struct {
	ctx  context.Context
	wait time.Duration
	read bool
}

func (p *pausing) Read(b []byte) (int, error) {
	if p.read {
		return 0, io.EOF
	}
	p.read = true
	err := answers.Pause(p.ctx, func() error {
		select {
		case <-time.After(p.wait):
			return nil
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	})
	return copy(b, "{}"), err
}

// The deadline of a call is suspended while its answer waits for a place, and continues after that.
func TestDeadlineDoesNotRunWhileAnAnswerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expect, g := NewWithT(t), newGuarded(t)
		var after time.Duration
		g.answer = func(request *http.Request) (*http.Response, error) {
			time.Sleep(20 * time.Second)
			body := io.MultiReader(&pausing{ctx: request.Context(), wait: 25 * time.Second}, later{request.Context(), after})
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(body)}, nil
		}
		ask := func() error {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://target"+configMap, http.NoBody)
			expect.Expect(err).NotTo(HaveOccurred())
			response, err := g.RoundTrip(request)
			expect.Expect(err).NotTo(HaveOccurred())
			_, err = io.ReadAll(response.Body)
			return err
		}
		after = 9 * time.Second // 29s of 30s, besides the wait
		expect.Expect(ask()).To(Succeed())
		after = 11 * time.Second
		err := ask()
		expect.Expect(errors.Is(err, context.DeadlineExceeded)).To(BeTrue(), "%v", err)
	})
}

// later returns after a pause.
type later struct {
	ctx context.Context
	in  time.Duration
}

func (l later) Read([]byte) (int, error) {
	select {
	case <-time.After(l.in):
		return 0, io.EOF
	case <-l.ctx.Done():
		return 0, context.Cause(l.ctx)
	}
}
