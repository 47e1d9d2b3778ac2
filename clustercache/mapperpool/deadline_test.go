package mapperpool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

// A caller that asks for the kinds of many objects gets the error of one failed refresh for all of them, until as much
// time has passed as the refresh took.
func TestAFailedRefreshIsRememberedForAWhile(t *testing.T) {
	for _, takes := range []time.Duration{time.Second, 9 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			g := NewWithT(t)
			clock := clocktesting.NewFakePassiveClock(time.Now())
			s := newServer(t, "Foo")
			m := mapperOf(New(Options{Clock: clock}), s)
			_, err := m.RESTMapping(kind("Foo"))
			g.Expect(err).NotTo(HaveOccurred())

			before, _ := s.counts()
			s.set(func(s *server) {
				s.status = http.StatusServiceUnavailable
				s.meanwhile = func() { clock.SetTime(clock.Now().Add(takes)) }
			})
			m.Reset()
			for i := range 150 {
				_, err := m.RESTMapping(kind(fmt.Sprint("Kind", i)))
				g.Expect(err).To(MatchError(ContainSubstring("discovery")))
				_, err = m.RESTMapping(kind("Foo"))
				g.Expect(err).To(HaveOccurred(), "Reset has not been answered yet")
				m.Reset()
			}
			requests, _ := s.counts()
			g.Expect(requests-before).To(Equal(1), "one refresh")

			s.set(func(s *server) { s.status, s.meanwhile = 0, nil })
			clock.SetTime(clock.Now().Add(takes - time.Millisecond))
			_, err = m.RESTMapping(kind("Foo"))
			g.Expect(err).To(HaveOccurred())
			clock.SetTime(clock.Now().Add(time.Millisecond))
			_, err = m.RESTMapping(kind("Foo"))
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

func TestRefreshDoesNotCareAboutFormerFailures(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t, "Foo")
	m := mapperOf(New(Options{Clock: clocktesting.NewFakePassiveClock(time.Now())}), s)
	s.set(func(s *server) { s.status = http.StatusServiceUnavailable })
	g.Expect(m.Refresh(t.Context())).NotTo(Succeed())
	s.set(func(s *server) { s.status = 0 })
	g.Expect(m.Refresh(t.Context())).To(Succeed())
}

// A lookup ends with the context of its caller, and the refresh continues for other callers.
func TestALookupEndsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t, "Foo")
	s.set(func(s *server) { s.hang = true })
	connection, disconnect := context.WithCancel(t.Context())
	defer disconnect()
	m := mapperOf(New(Options{Timeout: time.Hour}), s)
	m.ctx = connection

	over := errors.New("the run is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	outcome := make(chan error, 1)
	go func() {
		_, err := m.RESTMappingWithContext(ctx, kind("Foo"))
		outcome <- err
	}()
	g.Eventually(func() int { n, _ := s.counts(); return n }, 2*time.Minute).Should(Equal(1))
	cancel(over)
	g.Eventually(outcome, 2*time.Minute).Should(Receive(MatchError(over)))
}
