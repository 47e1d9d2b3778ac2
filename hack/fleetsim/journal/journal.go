package journal

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// SentAtAnnotation on an object says when whoever changed the object at its source did so, as time.RFC3339Nano. The server
// hands it on as Change.SentAt.
const SentAtAnnotation = "fleetsim.hub.gardener.cloud/sent-at"

// Options of a Journal. The zero value is usable.
type Options struct{}

// Journal of a fleet of API servers. Create it with New.
type Journal struct {
	mu      sync.Mutex
	targets map[string]*Target
}

// New returns an empty journal.
func New(Options) *Journal {
	return &Journal{targets: map[string]*Target{}}
}

// Target returns the journal of the target with this name, and begins it the first time.
func (j *Journal) Target(name string) *Target {
	j.mu.Lock()
	defer j.mu.Unlock()
	target, ok := j.targets[name]
	if !ok {
		target = &Target{name: name}
		j.targets[name] = target
	}
	return target
}

// Target is the journal of one API server. Its methods may be called by many at a time.
type Target struct {
	name string
}

// Request that was answered.
type Request struct {
	// Verb is kube-apiserver's: get, list, watch, create, update, patch, apply, delete, deletecollection; or the HTTP method
	// in lower case for what is not a resource.
	Verb string
	// Resource is the resource with its group and subresource, such as "deployments.apps" or "pods/status"; or the path for
	// what is not a resource.
	Resource string
	// Code is the HTTP status code of the answer. 0: there was none, the connection was broken.
	Code int
	// UserAgent is the header as it was sent.
	UserAgent string
	// User is who was authenticated. Empty: nobody.
	User string
	// BytesIn and BytesOut are the sizes of the bodies.
	BytesIn, BytesOut int64
	// Took is from the request's first byte to the answer's last; for a watch, to its headers.
	Took time.Duration
}

// Answered counts one request, when its answer has ended; a watch, when its headers are sent.
func (t *Target) Answered(Request) {}

// Change is one write that a server accepted, whether or not it changed anything.
type Change struct {
	// Time is the real time, with its monotonic reading, never the clock of a server that is skewed.
	Time time.Time
	// Verb is one of create, update, patch, apply and delete.
	Verb string
	// Resource is as in Request, with the subresource.
	Resource, Namespace, Name string
	// UID of the object.
	UID types.UID
	// ResourceVersion after the write.
	ResourceVersion uint64
	// Manager is the field manager of the write.
	Manager, UserAgent, User string
	// Changed is false for a write that left the object as it was.
	Changed bool
	// Before and After are digests of the payload, labels, annotations and finalizers, without managedFields, status,
	// resourceVersion and generation. 0: there is no object.
	Before, After uint64
	// SentAt is the value of SentAtAnnotation on the written object. Zero: it has none.
	SentAt time.Time
}

// Wrote records one change. Calls for one target come in the order of resource versions, under the server's lock.
func (t *Target) Wrote(Change) {}
