package server

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/trellis-hub/trellis/clustercache"
)

// Limits bound what requests take. Zero fields have their defaults.
type Limits struct {
	// TargetInFlight is how many requests of a target are worked on at a time, and InFlight how many of all targets.
	// Defaults: 50 and 1000.
	TargetInFlight, InFlight int
	// TargetQPS is how many requests of a target are served in a second, TargetBurst how many at once. Defaults: 200
	// and 400.
	TargetQPS   float64
	TargetBurst int
	// TargetBytes is how much memory the bodies of a target may take at a time, and Bytes those of all targets.
	// Defaults: 32 MiB and 256 MiB.
	TargetBytes, Bytes int64
	// TargetRate is how many bytes of bodies a target may send in a second: what decoding takes of the processors grows
	// with them. As much as TargetBytes may come at once. Default: 8 MiB.
	TargetRate int64
	// Timeout is how long a request may take if the caller waits for longer. Default: 10s.
	Timeout time.Duration
}

// MaxBody bounds the body of a request, in bytes. API servers send objects of at most 3 MiB, a former one beside each.
const MaxBody = 7 << 20

func (l *Limits) setDefaults() {
	setDefault(&l.TargetInFlight, 50)
	setDefault(&l.InFlight, 1000)
	setDefault(&l.TargetQPS, 200)
	setDefault(&l.TargetBurst, 400)
	setDefault(&l.TargetBytes, 32<<20)
	setDefault(&l.Bytes, 256<<20)
	setDefault(&l.TargetRate, 8<<20)
	setDefault(&l.Timeout, 10*time.Second)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// refusal is why a request is not worked on; empty if it is.
type refusal string

const (
	// tooMany means that the target has to wait, overloaded that all have to.
	tooMany    refusal = "too many requests of this cluster"
	overloaded refusal = "too many requests of all clusters"
)

// limiter admits requests.
type limiter struct {
	limits Limits

	mu       sync.Mutex
	inFlight int
	bytes    int64
	targets  map[clustercache.ClusterKey]*share
}

// share is what a target takes at present.
type share struct {
	inFlight int
	bytes    int64
	// pace is that of requests, flow that of the bytes of their bodies.
	pace, flow *rate.Limiter
	// errors is how often what fails is logged.
	errors *rate.Limiter
	// served counts requests, refused those of them that were not worked on.
	served, refused uint64
}

func newLimiter(limits Limits) *limiter {
	return &limiter{limits: limits, targets: map[clustercache.ClusterKey]*share{}}
}

// of returns the share of a target. mu is held.
func (l *limiter) of(key clustercache.ClusterKey) *share {
	own := l.targets[key]
	if own == nil {
		own = &share{
			pace:   rate.NewLimiter(rate.Limit(l.limits.TargetQPS), l.limits.TargetBurst),
			flow:   rate.NewLimiter(rate.Limit(l.limits.TargetRate), int(l.limits.TargetBytes)),
			errors: rate.NewLimiter(1, 10),
		}
		l.targets[key] = own
	}
	return own
}

// admit takes a place for a request, with room for its body. If there is one, release has to be called.
func (l *limiter) admit(key clustercache.ClusterKey, bytes int64, now time.Time) (release func(), why refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.of(key)
	own.served++
	switch {
	case own.inFlight >= l.limits.TargetInFlight, own.bytes+bytes > l.limits.TargetBytes, !own.pace.AllowN(now, 1),
		!own.flow.AllowN(now, int(bytes)):
		own.refused++
		return nil, tooMany
	case l.inFlight >= l.limits.InFlight, l.bytes+bytes > l.limits.Bytes:
		own.refused++
		return nil, overloaded
	}
	own.inFlight++
	own.bytes += bytes
	l.inFlight++
	l.bytes += bytes
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		own.inFlight--
		own.bytes -= bytes
		l.inFlight--
		l.bytes -= bytes
	}, ""
}

// mayLog reports whether it is time to log that a request of a target has failed.
func (l *limiter) mayLog(key clustercache.ClusterKey, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(key).errors.AllowN(now, 1)
}

// sweep forgets targets that are no longer registered.
func (l *limiter) sweep(registered func(clustercache.ClusterKey) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, own := range l.targets {
		if own.inFlight == 0 && !registered(key) {
			delete(l.targets, key)
		}
	}
}
