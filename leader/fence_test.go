package leader_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/leader"
)

// answers is a transport that answers.
type answers struct{}

func (answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// ask sends a request through a fence.
func ask(fence *leader.Fence, method, path string) error {
	answer, err := fence.Wrap(answers{}).RoundTrip(httptest.NewRequest(method, path, strings.NewReader("body")))
	if err == nil {
		_ = answer.Body.Close()
	}
	return err
}

func TestWritesAreSentWhileTheLeaseIsHeld(t *testing.T) {
	s := newSource(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s.take(3600)
	r := s.start("first", func(o *leader.Options) { o.Clock = clock })
	fence := r.Fence()
	// Some objects are called as reviews are.
	writes := map[string]string{
		http.MethodPost: "/apis/example.org/v1/codereviews", http.MethodPut: "/api/v1/namespaces/a/configmaps/reviews",
		http.MethodPatch: "/apis/apps/v1/namespaces/a/deployments/reviews", http.MethodDelete: "/api/v1/nodes/a",
	}
	refused := int64(0)
	expect := func(sent bool, when string) {
		t.Helper()
		for method, path := range writes {
			if sent {
				s.Expect(ask(fence, method, path)).To(Succeed(), "%s %s", method, when)
			} else {
				s.Expect(ask(fence, method, path)).To(MatchError(leader.ErrNotLeading), "%s %s", method, when)
				refused++
			}
		}
		s.Expect(fence.Refused()).To(Equal(refused))
		s.Expect(ask(fence, http.MethodGet, "/api/v1/nodes?watch=true")).To(Succeed(), "a read %s", when)
		for _, path := range []string{
			"/apis/authentication.k8s.io/v1/selfsubjectreviews", "/below/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			"/apis/authorization.k8s.io/v1/namespaces/a/localsubjectaccessreviews",
		} {
			s.Expect(ask(fence, http.MethodPost, path)).To(Succeed(), "%s %s", path, when)
		}
	}
	expect(false, "while another leads")
	s.Expect(s.client.CoordinationV1().Leases("default").Delete(t.Context(), "hub", deleteNow)).To(Succeed())
	s.Eventually(r.began).Should(Receive())
	expect(true, "in a term")
	s.expectRenewed()
	// The deadline of renewals is 20 minutes, the Lease lasts for 60.
	clock.SetTime(clock.Now().Add(39 * time.Minute))
	expect(true, "shortly before the fence closes")
	clock.SetTime(clock.Now().Add(2 * time.Minute))
	expect(false, "though the term goes on")
	s.Expect(r.Leading()).To(BeTrue())
	r.stop()
	expect(false, "after the term")
}

// TestWhatIsCalledReviewsIsFenced has objects and kinds whose names look like the reviews that everybody may ask for.
func TestWhatIsCalledReviewsIsFenced(t *testing.T) {
	s := newSource(t)
	s.take(3600)
	r := s.start("first", nil)
	for _, w := range []struct{ method, path string }{
		{http.MethodPatch, "/apis/apps/v1/namespaces/bookinfo/deployments/reviews"},
		{http.MethodDelete, "/api/v1/namespaces/a/configmaps/customer-reviews"},
		{http.MethodPost, "/apis/example.com/v1/namespaces/a/codereviews"},
		{http.MethodDelete, "/apis/example.com/v1/namespaces/a/codereviews"},
		{http.MethodPost, "/apis/example.com/v1/selfsubjectreviews"},
		{http.MethodPut, "/apis/authentication.k8s.io/v1/selfsubjectreviews"},
		{http.MethodPost, "/api/v1/namespaces/authentication.k8s.io/configmaps"},
	} {
		s.Expect(ask(r.Fence(), w.method, w.path)).To(MatchError(leader.ErrNotLeading), "%s %s", w.method, w.path)
	}
}

// TestNothingIsWrittenAfterATermWhoseLeaseWouldLastOn ends a term in order.
func TestNothingIsWrittenAfterATermWhoseLeaseWouldLastOn(t *testing.T) {
	s := newSource(t)
	r := s.start("first", nil)
	s.Eventually(r.began).Should(Receive())
	s.Expect(ask(r.Fence(), http.MethodPost, "/api/v1/namespaces")).To(Succeed())
	r.stop()
	s.Expect(ask(r.Fence(), http.MethodPost, "/api/v1/namespaces")).To(MatchError(leader.ErrNotLeading))
}

func TestRenewalsKeepTheFenceOpen(t *testing.T) {
	s := newSource(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := s.start("first", func(o *leader.Options) {
		o.Clock, o.Config.RetryPeriod.Duration = clock, 100*time.Millisecond
	})
	s.Eventually(r.began).Should(Receive())
	clock.SetTime(clock.Now().Add(2 * time.Hour))
	s.Eventually(func() error { return ask(r.Fence(), http.MethodPost, "/api/v1/namespaces") }).Should(Succeed())
}

func TestHubWithoutALeaseIsNotFenced(t *testing.T) {
	s := newSource(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := s.start("first", func(o *leader.Options) { o.Clock, o.Config.LeaderElect = clock, ptr.To(false) })
	s.Eventually(r.began).Should(Receive())
	clock.SetTime(clock.Now().Add(1000 * time.Hour))
	s.Expect(ask(r.Fence(), http.MethodPost, "/api/v1/namespaces")).To(Succeed())
	r.stop()
	s.Expect(ask(r.Fence(), http.MethodPost, "/api/v1/namespaces")).To(MatchError(leader.ErrNotLeading), "after its end")
}
