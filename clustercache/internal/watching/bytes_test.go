package watching

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// with returns an event of an object with an annotation of some length.
func with(what string, number, version, length int) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":`+
		`{"name":"object-%d","resourceVersion":"%d","annotations":{"a":%q}}}}`,
		what, number, version, strings.Repeat("x", length))
}

// A few large objects fill the quota as many small ones do. Other watches are not affected.
func TestObjectsThatAreTooLarge(t *testing.T) {
	for name, events := range map[string][]string{
		"new ones":      {with("ADDED", 7, 101, 600<<10), with("ADDED", 8, 102, 600<<10)},
		"one that grew": {with("MODIFIED", 0, 101, 600<<10), with("MODIFIED", 0, 102, 1200<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetting(t, 100)
			s.quota.most.Bytes = 1 << 20
			small, of := newSite(t, 3), newSite(t, 1)
			fine, _ := s.watch("fine", small)
			w, recorded := s.watch("large", of)
			s.g.Eventually(state(fine)).Should(Equal([2]any{true, 3}))
			s.g.Eventually(state(w)).Should(Equal([2]any{true, 1}))
			of.events <- events[0]
			s.g.Eventually(recorded.changes).Should(ContainElement(HaveSuffix(" 101")))
			s.g.Expect(w.Synced()).To(BeTrue())
			of.events <- events[1]
			refused := "the objects take more than 1 MiB of memory; not all are known of: large"
			s.g.Eventually(s.quota.Refused).Should(Equal(refused))
			s.g.Eventually(w.Synced).Should(BeFalse())
			s.g.Expect(recorded.changes()).NotTo(ContainElement(HaveSuffix(" 102")))
			small.events <- is(3)
			s.g.Eventually(state(fine)).Should(Equal([2]any{true, 4}))
			w.Close()
			s.g.Eventually(s.quota.Refused).Should(BeEmpty())
			s.g.Eventually(func() bool {
				s.quota.mu.Lock()
				defer s.quota.mu.Unlock()
				return s.quota.taken == fine.sizeOfAll()
			}).Should(BeTrue(), "all is given back")
		})
	}
}

// sizeOfAll is the size of all that is kept, counted again.
func (w *Stream) sizeOfAll() (size Size) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for key, value := range w.values {
		size = size.plus(Size{1, sizeOf(key, value)})
	}
	return size
}

// The counted size equals the size of what is kept, whatever is added and removed.
func TestBytesAreCountedExactly(t *testing.T) {
	s := newSetting(t, 100)
	of := newSite(t, 5)
	w, recorded := s.watch("some", of)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 5}))
	for _, event := range []string{
		with("MODIFIED", 0, 101, 5000), with("MODIFIED", 1, 102, 300), with("MODIFIED", 0, 103, 10),
		with("ADDED", 9, 104, 70),
		with("DELETED", 1, 105, 0), with("DELETED", 77, 106, 0), with("MODIFIED", 9, 107, 7000),
	} {
		of.events <- event
	}
	s.g.Eventually(recorded.changes).Should(ContainElement("object-9 107"))
	w.mu.RLock()
	counted := w.sizeLocked()
	w.mu.RUnlock()
	s.g.Expect(counted).To(Equal(w.sizeOfAll()))
	of.events <- expired // all is listed again
	s.stepUntil(of, 2)
	s.g.Eventually(func() int { _, _, synced := recorded.calls(); return synced }).Should(Equal(2))
	s.g.Eventually(func() Size {
		s.quota.mu.Lock()
		defer s.quota.mu.Unlock()
		return s.quota.taken
	}).Should(Equal(w.sizeOfAll()))
}

// errorsOnly keeps the errors that a watch reports.
type errorsOnly struct{ errs []error }

func (*errorsOnly) OnUpdate(types.NamespacedName, string, types.NamespacedName, any, any) {}
func (*errorsOnly) OnDelete(types.NamespacedName, string, types.NamespacedName, any)      {}
func (*errorsOnly) OnSynced(types.NamespacedName, string)                                 {}
func (e *errorsOnly) OnError(_ types.NamespacedName, _ string, err error) {
	e.errs = append(e.errs, err)
}

// What a list has in common with what it replaces is kept once; the rest may take a quarter more. If that is not
// enough, what is replaced is dropped first.
func TestListBesideWhatItReplaces(t *testing.T) {
	value := func(version, length int) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"uid": "u", "resourceVersion": fmt.Sprint(version)},
			"data":     strings.Repeat("x", length),
		}}
	}
	key := func(n int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint("object-", n)} }
	for name, c := range map[string]struct {
		changed, length int
		fits, kept      bool
	}{
		"all are the same":        {0, 10_000, true, true},
		"a few changed":           {20, 10_000, true, true},
		"all changed":             {90, 10_000, true, false},
		"all are larger than fit": {90, 20_000, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			quota := NewQuota(Size{Objects: 1000, Bytes: 1 << 20}, nil, func() {})
			var failures errorsOnly
			w := NewStream(t.Context(), Spec{Name: "w", Quota: quota})
			w.Subscribe("w", &failures).Join()
			b := &Binding{watch: w, ctx: t.Context()}
			w.feeder = b
			first := newList()
			for n := range 90 {
				g.Expect(w.put(b, first, key(n), value(1, 10_000))).To(BeTrue())
			}
			w.values, w.bytes = first.values, first.bytes
			second, fits := newList(), true
			for n := range 90 {
				o := value(1, 10_000)
				if n < c.changed {
					o = value(2, c.length)
				}
				fits = fits && w.put(b, second, key(n), o)
			}
			g.Expect(fits).To(Equal(c.fits))
			g.Expect(c.kept).To(Equal(len(w.values) > 0))
			if c.kept {
				g.Expect(failures.errs).To(BeEmpty())
			} else {
				g.Expect(failures.errs).To(ConsistOf(MatchError(ErrTooMany)), "deletions cannot be found any longer")
			}
			if c.changed == 0 {
				g.Expect(second.values[key(0)]).To(BeIdenticalTo(w.values[key(0)]))
			}
			w.Close()
			g.Expect(w.spec.Quota.taken).To(Equal(Size{}))
		})
	}
}

// The targets of a namespace share what is beyond the usual size. Large targets take nothing from small ones.
func TestPoolOfANamespace(t *testing.T) {
	g := NewWithT(t)
	pool := NewPool(10<<20, 1<<20)
	newWatch := func() *Stream {
		quota := NewQuota(Size{Objects: 1000, Bytes: 6 << 20}, pool, func() {})
		return NewStream(t.Context(), Spec{Name: "w", Quota: quota})
	}
	reserve := func(w *Stream, mib int64) bool { return w.spec.Quota.reserve(w, Size{1, mib << 20}) }
	first, second, third, small := newWatch(), newWatch(), newWatch(), newWatch()
	g.Expect(reserve(first, 6)).To(BeTrue())
	g.Expect(reserve(first, 7)).To(BeFalse(), "a target has its own bound")
	g.Expect(reserve(second, 6)).To(BeTrue())
	g.Expect(reserve(third, 2)).To(BeFalse(), "ten are taken beyond one of each")
	refused := third.spec.Quota.Refused()
	g.Expect(refused).To(HavePrefix("the objects of the namespace's targets take more than 10 MiB of memory; "))
	g.Expect(reserve(small, 1)).To(BeTrue())
	g.Expect(small.spec.Quota.Refused()).To(BeEmpty())
	second.Close()
	g.Expect(reserve(third, 2)).To(BeTrue())
	third.spec.Quota.fits(third)
	g.Expect(third.spec.Quota.Refused()).To(BeEmpty())
	for _, w := range []*Stream{first, third, small} {
		w.Close()
	}
	g.Expect(pool.taken).To(BeZero())
}

// sized is like the values that consumers keep.
type sized struct {
	uid, version string
	_            [4]uint64 // digests
	judgement    *judgement
}

type judgement struct {
	message  string
	selector labels.Selector
}

// The counted size is close to the memory that a value takes, and includes all bytes of texts.
func TestSizeOfKeptValues(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	selector, err := labels.Parse("app=" + strings.Repeat("x", 60))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, c := range map[string]struct {
		value any
		least int64
	}{
		"nothing":        {nil, 0},
		"a nil pointer":  {(*sized)(nil), 0},
		"a text":         {long, 10_000},
		"texts":          {[]string{long, long}, 20_000},
		"a pointer":      {&sized{uid: long, version: long}, 20_000},
		"a pointer deep": {&sized{judgement: &judgement{long, selector}}, 10_060},
		"a map":          {map[string]any{long: []any{long, map[string]any{"a": long}}}, 30_000},
		"bytes":          {make([]byte, 10_000), 10_000},
		"metadata": {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"a": long}, CreationTimestamp: metav1.Now(),
		}}, 10_000},
		"whole objects":  {&unstructured.Unstructured{Object: map[string]any{"a": map[string]any{"b": long}}}, 10_000},
		"empty elements": {make([]struct{ a, b string }, 1000), 32_000},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			size := sizeOf(types.NamespacedName{Namespace: "namespace", Name: "name"}, c.value)
			g.Expect(size).To(BeNumerically(">=", perEntry+13+c.least))
			g.Expect(size).To(BeNumerically("<", perEntry+13+c.least+1500))
		})
	}
	t.Run("as measured", func(t *testing.T) {
		g := NewWithT(t)
		const n = 20_000
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		kept, counted := map[types.NamespacedName]any{}, int64(0)
		for i := range n {
			namespace, name := fmt.Sprint("namespace-", i%100), fmt.Sprint("name-of-an-object-", i)
			key := types.NamespacedName{Namespace: namespace, Name: name}
			kept[key] = &sized{uid: fmt.Sprintf("%036d", i), version: fmt.Sprint(1_000_000 + i)}
			counted += sizeOf(key, kept[key])
		}
		took := heap() - before
		g.Expect(counted).To(BeNumerically("~", took, took/2))
		g.Expect(counted/n).To(BeNumerically("<", 512), "50,000 of them fit by default")
		runtime.KeepAlive(kept)
	})
}

func BenchmarkSizeOf(b *testing.B) {
	key := types.NamespacedName{Namespace: "namespace", Name: "name"}
	value := &sized{uid: "uid", version: time.Now().String()}
	b.ReportAllocs()
	for b.Loop() {
		if sizeOf(key, value) == 0 {
			b.Fatal("nothing")
		}
	}
}
