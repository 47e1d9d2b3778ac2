package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	testclock "k8s.io/utils/clock/testing"
)

// tokenReviews answers by the token.
type tokenReviews struct {
	authenticationclient.TokenReviewInterface
	review func(ctx context.Context, token string) (bool, error)
}

func (r tokenReviews) Create(ctx context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (
	*authenticationv1.TokenReview, error) {
	var err error
	review.Status.Authenticated, err = r.review(ctx, review.Spec.Token)
	return review, err
}

// accessReviews allows everything.
type accessReviews struct {
	authorizationclient.SubjectAccessReviewInterface
}

func (accessReviews) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (
	*authorizationv1.SubjectAccessReview, error) {
	review.Status.Allowed = true
	return review, nil
}

// scraping returns a function that requests metrics with a token. review stands for the source cluster.
func scraping(review func(ctx context.Context, token string) (bool, error)) (
	scrape func(token string) int, r *readers, now *testclock.FakePassiveClock) {
	now = testclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	r = newReaders(tokenReviews{review: review}, accessReviews{}, now)
	return func(token string) int {
		request := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
		request.Header.Set("Authorization", "Bearer "+token)
		return r.judge(request, logr.Discard())
	}, r, now
}

// Any client may send any number of invalid tokens. Admissions are not evicted because of that.
func TestInvalidTokensEvictNoReaders(t *testing.T) {
	g := NewWithT(t)
	asked := map[string]int{}
	scrape, r, now := scraping(func(_ context.Context, token string) (bool, error) {
		asked[token]++
		return token == "prometheus", nil
	})
	g.Expect(scrape("prometheus")).To(Equal(http.StatusOK))
	for i := range 2 * rememberMost {
		g.Expect(scrape(fmt.Sprint("invalid ", i))).To(Equal(http.StatusUnauthorized))
	}
	g.Expect(scrape("prometheus")).To(Equal(http.StatusOK))
	g.Expect(asked).To(HaveKeyWithValue("prometheus", 1))
	g.Expect(r.refused.Keys()).To(HaveLen(rememberMost))
	g.Expect(r.admitted.Keys()).To(HaveLen(1))

	last := fmt.Sprint("invalid ", 2*rememberMost-1)
	g.Expect(scrape(last)).To(Equal(http.StatusUnauthorized))
	g.Expect(asked).To(HaveKeyWithValue(last, 1), "a refusal is remembered, too")
	now.SetTime(now.Now().Add(rememberFor))
	g.Expect(scrape("prometheus")).To(Equal(http.StatusOK))
	g.Expect(asked).To(HaveKeyWithValue("prometheus", 2), "an admission does not count for longer")
}

// Questions about invalid tokens may take long. Those about clients that were admitted before do not wait for them.
func TestReadersDoNotWaitForInvalidTokens(t *testing.T) {
	g := NewWithT(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	scrape, _, now := scraping(func(_ context.Context, token string) (bool, error) {
		if token == "prometheus" {
			return true, nil
		}
		asked <- struct{}{}
		<-answer
		return false, nil
	})
	g.Expect(scrape("prometheus")).To(Equal(http.StatusOK))
	codes := make(chan int, askAtOnce)
	for i := range askAtOnce {
		go func() { codes <- scrape(fmt.Sprint("invalid ", i)) }()
		<-asked
	}
	g.Expect(scrape("another one")).To(Equal(http.StatusTooManyRequests))
	now.SetTime(now.Now().Add(rememberFor))
	g.Expect(scrape("prometheus")).To(Equal(http.StatusOK))
	close(answer)
	for range askAtOnce {
		g.Expect(<-codes).To(Equal(http.StatusUnauthorized))
	}
}

// An account that may not read metrics any longer is refused when its admission does not count any longer. Nor is a
// client admitted while the source cluster does not answer.
func TestReadersAreAskedAboutAgain(t *testing.T) {
	g := NewWithT(t)
	authenticated, err := true, error(nil)
	scrape, r, now := scraping(func(ctx context.Context, _ string) (bool, error) {
		_, hasDeadline := ctx.Deadline()
		g.Expect(hasDeadline).To(BeTrue())
		return authenticated, err
	})
	g.Expect(scrape("prometheus")).To(Equal(http.StatusOK))
	now.SetTime(now.Now().Add(rememberFor))
	err = errors.New("no answer")
	g.Expect(scrape("prometheus")).To(Equal(http.StatusInternalServerError))
	err, authenticated = nil, false
	g.Expect(scrape("prometheus")).To(Equal(http.StatusUnauthorized))
	g.Expect(r.admitted.Keys()).To(BeEmpty())
	authenticated = true
	g.Expect(scrape("prometheus")).To(Equal(http.StatusUnauthorized), "a refusal counts for a while")
	now.SetTime(now.Now().Add(refuseFor + time.Second))
	g.Expect(scrape("prometheus")).To(Equal(http.StatusOK))
}
