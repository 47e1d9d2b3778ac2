package prune

import (
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/trellis-hub/trellis/engine/inventory"
)

// Phases in order. An object waits for another one only if that one may need it until it is gone.
const (
	phaseGates     = iota // webhooks and APIServices, which requests pass through; everything waits for them
	phaseInstances        // custom resources and every other kind
	phaseServers          // APIServices of which there were objects
	phaseWorkloads        // workloads, which may have to finalize custom resources
	phaseSettings         // access, configuration, priority classes
	phaseDefinitions
	phaseNamespaces
	phases
)

// order sorts the outcomes into phases, by their positions.
func (r *run) order() [phases][]int {
	var order [phases][]int
	for i := range r.outcomes {
		p := r.phase(r.outcomes[i].Key)
		order[p] = append(order[p], i)
	}
	return order
}

func (r *run) phase(key inventory.Key) int {
	switch gk := key.GroupKind(); inventory.StageOf(gk) {
	case inventory.StageGate:
		if isAPIService(gk) && slices.ContainsFunc(r.outcomes, func(o Outcome) bool { return servedBy(o.Key, key) }) {
			return phaseServers // the objects are reached only through it
		}
		return phaseGates
	case inventory.StageCustom:
		return phaseInstances
	case inventory.StageWorkload:
		return phaseWorkloads
	case inventory.StageFoundation:
		switch {
		case inventory.IsCustomResourceDefinition(gk):
			return phaseDefinitions
		case inventory.IsNamespace(gk):
			return phaseNamespaces
		}
	}
	return phaseSettings
}

func isAPIService(gk schema.GroupKind) bool {
	return gk.Group == "apiregistration.k8s.io" && gk.Kind == "APIService"
}

// servedBy reports whether an object is reached through an APIService. The name is <version>.<group>; the version is
// ignored, since all versions of a group have the same objects.
func servedBy(key, service inventory.Key) bool {
	_, group, _ := strings.Cut(service.Name, ".")
	return key.Group != "" && key.Group == group
}

// held returns a function that says what an object of a phase waits for, empty if it may be deleted. The function is
// safe for concurrent use.
func (r *run) held(ctx context.Context, phase int, order [phases][]int) func(inventory.Key) string {
	first := func(phase int, which func(inventory.Key) bool) string {
		for _, i := range order[phase] {
			if out := &r.outcomes[i]; out.Result == Pending && !out.passed && which(out.Key) {
				return "waits for " + r.outcomes[i].Key.String()
			}
		}
		return ""
	}
	anything := func(inventory.Key) bool { return true }
	gate := ""
	if phase > phaseGates {
		gate = first(phaseGates, anything)
	}
	if gate != "" {
		return func(inventory.Key) string { return gate }
	}
	switch phase {
	case phaseServers:
		return func(service inventory.Key) string {
			return first(phaseInstances, func(k inventory.Key) bool { return servedBy(k, service) })
		}
	case phaseWorkloads, phaseSettings:
		// The controller that removes the finalizers of a custom resource may be among these, with its configuration.
		unfinished := first(phaseInstances, isCustom)
		if unfinished == "" {
			unfinished = first(phaseServers, anything)
		}
		if unfinished != "" || phase == phaseWorkloads {
			return func(inventory.Key) string { return unfinished }
		}
		return r.uses(ctx, order[phaseWorkloads])
	case phaseDefinitions:
		return func(crd inventory.Key) string {
			return first(phaseInstances, func(k inventory.Key) bool { return r.kinds.defines(ctx, crd, k) })
		}
	case phaseNamespaces:
		return func(ns inventory.Key) string {
			for p := range phaseNamespaces {
				if why := first(p, func(k inventory.Key) bool { return k.Namespace == ns.Name }); why != "" {
					return why
				}
			}
			return ""
		}
	}
	return func(inventory.Key) string { return "" }
}

// isCustom reports whether a controller other than Kubernetes' own may have to finalize an object.
func isCustom(k inventory.Key) bool { return !scheme.Scheme.IsGroupRegistered(k.Group) }

// uses returns a function that says which workload still needs an object.
func (r *run) uses(ctx context.Context, workloads []int) func(inventory.Key) string {
	var mu sync.Mutex
	var users []user
	r.parallel(slices.DeleteFunc(slices.Clone(workloads), func(i int) bool {
		return r.outcomes[i].Result != Pending || !runsPods(r.outcomes[i].Key.GroupKind())
	}), func(out *Outcome) {
		u := r.user(ctx, out)
		mu.Lock()
		defer mu.Unlock()
		users = append(users, u)
	})
	slices.SortFunc(users, func(a, b user) int { return a.key.Compare(b.key) })
	return func(k inventory.Key) string {
		for _, u := range users {
			if u.needs(k) {
				return "waits for " + u.key.String()
			}
		}
		return ""
	}
}
