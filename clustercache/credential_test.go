package clustercache

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// unauthorized is what a server says in a stream that is open.
var unauthorized = metav1.Status{
	TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
	Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized,
	Message: "the credential is not taken any longer",
}

// identified counts how often a target was asked what identifies it, as each probe does.
func identified(target *fleetsim.Target) int {
	n := int64(0)
	for _, c := range target.Journal().Counts().Where(func(c journal.Count) bool { return c.Verb == "get" && c.Resource == "namespaces" }) {
		n += c.Requests
	}
	return int(n)
}

// Writes that are refused say nothing of reads, nor of the credential: it is tried, and what works continues.
func TestCredentialThatIsRefusedForWritesOnly(t *testing.T) {
	h, target, key := simulated(t, Options{Probe: ProbeOptions{Interval: time.Hour}})
	r := h.watchConfigMaps(key)
	w := h.writer(key)
	h.Expect(write(t.Context(), w, "one", "1")).To(Succeed())
	h.Eventually(r.names).Should(ContainElement("one"))
	streams := opened(target)

	mend := h.strike(target, fault.Fault{Kind: fault.Status, Code: http.StatusUnauthorized, Match: fault.Match{Verbs: []string{"apply"}}})
	began, before := time.Now(), identified(target)
	h.Eventually(func() int {
		h.Expect(apierrors.IsUnauthorized(write(t.Context(), w, "one", "2"))).To(BeTrue())
		return identified(target) - before
	}).Should(BeNumerically(">=", 3), "each refusal is a hint, though no probe was due for an hour")
	probes, most := identified(target)-before, int(time.Since(began)/probePause)+2
	h.Expect(probes).To(BeNumerically("<=", most), "refusals do not bring probes without end")
	status := h.status(key)
	h.Expect(status.State).To(Equal(StateConnected))
	h.Expect(status.PendingReason).To(BeEmpty(), "the credential is as good as it was")
	h.Expect(h.cache.GetHealthCheckingState(t.Context(), key).ConsecutiveFailures).To(BeZero())

	mend()
	h.Expect(write(t.Context(), w, "two", "2")).To(Succeed(), "there is nothing to wait for")
	h.Eventually(r.names).Should(ContainElement("two"))
	h.Expect(opened(target)).To(Equal(streams), "watches were left alone")
	h.Expect(h.status(key).Connection).To(BeEquivalentTo(1))
	h.Expect(r.errors()).To(BeZero())
}

// What a stream says of the credential ends that stream. Whether it is true shows when it is opened again.
func TestCredentialThatIsRefusedInAStream(t *testing.T) {
	for name, refuse := range map[string]func(*apiServer){
		"while it is open": func(a *apiServer) { a.store.fail("configmaps", unauthorized) },
		"when it is opened again": func(a *apiServer) {
			a.setFault(answer(http.StatusUnauthorized, "/configmaps"))
			a.cut()
		},
	} {
		t.Run(name+", and taken all the same", func(t *testing.T) {
			h, a, key := connected(t, Options{Probe: ProbeOptions{Interval: time.Hour}})
			a.store.put("configmaps", "default", "one", nil)
			r := h.watchConfigMaps(key)
			refuse(a)
			h.Eventually(r.errors).Should(BeNumerically(">", 0))
			h.Expect(apierrors.IsUnauthorized(r.lastErr())).To(BeTrue(), "%v", r.lastErr())
			h.Expect(r.names()).To(ConsistOf("one"), "what was known is kept")
			a.store.put("configmaps", "default", "two", nil)
			a.setFault(nil)
			h.Eventually(r.names).Should(ConsistOf("one", "two"))
			h.Expect(h.state(key)).To(Equal(StateConnected))
			h.Expect(h.status(key).Connection).To(BeEquivalentTo(1))
			h.Expect(r.faultsNow()).To(BeEmpty())
		})
		t.Run(name+", and nowhere else either", func(t *testing.T) {
			h, a, key := connected(t, Options{Probe: ProbeOptions{Interval: time.Hour}})
			a.store.put("configmaps", "default", "one", nil)
			r := h.watchConfigMaps(key)
			a.setTokens(map[string]string{})
			refuse(a)
			h.Expect(h.expectState(key, StateDisconnected).Reason).To(Equal(ReasonUnauthorized), "though no probe was due for an hour")
			a.store.put("configmaps", "default", "two", nil)
			a.setFault(nil)
			a.setTokens(nil)
			h.expectState(key, StateConnected)
			h.Eventually(r.names).Should(ConsistOf("one", "two"))
			h.Expect(r.faultsNow()).To(BeEmpty())
		})
	}
}

// A right that is taken away for one kind concerns what follows that kind, and nothing else.
func TestOneKindThatIsForbiddenUnderAConnection(t *testing.T) {
	h, a, key := connected(t, Options{})
	configMaps, secrets := h.watchConfigMaps(key), newRecorder()
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	h.watch(key, Watcher{Name: "secrets", Kind: kind, MetadataOnly: true, Handler: secrets})
	h.Eventually(secrets.syncs).Should(Equal(1))

	a.setFault(answer(http.StatusForbidden, "/secrets"))
	a.cut() // a right is looked at when a stream is opened
	h.Eventually(secrets.errors).Should(BeNumerically(">", 0))
	h.Expect(apierrors.IsForbidden(secrets.lastErr())).To(BeTrue(), "%v", secrets.lastErr())
	a.store.put("configmaps", "default", "one", nil)
	h.Eventually(configMaps.names).Should(ConsistOf("one"))
	_, _, synced := h.lookup(key, "cm", types.NamespacedName{})
	h.Expect(synced).To(BeTrue())
	h.Expect(configMaps.errors()).To(BeZero())
	_, _, synced = h.lookup(key, "secrets", types.NamespacedName{})
	h.Expect(synced).To(BeFalse())
	h.Consistently(func() State { return h.state(key) }).Should(Equal(StateConnected))
	h.Expect(h.status(key).Connection).To(BeEquivalentTo(1))

	a.store.put("secrets", "default", "two", nil)
	a.setFault(nil)
	h.Eventually(secrets.names).Should(ConsistOf("two"))
	h.Expect(append(secrets.faultsNow(), configMaps.faultsNow()...)).To(BeEmpty())
}
