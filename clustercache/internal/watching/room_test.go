package watching

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
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
	clocktesting "k8s.io/utils/clock/testing"
)

const patience = 20 * time.Second

var configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// site is a server with so many objects, which are listed in pages, and a watch that brings what is sent.
type site struct {
	*httptest.Server
	objects atomic.Int32
	lists   atomic.Int32
	events  chan string
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

// heard is a Handler that remembers.
type heard struct {
	mu      sync.Mutex
	deleted []string
	errs    []error
	synced  int
}

func (h *heard) OnUpdate(types.NamespacedName, string, types.NamespacedName, any, any) {}
func (h *heard) OnDelete(_ types.NamespacedName, _ string, key types.NamespacedName, _ any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deleted = append(h.deleted, key.Name)
}

func (h *heard) OnSynced(types.NamespacedName, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.synced++
}

func (h *heard) OnError(_ types.NamespacedName, _ string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

func (h *heard) told() (deleted []string, errs []error, synced int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.deleted...), append([]error(nil), h.errs...), h.synced
}

// fixedMapper knows the resources of built-in kinds.
type fixedMapper struct{ *meta.DefaultRESTMapper }

func (fixedMapper) Reset() {}

// setting is a target with room for so many objects.
type setting struct {
	g     *WithT
	t     *testing.T
	clock *clocktesting.FakeClock
	room  *Room
	told  atomic.Int32 // how often what Refused says has changed
}

func newSetting(t *testing.T, most int) *setting {
	before := goleak.IgnoreCurrent()
	s := &setting{g: NewWithT(t), t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	s.g.SetDefaultEventuallyTimeout(patience)
	s.room = NewRoom(most, func() { s.told.Add(1) })
	t.Cleanup(func() {
		s.g.Eventually(func() error { return goleak.Find(before) }).Should(Succeed())
		s.g.Expect(s.taken()).To(BeZero(), "all room is given back")
	})
	return s
}

// watch runs a watch of a site until the test ends.
func (s *setting) watch(name string, of *site) (*Declared, *heard) {
	address, err := url.Parse(of.URL)
	s.g.Expect(err).NotTo(HaveOccurred())
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(configMaps, meta.RESTScopeNamespace)
	told := &heard{}
	w := Declare(s.t.Context(), Spec{Name: name, Kind: configMaps, MetadataOnly: true, Handler: told, Room: s.room})
	transport := &http.Transport{}
	b := Bind(w, &Connection{
		Context: s.t.Context(), Mapper: fixedMapper{mapper}, Client: &http.Client{Transport: transport}, Server: address,
		Clock: s.clock, Logger: logr.Discard(), Events: &atomic.Uint64{},
	})
	w.Promote(b)
	var running sync.WaitGroup
	running.Go(b.Run)
	s.t.Cleanup(func() {
		w.Close()
		running.Wait()
		transport.CloseIdleConnections()
	})
	return w, told
}

func (s *setting) taken() int {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return s.room.taken
}

func state(w *Declared) func() [2]any {
	return func() [2]any {
		synced, objects := w.State()
		return [2]any{synced, objects}
	}
}

// A list that does not fit is not kept, and says nothing. Others are not concerned, and it is tried again, not often.
func TestListThatDoesNotFit(t *testing.T) {
	s := newSetting(t, 10)
	small, large := newSite(t, 3), newSite(t, 1000)
	w, _ := s.watch("small", small)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 3}))

	tooLarge, told := s.watch("large", large)
	s.g.Eventually(s.room.Refused).Should(Equal("there are more than 10 objects; not all are known of: large"))
	s.g.Eventually(s.taken).Should(Equal(3))
	_, errs, synced := told.told()
	s.g.Expect(errs).To(HaveExactElements(MatchError(ErrTooMany)))
	s.g.Expect(synced).To(BeZero())
	s.g.Expect(state(tooLarge)()).To(Equal([2]any{false, 0}))
	s.g.Expect(state(w)()).To(Equal([2]any{true, 3}))

	large.objects.Store(7)
	s.g.Eventually(s.clock.HasWaiters).Should(BeTrue())
	s.clock.Step(fullRetry - time.Second)
	s.g.Expect(s.clock.HasWaiters()).To(BeTrue(), "the pause is not over")
	s.g.Expect(large.lists.Load()).To(BeEquivalentTo(1))
	s.clock.Step(fullRetry)
	s.g.Eventually(state(tooLarge)).Should(Equal([2]any{true, 7}))
	s.g.Expect(s.room.Refused()).To(BeEmpty())
	s.g.Expect(s.told.Load()).To(BeEquivalentTo(2))
	s.g.Expect(s.taken()).To(Equal(10))
}

// What a watch knows stays when there is no room for more, and nothing counts as deleted.
func TestEventThatDoesNotFit(t *testing.T) {
	s := newSetting(t, 5)
	of := newSite(t, 5)
	w, told := s.watch("full", of)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 5}))

	of.objects.Store(6)
	of.events <- `{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-0","resourceVersion":"101"}}}`
	of.events <- `{"type":"ADDED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-5","resourceVersion":"102"}}}`
	s.g.Eventually(s.room.Refused).Should(ContainSubstring("full"))
	s.g.Expect(state(w)()).To(Equal([2]any{false, 5}))
	deleted, errs, _ := told.told()
	s.g.Expect(deleted).To(BeEmpty())
	s.g.Expect(errs).To(HaveExactElements(MatchError(ErrTooMany)))

	of.objects.Store(4)
	s.g.Eventually(s.clock.HasWaiters).Should(BeTrue())
	s.clock.Step(2 * fullRetry)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 4}))
	deleted, _, _ = told.told()
	s.g.Expect(deleted).To(Equal([]string{"object-4"}), "now it is known")
	s.g.Expect(s.room.Refused()).To(BeEmpty())
	s.g.Expect(s.taken()).To(Equal(4))
}

// A list that is taken anew counts once with the one that it replaces.
func TestListThatIsTakenAnewFits(t *testing.T) {
	s := newSetting(t, 5)
	of := newSite(t, 5)
	w, _ := s.watch("full", of)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 5}))
	of.events <- `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`
	s.g.Eventually(func() int32 {
		if s.clock.HasWaiters() {
			s.clock.Step(time.Minute)
		}
		return of.lists.Load()
	}).Should(BeEquivalentTo(2))
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 5}))
	s.g.Expect(s.told.Load()).To(BeZero())
}

func TestWatchThatGoesGivesItsRoomBack(t *testing.T) {
	s := newSetting(t, 5)
	first, _ := s.watch("first", newSite(t, 5))
	s.g.Eventually(state(first)).Should(Equal([2]any{true, 5}))
	second, _ := s.watch("second", newSite(t, 1))
	s.g.Eventually(s.room.Refused).Should(ContainSubstring("second"))
	first.Close()
	s.g.Expect(s.taken()).To(BeZero())
	s.g.Eventually(s.clock.HasWaiters).Should(BeTrue())
	s.clock.Step(2 * fullRetry)
	s.g.Eventually(state(second)).Should(Equal([2]any{true, 1}))
	s.g.Expect(s.room.Refused()).To(BeEmpty())
}

// The first objects of a list that is taken anew give nothing back: what it replaces is still there.
func TestShorterListNeedsNoRoom(t *testing.T) {
	g := NewWithT(t)
	r := NewRoom(5, func() {})
	w := Declare(t.Context(), Spec{Room: r})
	g.Expect(w.reserve(5)).To(BeTrue())
	g.Expect(w.reserve(1)).To(BeTrue())
	g.Expect(r.take(1)).To(BeFalse())
	w.Close()
	g.Expect(w.reserve(1)).To(BeFalse(), "it has ended")
	g.Expect(r.take(5)).To(BeTrue())
}

func TestRefusedShowsAFewNames(t *testing.T) {
	g := NewWithT(t)
	r := NewRoom(1, func() {})
	g.Expect(r.Refused()).To(BeEmpty())
	for i := range 8 {
		r.refuse(&Declared{spec: Spec{Name: fmt.Sprint("kind-", i)}}, true)
	}
	g.Expect(r.Refused()).To(HaveSuffix(strings.Join([]string{"kind-0", "kind-1", "kind-2", "kind-3", "kind-4"}, ", ") + " and 3 more"))
}
