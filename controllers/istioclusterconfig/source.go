package istioclusterconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// source brings the EnvoyFilters of a source in line with its rules. It returns after which time to do so if not now.
func (w *run) source(ctx context.Context, name string) (time.Duration, error) {
	value, _, _ := w.Objects(w.namespaces).Lookup(types.NamespacedName{Name: name})
	own, exists := value.(namespace)
	if !exists {
		return 0, nil // the target collects its filters, which it owns
	}
	known := w.indexed()
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: name, UID: own.uid}
	rules := known.rules[name]
	if n := len(rules); n > w.bounds.rules {
		w.warn(ctx, about, reasonTooLarge, fmt.Sprintf(
			"EnvoyFilters stay as they are: there are %d DestinationRules, more than %d", n, w.bounds.rules))
		return 0, nil
	}
	effective := w.effective(ctx, name, rules)
	var calls []call
	var tooLarge []string
	existing := w.existing(known.filters[name])
	for _, in := range known.ingress {
		key := types.NamespacedName{Namespace: in, Name: nameOf(name)}
		patches := patchesFor(effective, in, w.bounds.patches)
		if len(patches) == 0 {
			continue
		}
		if len(patches) > w.bounds.patches {
			tooLarge = append(tooLarge, in)
			delete(existing, key)
			continue
		}
		want := newFilter(in, name, own.uid, patches)
		kept, exists := existing[key]
		delete(existing, key)
		switch {
		case exists && kept.fingerprint == fingerprintOf(want):
		case sizeOf(want) > w.bounds.bytes:
			tooLarge = append(tooLarge, in)
		default:
			calls = append(calls, call{key, func(ctx context.Context) error { return w.write(ctx, want) }})
		}
	}
	for key, kept := range existing { // which are not desired
		calls = append(calls, call{key, func(ctx context.Context) error { return w.delete(ctx, key, kept) }})
	}
	message := ""
	if len(tooLarge) > 0 {
		message = fmt.Sprintf("EnvoyFilters stay as they are that would have more than %d patches or %d bytes. "+
			"They are in namespaces: %s", w.bounds.patches, w.bounds.bytes, named(tooLarge))
	}
	w.warn(ctx, about, reasonTooLarge, message)
	if len(calls) == 0 {
		return 0, nil
	}
	if pause := w.memory.pause(name, w.clock.Now()); pause > 0 {
		return pause, nil
	}
	return 0, w.apply(ctx, name, calls)
}

// pair is a rule and its Service.
type pair struct {
	rule    *rule
	service *service
}

// effective are the rules whose Services exist.
func (w *run) effective(ctx context.Context, source string, rules []namedRule) (found []pair) {
	for _, r := range rules {
		value, _, _ := w.Objects(w.services).Lookup(r.service)
		s, exists := value.(*service)
		fault := r.fault
		if exists && fault == "" && s.fault != "" {
			fault = fmt.Sprintf("Service %s: %s", r.service, s.fault)
		}
		if fault != "" {
			fault = "the rule is left out: " + fault
		} else if exists {
			found = append(found, pair{r.rule, s})
		}
		version, kind := destinationRuleKind.ToAPIVersionAndKind()
		w.warn(ctx, corev1.ObjectReference{
			APIVersion: version, Kind: kind, Namespace: source, Name: r.name, UID: r.uid,
		}, reasonInvalid, fault)
	}
	return found
}

// patchesFor are the patches for the gateways in a namespace: in the order of rules, and of the ports of Services. When
// they are more than a number, the rest is left out.
func patchesFor(pairs []pair, ingress string, most int) (patches []patch) {
	for _, p := range pairs {
		if !p.rule.exports.to(ingress) || !p.service.exports.to(ingress) {
			continue
		}
		for _, port := range p.service.ports {
			patches = append(patches, patch{p.rule.service, port.number, p.rule.of(port)})
		}
		if len(patches) > most {
			break
		}
	}
	return patches
}

// existing are some filters, as they are.
func (w *run) existing(keys []types.NamespacedName) map[types.NamespacedName]filter {
	found := make(map[types.NamespacedName]filter, len(keys))
	for _, key := range keys {
		value, _, _ := w.Objects(w.filters).Lookup(key)
		if kept, is := value.(filter); is {
			found[key] = kept
		}
	}
	return found
}

// call changes a filter.
type call struct {
	filter types.NamespacedName
	make   func(context.Context) error
}

// apply makes calls. One that fails does not keep the others from being made.
func (w *run) apply(ctx context.Context, source string, calls []call) error {
	slices.SortFunc(calls, func(a, b call) int { return strings.Compare(a.filter.Namespace, b.filter.Namespace) })
	var faults []error
	for _, c := range calls {
		err := w.memory.writes.Wait(ctx)
		if err == nil {
			err = c.make(ctx)
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	more := ""
	if len(faults) > maxNamed {
		more, faults = fmt.Sprintf(" (and %d more errors)", len(faults)-maxNamed), faults[:maxNamed]
	}
	return fmt.Errorf("filters of namespace %s: %w%s", source, errors.Join(faults...), more)
}

// write creates or changes a filter.
func (w *run) write(ctx context.Context, want *unstructured.Unstructured) error {
	key := client.ObjectKeyFromObject(want)
	if _, exists, _ := w.Objects(w.filters).Lookup(key); !exists {
		err := w.Client.Create(ctx, want.DeepCopy())
		if err == nil {
			w.Log.V(1).Info("Created an EnvoyFilter", "filter", key.String())
			return nil
		}
		if isEnding(err) {
			return nil // a watch will show that the namespace, or the kind, ends
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating EnvoyFilter %s: %w", key, err)
		}
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(envoyFilterKind)
	if err := w.Client.Get(ctx, key, live); err != nil {
		return fmt.Errorf("reading EnvoyFilter %s: %w", key, err)
	}
	if live.GetLabels()[LabelManagedBy] != ManagedBy {
		version, kind := envoyFilterKind.ToAPIVersionAndKind()
		w.warn(ctx, corev1.ObjectReference{
			APIVersion: version, Kind: kind, Namespace: key.Namespace, Name: key.Name, UID: live.GetUID(),
		}, reasonConflict, fmt.Sprintf("an EnvoyFilter with this name is needed, and this one does not have the label %s=%s",
			LabelManagedBy, ManagedBy))
		return fmt.Errorf("EnvoyFilter %s does not have the label %s=%s", key, LabelManagedBy, ManagedBy)
	}
	if fingerprintOf(live) == fingerprintOf(want) {
		return nil
	}
	before := live.DeepCopy()
	live.SetLabels(want.GetLabels())
	live.SetOwnerReferences(want.GetOwnerReferences())
	live.Object["spec"] = want.Object["spec"]
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := w.Client.Patch(ctx, live, patch); err != nil {
		return fmt.Errorf("changing EnvoyFilter %s: %w", key, err)
	}
	w.Log.V(1).Info("Changed an EnvoyFilter", "filter", key.String())
	return nil
}

// isEnding reports whether there is no place for a filter any longer, or not any filter.
func isEnding(err error) bool {
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// delete deletes a filter as it was seen, but not one that has changed since then: it may have lost the label.
func (w *run) delete(ctx context.Context, key types.NamespacedName, seen filter) error {
	gone := &unstructured.Unstructured{}
	gone.SetGroupVersionKind(envoyFilterKind)
	gone.SetNamespace(key.Namespace)
	gone.SetName(key.Name)
	err := w.Client.Delete(ctx, gone, client.Preconditions{UID: &seen.uid, ResourceVersion: &seen.version})
	if apierrors.IsConflict(err) || err != nil && isEnding(err) {
		return nil // a watch will show how it is now
	}
	if err != nil {
		return fmt.Errorf("deleting EnvoyFilter %s: %w", key, err)
	}
	w.Log.V(1).Info("Deleted an EnvoyFilter", "filter", key.String())
	return nil
}
