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
	// Metadata looks at objects and takes finalizers off.
	Metadata metadata.Interface
	// Deletes sends deletes whose answer tells what is left; NewDeletes makes one.
	Deletes rest.Interface
	// Client reads in full what metadata does not tell. It must not be cached.
	Client client.Client
	// Mapper resolves kinds. If it can be reset, it is before a kind counts as gone.
	Mapper meta.RESTMapper
	// Hold, if set, is called for each look at an object. What is read with the context that it returns may be large,
	// and is in use until done is called.
	Hold func(ctx context.Context) (held context.Context, done func())
}

// NewDeletes returns what a Target deletes with. The configuration brings the limits with its transport.
func NewDeletes(config *rest.Config) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // for errors, which are all that it decodes
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

// Policy says what of an inventory may be deleted.
type Policy struct {
	// Origin is the origin annotation of the ManagedResource.
	Origin string
	// FieldManager is the hub's. An object that the manifest asks to ignore has no origin; who created it tells then.
	FieldManager string
	// Undecided tells whether it is not known yet whether another ManagedResource has a say in the object. It stays
	// until then. Nil means no.
	Undecided func(inventory.Key) bool
	// ListedByOther tells whether another ManagedResource that has a say in the object lists it. Nil means no.
	ListedByOther func(inventory.Key) bool
	// GiveUp is ListedByOther for an object that is left to that one; false if that one has given it up meanwhile. Nil
	// means ListedByOther.
	GiveUp func(inventory.Key) bool
	// Decline is told of an object that is left to whose origin it bears, so that this one does not leave it to us. Nil
	// tells nobody.
	Decline func(inventory.Key)
	// Wanted tells whether the ManagedResource wants an object. Nil means no.
	Wanted func(inventory.Key) bool
	// Released are objects that the ManagedResource does not manage any more, and that are to stay. A namespace or a
	// definition waits for them.
	Released []resourcesv1alpha1.ObjectReference
	// HolderIn names who lists an object in a namespace that is to stay, empty if nobody does. Deleting the namespace
	// would delete that object. Nil means nobody.
	HolderIn func(namespace string) string
	// HolderOf names who lists an object of a kind that is to stay, empty if nobody does. Deleting the kind's definition
	// would delete that object. Nil means nobody.
	HolderOf func(schema.GroupKind) string
	// KeepGarbageCollectable leaves ConfigMaps and Secrets that carry the garbage collector's label to it.
	KeepGarbageCollectable bool
	// DeletePersistentVolumeClaims deletes the claims of a StatefulSet before the StatefulSet.
	DeletePersistentVolumeClaims bool
	// Forced gives up objects whose aggregated API cannot be reached: they are released.
	Forced bool
	// Parallel bounds the deletions at the same time; at least 1.
	Parallel int
	// Clock tells when the grace of finalize-deletion-after is over; default the real one.
	Clock clock.PassiveClock
}

// Result says what became of one entry.
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
	// Finalized are the finalizers that this call took off.
	Finalized []string
	// Due is when a pending object is due for another look: when its finalizers may be removed, or when it may be known
	// which others have a say in it. Zero if an event will trigger it.
	Due time.Time
	// Reason says why an object was kept or what it waits for.
	Reason string
	// Err is what failed; the result is Pending then.
	Err error

	lingers bool // it is deleted and not gone
	claimed bool // it is kept, and must not go with its namespace or its definition either
	passed  bool // it is pending, and nothing waits for it
}

// Due is when the first of the pending objects is due for another look; zero if none is.
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
	staying  []int // the claimed outcomes of the phases that are over
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
