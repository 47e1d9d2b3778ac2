package networkpolicy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/untrusted"
)

// maxPolicies is how many policies one Service can have. One with five ports and clients in 900 namespaces has 9,010.
const maxPolicies = 10_000

// Service is all that its policies follow from.
type Service struct {
	types.NamespacedName
	// Selector is that of its pods, and not empty.
	Selector map[string]string
	Ports    []Port
	// Alias is the namespace's name in the labels of clients in other namespaces; empty: its own name.
	Alias string
	// Clients are the other namespaces with clients, sorted.
	Clients []string
	// Allowed are ports of pods that clients with an alias may call.
	Allowed []Allowed
	// FromWorld lets all clients call the ports World, all if there is none.
	FromWorld bool
	World     []networkingv1.NetworkPolicyPort
	// Controller has the pods of the ingress controller, and Exposed are the ports that Ingresses name.
	Controller *IngressController
	Exposed    []PortReference
	// Gateways are Istio's gateways that pass requests on.
	Gateways []Gateway
	// HasClients reports whether a namespace has a pod with a label of clients; policies for clients that do not exist are
	// left out. Nil: it does not matter.
	HasClients func(namespace, label string) bool
}

// Port is one of a Service.
type Port struct {
	Protocol corev1.Protocol
	Name     string
	Number   int32
	// Target is the port of the pods; zero: the same number.
	Target intstr.IntOrString
}

// PortReference names a port of a Service: by its name, or if that is empty by its number.
type PortReference struct {
	Name   string
	Number int32
}

// Allowed are the ports of pods that clients with an alias may call.
type Allowed struct {
	Alias string
	Ports []networkingv1.NetworkPolicyPort
}

// IngressController says which pods are those of the ingress controller.
type IngressController struct {
	Namespace   string
	PodSelector metav1.LabelSelector
}

// Gateway is the workload of a gateway in one namespace, and a port that it calls.
type Gateway struct {
	Namespace string
	Selector  map[string]string
	Port      int32
}

// Desired are the policies of a Service.
type Desired struct {
	Policies map[types.NamespacedName]*networkingv1.NetworkPolicy
	// Shortened are the keys of labels that clients need and that had to be shortened, sorted.
	Shortened []string
}

// Policies computes those of a Service. An *InputError says that the Service asks for what cannot be.
func Policies(s *Service) (Desired, error) {
	b := &builder{
		Service: s, policies: map[types.NamespacedName]*networkingv1.NetworkPolicy{}, shortened: map[string]struct{}{},
	}
	for _, step := range []func() error{b.toPorts, b.toAllowedPorts, b.fromWorld, b.fromIngress, b.fromGateways} {
		if err := step(); err != nil {
			return Desired{}, err
		}
	}
	return Desired{b.policies, slices.Sorted(maps.Keys(b.shortened))}, nil
}

type builder struct {
	*Service
	policies  map[types.NamespacedName]*networkingv1.NetworkPolicy
	shortened map[string]struct{}
}

// pod returns the port of pods that one of the Service leads to.
func (p Port) pod() networkingv1.NetworkPolicyPort {
	target := p.Target
	if target == (intstr.IntOrString{}) {
		target = intstr.FromInt32(p.Number)
	}
	protocol := p.Protocol
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &target}
}

// find returns the ports of pods that a reference to one of the Service leads to. Protocols share numbers.
func (b *builder) find(reference PortReference) (found []networkingv1.NetworkPolicyPort) {
	for _, port := range b.Ports {
		if reference.Name != "" && port.Name == reference.Name ||
			reference.Name == "" && port.Number == reference.Number {
			found = append(found, port.pod())
		}
	}
	return found
}

// toPorts lets pods call the ports of the Service that have the label for it.
func (b *builder) toPorts() error {
	for _, port := range b.Ports {
		pod := port.pod()
		id := id(b.Name, *pod.Protocol, *pod.Port)
		if err := b.toClients(id, id, pod, &InputError{"Service", b.Name, ""}); err != nil {
			return err
		}
	}
	return nil
}

// toAllowedPorts lets pods with an alias call the ports that are allowed to it.
func (b *builder) toAllowedPorts() error {
	for _, allowed := range b.Allowed {
		blame := &InputError{AllowedPortsAnnotation(allowed.Alias), allowed.Alias, ""}
		for _, port := range allowed.Ports {
			id := id(b.Name, *port.Protocol, *port.Port) + "-via-" + allowed.Alias
			if err := b.toClients(id, allowed.Alias, port, blame); err != nil {
				return err
			}
		}
	}
	return nil
}

// toClients lets pods of the own namespace and of the other ones call a port.
func (b *builder) toClients(id, label string, port networkingv1.NetworkPolicyPort, blame *InputError) error {
	client, err := b.client(b.Namespace, label, blame)
	if err != nil {
		return err
	}
	if client != nil {
		if err := b.pair(b.Namespace, *client, port, ingressName(id, ""), egressName("", id, ""), blame); err != nil {
			return err
		}
	}
	own := b.Namespace
	if b.Alias != "" {
		own, blame = b.Alias, &InputError{AnnotationNamespaceAlias, b.Alias, ""}
	}
	for _, namespace := range b.Clients {
		client, err := b.client(namespace, own+"-"+label, blame)
		if err != nil {
			return err
		}
		if client == nil {
			continue
		}
		ingress, egress := ingressName(id, namespace), egressName(b.Namespace, id, "")
		if err := b.pair(namespace, *client, port, ingress, egress, blame); err != nil {
			return err
		}
	}
	return nil
}

// client selects the clients of something in a namespace. Nil: there is none.
func (b *builder) client(namespace, label string, blame *InputError) (*metav1.LabelSelector, error) {
	key, shortened := clientLabel(label)
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return nil, blame.because("cannot be a part of a label: " + problems[0])
	}
	if shortened {
		b.shortened[key] = struct{}{}
	}
	if b.HasClients != nil && !b.HasClients(namespace, key) {
		return nil, nil
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: allowed}}, nil
}

func (e *InputError) because(problem string) *InputError { return &InputError{e.Key, e.Value, problem} }

// fromWorld lets all clients call ports.
func (b *builder) fromWorld() error {
	if !b.FromWorld {
		return nil
	}
	texts := make([]string, 0, len(b.World))
	for _, port := range b.World {
		texts = append(texts, portText(port))
	}
	blame := &InputError{AnnotationFromWorld, fmt.Sprint(texts), ""}
	return b.add(b.Namespace, ingressName(b.Name, "world"), blame,
		fmt.Sprintf("Allows ingress traffic from everywhere to ports %v for pods selected by the %s service selector.",
			texts, b.NamespacedName),
		networkingv1.NetworkPolicySpec{
			PodSelector: b.pods(),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{Ports: b.World}},
		})
}

// fromIngress lets the ingress controller call the ports that Ingresses name.
func (b *builder) fromIngress() error {
	const from = "ingress-controller"
	if b.Controller == nil {
		return nil
	}
	for _, reference := range b.Exposed {
		for _, port := range b.find(reference) {
			id := id(b.Name, *port.Protocol, *port.Port)
			ingress, egress := ingressName(id, from), egressName(b.from(b.Controller.Namespace), id, from)
			err := b.pair(b.Controller.Namespace, b.Controller.PodSelector, port, ingress, egress,
				&InputError{"Service", b.Name, ""})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// fromGateways lets Istio's gateways call ports.
func (b *builder) fromGateways() error {
	const from = "istio"
	for _, gateway := range b.Gateways {
		for _, port := range b.find(PortReference{Number: gateway.Port}) {
			id := id(b.Name, *port.Protocol, *port.Port)
			origin := gateway.Namespace
			if origin == b.Namespace {
				origin = from
			}
			ingress, egress := ingressName(id, origin), egressName(b.from(gateway.Namespace), id, from)
			selector := metav1.LabelSelector{MatchLabels: gateway.Selector}
			err := b.pair(gateway.Namespace, selector, port, ingress, egress, &InputError{"Service", b.Name, ""})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// from is the Service's namespace in the name of a policy in a namespace.
func (b *builder) from(namespace string) string {
	if namespace == b.Namespace {
		return ""
	}
	return b.Namespace
}

// pods selects those of the Service.
func (b *builder) pods() metav1.LabelSelector { return metav1.LabelSelector{MatchLabels: b.Selector} }

// pair adds the two policies that let pods of a namespace call a port.
func (b *builder) pair(
	namespace string, client metav1.LabelSelector, port networkingv1.NetworkPolicyPort, ingress, egress string,
	blame *InputError,
) error {
	clients := networkingv1.NetworkPolicyPeer{PodSelector: &client}
	pods := networkingv1.NetworkPolicyPeer{PodSelector: ptr.To(b.pods())}
	if namespace != b.Namespace {
		clients.NamespaceSelector = namespaceSelector(namespace)
		pods.NamespaceSelector = namespaceSelector(b.Namespace)
	}
	labelled := selectorText(client)
	err := b.add(b.Namespace, ingress, blame,
		fmt.Sprintf("Allows ingress %s traffic to port %s for pods selected by the %s service selector from pods running "+
			"in namespace %s labeled with %s.", *port.Protocol, port.Port, b.NamespacedName, namespace, labelled),
		networkingv1.NetworkPolicySpec{
			PodSelector: b.pods(),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{clients},
				Ports: []networkingv1.NetworkPolicyPort{port},
			}},
		})
	if err != nil {
		return err
	}
	return b.add(namespace, egress, blame,
		fmt.Sprintf("Allows egress %s traffic to port %s from pods running in namespace %s labeled with %s to pods "+
			"selected by the %s service selector.", *port.Protocol, port.Port, namespace, labelled, b.NamespacedName),
		networkingv1.NetworkPolicySpec{
			PodSelector: client,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{{
				To:    []networkingv1.NetworkPolicyPeer{pods},
				Ports: []networkingv1.NetworkPolicyPort{port},
			}},
		})
}

func namespaceSelector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
}

// add adds a policy. Two with the same name become one if that can allow the same; else the later one gets a name that
// nothing else has.
func (b *builder) add(
	namespace, name string, blame *InputError, description string, spec networkingv1.NetworkPolicySpec,
) error {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if before := b.policies[key]; before != nil {
		if merge(&before.Spec, &spec) {
			return nil
		}
		key.Name += "-" + shortHash(canonical(&spec))
		if b.policies[key] != nil {
			return nil // the same one
		}
	}
	if problems := validation.IsDNS1123Subdomain(key.Name); len(problems) > 0 {
		return blame.because(fmt.Sprintf("cannot be a part of the name of the policy %s: %s", key.Name, problems[0]))
	}
	if len(b.policies) >= maxPolicies {
		return &InputError{"Service", b.Name, fmt.Sprintf(
			"asks for more than %d policies: it has %d ports, and clients in %d other namespaces",
			maxPolicies, len(b.Ports), len(b.Clients))}
	}
	b.policies[key] = &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels:      map[string]string{LabelServiceName: b.Name, LabelServiceNamespace: b.Namespace},
			Annotations: map[string]string{annotationDescription: untrusted.Message(description)},
		},
		Spec: spec,
	}
	return nil
}

// merge has a policy allow what another one allows as well, if they differ in their peers only.
func merge(into, from *networkingv1.NetworkPolicySpec) bool {
	equal := apiequality.Semantic.DeepEqual
	switch {
	case equal(into, from):
		return true
	case !equal(into.PodSelector, from.PodSelector), len(into.Ingress) != len(from.Ingress):
		return false
	case len(into.Ingress) == 1:
		a, b := &into.Ingress[0], &from.Ingress[0]
		return equal(a.Ports, b.Ports) && mergePeers(&a.From, b.From)
	case len(into.Egress) == 1 && len(from.Egress) == 1:
		a, b := &into.Egress[0], &from.Egress[0]
		return equal(a.Ports, b.Ports) && mergePeers(&a.To, b.To)
	}
	return false
}

// mergePeers adds peers. None would be all.
func mergePeers(into *[]networkingv1.NetworkPolicyPeer, from []networkingv1.NetworkPolicyPeer) bool {
	if len(*into) == 0 || len(from) == 0 {
		return false
	}
	for _, peer := range from {
		is := func(other networkingv1.NetworkPolicyPeer) bool { return apiequality.Semantic.DeepEqual(peer, other) }
		if !slices.ContainsFunc(*into, is) {
			*into = append(*into, peer)
		}
	}
	return true
}

// canonical is the same for specs that are the same.
func canonical(spec *networkingv1.NetworkPolicySpec) []byte {
	content, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("a policy cannot be written as JSON: %v", err)) // it has nothing but strings and numbers
	}
	return content
}

// worded makes descriptions of later versions of Gardener's resource manager what the hub writes, for comparison: they
// have selectors as {map[key:value] []}, and taking over a target is no reason to write its policies.
var worded = strings.NewReplacer("{map[", "map[", "] []}", "]")

// fingerprint is a hash of a text, or of all of a policy that follows from its Service.
type fingerprint [16]byte

func fingerprintOfText(text string) fingerprint {
	sum := sha256.Sum256([]byte(text))
	return fingerprint(sum[:len(fingerprint{})])
}

func fingerprintOf(policy *networkingv1.NetworkPolicy) fingerprint {
	hash := sha256.New()
	for _, text := range []string{
		policy.Labels[LabelServiceNamespace], policy.Labels[LabelServiceName],
		worded.Replace(policy.Annotations[annotationDescription]),
	} {
		_, _ = fmt.Fprintf(hash, "%q,", text)
	}
	_, _ = hash.Write(canonical(&policy.Spec))
	return fingerprint(hash.Sum(nil)[:len(fingerprint{})])
}
