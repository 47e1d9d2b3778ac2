package bundle

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
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
	g.Expect(first).To(Equal(Decode([]Source{one}, Limits{})))
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

func TestCacheForgetsWhatNobodyAsksFor(t *testing.T) {
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
