package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// requests returns what hubs asked of the target since the function was made, but for checks of the connection.
func (e *env) requests() func() []controlplane.AuditEntry {
	e.t.Helper()
	before, err := target.AuditEntries()
	e.Expect(err).NotTo(HaveOccurred())
	return func() []controlplane.AuditEntry {
		all, err := target.AuditEntries()
		e.Expect(err).NotTo(HaveOccurred())
		return slices.DeleteFunc(all[len(before):], func(r controlplane.AuditEntry) bool {
			return r.UserAgent != "trellis" || r.Resource == "" || r.Name == "kube-system" || r.Resource == "selfsubjectreviews"
		})
	}
}

// writes are the requests that change an object, as text.
func writes(requests []controlplane.AuditEntry) []string {
	found := []string{}
	for _, r := range requests {
		if r.Verb != "list" && r.Verb != "watch" && r.Verb != "get" {
			found = append(found, r.Verb+" "+r.Name)
		}
	}
	return found
}

func TestOnlyOneOfTwoHubsLeads(t *testing.T) {
	e := newEnv(t)
	first := e.startHub()
	e.Eventually(e.holder).ShouldNot(BeEmpty())
	leader := e.holder()
	e.expectWork()

	asked := e.requests()
	second := e.startHub()
	e.Consistently(e.holder, 2*time.Second).Should(Equal(leader))
	e.Expect(asked()).To(BeEmpty(), "a standby only connects")

	content := []string{}
	for i := range 30 {
		content = append(content, hubtest.ConfigMap(e.name, fmt.Sprint("many-", i), "m"))
	}
	content = append(content, hubtest.ConfigMap(e.name, "one", "1"))
	e.Expect(source.Client.Update(e.ctx, hubtest.Content(e.name, "mr", "objects.yaml", content...))).To(Succeed())
	e.Eventually(func() int { return len(writes(asked())) }).Should(BeNumerically(">=", 30))
	e.eventuallyReady()
	e.edit("drift")
	e.Eventually(e.value).Should(Equal("1"))
	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprint("patch many-", i))
	}
	want = append(want, "patch one") // by the edit; the new content says of it what was applied before
	e.Consistently(func() []string { return writes(asked()) }, 2*time.Second).Should(ConsistOf(want), "each write was made once")

	// The Lease is given back: nobody has to wait for its end, which is minutes away.
	e.stop(first)
	e.edit("while nobody led")
	e.Eventually(e.value).Should(Equal("1"))
	e.Expect(e.holder()).NotTo(BeElementOf("", leader))
	e.stop(second)
	e.Expect(e.holder()).To(BeEmpty())
}

func TestLostLeaseEndsTheTermAndNotTheHub(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub()
	e.expectWork()
	e.Expect(termGoroutines()).NotTo(BeEmpty())

	e.takeLease()
	e.Eventually(termGoroutines).Should(BeEmpty(), "what is left of the term")
	asked := e.requests()
	e.edit("nobody leads")
	e.Consistently(e.value, 3*time.Second).Should(Equal("nobody leads"))
	e.Expect(asked()).To(BeEmpty())
	e.Expect(e.holder()).To(Equal("somebody else"))

	e.deleteLease()
	e.Eventually(e.value).Should(Equal("1"))
	e.expectWork()
	e.Expect(hub.Err()).NotTo(HaveOccurred())
	e.stop(hub)
}

func TestDeletedLeaseIsTakenAgain(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub()
	e.expectWork()
	leader := e.holder()
	e.deleteLease()
	e.Eventually(e.holder).Should(Equal(leader))
	e.expectWork()
	e.stop(hub)
}

func TestTermsLeaveNothingBehind(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub()
	var first goleak.Option
	for term := range 4 {
		e.expectWork()
		e.takeLease()
		e.Eventually(termGoroutines).Should(BeEmpty(), "what is left of term %d", term)
		if term == 0 {
			first = goleak.IgnoreCurrent()
		} else {
			e.Eventually(func() error { return goleak.Find(first) }).Should(Succeed(), "what is left after term %d", term)
		}
		e.deleteLease()
	}
	e.expectWork()
	e.stop(hub)
}

func TestSourceThatHangsEndsTheTermAndNotTheHub(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub()
	e.expectWork()
	t.Cleanup(func() { e.Expect(source.Thaw()).To(Succeed()) })
	e.Expect(source.Freeze()).To(Succeed())
	e.Eventually(termGoroutines).Should(BeEmpty(), "what is left of the term")
	e.edit("nobody leads")
	e.Expect(source.Thaw()).To(Succeed())
	e.Eventually(e.value).Should(Equal("1"))
	e.expectWork()
	e.stop(hub)
}

// slowAnswers holds the answers to writes of a Lease back until the test lets them go.
type slowAnswers struct {
	next    http.RoundTripper
	written func()        // tells of an answer
	give    chan struct{} // lets the answers through when it is closed
}

func (s slowAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.next.RoundTrip(r)
	if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/leases") {
		return answer, err
	}
	s.written()
	select {
	case <-s.give:
		return answer, err
	case <-r.Context().Done():
		if err == nil {
			_ = answer.Body.Close()
		}
		return nil, r.Context().Err()
	}
}

func TestHubThatEndsWhileItTakesTheLeaseGivesItBack(t *testing.T) {
	e := newEnv(t)
	written, give := make(chan struct{}), make(chan struct{})
	tell := sync.OnceFunc(func() { close(written) })
	hub := e.startHubWith(hubtest.HubOptions{WrapSource: func(next http.RoundTripper) http.RoundTripper {
		return slowAnswers{next: next, written: tell, give: give}
	}}, func(c *configv1alpha1.HubConfiguration) { c.LeaderElection.RenewDeadline.Duration = time.Minute })
	e.Eventually(written).Should(BeClosed())
	e.Expect(e.holder()).NotTo(BeEmpty())
	// The end comes before the answer.
	time.AfterFunc(time.Second, func() { close(give) })
	e.stop(hub)
	e.Expect(e.holder()).To(BeEmpty())
}
