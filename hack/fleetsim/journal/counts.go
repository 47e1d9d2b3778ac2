package journal

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"
)

// Other stands for verb, resource and user agent of requests that exceed Options.Counts.
const Other = "other"

// Request that was answered.
type Request struct {
	// Verb is kube-apiserver's: get, list, watch, create, update, patch, apply, delete, deletecollection; or the HTTP
	// method in lower case for what is not a resource.
	Verb string
	// Resource is the resource with its group and subresource, such as "deployments.apps" or "pods/status"; or the path
	// for what is not a resource.
	Resource string
	// Code is the HTTP status code of the answer. 0: there was none, or only a part of it; the connection was broken.
	Code int
	// UserAgent is the header as it was sent.
	UserAgent string
	// User is the authenticated user. Empty: none. Requests are not counted by it.
	User string
	// BytesIn and BytesOut are the sizes of the bodies.
	BytesIn, BytesOut int64
	// Took is from the request's first byte to the answer's last; for a watch, to its headers.
	Took time.Duration
}

// Answered counts one request, when its answer has ended; a watch, when its headers are sent.
func (t *Target) Answered(r Request) {
	t.counts.add(r, t.options.Counts)
}

// Count is how many requests of one sort there were.
type Count struct {
	Verb      string `json:"verb"`
	Resource  string `json:"resource"`
	Code      int    `json:"code"` // 0 of Other: all codes
	UserAgent string `json:"userAgent"`
	Tally
}

// Tally adds up requests.
type Tally struct {
	Requests int64         `json:"requests"`
	BytesIn  int64         `json:"bytesIn"`
	BytesOut int64         `json:"bytesOut"`
	Took     time.Duration `json:"took"`    // of all together
	Slowest  time.Duration `json:"slowest"` // of one
}

func (t *Tally) add(other Tally) {
	t.Requests += other.Requests
	t.BytesIn += other.BytesIn
	t.BytesOut += other.BytesOut
	t.Took += other.Took
	t.Slowest = max(t.Slowest, other.Slowest)
}

type countKey struct {
	verb, resource, userAgent string
	code                      int
}

type counts struct {
	mu    sync.Mutex
	tally map[countKey]*Tally
}

func (c *counts) add(r Request, limit int) {
	one := Tally{Requests: 1, BytesIn: r.BytesIn, BytesOut: r.BytesOut, Took: r.Took, Slowest: r.Took}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := countKey{r.Verb, r.Resource, r.UserAgent, r.Code}
	tally, ok := c.tally[key]
	if !ok {
		tally = c.begin(key, limit)
	}
	tally.add(one)
}

func (c *counts) begin(key countKey, limit int) *Tally {
	if c.tally == nil {
		c.tally = map[countKey]*Tally{}
	}
	if len(c.tally) >= limit {
		key = countKey{Other, Other, Other, 0}
		if tally, ok := c.tally[key]; ok {
			return tally
		}
	}
	// The key stays, the request it is part of must not; and the keys of a thousand targets are the same strings.
	key.verb, key.resource, key.userAgent = interned(key.verb), interned(key.resource), interned(key.userAgent)
	tally := &Tally{}
	c.tally[key] = tally
	return tally
}

func interned(s string) string { return unique.Make(s).Value() }

func (c *counts) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally = nil
}

func (c *counts) addTo(sum map[countKey]*Tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, tally := range c.tally {
		if sum[key] == nil {
			sum[key] = &Tally{}
		}
		sum[key].add(*tally)
	}
}

// Counts of the target since the last Reset, the most frequent first.
func (t *Target) Counts() Counts { return countsOf(t) }

// Counts of all targets together since the last Reset, the most frequent first.
func (j *Journal) Counts() Counts { return countsOf(j.Targets()...) }

func countsOf(targets ...*Target) Counts {
	sum := map[countKey]*Tally{}
	for _, target := range targets {
		target.counts.addTo(sum)
	}
	out := make(Counts, 0, len(sum))
	for key, tally := range sum {
		out = append(out, Count{Verb: key.verb, Resource: key.resource, Code: key.code, UserAgent: key.userAgent, Tally: *tally})
	}
	slices.SortFunc(out, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.UserAgent, b.UserAgent))
	})
	return out
}

// Counts are counts of requests.
type Counts []Count

// Where returns the counts for which keep is true.
func (c Counts) Where(keep func(Count) bool) Counts {
	return slices.DeleteFunc(slices.Clone(c), func(count Count) bool { return !keep(count) })
}

// Verbs returns the counts of these verbs.
func (c Counts) Verbs(verbs ...string) Counts {
	return c.Where(func(count Count) bool { return slices.Contains(verbs, count.Verb) })
}

// Writes returns the counts of requests that were to change something, whatever became of them. Reviews and tokens are
// created but not stored, and are none.
func (c Counts) Writes() Counts {
	return c.Verbs("create", "update", "patch", VerbApply, VerbDelete, "deletecollection").Where(func(count Count) bool {
		_, group, _ := strings.Cut(count.Resource, ".")
		return group != "authentication.k8s.io" && group != "authorization.k8s.io" && !strings.HasSuffix(count.Resource, "/token")
	})
}

// Sum adds them up.
func (c Counts) Sum() Tally {
	var sum Tally
	for _, count := range c {
		sum.add(count.Tally)
	}
	return sum
}
