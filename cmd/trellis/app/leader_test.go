package app_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// requests returns what hubs asked of the target since the function was made, but for checks of the connection.
func (e *env) requests() func() []controlplane.AuditEntry {
	e.t.Helper()
	began := time.Now()
	return func() []controlplane.AuditEntry {
		all, err := target.AuditEntries()
		e.Expect(err).NotTo(HaveOccurred())
		return slices.DeleteFunc(all, func(r controlplane.AuditEntry) bool {
			return r.Time.Before(began) || r.UserAgent != "trellis" || r.Resource == "" || r.Name == "kube-system" || r.Resource == "selfsubjectreviews" ||
				r.Resource == "leases" && r.Namespace == "kube-system"
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
		content = append(content, testbed.ConfigMap(e.name, fmt.Sprint("many-", i), "m"))
	}
	content = append(content, testbed.ConfigMap(e.name, "one", "1"))
	e.Expect(source.Client.Update(e.ctx, testbed.Content(e.name, "mr", "objects.yaml", content...))).To(Succeed())
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

	// The Lease is given back: the next leader does not wait for its expiry, which is minutes away.
	e.stop(first)
	e.edit("while no hub leads")
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
	e.edit("no hub leads")
	e.Consistently(e.value, 3*time.Second).Should(Equal("no hub leads"))
	e.Expect(asked()).To(BeEmpty())
	e.Expect(e.holder()).To(Equal("another-client"))

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

// Each open connection has one of these functions running: targets have HTTP/2 by net/http, client-go has its own.
const (
	readsTarget = "net/http.(*http2ClientConn).readLoop"
	readsSource = "golang.org/x/net/http2.(*ClientConn).readLoop"
)

// openSockets returns how many there are to targets and to the source.
func openSockets() (targets, sources int) {
	stacks := make([]byte, 16<<20)
	all := string(stacks[:runtime.Stack(stacks, true)])
	return strings.Count(all, readsTarget+"("), strings.Count(all, readsSource+"(")
}

// dialledSockets counts the open sockets of a hub that was started at a time, when all are dialled: also that of the
// heartbeat, and no other for a second.
func (e *env) dialledSockets(since time.Time) (n int) {
	e.t.Helper()
	e.Eventually(e.renewed).Should(BeTemporally(">", since), "the heartbeat")
	e.Eventually(func() bool {
		before := n
		targets, sources := openSockets()
		n = targets + sources
		return targets > 0 && sources > 0 && n == before
	}).WithPolling(time.Second).Should(BeTrue(), "there are sockets, and no more of them")
	return n
}

func TestTermsLeaveNothingBehind(t *testing.T) {
	e := newEnv(t)
	began := time.Now()
	hub := e.startHub()
	var first goleak.Option
	var sockets int
	for term := range 4 {
		e.expectWork()
		if term == 0 {
			sockets = e.dialledSockets(began)
		}
		e.takeLease()
		e.Eventually(termGoroutines).Should(BeEmpty(), "what is left of term %d", term)
		if term == 0 {
			first = goleak.IgnoreCurrent()
		} else {
			// A term that lost the Lease takes its sockets with it, so there are new ones: no more than in the first term.
			e.Eventually(func() error {
				return goleak.Find(first, goleak.IgnoreAnyFunction(readsTarget), goleak.IgnoreAnyFunction(readsSource))
			}).Should(Succeed(), "what is left after term %d", term)
			e.Eventually(func() int { targets, sources := openSockets(); return targets + sources }).Should(
				BeNumerically("<=", sockets), "after term %d", term)
		}
		e.deleteLease()
	}
	e.expectWork()
	e.stop(hub)
}

func TestSourceThatHangsEndsTheTermAndNotTheHub(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub(impatient)
	e.expectWork()
	t.Cleanup(func() { e.Expect(source.Thaw()).To(Succeed()) })
	e.Expect(source.Freeze()).To(Succeed())
	e.Eventually(termGoroutines).Should(BeEmpty(), "what is left of the term")
	e.edit("no hub leads")
	e.Expect(source.Thaw()).To(Succeed())
	e.Eventually(e.value).Should(Equal("1"))
	e.expectWork()
	e.stop(hub)
}

// slowAnswers holds the answers to writes of a Lease back until the test lets them go.
type slowAnswers struct {
	next    http.RoundTripper
	written func()        // is called after each answer
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
	notify := sync.OnceFunc(func() { close(written) })
	hub := e.startHubWith(testbed.HubOptions{WrapSource: func(next http.RoundTripper) http.RoundTripper {
		return slowAnswers{next: next, written: notify, give: give}
	}}, func(c *configv1alpha1.HubConfiguration) { c.LeaderElection.RenewDeadline.Duration = time.Minute })
	e.Eventually(written).Should(BeClosed())
	e.Expect(e.holder()).NotTo(BeEmpty())
	// The end comes before the answer.
	time.AfterFunc(time.Second, func() { close(give) })
	e.stop(hub)
	e.Expect(e.holder()).To(BeEmpty())
}

// slowTarget holds a write to a target back until the test lets it go, or the hub gives it up.
type slowTarget struct {
	next  http.RoundTripper
	held  func() bool // is called for each write, and returns whether to hold it back
	give  <-chan struct{}
	ended chan<- error
}

func (s slowTarget) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || !s.held() {
		return s.next.RoundTrip(r)
	}
	select {
	case <-s.give:
	case <-r.Context().Done():
		s.ended <- r.Context().Err()
		return nil, r.Context().Err()
	}
	answer, err := s.next.RoundTrip(r)
	s.ended <- err
	return answer, err
}

// TestWriteToATargetIsFinishedAtTheEnd needs the connection to outlive the term.
func TestWriteToATargetIsFinishedAtTheEnd(t *testing.T) {
	e := newEnv(t)
	var hold atomic.Bool
	held, give, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	hub := e.startHubWith(
		testbed.HubOptions{Patience: time.Minute, WrapTarget: func(next http.RoundTripper) http.RoundTripper {
			return slowTarget{next: next, give: give, ended: ended, held: func() bool {
				if !hold.CompareAndSwap(true, false) {
					return false
				}
				close(held)
				return true
			}}
		}})
	e.expectWork()
	hold.Store(true)
	e.Expect(source.Client.Update(e.ctx, testbed.Content(
		e.name, "mr", "objects.yaml", testbed.ConfigMap(e.name, "one", "2")))).To(Succeed())
	e.Eventually(held).Should(BeClosed())
	done := make(chan struct{})
	go func() {
		defer close(done)
		hub.Stop()
	}()
	e.Eventually(hub.Log.String).Should(ContainSubstring("Stopping and waiting for non leader election runnables"))
	e.Consistently(ended, 100*time.Millisecond).ShouldNot(Receive(), "it is not given up at once")
	e.Expect(e.holder()).NotTo(BeEmpty(), "no other hub may lead yet")
	close(give)
	e.Eventually(ended).Should(Receive(BeNil()))
	e.Expect(e.value()).To(Equal("2"))
	e.Eventually(done).Should(BeClosed())
	e.stop(hub)
	e.Expect(e.holder()).To(BeEmpty())
}

// sent is a write and the socket on which it was sent, by its address.
type sent struct{ write, socket string }

// traced records the writes to the source.
type traced struct {
	next   http.RoundTripper
	record func(sent)
}

func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return t.next.RoundTrip(r)
	}
	write := r.Method + " " + r.URL.Path
	return t.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { t.record(sent{write, info.Conn.LocalAddr().String()}) },
	})))
}

// TestTermWritesOverSocketsOfTheFence leaves out what is no work of a term: the Lease itself, Events, and tokens for
// connections.
func TestTermWritesOverSocketsOfTheFence(t *testing.T) {
	e := newEnv(t)
	var mu sync.Mutex
	var written []sent
	others := map[string]bool{}
	hub := e.startHubWith(testbed.HubOptions{
		DialSource: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				others[conn.LocalAddr().String()] = true
			}
			return conn, err
		},
		WrapSource: func(next http.RoundTripper) http.RoundTripper {
			return traced{next: next, record: func(s sent) {
				mu.Lock()
				defer mu.Unlock()
				written = append(written, s)
			}}
		},
	}, quickly)
	e.expectWork()
	work := func() (fenced, unfenced []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range written {
			switch path := strings.TrimSuffix(s.write, "/status"); {
			case strings.HasSuffix(path, "/leases"), strings.HasSuffix(path, "/leases/"+leaseName.Name), strings.Contains(path, "/events"), strings.HasSuffix(path, "/token"):
			case others[s.socket]:
				unfenced = append(unfenced, s.write)
			default:
				fenced = append(fenced, s.write)
			}
		}
		return fenced, unfenced
	}
	e.Eventually(func() []string { fenced, _ := work(); return fenced }).Should(And(
		ContainElement(ContainSubstring("/managedresources/")), ContainElement(ContainSubstring("/targetclusters/"))))
	e.Eventually(func() []string {
		fenced, unfenced := work()
		return append(fenced, unfenced...)
	}).Should(ContainElement(ContainSubstring("/leases/" + leaseName.Name + "-heartbeat")))
	_, unfenced := work()
	e.Expect(unfenced).To(BeEmpty())
	e.stop(hub)
}

func TestSocketsOfALostTermAreNotUsedAgain(t *testing.T) {
	e := newEnv(t)
	s := e.simulate(1)[0]
	s.register("1")
	hub := e.startHub()
	e.expectWork()
	sockets := func() []string {
		var found []string
		for _, c := range s.Journal().History().Changes {
			if c.UserAgent == "trellis" && !slices.Contains(found, c.Connection) {
				found = append(found, c.Connection)
			}
		}
		return found
	}
	s.expectCare("1")
	e.Expect(sockets()).To(HaveLen(1))
	e.takeLease()
	e.Eventually(termGoroutines).Should(BeEmpty())
	e.deleteLease()
	s.expectCare("1")
	e.Expect(sockets()).To(HaveLen(2))
	e.stop(hub)
}
