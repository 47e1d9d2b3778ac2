package notes_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/notes"
	"github.com/trellis-hub/trellis/engine/inventory"
)

var (
	mr      = types.NamespacedName{Namespace: "a", Name: "mr"}
	cluster = clustercache.ClusterKey{Namespace: "a", Name: "target"}
	service = inventory.Key{Kind: "Service", Namespace: "a", Name: "s"}
	noon    = time.Date(2026, 11, 21, 12, 0, 0, 0, time.FixedZone("east", 3600))
)

// world is a target in which events say what the test wants, and a running Reader.
type world struct {
	*WithT
	*notes.Reader
	clock    *clocktesting.FakeClock
	reads    atomic.Int32
	notified atomic.Int32

	mu      sync.Mutex
	message string
	err     error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{WithT: NewWithT(t), clock: clocktesting.NewFakeClock(noon), message: "no quota"}
	target := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			w.reads.Add(1)
			if _, bounded := ctx.Deadline(); !bounded {
				return errors.New("a read without a deadline")
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.err != nil {
				return w.err
			}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Event{
				Source: corev1.EventSource{Component: "cloud"}, Reason: "SyncFailed", Message: w.message, Count: 1, FirstTimestamp: metav1.NewTime(noon), LastTimestamp: metav1.NewTime(noon),
			})
			if events, ok := list.(*unstructured.UnstructuredList); ok {
				events.Items = []unstructured.Unstructured{{Object: content}}
			}
			return err
		},
	}).Build()
	w.Reader = notes.New(notes.Options{
		Client: func(context.Context, clustercache.ClusterKey) (client.Client, error) { return target, nil },
		Notify: func(types.NamespacedName) { w.notified.Add(1) }, Clock: w.clock, Logger: logr.Discard(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

func (w *world) says(message string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.message, w.err = message, err
}

// ask returns the last note.
func (w *world) ask() (note string, pending bool) {
	notes, pending := w.Of(mr, cluster, service)
	if len(notes) > 0 {
		note = notes[len(notes)-1]
	}
	return note, pending
}

func (w *world) awaitNotified(times int32) {
	w.Eventually(w.notified.Load).WithTimeout(2 * time.Minute).Should(Equal(times))
}

const noted = "- cloud, at 2026-11-21T11:00:00Z: SyncFailed: "

func TestReaderReadsOnceAPause(t *testing.T) {
	w := newWorld(t)
	note, pending := w.ask()
	w.Expect(note).To(BeEmpty())
	w.Expect(pending).To(BeTrue(), "a notification will follow")
	w.awaitNotified(1)
	for range 10 {
		note, pending = w.ask()
		w.Expect(note).To(Equal(noted + "no quota"))
		w.Expect(pending).To(BeFalse())
		w.clock.Step(notes.Pause / 20)
	}
	w.Expect(w.reads.Load()).To(BeEquivalentTo(1))

	w.clock.Step(notes.Pause)
	w.ask()
	w.Eventually(w.reads.Load).Should(BeEquivalentTo(2))
	w.says("no address", nil)
	w.Eventually(func() int32 { w.clock.Step(notes.Pause); w.ask(); return w.notified.Load() }).Should(BeEquivalentTo(2),
		"the same text does not notify, and another text does")
	note, _ = w.ask()
	w.Expect(note).To(Equal(noted + "no address"))
}

func TestReaderKeepsWhatItKnowsWhenItCannotRead(t *testing.T) {
	w := newWorld(t)
	w.says("", errors.New("forbidden"))
	w.ask()
	w.awaitNotified(1) // a failed read notifies, too
	note, pending := w.ask()
	w.Expect(note).To(BeEmpty())
	w.Expect(pending).To(BeFalse())

	w.says("no quota", nil)
	w.clock.Step(notes.Pause)
	w.ask()
	w.awaitNotified(2)
	w.says("", errors.New("forbidden"))
	w.clock.Step(notes.Pause)
	reads := w.reads.Load()
	w.ask()
	w.Eventually(w.reads.Load).Should(Equal(reads + 1))
	note, _ = w.ask()
	w.Expect(note).To(Equal(noted + "no quota"))
}

func TestReaderKeepsWhatIsStillAskedFor(t *testing.T) {
	w := newWorld(t)
	w.ask()
	w.awaitNotified(1)
	w.clock.Step(notes.Pause)
	w.Keep(mr, service)
	note, _ := w.ask()
	w.Expect(note).To(Equal(noted + "no quota"))
}

func TestReaderForgets(t *testing.T) {
	w := newWorld(t)
	w.ask()
	w.awaitNotified(1)
	w.Keep(mr)
	note, _ := w.ask()
	w.Expect(note).NotTo(BeEmpty(), "an object that flaps is not read again and again")
	w.clock.Step(notes.Pause)
	w.Keep(mr, service)
	w.Keep(mr)
	note, pending := w.ask()
	w.Expect(note).To(BeEmpty())
	w.Expect(pending).To(BeTrue())
	w.awaitNotified(2)
	w.Forget(mr)
	note, _ = w.ask()
	w.Expect(note).To(BeEmpty())
}
