package targetcluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

func TestDraftStandsForALookOnlyWhileNothingIsNew(t *testing.T) {
	const revision = 7
	for name, test := range map[string]struct {
		change func(tc *hubv1alpha1.TargetCluster, revision *uint64, now *time.Time)
		stands bool
	}{
		"nothing":                      {func(*hubv1alpha1.TargetCluster, *uint64, *time.Time) {}, true},
		"some time":                    {func(_ *hubv1alpha1.TargetCluster, _ *uint64, now *time.Time) { *now = now.Add(29 * time.Second) }, true},
		"as much as a look may be old": {func(_ *hubv1alpha1.TargetCluster, _ *uint64, now *time.Time) { *now = now.Add(30 * time.Second) }, false},
		"another revision": {func(_ *hubv1alpha1.TargetCluster, revision *uint64, _ *time.Time) { *revision++ },
			false},
		"another version":         {func(tc *hubv1alpha1.TargetCluster, _ *uint64, _ *time.Time) { tc.ResourceVersion = "2" }, false},
		"another one of its name": {func(tc *hubv1alpha1.TargetCluster, _ *uint64, _ *time.Time) { tc.UID = "b" }, false},
		"one that goes":           {func(tc *hubv1alpha1.TargetCluster, _ *uint64, _ *time.Time) { tc.DeletionTimestamp = &metav1.Time{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			key := clustercache.ClusterKey{Namespace: "one", Name: "a"}
			tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "a", ResourceVersion: "1"}}
			r := &reconciler{drafts: map[clustercache.ClusterKey]draft{}}
			r.keepDraft(key, draft{tc: tc.DeepCopy(), version: "1", seen: observation{revision: revision},
				again: now.Add(30 * time.Second)})
			of, at := uint64(revision), now
			test.change(tc, &of, &at)
			g.Expect(r.takeDraft(key).standsFor(tc, of, at)).To(Equal(test.stands))
			g.Expect(r.takeDraft(key).standsFor(tc, of, at)).To(BeFalse(), "it is taken once")
		})
	}
	NewWithT(t).Expect(draft{}.standsFor(nil, 0, now)).To(BeFalse())
}

func TestDraftWaitsForAnInformerThatIsLate(t *testing.T) {
	target := func(version string) *hubv1alpha1.TargetCluster {
		return &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: version}}
	}
	again := now.Add(time.Minute)
	written := draft{tc: target("2"), before: "1", version: "2", again: again}
	for name, test := range map[string]struct {
		d     draft
		tc    *hubv1alpha1.TargetCluster
		now   time.Time
		ahead bool
	}{
		"what was there before":         {written, target("1"), now, true},
		"for as long as it says":        {written, target("1"), again, false},
		"what was written":              {written, target("2"), now, false},
		"what others wrote":             {written, target("3"), now, false},
		"another one of its name":       {written, &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{UID: "b", ResourceVersion: "1"}}, now, false},
		"one that is gone":              {written, nil, now, false},
		"where nothing was written yet": {draft{tc: target("1"), before: "1", version: "1", again: again}, target("1"), now, false},
		"where nothing waits":           {draft{}, target(""), now, false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(test.d.isAhead(test.tc, test.now)).To(Equal(test.ahead))
		})
	}
}

func TestLossKeepsItsReasonWhileItsConnectionIsHeld(t *testing.T) {
	const lost, unreachable = clustercache.ReasonProbeFailed, clustercache.ReasonUnreachable
	for _, test := range []struct {
		state            clustercache.State
		reason, reported string
		held             bool
	}{
		{clustercache.StateDisconnected, lost, lost, true},
		{clustercache.StateDisconnected, unreachable, lost, true},
		{clustercache.StateDisconnected, unreachable, unreachable, false},
		{clustercache.StateDisconnected, clustercache.ReasonUnauthorized, clustercache.ReasonUnauthorized, true},
		{clustercache.StateDraining, unreachable, unreachable, true},
	} {
		status := clustercache.Status{State: test.state, Reason: test.reason, Message: "m", InGrace: test.held}
		NewWithT(t).Expect(withStableReason(status)).To(
			And(HaveField("Reason", test.reported), HaveField("Message", "m")), "%+v", test)
	}
}
