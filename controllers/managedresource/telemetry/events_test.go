package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// counting counts what reaches the events client. It drops their content.
type counting map[types.UID]int

func (c counting) Eventf(regarding, _ runtime.Object, _, _, _, _ string, _ ...any) {
	if mr, ok := regarding.(*resourcesv1alpha1.ManagedResource); ok {
		c[mr.UID]++
	}
}

func TestEventsOfAManagedResourceAreLimited(t *testing.T) {
	g := NewWithT(t)
	clock := testclock.NewFakePassiveClock(time.Now())
	written := counting{}
	r := NewRecorder(written, clock, nil)
	loud := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{UID: "loud"}}
	other := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{UID: "other"}}
	for range 10 * eventBurst {
		r.recreated(loud, inventory.Key{})
	}
	r.recreated(other, inventory.Key{})
	g.Expect(written).To(Equal(counting{"loud": eventBurst, "other": 1}))
	clock.SetTime(clock.Now().Add(2 * eventPause))
	for range eventBurst {
		r.recreated(loud, inventory.Key{})
	}
	g.Expect(written["loud"]).To(Equal(eventBurst + 2))
	clock.SetTime(clock.Now().Add(time.Hour))
	for range 10 * eventBurst {
		r.recreated(loud, inventory.Key{})
	}
	g.Expect(written["loud"]).To(Equal(2*eventBurst + 2))
}

// Only this event says which objects stay, and many other events may have been written before.
func TestEventOfWhatStaysBehindIsWrittenWhateverWasWrittenBefore(t *testing.T) {
	g := NewWithT(t)
	written := counting{}
	r := NewRecorder(written, testclock.NewFakePassiveClock(time.Now()), nil)
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{UID: "loud"}}
	for range 2 * eventBurst {
		r.recreated(mr, inventory.Key{})
	}
	r.released(mr, "it is a test", nil)
	g.Expect(written["loud"]).To(Equal(eventBurst + 1))
}

// A field manager, a field and a name in a forged inventory can be of any length, and need not be valid text.
func TestEventsAreBoundedWhateverTheTargetSays(t *testing.T) {
	for name, text := range map[string]string{"long": strings.Repeat("m", 1<<20), "no UTF-8": "m\xff\xfe\n\x1b[2J"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var last lastEvent
			r := NewRecorder(&last, testclock.NewFakePassiveClock(time.Now()), nil)
			var foreign []ownership.Foreign
			for i := range 100 {
				foreign = append(foreign, ownership.Foreign{
					Manager: fmt.Sprint(i) + text, Fields: fieldpath.NewSet(fieldpath.MakePathOrDie("data", text)),
				})
			}
			key := inventory.Key{Group: text, Kind: text, Namespace: text, Name: text}
			mr := &resourcesv1alpha1.ManagedResource{}
			r.Corrected(mr, Drift{Intent: apply.Intent{Key: key}, By: foreign})
			g.Expect(last.note).NotTo(BeEmpty())
			g.Expect(len(last.note)).To(BeNumerically("<=", noteLimit))
			about := *last.related
			for _, said := range []string{last.note, about.Kind, about.Namespace, about.Name, about.FieldPath} {
				g.Expect(len(said)).To(BeNumerically("<=", 1024))
				g.Expect(utf8.ValidString(said)).To(BeTrue())
				g.Expect(strings.ContainsAny(said, "\n\x1b")).To(BeFalse())
			}
			g.Expect(len(describeForeign(foreign))).To(BeNumerically("<=", 8<<10), "it is remembered and shown in a condition")
		})
	}
}

// lastEvent keeps the last event.
type lastEvent struct {
	note    string
	related *corev1.ObjectReference
}

func (e *lastEvent) Eventf(_, related runtime.Object, _, _, _, format string, args ...any) {
	e.note = fmt.Sprintf(format, args...)
	e.related, _ = related.(*corev1.ObjectReference)
}

// lastNote keeps the note of the last event.
type lastNote string

func (n *lastNote) Eventf(_, _ runtime.Object, _, _, _, format string, args ...any) {
	*n = lastNote(fmt.Sprintf(format, args...))
}

// An API server refuses an event with a longer note, and takes half a letter for three bytes.
func TestEventsHaveNotesThatAreAccepted(t *testing.T) {
	g := NewWithT(t)
	var note lastNote
	r := NewRecorder(&note, testclock.NewFakePassiveClock(time.Now()), nil)
	for length := range 5 {
		r.released(&resourcesv1alpha1.ManagedResource{}, strings.Repeat("x", length)+strings.Repeat("ü", noteLimit), nil)
		g.Expect(utf8.ValidString(string(note))).To(BeTrue())
		g.Expect(len(note)).To(And(BeNumerically("<=", noteLimit), BeNumerically(">", noteLimit-5)))
		g.Expect(string(note)).To(HaveSuffix("..."))
	}
}

func TestW19_EventsReportChangesOnly(t *testing.T) {
	failed := conditions.Condition{Status: resourcesv1alpha1.ConditionFalse, Reason: resourcesv1alpha1.ReasonApplyFailed, Message: "one failed"}
	failedToo := conditions.Condition{Status: resourcesv1alpha1.ConditionFalse, Reason: resourcesv1alpha1.ReasonApplyFailed, Message: "two failed"}
	fine := conditions.Condition{Status: resourcesv1alpha1.ConditionTrue, Reason: resourcesv1alpha1.ReasonApplySucceeded, Message: "all applied"}
	for name, c := range map[string]struct {
		before *conditions.Condition
		now    conditions.Condition
		events int
	}{
		"the first run fails":       {nil, failed, 1},
		"it fails the same way":     {&failed, failed, 0},
		"it fails another way":      {&failed, failedToo, 1},
		"it does not fail any more": {&failed, fine, 1},
		"the first run succeeds":    {nil, fine, 0},
		"it goes on succeeding":     {&fine, fine, 0},
	} {
		t.Run(name, func(t *testing.T) {
			written := counting{}
			NewRecorder(written, testclock.NewFakePassiveClock(time.Now()), nil).Applied(
				&resourcesv1alpha1.ManagedResource{}, c.before, c.now)
			NewWithT(t).Expect(written[""]).To(Equal(c.events))
		})
	}
}
