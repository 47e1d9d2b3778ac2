package clustercache

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Texts of a target are kept for as long as it is registered, and shown in conditions and metrics.
func TestVersionOfATargetIsBounded(t *testing.T) {
	for name, version := range map[string]string{"long": strings.Repeat("v", 10_000), "no UTF-8": "v1\xff\x1b[2J\n"} {
		t.Run(name, func(t *testing.T) {
			h := start(t, patiently())
			a := newAPIServer(t, newStore("uid-a"))
			a.mu.Lock()
			a.version = version
			a.mu.Unlock()
			key := h.register("a", a.kubeconfig("x"))
			h.expectState(key, StateConnected)
			st, _ := h.cache.GetStatus(key)
			h.Expect(len(st.KubernetesVersion)).To(And(BeNumerically(">", 0), BeNumerically("<=", 128)))
			h.Expect(utf8.ValidString(st.KubernetesVersion)).To(BeTrue())
			h.Expect(strings.ContainsAny(st.KubernetesVersion, "\n\x1b")).To(BeFalse())
		})
	}
}

// A UID is written to annotations and conditions, and compared: a shortened one would be another one.
func TestUIDThatNoAPIServerAssignsIsNoIdentity(t *testing.T) {
	for name, uid := range map[string]string{"long": strings.Repeat("u", 129), "of several lines": "a\nb"} {
		t.Run(name, func(t *testing.T) {
			h := start(t, patiently())
			a := newAPIServer(t, newStore("uid-a"))
			a.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != identityPath {
					return false
				}
				writeJSON(w, "application/json", &metav1.PartialObjectMetadata{
					ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(uid)},
				})
				return true
			})
			key := h.register("a", a.kubeconfig("x"))
			h.expectState(key, StateDisconnected)
			st, _ := h.cache.GetStatus(key)
			h.Expect(st.UID).To(BeEmpty())
			h.Expect(len(st.Message)).To(BeNumerically("<", 1024))
		})
	}
}
