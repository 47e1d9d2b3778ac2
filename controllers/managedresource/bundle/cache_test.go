package bundle

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestCacheSharesObjectsAndRendersNames(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(1<<20, Limits{})
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
	cache := NewCache(64<<10, Limits{})
	for i := range 500 {
		cache.Decode([]Source{secret("k", configMap(fmt.Sprint(i)))})
		g.Expect(cache.Stats().Bytes).To(BeNumerically("<=", 64<<10))
	}
	g.Expect(cache.Stats().Bundles).To(And(BeNumerically(">", 10), BeNumerically("<", 500)))

	before := cache.Stats().Bundles
	cache.Decode([]Source{secret("k", "a: "+strings.Repeat("x", 100<<10))})
	g.Expect(cache.Stats().Bundles).To(Equal(before), "what does not fit at all pushes nothing out")

	cache.Decode([]Source{secret("k", configMap("499"))})
	g.Expect(cache.Stats().Hits).To(Equal(int64(1)), "what was used last is still there")
}

func TestCacheOfNoSizeKeepsNothing(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(0, Limits{})
	g.Expect(cache.Decode([]Source{secret("k", configMap("a"))}).Objects).To(HaveLen(1))
	g.Expect(cache.Stats()).To(Equal(CacheStats{Misses: 1}))
}

func TestW09_EqualContentIsDecodedOnce(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(64<<20, Limits{})
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
	cache := NewCache(1<<20, Limits{})
	decode := func(name string) { cache.Decode([]Source{secret("k", configMap(name))}) }
	decode("a")
	decode("b")
	cache.Forget(time.Now().Add(-time.Hour))
	g.Expect(cache.Stats().Bundles).To(Equal(2))
	between := time.Now()
	g.Eventually(time.Now).Should(BeTemporally(">", between))
	decode("a")
	cache.Forget(between.Add(time.Nanosecond))
	stats := cache.Stats()
	g.Expect([]int64{stats.Hits, stats.Misses, int64(stats.Bundles), stats.Evictions}).To(Equal([]int64{1, 2, 1, 1}))
	decode("a")
	g.Expect(cache.Stats().Hits).To(Equal(int64(2)), "what was asked for is still there")
	cache.Forget(time.Now().Add(time.Hour))
	g.Expect(cache.Stats().Bundles).To(BeZero())
	g.Expect(cache.Stats().Bytes).To(BeZero())
}
