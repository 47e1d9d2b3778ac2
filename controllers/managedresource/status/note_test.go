package status

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	clustersfake "github.com/trellis-hub/trellis/clustercache/fake"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/store"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// noting is a reconciler right after a run of everything, with all that it takes to note it.
type noting struct {
	*WithT
	tracker *tracker.Tracker
	notes   *AppliedWriter
	t       *testing.T
	server  client.Client
	clock   *clocktesting.FakeClock
	work    *run.Subject
}

const (
	appliedInput = "input" // what was applied
	later        = 10 * time.Minute
)

func ran(t *testing.T) noting {
	t.Helper()
	g := NewWithT(t)
	mr := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "first", Labels: map[string]string{"team": "x"}},
		Status: resourcesv1alpha1.ManagedResourceStatus{Resources: []resourcesv1alpha1.ObjectReference{{
			ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "c", Name: "d"},
		}}},
	}
	scheme := runtime.NewScheme()
	g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mr).WithStatusSubresource(mr).Build()
	g.Expect(server.Get(t.Context(), client.ObjectKeyFromObject(mr), mr)).To(Succeed())
	cluster := clustercache.ClusterKey{Namespace: "a", Name: "target"}
	clusters := clustersfake.New(nil)
	clusters.Add(cluster, clustersfake.Target{})
	n := noting{WithT: g, t: t, server: server, clock: clocktesting.NewFakeClock(time.Unix(1e9, 0))}
	n.work = &run.Subject{
		Name: client.ObjectKeyFromObject(mr), Target: cluster, MR: mr, State: &run.State{}, Clock: n.clock,
	}
	n.tracker = tracker.New(tracker.Options{
		Clusters: clusters, Selector: labels.Everything(), Clock: n.clock, Notify: func(types.NamespacedName, tracker.Cause) {},
	})
	n.notes = &AppliedWriter{Store: store.New(server, server, func(*resourcesv1alpha1.ManagedResource) {}),
		Tracker: n.tracker}
	g.Expect(n.tracker.Track(t.Context(), n.work.Name, cluster, mr.Status.Resources, tracker.Exact{})).To(Succeed())
	n.accept("uid")
	n.work.State.NoteDue = n.clock.Now().Add(NoteDelay)
	return n
}

// accept has the one object be right.
func (n noting) accept(uid types.UID) {
	n.tracker.Accept(n.work.Name, inventory.KeyOf(n.work.MR.Status.Resources[0]), tracker.Accepted{UID: uid})
}

// look is a later run that finds nothing to do until a time.
func (n noting) look(input string, until time.Duration) reconcile.Result {
	n.t.Helper()
	result, err := n.notes.WriteWhenDue(n.t.Context(), n.work, input, reconcile.Result{RequeueAfter: until})
	n.Expect(err).NotTo(HaveOccurred())
	return result
}

// note is what the server has.
func (n noting) note() string {
	n.t.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	n.Expect(n.server.Get(n.t.Context(), n.work.Name, mr)).To(Succeed())
	return mr.Annotations[hubv1alpha1.AppliedAnnotation]
}

func TestNoteIsWrittenWhenItIsDue(t *testing.T) {
	n := ran(t)
	n.Expect(n.look(appliedInput, later)).To(
		SatisfyAll(HaveField("RequeueAfter", NoteDelay), HaveField("Priority", HaveValue(Equal(dispatch.PriorityResync)))))
	n.clock.Step(NoteDelay / 2)
	n.Expect(n.look(appliedInput, time.Millisecond)).To(
		Equal(reconcile.Result{RequeueAfter: time.Millisecond}), "an earlier look is due anyway")
	n.Expect(n.note()).To(BeEmpty())

	n.clock.Step(NoteDelay / 2)
	n.Expect(n.look(appliedInput, later)).To(Equal(reconcile.Result{RequeueAfter: later}))
	note, ok := ParseApplied(n.note())
	n.Expect(ok).To(BeTrue())
	states, _ := n.tracker.AcceptedStates(n.work.Name)
	n.Expect(note).To(Equal(Applied{Input: appliedInput, Fingerprint: tracker.Fingerprint(states)}))
}

func TestNoteThatIsWrittenIsNotWrittenAgain(t *testing.T) {
	n := ran(t)
	n.clock.Step(NoteDelay)
	n.look(appliedInput, later)
	before := n.note()
	n.accept("another")
	n.Expect(n.look(appliedInput, later)).To(Equal(reconcile.Result{RequeueAfter: later}))
	n.Expect(n.note()).To(Equal(before), "corrections write theirs themselves")
}

func TestNoteWaitsForTheLastOfManyRuns(t *testing.T) {
	n := ran(t)
	for range 5 {
		n.clock.Step(NoteDelay - time.Millisecond)
		n.work.State.NoteDue = n.clock.Now().Add(NoteDelay) // as a run of everything does
		n.Expect(n.look(appliedInput, later).RequeueAfter).To(Equal(NoteDelay))
	}
	n.Expect(n.note()).To(BeEmpty())
	n.clock.Step(NoteDelay)
	n.look("last", later)
	n.Expect(n.note()).To(HavePrefix("last."))
}

func TestNoteThatFailedStaysDue(t *testing.T) {
	n := ran(t)
	n.clock.Step(NoteDelay)
	other := n.work.MR.DeepCopy()
	other.Labels["team"] = "y"
	n.Expect(n.server.Update(t.Context(), other)).To(Succeed())
	_, err := n.notes.WriteWhenDue(t.Context(), n.work, appliedInput, reconcile.Result{})
	n.Expect(err).To(MatchError(apierrors.IsConflict, "Conflict"))

	n.work.MR, err = n.notes.Store.Get(t.Context(), n.work.Name)
	n.Expect(err).NotTo(HaveOccurred())
	n.look(appliedInput, later)
	n.Expect(n.note()).To(HavePrefix(appliedInput + "."))
}

func TestNothingIsNotedWhileSomethingIsNotKnown(t *testing.T) {
	n := ran(t)
	n.tracker.Forget(n.work.Name)
	refs := n.work.MR.Status.Resources
	n.Expect(n.tracker.Track(t.Context(), n.work.Name, n.work.Target, refs, tracker.Exact{})).To(Succeed())
	n.clock.Step(NoteDelay)
	n.look(appliedInput, later)
	n.Expect(n.note()).To(BeEmpty())
	n.accept("uid")
	n.look(appliedInput, later)
	n.Expect(n.note()).NotTo(BeEmpty(), "it is made good")
}

// What failed is applied again after the next start, whatever was right before.
func TestFailureTakesBackTheNoteWrittenOrNot(t *testing.T) {
	for name, before := range map[string]time.Duration{"before it is written": 0, "when it is written": NoteDelay} {
		t.Run(name, func(t *testing.T) {
			n := ran(t)
			n.clock.Step(before)
			n.look(appliedInput, later)
			n.Expect(n.notes.TakeBack(t.Context(), n.work, appliedInput)).To(Succeed())
			n.clock.Step(NoteDelay)
			n.Expect(n.look(appliedInput, later)).To(Equal(reconcile.Result{RequeueAfter: later}))
			n.Expect(n.note()).To(BeEmpty())
		})
	}
}
