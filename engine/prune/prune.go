package prune

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// Target is the access to the cluster from which objects are deleted.
type Target struct {
	// Metadata reads objects and removes finalizers.
	Metadata metadata.Interface
	// Deletes sends deletes and returns their response, which says whether the object is gone; see NewDeletes.
	Deletes rest.Interface
	// Client reads full objects where metadata is not enough. It must not be cached.
	Client client.Client
	// Mapper resolves kinds. If it can be reset, it is reset before a kind counts as gone.
	Mapper meta.RESTMapper
	// Hold, if set, is called before each read of an object. Objects that are read with the returned context may be
	// large, and are in use until done is called.
	Hold func(ctx context.Context) (held context.Context, done func())
}

// NewDeletes returns the client for Target.Deletes. Rate limits are those of the transport of the configuration.
func NewDeletes(config *rest.Config) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // only errors are decoded
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("building the client for deletes: %w", err)
	}
	transport.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	deletes, err := rest.UnversionedRESTClientForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("building the client for deletes: %w", err)
	}
	return deletes, nil
}

// Policy says which objects of an inventory may be deleted.
type Policy struct {
	// Origin is the origin annotation of the ManagedResource.
	Origin string
	// FieldManager is that of the hub. It identifies objects with the ignore annotation, which have no origin.
	FieldManager string
	// Undecided reports whether it is not known yet if another ManagedResource may manage the object. It stays until
	// then. Nil means no.
	Undecided func(inventory.Key) bool
	// ListedByOther reports whether another ManagedResource that may manage the object lists it. Nil means no.
	ListedByOther func(inventory.Key) bool
	// GiveUp is called for an object that is left to such a ManagedResource. It returns false if that one has given up
	// the object meanwhile. Nil means true.
	GiveUp func(inventory.Key) bool
	// Disclaim, if set, is called for an object that is left to the ManagedResource of its origin annotation, so that
	// this one does not leave it to us at the same time.
	Disclaim func(inventory.Key)
	// Wanted reports whether the ManagedResource wants an object. Nil means no.
	Wanted func(inventory.Key) bool
	// Released are objects that the ManagedResource no longer manages and that are to stay. A namespace or a definition
	// waits for them.
	Released []resourcesv1alpha1.ObjectReference
	// HolderIn names an owner that lists an object in a namespace, empty if there is none. Deleting the namespace would
	// delete that object. Nil means none.
	HolderIn func(namespace string) string
	// HolderOf names an owner that lists an object of a kind, empty if there is none. Deleting the kind's definition
	// would delete that object. Nil means none.
	HolderOf func(schema.GroupKind) string
	// KeepGarbageCollectable keeps ConfigMaps and Secrets with the label of the garbage collector, which deletes them.
	KeepGarbageCollectable bool
	// DeletePersistentVolumeClaims deletes the claims of a StatefulSet before the StatefulSet.
	DeletePersistentVolumeClaims bool
	// Forced gives up objects whose aggregated API cannot be reached: they are released.
	Forced bool
	// Parallel bounds the concurrent deletions; values below 1 mean 1.
	Parallel int
	// Clock determines when the period of finalize-deletion-after is over. Default: the real clock.
	Clock clock.PassiveClock
}

// Result is the result for one entry.
type Result string

// Results. Kept and Gone take an entry out of the inventory; Pending keeps it.
const (
	Gone    Result = "Gone"
	Kept    Result = "Kept"
	Pending Result = "Pending"
)

// Outcome is the result for one inventory entry.
type Outcome struct {
	Ref    resourcesv1alpha1.ObjectReference
	Key    inventory.Key
	Result Result
	// Deleted is true if this call sent the delete.
	Deleted bool
	// Released is true if the object is kept because it cannot be deleted, ever or at present.
	Released bool
	// Claims is how many claims of a StatefulSet this call deleted.
	Claims int
	// Finalized are the finalizers that this call removed.
	Finalized []string
	// Due is when a pending object is to be tried again: when its finalizers may be removed, or when its possible
	// owners may be known. Zero if an event will trigger it.
	Due time.Time
	// Reason says why an object was kept or what it waits for.
	Reason string
	// Err is what failed; the result is Pending then.
	Err error

	lingers bool // it is terminating
	claimed bool // it is kept, and must not be deleted with its namespace or definition either
	passed  bool // it is pending, but nothing waits for it
}

// Due returns when the first pending object is to be tried again; zero if none is.
func Due(outcomes []Outcome) time.Time {
	var first time.Time
	for _, o := range outcomes {
		if o.Result == Pending && !o.Due.IsZero() && (first.IsZero() || o.Due.Before(first)) {
			first = o.Due
		}
	}
	return first
}

// run is one call of Objects.
type run struct {
	Target
	policy   Policy
	outcomes []Outcome
	kinds    kinds
	staying  []int // the claimed outcomes of earlier phases
}

// Objects deletes what the policy allows of the entries, and returns an outcome for each, sorted like the inventory.
func Objects(ctx context.Context, t Target, refs []resourcesv1alpha1.ObjectReference, policy Policy) []Outcome {
	if policy.Clock == nil {
		policy.Clock = clock.RealClock{}
	}
	r := &run{Target: t, policy: policy, outcomes: make([]Outcome, len(refs))}
	r.kinds.Target = t
	for i := range refs {
		r.outcomes[i] = Outcome{Ref: refs[i], Key: inventory.KeyOf(refs[i])}
	}
	slices.SortStableFunc(r.outcomes, func(a, b Outcome) int { return a.Key.Compare(b.Key) })
	order := r.order()
	for phase, members := range order {
		held := r.held(ctx, phase, order)
		r.parallel(members, func(out *Outcome) {
			if ctx.Err() != nil {
				out.Result, out.Err = Pending, context.Cause(ctx)
				return
			}
			if why := held(out.Key); why != "" {
				out.Result, out.Reason = Pending, why
				return
			}
			r.one(ctx, out)
		})
		r.unreached(ctx, members)
		for _, i := range members {
			if r.outcomes[i].claimed {
				r.staying = append(r.staying, i)
			}
		}
	}
	r.retain(ctx)
	r.explain(ctx)
	return r.outcomes
}

// parallel calls f for outcomes, a bounded number at a time.
func (r *run) parallel(members []int, f func(*Outcome)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(r.policy.Parallel, 1))
	for _, i := range members {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(&r.outcomes[i])
		})
	}
	wg.Wait()
}
