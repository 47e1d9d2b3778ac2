package prune_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/engine/prune"
)

func TestWarningsOfServicesThatDoNotGo(t *testing.T) {
	w := newWorld(t, []string{"service", "lease"}, "service", "lease")
	event := func(number int, kind, eventType string) {
		seen := metav1.NewTime(time.Now().Add(time.Duration(number) * time.Minute))
		w.Expect(cluster.Client.Create(w.ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: w.ns, GenerateName: "event-"},
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: w.ns, Name: "a"},
			Type:           eventType, Reason: "SyncLoadBalancerFailed", Message: fmt.Sprintf("attempt %d\n", number), LastTimestamp: seen,
		})).To(Succeed())
	}
	for number := range 7 {
		event(number, "Service", corev1.EventTypeWarning)
	}
	event(6, "Service", corev1.EventTypeWarning) // the same once more
	event(8, "Service", corev1.EventTypeNormal)
	event(9, "Lease", corev1.EventTypeWarning)

	for range 2 {
		out := w.prune(policy)
		w.Expect(out["service"].Result).To(Equal(prune.Pending))
		w.Expect(out["service"].Reason).To(Equal("waits for finalizers [" + hold + "]; last warnings: SyncLoadBalancerFailed: attempt 3; " +
			"SyncLoadBalancerFailed: attempt 4; SyncLoadBalancerFailed: attempt 5; SyncLoadBalancerFailed: attempt 6"))
		w.Expect(out["lease"].Reason).To(Equal("waits for finalizers [" + hold + "]"))
	}
}
