package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// Bounds of an explanation: objects of each kind that are read, and policies that are looked at once more.
const (
	maxExplained = 20_000
	maxLooked    = 50
)

// State is how the policies of a Service are.
type State struct {
	// Idle says why no policies follow from the Service; empty if some do.
	Idle string
	// Reason and Message are those of the event about what is wrong with the Service; empty if nothing is.
	Reason, Message string
	// Wanted are the policies that it should have, sorted. Missing, Different and Surplus are those that do not exist, are
	// not as they should be, and should not exist.
	Wanted, Missing, Different, Surplus []types.NamespacedName
	// Shortened are labels that clients need in another form, since they are too long.
	Shortened []string
}

// Settled is true if all policies are as they should be.
func (s *State) Settled() bool { return len(s.Missing)+len(s.Different)+len(s.Surplus) == 0 }

// Explain compares the policies of a Service with what the controller would make of them. It reads all that policies
// follow from, and writes nothing. Of status, only Cluster is looked at.
func Explain(ctx context.Context, target client.Client, status clustercache.Status, settings Settings,
	name types.NamespacedName) (*State, error) {
	settingsOf := func(clustercache.Status) (Settings, bool) { return settings, true }
	r := &reconciler{watches: newWatches(settingsOf), settings: settingsOf, clock: clock.RealClock{}}
	w := &run{reconciler: r, settings: settings, memory: newMemory(), known: map[*multicluster.Objects]knowledge{}}
	var err error
	if w.handled, err = settings.selectors(); err != nil {
		return nil, err
	}
	snapshots := map[*multicluster.Objects]clustercache.Subscription{}
	for _, watch := range r.all() {
		w.known[watch.Objects] = notThere
		if watch.wanted != nil && !watch.wanted(settings) {
			continue
		}
		snapshot, err := multicluster.Snapshot(ctx, target, watch.Objects, maxExplained)
		switch {
		case err == nil:
			snapshots[watch.Objects], w.known[watch.Objects] = snapshot, complete
		case !watch.Optional || !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err):
			return nil, err //nolint:wrapcheck // it says what was listed
		}
	}
	for _, watch := range r.all() {
		if snapshots[watch.Objects] == nil {
			snapshots[watch.Objects] = multicluster.Nothing
		}
	}
	w.Target = multicluster.Look(status, target, snapshots)
	return w.explain(ctx, name)
}

func (w *run) explain(ctx context.Context, name types.NamespacedName) (*State, error) {
	value, _, _ := w.Objects(w.services).Lookup(name)
	s, exists := value.(*service)
	own, _, _ := w.Objects(w.namespaces).Lookup(types.NamespacedName{Name: name.Namespace})
	in, known := own.(*namespace)
	if !exists || !known {
		return nil, apierrors.NewNotFound(networkingv1.Resource("services"), name.String())
	}
	state := &State{Idle: w.idle(s, in)}
	w.collect = func(reason, message string) {
		if message != "" {
			state.Reason, state.Message = reason, message
		}
	}
	var desired Desired
	if state.Idle == "" {
		var err error
		desired, err = w.desired(ctx, name, s)
		if input := (*InputError)(nil); errors.As(err, &input) {
			state.Reason, state.Message = reasonInvalid, input.Error()
			return state, nil
		}
		if err != nil {
			return nil, err
		}
	}
	state.Shortened = desired.Shortened
	existing := map[types.NamespacedName]policy{}
	for _, key := range w.policiesOf(name) {
		value, _, _ := w.Objects(w.policies).Lookup(key)
		if kept, is := value.(policy); is {
			existing[key] = kept
		}
		if desired.Policies[key] == nil {
			state.Surplus = append(state.Surplus, key)
		}
	}
	slices.SortFunc(state.Surplus, compareNames)
	state.Wanted = slices.SortedFunc(maps.Keys(desired.Policies), compareNames)
	for _, key := range state.Wanted {
		kept, exists := existing[key]
		switch {
		case !exists:
			state.Missing = append(state.Missing, key)
		case kept.fingerprint != fingerprintOf(desired.Policies[key]):
			state.Different = append(state.Different, key)
		}
	}
	return state, w.conflicts(ctx, state, desired)
}

// conflicts finds out which of the policies that seem to be missing do not belong to the Service.
func (w *run) conflicts(ctx context.Context, state *State, desired Desired) error {
	var found []string
	for _, key := range state.Missing[:min(len(state.Missing), maxLooked)] {
		live := &networkingv1.NetworkPolicy{}
		switch err := w.Client.Get(ctx, key, live); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("reading NetworkPolicy %s: %w", key, err)
		}
		if err := contested(live, desired.Policies[key]); err != nil {
			found = append(found, err.Error())
		}
	}
	if len(found) > 0 {
		state.Reason, state.Message = reasonConflict, conflictMessage(found)
	}
	return nil
}
