package clustercache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// declareConfigMaps declares a watch over the metadata of all ConfigMaps.
func (h *hub) declareConfigMaps(key ClusterKey) *recorder {
	h.t.Helper()
	r := newRecorder()
	h.watch(key, Watcher{Name: "cm", Kind: configMapKind, MetadataOnly: true, Handler: r})
	return r
}

// watchConfigMaps declares one and waits for its initial list.
func (h *hub) watchConfigMaps(key ClusterKey) *recorder {
	h.t.Helper()
	r := h.declareConfigMaps(key)
	h.Eventually(r.syncs).Should(BeNumerically(">=", 1))
	return r
}

func TestTokenIsChangedUnderRunningWatches(t *testing.T) {
	var dials atomic.Int32
	h := start(t, Options{
		Dial: DialOptions{
			WrapConn: func(conn net.Conn) (net.Conn, error) {
				dials.Add(1)
				return conn, nil
			},
		},
	})
	a := newAPIServer(t, newStore("uid-a"))
	a.setTokens(map[string]string{"old": "hub", "new": "hub"})
	key := h.register("a", a.kubeconfig("old"))
	before := h.expectState(key, StateConnected)
	r := h.watchConfigMaps(key)
	held, err := h.cache.GetMetadataClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	watches := a.count("GET /api/v1/configmaps watch")

	h.register("a", a.kubeconfig("new"))
	h.expectEvent(key, EventRotated)
	a.setTokens(map[string]string{"new": "hub"})

	status := h.status(key)
	h.Expect(status.Connection).To(Equal(before.Connection))
	h.Expect(status.SecretResourceVersion).NotTo(Equal(before.SecretResourceVersion))
	h.Expect(status.PendingSecretResourceVersion).To(BeEmpty())
	a.store.put("configmaps", "default", "after", nil)
	h.Eventually(r.names).Should(ConsistOf("after"))
	h.Expect(a.count("GET /api/v1/configmaps watch")).To(Equal(watches), "watches were not restarted")
	h.Expect(r.syncs()).To(Equal(1))
	h.Expect(dials.Load()).To(BeEquivalentTo(1), "a handshake takes longer than all the rest")
	// A client from before sends the new token.
	_, err = held.Resource(configMapResource).Namespace("default").Get(context.Background(), "after", getOptions)
	h.Expect(err).NotTo(HaveOccurred())
	h.Consistently(func() State { return h.state(key) }).Should(Equal(StateConnected))
}

// The old token is void while the new one is being tried.
func TestTokenThatIsChangedLate(t *testing.T) {
	for name, test := range map[string]struct {
		token string
		state State
	}{"and is taken": {"new", StateConnected}, "and is not taken": {"bad", StateDisconnected}} {
		t.Run(name, func(t *testing.T) {
			h := start(t, Options{
				Dial:  DialOptions{ConnectTimeout: patience},
				Probe: ProbeOptions{Interval: 100 * time.Millisecond, Timeout: patience},
			})
			a := newAPIServer(t, newStore("uid-a"))
			a.setTokens(map[string]string{"old": "hub", "new": "hub"})
			key := h.register("a", a.kubeconfig("old"))
			h.expectState(key, StateConnected)
			r := h.watchConfigMaps(key)
			tried, goOn := make(chan struct{}), make(chan struct{})
			var once sync.Once
			a.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") && strings.HasSuffix(r.Header.Get("Authorization"), test.token) {
					once.Do(func() { close(tried) })
					<-goOn
				}
				return false
			})
			h.register("a", a.kubeconfig(test.token))
			h.Eventually(tried).Should(BeClosed())
			a.setTokens(map[string]string{"new": "hub"})
			failures := func() int { return h.cache.GetHealthCheckingState(t.Context(), key).ConsecutiveFailures }
			h.Eventually(failures).Should(BeNumerically(">=", 2))
			h.Expect(h.state(key)).To(Equal(StateConnected), "it may be over in a moment")
			a.setFault(nil)
			close(goOn)
			h.expectState(key, test.state)
			if test.state == StateConnected {
				h.Eventually(failures).Should(BeZero())
				h.Expect(h.status(key).Connection).To(BeEquivalentTo(1))
				h.Expect(r.syncs()).To(Equal(1))
			}
		})
	}
}

func TestBadTokenLeavesTheOldConnectionInPlace(t *testing.T) {
	h := start(t, Options{})
	a := newAPIServer(t, newStore("uid-a"))
	a.setTokens(map[string]string{"old": "hub"})
	key := h.register("a", a.kubeconfig("old"))
	before := h.expectState(key, StateConnected)
	r := h.watchConfigMaps(key)

	h.register("a", a.kubeconfig("bad-token"))
	h.Eventually(func() string { return h.status(key).PendingReason }).Should(Equal(ReasonUnauthorized))
	status := h.status(key)
	h.Expect(status.State).To(Equal(StateConnected))
	h.Expect(status.SecretResourceVersion).To(Equal(before.SecretResourceVersion))
	h.Expect(status.PendingSecretResourceVersion).NotTo(BeEmpty())
	h.Expect(status.PendingMessage).NotTo(ContainSubstring("bad-token"))
	a.store.put("configmaps", "default", "one", nil)
	h.Eventually(r.names).Should(ConsistOf("one"))

	a.setTokens(map[string]string{"old": "hub", "bad-token": "hub"}) // it was early, not bad
	h.Eventually(func() string { return h.status(key).PendingSecretResourceVersion }).Should(BeEmpty())
	h.Expect(r.syncs()).To(Equal(1))
}

func TestBadKubeconfigLeavesTheOldConnectionInPlace(t *testing.T) {
	other := newAPIServer(t, newStore("uid-a"))
	closed := newAPIServer(t, newStore("uid-a"))
	_ = closed.server.Listener.Close()
	for name, test := range map[string]struct {
		content []byte
		reason  string
	}{
		"garbage":        {[]byte("garbage"), ReasonKubeconfigInvalid},
		"empty":          {nil, ReasonSecretInvalid},
		"closed port":    {closed.kubeconfig("x"), ReasonUnreachable},
		"wrong CA":       {kubeconfigOf(other.server.URL, closed.ca, "x"), ReasonUnreachable},
		"http":           {kubeconfigOf(strings.Replace(other.server.URL, "https", "http", 1), nil, "x"), ReasonKubeconfigRefused},
		"no credentials": {other.kubeconfig(""), ReasonKubeconfigInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			h := start(t, Options{Registerer: registry})
			a := newAPIServer(t, newStore("uid-a"))
			key := h.register("a", a.kubeconfig("x"))
			before := h.expectState(key, StateConnected)
			r := h.watchConfigMaps(key)

			h.register("a", test.content)
			h.Eventually(func() string { return h.status(key).PendingReason }).Should(Equal(test.reason))
			h.Expect(h.state(key)).To(Equal(StateConnected))
			h.Expect(h.status(key).Connection).To(Equal(before.Connection))
			h.Expect(h.status(key).PendingMessage).NotTo(BeEmpty())
			h.Expect(series(h, registry)).To(HaveKeyWithValue("trellis_target_rotation_failing", 1))
			a.store.put("configmaps", "default", "one", nil)
			h.Eventually(r.names).Should(ConsistOf("one"))

			h.register("a", a.kubeconfig("x"))
			h.Eventually(func() string { return h.status(key).PendingReason }).Should(BeEmpty())
			h.Expect(h.status(key).Connection).To(Equal(before.Connection))
			h.Expect(r.syncs()).To(Equal(1))
			h.Expect(series(h, registry)).NotTo(HaveKey("trellis_target_rotation_failing"))
		})
	}
}

// What the Secret lacks is why there is no connection any longer, and nothing is done until it changes.
func TestConnectionThatIsLostWhileTheKubeconfigIsBadIsRefused(t *testing.T) {
	h := start(t, Options{})
	a := newAPIServer(t, newStore("uid-a"))
	a.setTokens(map[string]string{"x": "hub"})
	key := h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateConnected)
	h.register("a", []byte("no kubeconfig"))
	h.Eventually(func() string { return h.status(key).PendingReason }).Should(Equal(ReasonKubeconfigInvalid))
	fault := h.status(key).PendingMessage

	a.setTokens(map[string]string{}) // the old token expires
	status := h.expectState(key, StateRefused)
	h.Expect(status.Reason).To(Equal(ReasonKubeconfigInvalid))
	h.Expect(status.Message).To(Equal(fault))
	h.Expect(status.PendingReason).To(BeEmpty())
	h.Expect(status.NextAttempt).To(BeZero())
	h.expectEvent(key, EventDisconnected)

	a.setTokens(map[string]string{"y": "hub"})
	h.register("a", a.kubeconfig("y"))
	h.expectState(key, StateConnected)
}

// Each object changes once, and then either goes or never changes again: whatever is missed shows in the end.
func TestNewServerAndCAWithoutMissedEvents(t *testing.T) {
	h := start(t, Options{Limits: func(ClusterKey) Limits { return Limits{Timeout: time.Second} }})
	s := newStore("uid-a")
	old, next := newAPIServer(t, s), newAPIServer(t, s)
	for i := range 50 {
		s.put("configmaps", "default", fmt.Sprintf("cm-%02d", i), nil)
	}
	key := h.register("a", old.kubeconfig("x"))
	before := h.expectState(key, StateConnected)
	r := h.watchConfigMaps(key)

	stop := make(chan struct{})
	churned := make(chan struct{})
	go func() { // changes, creates and deletes all the time
		defer close(churned)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			s.put("configmaps", "default", fmt.Sprintf("new-%d", i), nil)
			if i > 0 {
				s.put("configmaps", "default", fmt.Sprintf("new-%d", i-1), nil)
			}
			if i > 1 && i%4 != 0 {
				s.delete("configmaps", "default", fmt.Sprintf("new-%d", i-2))
			}
			time.Sleep(time.Millisecond)
		}
	}()
	for range 5 {
		h.register("a", next.kubeconfig("x"))
		h.expectEvent(key, EventRotated)
		old, next = next, old
		_, _, synced := h.lookup(key, "cm", types.NamespacedName{})
		h.Expect(synced).To(BeTrue(), "absence can be relied upon all the time")
	}
	close(stop)
	<-churned
	h.Expect(h.status(key).Connection).To(Equal(before.Connection + 5))

	h.Eventually(func() bool { return maps.Equal(r.versions(), s.versions("configmaps")) }).Should(BeTrue(), "nothing was missed")
	h.Expect(r.faultsNow()).To(BeEmpty())
	h.Expect(r.errors()).To(BeZero())
	h.Expect(r.syncs()).To(Equal(6), "one list for each connection")
	h.Eventually(next.sockets).Should(BeZero(), "the last connection but one is closed after its grace")
}

// A kubeconfig that names the old authority and the new one serves before, while and after the server changes its
// certificate. One that names the wrong one of them does not, and is refused while the other serves.
func TestTwoAuthoritiesWhileTheServerChangesItsCertificate(t *testing.T) {
	h := start(t, Options{})
	a := newAPIServer(t, newStore("uid-a"))
	certificate, authority := newCertificate(t)
	both := slices.Concat(a.ca, authority)
	key := h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateConnected)
	r := h.watchConfigMaps(key)
	h.register("a", kubeconfigOf(a.server.URL, both, "x"))
	h.expectEvent(key, EventRotated)

	a.present(certificate)
	a.cut()
	a.store.put("configmaps", "default", "one", nil)
	h.Eventually(r.names).Should(ConsistOf("one"))
	h.Expect(h.state(key)).To(Equal(StateConnected))
	h.Expect(h.status(key).Connection).To(BeEquivalentTo(2), "the server changed, and not the kubeconfig")

	h.register("a", a.kubeconfig("x"))
	h.Eventually(func() string { return h.status(key).PendingReason }).Should(Equal(ReasonUnreachable))
	h.Expect(h.state(key)).To(Equal(StateConnected))
	h.Expect(h.status(key).Connection).To(BeEquivalentTo(2))

	h.register("a", kubeconfigOf(a.server.URL, authority, "x"))
	h.Eventually(func() int64 { return h.status(key).Connection }).Should(BeEquivalentTo(3))
	h.Expect(h.status(key).PendingReason).To(BeEmpty())
	a.store.put("configmaps", "default", "two", nil)
	h.Eventually(r.names).Should(ConsistOf("one", "two"))
	h.Expect(r.faultsNow()).To(BeEmpty())
}

func TestRotationThatCannotWatchIsRefused(t *testing.T) {
	h := start(t, Options{})
	s := newStore("uid-a")
	old, next := newAPIServer(t, s), newAPIServer(t, s)
	next.setFault(answer(http.StatusForbidden, "/configmaps"))
	key := h.register("a", old.kubeconfig("x"))
	h.expectState(key, StateConnected)
	r := h.watchConfigMaps(key)

	h.register("a", next.kubeconfig("x"))
	h.Eventually(func() string { return h.status(key).PendingReason }).Should(Equal(ReasonForbidden))
	h.Expect(h.status(key).PendingMessage).To(ContainSubstring(`cannot watch "cm"`))
	s.put("configmaps", "default", "one", nil)
	h.Eventually(r.names).Should(ConsistOf("one"))
	h.Expect(r.errors()).To(BeZero())

	next.setFault(nil)
	h.Eventually(func() string { return h.status(key).PendingReason }).Should(BeEmpty())
	h.Eventually(func() int64 { return h.status(key).Connection }).Should(BeEquivalentTo(2))
}

func TestOldConnectionThatDiesWhileTheNextIsPrepared(t *testing.T) {
	h := start(t, Options{Watch: WatchOptions{SyncTimeout: time.Minute}})
	s := newStore("uid-a")
	old, next := newAPIServer(t, s), newAPIServer(t, s)
	next.setFault(next.hangWatches)
	key := h.register("a", old.kubeconfig("x"))
	h.expectState(key, StateConnected)
	h.watchConfigMaps(key)
	h.register("a", next.kubeconfig("x"))
	h.Eventually(func() int { return next.count("GET /api/v1/configmaps") }).Should(BeNumerically(">", 0))
	_ = old.server.Listener.Close()
	old.cut()
	h.Eventually(func() int64 { return h.status(key).Connection }).Should(BeEquivalentTo(2))
	h.expectState(key, StateConnected)
}

func TestRotationToAnotherClusterStopsAllCalls(t *testing.T) {
	h := start(t, Options{})
	a, b := newAPIServer(t, newStore("uid-a")), newAPIServer(t, newStore("uid-b"))
	key := h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateConnected)
	held, err := h.cache.GetMetadataClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())

	h.register("a", b.kubeconfig("x"))
	h.Expect(h.expectState(key, StateRefused).Reason).To(Equal(ReasonIdentityChanged))
	_, err = held.Resource(configMapResource).Namespace("default").Get(context.Background(), "x", getOptions)
	h.Expect(err).To(MatchError(ErrClusterNotConnected))
	h.Eventually(a.sockets).Should(BeZero())
	h.Eventually(b.sockets).Should(BeZero())

	h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateConnected)
}

func TestUnchangedKubeconfigIsNoRotation(t *testing.T) {
	h := start(t, Options{})
	a := newAPIServer(t, newStore("uid-a"))
	key := h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateConnected)
	h.expectEvent(key, EventConnected)
	secret := registrationSecret(key, a.kubeconfig("x"))
	secret.Labels["hub.gardener.cloud/class"] = "other"
	h.secrets.set(secret)
	h.expectEvent(key, EventRegistered)
	status := h.status(key)
	h.Expect(status.Labels).To(HaveKeyWithValue("hub.gardener.cloud/class", "other"))
	h.Expect(status.SecretResourceVersion).To(Equal("2"))
	h.Expect(status.Connection).To(BeEquivalentTo(1))
	h.Expect(a.count("POST")).To(Equal(1))
}

func TestCallsOfAReplacedConnectionEndWithAReason(t *testing.T) {
	h := start(t, Options{Limits: func(ClusterKey) Limits { return Limits{Timeout: 3 * time.Second} }})
	s := newStore("uid-a")
	old, next := newAPIServer(t, s), newAPIServer(t, s)
	key := h.register("a", old.kubeconfig("x"))
	h.expectState(key, StateConnected)
	held, err := h.cache.GetMetadataClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	get := func() error {
		_, err := held.Resource(configMapResource).Namespace("default").Get(context.Background(), "one", getOptions)
		return err
	}
	s.put("configmaps", "default", "one", nil)
	h.register("a", next.kubeconfig("x"))
	h.expectEvent(key, EventRotated)
	h.Expect(get()).To(Succeed(), "calls under way have their time")
	h.Eventually(get).Should(MatchError(ErrConnectionReplaced))
	h.Expect(errors.Is(get(), ErrClusterNotConnected)).To(BeFalse(), "it is an ordinary error, to be retried")
	h.Eventually(old.sockets).Should(BeZero())
}
