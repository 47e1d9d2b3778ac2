package secretindex

import (
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"

	corev1 "k8s.io/api/core/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/references"
)

// Version is the state of a Secret. The zero value means that the Secret does not exist.
type Version struct {
	UID             types.UID
	ResourceVersion string
}

// Exists reports whether the Secret exists.
func (v Version) Exists() bool { return v.UID != "" }

// known is what is known of a referenced Secret.
type known struct {
	Version
	// ahead is the resourceVersion of a live read that the watch did not show yet; empty if there is none.
	ahead string
}

// Index is the memory of referenced Secrets. It is a Runnable that needs no leadership: a standby keeps it warm.
type Index struct {
	secrets    metadata.Interface
	cache      ctrlcache.Cache
	namespaces []string // whose Secrets are watched; the empty one means all

	mu       sync.Mutex
	unlisted int                                             // watches that have seen no list yet
	refs     map[types.NamespacedName]referrers              // Secret -> ManagedResources
	byMR     map[types.NamespacedName][]types.NamespacedName // ManagedResource -> Secrets, each once
	versions map[types.NamespacedName]known                  // of referenced Secrets; absent = unknown
	// of referenced Secrets: which reference since the start was its first
	noted   map[types.NamespacedName]uint64
	notes   uint64
	handler func(mr types.NamespacedName)

	synced chan struct{}
}

// New returns an index that watches Secrets with the client and ManagedResources through the cache's informer: Secrets
// of the given namespaces, or of all if there are none. Of Secrets in other namespaces it knows nothing but what is
// read.
func New(secrets metadata.Interface, cache ctrlcache.Cache, namespaces ...string) *Index {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return &Index{
		secrets: secrets, cache: cache, namespaces: namespaces, unlisted: len(namespaces),
		refs:     map[types.NamespacedName]referrers{},
		byMR:     map[types.NamespacedName][]types.NamespacedName{},
		versions: map[types.NamespacedName]known{},
		noted:    map[types.NamespacedName]uint64{},
		synced:   make(chan struct{}),
	}
}

// NeedLeaderElection is false.
func (x *Index) NeedLeaderElection() bool { return false }

// Start watches until ctx ends.
func (x *Index) Start(ctx context.Context) error {
	informer, err := x.cache.GetInformer(ctx, &resourcesv1alpha1.ManagedResource{})
	if err != nil {
		return fmt.Errorf("watching ManagedResources for their Secrets: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { x.setRefs(obj) },
		UpdateFunc: func(_, obj any) { x.setRefs(obj) },
		DeleteFunc: x.drop,
	})
	if err != nil {
		return fmt.Errorf("watching ManagedResources for their Secrets: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }()
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	var watches sync.WaitGroup
	for _, namespace := range x.namespaces {
		watches.Go(func() { x.watch(ctx, namespace) })
	}
	watches.Wait()
	return nil
}

// watch watches the Secrets of a namespace until ctx ends.
func (x *Index) watch(ctx context.Context, namespace string) {
	client := x.secrets.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
	s := &store{index: x, namespace: namespace}
	lw := listWatch{&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return s.list(ctx, client, o)
		},
		WatchFuncWithContext: client.Watch,
	}}
	reflector := toolscache.NewReflectorWithOptions(lw, &metav1.PartialObjectMetadata{}, s,
		toolscache.ReflectorOptions{Name: "secrets of ManagedResources"})
	reflector.RunWithContext(ctx)
}

// listWatch has its reflector begin with a list, from which foreign Secrets are left out, not with a stream of them.
type listWatch struct{ *toolscache.ListWatch }

// IsWatchListSemanticsUnSupported is how a reflector asks for that.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

// WaitForSync blocks until the first list of Secrets, of each namespace, was read; false if ctx ended before.
func (x *Index) WaitForSync(ctx context.Context) bool {
	select {
	case <-x.synced:
		return true
	case <-ctx.Done():
		return false
	}
}

// Synced reports whether the first list of Secrets, of each namespace, was read.
func (x *Index) Synced() bool {
	select {
	case <-x.synced:
		return true
	default:
		return false
	}
}

// SetHandler sets the function that is called for each ManagedResource one of whose Secrets changed; nil for none. It
// must return quickly.
func (x *Index) SetHandler(handler func(mr types.NamespacedName)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.handler = handler
}

// Get returns the version of a Secret. known is false if it was not seen since it was first referenced.
func (x *Index) Get(secret types.NamespacedName) (version Version, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	v, known := x.versions[secret]
	return v.Version, known
}

// Reading is a live read of a Secret that has begun.
type Reading struct {
	index  *Index
	secret types.NamespacedName
	note   uint64
}

// Begin begins a live read. What it finds counts only if the reference was known to the index by now: then what happens
// to the Secret after the read comes as an event. Of a Secret that is not referenced yet events are not kept, so one
// may have been missed between the read and the reference; the handler is called when the reference is there, and it is
// read again.
func (x *Index) Begin(secret types.NamespacedName) Reading {
	x.mu.Lock()
	defer x.mu.Unlock()
	return Reading{index: x, secret: secret, note: x.noted[secret]}
}

// Found records what a live read found. What the watch said in the meantime wins, unless it is older.
func (r Reading) Found(version Version) {
	x := r.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.note == 0 || x.noted[r.secret] != r.note {
		return
	}
	if v, isKnown := x.versions[r.secret]; isKnown {
		newer := v.Exists() && version.Exists() && informers.Older(v.ResourceVersion, version.ResourceVersion)
		if !newer {
			return
		}
	}
	x.versions[r.secret] = known{Version: version, ahead: version.ResourceVersion}
}

func (x *Index) setRefs(obj any) {
	mr, ok := obj.(*resourcesv1alpha1.ManagedResource)
	if !ok {
		return
	}
	name := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	secrets, err := references.Of(mr)
	if err != nil {
		secrets = nil // none of them is read
	}
	secrets = slices.DeleteFunc(secrets, func(s types.NamespacedName) bool { return s.Name == "" })
	x.mu.Lock()
	unknown := x.replaceRefs(name, secrets)
	handler := x.handler
	x.mu.Unlock()
	if unknown && handler != nil {
		handler(name)
	}
}

func (x *Index) drop(obj any) {
	if mr, ok := informers.Object(obj).(*resourcesv1alpha1.ManagedResource); ok {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.replaceRefs(types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}, nil)
	}
}

// replaceRefs records the references of a ManagedResource, and reports whether there is a new one to a Secret whose
// version is unknown. It is linear in the references before and now, however many others refer to the same Secrets.
func (x *Index) replaceRefs(mr types.NamespacedName, secrets []types.NamespacedName) (unknown bool) {
	old := x.byMR[mr]
	if slices.Equal(old, secrets) {
		return false
	}
	gone := sets.New(old...)
	for _, s := range secrets {
		if gone.Has(s) {
			gone.Delete(s)
			continue
		}
		if x.refs[s].none() {
			x.notes++
			x.noted[s] = x.notes
		}
		x.refs[s] = x.refs[s].with(mr)
		if _, known := x.versions[s]; !known {
			unknown = true
		}
	}
	for s := range gone {
		left := x.refs[s].without(mr)
		if left.none() {
			delete(x.refs, s)
			delete(x.versions, s)
			delete(x.noted, s)
		} else {
			x.refs[s] = left
		}
	}
	if len(secrets) == 0 {
		delete(x.byMR, mr)
	} else {
		x.byMR[mr] = secrets
	}
	return unknown
}

// changed records a version as of a resourceVersion. If it is new, it notifies the ManagedResources that refer to the
// Secret. An event from before a known live read is ignored: a run already worked with the newer state. The event of
// the version that was read notifies all: only one of them has read it.
func (x *Index) changed(secret types.NamespacedName, version Version, at string) {
	x.mu.Lock()
	mrs := x.refs[secret].list()
	old, isKnown := x.versions[secret]
	outdated := old.ahead != "" && informers.Older(at, old.ahead)
	if len(mrs) > 0 && !outdated {
		x.versions[secret] = known{Version: version}
	}
	handler := x.handler
	x.mu.Unlock()
	if handler == nil || outdated || isKnown && old == (known{Version: version}) {
		return
	}
	for _, mr := range mrs {
		handler(mr)
	}
}

// lose forgets what is known of a Secret. If anything was, the ManagedResources that refer to it are notified, and read
// it.
func (x *Index) lose(secret types.NamespacedName) {
	x.mu.Lock()
	mrs := x.refs[secret].list()
	_, isKnown := x.versions[secret]
	delete(x.versions, secret)
	handler := x.handler
	x.mu.Unlock()
	if handler == nil || !isKnown {
		return
	}
	for _, mr := range mrs {
		handler(mr)
	}
}
