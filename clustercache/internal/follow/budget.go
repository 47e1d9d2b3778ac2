package follow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/clustercache/internal/answers"
	"github.com/trellis-hub/trellis/semaphore"
)

const (
	// maxDocument bounds one event, or one item of a page. API servers accept objects of up to 3 MiB, and keep 1.5 MiB
	// of them.
	maxDocument = 4 << 20
	// maxElements and maxDepth bound what is decoded of one. What is not decoded, such as the schema of a definition of
	// custom resources and the fields in managedFields, does not count.
	maxElements = 1 << 15
	maxDepth    = 200
	// maxManagers bounds the entries of managedFields. An API server keeps ten for updates, and one for each applier.
	maxManagers = 2_000

	// freeRead is the size up to which a buffer needs no seat of a Budget; mediumRead is that up to which a seat of the
	// first kind is enough.
	freeRead   = firstRead
	mediumRead = 512 << 10
	// perElement is about what an element takes in memory when it is decoded. Small maps take most.
	perElement = 192
	// freeDecode is the size up to which a decoded document needs no seat of a Budget. Few documents are larger.
	freeDecode = 32 << 10
	// slowDocument is how long a document that holds a seat may take to arrive.
	slowDocument = 30 * time.Second
)

// Budget bounds what the documents of all servers take in memory while they are read and decoded. It is fair between
// the namespaces of the source, and then between targets.
//
// A document is read before it is decoded, so that a slow sender does not block decoding. It acquires seats in a fixed
// order: a document that holds a seat of a later kind never waits for one of an earlier kind, so that no two wait for
// each other.
type Budget struct {
	medium, large *semaphore.Semaphore // seats for buffers of up to mediumRead, and for larger ones
	decoded       *semaphore.Semaphore // bytes
}

// NewBudget returns a budget of 320 MiB at the very most, of which one namespace has at most 36 MiB, and one target 20
// MiB.
func NewBudget() *Budget {
	const most = maxDocument + perElement*(maxElements+maxManagers) // enough for the largest document
	return &Budget{
		medium:  semaphore.New(semaphore.Options{Size: 384, PerNamespace: 32, PerOwner: 8}),
		large:   semaphore.New(semaphore.Options{Size: 16, PerNamespace: 2, PerOwner: 1}),
		decoded: semaphore.New(semaphore.Options{Size: 64 << 20, PerNamespace: most, PerOwner: most}),
	}
}

// Share returns the share of one target in a budget.
func (b *Budget) Share(target types.NamespacedName) *Share { return &Share{budget: b, owner: target} }

// Share is the share of one target in a Budget. A nil Share bounds nothing.
type Share struct {
	budget *Budget
	owner  semaphore.Owner
}

// seat is the seat of a document in a Budget while it is read. Small documents have a nil seat.
type seat struct {
	size     int // that a buffer may have
	kinds    []*semaphore.Semaphore
	releases []func()
	since    time.Time // it is held, over all documents
	complete bool      // the document that it was taken for; what is in the buffer is of the next
	timer    clock.Timer
}

// read waits until a buffer may have the given size. slow is called if the document takes too long to arrive from
// then on.
func (s *Share) read(f *frames, p *seat, size int) (*seat, error) {
	if s == nil || size <= freeRead || p != nil && size <= p.size {
		return p, nil
	}
	if p == nil {
		p = &seat{since: f.clock.Now()}
	} else {
		p.timer.Stop() // it is not late because of waiting here
	}
	kind, most := s.budget.medium, mediumRead
	if size > mediumRead {
		kind, most = s.budget.large, maxDocument
	}
	release, err := s.acquire(f.ctx, f.call, kind, 1)
	if err != nil {
		p.release()
		return nil, fmt.Errorf("waiting for a seat to read a large document: %w", err)
	}
	p.size, p.kinds, p.releases = most, append(p.kinds, kind), append(p.releases, release)
	p.timer = f.clock.AfterFunc(slowDocument, f.slow)
	return p, nil
}

// acquire acquires seats until ctx ends. The deadline of the call does not run meanwhile: waiting here is no fault of
// the server.
func (s *Share) acquire(
	ctx, call context.Context, kind *semaphore.Semaphore, n int64,
) (release func(), err error) {
	err = answers.Pause(call, func() (err error) {
		release, err = kind.Acquire(ctx, s.owner, n)
		return err
	})
	return release, err
}

// release gives a seat back.
func (p *seat) release() {
	if p == nil {
		return
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	for _, release := range p.releases {
		release()
	}
}

// end notes that the document has arrived: from now on it waits for the hub.
func (p *seat) end() {
	if p != nil {
		p.timer.Stop()
		p.complete = true
	}
}

// carryOver keeps the seat for the next document, which has begun with some bytes: as much of it as these need. It
// returns false if the seat was held for long over several documents while others wait for one.
func (p *seat) carryOver(bytes int, clock clock.PassiveClock) bool {
	if last := len(p.kinds) - 1; last > 0 && bytes <= mediumRead {
		p.releases[last]()
		p.size, p.kinds, p.releases = mediumRead, p.kinds[:last], p.releases[:last]
	}
	if !p.complete {
		return true
	}
	p.complete = false
	p.timer.Reset(slowDocument)
	contended := slices.ContainsFunc(p.kinds, func(kind *semaphore.Semaphore) bool { return kind.Waiting() > 0 })
	return !contended || clock.Since(p.since) < slowDocument
}

// decode waits until a document of the given size may be decoded. release gives the seat back.
func (s *Share) decode(ctx, call context.Context, bytes, elements int) (release func(), err error) {
	cost := bytes + perElement*elements
	if s == nil || cost <= freeDecode {
		return func() {}, nil
	}
	if release, err = s.acquire(ctx, call, s.budget.decoded, int64(cost)); err != nil {
		return nil, fmt.Errorf("waiting for a seat to decode a large document: %w", err)
	}
	return release, nil
}
