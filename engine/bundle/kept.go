package bundle

import (
	"runtime"
	"sync"
	"weak"
)

// keptOverhead is about what it takes to keep a content beside the content, keptKey what each key takes beside its name
// and value.
const (
	keptOverhead = 300
	keptKey      = 100
)

// Kept is what Secrets hold, in the form in which they hold it: compressed, if its author did so. It stays in memory
// for as long as somebody has it.
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

// shelf knows what is kept, and does not keep it itself.
type shelf struct {
	mutex sync.Mutex
	bytes int64
	kept  map[Hash]weak.Pointer[Kept]
}

// Keep returns what the Secrets of a bundle hold, for Open: who has it need not read them again. All whose Secrets hold
// the same get the same. It returns nil for a bundle that is not complete, and if there is no room: then they have to
// be read when they are needed. All that is kept may take as much as all decoded bundles. The Data of the sources must
// not be changed any more.
func (c *Cache) Keep(sources []Source, b *Bundle) *Kept {
	if !b.Complete() {
		return nil
	}
	s := &c.shelf
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if kept := s.kept[b.Hash].Value(); kept != nil {
		return kept
	}
	kept := &Kept{hash: b.Hash, data: make([]map[string][]byte, 0, len(sources))}
	for _, source := range sources {
		kept.data = append(kept.data, source.Data)
	}
	size := kept.size()
	if s.bytes+size > c.maxBytes {
		return nil
	}
	s.bytes += size
	s.kept[b.Hash] = weak.Make(kept)
	runtime.AddCleanup(kept, func(hash Hash) { s.dropped(hash, size) }, b.Hash)
	return kept
}

// dropped notes that nobody has a content any more. It may be kept again by now.
func (s *shelf) dropped(hash Hash, size int64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.bytes -= size
	if s.kept[hash].Value() == nil {
		delete(s.kept, hash)
	}
}

func (s *shelf) size() int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.bytes
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
