package networkpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/untrusted"
)

// Bounds of a run.
const (
	parallelWrites = 4
	podsPerPage    = 500
	maxPodPages    = 40
	maxErrors      = 5 // that an error names
)

// service brings the policies of a Service in line with it. It returns after which time to do so if not now.
func (w *run) service(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	existing := map[types.NamespacedName]policy{}
	for _, key := range w.policiesOf(name) {
		value, _, _ := w.Objects(w.policies).Lookup(key)
		if kept, is := value.(policy); is && kept.service == name {
			existing[key] = kept
		}
	}
	value, _, _ := w.Objects(w.services).Lookup(name)
	s, exists := value.(*service)
	if !exists {
		w.memory.forget(name)
		if gone, err := w.gone(ctx, name, len(existing)); err != nil || !gone {
			return 0, err
		}
		return w.apply(ctx, name, nil, nil, existing)
	}
	own, _, _ := w.Objects(w.namespaces).Lookup(types.NamespacedName{Name: name.Namespace})
	in, known := own.(*namespace)
	if !known {
		return 0, nil // it follows in a moment
	}
	var desired Desired
	if w.idle(s, in) == "" {
		var err error
		desired, err = w.desired(ctx, name, s)
		if input := (*InputError)(nil); errors.As(err, &input) {
			w.warn(ctx, name, s.uid, reasonInvalid, input.Error())
			return 0, reconcile.TerminalError(fmt.Errorf("service %s: %w", name, err)) // until it changes
		}
		if err != nil {
			return 0, err
		}
	}
	w.warn(ctx, name, s.uid, reasonInvalid, "")
	w.warn(ctx, name, s.uid, reasonShortened, shortenedMessage(desired.Shortened))
	if settled(desired.Policies, existing) {
		w.warn(ctx, name, s.uid, reasonConflict, "")
		return 0, nil
	}
	if pause := w.memory.pause(name, w.clock.Now()); pause > 0 {
		return pause, nil
	}
	return w.apply(ctx, name, s, desired.Policies, existing)
}

// idle says why no policies follow from a Service in a namespace; empty if some do.
func (w *run) idle(s *service, in *namespace) string {
	switch {
	case s.deleting:
		return "it is being deleted"
	case len(s.selector) == 0 && !s.tooLarge:
		return "it has no selector"
	case in.terminating:
		return "its namespace is being deleted"
	case len(w.handled) > 0 && !matchesAny(w.handled, in.labels):
		return "its namespace is not one that namespaceSelectors of the settings select"
	}
	return ""
}

// settled reports whether all policies are as desired.
func settled(
	desired map[types.NamespacedName]*networkingv1.NetworkPolicy, existing map[types.NamespacedName]policy,
) bool {
	for key, want := range desired {
		if kept, exists := existing[key]; !exists || kept.fingerprint != fingerprintOf(want) {
			return false
		}
	}
	return len(desired) == len(existing)
}

// gone reports whether a Service of which there are policies really does not exist: what the watch of Services shows
// may be older than they are.
func (w *run) gone(ctx context.Context, name types.NamespacedName, policies int) (bool, error) {
	cannotBe := len(validation.IsDNS1123Label(name.Namespace)) > 0 || len(validation.IsDNS1123Label(name.Name)) > 0
	if policies == 0 || cannotBe {
		return true, nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(w.services.Kind)
	if err := w.Client.Get(ctx, name, live); err != nil {
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, fmt.Errorf("reading Service %s: %w", name, err)
	}
	return false, nil
}

// desired computes the policies of a Service.
func (w *run) desired(ctx context.Context, name types.NamespacedName, kept *service) (Desired, error) {
	switch {
	case kept.tooLarge:
		return Desired{}, &InputError{"Service", name.Name, fmt.Sprintf(
			"has a selector with more than %d labels or %d bytes", maxLabels, maxAnnotation)}
	case len(kept.ports) > maxPorts:
		return Desired{}, &InputError{"Service", name.Name, fmt.Sprintf("has more than %d ports", maxPorts)}
	}
	rules, err := parse(kept.annotations)
	if err != nil {
		return Desired{}, err
	}
	s := &Service{
		NamespacedName: name, Selector: kept.selector, Ports: kept.ports, Alias: rules.alias,
		Clients: w.clients(name, rules.selectors), Allowed: rules.allowed, FromWorld: rules.fromWorld, World: rules.world,
	}
	if w.settings.OnlyWithClientPods {
		clients := w.clientsIn()
		s.HasClients = func(namespace, label string) bool {
			_, has := clients[namespace][label]
			return has
		}
	}
	if s.Controller = w.settings.IngressController; s.Controller != nil {
		s.Exposed = w.exposed(name)
	}
	if s.Gateways, err = w.gatewaysOf(ctx, name, kept.uid); err != nil {
		return Desired{}, err
	}
	return Policies(s)
}

// clients are the other namespaces with clients of a Service, sorted.
func (w *run) clients(name types.NamespacedName, selectors []labels.Selector) (clients []string) {
	if len(selectors) == 0 {
		return nil
	}
	w.Objects(w.namespaces).Range(func(key types.NamespacedName, value any) bool {
		kept, is := value.(*namespace)
		if is && key.Name != name.Namespace && !kept.terminating && matchesAny(selectors, kept.labels) {
			clients = append(clients, key.Name)
		}
		return true
	})
	slices.Sort(clients)
	return clients
}

// exposed are the ports of a Service that Ingresses name.
func (w *run) exposed(name types.NamespacedName) (ports []PortReference) {
	w.Objects(w.ingresses).Range(func(key types.NamespacedName, value any) bool {
		if backends, is := value.([]backend); is && key.Namespace == name.Namespace {
			ports = append(ports, portsOf(backends, name)...)
		}
		return true
	})
	slices.SortFunc(ports, comparePorts)
	return slices.Compact(ports)
}

func portsOf(backends []backend, name types.NamespacedName) (ports []PortReference) {
	for _, b := range backends {
		if b.service == name {
			ports = append(ports, b.port)
		}
	}
	return ports
}

func comparePorts(a, b PortReference) int {
	if a.Name != b.Name {
		return strings.Compare(a.Name, b.Name)
	}
	return int(a.Number) - int(b.Number)
}

// gatewaysOf are Istio's gateways that lead to a Service, in each namespace with pods of them.
func (w *run) gatewaysOf(ctx context.Context, name types.NamespacedName, uid types.UID) ([]Gateway, error) {
	subscription := w.present(w.virtualServices)
	if subscription == nil {
		return nil, nil
	}
	ports := map[types.NamespacedName]map[int32]struct{}{} // by the name of the gateway
	subscription.Range(func(key types.NamespacedName, value any) bool {
		kept, is := value.(*virtualService)
		if !is || key.Namespace != name.Namespace {
			return true
		}
		for _, port := range portsOf(kept.backends, name) {
			for _, gateway := range kept.gateways {
				if ports[gateway] == nil {
					ports[gateway] = map[int32]struct{}{}
				}
				ports[gateway][port.Number] = struct{}{}
			}
		}
		return true
	})
	var gateways []Gateway
	var missing []string
	places := map[string][]string{} // where there are pods of a selector
	for _, key := range slices.SortedFunc(maps.Keys(ports), compareNames) {
		selector, exists := w.gateway(key)
		if !exists {
			missing = append(missing, key.String())
			continue
		}
		if len(selector) == 0 {
			return nil, &InputError{"Gateway", key.String(), "has no selector, or too large a one"}
		}
		text := labels.FormatLabels(selector)
		if _, known := places[text]; !known {
			found, err := w.placesOf(ctx, selector)
			if err != nil {
				return nil, fmt.Errorf("looking for the pods of Gateway %s: %w", key, err)
			}
			places[text] = found
		}
		for _, namespace := range places[text] {
			for _, port := range slices.Sorted(maps.Keys(ports[key])) {
				gateways = append(gateways, Gateway{Namespace: namespace, Selector: selector, Port: port})
			}
		}
	}
	w.warn(ctx, name, uid, reasonGateway, missingMessage(missing))
	// The order must not depend on names of gateways that do not matter.
	slices.SortStableFunc(gateways, func(a, b Gateway) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(labels.FormatLabels(a.Selector), labels.FormatLabels(b.Selector)))
	})
	return gateways, nil
}

// gateway returns the selector of one.
func (w *run) gateway(name types.NamespacedName) (selector map[string]string, exists bool) {
	subscription := w.present(w.gateways)
	if subscription == nil {
		return nil, false
	}
	value, exists, _ := subscription.Lookup(name)
	selector, _ = value.(map[string]string)
	return selector, exists
}

// placesOf are the namespaces with pods that a selector matches, sorted. Pods are not watched for it.
func (w *run) placesOf(ctx context.Context, selector map[string]string) ([]string, error) {
	found := map[string]struct{}{}
	pods := &metav1.PartialObjectMetadataList{}
	for range maxPodPages {
		token := pods.Continue
		pods = &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		err := w.Client.List(ctx, pods, client.MatchingLabels(selector), client.Limit(podsPerPage), client.Continue(token))
		if err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		for i := range pods.Items {
			found[pods.Items[i].Namespace] = struct{}{}
		}
		if pods.Continue == "" {
			return slices.Sorted(maps.Keys(found)), nil
		}
	}
	return nil, fmt.Errorf("there are more than %d pods with the labels %s", maxPodPages*podsPerPage,
		untrusted.Text(labels.FormatLabels(selector), maxShown))
}

// apply writes the policies that are desired and not so, and deletes those that are not desired. It returns after which
// time to continue if there were too many.
func (w *run) apply(
	ctx context.Context, name types.NamespacedName, s *service,
	desired map[types.NamespacedName]*networkingv1.NetworkPolicy, existing map[types.NamespacedName]policy,
) (time.Duration, error) {
	var calls []func(context.Context) error
	for _, key := range slices.SortedFunc(maps.Keys(desired), compareNames) {
		want := desired[key]
		if kept, exists := existing[key]; exists && kept.fingerprint == fingerprintOf(want) {
			continue
		}
		calls = append(calls, func(ctx context.Context) error { return w.write(ctx, want) })
	}
	for _, key := range slices.SortedFunc(maps.Keys(existing), compareNames) {
		if desired[key] == nil {
			calls = append(calls, func(ctx context.Context) error { return w.delete(ctx, key, existing[key]) })
		}
	}
	pause := time.Duration(0)
	if n := w.memory.writable(len(calls), w.clock.Now()); n < len(calls) {
		calls, pause = calls[:n], runPeriod
	}
	faults := make([]error, len(calls))
	var group errgroup.Group
	group.SetLimit(parallelWrites)
	for i, call := range calls {
		group.Go(func() error {
			faults[i] = call(ctx)
			return nil
		})
	}
	_ = group.Wait() // the errors are in faults
	faults = slices.DeleteFunc(faults, func(err error) bool { return err == nil })
	var conflicts []string
	for _, err := range faults {
		if conflict := (*conflictError)(nil); errors.As(err, &conflict) {
			conflicts = append(conflicts, conflict.Error())
		}
	}
	if s != nil && (pause == 0 || len(conflicts) > 0) {
		w.warn(ctx, name, s.uid, reasonConflict, conflictMessage(conflicts))
	}
	if len(faults) == 0 {
		return pause, nil
	}
	more := ""
	if len(faults) > maxErrors {
		more, faults = fmt.Sprintf(" (and %d more errors)", len(faults)-maxErrors), faults[:maxErrors]
	}
	return 0, fmt.Errorf("policies of Service %s: %w%s", name, errors.Join(faults...), more)
}

// conflictError says that the name of a policy to be created is taken by a policy of another Service, or of no known
// one.
type conflictError struct{ policy, other types.NamespacedName }

func (e *conflictError) Error() string {
	if e.other.Name == "" {
		return fmt.Sprintf("NetworkPolicy %s belongs to no Service", e.policy)
	}
	return fmt.Sprintf("NetworkPolicy %s belongs to Service %s", e.policy, e.other)
}

// write creates or changes a policy.
func (w *run) write(ctx context.Context, want *networkingv1.NetworkPolicy) error {
	key := client.ObjectKeyFromObject(want)
	value, exists, _ := w.Objects(w.policies).Lookup(key)
	if kept, is := value.(policy); is && kept.service.Name != "" && kept.service != owner(want) {
		return &conflictError{key, kept.service}
	}
	if !exists {
		err := w.Client.Create(ctx, want.DeepCopy())
		if err == nil {
			w.Log.V(1).Info("Created a NetworkPolicy", "policy", key.String())
			return nil
		}
		if isEnding(err) {
			return nil // the watch of namespaces will show that it ends
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating NetworkPolicy %s: %w", key, err)
		}
	}
	live := &networkingv1.NetworkPolicy{}
	if err := w.Client.Get(ctx, key, live); err != nil {
		return fmt.Errorf("reading NetworkPolicy %s: %w", key, err)
	}
	if conflict := contested(live, want); conflict != nil {
		return conflict
	}
	if fingerprintOf(live) == fingerprintOf(want) {
		return nil
	}
	before := live.DeepCopy()
	if live.Labels == nil {
		live.Labels = map[string]string{}
	}
	if live.Annotations == nil {
		live.Annotations = map[string]string{}
	}
	maps.Copy(live.Labels, want.Labels)
	maps.Copy(live.Annotations, want.Annotations)
	live.Spec = want.Spec
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := w.Client.Patch(ctx, live, patch); err != nil {
		return fmt.Errorf("changing NetworkPolicy %s: %w", key, err)
	}
	w.Log.V(1).Info("Changed a NetworkPolicy", "policy", key.String())
	return nil
}

// contested returns an error if the live policy with the name of the wanted one does not belong to the same Service.
// One that has only lost its labels does.
func contested(live, want *networkingv1.NetworkPolicy) error {
	other := owner(live)
	lost := other.Name == "" && live.Annotations[annotationDescription] == want.Annotations[annotationDescription]
	if other != owner(want) && !lost {
		return &conflictError{client.ObjectKeyFromObject(live), other}
	}
	return nil
}

// isEnding reports whether a policy cannot be created because its namespace ends or is gone.
func isEnding(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// delete deletes a policy, but not one that has taken its place, or that does not belong to its Service any longer: the
// watch will show these.
func (w *run) delete(ctx context.Context, key types.NamespacedName, kept policy) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(w.policies.Kind)
	if err := w.Client.Get(ctx, key, live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading NetworkPolicy %s: %w", key, err)
	}
	if live.UID != kept.uid || owner(live) != kept.service {
		return nil
	}
	// One that changes in between is looked at again.
	as := client.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion}
	if err := w.Client.Delete(ctx, live, as); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("deleting NetworkPolicy %s: %w", key, err)
	}
	w.Log.V(1).Info("Deleted a NetworkPolicy", "policy", key.String())
	return nil
}
