package csrapprover

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// "Not found" may be the answer of a proxy, whose word about a Node would be a final decision.
func TestWhoSaysThatAnObjectDoesNotExist(t *testing.T) {
	g := NewWithT(t)
	nodes := corev1.Resource("nodes")
	g.Expect(absent(apierrors.NewNotFound(nodes, "n1"))).To(BeTrue())
	proxy := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", nodes, "n1", "404 page not found", 0, true)
	g.Expect(apierrors.IsNotFound(proxy)).To(BeTrue(), "otherwise this shows nothing")
	g.Expect(absent(proxy)).To(BeFalse())
	g.Expect(absent(apierrors.NewForbidden(nodes, "n1", nil))).To(BeFalse())
}

func TestWhatIsKeptOfARequest(t *testing.T) {
	tests := map[string]struct {
		status any
		want   bool
	}{
		"new":         {nil, false},
		"approved":    {map[string]any{"conditions": []any{map[string]any{"type": "Approved"}}}, true},
		"denied":      {map[string]any{"conditions": []any{map[string]any{"type": "Denied"}}}, true},
		"failed":      {map[string]any{"conditions": []any{map[string]any{"type": "Failed"}}}, false},
		"issued":      {map[string]any{"certificate": "AAAA"}, true},
		"a text":      {"approved", false},
		"a condition": {map[string]any{"conditions": "Approved"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			object := &unstructured.Unstructured{Object: map[string]any{"status": test.status}}
			g.Expect(isDecided(object)).To(Equal(test.want))
			var requests []types.NamespacedName
			if !test.want {
				requests = []types.NamespacedName{{Name: "csr"}}
			}
			g.Expect(undecided(types.NamespacedName{Name: "csr"}, nil, test.want)).To(Equal(requests))
		})
	}
	t.Run("deleted", func(t *testing.T) {
		NewWithT(t).Expect(undecided(types.NamespacedName{Name: "csr"}, false, nil)).To(BeEmpty())
	})
}

// D-9: the pauses fill the grace, and a clock that is wrong makes neither a long pause nor a hot loop.
func TestPausesWithinTheGrace(t *testing.T) {
	created := metav1.NewTime(time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC))
	for age, pause := range map[time.Duration]time.Duration{
		0: 2 * time.Second, 5 * time.Second: time.Second, 10*time.Second - 1: time.Second,
		10 * time.Second: 0, time.Hour: 0, -time.Hour: 10 * time.Second,
		87600 * time.Hour: 0, -87600 * time.Hour: 10 * time.Second,
	} {
		r := &reconciler{clock: clocktesting.NewFakePassiveClock(created.Add(age))}
		NewWithT(t).Expect(r.pause(created)).To(Equal(pause), "%s", age)
	}
}

// A request of a signer that was not asked for is none of ours, whatever a target sends.
func TestSigners(t *testing.T) {
	NewWithT(t).Expect(signers).To(ConsistOf(
		certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientSignerName))
	NewWithT(t).Expect(watched).To(HaveLen(len(signers)))
}
