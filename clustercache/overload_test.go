package clustercache

import (
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Servers before 1.27 have no streamed lists, and those with the feature switched off say that the request is not
// valid.
func TestServerWithoutStreamedLists(t *testing.T) {
	for name, code := range map[string]int{"refuses them": http.StatusUnprocessableEntity, "calls them a bad request": http.StatusBadRequest} {
		t.Run(name, func(t *testing.T) {
			h, a, key := connected(t, Options{})
			a.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("sendInitialEvents") == "" {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				reason := map[int]metav1.StatusReason{422: metav1.StatusReasonInvalid, 400: metav1.StatusReasonBadRequest}[code]
				writeBody(w, metav1.Status{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reason,
					Message: "sendInitialEvents: Forbidden: is forbidden for watch unless the WatchList feature gate is enabled",
				})
				return true
			})
			a.store.put("configmaps", "default", "one", nil)
			r := h.watchConfigMaps(key)
			h.Expect(r.names()).To(ConsistOf("one"))
			h.Expect(r.errors()).To(BeZero(), "that is no failure")
			h.Eventually(func() int { return a.store.watching("configmaps") }).Should(Equal(1))
			a.store.put("configmaps", "default", "two", nil)
			h.Eventually(r.names).Should(ConsistOf("one", "two"))
			a.cut()
			h.Eventually(func() int { return a.count("GET /api/v1/configmaps watch") }).Should(BeNumerically(">=", 3))
			a.store.delete("configmaps", "default", "one")
			h.Eventually(r.names).Should(ConsistOf("two"))
			h.Expect(r.faultsNow()).To(BeEmpty())
		})
	}
}

// The history that a watch wants to continue with is gone: all is listed again, and what went meanwhile is found.
func TestWatchWhoseVersionIsGone(t *testing.T) {
	h, a, key := connected(t, Options{})
	a.store.put("configmaps", "default", "one", nil)
	a.store.put("configmaps", "default", "two", nil)
	r := h.watchConfigMaps(key)
	a.store.mute(true)
	a.store.delete("configmaps", "default", "one")
	a.store.put("configmaps", "default", "three", nil)
	a.store.mute(false)
	a.cut() // apiServer answers 410 to older versions
	h.Eventually(r.names).Should(ConsistOf("two", "three"))
	h.Eventually(r.syncs).Should(Equal(2))
	h.Expect(r.faultsNow()).To(BeEmpty())
	h.Expect(r.errors()).To(BeZero(), "that is no failure")
	h.Expect(h.state(key)).To(Equal(StateConnected))
}

// A server that is too busy says when to come again. Calls and watches wait for that, and nothing is given up.
func TestServerThatAsksToComeLater(t *testing.T) {
	for name, code := range map[string]int{"429": http.StatusTooManyRequests, "503": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			h, a, key := connected(t, Options{})
			a.store.put("configmaps", "default", "one", nil)
			c, err := h.cache.GetMetadataClient(t.Context(), key)
			h.Expect(err).NotTo(HaveOccurred())
			left := make(chan struct{}, 1)
			for range cap(left) {
				left <- struct{}{}
			}
			a.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/configmaps") {
					return false
				}
				select {
				case <-left:
					w.Header().Set("Retry-After", "1")
					writeStatus(w, code, "later")
					return true
				default:
					return false
				}
			})
			h.Expect(get(c)).To(Succeed(), "it is asked again when it wants to be")
			h.Expect(reads(a)).To(Equal(2))
			for range cap(left) {
				left <- struct{}{}
			}
			r := h.watchConfigMaps(key)
			h.Expect(r.names()).To(ConsistOf("one"))
			h.Expect(h.state(key)).To(Equal(StateConnected))
		})
	}
}
