package bundle

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestCacheSharesObjectsAndRendersNames(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(1<<20, Limits{}, clock.RealClock{})
	one := secret("data.yaml", configMap("a")+"---\n- bad")
	two := one
	two.Namespace = "shoot--foo--bar"

	first, second := cache.Decode([]Source{one}), cache.Decode([]Source{two})

	g.Expect(second.Objects[0].Unstructured).To(BeIdenticalTo(first.Objects[0].Unstructured))
	g.Expect(first.FaultMessage()).To(HavePrefix("document 2 of key data.yaml in Secret garden/addons: "))
	g.Expect(second.FaultMessage()).To(HavePrefix("document 2 of key data.yaml in Secret shoot--foo--bar/addons: "))
	g.Expect(second.Objects[0].SecretNamespace).To(Equal("shoot--foo--bar"))
	stats := cache.Stats()
	g.Expect([]int64{stats.Hits, stats.Misses, int64(stats.Bundles)}).To(Equal([]int64{1, 1, 1}))
	g.Expect(withoutText(first)).To(Equal(withoutText(Decode([]Source{one}, Limits{}))))
}

func TestCacheStaysWithinItsSize(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(64<<10, Limits{}, clock.RealClock{})
	for i := range 500 {
		cache.Decode([]Source{secret("k", configMap(fmt.Sprint(i)))})
		g.Expect(cache.Stats().Bytes).To(BeNumerically("<=", 64<<10))
	}
	stats := cache.Stats()
	g.Expect(stats.Bundles).To(And(BeNumerically(">", 10), BeNumerically("<", 500)))
	g.Expect([]int64{stats.Displaced, stats.Unused}).To(Equal([]int64{int64(500 - stats.Bundles), 0}))

	before := cache.Stats().Bundles
	cache.Decode([]Source{secret("k", "a: "+strings.Repeat("x", 100<<10))})
	g.Expect(cache.Stats().Bundles).To(Equal(before), "what does not fit at all pushes nothing out")

	cache.Decode([]Source{secret("k", configMap("499"))})
	g.Expect(cache.Stats().Hits).To(Equal(int64(1)), "what was used last is still there")
}

func TestCacheOfNoSizeKeepsNothing(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(0, Limits{}, clock.RealClock{})
	g.Expect(cache.Decode([]Source{secret("k", configMap("a"))}).Objects).To(HaveLen(1))
	g.Expect(cache.Stats()).To(Equal(CacheStats{Misses: 1}))
}

func TestW09_EqualContentIsDecodedOnce(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(64<<20, Limits{}, clock.RealClock{})
	text := manyConfigMaps(2000)
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			source := secret("k", text)
			source.Name = fmt.Sprint(i)
			if bundle := cache.Decode([]Source{source}); len(bundle.Objects) != 2000 || bundle.Objects[7].SecretName != source.Name {
				t.Error("wrong bundle")
			}
		})
	}
	group.Wait()
	g.Expect(cache.Stats().Misses).To(Equal(int64(1)))
}

func TestCacheEvictsUnusedContent(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	step := func() time.Time { clock.SetTime(clock.Now().Add(time.Minute)); return clock.Now() }
	cache := NewCache(1<<20, Limits{}, clock)
	decode := func(name string) { cache.Decode([]Source{secret("k", configMap(name))}) }
	began := clock.Now()
	decode("a")
	decode("b")
	cache.Forget(began)
	g.Expect(cache.Stats().Bundles).To(Equal(2))
	between := step()
	decode("a")
	cache.Forget(between)
	stats := cache.Stats()
	g.Expect([]int64{stats.Hits, stats.Misses, int64(stats.Bundles), stats.Unused}).To(Equal([]int64{1, 2, 1, 1}))
	decode("a")
	g.Expect(cache.Stats().Hits).To(Equal(int64(2)), "what was asked for is still there")
	cache.Forget(step())
	g.Expect(cache.Stats()).To(Equal(CacheStats{Hits: 2, Misses: 2, Unused: 2}))
}

func TestDocumentsAreSharedByBundlesThatHaveThem(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(1<<20, Limits{}, clock.RealClock{})
	text := func(own string) string {
		return configMap("a") + "---\n" + configMap(own) + "---\n# nothing\n---\n" + configMap("b")
	}
	first := cache.Decode([]Source{secret("k", text("one"))})
	alone := cache.Stats().Bytes
	second := cache.Decode([]Source{secret("j", "---\n"), secret("k", text("two"))})

	g.Expect(names(first)).To(Equal([]string{"a", "one", "b"}))
	g.Expect(names(second)).To(Equal([]string{"a", "two", "b"}))
	for i, shared := range []bool{true, false, true} {
		is := Not
		if shared {
			is = func(m types.GomegaMatcher) types.GomegaMatcher { return m }
		}
		g.Expect(second.Objects[i].Unstructured).To(is(BeIdenticalTo(first.Objects[i].Unstructured)), "object %d", i)
		g.Expect(second.Objects[i].Text).To(is(BeIdenticalTo(first.Objects[i].Text)), "object %d", i)
	}
	g.Expect(second.Objects[2].Position.String()).To(Equal("document 4 of key k in Secret garden/addons"))
	g.Expect(withoutText(second)).To(Equal(withoutText(Decode([]Source{secret("j", "---\n"), secret("k", text("two"))}, Limits{}))), "as if nothing were known")
	g.Expect(cache.Stats().Bytes).To(And(BeNumerically(">", alone), BeNumerically("<", 2*alone-500)), "what is shared counts once")
}

func TestDocumentsOfNoBundleAreEvicted(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	cache := NewCache(1<<20, Limits{}, clock)
	text := func(own string) string { return configMap("a") + "---\n" + configMap(own) }
	first := cache.Decode([]Source{secret("k", text("one"))})
	clock.SetTime(clock.Now().Add(time.Minute))
	second := cache.Decode([]Source{secret("k", text("two")+"---\n"+text("two"))})
	cache.Forget(clock.Now())
	g.Expect(cache.Stats().Bundles).To(Equal(1))
	third := cache.Decode([]Source{secret("k", text("three"))})
	g.Expect(third.Objects[0].Unstructured).To(BeIdenticalTo(second.Objects[0].Unstructured), "the second still has it")
	g.Expect(second.Objects[0].Unstructured).To(BeIdenticalTo(first.Objects[0].Unstructured))

	cache.Forget(clock.Now().Add(time.Second))
	g.Expect(cache.Stats().Bytes).To(BeZero())
	g.Expect(cache.Decode([]Source{secret("k", text("four"))}).Objects[0].Unstructured).NotTo(BeIdenticalTo(third.Objects[0].Unstructured))
}

// Whatever is known of other bundles, a bundle is read as if nothing were.
func TestLimitsCountWhatIsShared(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		text   string
	}{
		"documents": {Limits{Documents: 3}, configMap("a") + "---\n" + configMap("b") + "---\n#\n---\n" + configMap("c")},
		"memory":    {Limits{Memory: 2000}, configMap("a") + "---\n" + configMap("b") + "---\n" + configMap("c") + "---\n" + configMap("d")},
		"a fault":   {Limits{}, configMap("a") + "---\n{a: *b}\n---\n" + configMap("b") + "---\n- no object"},
		"a size":    {Limits{DocumentBytes: 60}, configMap("a") + "---\na: " + strings.Repeat("x", 50) + "\n---\n" + configMap("b")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cache := NewCache(1<<20, c.limits, clock.RealClock{})
			for _, known := range []string{"a", "b", "c", "d"} {
				cache.Decode([]Source{secret("k", configMap(known))})
			}
			cache.Decode([]Source{secret("other", c.text)})
			want := Decode([]Source{secret("k", c.text)}, c.limits)
			g.Expect(want.Complete()).To(BeFalse())
			g.Expect(withoutText(cache.Decode([]Source{secret("k", c.text)}))).To(Equal(withoutText(want)))
		})
	}
}

// withoutText is a bundle without what functions there are in it, which cannot be compared.
func withoutText(b *Bundle) *Bundle {
	for i := range b.Objects {
		b.Objects[i].Text = nil
	}
	return b
}

func TestManyDecodeWhatTheyShare(t *testing.T) {
	cache := NewCache(20<<10, Limits{}, clock.RealClock{}) // too small for all
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for k := range 50 {
				var text strings.Builder
				for n := range 10 {
					text.WriteString(configMap(fmt.Sprint("n", (i+k+n)%20)) + "---\n")
				}
				if b := cache.Decode([]Source{secret("k", text.String())}); len(b.Objects) != 10 || b.Objects[3].GetName() != fmt.Sprint("n", (i+k+3)%20) {
					t.Error("wrong bundle")
				}
			}
		})
	}
	group.Wait()
	cache.Forget(time.Now().Add(time.Hour))
	NewWithT(t).Expect(cache.Stats().Bytes).To(BeZero())
	NewWithT(t).Expect(cache.pieces).To(BeEmpty())
}
