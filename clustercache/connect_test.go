package clustercache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

func TestTwoRegistrationsLeadToTwoTargets(t *testing.T) {
	h := start(t, Options{})
	a, b := newAPIServer(t, newStore("uid-a")), newAPIServer(t, newStore("uid-b"))
	keyA, keyB := h.register("a", a.kubeconfig("x")), h.register("b", b.kubeconfig("x"))
	h.Expect(h.expectState(keyA, StateConnected).UID).To(Equal(types.UID("uid-a")))
	h.Expect(h.expectState(keyB, StateConnected).UID).To(Equal(types.UID("uid-b")))
	h.Expect(h.cache.List("garden")).To(HaveLen(2))
	h.Expect(h.cache.List("")).To(HaveLen(2))
	h.Expect(h.cache.List("elsewhere")).To(BeEmpty())
}

// One server may be registered in several ways of writing its address. Each registration is a target of its own, which
// works and goes without the others, and is known to be the same cluster.
func TestOneServerInSeveralSpellings(t *testing.T) {
	h := start(t, Options{})
	a := newAPIServer(t, newStore("uid-a"))
	_, port, err := net.SplitHostPort(a.server.Listener.Addr().String())
	h.Expect(err).NotTo(HaveOccurred())
	keys := map[string]ClusterKey{}
	for name, address := range map[string]string{
		"plain": a.server.URL, "slash": a.server.URL + "/", "scheme": strings.Replace(a.server.URL, "https", "HTTPS", 1),
		"name": "https://localhost:" + port, "case": "https://LocalHost:" + port + "/",
	} {
		keys[name] = h.register(name, kubeconfigOf(address, a.ca, "token-of-"+name))
	}
	tokens := map[string]string{}
	for name := range keys {
		tokens["token-of-"+name] = "hub"
	}
	a.setTokens(tokens)
	works := func(name string) error {
		c, err := h.cache.GetUncachedClient(t.Context(), keys[name])
		if err != nil {
			return err
		}
		return c.List(t.Context(), &corev1.ConfigMapList{})
	}
	for name, key := range keys {
		h.Expect(h.expectState(key, StateConnected).UID).To(Equal(types.UID("uid-a")), name)
		h.Expect(works(name)).To(Succeed(), name)
	}

	h.unregister(keys["slash"])
	h.Eventually(func() error { return works("slash") }).Should(MatchError(ErrClusterUnknown))
	delete(tokens, "token-of-slash")
	a.setTokens(tokens)
	for _, name := range []string{"plain", "scheme", "name", "case"} {
		h.Expect(works(name)).To(Succeed(), name)
	}
}

func TestStaticTarget(t *testing.T) {
	a := newAPIServer(t, newStore("uid-source"))
	key := ClusterKey{Name: "source"}
	h := start(t, Options{Static: map[ClusterKey]*rest.Config{key: {
		Host: a.server.URL, BearerToken: "x", TLSClientConfig: rest.TLSClientConfig{CAData: a.ca},
	}}})
	a.setTokens(map[string]string{"x": "hub"})
	h.Expect(h.expectState(key, StateConnected).UID).To(Equal(types.UID("uid-source")))
	h.Expect(h.cache.List("")).To(BeEmpty())
}

func TestOtherSecretsWithTheLabelAreIgnored(t *testing.T) {
	h := start(t, Options{})
	ca := registrationSecret(ClusterKey{Namespace: "garden", Name: "a"}, nil)
	ca.Name = "a-ca"
	h.secrets.set(ca)
	foreign := registrationSecret(ClusterKey{Namespace: "garden", Name: "a"}, nil)
	foreign.Name = "b-kubeconfig"
	h.secrets.set(foreign)
	h.Consistently(func() int { return len(h.cache.List("")) }).Should(BeZero())
}

func TestRefusedRegistrationHealsWhenItIsMended(t *testing.T) {
	h := start(t, Options{})
	a := newAPIServer(t, newStore("uid-a"))
	key := h.register("a", []byte("no kubeconfig"))
	status := h.expectState(key, StateRefused)
	h.Expect(status.Reason).To(Equal(ReasonKubeconfigInvalid))
	_, err := h.cache.GetClient(context.Background(), key)
	h.Expect(err).To(MatchError(ErrClusterNotConnected))

	h.register("a", nil)
	h.Eventually(func() string { return h.status(key).Reason }).Should(Equal(ReasonSecretInvalid))
	h.Expect(a.count("")).To(BeZero())

	h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateConnected)
}

func TestClosedPortIsDialledUntilItOpens(t *testing.T) {
	h := start(t, Options{})
	port, err := controlplane.FreePort() // no other process gets it meanwhile
	h.Expect(err).NotTo(HaveOccurred())
	address := fmt.Sprintf("127.0.0.1:%d", port)
	a := newAPIServer(t, newStore("uid-a"))

	key := h.register("a", kubeconfigOf("https://"+address, a.ca, "x"))
	status := h.expectState(key, StateDisconnected)
	h.Expect(status.Reason).To(Equal(ReasonUnreachable))
	h.Expect(status.Message).To(Equal(transport.Unreachable))
	h.Expect(status.NextAttempt).NotTo(BeZero())

	listener, err := net.Listen("tcp", address)
	h.Expect(err).NotTo(HaveOccurred())
	go forward(listener, a.server.Listener.Addr().String())
	defer func() { _ = listener.Close() }()
	h.expectState(key, StateConnected)
}

// forward passes connections on, as a load balancer does.
func forward(listener net.Listener, to string) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			_ = in.Close()
			continue
		}
		pipe := func(from, to net.Conn) {
			buffer := make([]byte, 4096)
			for {
				n, err := from.Read(buffer)
				if _, werr := to.Write(buffer[:n]); err != nil || werr != nil {
					_, _ = from.Close(), to.Close()
					return
				}
			}
		}
		go pipe(in, out)
		go pipe(out, in)
	}
}

func TestHangingServerDelaysNoOtherTarget(t *testing.T) {
	h := start(t, Options{Dial: DialOptions{ConnectParallel: 1}})
	hanging := newAPIServer(t, newStore("uid-hanging"))
	hanging.setFault(hanging.hangAll)
	var stuck []ClusterKey
	for _, name := range []string{"h1", "h2", "h3"} {
		stuck = append(stuck, h.register(name, hanging.kubeconfig("x")))
	}
	a := newAPIServer(t, newStore("uid-a"))
	h.expectState(h.register("a", a.kubeconfig("x")), StateConnected)
	for _, key := range stuck {
		h.Expect(h.expectState(key, StateDisconnected).Reason).To(Equal(ReasonUnreachable))
	}
	hanging.setFault(nil)
	for _, key := range stuck {
		h.expectState(key, StateConnected)
	}
}

func TestServerThatNeverSpeaksTLS(t *testing.T) {
	h := start(t, Options{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	h.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	a := newAPIServer(t, newStore("uid-a"))
	key := h.register("a", kubeconfigOf("https://"+listener.Addr().String(), a.ca, "x"))
	h.Expect(h.expectState(key, StateDisconnected).Reason).To(Equal(ReasonUnreachable))
}

func TestWrongCertificateAuthority(t *testing.T) {
	h := start(t, patiently())
	a, b := newAPIServer(t, newStore("uid-a")), newAPIServer(t, newStore("uid-b"))
	key := h.register("a", kubeconfigOf(a.server.URL, b.ca, "x"))
	status := h.expectState(key, StateDisconnected)
	h.Expect(status.Message).To(Equal(transport.Unreachable))
}

func TestUnauthorizedForbiddenAndAnonymous(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*apiServer)
		reason  string
		message string
	}{
		"token not taken": {func(a *apiServer) { a.setTokens(map[string]string{}) }, ReasonUnauthorized,
			"does not take the credential"},
		"anonymous access": {func(a *apiServer) {
			a.setTokens(
				map[string]string{"secret-token": "system:anonymous"})
		}, ReasonUnauthorized, "anonymous"},
		"no right to read kube-system": {func(a *apiServer) { a.setFault(answer(http.StatusForbidden, "kube-system")) },
			ReasonForbidden, `user "admin"`},
		"server in trouble": {func(a *apiServer) { a.setFault(answer(http.StatusServiceUnavailable, "/version")) },
			ReasonUnreachable, "503"},
		"overloaded server": {func(a *apiServer) { a.setFault(answer(http.StatusTooManyRequests, "/version")) },
			ReasonUnreachable, "429"},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, patiently())
			a := newAPIServer(t, newStore("uid-a"))
			test.prepare(a)
			key := h.register("a", a.kubeconfig("secret-token"))
			status := h.expectState(key, StateDisconnected)
			h.Expect(status.Reason).To(Equal(test.reason))
			h.Expect(status.Message).To(ContainSubstring(test.message))
			h.Expect(status.Message).NotTo(ContainSubstring("secret-token"))
			_, err := h.cache.GetClient(context.Background(), key)
			h.Expect(err).To(MatchError(ErrClusterNotConnected))

			a.setTokens(nil)
			a.setFault(nil)
			h.expectState(key, StateConnected)
		})
	}
}

func TestIdentityIsVerifiedBeforeUse(t *testing.T) {
	var allow atomic.Bool
	var asked atomic.Int32
	h := start(t, Options{VerifyIdentity: func(
		_ context.Context, _ ClusterKey, uid types.UID, annotations map[string]string) error {
		asked.Add(1)
		if allow.Load() || annotations["confirm"] == string(uid) {
			return nil
		}
		return errors.New("it was another cluster before")
	}})
	a := newAPIServer(t, newStore("uid-a"))
	key := h.register("a", a.kubeconfig("x"))
	status := h.expectState(key, StateRefused)
	h.Expect(status.Reason).To(Equal(ReasonIdentityChanged))
	h.Expect(status.Message).To(ContainSubstring("another cluster before"))
	calls := a.count("")
	h.Consistently(func() int { return a.count("") }).Should(Equal(calls), "no further calls")
	h.Expect(asked.Load()).To(BeEquivalentTo(1))

	h.cache.Recheck(key)
	h.Eventually(asked.Load).Should(BeEquivalentTo(2))
	h.expectState(key, StateRefused)

	confirmed := registrationSecret(key, a.kubeconfig("x"))
	confirmed.Annotations = map[string]string{"confirm": "uid-a"}
	h.secrets.set(confirmed)
	h.expectState(key, StateConnected)
}

// The refusal of an attempt that began before the confirmation came must not outlive it: nothing else would wake the
// target.
func TestIdentityConfirmedDuringAnAttempt(t *testing.T) {
	for name, confirm := range map[string]func(h *hub, key ClusterKey, a *apiServer, allow *atomic.Bool){
		"by the Secret": func(h *hub, key ClusterKey, a *apiServer, _ *atomic.Bool) {
			confirmed := registrationSecret(key, a.kubeconfig("x"))
			confirmed.Annotations = map[string]string{"confirm": "uid-a"}
			h.secrets.set(confirmed)
			h.Eventually(func() string { return h.status(key).Annotations["confirm"] }).Should(Equal("uid-a"))
		},
		"by what is known of the target": func(h *hub, key ClusterKey, _ *apiServer, allow *atomic.Bool) {
			allow.Store(true)
			h.cache.Recheck(key)
			h.Consistently(func() State { return h.state(key) }).ShouldNot(Equal(StateConnected), "the attempt is under way")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var allow atomic.Bool
			asked, answer := make(chan struct{}), make(chan struct{})
			var once sync.Once
			h := start(t, Options{VerifyIdentity: func(
				_ context.Context, _ ClusterKey, uid types.UID, annotations map[string]string) error {
				allowed := allow.Load() || annotations["confirm"] == string(uid)
				once.Do(func() {
					close(asked)
					<-answer
				})
				if allowed {
					return nil
				}
				return errors.New("it was another cluster before")
			}})
			a := newAPIServer(t, newStore("uid-a"))
			key := h.register("a", a.kubeconfig("x"))
			<-asked
			confirm(h, key, a, &allow)
			close(answer)
			h.expectState(key, StateConnected)
		})
	}
}

func TestUndecidedIdentityIsTriedAgain(t *testing.T) {
	var asked atomic.Int32
	h := start(t, Options{VerifyIdentity: func(context.Context, ClusterKey, types.UID, map[string]string) error {
		if asked.Add(1) < 3 {
			return ErrIdentityUndecided
		}
		return nil
	}})
	a := newAPIServer(t, newStore("uid-a"))
	h.expectState(h.register("a", a.kubeconfig("x")), StateConnected)
	h.Expect(asked.Load()).To(BeEquivalentTo(3))
}

func TestAddressThatBeginsToLeadToAnotherCluster(t *testing.T) {
	h := start(t, Options{})
	a := newAPIServer(t, newStore("uid-a"))
	key := h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateConnected)
	a.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != identityPath {
			return false
		}
		writeJSON(w, "application/json", map[string]any{"metadata": map[string]any{"uid": "uid-b"}})
		return true
	})
	status := h.expectState(key, StateRefused)
	h.Expect(status.Reason).To(Equal(ReasonIdentityChanged))
	h.Expect(status.Message).To(And(ContainSubstring("uid-a"), ContainSubstring("uid-b")))
	calls := a.count("")
	h.Consistently(func() int { return a.count("") }).Should(Equal(calls))
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	h := start(t, Options{})
	a, elsewhere := newAPIServer(t, newStore("uid-a")), newAPIServer(t, newStore("uid-b"))
	a.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, elsewhere.server.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	h.expectState(h.register("a", a.kubeconfig("x")), StateDisconnected)
	h.Expect(elsewhere.count("")).To(BeZero())
}

func TestOptionsAreChecked(t *testing.T) {
	g := NewWithT(t)
	_, err := New(Options{Static: map[ClusterKey]*rest.Config{{Namespace: "a", Name: "b"}: {}}})
	g.Expect(err).To(MatchError(ContainSubstring("no namespace")))
	_, err = New(Options{Static: map[ClusterKey]*rest.Config{{Name: "b"}: {Transport: http.DefaultTransport}}})
	g.Expect(err).To(MatchError(ContainSubstring("transport")))
	g.Expect(strings.HasPrefix(err.Error(), "clustercache: ")).To(BeTrue())
}
