package bundle

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/semaphore"
)

const parallel = 2

var (
	alice = semaphore.Owner{Namespace: "alice", Name: "target"}
	bob   = semaphore.Owner{Namespace: "bob", Name: "target"}
)

// large is a Secret whose bundle counts. Its few bytes decompress to a ConfigMap of so many KiB, which takes twice as
// much.
func large(t testing.TB, name string, kib int) Source {
	text := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"a":"` +
		strings.Repeat("x", kib<<10) + `"}}`
	source := secret("data.yaml.br", compress(t, text))
	source.Name = name
	return source
}

// using begins a session that uses the bundle of some Secrets.
func using(t testing.TB, c *Cache, of semaphore.Owner, need Need, sources ...Source) (*Session, error) {
	s, err := c.Begin(t.Context(), of, parallel, need)
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		if err := s.Add(source); err != nil {
			return nil, err
		}
	}
	_, _, err = s.Decode(t.Context(), false)
	return s, err
}

func TestSessionCountsWhatItUsesUntilItIsClosed(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(64<<20, Limits{}, clock.RealClock{})
	s, err := using(t, cache, alice, Need{}, large(t, "a", 1024))
	g.Expect(err).NotTo(HaveOccurred())
	stats := cache.Stats()
	g.Expect(stats.Decoding).To(BeZero(), "the Secrets are not held any longer")
	g.Expect(stats.InUse).To(And(BeNumerically(">=", 3<<20), BeNumerically("<", 4<<20)), "object, JSON, what is sent")
	s.Close()
	s.Close()
	g.Expect(cache.Stats().InUse).To(BeZero())
	g.Expect(cache.used).To(BeEmpty())
}

func TestSmallBundlesAreFree(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(64<<20, Limits{InUse: 1, InUsePerNamespace: 1}, clock.RealClock{})
	for i := range 10 {
		_, err := using(t, cache, alice, Need{}, secret("k", manyConfigMaps(20+i)))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(cache.Stats().InUse).To(BeZero())
}

func TestEqualContentCountsOnceForOneOfItsUsers(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(0, Limits{}, clock.RealClock{})
	first, err := using(t, cache, alice, Need{}, large(t, "a", 1024))
	g.Expect(err).NotTo(HaveOccurred())
	alone := cache.Stats().InUse
	second, err := using(t, cache, bob, Need{}, large(t, "a", 1024))
	g.Expect(err).NotTo(HaveOccurred())
	stats := cache.Stats()
	g.Expect(stats.Misses).To(BeEquivalentTo(1), "what is in use is not decoded again, though nothing is remembered")
	g.Expect(stats.InUse).To(And(BeNumerically(">", alone), BeNumerically("<", alone+alone/2)), "each sends it separately")

	first.Close()
	g.Expect(cache.Stats().InUse).To(Equal(alone))
	g.Expect(cache.inUse.Lease(alice).TryGrow(96<<20)).To(BeTrue(), "what others use no longer counts for it")
	g.Expect(cache.inUse.Lease(bob).TryGrow(96 << 20)).To(BeFalse())
	second.Close()
	g.Expect(cache.Stats().InUse).To(BeEquivalentTo(96 << 20))
}

// A namespace that uses all it may is put off, and holds nothing meanwhile. Others are not put off.
func TestNamespaceWithoutRoomIsPutOffAndHoldsNothing(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(0, Limits{InUse: 16 << 20, InUsePerNamespace: 8 << 20}, clock.RealClock{})
	var sessions []*Session
	var need Need
	for i := 0; need == (Need{}); i++ {
		s, err := using(t, cache, alice, Need{}, large(t, fmt.Sprint(i), 1024))
		if err != nil {
			var busy bool
			need, busy = IsBusy(err)
			g.Expect(busy).To(BeTrue(), "%v", err)
			continue
		}
		sessions = append(sessions, s)
	}
	g.Expect(sessions).To(HaveLen(2))
	g.Expect(need.InUse).To(And(BeNumerically(">=", 3<<20), BeNumerically("<", 4<<20)))
	inUse := cache.Stats().InUse
	g.Expect(inUse).To(BeNumerically("<=", 8<<20))
	g.Expect(cache.Stats().Decoding).To(BeZero())

	misses := cache.Stats().Misses
	_, err := using(t, cache, alice, need, large(t, "next", 1024))
	_, busy := IsBusy(err)
	g.Expect(busy).To(BeTrue())
	g.Expect(cache.Stats().Misses).To(Equal(misses), "a session with a known need decodes nothing in vain")

	s, err := using(t, cache, bob, Need{}, large(t, "bob", 1024))
	g.Expect(err).NotTo(HaveOccurred())
	s.Close()

	sessions[0].Close()
	s, err = using(t, cache, alice, need, large(t, "next", 1024))
	g.Expect(err).NotTo(HaveOccurred())
	s.Close()
	sessions[1].Close()
	g.Expect(cache.Stats().InUse).To(BeZero())
}

// A target that keeps runs for long does not take what its namespace may use from the others.
func TestTargetThatIsSlowLeavesRoomToOthersOfItsNamespace(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(0, Limits{InUsePerTarget: 8 << 20}, clock.RealClock{})
	used := func(owner semaphore.Owner) (n int) {
		for ; n < 10; n++ {
			if _, err := using(t, cache, owner, Need{}, large(t, fmt.Sprint(owner, n), 1024)); err != nil {
				_, busy := IsBusy(err)
				g.Expect(busy).To(BeTrue(), "%v", err)
				break
			}
		}
		return n
	}
	g.Expect(used(alice)).To(Equal(2))
	sibling := alice
	sibling.Name = "sibling"
	g.Expect(used(sibling)).To(Equal(2))
}

// A session may use the largest possible bundle, even if the bound of a namespace is less than what sending all of it
// at once takes.
func TestLargestBundleFits(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(0, Limits{}, clock.RealClock{})
	sources := make([]Source, 0, 11)
	for i := range 11 {
		sources = append(sources, large(t, fmt.Sprint(i), 2900))
	}
	s, err := using(t, cache, alice, Need{}, sources...)
	for need, busy := IsBusy(err); busy; need, busy = IsBusy(err) {
		s, err = using(t, cache, alice, need, sources...)
	}
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cache.Stats().InUse).To(And(BeNumerically(">", 60<<20), BeNumerically("<=", 96<<20)))
	s.Close()
}

func TestSecretsOverTheBoundAreNotRead(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(0, Limits{Bytes: 5 << 20}, clock.RealClock{})
	s, err := cache.Begin(t.Context(), alice, parallel, Need{})
	g.Expect(err).NotTo(HaveOccurred())
	read := 0
	for ; err == nil; read++ {
		room := int64(read)<<20 + secretReserve - ordinarySecrets
		g.Expect(cache.Stats().Decoding).To(BeNumerically(">=", room), "there is room before it is read")
		err = s.Add(secret("k", strings.Repeat("x", 1<<20)))
	}
	g.Expect(err).To(MatchError(ErrTooManyBytes))
	g.Expect(read).To(Equal(5), "the fifth is one key too long")
	s.Close()
	g.Expect(cache.Stats().Decoding).To(BeZero())
}

// Another owner holds all the room to decode. A session that begins waits for a limited time; one that has begun
// releases what it holds.
func TestNoRoomToDecode(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(0, Limits{Decoding: 10 << 20}, clock.RealClock{})
	s, err := cache.Begin(t.Context(), alice, parallel, Need{})
	g.Expect(err).NotTo(HaveOccurred())
	other := cache.decoding.Lease(bob)
	g.Expect(other.TryGrow(6 << 20)).To(BeTrue())

	err = s.Add(secret("k", strings.Repeat("x", 1<<20)))
	need, busy := IsBusy(err)
	g.Expect(busy).To(BeTrue(), "%v", err)
	g.Expect(need.Decoding).To(BeNumerically(">", 5<<20))
	g.Expect(cache.Stats().Decoding).To(BeEquivalentTo(6<<20), "only that of the other one")
	_, err = cache.Begin(t.Context(), alice, parallel, need)
	_, busy = IsBusy(err)
	g.Expect(busy).To(BeTrue())

	began := make(chan error, 1)
	go func() {
		s, err := cache.Begin(t.Context(), alice, parallel, need)
		if err == nil {
			s.Close()
		}
		began <- err
	}()
	g.Eventually(func() int { return cache.Stats().Waiting }).Should(Equal(1))
	other.Release()
	g.Expect(<-began).To(Succeed())
	g.Expect(cache.Stats().Decoding).To(BeZero())
}

func TestSessionObeysItsContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]func(g *WithT, c *Cache, s *Session) error{
		"before it waits": func(_ *WithT, c *Cache, s *Session) error {
			other := c.decoding.Lease(bob)
			defer other.Release()
			s.Close()
			other.TryGrow(c.limits.Decoding / 5 * 4)
			_, err := c.Begin(ended, alice, parallel, Need{Decoding: c.limits.Decoding / 2})
			return err
		},
		"before it is decoded": func(_ *WithT, _ *Cache, s *Session) error {
			_, _, err := s.Decode(ended, true)
			return err
		},
		"while it is decoded": func(g *WithT, c *Cache, s *Session) error {
			decoded, err := decode(ended, Hash{}, s.sources, c.limits, nil, nil)
			g.Expect(decoded).To(BeNil(), "half a bundle is none")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cache := NewCache(0, Limits{}, clock.RealClock{})
			s, err := cache.Begin(t.Context(), alice, parallel, Need{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.Add(secret("k", manyConfigMaps(10)))).To(Succeed())
			g.Expect(test(g, cache, s)).To(MatchError(context.Canceled))
			s.Close()
			g.Expect(cache.decoding.Lease(alice).Held()).To(BeZero())
			g.Expect(cache.Stats().InUse).To(BeZero())
		})
	}
}

// The estimate is what is reserved. It must not be less than what decoding takes in the end.
func TestEstimateIsAnUpperBound(t *testing.T) {
	for name, text := range map[string]string{
		"ordinary":      manyConfigMaps(500),
		"tiny maps":     `{"a":[` + strings.Repeat(`{"a":1},`, 30_000) + "{}]}\n",
		"tiny YAML":     "a: [" + strings.Repeat("{a: 1},", 20_000) + "]",
		"empty maps":    "a: [" + strings.Repeat("{},", 50_000) + "]",
		"empty lists":   "a: [" + strings.Repeat("[],", 50_000) + "]",
		"keys alone":    "a: [" + strings.Repeat("{a,b},", 30_000) + "]",
		"short texts":   "a: [" + strings.Repeat("text,", 100_000) + "]",
		"a block list":  "a:\n" + strings.Repeat("- b:\n  - c: 1\n", 20_000),
		"a long text":   "a: " + strings.Repeat("x", 2<<20),
		"aliases":       "a: &a {b: " + strings.Repeat("x", 1000) + "}\nc: [" + strings.Repeat("*a,", 500) + "]",
		"many aliases":  "a: &a [" + strings.Repeat("{},", 1000) + "]\nc: [" + strings.Repeat("*a,", 50) + "]",
		"question mark": "a:\n" + strings.Repeat("- ? b\n  ? c\n", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			for _, source := range []Source{secret("k", text), secret("k.br", compress(t, text))} {
				g := NewWithT(t)
				limits := Limits{}.withDefaults()
				f, err := estimateOf(t.Context(), []Source{source}, limits)
				g.Expect(err).NotTo(HaveOccurred())
				decoded, err := decode(t.Context(), Hash{}, []Source{source}, limits, nil, f.lengths)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(decoded.faults).To(BeEmpty())
				g.Expect(f.bytes).To(BeNumerically(">=", decoded.size))
			}
		})
	}
}

func TestDocumentsWithTooManyElementsAreNotParsed(t *testing.T) {
	for name, text := range map[string]string{
		"YAML maps":  "a: [" + strings.Repeat("{},", 200_000) + "]",
		"YAML lists": "a:\n" + strings.Repeat("- 1\n", 300_000),
		"JSON":       `{"a":[` + strings.Repeat("{},", 200_000) + "{}]}",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := decodeText(configMap("a") + "---\n" + text)
			g.Expect(names(b)).To(Equal([]string{"a"}))
			g.Expect(b.Faults).To(ConsistOf(HaveField("Err", MatchError(errTooManyElements))))
		})
	}
	g := NewWithT(t)
	hosts := "kind: ConfigMap\ndata:\n  hosts: |\n" + strings.Repeat("    10.0.0.1 host-1\n", 100_000)
	g.Expect(decodeText(hosts).Complete()).To(BeTrue(), "lines are no elements")
}

// A stream that is damaged counts with what it held up to that point, both in the estimate and when it is decoded.
// Otherwise what follows would be decoded without room for it.
func TestDamagedStreamsCountWithWhatTheyHold(t *testing.T) {
	g := NewWithT(t)
	limits := Limits{Bytes: 4 << 20}.withDefaults()
	data := map[string][]byte{}
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 8 {
		var text strings.Builder
		for text.Len() < 1<<20 { // what repeats itself is sent in one piece, of which a damaged stream has nothing
			fmt.Fprint(&text, random.Uint64(), " ")
		}
		whole := compress(t, text.String())
		data[fmt.Sprintf("a%d.br", i)] = []byte(whole[:len(whole)-1])
	}
	data["z.yaml.br"] = []byte(compress(t, "a: ["+strings.Repeat("{},", 200_000)+"{}]"))
	sources := []Source{{Name: "damaged", Data: data}}
	f, err := estimateOf(t.Context(), sources, limits)
	g.Expect(err).NotTo(HaveOccurred())
	d := &decoder{limits: limits, textLeft: limits.Bytes, memoryLeft: limits.Memory, lengths: f.lengths}
	d.decompressor, _ = decompressors.Get().(*decompressor)
	for i := range 8 {
		key := fmt.Sprintf("a%d.br", i)
		d.key(place{key: key}, data[key])
	}
	g.Expect(d.textLeft).To(BeZero())
	g.Expect(d.key(place{key: "z.yaml.br"}, data["z.yaml.br"])).To(BeFalse())
	g.Expect(d.faults[len(d.faults)-1].err).To(MatchError(ErrTooManyBytes))
}

// The memory of a large window is not kept for others.
func TestWindowsThatAreNotKept(t *testing.T) {
	for window := 10; window <= 24; window++ {
		g := NewWithT(t)
		var stream bytes.Buffer
		w := brotli.NewWriterOptions(&stream, brotli.WriterOptions{Quality: 5, LGWin: window})
		_, err := w.Write([]byte("a: b"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(w.Close()).To(Succeed())
		g.Expect(hasLargeWindow(stream.Bytes())).To(Equal(window > 22), "%d bits", window)
	}
	NewWithT(t).Expect(hasLargeWindow(nil)).To(BeFalse())
}

// Sessions begin and end concurrently: the memory in use stays within its bounds, and nothing is left at the end.
func TestManySessions(t *testing.T) {
	g := NewWithT(t)
	limits := Limits{Decoding: 40 << 20, InUse: 12 << 20, InUsePerNamespace: 6 << 20}
	cache := NewCache(1<<20, limits, clock.RealClock{})
	sources := make([]Source, 0, 8)
	for i := range 8 {
		sources = append(sources, large(t, fmt.Sprint(i), 128*(1+i%4)))
	}
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			owner := semaphore.Owner{Namespace: fmt.Sprint(i % 4), Name: fmt.Sprint(i)}
			for need, done := (Need{}), 0; done < 3; {
				s, err := using(t, cache, owner, need, sources[rand.IntN(len(sources))])
				if stats := cache.Stats(); stats.InUse > limits.InUse || stats.Decoding > limits.Decoding {
					t.Errorf("%d bytes in use, %d to decode", stats.InUse, stats.Decoding)
				}
				var busy bool
				switch need, busy = IsBusy(err); {
				case err == nil:
					s.Close()
					done++
				case !busy:
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	stats := cache.Stats()
	g.Expect([]int64{stats.InUse, stats.Decoding, int64(stats.Waiting)}).To(Equal([]int64{0, 0, 0}))
	g.Expect(cache.used).To(BeEmpty())
}

func TestOnlyAliasesMakeAnEstimateTheLargest(t *testing.T) {
	limits := Limits{}.withDefaults()
	for text, largest := range map[string]bool{
		"a: &a {b: c}\nd: *a\n":                       true,
		"a: &a-b {b: c}\nd: [*a-b]\n":                 true,
		"a: https://x/?a=1&b=2\nb: '0 * * * *'\n":     false,
		"a: cmd && other & \nb: '*.example.com'\n":    false,
		"a: &a {b: c}\n":                              false,
		strings.Repeat("x", 8191) + ": &a b\nc: *a\n": true,
	} {
		for _, source := range []Source{secret("k", text), secret("k.br", compress(t, text))} {
			g := NewWithT(t)
			f, err := estimateOf(t.Context(), []Source{source}, limits)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(f.bytes > limits.Memory).To(Equal(largest), "%.40q", text)
		}
	}
}
