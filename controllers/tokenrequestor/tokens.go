package tokenrequestor

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/clustercache"
)

// freeRenewals is how often in a row a token is renewed at once although the one before was not found to be good.
// Further renewals wait for a pause that grows from againFirst to againLast.
const (
	freeRenewals          = 2
	againFirst, againLast = 10 * time.Second, 10 * time.Minute
)

// tokens is what is remembered of the tokens of all targets, for a term.
type tokens struct {
	clock   clock.PassiveClock
	began   time.Time
	mu      sync.Mutex
	targets map[clustercache.ClusterKey]*targetTokens
}

type targetTokens struct {
	secrets map[types.NamespacedName]*tokenState
}

// tokenState is what is remembered of a token.
type tokenState struct {
	due    time.Time // when it is to be renewed; zero: not known
	expiry time.Time // zero: not known
	row    int       // how often one was issued since one was found to be good
	last   time.Time // when one was issued last
}

func newTokens(c clock.PassiveClock) *tokens {
	return &tokens{clock: c, began: c.Now(), targets: map[clustercache.ClusterKey]*targetTokens{}}
}

func (t *tokens) target(key clustercache.ClusterKey) *targetTokens {
	known := t.targets[key]
	if known == nil {
		known = &targetTokens{
			secrets: map[types.NamespacedName]*tokenState{},
		}
		t.targets[key] = known
	}
	return known
}

// isNew reports whether nothing is remembered of a token, soon after the beginning of the term.
func (t *tokens) isNew(key clustercache.ClusterKey, name types.NamespacedName, within time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.target(key).secrets[name] == nil && t.clock.Since(t.began) < within
}

// good remembers that a token is good until it is due.
func (t *tokens) good(key clustercache.ClusterKey, name types.NamespacedName, due, expiry time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.target(key)
	state := tokenState{due: due, expiry: expiry}
	if before := known.secrets[name]; before != nil {
		state.last = before.last
	}
	known.secrets[name] = &state
}

// issued remembers that the target has issued a token, whatever becomes of it.
func (t *tokens) issued(key clustercache.ClusterKey, name types.NamespacedName, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.target(key)
	if known.secrets[name] == nil {
		known.secrets[name] = &tokenState{due: now}
	}
	known.secrets[name].row++
	known.secrets[name].last = now
}

// renewed remembers that the token that was issued last is where it belongs.
func (t *tokens) renewed(key clustercache.ClusterKey, name types.NamespacedName, due, expiry time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state := t.target(key).secrets[name]; state != nil {
		state.due, state.expiry = due, expiry
	}
}

// failed remembers that a token could not be judged or renewed. It stays due from when it was due first.
func (t *tokens) failed(key clustercache.ClusterKey, name types.NamespacedName, due, expiry time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.target(key)
	state := &tokenState{due: due, expiry: expiry}
	if before := known.secrets[name]; before != nil {
		state.row, state.last = before.row, before.last
		if before.due.Before(due) {
			state.due = before.due
		}
	}
	known.secrets[name] = state
}

// rest returns how long to wait before a token is renewed; zero: it may be now. A target that does not accept its own
// tokens, or does not keep the Secrets that it is sent, must not have them renewed without a pause.
func (t *tokens) rest(key clustercache.ClusterKey, name types.NamespacedName, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.target(key).secrets[name]
	if state == nil || state.row <= freeRenewals {
		return 0
	}
	pause := againFirst << min(state.row-freeRenewals-1, 10)
	return max(0, state.last.Add(min(pause, againLast)).Sub(now))
}

// drop forgets a token.
func (t *tokens) drop(key clustercache.ClusterKey, name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.targets[key]; known != nil {
		delete(known.secrets, name)
	}
}

// forget forgets a target.
func (t *tokens) forget(key clustercache.ClusterKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.targets, key)
}

// overdue are the tokens of a target that should have been renewed.
type overdue struct {
	number int
	expiry time.Time // of the first one of them; zero: not known
}

// overdue returns those of all targets.
func (t *tokens) overdue(now time.Time) map[clustercache.ClusterKey]overdue {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[clustercache.ClusterKey]overdue, len(t.targets))
	for key, target := range t.targets {
		var o overdue
		for _, state := range target.secrets {
			if now.Before(state.due) {
				continue
			}
			o.number++
			if e := state.expiry; !e.IsZero() && (o.expiry.IsZero() || e.Before(o.expiry)) {
				o.expiry = e
			}
		}
		all[key] = o
	}
	return all
}
