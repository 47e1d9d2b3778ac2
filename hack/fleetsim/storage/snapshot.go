package storage

import (
	"slices"
	"strings"
	"unique"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Snapshot is the state of a Store at one moment. It is never modified, any number of stores may load it.
type Snapshot struct {
	version uint64
	count   int
	owned   bool // there are owner references
	tables  []snapshotTable
}

type snapshotTable struct {
	resource schema.GroupResource
	objects  []*Object
}

// Count returns how many objects the snapshot has.
func (s *Snapshot) Count() int { return s.count }

// Snapshot returns what the store holds.
func (s *Store) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot := &Snapshot{version: s.version}
	for r, t := range s.tables {
		if len(t.objects) == 0 {
			continue
		}
		snapshot.tables = append(snapshot.tables, snapshotTable{r, slices.Clone(t.objects)})
		snapshot.count += len(t.objects)
		for _, o := range t.objects {
			snapshot.owned = snapshot.owned || strings.Contains(o.meta.Value(), ownerReferences)
		}
	}
	slices.SortFunc(snapshot.tables, func(a, b snapshotTable) int {
		return strings.Compare(a.resource.String(), b.resource.String())
	})
	return snapshot
}

// Load puts the objects of a snapshot into the store. Each one gets its uid from newUID, in the order of resources and keys, but for
// those that replace one: they keep its. References to owners follow. Events are not kept, watches that run expire.
func (s *Store) Load(snapshot *Snapshot, newUID func() uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var renamed map[uuid.UUID]uuid.UUID
	if snapshot.owned {
		renamed = make(map[uuid.UUID]uuid.UUID, snapshot.count)
	}
	all := make([]Object, 0, snapshot.count)
	for _, from := range snapshot.tables {
		t := s.table(from.resource)
		t.served = true
		t.objects = slices.Grow(t.objects, len(from.objects))
		for _, original := range from.objects {
			loaded := *original
			loaded.version += s.version
			loaded.uid = newUID()
			all = append(all, loaded)
			o := &all[len(all)-1]
			if i, ok := t.find(o.Key()); ok {
				o.uid = t.objects[i].uid
				t.objects[i] = o
			} else {
				t.objects = slices.Insert(t.objects, i, o)
			}
			if snapshot.owned {
				renamed[original.uid] = o.uid
			}
		}
	}
	if snapshot.owned {
		for i := range all {
			all[i].meta = rename(all[i].meta, renamed)
		}
	}
	s.version += snapshot.version
	s.expired++
	s.forget()
}

const (
	ownerReferences = `"ownerReferences":[`
	uidMember       = `"uid":"`
)

// rename replaces the uids of owners.
func rename(meta unique.Handle[string], uids map[uuid.UUID]uuid.UUID) unique.Handle[string] {
	text := meta.Value()
	start := strings.Index(text, ownerReferences)
	if start < 0 {
		return meta
	}
	var b strings.Builder
	for {
		i := strings.Index(text[start:], uidMember)
		if i < 0 {
			break
		}
		start += i + len(uidMember)
		b.WriteString(text[:start])
		text, start = text[start:], 0
		if len(text) < 36 {
			break
		}
		if old, err := uuid.Parse(text[:36]); err == nil {
			if uid, ok := uids[old]; ok {
				b.WriteString(uid.String())
				text = text[36:]
			}
		}
	}
	b.WriteString(text)
	return unique.Make(b.String())
}
