package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
	"github.com/trellis-hub/trellis/hack/fleetsim/storage"
)

// Options of a Server.
type Options struct {
	// Name of the server, for messages.
	Name string
	// UID of the namespace kube-system, which is the identity of a cluster; a UUID. Empty: a random one.
	UID types.UID
	// Seed of the uids of everything that is created, so that the same requests make the same ones. Zero: random ones.
	Seed int64
	// Version that the server says it is. Empty: DefaultVersion.
	Version string
	// Clock is the server's own clock, which may be wrong. Nil: time.Now.
	Clock func() time.Time
	// Journal records every request and every write. Nil: nothing is recorded.
	Journal *journal.Target
	// Authenticate returns who sent a request; false: 401. Nil: everybody is system:admin.
	Authenticate func(*http.Request) (User, bool)
	// IssueToken makes a token for a service account, for the subresource token. Nil: there are no tokens, 404.
	IssueToken func(namespace, name string, uid types.UID, seconds int64) (token string, expires time.Time, err error)
	// Window is how many events of every resource are kept for watches, fewer if those of the server hold too much memory. Zero: 1000.
	Window int
	// NoControllers leaves out what a controller manager would do: namespaces that are being deleted are not emptied, and the
	// finalizers "orphan" and "foregroundDeletion" stay.
	NoControllers bool
	// BookmarkInterval is the time between two bookmarks of a watch, give or take a quarter. Zero: a minute.
	BookmarkInterval time.Duration
	// WriteTimeout is how long a client may take to read an answer, or some events of a watch. Zero: 30 seconds.
	WriteTimeout time.Duration

	prepares bool // Prepare does what controllers do
}

// DefaultVersion is the version of Kubernetes a server says it is of if the Options say nothing else.
const DefaultVersion = "v1.36.3"

// User is who sends a request.
type User struct {
	Name, UID string
	Groups    []string
}

var admin = User{Name: "system:admin", Groups: []string{"system:masters", "system:authenticated"}}

// Server is one simulated API server. It serves HTTP; create it with New and end it with Stop.
type Server struct {
	o        Options
	store    *storage.Store
	registry atomic.Pointer[kinds.Registry]
	stale    atomic.Pointer[[]schema.GroupVersion]

	uids    uids
	crds    sync.Mutex // held while the registry is made again
	control controllers

	stopped context.Context
	stop    context.CancelFunc
}

var (
	pods            = schema.GroupResource{Resource: "pods"}
	namespaces      = schema.GroupResource{Resource: "namespaces"}
	serviceAccounts = schema.GroupResource{Resource: "serviceaccounts"}
	customResources = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// New returns a server with the namespaces that every cluster has.
func New(o Options) (*Server, error) {
	o.Version = cmp.Or(o.Version, DefaultVersion)
	o.Window = cmp.Or(o.Window, 1000)
	o.BookmarkInterval = cmp.Or(o.BookmarkInterval, time.Minute)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s := &Server{store: storage.NewStore(o.Window)}
	if o.Seed != 0 {
		s.uids.random = seeded('c', o.Seed)
	}
	o.UID = cmp.Or(o.UID, types.UID(s.uids.next().String()))
	s.o = o
	s.registry.Store(kinds.BuiltIn())
	s.stopped, s.stop = context.WithCancel(context.Background())
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		uid := types.UID(s.uids.next().String())
		if name == "kube-system" {
			uid = o.UID
		}
		namespace, err := storage.New(&unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{
				"name": name, "uid": string(uid), "creationTimestamp": o.Clock().UTC().Format(time.RFC3339),
				"labels": map[string]any{"kubernetes.io/metadata.name": name},
			},
			"spec":   map[string]any{"finalizers": []any{"kubernetes"}},
			"status": map[string]any{"phase": "Active"},
		}})
		if err != nil {
			return nil, fmt.Errorf("making namespace %s of API server %q: %w", name, o.Name, err)
		}
		_ = s.store.Write(func(tx storage.Tx) error {
			tx.Put(namespaces, namespace)
			return nil
		})
	}
	s.store.Expire() // no client can have seen what came before
	return s, nil
}

// Stop ends all watches and all work. Requests from then on get a 503.
func (s *Server) Stop() {
	s.stop()
	s.store.Close()
	s.control.wait()
}

// Compact makes all older resource versions expire: who asks for one gets a 410, and running watches end with an ERROR
// event of that code.
func (s *Server) Compact() { s.store.Expire() }

// EndWatches ends all running watches, as a server does after a while.
func (s *Server) EndWatches() { s.store.EndWatches() }

// FailDiscovery makes the discovery of these group versions fail from now on, until it is called again.
func (s *Server) FailDiscovery(gvs ...schema.GroupVersion) {
	gvs = slices.Clone(gvs)
	s.stale.Store(&gvs)
}

func (s *Server) staleVersions() []schema.GroupVersion {
	if gvs := s.stale.Load(); gvs != nil {
		return *gvs
	}
	return nil
}

// Objects returns all objects of a resource, nil if it is not served.
func (s *Server) Objects(gvr schema.GroupVersionResource) []*unstructured.Unstructured {
	r, ok := s.registry.Load().Resource(gvr)
	if !ok {
		return nil
	}
	objects, _, _ := s.store.List(gvr.GroupResource(), "", 0) // the newest state is always known
	list := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		list = append(list, o.Unstructured(r.GVK()))
	}
	return list
}

// Count returns how many objects there are.
func (s *Server) Count() int { return s.store.Count() }
