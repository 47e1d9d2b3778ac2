package server_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trellis-hub/trellis/metrics"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/routes"
	"github.com/trellis-hub/trellis/webhooks/server"
)

// extra is something that is no webhook.
type extra struct{}

func (extra) ServeTarget(w http.ResponseWriter, r *http.Request, caller server.Caller) {
	if body, _ := io.ReadAll(r.Body); string(body) == "panic" {
		panic("as requested")
	}
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprint(w, metrics.TargetName(caller.Target), " ", caller.Certified)
}

// hang has requests of A hang until the returned function is called. began gets one for each.
func (b *bench) hang() (began chan struct{}, end func()) {
	began, ended := make(chan struct{}, 1000), make(chan struct{})
	b.does(func(_ context.Context, r *admission.Request) (admission.Response, error) {
		if r.Target == keyA {
			began <- struct{}{}
			<-ended
		}
		return admission.Response{}, nil
	})
	return began, sync.OnceFunc(func() { close(ended) })
}

// HUB-15, HUB-16: what one target takes is not taken from others.
func TestATargetThatHangs(t *testing.T) {
	b := newBench(t, func(o *server.Options) { o.Limits.TargetInFlight, o.Limits.InFlight = 3, 5 })
	began, end := b.hang()
	defer end()
	var work sync.WaitGroup
	for range 3 {
		work.Go(func() { _, _ = b.try(b.client, fails, review("v1", "{}")) })
	}
	for range 3 {
		b.Eventually(began).Should(Receive())
	}
	refused := b.post(fails, review("v1", "{}"), func(*http.Request) {})
	b.Expect(refused).To(HaveField("Status", 429))
	for range 20 {
		b.Expect(b.post(path(keyB, "uid-b", false), review("v1", "{}"))).To(allows)
	}
	b.Expect(b.server.Ready(nil)).To(Succeed())
	end()
	work.Wait()
	b.Expect(b.post(fails, review("v1", "{}"))).To(allows)
}

func TestALimitOfAll(t *testing.T) {
	b := newBench(t, func(o *server.Options) { o.Limits.TargetInFlight, o.Limits.InFlight = 3, 3 })
	began, end := b.hang()
	defer end()
	var work sync.WaitGroup
	for range 3 {
		work.Go(func() { _, _ = b.try(b.client, fails, review("v1", "{}")) })
	}
	for range 3 {
		b.Eventually(began).Should(Receive())
	}
	b.Expect(b.post(path(keyB, "uid-b", false), review("v1", "{}"))).To(HaveField("Status", 503))
	end()
	work.Wait()
}

func TestRatesOfTargets(t *testing.T) {
	b := newBench(t, func(o *server.Options) { o.Limits.TargetQPS, o.Limits.TargetBurst = 1e-6, 2 })
	for range 2 {
		b.Expect(b.post(fails, review("v1", "{}"))).To(allows)
	}
	b.Expect(b.post(fails, review("v1", "{}"))).To(HaveField("Status", 429))
	b.Expect(b.post(path(keyB, "uid-b", false), review("v1", "{}"))).To(allows)
}

// HUB-30: bodies of one target do not take the memory that others need.
func TestBodiesOfATarget(t *testing.T) {
	b := newBench(t, func(o *server.Options) { o.Limits.TargetBytes, o.Limits.Bytes = 1<<20, 3<<20 })
	large := review("v1", `"`+strings.Repeat("x", 1<<20)+`"`)
	b.Expect(b.post(fails, large)).To(HaveField("Status", 429))
	b.Expect(b.post(fails, "garbage")).To(refuses(400, ""))
	b.Expect(b.post(fails, review("v1", "{}"), func(r *http.Request) { r.ContentLength = -1 })).To(
		HaveField("Status", 429), "one that does not say how large it is counts as the largest")
	b.Expect(b.post(path(keyB, "uid-b", false), review("v1", "{}"))).To(allows)
}

// HUB-30: nor the processors, which large bodies take as well.
func TestBytesOfATargetInASecond(t *testing.T) {
	b := newBench(t, func(o *server.Options) { o.Limits.TargetRate, o.Limits.TargetBytes = 1, 3<<20 })
	large := review("v1", `"`+strings.Repeat("x", 1<<20)+`"`)
	for range 2 {
		b.Expect(b.post(fails, large)).To(allows)
	}
	b.Expect(b.post(fails, large)).To(HaveField("Status", 429))
	b.Expect(b.post(path(keyB, "uid-b", false), large)).To(allows)
	b.Expect(b.post(fails, review("v1", "{}"))).To(allows, "there is room for a small one")
}

// helpOfRequests is the line of the help of a metric.
const helpOfRequests = "# HELP trellis_webhook_requests_total Webhook requests of targets, by webhook and result. " +
	"Requests with a path that the hub did not create have an empty webhook."

// HUB-29.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	taken, err := server.NewMetrics(registry)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	b := newBench(t, func(o *server.Options) { o.Metrics = taken })
	b.post(fails, review("v1", "{}"))
	b.does(func(context.Context, *admission.Request) (admission.Response, error) { panic("once") })
	b.post(ignores, review("v1", "{}"))
	b.post("/", "")
	b.Expect(testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP trellis_target_webhook_requests_refused_total Webhook requests of the target's API server that were refused because there were too many.
# TYPE trellis_target_webhook_requests_refused_total counter
trellis_target_webhook_requests_refused_total{target="one/a"} 0
# HELP trellis_target_webhook_requests_total Webhook requests of the target's API server to this replica.
# TYPE trellis_target_webhook_requests_total counter
trellis_target_webhook_requests_total{target="one/a"} 2
# HELP trellis_webhook_requests_in_flight Webhook requests in flight.
# TYPE trellis_webhook_requests_in_flight gauge
trellis_webhook_requests_in_flight 0
`+helpOfRequests+`
# TYPE trellis_webhook_requests_total counter
trellis_webhook_requests_total{result="forged",webhook=""} 1
trellis_webhook_requests_total{result="panic",webhook="test"} 1
trellis_webhook_requests_total{result="unchanged",webhook="test"} 1
`), "trellis_webhook_requests_total", "trellis_webhook_requests_in_flight", "trellis_target_webhook_requests_total",
		"trellis_target_webhook_requests_refused_total")).To(Succeed())
}

// A replica that ends serves all that comes, and answers what it has begun.
func TestTheEnd(t *testing.T) {
	b := newBench(t, nil)
	b.Expect(b.server.Ready(nil)).To(Succeed())
	ready := routes.Route{Target: keyA, UID: "uid-a", Webhook: server.ReadyPath}.Path(key)
	get := func(r *http.Request) { r.Method = http.MethodGet }
	b.Expect(b.post(ready, "", get)).To(HaveField("Status", 200))
	another := routes.Route{Target: keyA, UID: "uid-c", Webhook: server.ReadyPath}.Path(key)
	b.Expect(b.post(another, "", get)).To(HaveField("Status", 404))
	reached := routes.Route{Target: keyA, UID: "uid-a", Webhook: server.ReachedPath}.Path(key)
	b.Expect(b.post(reached, review("v1", "{}"))).To(refuses(403, server.ReachedMessage))
	began, end := b.hang()
	answered := make(chan answer, 1)
	go func() {
		a, _ := b.try(b.client, fails, review("v1", "{}"))
		answered <- a
	}()
	b.Eventually(began).Should(Receive())
	ended := make(chan error, 1)
	go func() { ended <- b.stop() }()
	b.Eventually(func() error { return b.server.Ready(nil) }).Should(HaveOccurred())
	b.Consistently(ended, "50ms").ShouldNot(Receive())
	end()
	b.Eventually(answered).Should(Receive(allows))
	b.Eventually(ended).Should(Receive(BeNil()))
}

// HUB-20: a replica that announces its end answers each call, and has the caller open its next connection
// to another replica.
func TestConnectionsOfAReplicaThatEnds(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Now())
			b := newBench(t, func(o *server.Options) { o.Clock, o.Notice = clock, time.Minute })
			transport := &http.Transport{
				TLSClientConfig:   &tls.Config{RootCAs: b.roots, ServerName: "hub.example.org"},
				ForceAttemptHTTP2: protocol == "h2",
			}
			t.Cleanup(transport.CloseIdleConnections)
			caller := &http.Client{Transport: transport}
			reused := func() (is bool) {
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					GotConn: func(info httptrace.GotConnInfo) { is = info.Reused },
				})
				a, err := b.try(caller, fails, review("v1", "{}"), func(r *http.Request) { *r = *r.WithContext(ctx) })
				b.Expect(err).NotTo(HaveOccurred())
				b.Expect(a).To(allows)
				return is
			}
			reused()
			b.Eventually(reused).Should(BeTrue())
			ended := make(chan error, 1)
			go func() { ended <- b.stop() }()
			b.Eventually(func() error { return b.server.Ready(nil) }).Should(HaveOccurred())
			reused() // the last request of the connection that there was
			b.Eventually(reused).Should(BeFalse())
			b.Eventually(clock.HasWaiters).Should(BeTrue())
			b.Eventually(func() chan error { clock.Step(time.Minute); return ended }).Should(Receive(BeNil()))
		})
	}
}

// A caller that does not read the answer occupies one of the places only until its time is over.
func TestACallerThatReadsNoAnswer(t *testing.T) {
	b := newBench(t, func(o *server.Options) {
		o.Limits.TargetInFlight, o.Limits.Timeout = 1, 250*time.Millisecond
	})
	patch := []byte(`["` + strings.Repeat("x", 32<<20) + `"]`)
	began := make(chan struct{}, 1)
	b.does(func(context.Context, *admission.Request) (admission.Response, error) {
		began <- struct{}{}
		return admission.Response{Patch: patch}, nil
	})
	connection, err := tls.Dial("tcp", b.server.Addr().String(), &tls.Config{
		RootCAs: b.roots, ServerName: "hub.example.org", NextProtos: []string{"http/1.1"},
	})
	b.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = connection.Close() }()
	body := review("v1", "{}")
	_, err = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", fails, len(body), body)
	b.Expect(err).NotTo(HaveOccurred())
	b.Eventually(began, "1m").Should(Receive())
	b.does(returns(admission.Response{}, nil))
	b.Eventually(func() answer { return b.post(fails, review("v1", "{}")) }, "1m").Should(allows)
}
