package networkpolicy

import (
	"cmp"
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// Most names of policies in tests are those of the Service svc with one port.
const first, second = "svc-tcp-5678", "svc-udp-testport"

func TestNP1_ServiceWithoutSelector(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np1")
	b.service(alpha, "np1", "none", func(s *corev1.Service) { s.Spec.Selector = nil })
	b.service(alpha, "np1", "svc", nil)
	b.Eventually(b.policies(alpha, "np1")).Should(Equal(pairs("np1", first)))
}

// twoPorts adds the port testport.
func twoPorts(s *corev1.Service) {
	s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
		Name: "second", Port: 9012, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromString("testport"),
	})
}

func TestNP2_NP3_TwoPorts(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np2")
	b.service(alpha, "np2", "svc", twoPorts)
	b.Eventually(b.specs(alpha, "np2")).Should(Equal(map[string]string{
		"np2/ingress-to-svc-tcp-5678":     in("TCP/5678", peer(to("svc-tcp-5678"), "")),
		"np2/egress-to-svc-tcp-5678":      out(to("svc-tcp-5678"), "TCP/5678", peer(podsJSON, "")),
		"np2/ingress-to-svc-udp-testport": in("UDP/testport", peer(to("svc-udp-testport"), "")),
		"np2/egress-to-svc-udp-testport":  out(to("svc-udp-testport"), "UDP/testport", peer(podsJSON, "")),
	}))
	policy := &networkingv1.NetworkPolicy{}
	b.Expect(alpha.client.Get(context.Background(), name("np2", "ingress-to-svc-tcp-5678"), policy)).To(Succeed())
	b.Expect(policy.Labels).To(Equal(map[string]string{LabelServiceNamespace: "np2", LabelServiceName: "svc"}))
	b.Expect(policy.Annotations).To(HaveKeyWithValue("gardener.cloud/description", "Allows ingress TCP traffic to port "+
		"5678 for pods selected by the np2/svc service selector from pods running in namespace np2 labeled with "+
		"map[networking.resources.gardener.cloud/to-svc-tcp-5678:allowed]."))
}

func TestNP4_APortIsReplaced(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np4")
	service := b.service(alpha, "np4", "svc", twoPorts)
	b.Eventually(b.policies(alpha, "np4")).Should(Equal(pairs("np4", first, second)))
	change(b, alpha, service, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(8080) })
	b.Eventually(b.policies(alpha, "np4")).Should(Equal(pairs("np4", "svc-tcp-8080", second)))
}

func TestNP5_TheSelectorIsRemoved(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np5")
	service := b.service(alpha, "np5", "svc", twoPorts)
	b.Eventually(b.policies(alpha, "np5")).Should(Equal(pairs("np5", first, second)))
	change(b, alpha, service, func(s *corev1.Service) { s.Spec.Selector = nil })
	b.Eventually(b.policies(alpha, "np5")).Should(BeEmpty())
}

func TestNP6_TheServiceIsDeleted(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np6")
	service := b.service(alpha, "np6", "svc", twoPorts)
	b.Eventually(b.policies(alpha, "np6")).Should(Equal(pairs("np6", first, second)))
	b.delete(alpha, service)
	b.Eventually(b.policies(alpha, "np6")).Should(BeEmpty())
}

func TestNP7_NP8_NamespacesThatAreHandled(t *testing.T) {
	b := start(t, nil, alpha)
	namespace := b.foreign(alpha, "np8")
	b.namespace(alpha, "np8-other")
	b.service(alpha, "np8", "svc", nil)
	b.service(alpha, "np8-other", "svc", nil)
	b.Eventually(b.policies(alpha, "np8", "np8-other")).Should(Equal(pairs("np8-other", first)), "NP-8")
	change(b, alpha, namespace, func(n *corev1.Namespace) { n.Labels[testLabel] = b.label })
	b.Eventually(b.policies(alpha, "np8")).Should(Equal(pairs("np8", first)), "NP-8")
	change(b, alpha, namespace, func(n *corev1.Namespace) { n.Labels[testLabel] = "other" })
	b.Eventually(b.policies(alpha, "np8")).Should(BeEmpty(), "NP-7")
	b.Expect(b.policies(alpha, "np8-other")()).To(Equal(pairs("np8-other", first)))
}

func TestNP9_PoliciesOfNothing(t *testing.T) {
	b := start(t, nil, alpha)
	b.foreign(alpha, "np9")
	b.create(alpha, foreignPolicy("np9", "a", name("np9", "not-there")))
	b.create(alpha, foreignPolicy("np9", "b", name("not-there", "not-there")))
	b.create(alpha, foreignPolicy("np9", "c", name("Not-A-Namespace", "svc")))
	b.create(alpha, foreignPolicy("np9", "unlabelled", name("", "")))
	b.Eventually(b.policies(alpha, "np9")).Should(Equal([]string{"np9/unlabelled"}))
}

func TestNP10_PoliciesAreRestored(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np10")
	b.service(alpha, "np10", "svc", nil)
	b.Eventually(b.policies(alpha, "np10")).Should(Equal(pairs("np10", first)))
	want := b.specs(alpha, "np10")()
	policy := &networkingv1.NetworkPolicy{}
	policy.Namespace, policy.Name = "np10", "ingress-to-svc-tcp-5678"
	restored := func() []string {
		key := client.ObjectKeyFromObject(policy)
		policy = &networkingv1.NetworkPolicy{}
		policy.Namespace, policy.Name = key.Namespace, key.Name
		b.Expect(client.IgnoreNotFound(alpha.client.Get(context.Background(), key, policy))).To(Succeed())
		return []string{
			string(canonical(&policy.Spec)), policy.Labels[LabelServiceNamespace], policy.Labels[LabelServiceName],
			policy.Annotations[annotationDescription],
		}
	}
	good := restored()
	for what, edit := range map[string]func(*networkingv1.NetworkPolicy){
		"the spec":        func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress = nil },
		"a label":         func(p *networkingv1.NetworkPolicy) { delete(p.Labels, LabelServiceName) },
		"both labels":     func(p *networkingv1.NetworkPolicy) { p.Labels = nil },
		"another Service": func(p *networkingv1.NetworkPolicy) { p.Labels[LabelServiceName] = "not-there" },
		"the description": func(p *networkingv1.NetworkPolicy) { p.Annotations[annotationDescription] = "x" },
	} {
		change(b, alpha, policy, edit)
		b.Eventually(restored).Should(Equal(good), what)
	}
	b.delete(alpha, policy)
	b.Eventually(b.specs(alpha, "np10")).Should(Equal(want))

	// What others add stays.
	change(b, alpha, policy, func(p *networkingv1.NetworkPolicy) { p.Labels["mine"], p.Spec.Ingress = "yes", nil })
	b.Eventually(restored).Should(Equal(good))
	b.Expect(policy.Labels).To(HaveKeyWithValue("mine", "yes"))
}

func TestNP11_NP12_NP13_NP14_ClientsInOtherNamespaces(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np11")
	b.foreign(alpha, "np11-b", "clients", "np11")
	late := b.foreign(alpha, "np11-c")
	service := b.service(alpha, "np11", "svc", func(s *corev1.Service) {
		twoPorts(s)
		s.Annotations[AnnotationNamespaceSelectors] = selecting("clients", "np11")
	})
	all := []string{"np11", "np11-b", "np11-c"}
	between := func(namespace string, ports ...string) (names []string) {
		for _, port := range ports {
			names = append(names, "np11/ingress-to-"+port+"-from-"+namespace, namespace+"/egress-to-np11-"+port)
		}
		return names
	}
	own := pairs("np11", first, second)
	b.Eventually(b.policies(alpha, all...)).Should(Equal(with(own, between("np11-b", first, second)...)))
	specs := b.specs(alpha, all...)()
	b.Expect(specs).To(HaveKeyWithValue("np11/ingress-to-svc-tcp-5678-from-np11-b",
		in("TCP/5678", peer(to("np11-svc-tcp-5678"), "np11-b"))))
	b.Expect(specs).To(HaveKeyWithValue("np11-b/egress-to-np11-svc-tcp-5678",
		out(to("np11-svc-tcp-5678"), "TCP/5678", peer(podsJSON, "np11"))))

	change(b, alpha, service, func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:1] })
	own = pairs("np11", first)
	b.Eventually(b.policies(alpha, all...)).Should(Equal(with(own, between("np11-b", first)...)), "NP-12")

	change(b, alpha, late, func(n *corev1.Namespace) { n.Labels["clients"] = "np11" })
	b.Eventually(b.policies(alpha, all...)).Should(
		Equal(with(own, append(between("np11-b", first), between("np11-c", first)...)...)), "NP-14")
	change(b, alpha, late, func(n *corev1.Namespace) { delete(n.Labels, "clients") })
	b.Eventually(b.policies(alpha, all...)).Should(Equal(with(own, between("np11-b", first)...)), "NP-13")

	b.foreign(alpha, "np11-d", "clients", "np11")
	b.Eventually(b.policies(alpha, append(all, "np11-d")...)).Should(
		Equal(with(own, append(between("np11-b", first), between("np11-d", first)...)...)), "NP-14")
}

func TestNP15_BothSidesAreCleared(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np15")
	b.foreign(alpha, "np15-b", "clients", "np15")
	clients := annotated(AnnotationNamespaceSelectors, selecting("clients", "np15"))
	without := b.service(alpha, "np15", "svc", clients)
	gone := b.service(alpha, "np15", "gone", clients)
	b.Eventually(b.policies(alpha, "np15", "np15-b")).Should(HaveLen(8))
	change(b, alpha, without, func(s *corev1.Service) { s.Spec.Selector = nil })
	b.delete(alpha, gone)
	b.Eventually(b.policies(alpha, "np15", "np15-b")).Should(BeEmpty())
}

func TestNP16_NP17_NP19_WhichNamespacesHaveClients(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np16")
	b.foreign(alpha, "np16-b", "one", "np16")
	ending := b.foreign(alpha, "np16-c", "two", "np16")
	b.service(alpha, "np16", "svc", annotated(AnnotationNamespaceSelectors,
		`[{"matchLabels":{"one":"np16"}},{"matchLabels":{"two":"np16"}}]`))
	own := pairs("np16", first)
	inB := []string{"np16/ingress-to-" + first + "-from-np16-b", "np16-b/egress-to-np16-" + first}
	inC := []string{"np16/ingress-to-" + first + "-from-np16-c", "np16-c/egress-to-np16-" + first}
	all := b.policies(alpha, "np16", "np16-b", "np16-c")
	b.Eventually(all).Should(Equal(with(own, append(inB, inC...)...)), "NP-16, NP-17")
	b.delete(alpha, ending) // it does not end, since no controller empties it
	b.Eventually(all).Should(Equal(with(own, inB...)), "NP-19")
	b.service(alpha, "np16", "late", annotated(AnnotationNamespaceSelectors, selecting("two", "np16")))
	b.Eventually(all).Should(Equal(with(append(own, pairs("np16", "late-tcp-5678")...), inB...)), "NP-19")
	b.Expect(b.runs("error")()).To(BeZero())
}

func TestNP18_AnEndingNamespaceGetsNothing(t *testing.T) {
	b := start(t, nil, alpha)
	b.stop()
	ending := b.namespace(alpha, "np18")
	b.namespace(alpha, "np18-other")
	b.service(alpha, "np18", "svc", nil)
	b.create(alpha, foreignPolicy("np18", "ingress-to-svc-tcp-5678", name("np18", "svc")))
	b.delete(alpha, ending)
	b.service(alpha, "np18-other", "svc", nil)
	b.restart(nil, alpha)
	b.Eventually(b.policies(alpha, "np18", "np18-other")).Should(Equal(pairs("np18-other", first)), "what is left goes")
	b.Expect(b.runs("error")()).To(BeZero())
}

func TestNP20_TheAliasOfANamespace(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np20")
	b.foreign(alpha, "np20-b", "clients", "np20")
	b.service(alpha, "np20", "svc", annotated(AnnotationNamespaceSelectors, selecting("clients", "np20"),
		AnnotationNamespaceAlias, "all-foos"))
	b.Eventually(b.specs(alpha, "np20", "np20-b")).Should(Equal(map[string]string{
		"np20/ingress-to-svc-tcp-5678":             in("TCP/5678", peer(to("svc-tcp-5678"), "")),
		"np20/egress-to-svc-tcp-5678":              out(to("svc-tcp-5678"), "TCP/5678", peer(podsJSON, "")),
		"np20/ingress-to-svc-tcp-5678-from-np20-b": in("TCP/5678", peer(to("all-foos-svc-tcp-5678"), "np20-b")),
		"np20-b/egress-to-np20-svc-tcp-5678":       out(to("all-foos-svc-tcp-5678"), "TCP/5678", peer(podsJSON, "np20")),
	}))
}

func TestNP22_NP23_NP24_PortsForAliases(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np22")
	service := b.service(alpha, "np22", "svc", annotated(
		AllowedPortsAnnotation("x"), `[{"port":8080},{"port":"http","protocol":"TCP"}]`,
		AllowedPortsAnnotation("y"), `[{"port":8080},{"port":53,"protocol":"UDP"}]`))
	ofY := []string{"svc-tcp-8080-via-y", "svc-udp-53-via-y"}
	b.Eventually(b.policies(alpha, "np22")).Should(Equal(
		pairs("np22", append(ofY, first, "svc-tcp-8080-via-x", "svc-tcp-http-via-x")...)))
	b.Eventually(func() int { return len(b.writes(alpha, "np22")) }).Should(Equal(10))
	change(b, alpha, service, func(s *corev1.Service) { s.Annotations[AllowedPortsAnnotation("x")] = `[{"port":"http"}]` })
	b.Eventually(b.policies(alpha, "np22")).Should(
		Equal(pairs("np22", append(ofY, first, "svc-tcp-http-via-x")...)), "NP-22")
	b.Eventually(func() int { return len(b.writes(alpha, "np22")) }).Should(Equal(12), "NP-22: nothing else is written")

	b.foreign(alpha, "np22-b", "clients", "np22")
	change(b, alpha, service, func(s *corev1.Service) {
		delete(s.Annotations, AllowedPortsAnnotation("y"))
		s.Annotations[AnnotationNamespaceSelectors] = selecting("clients", "np22")
		s.Annotations[AnnotationNamespaceAlias] = "n"
	})
	b.Eventually(b.specs(alpha, "np22-b")).Should(Equal(map[string]string{
		"np22-b/egress-to-np22-svc-tcp-5678":       out(to("n-svc-tcp-5678"), "TCP/5678", peer(podsJSON, "np22")),
		"np22-b/egress-to-np22-svc-tcp-http-via-x": out(to("n-x"), "TCP/http", peer(podsJSON, "np22")),
	}), "NP-24")
	change(b, alpha, service, func(s *corev1.Service) { s.Annotations = nil })
	b.Eventually(b.policies(alpha, "np22", "np22-b")).Should(Equal(pairs("np22", first)), "NP-23")
}

func TestNP25_NP26_NP27_NP28_NP29_TheWorld(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np25")
	service := b.service(alpha, "np25", "svc", annotated(AnnotationFromWorld,
		`[{"port":"10250","protocol":"TCP"},{"port":"name","protocol":"UDP"}]`))
	const world = "np25/ingress-to-svc-from-world"
	b.Eventually(b.specs(alpha, "np25")).Should(HaveKeyWithValue(world,
		`{"podSelector":`+podsJSON+`,"ingress":[{"ports":[`+portJSON("TCP/10250")+`,`+portJSON("UDP/name")+`]}],`+
			`"policyTypes":["Ingress"]}`), "NP-25, NP-29")
	change(b, alpha, service, func(s *corev1.Service) { s.Annotations[AnnotationFromWorld] = "[]" })
	b.Eventually(b.specs(alpha, "np25")).Should(HaveKeyWithValue(world,
		`{"podSelector":`+podsJSON+`,"ingress":[{}],"policyTypes":["Ingress"]}`), "NP-26")
	change(b, alpha, service, func(s *corev1.Service) { delete(s.Annotations, AnnotationFromWorld) })
	b.Eventually(b.policies(alpha, "np25")).Should(Equal(pairs("np25", first)), "NP-27")
	change(b, alpha, service, func(s *corev1.Service) { s.Annotations = map[string]string{AnnotationFromWorld: "[]"} })
	b.Eventually(b.policies(alpha, "np25")).Should(ContainElement(world))
	change(b, alpha, service, func(s *corev1.Service) { s.Spec.Selector = nil })
	b.Eventually(b.policies(alpha, "np25")).Should(BeEmpty(), "NP-28")
	change(b, alpha, service, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"foo": "bar"} })
	b.Eventually(b.policies(alpha, "np25")).Should(ContainElement(world))
	b.delete(alpha, service)
	b.Eventually(b.policies(alpha, "np25")).Should(BeEmpty(), "NP-28")
}

func TestNP46_ALabelThatIsShortened(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np46")
	const long = "this-is-a-very-long-svc-name-which-will-exceed-max-length"
	const short = "this-is-a-very-long-svc-name-which-will-exceed-max-len-7c268"
	service := b.service(alpha, "np46", long, nil)
	b.Eventually(b.specs(alpha, "np46")).Should(Equal(map[string]string{
		"np46/ingress-to-" + long + "-tcp-5678": in("TCP/5678", peer(to(short), "")),
		"np46/egress-to-" + long + "-tcp-5678":  out(to(short), "TCP/5678", peer(podsJSON, "")),
	}))
	b.Eventually(b.warnings(alpha, service)).Should(ConsistOf(And(
		HavePrefix("PodLabelSelectorKeyTooLong: "), ContainSubstring(clientLabelPrefix+short))))
}

func TestNP53_WhatCannotBeReadChangesNothing(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np53")
	for i, annotation := range []string{AnnotationNamespaceSelectors, AllowedPortsAnnotation("x"), AnnotationFromWorld} {
		service := b.service(alpha, "np53", []string{"selectors", "from", "world"}[i], nil)
		own := pairs("np53", service.Name+"-tcp-5678")
		b.Eventually(b.policies(alpha, "np53")).Should(ContainElements(own))
		failed := b.runs("error")()
		change(b, alpha, service, func(s *corev1.Service) {
			s.Annotations = map[string]string{annotation: `{"not": "a list"`}
			s.Spec.Ports[0].TargetPort = intstr.FromInt32(80)
		})
		b.Eventually(b.warnings(alpha, service)).Should(ConsistOf(
			HavePrefix("InvalidNetworkPolicySettings: " + annotation + `: "{\"not\": \"a list\"" cannot be read`)))
		b.Eventually(b.runs("error")).Should(BeNumerically(">", failed))
		b.Expect(b.policies(alpha, "np53")()).To(ContainElements(own), "they stay")
		change(b, alpha, service, func(s *corev1.Service) { s.Annotations = nil })
		b.Eventually(b.policies(alpha, "np53")).Should(ContainElements(pairs("np53", service.Name+"-tcp-80")))
	}
}

// shownPolicy is what is kept of one.
func shownPolicy(service types.NamespacedName, uid types.UID) policy {
	return policy{service: service, uid: uid}
}

// A policy is deleted only as long as it is the one that the watch has shown, and belongs to its Service.
func TestPoliciesOfOthersAreNotDeleted(t *testing.T) {
	b := start(t, nil)
	b.foreign(alpha, "others")
	of := name("not-there", "svc")
	w := &run{reconciler: &reconciler{watches: newWatches(nil)}, Target: &multicluster.Target{Client: alpha.client}}
	for what, test := range map[string]struct {
		change  func(*networkingv1.NetworkPolicy)
		uid     types.UID
		deleted bool
	}{
		"it is as it was": {func(*networkingv1.NetworkPolicy) {}, "", true},
		"another version": {func(p *networkingv1.NetworkPolicy) { p.Labels["mine"] = "yes" }, "", true},
		"no labels":       {func(p *networkingv1.NetworkPolicy) { p.Labels = nil }, "", false},
		"another Service": {func(p *networkingv1.NetworkPolicy) { p.Labels[LabelServiceName] = "other" }, "", false},
		"another one":     {func(*networkingv1.NetworkPolicy) {}, "of the one before", false},
	} {
		policy := foreignPolicy("others", strings.ToLower(strings.ReplaceAll(what, " ", "-")), of)
		b.create(alpha, policy)
		shown := shownPolicy(of, cmp.Or(test.uid, policy.UID))
		change(b, alpha, policy, test.change)
		key := client.ObjectKeyFromObject(policy)
		b.Expect(w.delete(context.Background(), key, shown)).To(Succeed(), what)
		err := alpha.client.Get(context.Background(), key, policy)
		b.Expect(apierrors.IsNotFound(err)).To(Equal(test.deleted), what)
		b.Expect(w.delete(context.Background(), name("others", "gone"), shown)).To(Succeed(), "there is none")
	}
}

func TestNP54_TwoPortsWithOneTarget(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np54")
	b.service(alpha, "np54", "svc", func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "x", Port: 80, TargetPort: intstr.FromInt32(5678)})
	})
	b.Eventually(b.policies(alpha, "np54")).Should(Equal(pairs("np54", first)))
	b.Expect(b.runs("error")()).To(BeZero())
	b.Eventually(func() int { return len(b.writes(alpha, "np54")) }).Should(Equal(2))
}

func TestNP55_APolicyOfAnotherService(t *testing.T) {
	b := start(t, nil, alpha)
	// np55-a with b-svc, and np55-a-b with svc: both want np55-c/egress-to-np55-a-b-svc-tcp-5678.
	b.namespace(alpha, "np55-a")
	b.namespace(alpha, "np55-a-b")
	b.foreign(alpha, "np55-c", "clients", "np55")
	clients := annotated(AnnotationNamespaceSelectors, selecting("clients", "np55"))
	one := b.service(alpha, "np55-a", "b-svc", clients)
	contested := name("np55-c", "egress-to-np55-a-b-svc-tcp-5678")
	policy := &networkingv1.NetworkPolicy{}
	b.Eventually(func() error { return alpha.client.Get(context.Background(), contested, policy) }).Should(Succeed())
	other := b.service(alpha, "np55-a-b", "svc", clients)
	b.Eventually(b.warnings(alpha, other)).Should(ConsistOf(And(HavePrefix("NetworkPolicyConflict: "),
		ContainSubstring("NetworkPolicy "+contested.String()+" belongs to Service np55-a/b-svc"))))
	b.Eventually(b.policies(alpha, "np55-a-b")).Should(HaveLen(3), "the rest is there")
	before := policy.ResourceVersion
	b.Expect(alpha.client.Get(context.Background(), contested, policy)).To(Succeed())
	b.Expect(policy.ResourceVersion).To(Equal(before), "it is left alone")
	b.Expect(b.warnings(alpha, one)()).To(BeEmpty())

	b.delete(alpha, one)
	b.Eventually(func() string {
		b.Expect(client.IgnoreNotFound(alpha.client.Get(context.Background(), contested, policy))).To(Succeed())
		return policy.Labels[LabelServiceName]
	}).Should(Equal("svc"), "it is free now")
}

func TestNP55_APolicyOfNoService(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np55-n")
	policy := foreignPolicy("np55-n", "egress-to-svc-tcp-5678", name("", ""))
	b.create(alpha, policy)
	service := b.service(alpha, "np55-n", "svc", nil)
	b.Eventually(b.warnings(alpha, service)).Should(ConsistOf(And(HavePrefix("NetworkPolicyConflict: "),
		HaveSuffix("NetworkPolicy np55-n/egress-to-svc-tcp-5678 belongs to no Service"))))
	b.Expect(b.specs(alpha, "np55-n")()).To(HaveKeyWithValue("np55-n/egress-to-svc-tcp-5678",
		string(canonical(&policy.Spec))))
	b.delete(alpha, policy)
	b.Eventually(b.specs(alpha, "np55-n")).Should(HaveKeyWithValue("np55-n/egress-to-svc-tcp-5678",
		out(to("svc-tcp-5678"), "TCP/5678", peer(podsJSON, ""))))
}

func TestNP56_NothingIsWrittenWhenAllIsAsItShouldBe(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np56")
	b.foreign(alpha, "np56-b", "clients", "np56")
	service := b.service(alpha, "np56", "svc", annotated(AnnotationNamespaceSelectors, selecting("clients", "np56"),
		AnnotationFromWorld, "[]", AllowedPortsAnnotation("x"), `[{"port":80,"endPort":90}]`))
	all := []string{"np56", "np56-b"}
	b.Eventually(b.policies(alpha, all...)).Should(HaveLen(9))
	b.Eventually(func() int { return len(b.writes(alpha, all...)) }).Should(Equal(9))
	b.stop()
	b.restart(nil, alpha)
	// A Service that is reconciled after all that there are.
	b.Eventually(b.runs("success")).Should(BeNumerically(">", 0))
	change(b, alpha, service, func(s *corev1.Service) { s.Annotations["unrelated"] = "x" })
	b.service(alpha, "np56", "last", nil)
	b.Eventually(b.policies(alpha, all...)).Should(HaveLen(11))
	b.Eventually(func() int { return len(b.writes(alpha, all...)) }).Should(Equal(11))
	b.Expect(b.runs("error")()).To(BeZero())
}

// What the watch of Services shows may be older than policies. A live look decides whether a Service is gone.
func TestAServiceThatIsThereIsNotGone(t *testing.T) {
	b := start(t, nil)
	b.namespace(alpha, "there")
	service := b.service(alpha, "there", "svc", nil)
	w := &run{
		reconciler: &reconciler{watches: newWatches(nil)}, Target: &multicluster.Target{Client: alpha.client},
	}
	gone := func(policies int) bool {
		gone, err := w.gone(context.Background(), client.ObjectKeyFromObject(service), policies)
		b.Expect(err).NotTo(HaveOccurred())
		return gone
	}
	b.Expect(gone(1)).To(BeFalse())
	b.Expect(gone(0)).To(BeTrue(), "without policies it does not matter")
	b.delete(alpha, service)
	b.Expect(gone(1)).To(BeTrue())
}
