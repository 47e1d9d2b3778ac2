package clustercache

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// exists reports whether a target is registered.
func (h *hub) exists(key ClusterKey) func() bool {
	return func() bool { _, known := h.cache.GetStatus(key); return known }
}

// A Secret may go at any moment of a target's life.
func TestSecretThatGoesLeavesNothing(t *testing.T) {
	for name, prepare := range map[string]func(h *hub, a *apiServer) (key ClusterKey, others []*apiServer){
		"while it is dialled": func(h *hub, a *apiServer) (ClusterKey, []*apiServer) {
			a.setFault(a.hangAll)
			key := h.register("a", a.kubeconfig("token"))
			h.Eventually(func() int { return a.count("GET /version") }).Should(BeNumerically(">", 0))
			return key, nil
		},
		"while it is identified": func(h *hub, a *apiServer) (ClusterKey, []*apiServer) {
			a.setFault(hangOn(a, identityPath))
			key := h.register("a", a.kubeconfig("token"))
			h.Eventually(func() int { return a.count("GET " + identityPath) }).Should(BeNumerically(">", 0))
			return key, nil
		},
		"while a watch waits for its list": func(h *hub, a *apiServer) (ClusterKey, []*apiServer) {
			key := h.register("a", a.kubeconfig("token"))
			h.expectState(key, StateConnected)
			a.setFault(a.hangWatches)
			h.declareConfigMaps(key)
			h.Eventually(func() int { return a.count("GET /api/v1/configmaps") }).Should(BeNumerically(">", 0))
			return key, nil
		},
		"while its token changes": func(h *hub, a *apiServer) (ClusterKey, []*apiServer) {
			key := h.register("a", a.kubeconfig("token"))
			h.expectState(key, StateConnected)
			h.watchConfigMaps(key)
			a.setFault(hangOn(a, "/version"))
			h.register("a", a.kubeconfig("another"))
			h.Eventually(func() int { return a.count("GET /version") }).Should(BeNumerically(">", 1))
			return key, nil
		},
		"while the next connection gets its lists": func(h *hub, a *apiServer) (ClusterKey, []*apiServer) {
			key := h.register("a", a.kubeconfig("token"))
			h.expectState(key, StateConnected)
			h.watchConfigMaps(key)
			next := newAPIServer(h.t, a.store)
			next.setFault(next.hangWatches)
			h.register("a", next.kubeconfig("token"))
			h.Eventually(func() int { return next.count("GET /api/v1/configmaps") }).Should(BeNumerically(">", 0))
			return key, []*apiServer{next}
		},
	} {
		for way, remove := range map[string]func(h *hub, key ClusterKey){
			"it is deleted": func(h *hub, key ClusterKey) { h.unregister(key) },
			"it loses its label": func(h *hub, key ClusterKey) {
				secret := registrationSecret(key, nil)
				secret.Labels = nil
				h.secrets.set(secret)
			},
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				h := start(t, Options{})
				a := newAPIServer(t, newStore("uid-a"))
				key, others := prepare(h, a)
				remove(h, key)
				h.Eventually(h.exists(key)).Should(BeFalse())
				for _, server := range append(others, a) {
					h.Eventually(server.sockets).Should(BeZero())
				}
				// What comes under the name later is another target, wherever it leads to.
				b := newAPIServer(t, newStore("uid-b"))
				h.register("a", b.kubeconfig("token"))
				h.Expect(h.expectState(key, StateConnected).UID).To(BeEquivalentTo("uid-b"))
			})
		}
	}
}

// A Secret that is replaced at once by one that leads elsewhere is another registration of a target that is still
// known: its identity is guarded.
func TestSecretThatIsReplacedAndLeadsElsewhere(t *testing.T) {
	for name, needed := range map[string]bool{"it is not needed": false, "a consumer still cleans up": true} {
		t.Run(name, func(t *testing.T) {
			h, a, key := connected(t, Options{StillNeeded: func(ClusterKey) bool { return needed }})
			b := newAPIServer(t, newStore("uid-b"))
			h.unregister(key)
			h.register("a", b.kubeconfig("token"))
			if needed {
				h.Expect(h.expectState(key, StateRefused).Reason).To(Equal(ReasonIdentityChanged))
				h.Eventually(a.sockets).Should(BeZero())
				return
			}
			h.Eventually(func() string { s := h.status(key); return fmt.Sprint(s.State, s.Reason, s.UID) }).Should(BeElementOf(
				fmt.Sprint(StateRefused, ReasonIdentityChanged, "uid-a"), // it came before the old one was forgotten
				fmt.Sprint(StateConnected, ReasonConnected, "uid-b"),
			))
		})
	}
}

// A Secret is replaced again and again, by kubeconfigs that are valid, invalid or the one before.
func TestSecretThatFlaps(t *testing.T) {
	h := start(t, Options{})
	s := newStore("uid-a")
	a, b := newAPIServer(t, s), newAPIServer(t, s)
	s.put("configmaps", "default", "one", nil)
	key := h.register("a", a.kubeconfig("token"))
	h.expectState(key, StateConnected)
	r := h.watchConfigMaps(key)
	before := settle()
	contents := [][]byte{b.kubeconfig("token"), a.kubeconfig("token"), []byte("garbage"), a.kubeconfig("another"), nil, a.kubeconfig("token"), kubeconfigOf(a.server.URL, b.ca, "token")}
	for i := range 70 {
		h.register("a", contents[i%len(contents)])
		if i%3 == 0 {
			time.Sleep(20 * time.Millisecond) // some of them are tried
		}
		_, err := h.cache.GetClient(t.Context(), key)
		h.Expect(err).NotTo(HaveOccurred(), "there is a connection all the time")
		h.Expect(h.state(key)).To(Equal(StateConnected))
	}
	h.register("a", b.kubeconfig("last"))
	h.Eventually(func() string { return h.status(key).SecretResourceVersion }).Should(Equal(fmt.Sprint(h.secrets.latest())))
	h.Expect(h.status(key).PendingReason).To(BeEmpty())
	s.put("configmaps", "default", "two", nil)
	h.Eventually(r.names).Should(ConsistOf("one", "two"))
	h.Expect(r.faultsNow()).To(BeEmpty())
	h.Expect(r.errors()).To(BeZero())
	h.Eventually(settle).Should(BeNumerically("<=", before+2))
	h.Eventually(a.sockets).Should(BeZero())
}

// A renamed Secret is another target. The old one goes, with all that is its, and the new one knows nothing of it.
func TestSecretThatIsRenamed(t *testing.T) {
	h, a, key := connected(t, Options{})
	h.watchConfigMaps(key)
	renamed := h.register("b", a.kubeconfig("token"))
	h.Expect(h.expectState(renamed, StateConnected).UID).To(BeEquivalentTo("uid-a"))
	h.unregister(key)
	h.Eventually(h.exists(key)).Should(BeFalse())
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(BeZero(), "the new one has no watches")
	h.Expect(h.state(renamed)).To(Equal(StateConnected))
}

func TestSecretThatLeadsToAnotherClusterAndBack(t *testing.T) {
	h, a, key := connected(t, Options{})
	r := h.watchConfigMaps(key)
	b := newAPIServer(t, newStore("uid-b"))
	for range 3 {
		h.register("a", b.kubeconfig("token"))
		h.Expect(h.expectState(key, StateRefused).Reason).To(Equal(ReasonIdentityChanged))
		_, _, synced := h.lookup(key, "cm", types.NamespacedName{})
		h.Expect(synced).To(BeFalse())
		h.register("a", a.kubeconfig("token"))
		h.expectState(key, StateConnected)
	}
	h.Expect(b.count("GET /api/v1/configmaps")).To(BeZero(), "nothing but its identity was read from the other one")
	a.store.put("configmaps", "default", "one", nil)
	h.Eventually(r.names).Should(ConsistOf("one"))
	h.Expect(r.faultsNow()).To(BeEmpty())
}
