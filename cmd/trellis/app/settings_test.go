package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// slowLists holds requests for TargetClusters back until the test lets them go.
type slowLists struct {
	next    http.RoundTripper
	asked   func() // is called for each request
	secrets func() // is called when a request for Secrets was answered
	give    <-chan struct{}
}

func (s slowLists) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/targetclusters") {
		s.asked()
		select {
		case <-s.give:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	answer, err := s.next.RoundTrip(r)
	if strings.HasSuffix(r.URL.Path, "/secrets") {
		s.secrets()
	}
	return answer, err
}

// TestSleepingTargetIsLeftAloneThoughTheSourceIsSlow has a source that knows everything but what TargetClusters say.
func TestSleepingTargetIsLeftAloneThoughTheSourceIsSlow(t *testing.T) {
	e := newEnv(t)
	first := e.startHub()
	e.eventuallyReady()
	e.setHibernated(`"true"`)
	e.Eventually(e.mayConnect(first)).Should(BeFalse())
	e.stop(first)

	stopped := time.Now()
	requests := func() []string {
		all, err := target.AuditEntries()
		e.Expect(err).NotTo(HaveOccurred())
		asked := []string{}
		for _, r := range all {
			if r.UserAgent == "trellis" && r.Time.After(stopped) {
				asked = append(asked, r.Verb+" "+r.Resource)
			}
		}
		return asked
	}
	asked, secrets, give := make(chan struct{}), make(chan struct{}), make(chan struct{})
	lists := slowLists{asked: sync.OnceFunc(func() { close(asked) }), secrets: sync.OnceFunc(func() { close(secrets) }), give: give}
	type start struct {
		hub *testbed.Hub
		err error
	}
	started := make(chan start, 1)
	go func() {
		hub, err := testbed.StartHub(e.ctx, source,
			testbed.HubOptions{Config: quickElection, WrapSource: func(next http.RoundTripper) http.RoundTripper {
				slow := lists
				slow.next = next
				return slow
			}})
		started <- start{hub, err}
	}()
	e.Eventually(asked).Should(BeClosed())
	e.Eventually(secrets).Should(BeClosed(), "registrations are known")
	// A hub that did not wait would dial now.
	e.Consistently(requests, 3*time.Second).Should(BeEmpty())
	close(give)
	var second start
	e.Eventually(started).Should(Receive(&second))
	e.Expect(second.err).NotTo(HaveOccurred())
	t.Cleanup(second.hub.Stop)
	e.Eventually(func() string { return second.hub.Log.About(e.name) }).Should(ContainSubstring(`"state"="Hibernated"`))
	e.Expect(requests()).To(BeEmpty())
	e.setHibernated("null")
	e.Eventually(e.mayConnect(second.hub)).Should(BeTrue())
	e.stop(second.hub)
}

// TestOwnLimitsOfATargetReachItsConnection changes them while it is connected.
func TestOwnLimitsOfATargetReachItsConnection(t *testing.T) {
	e := newEnv(t)
	_, port, set := e.ports()
	hub := e.startHub(set, func(c *configv1alpha1.HubConfiguration) {
		c.Server.EnableDebugHandlers, c.TargetClientConnection.MaxInFlight = true, 17
	})
	e.eventuallyReady()
	type connection struct {
		Target              string
		Connection          int64
		MaxRequestsInFlight int
	}
	shown := func() []connection {
		_, body := e.get(port, debugTargets+"?format=json")
		var page struct{ Targets []connection }
		e.Expect(json.Unmarshal([]byte(body), &page)).To(Succeed(), body)
		return page.Targets
	}
	limit := func(own string) {
		tc := &hubv1alpha1.TargetCluster{ObjectMeta: objectMeta(e.name, "target")}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"client":`+own+`}}`))
		e.Expect(source.Client.Patch(e.ctx, tc, patch)).To(Succeed())
	}
	e.Eventually(shown).Should(ContainElement(connection{e.name + "/target", 1, 17}), "the limit of the configuration")
	limit(`{"maxInFlight":3}`)
	e.Eventually(shown).Should(ContainElement(connection{e.name + "/target", 1, 3}), "its own, on the connection that is there")
	limit("null")
	e.Eventually(shown).Should(ContainElement(connection{e.name + "/target", 1, 17}))
	e.expectWork()
	e.stop(hub)
}
