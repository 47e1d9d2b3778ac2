package leader_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/leader"
)

// disturbed is access to the source by which calls about the Lease that the test chooses do not come through.
type disturbed struct {
	next http.RoundTripper
	// what to do with a call: nil lets it through, else it is called instead of it.
	instead *atomic.Pointer[func(r *http.Request, body string) bool]
}

func (d disturbed) RoundTrip(r *http.Request) (*http.Response, error) {
	content := []byte{}
	if r.Body != nil {
		var err error
		if content, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(content))
	}
	if instead := d.instead.Load(); instead != nil && (*instead)(r, string(content)) {
		return nil, errors.New("disturbed")
	}
	return d.next.RoundTrip(r)
}

// disturb returns access to the source, and what decides which calls fail from then on.
func (s *source) disturb() (config *rest.Config, fail func(which func(r *http.Request, body string) bool)) {
	instead := &atomic.Pointer[func(*http.Request, string) bool]{}
	config = rest.CopyConfig(s.config)
	// JSON can be looked at.
	config.ContentType = "application/json"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return disturbed{next: next, instead: instead} })
	return config, func(which func(*http.Request, string) bool) { instead.Store(&which) }
}

// slow sets a term that reports when it should end, and ends when the test closes ended.
func slow(o *leader.Options, reported chan<- struct{}, ended <-chan struct{}) {
	o.Term = func(ctx context.Context) error {
		<-ctx.Done()
		reported <- struct{}{}
		<-ended
		return nil
	}
}

// TestTermEndsInTimeThoughTheSourceHangs has a call to the source that returns no sooner than the test says, long after
// its timeout.
func TestTermEndsInTimeThoughTheSourceHangs(t *testing.T) {
	s := newSource(t)
	config, fail := s.disturb()
	r := s.start("first", func(o *leader.Options) {
		o.Source = config
		o.Config.RenewDeadline.Duration, o.Config.RetryPeriod.Duration = 2*time.Second, 200*time.Millisecond
	})
	s.Eventually(r.began).Should(Receive())
	answer := make(chan struct{})
	hangs := make(chan struct{}, 100)
	fail(func(*http.Request, string) bool {
		hangs <- struct{}{}
		<-answer
		return true
	})
	defer close(answer)
	s.Eventually(hangs).Should(Receive())
	s.Eventually(r.ended).Should(Receive(), "while the call hangs")
	s.Eventually(r.Leading).Should(BeFalse())
}

// TestLeaseIsKeptForATermThatWasNotRenewed has a source that takes no renewals, but would take the Lease back.
func TestLeaseIsKeptForATermThatWasNotRenewed(t *testing.T) {
	s := newSource(t)
	config, fail := s.disturb()
	reported, ended := make(chan struct{}, 10), make(chan struct{})
	r := s.start("first", func(o *leader.Options) {
		o.Source = config
		o.Config.RenewDeadline.Duration, o.Config.RetryPeriod.Duration = 2*time.Second, 200*time.Millisecond
		slow(o, reported, ended)
	})
	s.Eventually(r.Leading).Should(BeTrue())
	given := make(chan struct{}, 10)
	fail(func(r *http.Request, body string) bool {
		if r.Method != http.MethodPut {
			return false
		}
		renewal := strings.Contains(body, `"holderIdentity":"first"`)
		if !renewal {
			given <- struct{}{}
		}
		return renewal
	})
	s.Eventually(reported).Should(Receive())
	s.Consistently(given, 3*time.Second).ShouldNot(Receive())
	s.Expect(r.Leading()).To(BeTrue())
	s.Expect(s.holder()).To(Equal("first"))
	close(ended)
	s.Eventually(given).Should(Receive())
}

func TestFenceClosesWhenAnotherReplicaHoldsTheLease(t *testing.T) {
	s := newSource(t)
	reported, ended := make(chan struct{}, 10), make(chan struct{})
	r := s.start("first", func(o *leader.Options) {
		o.Config.RetryPeriod.Duration = 200 * time.Millisecond
		slow(o, reported, ended)
	})
	defer close(ended)
	write := func() error { return ask(r.Fence(), http.MethodPost, "/api/v1/namespaces") }
	s.Eventually(write).Should(Succeed())
	s.take(3600)
	s.Eventually(reported).Should(Receive())
	s.Eventually(write).Should(MatchError(leader.ErrNotLeading))
	s.Expect(r.Leading()).To(BeTrue(), "the term has not ended yet")
}

// TestFenceClosesWhileTheLeaseIsFree has a source that does not let it be taken again.
func TestFenceClosesWhileTheLeaseIsFree(t *testing.T) {
	for name, free := range map[string]func(*source){
		"gone": func(s *source) {
			s.Expect(s.client.CoordinationV1().Leases("default").Delete(s.t.Context(), "hub", deleteNow)).To(Succeed())
		},
		"without a holder": func(s *source) {
			s.Eventually(func() error { // a renewal may be under way
				lease := s.lease()
				lease.Spec.HolderIdentity = nil
				_, err := s.client.CoordinationV1().Leases("default").Update(s.t.Context(), lease, metav1.UpdateOptions{})
				return err
			}).Should(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			config, fail := s.disturb()
			r := s.start("first", func(o *leader.Options) {
				o.Source = config
				o.Config.RetryPeriod.Duration = 200 * time.Millisecond
			})
			write := func() error { return ask(r.Fence(), http.MethodPost, "/api/v1/namespaces") }
			s.Eventually(write).Should(Succeed())
			fail(func(r *http.Request, _ string) bool { return r.Method != http.MethodGet })
			free(s)
			s.Eventually(write).Should(MatchError(leader.ErrNotLeading))
			s.Expect(r.Leading()).To(BeTrue())
			fail(func(*http.Request, string) bool { return false })
			s.Eventually(write).Should(Succeed(), "the Lease was taken again")
		})
	}
}

// server is a transport that holds each write until the test has it answered, or its context ends.
type server struct {
	got    chan struct{}
	answer chan struct{}
}

func (a server) RoundTrip(r *http.Request) (*http.Response, error) {
	a.got <- struct{}{}
	select {
	case <-a.answer:
		return answers{}.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// writing starts an election whose term makes one write, and returns what came of it.
func (s *source) writing(target server, limit func(context.Context) (context.Context, context.CancelFunc), changes ...func(*leader.Options)) (*replica, <-chan error) {
	result := make(chan error, 1)
	var r *replica
	ready := make(chan struct{})
	r = s.start("first", func(o *leader.Options) {
		o.Term = func(ctx context.Context) error {
			<-ready
			limited, cancel := limit(ctx)
			defer cancel()
			request, err := http.NewRequestWithContext(limited, http.MethodPatch, "http://target/api/v1/nodes/a", strings.NewReader("body"))
			if err != nil {
				return err
			}
			answer, err := r.Fence().Wrap(target).RoundTrip(request)
			if err == nil {
				_ = answer.Body.Close()
			}
			result <- err
			<-ctx.Done() // else there would be another term
			return nil
		}
		for _, change := range changes {
			change(o)
		}
	})
	close(ready)
	s.Eventually(target.got).Should(Receive())
	return r, result
}

func TestWriteUnderWayIsFinishedBeforeTheLeaseIsGivenBack(t *testing.T) {
	s := newSource(t)
	target := server{got: make(chan struct{}, 1), answer: make(chan struct{})}
	r, result := s.writing(target, context.WithCancel, func(o *leader.Options) { o.Patience = time.Minute })
	r.end()
	s.Consistently(s.holder, 100*time.Millisecond).Should(Equal("first"))
	s.Expect(result).NotTo(Receive())
	close(target.answer)
	s.Eventually(result).Should(Receive(BeNil()))
	s.Eventually(s.holder).Should(BeEmpty())
}

func TestWriteThatIsNotFinishedIsGivenUp(t *testing.T) {
	s := newSource(t)
	r, result := s.writing(server{got: make(chan struct{}, 1)}, context.WithCancel)
	r.stop()
	s.Expect(result).To(Receive(MatchError(context.Canceled)))
	s.Expect(s.holder()).To(BeEmpty())
}

func TestNoWriteBeginsOnceTheTermShouldEnd(t *testing.T) {
	s := newSource(t)
	r := s.start("first", nil)
	s.Eventually(r.began).Should(Receive())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, "http://target/api/v1/nodes/a", strings.NewReader("body"))
	s.Expect(err).NotTo(HaveOccurred())
	got := make(chan struct{}, 1)
	answer, err := r.Fence().Wrap(server{got: got}).RoundTrip(request)
	if err == nil {
		_ = answer.Body.Close()
	}
	s.Expect(err).To(MatchError(context.Canceled))
	s.Expect(got).NotTo(Receive())
}
