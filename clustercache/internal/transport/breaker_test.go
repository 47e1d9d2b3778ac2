package transport

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

var errReset = errors.New("reset")

// answerer answers in the place of a target.
type answerer func(request *http.Request) (*http.Response, error)

func (a answerer) RoundTrip(request *http.Request) (*http.Response, error) { return a(request) }

// code is an answer without a body.
func code(status int) (*http.Response, error) {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: http.NoBody}, nil
}

// guarded is the transport that callers use, with a target whose answers the test sets.
type guarded struct {
	guard
	answer   answerer
	throttle *Throttle
	opened   atomic.Int32
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{}
	g.throttle = NewThrottle(-1, 0, 10, 30*time.Second, func() {
		g.throttle.Paused() // may be asked
		g.opened.Add(1)
	})
	throttle := &atomic.Pointer[Throttle]{}
	throttle.Store(g.throttle)
	g.guard = guard{
		next: answerer(func(request *http.Request) (*http.Response, error) { return g.answer(request) }),
		host: "target", ctx: t.Context(), gate: &Gate{}, throttle: throttle, suspect: func() {}, meter: NewMeter(&Total{}),
		fenced: func(error) bool { return false },
	}
	return g
}

// get calls a path and reads the answer.
func (g *guarded) get(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://target"+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := g.RoundTrip(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

const configMap = "/api/v1/namespaces/default/configmaps/one"

// One server that the target asks for a group is down, all the rest is well.
func TestGroupThatIsNotServedBreaksNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		busy bool
	}{
		"the core":                           {configMap, true},
		"a group of the target itself":       {"/apis/apps/v1/namespaces/default/deployments/one", true},
		"such a one with a dot":              {"/apis/rbac.authorization.k8s.io/v1/clusterroles/one", true},
		"the core, behind a proxy":           {"/clusters/one" + configMap, true},
		"a group of another server":          {"/apis/metrics.k8s.io/v1beta1/nodes/one", false},
		"such a one, behind a proxy":         {"/clusters/one/apis/metrics.k8s.io/v1beta1/nodes/one", false},
		"a group of a custom resource":       {"/apis/example.org/v1/namespaces/default/things/one", false},
		"the versions of such a group":       {"/apis/example.org", false},
		"the groups, which it serves itself": {"/apis", true},
	} {
		for _, status := range []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
			t.Run(name+", "+http.StatusText(status), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					expect, g := NewWithT(t), newGuarded(t)
					g.answer = func(request *http.Request) (*http.Response, error) {
						if request.URL.Path == c.path {
							return code(status)
						}
						return code(http.StatusOK)
					}
					for range 20 {
						time.Sleep(time.Second)
						_ = g.get(t.Context(), c.path)
					}
					err := g.get(t.Context(), "/version")
					if c.busy {
						expect.Expect(err).To(MatchError(ErrBusy))
					} else {
						expect.Expect(err).NotTo(HaveOccurred())
						expect.Expect(g.opened.Load()).To(BeZero())
					}
				})
			})
		}
	}
}

// A trial is inconclusive if its caller ends it, or if another server serves its group: then the next call is the
// trial, and calls are not refused for twice as long.
func TestInconclusiveTrial(t *testing.T) {
	for name, c := range map[string]struct {
		path   string
		answer func(cancel func()) answerer
	}{
		"its caller ends it": {configMap, func(cancel func()) answerer {
			return func(request *http.Request) (*http.Response, error) {
				cancel()
				return nil, request.Context().Err()
			}
		}},
		"its group is of another server": {"/apis/metrics.k8s.io/v1beta1/nodes/one", func(func()) answerer {
			return func(*http.Request) (*http.Response, error) { return code(http.StatusServiceUnavailable) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				expect, g := NewWithT(t), newGuarded(t)
				g.answer = func(*http.Request) (*http.Response, error) { return nil, errReset }
				for range failedMost {
					time.Sleep(time.Second)
					expect.Expect(g.get(t.Context(), configMap)).To(MatchError(errReset))
				}
				expect.Expect(g.get(t.Context(), configMap)).To(MatchError(ErrBusy))
				expect.Expect(g.opened.Load()).To(BeEquivalentTo(1))

				time.Sleep(breakMin)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				g.answer = c.answer(cancel)
				err := g.get(ctx, c.path)
				expect.Expect(errors.Is(err, ErrBusy)).To(BeFalse(), "it is the trial")
				expect.Expect(g.opened.Load()).To(BeEquivalentTo(1))

				g.answer = func(*http.Request) (*http.Response, error) { return code(http.StatusOK) }
				expect.Expect(g.get(t.Context(), configMap)).To(Succeed(), "the next one is the trial now")
				expect.Expect(g.get(t.Context(), configMap)).To(Succeed(), "and has ended it")
			})
		})
	}
}

// After a trial that fails, calls are refused for twice as long. The callback that reports it may call the throttle.
func TestTrialThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expect, g := NewWithT(t), newGuarded(t)
		g.answer = func(*http.Request) (*http.Response, error) { return nil, errReset }
		for range failedMost {
			time.Sleep(time.Second)
			expect.Expect(g.get(t.Context(), configMap)).To(MatchError(errReset))
		}
		time.Sleep(breakMin)
		expect.Expect(g.get(t.Context(), configMap)).To(MatchError(errReset))
		expect.Expect(g.opened.Load()).To(BeEquivalentTo(2))
		time.Sleep(breakMin)
		expect.Expect(g.get(t.Context(), configMap)).To(MatchError(ErrBusy))
		time.Sleep(breakMin)
		expect.Expect(g.get(t.Context(), configMap)).To(MatchError(errReset))
	})
}
