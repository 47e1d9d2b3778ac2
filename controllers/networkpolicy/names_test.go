package networkpolicy

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestNP46_NP47_LabelsAreShortened(t *testing.T) {
	exactly := strings.Repeat("x", 60)
	for name, test := range map[string]struct {
		what, key string
		shortened bool
	}{
		"NP-46 the example": {
			"this-is-a-very-long-svc-name-which-will-exceed-max-length-tcp-5678",
			"networking.resources.gardener.cloud/to-this-is-a-very-long-svc-name-which-will-exceed-max-len-7c268", true,
		},
		"NP-47 exactly 63": {exactly, clientLabelPrefix + exactly, false},
		"a short one":      {"svc-tcp-80", "networking.resources.gardener.cloud/to-svc-tcp-80", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			key, shortened := clientLabel(test.what)
			g.Expect(key).To(Equal(test.key))
			g.Expect(shortened).To(Equal(test.shortened))
			g.Expect(len(strings.TrimPrefix(key, prefix))).To(BeNumerically("<=", 63))
		})
	}
}

func TestAliasesInAnnotations(t *testing.T) {
	for key, alias := range map[string]string{
		prefix + "from-all-bars-allowed-ports":                     "all-bars",
		prefix + "from-from-x-allowed-ports":                       "from-x",
		prefix + "from-a-allowed-ports-allowed-ports":              "a-allowed-ports",
		prefix + "from-world-to-ports":                             "",
		prefix + "from--allowed-ports":                             "",
		"x" + prefix + "from-a-allowed-ports":                      "",
		prefix + "from-a-allowed-ports-x":                          "",
		"networking-resources-gardener-cloud/from-a-allowed-ports": "",
	} {
		t.Run(key, func(t *testing.T) {
			g := NewWithT(t)
			found, is := allowedPortsAlias(key)
			g.Expect(found).To(Equal(alias))
			g.Expect(is).To(Equal(alias != ""))
			if alias != "" {
				g.Expect(AllowedPortsAnnotation(alias)).To(Equal(key))
			}
		})
	}
}

func TestNames(t *testing.T) {
	g := NewWithT(t)
	id := id("svc", corev1.ProtocolUDP, intstr.FromString("testport"))
	g.Expect(id).To(Equal("svc-udp-testport"))
	g.Expect(ingressName(id, "")).To(Equal("ingress-to-svc-udp-testport"))
	g.Expect(ingressName(id, "b")).To(Equal("ingress-to-svc-udp-testport-from-b"))
	g.Expect(egressName("", id, "")).To(Equal("egress-to-svc-udp-testport"))
	g.Expect(egressName("a", id, "istio")).To(Equal("egress-to-a-svc-udp-testport-from-istio"))
}
