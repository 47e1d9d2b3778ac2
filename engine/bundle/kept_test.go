package bundle

import (
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
)

func TestKeptContentIsOpenedAsItWasDecoded(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(1<<20, Limits{}, clock.RealClock{})
	sources := []Source{secret("a.yaml.br", compress(t, configMap("a")), "b.yaml", configMap("b")), secret("c.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`)}
	decoded := cache.Decode(sources)
	kept := cache.Keep(sources, decoded)
	g.Expect(kept).NotTo(BeNil())

	names := []Source{{Namespace: "garden", Name: "addons"}, {Namespace: "garden", Name: "addons"}}
	g.Expect(withoutText(cache.Open(kept, names))).To(Equal(withoutText(decoded)))
	g.Expect(cache.Stats().Misses).To(BeEquivalentTo(1))
	cache.Forget(cache.clock.Now().Add(1))
	g.Expect(withoutText(cache.Open(kept, names))).To(Equal(withoutText(decoded)), "it is decoded again if that was forgotten")
	g.Expect(cache.Stats().Misses).To(BeEquivalentTo(2))
}

func TestEqualContentIsKeptOnce(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(1<<20, Limits{}, clock.RealClock{})
	keep := func(name, text string) *Kept {
		sources := []Source{secret("k", text)}
		sources[0].Name = name
		return cache.Keep(sources, cache.Decode(sources))
	}
	a, b, other := keep("one", configMap("a")), keep("two", configMap("a")), keep("one", configMap("b"))
	g.Expect(b).To(BeIdenticalTo(a))
	g.Expect(other).NotTo(BeIdenticalTo(a))
	g.Expect(cache.Stats().KeptBytes).To(Equal(a.size() + other.size()))
	runtime.KeepAlive([]*Kept{a, b, other})
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	g := NewWithT(t)
	const most = 20 << 10
	cache := NewCache(most, Limits{}, clock.RealClock{})
	keep := func(text string) *Kept {
		sources := []Source{secret("k", text)}
		return cache.Keep(sources, Decode(sources, Limits{}))
	}
	var all []*Kept
	for i := range 100 {
		if kept := keep(configMap(strings.Repeat("x", i+1))); kept != nil {
			all = append(all, kept)
		}
		g.Expect(cache.Stats().KeptBytes).To(BeNumerically("<=", most))
	}
	g.Expect(len(all)).To(And(BeNumerically(">", 10), BeNumerically("<", 100)), "there is no room for all")
	g.Expect(keep(configMap("x"))).To(BeIdenticalTo(all[0]), "what is kept takes no further room")
	g.Expect(keep("- no object")).To(BeNil(), "it was not read completely")

	runtime.KeepAlive(all) // and no longer
	g.Eventually(func() int64 { runtime.GC(); return cache.Stats().KeptBytes }).Should(BeZero(), "it is garbage")
	g.Expect(cache.kept.entries).To(BeEmpty())
	g.Expect(keep(configMap("new"))).NotTo(BeNil(), "there is room again")
	g.Expect(NewCache(0, Limits{}, clock.RealClock{}).Keep(nil, &Bundle{})).To(BeNil())
}

// What is not kept any longer may be kept again before the collector has noticed.
func TestContentIsKeptAgain(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(1<<20, Limits{}, clock.RealClock{})
	sources := []Source{secret("k", configMap("a"))}
	decoded := cache.Decode(sources)
	size := cache.Keep(sources, decoded).size()
	for range 100 {
		cache.Keep(sources, decoded)
		runtime.GC()
	}
	kept := cache.Keep(sources, decoded)
	g.Eventually(func() int64 { runtime.GC(); return cache.Stats().KeptBytes }).Should(Equal(size))
	cache.kept.dropped(decoded.Hash, 0) // as for one that was collected before
	g.Expect(cache.Keep(sources, decoded)).To(BeIdenticalTo(kept))
}
