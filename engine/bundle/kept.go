package bundle

import (
	"runtime"
	"sync"
	"weak"
)

// keptOverhead is about the memory that a Kept takes in addition to its keys and values, keptKey that of each key.
const (
	keptOverhead = 300
	keptKey      = 100
)

// Kept is the data of Secrets in its original form, which may be compressed. It stays in memory as long as it is
// referenced.
type Kept struct {
	hash Hash
	data []map[string][]byte // of the Secrets, in their order
}

// size is about how many bytes it takes.
func (k *Kept) size() int64 {
	size := int64(keptOverhead)
	for _, data := range k.data {
		for key, value := range data {
			size += int64(keptKey + len(key) + len(value))
		}
	}
	return size
}

// keptIndex finds what is kept by weak references, which do not hold it in memory.
type keptIndex struct {
	mutex   sync.Mutex
	bytes   int64
	entries map[Hash]weak.Pointer[Kept]
}

// Keep returns the data of the Secrets of a bundle, for Open: the caller need not read the Secrets again. For equal
// data it returns the same Kept. It returns nil for a bundle that is not complete, and if there is not enough memory:
// then the Secrets have to be read again when they are needed. All that is kept may take as much memory as all cached
// bundles. The Data of the sources must not be changed any longer.
func (c *Cache) Keep(sources []Source, b *Bundle) *Kept {
	if !b.Complete() {
		return nil
	}
	x := &c.kept
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if kept := x.entries[b.Hash].Value(); kept != nil {
		return kept
	}
	kept := &Kept{hash: b.Hash, data: make([]map[string][]byte, 0, len(sources))}
	for _, source := range sources {
		kept.data = append(kept.data, source.Data)
	}
	size := kept.size()
	if x.bytes+size > c.maxBytes {
		return nil
	}
	x.bytes += size
	x.entries[b.Hash] = weak.Make(kept)
	runtime.AddCleanup(kept, func(hash Hash) { x.dropped(hash, size) }, b.Hash)
	return kept
}

// dropped records that a Kept was collected. An equal one may exist by now.
func (x *keptIndex) dropped(hash Hash, size int64) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.bytes -= size
	if x.entries[hash].Value() == nil {
		delete(x.entries, hash)
	}
}

func (x *keptIndex) size() int64 {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.bytes
}

// fill returns the sources with what was kept as their Data.
func (k *Kept) fill(sources []Source) []Source {
	filled := make([]Source, len(sources))
	for i, source := range sources {
		source.Data = k.data[i]
		filled[i] = source
	}
	return filled
}
