package intern

import (
	"hash/maphash"
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// maxText is the length of the longest text that is interned. Longer ones are rarely equal.
const maxText = 256

// maxAge is the age of a generation at which the next one begins. What is not used is kept at least so long, and twice
// as long at most.
const maxAge = 5 * time.Minute

// Table interns texts and maps. It is safe for concurrent use.
type Table struct {
	texts generations[string, string]
	maps  generations[uint64, map[string]string]
	seed  maphash.Seed
}

// New returns a table of at most about size texts and as many maps.
func New(size int, c clock.PassiveClock) *Table {
	t := &Table{seed: maphash.MakeSeed()}
	t.texts.half, t.maps.half = size/2, size/2
	t.texts.clock, t.maps.clock = c, c
	return t
}

// Text returns the one copy of a text.
func (t *Table) Text(s string) string {
	if s == "" || len(s) > maxText {
		return s
	}
	return t.texts.get(s, func(string) bool { return true }, func() (string, string) {
		own := strings.Clone(s) // it may be a part of something large
		return own, own
	})
}

// Map returns the one copy of a map. Neither it nor the one given must be changed afterwards.
func (t *Table) Map(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	var hash uint64
	for name, value := range m {
		hash += maphash.Comparable(t.seed, [2]string{name, value})
	}
	return t.maps.get(hash, func(known map[string]string) bool { return maps.Equal(known, m) },
		func() (uint64, map[string]string) {
			own := make(map[string]string, len(m))
			for name, value := range m {
				own[t.Text(name)] = t.Text(value)
			}
			return hash, own
		})
}

// generations is a map that drops what was not used recently.
type generations[K comparable, V any] struct {
	half  int
	clock clock.PassiveClock

	mu         sync.Mutex
	young, old map[K]V
	began      time.Time // of the young ones
}

// get returns the value of a key if there is one that fits, else it adds the one that create returns.
func (g *generations[K, V]) get(key K, fits func(V) bool, create func() (K, V)) V {
	g.mu.Lock()
	known, ok := g.young[key]
	if !ok {
		if known, ok = g.old[key]; ok && fits(known) {
			g.add(key, known)
		}
	}
	g.mu.Unlock()
	if ok && fits(known) {
		return known
	}
	key, known = create()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add(key, known)
	return known
}

// add adds a value to the young generation, and begins a new one if that is full or old.
func (g *generations[K, V]) add(key K, value V) {
	if g.young == nil || len(g.young) >= g.half || g.clock.Since(g.began) >= maxAge {
		g.young, g.old, g.began = map[K]V{}, g.young, g.clock.Now()
	}
	g.young[key] = value
}
