package tracker_test

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
)

func TestRunThatAwaitsTheWatchesIsNotNotified(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	refs := []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a")}
	g.Expect(s.Track(t.Context(), mr1, cluster, refs, tracker.Exact{})).To(Succeed())
	s.clusters.Sync(cluster, watch, true)
	version := 10
	// The watch may be quicker than the goroutine, now and then.
	g.Eventually(func(g Gomega) {
		version++
		s.Accept(mr1, key, accepted(strconv.Itoa(version)))
		s.causes()
		shown := make(chan struct{})
		go func() {
			defer close(shown)
			s.AwaitShown(t.Context(), mr1, time.Hour)
		}()
		g.Consistently(shown, 20*time.Millisecond).ShouldNot(BeClosed())
		s.clusters.Put(cluster, watch, configMap(strconv.Itoa(version), ""))
		g.Eventually(shown, time.Minute).Should(BeClosed())
		g.Expect(s.causes()).To(BeEmpty())
	}, time.Minute).Should(Succeed())
	g.Expect(s.Judge(mr1).Unseen).To(BeZero())
}

func TestAwaitingTheWatchesEnds(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	s.AwaitShown(t.Context(), types.NamespacedName{Name: "unknown"}, time.Hour)
	refs := []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a")}
	g.Expect(s.Track(t.Context(), mr1, cluster, refs, tracker.Exact{})).To(Succeed())
	s.clusters.Sync(cluster, watch, true)
	s.AwaitShown(t.Context(), mr1, time.Hour) // nothing was written
	s.Accept(mr1, key, accepted("10"))
	s.causes()
	s.AwaitShown(t.Context(), mr1, time.Millisecond)
	g.Expect(s.Judge(mr1).Unseen).To(Equal(1))
	s.clusters.Put(cluster, watch, configMap("10", ""))
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth), "after the wait ended there is a notification")
}
