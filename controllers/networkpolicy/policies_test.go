package networkpolicy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// Selectors in JSON.
const (
	podsJSON       = `{"matchLabels":{"foo":"bar"}}`
	allClients     = `{"podSelector":` + podsJSON + `,"ingress":[{}],"policyTypes":["Ingress"]}`
	ingressPodJSON = `{"matchLabels":{"app":"ingress-controller"}}`
	gatewayPodJSON = `{"matchLabels":{"istio":"ingressgateway"}}`
)

// to selects clients by their label.
func to(what string) string {
	return `{"matchLabels":{"networking.resources.gardener.cloud/to-` + what + `":"allowed"}}`
}

// peer is one in JSON; an empty namespace is that of the policy.
func peer(selector, namespace string) string {
	if namespace == "" {
		return `{"podSelector":` + selector + `}`
	}
	return `{"podSelector":` + selector +
		`,"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"` + namespace + `"}}}`
}

// portJSON is a port such as "TCP/80" or "UDP/name".
func portJSON(text string) string {
	protocol, port, _ := strings.Cut(text, "/")
	if strings.Trim(port, "0123456789") != "" {
		port = `"` + port + `"`
	}
	return `{"protocol":"` + protocol + `","port":` + port + `}`
}

// in and out are specs that let peers in, and pods out to a peer.
func in(port string, peers ...string) string {
	return `{"podSelector":` + podsJSON + `,"ingress":[{"ports":[` + portJSON(port) + `],"from":[` +
		strings.Join(peers, ",") + `]}],"policyTypes":["Ingress"]}`
}

func out(client, port, peer string) string {
	return `{"podSelector":` + client + `,"egress":[{"ports":[` + portJSON(port) + `],"to":[` + peer +
		`]}],"policyTypes":["Egress"]}`
}

// service is that of most tests: a/svc.
func serviceWith(change func(*Service)) *Service {
	s := &Service{
		NamespacedName: types.NamespacedName{Namespace: "a", Name: "svc"},
		Selector:       map[string]string{"foo": "bar"},
		Ports:          []Port{port("TCP", "", 1234, intstr.FromInt32(5678))},
	}
	if change != nil {
		change(s)
	}
	return s
}

func port(protocol corev1.Protocol, name string, number int32, target intstr.IntOrString) Port {
	return Port{Protocol: protocol, Name: name, Number: number, Target: target}
}

// ports are those of an annotation.
func ports(text string) []networkingv1.NetworkPolicyPort {
	ports, err := parsePorts("key", text)
	if err != nil {
		panic(err)
	}
	return ports
}

func gateway(namespace, istio string, port int32) Gateway {
	return Gateway{Namespace: namespace, Selector: map[string]string{"istio": istio}, Port: port}
}

// ownPair is what port 1234 of the service of most tests always has.
func ownPair(more map[string]string) map[string]string {
	all := map[string]string{
		"a/ingress-to-svc-tcp-5678": in("TCP/5678", peer(to("svc-tcp-5678"), "")),
		"a/egress-to-svc-tcp-5678":  out(to("svc-tcp-5678"), "TCP/5678", peer(podsJSON, "")),
	}
	maps.Copy(all, more)
	return all
}

func TestNP_Specs(t *testing.T) {
	controller := func(namespace string) *IngressController {
		return &IngressController{
			Namespace: namespace, PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "ingress-controller"}},
		}
	}
	long := "this-is-a-very-long-svc-name-which-will-exceed-max-length"
	shortened := "this-is-a-very-long-svc-name-which-will-exceed-max-len-7c268"
	for name, test := range map[string]struct {
		service *Service
		want    map[string]string
	}{
		"NP-2 two ports": {
			serviceWith(func(s *Service) {
				s.Ports = append(s.Ports, port("UDP", "x", 9012, intstr.FromString("testport")))
			}),
			ownPair(map[string]string{
				"a/ingress-to-svc-udp-testport": in("UDP/testport", peer(to("svc-udp-testport"), "")),
				"a/egress-to-svc-udp-testport":  out(to("svc-udp-testport"), "UDP/testport", peer(podsJSON, "")),
			}),
		},
		"NP-3 nothing else without annotations": {serviceWith(nil), ownPair(nil)},
		"the port itself without a targetPort": {
			serviceWith(func(s *Service) { s.Ports = []Port{{Number: 5678}} }), ownPair(nil),
		},
		"NP-54 two ports with one targetPort": {
			serviceWith(func(s *Service) {
				s.Ports = append(s.Ports, port("TCP", "x", 80, intstr.FromInt32(5678)))
			}),
			ownPair(nil),
		},
		"NP-11 clients in another namespace": {
			serviceWith(func(s *Service) { s.Clients = []string{"b"} }),
			ownPair(map[string]string{
				"a/ingress-to-svc-tcp-5678-from-b": in("TCP/5678", peer(to("a-svc-tcp-5678"), "b")),
				"b/egress-to-a-svc-tcp-5678":       out(to("a-svc-tcp-5678"), "TCP/5678", peer(podsJSON, "a")),
			}),
		},
		"NP-20 an alias is in labels only": {
			serviceWith(func(s *Service) { s.Clients, s.Alias = []string{"b"}, "all-foos" }),
			ownPair(map[string]string{
				"a/ingress-to-svc-tcp-5678-from-b": in("TCP/5678", peer(to("all-foos-svc-tcp-5678"), "b")),
				"b/egress-to-a-svc-tcp-5678":       out(to("all-foos-svc-tcp-5678"), "TCP/5678", peer(podsJSON, "a")),
			}),
		},
		"NP-21 two aliases, two ports": {
			serviceWith(func(s *Service) {
				s.Allowed = []Allowed{
					{Alias: "x", Ports: ports(`[{"port":8080,"protocol":"TCP"},{"port":"metrics","protocol":"UDP"}]`)},
					{Alias: "y", Ports: ports(`[{"port":8080,"protocol":"TCP"},{"port":"9090"}]`)},
				}
			}),
			ownPair(map[string]string{
				"a/ingress-to-svc-tcp-8080-via-x":    in("TCP/8080", peer(to("x"), "")),
				"a/egress-to-svc-tcp-8080-via-x":     out(to("x"), "TCP/8080", peer(podsJSON, "")),
				"a/ingress-to-svc-udp-metrics-via-x": in("UDP/metrics", peer(to("x"), "")),
				"a/egress-to-svc-udp-metrics-via-x":  out(to("x"), "UDP/metrics", peer(podsJSON, "")),
				"a/ingress-to-svc-tcp-8080-via-y":    in("TCP/8080", peer(to("y"), "")),
				"a/egress-to-svc-tcp-8080-via-y":     out(to("y"), "TCP/8080", peer(podsJSON, "")),
				"a/ingress-to-svc-tcp-9090-via-y":    in("TCP/9090", peer(to("y"), "")),
				"a/egress-to-svc-tcp-9090-via-y":     out(to("y"), "TCP/9090", peer(podsJSON, "")),
			}),
		},
		"NP-24 an alias from other namespaces": {
			serviceWith(func(s *Service) {
				s.Clients, s.Alias = []string{"b"}, "n"
				s.Allowed = []Allowed{{Alias: "x", Ports: ports(`[{"port":8080}]`)}}
			}),
			ownPair(map[string]string{
				"a/ingress-to-svc-tcp-5678-from-b":       in("TCP/5678", peer(to("n-svc-tcp-5678"), "b")),
				"b/egress-to-a-svc-tcp-5678":             out(to("n-svc-tcp-5678"), "TCP/5678", peer(podsJSON, "a")),
				"a/ingress-to-svc-tcp-8080-via-x":        in("TCP/8080", peer(to("x"), "")),
				"a/egress-to-svc-tcp-8080-via-x":         out(to("x"), "TCP/8080", peer(podsJSON, "")),
				"a/ingress-to-svc-tcp-8080-via-x-from-b": in("TCP/8080", peer(to("n-x"), "b")),
				"b/egress-to-a-svc-tcp-8080-via-x":       out(to("n-x"), "TCP/8080", peer(podsJSON, "a")),
			}),
		},
		"NP-25 ports for the world": {
			serviceWith(func(s *Service) {
				s.FromWorld, s.World = true, ports(`[{"port":5678,"protocol":"TCP"},{"port":"name","protocol":"UDP"}]`)
			}),
			ownPair(map[string]string{
				"a/ingress-to-svc-from-world": `{"podSelector":` + podsJSON + `,"ingress":[{"ports":[` +
					portJSON("TCP/5678") + `,` + portJSON("UDP/name") + `]}],"policyTypes":["Ingress"]}`,
			}),
		},
		"NP-26 all ports for the world": {
			serviceWith(func(s *Service) { s.FromWorld, s.World = true, ports(`[]`) }),
			ownPair(map[string]string{
				"a/ingress-to-svc-from-world": allClients,
			}),
		},
		"NP-30 an ingress controller": {
			serviceWith(func(s *Service) {
				s.Controller, s.Exposed = controller("ingress-ctrl-ns"), []PortReference{{Number: 1234}}
			}),
			ownPair(map[string]string{
				"a/ingress-to-svc-tcp-5678-from-ingress-controller": in("TCP/5678", peer(ingressPodJSON, "ingress-ctrl-ns")),
				"ingress-ctrl-ns/egress-to-a-svc-tcp-5678-from-ingress-controller": out(ingressPodJSON, "TCP/5678",
					peer(podsJSON, "a")),
			}),
		},
		"NP-34 an ingress controller beside the Service": {
			serviceWith(func(s *Service) { s.Controller, s.Exposed = controller("a"), []PortReference{{Number: 1234}} }),
			ownPair(map[string]string{
				"a/ingress-to-svc-tcp-5678-from-ingress-controller": in("TCP/5678", peer(ingressPodJSON, "")),
				"a/egress-to-svc-tcp-5678-from-ingress-controller":  out(ingressPodJSON, "TCP/5678", peer(podsJSON, "")),
			}),
		},
		"NP-35 ports by name, and unknown ones": {
			serviceWith(func(s *Service) {
				s.Ports = append(s.Ports, port("TCP", "web", 80, intstr.FromString("http")))
				s.Controller, s.Exposed = controller("k"), []PortReference{{Name: "web"}, {Name: "no"}, {Number: 99}, {}}
			}),
			ownPair(map[string]string{
				"a/ingress-to-svc-tcp-http":                         in("TCP/http", peer(to("svc-tcp-http"), "")),
				"a/egress-to-svc-tcp-http":                          out(to("svc-tcp-http"), "TCP/http", peer(podsJSON, "")),
				"a/ingress-to-svc-tcp-http-from-ingress-controller": in("TCP/http", peer(ingressPodJSON, "k")),
				"k/egress-to-a-svc-tcp-http-from-ingress-controller": out(ingressPodJSON, "TCP/http",
					peer(podsJSON, "a")),
			}),
		},
		"NP-33 no ingress controller": {
			serviceWith(func(s *Service) { s.Exposed = []PortReference{{Number: 1234}} }), ownPair(nil),
		},
		"NP-36 a gateway": {
			serviceWith(func(s *Service) { s.Gateways = []Gateway{gateway("i", "ingressgateway", 1234)} }),
			ownPair(map[string]string{
				"a/ingress-to-svc-tcp-5678-from-i":      in("TCP/5678", peer(gatewayPodJSON, "i")),
				"i/egress-to-a-svc-tcp-5678-from-istio": out(gatewayPodJSON, "TCP/5678", peer(podsJSON, "a")),
			}),
		},
		"NP-36 a gateway beside the Service": {
			serviceWith(func(s *Service) { s.Gateways = []Gateway{gateway("a", "ingressgateway", 1234)} }),
			ownPair(map[string]string{
				"a/ingress-to-svc-tcp-5678-from-istio": in("TCP/5678", peer(gatewayPodJSON, "")),
				"a/egress-to-svc-tcp-5678-from-istio":  out(gatewayPodJSON, "TCP/5678", peer(podsJSON, "")),
			}),
		},
		"NP-36 a gateway that calls an unknown port": {
			serviceWith(func(s *Service) { s.Gateways = []Gateway{gateway("i", "ingressgateway", 5678)} }), ownPair(nil),
		},
		"NP-55 a gateway in a namespace with clients": {
			serviceWith(func(s *Service) {
				s.Clients, s.Gateways = []string{"i"}, []Gateway{gateway("i", "ingressgateway", 1234)}
			}),
			ownPair(map[string]string{
				"a/ingress-to-svc-tcp-5678-from-i": in("TCP/5678", peer(to("a-svc-tcp-5678"), "i"),
					peer(gatewayPodJSON, "i")),
				"i/egress-to-a-svc-tcp-5678":            out(to("a-svc-tcp-5678"), "TCP/5678", peer(podsJSON, "a")),
				"i/egress-to-a-svc-tcp-5678-from-istio": out(gatewayPodJSON, "TCP/5678", peer(podsJSON, "a")),
			}),
		},
		"NP-46 shortened labels": {
			serviceWith(func(s *Service) { s.Name = long }),
			map[string]string{
				"a/ingress-to-" + long + "-tcp-5678": in("TCP/5678", peer(to(shortened), "")),
				"a/egress-to-" + long + "-tcp-5678":  out(to(shortened), "TCP/5678", peer(podsJSON, "")),
			},
		},
		"NP-42 no client pod": {
			serviceWith(func(s *Service) {
				s.HasClients = func(string, string) bool { return false }
				s.FromWorld, s.Clients = true, []string{"b"}
				s.Controller, s.Exposed = controller("a"), []PortReference{{Number: 1234}}
			}),
			map[string]string{
				"a/ingress-to-svc-from-world":                       allClients,
				"a/ingress-to-svc-tcp-5678-from-ingress-controller": in("TCP/5678", peer(ingressPodJSON, "")),
				"a/egress-to-svc-tcp-5678-from-ingress-controller":  out(ingressPodJSON, "TCP/5678", peer(podsJSON, "")),
			},
		},
		"NP-43 a client pod in another namespace": {
			serviceWith(func(s *Service) {
				s.HasClients = func(namespace, label string) bool {
					return namespace == "c" && label == clientLabelPrefix+"a-svc-tcp-5678"
				}
				s.Clients = []string{"b", "c"}
			}),
			map[string]string{
				"a/ingress-to-svc-tcp-5678-from-c": in("TCP/5678", peer(to("a-svc-tcp-5678"), "c")),
				"c/egress-to-a-svc-tcp-5678":       out(to("a-svc-tcp-5678"), "TCP/5678", peer(podsJSON, "a")),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			desired, err := Policies(test.service)
			g.Expect(err).NotTo(HaveOccurred())
			got := map[string]string{}
			for key, policy := range desired.Policies {
				g.Expect(policy.Namespace + "/" + policy.Name).To(Equal(key.String()))
				g.Expect(policy.Labels).To(Equal(map[string]string{
					LabelServiceNamespace: test.service.Namespace, LabelServiceName: test.service.Name,
				}))
				g.Expect(policy.OwnerReferences).To(BeEmpty())
				got[key.String()] = string(canonical(&policy.Spec))
			}
			g.Expect(got).To(Equal(test.want))
			if strings.HasPrefix(name, "NP-46") {
				g.Expect(desired.Shortened).To(Equal([]string{prefix + "to-" + shortened}))
			} else {
				g.Expect(desired.Shortened).To(BeEmpty())
			}
		})
	}
}

// Whole objects, as they are written for the Service of a Gardener resource manager.
func TestNP_Examples(t *testing.T) {
	manager := func(change func(*Service)) *Service {
		s := &Service{
			NamespacedName: types.NamespacedName{Namespace: "a", Name: "gardener-resource-manager"},
			Selector:       map[string]string{"app": "gardener-resource-manager"},
			Ports:          []Port{port("TCP", "", 443, intstr.FromInt32(10250))},
			Clients:        []string{"b"},
		}
		change(s)
		return s
	}
	for file, service := range map[string]*Service{
		"example.yaml": manager(func(*Service) {}),
		"aliases.yaml": manager(func(s *Service) {
			s.Alias, s.Allowed = "all-foos", []Allowed{{Alias: "all-bars", Ports: ports(`[{"port":8080,"protocol":"TCP"}]`)}}
		}),
		"ingress.yaml": manager(func(s *Service) {
			s.Clients, s.Exposed = nil, []PortReference{{Number: 443}}
			s.Controller = &IngressController{
				Namespace: "default", PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"foo": "bar"}},
			}
		}),
		"world.yaml": manager(func(s *Service) {
			s.Clients, s.FromWorld = nil, true
			s.World = ports(`[{"port":5678,"protocol":"TCP"},{"port":"name","protocol":"UDP"}]`)
		}),
	} {
		t.Run("NP-2 NP-11 NP-20 NP-25 NP-30 "+file, func(t *testing.T) {
			g := NewWithT(t)
			desired, err := Policies(service)
			g.Expect(err).NotTo(HaveOccurred())
			content, err := os.ReadFile(filepath.Join("testdata", file))
			g.Expect(err).NotTo(HaveOccurred())
			var want []string
			for _, document := range strings.Split(string(content), "---\n") {
				policy, err := yaml.YAMLToJSONStrict([]byte(document))
				g.Expect(err).NotTo(HaveOccurred())
				want = append(want, string(policy))
			}
			var got []string
			for _, key := range slices.SortedFunc(maps.Keys(desired.Policies), compareNames) {
				policy := desired.Policies[key]
				document, err := yaml.Marshal(map[string]any{
					"metadata": map[string]any{
						"name": policy.Name, "namespace": policy.Namespace,
						"labels": policy.Labels, "annotations": policy.Annotations,
					},
					"spec": policy.Spec,
				})
				g.Expect(err).NotTo(HaveOccurred())
				sorted, err := yaml.YAMLToJSONStrict(document)
				g.Expect(err).NotTo(HaveOccurred())
				got = append(got, string(sorted))
			}
			g.Expect(got).To(Equal(want))
		})
	}
}

func TestNP55_PoliciesWithTheSameName(t *testing.T) {
	g := NewWithT(t)
	// Two gateways in one namespace can share the policy of the Service, but not one of their own.
	s := serviceWith(func(s *Service) {
		s.Gateways = []Gateway{gateway("i", "one", 1234), gateway("i", "two", 1234)}
	})
	desired, err := Policies(s)
	g.Expect(err).NotTo(HaveOccurred())
	ingress := desired.Policies[types.NamespacedName{Namespace: "a", Name: "ingress-to-svc-tcp-5678-from-i"}]
	g.Expect(string(canonical(&ingress.Spec))).To(Equal(in("TCP/5678",
		peer(`{"matchLabels":{"istio":"one"}}`, "i"), peer(`{"matchLabels":{"istio":"two"}}`, "i"))))
	var egress []string
	for key, policy := range desired.Policies {
		if key.Namespace == "i" {
			g.Expect(key.Name).To(MatchRegexp(`^egress-to-a-svc-tcp-5678-from-istio(-[0-9a-f]{5})?$`))
			egress = append(egress, policy.Spec.PodSelector.MatchLabels["istio"])
		}
	}
	g.Expect(egress).To(ConsistOf("one", "two"))
	again, err := Policies(s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(Equal(desired), "it is the same each time")

	// The port http for an alias, and a port of pods with a name that looks like it.
	s = serviceWith(func(s *Service) {
		s.Ports = []Port{port("TCP", "", 80, intstr.FromString("http-via-x"))}
		s.Allowed = []Allowed{{Alias: "x", Ports: ports(`[{"port":"http"}]`)}}
	})
	desired, err = Policies(s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(desired.Policies).To(HaveLen(4), "none is lost")
}

func TestNP53_ServicesThatAskForWhatCannotBe(t *testing.T) {
	clients := make([]string, maxPolicies)
	for i := range clients {
		clients[i] = fmt.Sprintf("n%05d", i)
	}
	for name, test := range map[string]struct {
		service *Service
		problem string
	}{
		"an alias that is no part of a label": {
			serviceWith(func(s *Service) { s.Clients, s.Alias = []string{"b"}, "a b" }),
			AnnotationNamespaceAlias + `: "a b" cannot be a part of a label`,
		},
		"an alias with a slash": {
			serviceWith(func(s *Service) { s.Clients, s.Alias = []string{"b"}, "a/b" }),
			AnnotationNamespaceAlias + `: "a/b" cannot be a part of a label`,
		},
		"an alias that is no part of a name": {
			serviceWith(func(s *Service) { s.Allowed = []Allowed{{Alias: "X", Ports: ports(`[{"port":1}]`)}} }),
			AllowedPortsAnnotation("X") + `: "X" cannot be a part of the name of the policy`,
		},
		"too many policies": {
			serviceWith(func(s *Service) { s.Clients = clients }),
			`Service: "svc" asks for more than 10000 policies: it has 1 ports, and clients in 10000 other namespaces`,
		},
	} {
		t.Run("NP-53 "+name, func(t *testing.T) {
			g := NewWithT(t)
			desired, err := Policies(test.service)
			g.Expect(err).To(MatchError(ContainSubstring(test.problem)))
			g.Expect(desired.Policies).To(BeEmpty())
			var input *InputError
			g.Expect(err).To(BeAssignableToTypeOf(input))
		})
	}
}

func TestFingerprints(t *testing.T) {
	g := NewWithT(t)
	desired, err := Policies(serviceWith(nil))
	g.Expect(err).NotTo(HaveOccurred())
	policy := desired.Policies[types.NamespacedName{Namespace: "a", Name: "egress-to-svc-tcp-5678"}]
	same := fingerprintOf(policy)
	for name, change := range map[string]func(*networkingv1.NetworkPolicy){
		"label":       func(p *networkingv1.NetworkPolicy) { p.Labels[LabelServiceName] = "other" },
		"description": func(p *networkingv1.NetworkPolicy) { delete(p.Annotations, annotationDescription) },
		"peer":        func(p *networkingv1.NetworkPolicy) { p.Spec.Egress[0].To = nil },
		"type":        func(p *networkingv1.NetworkPolicy) { p.Spec.PolicyTypes = nil },
	} {
		other := policy.DeepCopy()
		change(other)
		g.Expect(fingerprintOf(other)).NotTo(Equal(same), name)
	}
	other := policy.DeepCopy()
	other.Labels["unrelated"], other.Annotations["unrelated"] = "x", "y"
	g.Expect(fingerprintOf(other)).To(Equal(same), "others may add to it")
	other.Annotations[annotationDescription] = "Allows egress TCP traffic to port 5678 from pods running in namespace a " +
		"labeled with {map[networking.resources.gardener.cloud/to-svc-tcp-5678:allowed] []} to pods selected by the a/svc " +
		"service selector."
	g.Expect(fingerprintOf(other)).To(Equal(same), "as Gardener's resource manager words it in v1.138")
}
