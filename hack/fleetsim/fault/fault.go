package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind says how a server misbehaves.
type Kind string

// The kinds of faults.
const (
	// Latency lets requests wait for Delay, and up to Jitter more, before they are looked at.
	Latency Kind = "latency"
	// Hang never answers; other requests on the same connection are.
	Hang Kind = "hang"
	// Status answers with Code, and Retry-After if RetryAfter is set. The server does not get the request.
	Status Kind = "status"
	// Reset ends the connection with a TCP reset: before the answer or, if After is set, when After bytes of it were sent.
	// Everything else on the connection goes with it.
	Reset Kind = "reset"
	// GoAway answers and sends GOAWAY, so that the client opens a new connection while requests in flight continue, as
	// kube-apiserver does with --goaway-chance. A share of 1, or 0, which means the same, does so for all requests.
	GoAway Kind = "goaway"
	// Drip sends answers at Rate bytes a second.
	Drip Kind = "drip"
	// SilentWatch keeps watches open and lets their events, bookmarks included, vanish.
	SilentWatch Kind = "silent-watch"
	// SlowWatch delivers the events of watches Delay, and up to Jitter more, too late, in their order.
	SlowWatch Kind = "slow-watch"
	// BlackHole lets bytes vanish in both directions. Connections stay up, new ones are accepted and never answered.
	BlackHole Kind = "blackhole"
	// Silent accepts new connections and says nothing on them: after the TLS handshake or, with At, before it.
	Silent Kind = "silent"
	// Refuse lets no client connect. Open connections continue.
	Refuse Kind = "refuse"
)

// Kinds are all kinds.
var Kinds = []Kind{Latency, Hang, Status, Reset, GoAway, Drip, SilentWatch, SlowWatch, BlackHole, Silent, Refuse}

// Which connections a BlackHole swallows.
const (
	// ExistingConnections are those that were open when the fault was set: a firewall that lost its state.
	ExistingConnections = "existing"
	// NewConnections are those that are opened later.
	NewConnections = "new"
)

// When a Silent server falls silent.
const (
	BeforeHandshake = "before-handshake"
	AfterHandshake  = "after-handshake"
)

// Fault is one way to misbehave. Each kind takes only the parameters that it names.
type Fault struct {
	// ID names the fault among those of a server. Setting a fault with the ID of another one replaces that one. Empty: one
	// is chosen from the kind.
	ID string `json:"id,omitempty"`
	// Kind is required.
	Kind Kind `json:"kind"`
	// Match says which requests are struck; empty: all. Faults of connections have none.
	Match Match `json:"match,omitzero"`
	// Share of the matching requests, or of the connections, that are struck, up to 1. Zero means all.
	Share float64 `json:"share,omitempty"`

	// Delay and Jitter are those of Latency and SlowWatch: a delay between Delay and Delay+Jitter.
	Delay  metav1.Duration `json:"delay,omitzero"`
	Jitter metav1.Duration `json:"jitter,omitzero"`
	// Code is the HTTP status that Status answers with, from 400 to 599.
	Code int `json:"code,omitempty"`
	// RetryAfter is sent with Status, rounded up to seconds. Zero: none is.
	RetryAfter metav1.Duration `json:"retryAfter,omitzero"`
	// After is how many bytes of an answer's body are sent before a Reset. Zero: none, and no headers.
	After int64 `json:"after,omitempty"`
	// Rate is the bytes a second of Drip.
	Rate int64 `json:"rate,omitempty"`
	// Connections of a BlackHole: ExistingConnections, NewConnections or, empty, all.
	Connections string `json:"connections,omitempty"`
	// At is BeforeHandshake or, the same as empty, AfterHandshake, for Silent.
	At string `json:"at,omitempty"`
}

// Match selects requests. What is empty matches all; of a list, one must match. "*" stands for any characters.
type Match struct {
	// Verbs are those of Kubernetes: get, list, watch, create, update, patch, apply, delete, deletecollection. An apply
	// matches patch, too. A request for something else than a resource has its HTTP method, in lower case.
	Verbs []string `json:"verbs,omitempty"`
	// Resources are like "configmaps", "deployments.apps" or "deployments.apps/status".
	Resources []string `json:"resources,omitempty"`
	// UserAgents are like "kubectl/*".
	UserAgents []string `json:"userAgents,omitempty"`
	// Paths are like "/version" or "/apis/*", without the query.
	Paths []string `json:"paths,omitempty"`
}

func (m Match) matches(r *request) bool {
	return (matchesAny(m.Verbs, r.verb) || r.apply && matchesAny(m.Verbs, "apply")) &&
		matchesAny(m.Resources, r.resource) && matchesAny(m.UserAgents, r.userAgent) && matchesAny(m.Paths, r.path)
}

func matchesAny(patterns []string, s string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool { return Glob(pattern, s) })
}

// Glob reports whether s is what the pattern says, in which "*" stands for any characters, none and slashes included.
func Glob(pattern, s string) bool {
	prefix, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return false
	}
	for rest != "" {
		var part string
		if part, rest, wild = strings.Cut(rest, "*"); !wild {
			return strings.HasSuffix(s, part)
		}
		if _, s, ok = strings.Cut(s, part); !ok {
			return false
		}
	}
	return true
}

// maxDelay keeps typing errors from looking like hangs.
const maxDelay = time.Hour

// Validate says what is wrong with the fault.
func (f Fault) Validate() error {
	switch {
	case !slices.Contains(Kinds, f.Kind):
		return fmt.Errorf("kind %q is unknown: it is one of %v", f.Kind, Kinds)
	case f.Kind == Status && (f.Code < 400 || f.Code > 599):
		return fmt.Errorf("the code %d is not between 400 and 599", f.Code)
	case f.Kind == Drip && f.Rate <= 0:
		return fmt.Errorf("the rate is %d, and must be positive", f.Rate)
	case f.Kind == Latency && f.Delay.Duration == 0 && f.Jitter.Duration == 0, f.Kind == SlowWatch &&
		f.Delay.Duration == 0:
		return fmt.Errorf("a fault of kind %s needs a delay", f.Kind)
	case !(f.Share >= 0 && f.Share <= 1): // not a number is neither
		return fmt.Errorf("the share %v is not between 0 and 1", f.Share)
	case f.Delay.Duration < 0 || f.Delay.Duration > maxDelay:
		return fmt.Errorf("the delay %s is not between 0 and %s", f.Delay.Duration, maxDelay)
	case f.Jitter.Duration < 0 || f.Jitter.Duration > maxDelay:
		return fmt.Errorf("the jitter %s is not between 0 and %s", f.Jitter.Duration, maxDelay)
	}
	return nil
}
