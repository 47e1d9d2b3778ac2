package targetcluster

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// TestWhatFlapsHasAFewEvents has a condition turn once a second.
func TestWhatFlapsHasAFewEvents(t *testing.T) {
	g := NewWithT(t)
	clock, sink := clocktesting.NewFakePassiveClock(now), events.NewFakeRecorder(1000)
	r := newRecorder(sink, clock)
	flap := func(name string, seconds int) int {
		tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		for i := range seconds {
			before := *tc.Status.DeepCopy()
			status := []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue}[i%2]
			meta.SetStatusCondition(&tc.Status.Conditions, metav1.Condition{Type: hubv1alpha1.ConditionReady, Status: status, Reason: fmt.Sprint("Reason", status)})
			r.statusChanged(tc, before)
			clock.SetTime(clock.Now().Add(time.Second))
		}
		n := len(sink.Events)
		for range n {
			<-sink.Events
		}
		return n
	}
	g.Expect(flap("b", 10)).To(Equal(10), "a user wants to read these")
	g.Expect(flap("b", 3600)).To(BeNumerically("~", 3600/30, 10))
	g.Expect(flap("c", 10)).To(Equal(10), "another target has its own budget")
	r.forget(types.NamespacedName{Namespace: "a", Name: "b"})
	g.Expect(flap("b", 10)).To(Equal(10), "a new one of the same name begins anew")
}

// TestIdentityIsReportedWhateverFlaps exhausts the rate limit of all other events first.
func TestIdentityIsReportedWhateverFlaps(t *testing.T) {
	g := NewWithT(t)
	sink := events.NewFakeRecorder(1000)
	r := newRecorder(sink, clocktesting.NewFakePassiveClock(now))
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
	turn := func(status metav1.ConditionStatus, reason string) {
		before := *tc.Status.DeepCopy()
		meta.SetStatusCondition(&tc.Status.Conditions, metav1.Condition{Type: hubv1alpha1.ConditionReady, Status: status, Reason: reason})
		r.statusChanged(tc, before)
	}
	for i := range 2 * eventsAtOnce {
		turn([]metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue}[i%2], "Any")
	}
	g.Expect(sink.Events).To(HaveLen(eventsAtOnce))
	for range eventsAtOnce {
		<-sink.Events
	}
	turn(metav1.ConditionFalse, hubv1alpha1.ReasonIdentityChanged)
	g.Expect(<-sink.Events).To(And(ContainSubstring(hubv1alpha1.ReasonIdentityChanged), ContainSubstring("after %d events", eventsAtOnce)))
	turn(metav1.ConditionFalse, hubv1alpha1.ReasonDuplicateRegistration)
	g.Expect(<-sink.Events).To(ContainSubstring(hubv1alpha1.ReasonDuplicateRegistration))
	before := *tc.Status.DeepCopy()
	before.ClusterUID, tc.Status.ClusterUID = "old", "new"
	r.statusChanged(tc, before)
	g.Expect(<-sink.Events).To(ContainSubstring(reasonIdentityConfirmed))
	for range 3 * eventsAtOnce {
		turn(metav1.ConditionFalse, hubv1alpha1.ReasonIdentityChanged)
		turn(metav1.ConditionFalse, hubv1alpha1.ReasonDuplicateRegistration)
	}
	g.Expect(sink.Events).To(HaveLen(eventsAtOnce-3), "these have a bound, too")
}
