package clustercache

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestRemovedTargetLeavesNothing(t *testing.T) {
	h, a, key := connected(t, Options{})
	h.expectEvent(key, EventConnected) // a consumer that got no event of a target does not get its end either
	h.watchConfigMaps(key)
	h.unregister(key)
	h.expectEvent(key, EventGone)
	_, exists := h.cache.GetStatus(key)
	h.Expect(exists).To(BeFalse())
	_, err := h.cache.GetClient(context.Background(), key)
	h.Expect(err).To(MatchError(ErrClusterUnknown))
	h.Eventually(a.sockets).Should(BeZero())
	h.Eventually(func() int { return a.store.watching("configmaps") }).Should(BeZero())
}

func TestLostLabelIsARemoval(t *testing.T) {
	h, a, key := connected(t, Options{})
	h.expectEvent(key, EventConnected)
	secret := registrationSecret(key, a.kubeconfig("x"))
	secret.Labels = map[string]string{"cluster.x-k8s.io/cluster-name": "another"}
	h.secrets.set(secret)
	h.expectEvent(key, EventGone)
}

func TestTargetDrainsWhileItIsNeeded(t *testing.T) {
	var needed atomic.Bool
	needed.Store(true)
	h, a, key := connected(t, Options{StillNeeded: func(ClusterKey) bool { return needed.Load() }})
	held, err := h.cache.GetMetadataClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	a.store.put("configmaps", "default", "one", nil)

	h.unregister(key)
	h.expectEvent(key, EventDraining)
	h.Expect(h.status(key).Reason).To(Equal(ReasonRegistrationGone))
	h.Consistently(func() error { return get(held) }).Should(Succeed())
	h.Expect(h.state(key)).To(Equal(StateDraining))

	needed.Store(false)
	h.expectEvent(key, EventGone)
	h.Eventually(func() error { return get(held) }).Should(MatchError(ErrClusterUnknown))
}

func TestDrainingEndsAfterItsTimeout(t *testing.T) {
	h, _, key := connected(t, Options{StillNeeded: func(ClusterKey) bool { return true }, DrainTimeout: 3 * time.Second})
	h.unregister(key)
	h.expectEvent(key, EventDraining)
	h.expectEvent(key, EventGone)
}

func TestDrainingTargetThatIsRegisteredAgainGoesOn(t *testing.T) {
	h, a, key := connected(t, Options{StillNeeded: func(ClusterKey) bool { return true }})
	r := h.watchConfigMaps(key)
	h.unregister(key)
	h.expectEvent(key, EventDraining)
	h.register("a", a.kubeconfig("x"))
	h.expectEvent(key, EventRegistered)
	h.Expect(h.expectState(key, StateConnected)).To(
		And(HaveField("Reason", ReasonConnected), HaveField("Message", "")), "the message of the end is gone")
	h.Expect(h.status(key).Connection).To(BeEquivalentTo(1))
	a.store.put("configmaps", "default", "one", nil)
	h.Eventually(r.names).Should(ConsistOf("one"))
	h.Expect(r.syncs()).To(Equal(1))
}

func TestDrainingTargetIsDialledWhenItIsDown(t *testing.T) {
	h, a, key := connected(t, Options{StillNeeded: func(ClusterKey) bool { return true }})
	h.expectEvent(key, EventConnected)
	a.setFault(a.hangAll)
	h.expectState(key, StateDisconnected)
	h.unregister(key)
	h.expectState(key, StateDraining)
	a.setFault(nil)
	h.expectEvent(key, EventConnected)
	h.Expect(h.status(key)).To(And(HaveField("State", StateDraining), HaveField("Reason", ReasonRegistrationGone)),
		"it is not unreachable any longer")
	_, err := h.cache.GetClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
}

func TestSecretThatIsDeletedAndCreatedAgain(t *testing.T) {
	h, a, key := connected(t, Options{})
	h.expectEvent(key, EventConnected)
	for range 20 {
		h.unregister(key)
		h.register("a", a.kubeconfig("x"))
	}
	h.expectState(key, StateConnected)
	h.Eventually(func() error { _, err := h.cache.GetClient(context.Background(), key); return err }).Should(Succeed())
}

func TestSecretThatIsDeletedWhileItsTargetHangs(t *testing.T) {
	h := start(t, Options{})
	a := newAPIServer(t, newStore("uid-a"))
	a.setFault(a.hangAll)
	key := h.register("a", a.kubeconfig("x"))
	h.Eventually(func() int { return a.count("") }).Should(BeNumerically(">", 0))
	h.unregister(key)
	h.Eventually(func() bool { _, exists := h.cache.GetStatus(key); return exists }).Should(BeFalse())
	h.Eventually(a.sockets).Should(BeZero())
}
