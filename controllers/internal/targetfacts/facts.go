package targetfacts

import (
	"sync"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// Facts are what is shown of a target.
type Facts struct {
	// DriftLastHour is the number of corrections in the last hour.
	DriftLastHour int64
	// DryRun is what would be written. Nil: the classes of the target are no dry runs.
	DryRun *hubv1alpha1.DryRunReport
}

// Publisher knows facts about targets. It answers from memory, at any time.
type Publisher interface {
	// Facts returns what is to be shown of a target.
	Facts(target clustercache.ClusterKey) Facts
	// WorksIn reports whether some ManagedResource has objects in a target, or is about to have, as far as that is
	// known in memory. The source may show others, and may not show these yet.
	WorksIn(target clustercache.ClusterKey) bool
	// ManagedElsewhere reports whether another manager is at work in a namespace of the source, and which.
	ManagedElsewhere(namespace string) (manager string, elsewhere bool)
}

// Term has the facts of one term of leadership. In the zero value, and in a nil Term, nothing is known.
type Term struct {
	mu        sync.RWMutex
	publisher Publisher
}

// Publish has a publisher asked from now on.
func (t *Term) Publish(p Publisher) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.publisher = p
}

func (t *Term) published() Publisher {
	if t == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.publisher
}

// Of returns the facts of a target, nil if none are known.
func (t *Term) Of(target clustercache.ClusterKey) *Facts {
	if p := t.published(); p != nil {
		facts := p.Facts(target)
		return &facts
	}
	return nil
}

// WorksIn returns what the publisher's method of that name returns; false if there is none.
func (t *Term) WorksIn(target clustercache.ClusterKey) bool {
	p := t.published()
	return p != nil && p.WorksIn(target)
}

// ManagedElsewhere returns what the publisher's method of that name returns; false if there is none.
func (t *Term) ManagedElsewhere(namespace string) (manager string, elsewhere bool) {
	if p := t.published(); p != nil {
		return p.ManagedElsewhere(namespace)
	}
	return "", false
}
