package apply

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/trellis-hub/trellis/engine/inventory"
)

// kindPoll is the interval at which a kind is discovered whose definition was just applied.
const kindPoll = 150 * time.Millisecond

// Run applies intents stage by stage and returns one outcome for each, in the same order. done, if not nil, is called
// with each outcome as soon as it is known, from several goroutines. When ctx ends, what was not tried yet fails with
// its error.
func (a *Applier) Run(ctx context.Context, t Target, intents []Intent, done func(Outcome)) []Outcome {
	outcomes := make([]Outcome, len(intents))
	stages := make([][]int, inventory.Stages)
	for i := range intents {
		s := inventory.StageOf(intents[i].Key.GroupKind())
		stages[s] = append(stages[s], i)
	}
	needs := newNeeds(intents)
	for _, stage := range stages {
		a.parallel(stage, func(i int) {
			out := Outcome{Key: intents[i].Key}
			if err := ctx.Err(); err != nil {
				out.Err = fmt.Errorf("%w: %w", ErrNotTried, context.Cause(ctx))
			} else if missing := needs.missing(intents[i].Key); missing != "" {
				out.Err = fmt.Errorf("%w: it needs %s, which failed", ErrNotTried, missing)
			} else if err := a.awaitKind(ctx, t, needs, intents[i]); err != nil {
				out.Err = err
			} else {
				out = a.oneWithRetry(ctx, t, needs, intents[i])
			}
			if out.Err != nil {
				needs.failed(out.Key)
			}
			outcomes[i] = out
			if done != nil {
				done(out)
			}
		})
	}
	return outcomes
}

// parallel calls f for each index with a bound on how many run at once, and waits.
func (a *Applier) parallel(indexes []int, f func(int)) {
	if len(indexes) == 0 {
		return
	}
	workers := min(max(a.Parallel, 1), len(indexes))
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for _, i := range indexes {
		next <- i
	}
	close(next)
	wg.Wait()
}

// oneWithRetry applies one intent, and retries if the server does not serve a kind yet whose definition was just
// applied: discovery announces a kind a moment before it is served.
func (a *Applier) oneWithRetry(ctx context.Context, t Target, needs *needs, in Intent) Outcome {
	out := a.one(ctx, t, in)
	if out.Err == nil || !needs.definedHere(in.Key.GroupKind()) || !apierrors.IsNotFound(out.Err) {
		return out
	}
	_ = wait.PollUntilContextTimeout(ctx, kindPoll, a.kindTimeout(), false, func(ctx context.Context) (bool, error) {
		out = a.one(ctx, t, in)
		return out.Err == nil || !apierrors.IsNotFound(out.Err), nil
	})
	return out
}

// awaitKind waits until the target knows the kind of an intent, if its definition is among the intents.
func (a *Applier) awaitKind(ctx context.Context, t Target, needs *needs, in Intent) error {
	_, err := mappingFor(ctx, t.Mapper, in.Object)
	if err == nil || !meta.IsNoMatchError(err) || !needs.definedHere(in.Key.GroupKind()) {
		return nil // the apply itself reports any other failure
	}
	pollErr := wait.PollUntilContextTimeout(ctx, kindPoll, a.kindTimeout(), true, func(ctx context.Context) (bool, error) {
		meta.MaybeResetRESTMapper(t.Mapper)
		_, err = mappingFor(ctx, t.Mapper, in.Object)
		return err == nil || !meta.IsNoMatchError(err), nil
	})
	if pollErr != nil {
		return fmt.Errorf("its CustomResourceDefinition was applied, but the kind was not served within %s: %w",
			a.kindTimeout(), err)
	}
	return err
}

func (a *Applier) kindTimeout() time.Duration {
	if a.KindTimeout > 0 {
		return a.KindTimeout
	}
	return 15 * time.Second
}

// needs records which intents depend on which.
type needs struct {
	definitions map[schema.GroupKind]inventory.Key // kind -> its CustomResourceDefinition among the intents
	namespaces  map[string]inventory.Key

	mu     sync.Mutex
	faulty map[inventory.Key]bool
}

func newNeeds(intents []Intent) *needs {
	n := &needs{
		definitions: map[schema.GroupKind]inventory.Key{}, namespaces: map[string]inventory.Key{},
		faulty: map[inventory.Key]bool{},
	}
	for i := range intents {
		gk := intents[i].Key.GroupKind()
		switch {
		case inventory.IsNamespace(gk):
			n.namespaces[intents[i].Key.Name] = intents[i].Key
		case inventory.IsCustomResourceDefinition(gk):
			if defined, _, ok := definedBy(intents[i].Object); ok {
				n.definitions[defined] = intents[i].Key
			}
		}
	}
	return n
}

func (n *needs) definedHere(gk schema.GroupKind) bool {
	_, ok := n.definitions[gk]
	return ok
}

func (n *needs) failed(k inventory.Key) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faulty[k] = true
}

// missing names the object that failed and that this one needs, empty if there is none.
func (n *needs) missing(k inventory.Key) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ns, ok := n.namespaces[k.Namespace]; ok && k.Namespace != "" && n.faulty[ns] {
		return ns.String()
	}
	if def, ok := n.definitions[k.GroupKind()]; ok && n.faulty[def] {
		return def.String()
	}
	return ""
}

// ScopeOfDefined returns a function for Prepare that returns the scopes of kinds whose definitions are among the
// manifests.
func ScopeOfDefined(manifests []*unstructured.Unstructured) func(*unstructured.Unstructured) (namespaced, known bool) {
	scopes := map[schema.GroupKind]bool{}
	for _, m := range manifests {
		if inventory.IsCustomResourceDefinition(m.GroupVersionKind().GroupKind()) {
			if gk, namespaced, ok := definedBy(m); ok {
				scopes[gk] = namespaced
			}
		}
	}
	return func(obj *unstructured.Unstructured) (bool, bool) {
		namespaced, known := scopes[obj.GroupVersionKind().GroupKind()]
		return namespaced, known
	}
}

func definedBy(crd *unstructured.Unstructured) (gk schema.GroupKind, namespaced, ok bool) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
	return schema.GroupKind{Group: group, Kind: kind}, scope != "Cluster", group != "" && kind != ""
}

// Failures returns the outcomes that failed, in the order of their keys.
func Failures(outcomes []Outcome) []Outcome {
	failed := slices.DeleteFunc(slices.Clone(outcomes), func(o Outcome) bool { return o.Err == nil })
	slices.SortFunc(failed, func(a, b Outcome) int { return a.Key.Compare(b.Key) })
	return failed
}
