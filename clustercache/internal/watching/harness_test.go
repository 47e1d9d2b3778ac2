package watching

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

const patience = time.Minute

// expired is the event of a watch whose version the server has forgotten.
const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`

// is is the event of an object that is new.
func is(number int) string { return event("ADDED", number, 101+number) }

func event(what string, number, version int) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-%d","resourceVersion":"%d"}}}`, what, number, version)
}

var configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// site is a server with so many objects, which are listed in pages, and a watch that brings what is sent.
type site struct {
	*httptest.Server
	objects atomic.Int32
	lists   atomic.Int32
	events  chan string
	forgets atomic.Bool // it has forgotten each version by the time of the watch
}

func newSite(t *testing.T, objects int32) *site {
	s := &site{events: make(chan string)}
	s.objects.Store(objects)
	ended := make(chan struct{})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case q.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
		case q.Get("watch") != "":
			w.Header().Set("Content-Type", "application/json")
			if s.forgets.Load() {
				_, _ = fmt.Fprintln(w, expired)
				return
			}
			for {
				_ = http.NewResponseController(w).Flush()
				select {
				case event := <-s.events:
					_, _ = fmt.Fprintln(w, event)
				case <-r.Context().Done():
					return
				case <-ended:
					return
				}
			}
		default:
			s.lists.Add(1)
			list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
			list.ResourceVersion = "100"
			for i := range s.objects.Load() {
				list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("object-", i), ResourceVersion: "1"}})
			}
			_ = json.NewEncoder(w).Encode(list)
		}
	}))
	t.Cleanup(func() { close(ended); s.Close() })
	return s
}

// recorder is a Handler that records its calls.
type recorder struct {
	mu      sync.Mutex
	updated []string // names and versions
	deleted []string
	errs    []error
	synced  int
}

func (h *recorder) OnUpdate(_ types.NamespacedName, _ string, key types.NamespacedName, _, value any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o, ok := value.(metav1.Object); ok {
		h.updated = append(h.updated, key.Name+" "+o.GetResourceVersion())
	}
}

func (h *recorder) OnDelete(_ types.NamespacedName, _ string, key types.NamespacedName, _ any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deleted = append(h.deleted, key.Name)
}

func (h *recorder) OnSynced(types.NamespacedName, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.synced++
}

func (h *recorder) OnError(_ types.NamespacedName, _ string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

func (h *recorder) changes() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.updated...)
}

func (h *recorder) calls() (deleted []string, errs []error, synced int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.deleted...), append([]error(nil), h.errs...), h.synced
}

// fixedMapper knows the resources of built-in kinds.
type fixedMapper struct{ *meta.DefaultRESTMapper }

func (fixedMapper) Reset() {}

// setting is a target with quota for so many objects.
type setting struct {
	g       *WithT
	t       *testing.T
	clock   steppedClock
	quota   *Quota
	changes atomic.Int32 // how often what Refused says has changed
}

func newSetting(t *testing.T, most int) *setting {
	before := goleak.IgnoreCurrent()
	s := &setting{g: NewWithT(t), t: t, clock: newSteppedClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	s.g.SetDefaultEventuallyTimeout(patience)
	s.quota = NewQuota(Size{Objects: most}, nil, func() { s.changes.Add(1) })
	t.Cleanup(func() {
		s.g.Eventually(func() error { return goleak.Find(before) }).Should(Succeed())
		s.g.Expect(s.taken()).To(BeZero(), "all quota is given back")
	})
	return s
}

// watch runs a watch of a site until the test ends.
func (s *setting) watch(name string, of *site) (*Stream, *recorder) {
	recorded := &recorder{}
	w := NewStream(s.t.Context(), Spec{Name: name, Kind: configMaps, MetadataOnly: true, Quota: s.quota})
	w.Subscribe(name, recorded).Join()
	s.t.Cleanup(w.Close)
	w.Promote(s.bind(w, of))
	return w, recorded
}

// bind runs a binding of a watch to a site until the test ends.
func (s *setting) bind(w *Stream, to *site) *Binding {
	address, err := url.Parse(to.URL)
	s.g.Expect(err).NotTo(HaveOccurred())
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(configMaps, meta.RESTScopeNamespace)
	transport := &http.Transport{}
	b := Bind(w, &Connection{
		Context: s.t.Context(), Mapper: fixedMapper{mapper}, Client: &http.Client{Transport: transport}, Server: address,
		Clock: s.clock, Logger: logr.Discard(), Events: &atomic.Uint64{},
	})
	var running sync.WaitGroup
	b.Start(&running)
	s.t.Cleanup(func() {
		w.Close()
		running.Wait()
		transport.CloseIdleConnections()
	})
	return b
}

// steppedClock runs the functions of AfterFunc in other goroutines, as real clocks do. The fake clock runs them
// while it holds its lock, so that a function that reads the clock would block for ever. Timers and functions
// have a fake clock each.
type steppedClock struct {
	*clocktesting.FakeClock
	callbacks *clocktesting.FakeClock
}

func newSteppedClock(now time.Time) steppedClock {
	return steppedClock{FakeClock: clocktesting.NewFakeClock(now), callbacks: clocktesting.NewFakeClock(now)}
}

func (c steppedClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return c.callbacks.AfterFunc(d, func() { go f() })
}

func (c steppedClock) Step(d time.Duration) {
	c.FakeClock.Step(d)
	c.callbacks.Step(d)
}

// pauses reports whether a watch waits for its next attempt, and none is under way that may come to that.
func (s *setting) pauses() bool { return s.clock.HasWaiters() }

// stepUntil has time pass until a site was asked for so many lists.
func (s *setting) stepUntil(of *site, lists int32) {
	s.g.Eventually(func() int32 {
		if s.clock.HasWaiters() && of.lists.Load() < lists { // in this order: while one waits, none lists
			s.clock.Step(fullRetry)
		}
		return of.lists.Load()
	}).Should(Equal(lists))
}

func (s *setting) taken() int {
	s.quota.mu.Lock()
	defer s.quota.mu.Unlock()
	return s.quota.taken.Objects
}

func state(w *Stream) func() [2]any {
	return func() [2]any {
		state := w.State()
		return [2]any{state.Synced, state.Objects}
	}
}
