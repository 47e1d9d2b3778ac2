package fault_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
)

func TestAStatusIsWhatTheClientSees(t *testing.T) {
	for _, c := range []struct {
		name string
		code int
		is   func(error) bool
	}{
		{"401", http.StatusUnauthorized, apierrors.IsUnauthorized},
		{"403", http.StatusForbidden, apierrors.IsForbidden},
		{"404", http.StatusNotFound, apierrors.IsNotFound},
		{"410", http.StatusGone, apierrors.IsResourceExpired},
		{"429", http.StatusTooManyRequests, apierrors.IsTooManyRequests},
		{"500", http.StatusInternalServerError, apierrors.IsInternalError},
		{"503", http.StatusServiceUnavailable, apierrors.IsServiceUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			s := start(t)
			v := s.client(t)
			s.set(t, fault.Fault{Kind: fault.Status, Code: c.code})
			err := v.list(patience)
			g.Expect(c.is(err)).To(BeTrue(), "%v", err)
			_, delays := apierrors.SuggestsClientDelay(err)
			g.Expect(delays).To(BeFalse(), "no Retry-After was asked for")
			g.Expect(s.answered.Load()).To(Equal(int64(1)))
			g.Expect(s.reached.Load()).To(BeZero())

			s.clear(t)
			g.Expect(v.list(patience)).To(Succeed())
		})
	}
}

func TestAStatusCanSayWhenToRetry(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			g := NewWithT(t)
			s := start(t)
			s.set(t, fault.Fault{Kind: fault.Status, Code: code, RetryAfter: duration(1500 * time.Millisecond)})
			seconds, delays := apierrors.SuggestsClientDelay(s.client(t).list(patience))
			g.Expect(delays).To(BeTrue())
			g.Expect(seconds).To(Equal(2), "rounded up")
		})
	}
}

func TestLatencyDelaysAndEndsWhenItIsCleared(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	v := s.client(t)
	s.set(t, fault.Fault{Kind: fault.Latency, Delay: duration(brief), Jitter: duration(brief)})
	began := time.Now()
	g.Expect(v.version(patience)).To(Succeed())
	g.Expect(time.Since(began)).To(BeNumerically(">=", brief))
	s.clear(t)

	s.set(t, fault.Fault{Kind: fault.Latency, Delay: duration(time.Hour)})
	done := make(chan error, 1)
	go func() { done <- v.version(patience) }()
	g.Eventually(s.struck(fault.Latency), patience).Should(Equal(uint64(2)))
	g.Consistently(done, brief).ShouldNot(Receive())
	s.clear(t)
	g.Eventually(done, patience).Should(Receive(BeNil()))
}

func TestAHangStrikesOnlyWhatItMatches(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	v := s.client(t)
	s.set(t, fault.Fault{Kind: fault.Hang, Match: fault.Match{Verbs: []string{"list"}, Resources: []string{"configmaps"}}})
	done := make(chan error, 1)
	go func() { done <- v.list(patience) }()
	g.Eventually(s.struck(fault.Hang), patience).Should(Equal(uint64(1)))

	g.Expect(v.version(patience)).To(Succeed(), "on the same connection")
	w := v.watch(t, s)
	s.add("a")
	g.Expect(next(w, patience)).To(Equal("a"), "a watch of configmaps is no list of them")
	g.Expect(s.conns.Load()).To(Equal(int64(1)))
	g.Expect(s.unanswered.Load()).To(BeZero(), "it may still be answered")
	g.Expect(v.list(brief)).To(MatchError(context.DeadlineExceeded))
	g.Eventually(s.unanswered.Load, patience).Should(Equal(int64(1)), "its client left")

	s.clear(t)
	g.Eventually(done, patience).Should(Receive(BeNil()))
	g.Expect(s.unanswered.Load()).To(Equal(int64(1)))
}

func TestAResetBeforeTheAnswer(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	v := s.client(t)
	v.speakHTTP1()
	g.Expect(v.version(patience)).To(Succeed())
	s.set(t, fault.Fault{Kind: fault.Reset, Match: fault.Match{Paths: []string{"/version"}}})
	err := v.version(patience)
	g.Expect(utilnet.IsConnectionReset(err)).To(BeTrue(), "%v", err)
	g.Expect(s.unanswered.Load()).To(BeEquivalentTo(s.struck(fault.Reset)()))
	g.Expect(v.list(patience)).To(Succeed())
	s.clear(t)
	g.Expect(v.version(patience)).To(Succeed())
}

func TestAResetInTheMiddleOfAnAnswer(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	v := s.client(t)
	s.set(t, fault.Fault{Kind: fault.Reset, After: 5000})
	g.Expect(v.version(patience)).To(Succeed(), "the answer is shorter")
	body, err := v.CoreV1().RESTClient().Get().AbsPath("/api/v1/configmaps").MaxRetries(0).Stream(t.Context())
	g.Expect(err).NotTo(HaveOccurred(), "headers were sent")
	defer func() { g.Expect(body.Close()).To(Succeed()) }()
	buffer, read := make([]byte, 20_000), 0
	for err == nil {
		var n int
		n, err = body.Read(buffer[read:])
		read += n
	}
	g.Expect(read).To(BeNumerically("<=", 5000))
	// Which of the two depends on whether the client was just writing when the reset came.
	g.Expect(utilnet.IsConnectionReset(err) || errors.Is(err, io.ErrUnexpectedEOF)).To(BeTrue(), "%v", err)
	s.clear(t)
	g.Expect(v.list(patience)).To(Succeed())
}

func TestGoAwayMovesRequestsAndLeavesWatches(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	v := s.client(t)
	w := v.watch(t, s)
	s.set(t, fault.Fault{Kind: fault.GoAway})
	for range 5 {
		g.Expect(v.version(patience)).To(Succeed())
	}
	g.Expect(s.conns.Load()).To(BeNumerically(">=", 5), "each request but the first one needs a new connection")
	s.add("a")
	g.Expect(next(w, patience)).To(Equal("a"), "a watch continues")

	s.clear(t)
	g.Expect(v.version(patience)).To(Succeed())
	before := s.conns.Load()
	for range 5 {
		g.Expect(v.version(patience)).To(Succeed())
	}
	g.Expect(s.conns.Load()).To(Equal(before))
}

func TestADripIsSlowAndEndsWhenItIsCleared(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	v := s.client(t)
	s.set(t, fault.Fault{Kind: fault.Drip, Rate: 20_000})
	began := time.Now()
	g.Expect(v.list(patience)).To(Succeed())
	g.Expect(time.Since(began)).To(BeNumerically(">=", 450*time.Millisecond), "10 kB at 20 kB/s")

	s.clear(t)
	s.set(t, fault.Fault{Kind: fault.Drip, Rate: 1, Match: fault.Match{Verbs: []string{"list"}}})
	done := make(chan error, 1)
	go func() { done <- v.list(patience) }()
	g.Eventually(s.struck(fault.Drip), patience).Should(BeNumerically(">", 1))
	g.Expect(v.version(patience)).To(Succeed())
	g.Expect(done).NotTo(Receive())
	s.clear(t)
	g.Eventually(done, patience).Should(Receive(BeNil()))
}

func TestAShareStrikesAPartAndTheSameOneForASeed(t *testing.T) {
	g := NewWithT(t)
	struck := func() (codes []bool) {
		s := start(t)
		v := s.client(t)
		s.set(t, fault.Fault{Kind: fault.Status, Code: 500, Share: 0.3})
		for range 200 {
			codes = append(codes, v.version(patience) != nil)
		}
		return codes
	}
	first := struck()
	count := 0
	for _, s := range first {
		if s {
			count++
		}
	}
	g.Expect(count).To(BeNumerically("~", 60, 25))
	g.Expect(struck()).To(Equal(first))
}

func TestSeveralFaultsAtOnce(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	v := s.client(t)
	s.set(t, fault.Fault{Kind: fault.Latency, Delay: duration(brief)})
	s.set(t, fault.Fault{Kind: fault.Status, Code: 500, Match: fault.Match{UserAgents: []string{"another-client/*"}}})
	s.set(t, fault.Fault{Kind: fault.Status, Code: 503, Match: fault.Match{UserAgents: []string{"visitor/*"}}})
	began := time.Now()
	err := v.version(patience)
	g.Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
	g.Expect(time.Since(began)).To(BeNumerically(">=", brief))
	g.Expect(s.faults.Struck()).To(And(HaveKeyWithValue(fault.Latency, uint64(1)), HaveKeyWithValue(fault.Status, uint64(1))))
}

// struck returns what counts the strikes of a kind.
func (s *server) struck(kind fault.Kind) func() uint64 {
	return func() uint64 { return s.faults.Struck()[kind] }
}

func TestJitterIsDrawnForEachRequest(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	v := s.client(t)
	g.Expect(v.version(patience)).To(Succeed(), "it is connected")
	s.set(t, fault.Fault{Kind: fault.Latency, Jitter: duration(brief)})
	var shortest, longest time.Duration
	for i := range 12 {
		began := time.Now()
		g.Expect(v.version(patience)).To(Succeed())
		took := time.Since(began)
		if i == 0 || took < shortest {
			shortest = took
		}
		longest = max(longest, took)
	}
	// By the seed, the draws lie between these. A busy machine makes answers later, never earlier.
	g.Expect(longest).To(BeNumerically(">=", brief/2))
	g.Expect(longest - shortest).To(BeNumerically(">=", brief/4))
}
