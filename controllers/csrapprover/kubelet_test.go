package csrapprover_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/csrapprover"
)

const kubeletKind = "kubelet server certificate"

// home is that of the first target.
const home = "shoot-alpha"

// nodeAddresses are those of the kubelet that fulfilled describes.
var nodeAddresses = []corev1.NodeAddress{
	{Type: corev1.NodeHostName, Address: "host-1"},
	{Type: corev1.NodeHostName, Address: "host-2"},
	{Type: corev1.NodeInternalDNS, Address: "internal.example.com"},
	{Type: corev1.NodeExternalDNS, Address: "external.example.com"},
	{Type: corev1.NodeInternalIP, Address: "10.0.0.1"},
	{Type: corev1.NodeInternalIP, Address: "10.0.0.2"},
	{Type: corev1.NodeExternalIP, Address: "192.0.2.1"},
	{Type: corev1.NodeExternalIP, Address: "2080:0:0:0:8:800:200C:417A"},
}

// fulfilled is what the kubelet of a node with nodeAddresses asks for.
func fulfilled(node string) wish {
	return wish{
		signer: certificatesv1.KubeletServingSignerName, user: "system:node:" + node, commonName: "system:node:" + node,
		orgs: []string{"system:nodes"},
		dns:  []string{"host-1", "host-2", "internal.example.com", "external.example.com"},
		ips:  []string{"10.0.0.1", "10.0.0.2", "192.0.2.1", "2080::8:800:200c:417a"},
	}
}

func TestCSR1_FulfilledKubeletRequestIsApproved(t *testing.T) {
	b := start(t)
	b.node(alpha, "csr1", nodeAddresses...)
	b.machine(alpha, home, "machine-csr1", "csr1")
	b.request(alpha, "csr1", fulfilled("csr1"))
	b.approved(alpha, "csr1", kubeletKind)
	b.Eventually(b.metric("trellis_controller_csr_decisions_total", "decision", "approved")).Should(BeEquivalentTo(1))
	b.Expect(b.metric("trellis_controller_csr_decisions_total", "decision", "denied")()).To(BeZero())
}

// In the order in which a request is checked: those further down fulfil all that is above.
func TestCSR2_KubeletRequestIsDenied(t *testing.T) {
	b := start(t)
	const n = "csr2"
	b.node(alpha, n, nodeAddresses...)
	b.machine(alpha, home, "machine-csr2", n)
	b.node(alpha, "csr2-lonely", nodeAddresses...)
	b.node(alpha, "csr2-twice", nodeAddresses...)
	b.machine(alpha, home, "machine-csr2-a", "csr2-twice")
	b.machine(alpha, home, "machine-csr2-b", "csr2-twice")
	broken := append(slices.Clone(nodeAddresses), corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.300"})
	b.node(alpha, "csr2-broken", broken...)
	b.machine(alpha, home, "machine-csr2-broken", "csr2-broken")
	long := strings.Repeat("n", 64)
	b.node(alpha, long, nodeAddresses...)
	tests := []struct {
		name   string
		node   string
		change func(*wish)
		check  string
	}{
		{
			"username without prefix", n, func(w *wish) { w.user = "csr2" },
			`username "csr2" does not begin with "system:node:"`,
		},
		{
			"no SANs", n, func(w *wish) { w.dns, w.ips = nil, nil },
			"there are neither DNS names nor IP addresses among the subject alternative names",
		},
		{
			"other SANs only", n, func(w *wish) { w.dns, w.ips, w.emails = nil, nil, []string{"a@example.com"} },
			"there are neither DNS names nor IP addresses among the subject alternative names",
		},
		{
			"CN is not the username", n, func(w *wish) { w.commonName = "system:node:other" },
			`common name "system:node:other" is not the username "system:node:csr2"`,
		},
		{"O is empty", n, func(w *wish) { w.orgs = nil }, `the organization is not "system:nodes" and nothing else`},
		{
			"O has two entries", n, func(w *wish) { w.orgs = []string{"system:nodes", "others"} },
			`the organization is not "system:nodes" and nothing else`,
		},
		{
			"O is another one", n, func(w *wish) { w.orgs = []string{"others"} },
			`the organization is not "system:nodes" and nothing else`,
		},
		{"Node is missing", "csr2-missing", nil, `Node "csr2-missing" does not exist`},
		{"no name", "", nil, `"" is not the name of a Node`},
		{"a path for a name", "../pods", nil, `"../pods" is not the name of a Node`},
		{"no Machine", "csr2-lonely", nil, "there is no Machine with the label node=csr2-lonely"},
		{"no label is so long", long, nil, "no Machine can have the label node=" + long},
		{"two Machines", "csr2-twice", nil, "there is more than one Machine with the label node=csr2-twice"},
		{
			"DNS names differ", n, func(w *wish) { w.dns[0] = "elsewhere" }, `the DNS names are not those of Node "csr2"`,
		},
		{
			"Node has an IP address that is none", "csr2-broken", nil,
			`Node "csr2-broken" has the address "10.0.0.300", which is not an IP address`,
		},
		{
			"IP addresses differ", n, func(w *wish) { w.ips[0] = "10.0.0.3" }, `the IP addresses are not those of Node "csr2"`,
		},
	}
	for i, test := range tests {
		t.Run("CSR-2 "+test.name, func(t *testing.T) {
			b := b.in(t)
			name := "csr2-" + string(rune('a'+i))
			w := fulfilled(test.node)
			if test.change != nil {
				test.change(&w)
			}
			b.request(alpha, name, w)
			b.denied(alpha, name, kubeletKind, test.check)
		})
	}
	const decisions = "trellis_controller_csr_decisions_total"
	b.Eventually(b.metric(decisions, "decision", "denied")).Should(BeEquivalentTo(len(tests)))
	b.Expect(b.metric(decisions, "signer", certificatesv1.KubeletServingSignerName)()).To(BeEquivalentTo(len(tests)))
}

// Each request violates one check and all later ones.
func TestCSR3_ChecksHaveAnOrder(t *testing.T) {
	b := start(t, with(Settings{Strict: true}, alpha))
	b.node(alpha, "csr3-lonely", corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "bad"})
	b.node(alpha, "csr3", corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "bad"})
	b.machine(alpha, home, "machine-csr3", "csr3")
	b.node(alpha, "csr3-names", corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "bad"},
		corev1.NodeAddress{Type: corev1.NodeHostName, Address: "host"})
	b.machine(alpha, home, "machine-csr3-names", "csr3-names")
	b.node(alpha, "csr3-ips", corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.1"},
		corev1.NodeAddress{Type: corev1.NodeHostName, Address: "host"})
	b.machine(alpha, home, "machine-csr3-ips", "csr3-ips")
	bad := wish{
		signer: certificatesv1.KubeletServingSignerName, user: "a-user", commonName: "a-name",
		usages: []certificatesv1.KeyUsage{certificatesv1.UsageCertSign},
	}
	steps := []struct {
		check  string
		repair func(*wish) // what the check before found
	}{
		{`username "a-user" does not begin with "system:node:"`, func(*wish) {}},
		{
			"there are neither DNS names nor IP addresses among the subject alternative names",
			func(w *wish) { w.user = "system:node:csr3-missing" },
		},
		{
			`common name "a-name" is not the username "system:node:csr3-missing"`,
			func(w *wish) { w.ips = []string{"10.0.0.2"} },
		},
		{
			`the organization is not "system:nodes" and nothing else`,
			func(w *wish) { w.commonName = "system:node:csr3-missing" },
		},
		{`Node "csr3-missing" does not exist`, func(w *wish) { w.orgs = []string{"system:nodes"} }},
		{
			"there is no Machine with the label node=csr3-lonely",
			func(w *wish) { w.user, w.commonName = "system:node:csr3-lonely", "system:node:csr3-lonely" },
		},
		{
			`the DNS names are not those of Node "csr3-names"`,
			func(w *wish) { w.user, w.commonName = "system:node:csr3-names", "system:node:csr3-names" },
		},
		{
			`Node "csr3-names" has the address "bad", which is not an IP address`,
			func(w *wish) { w.dns = []string{"host"} },
		},
		{
			`the IP addresses are not those of Node "csr3-ips"`,
			func(w *wish) { w.user, w.commonName = "system:node:csr3-ips", "system:node:csr3-ips" },
		},
		{`usage "cert sign" is not one of a server certificate`, func(w *wish) { w.ips = []string{"10.0.0.1"} }},
	}
	for i, step := range steps {
		name := "csr3-" + string(rune('a'+i))
		step.repair(&bad)
		b.request(alpha, name, bad)
		b.denied(alpha, name, kubeletKind, step.check)
	}
}

func TestCSR21_NamesAndAddressesAreSets(t *testing.T) {
	b := start(t)
	addresses := append(slices.Clone(nodeAddresses),
		corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: "host-1"},
		corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "10.0.0.1"})
	mapped := append(slices.Clone(nodeAddresses),
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "::ffff:10.0.0.9"})
	b.node(alpha, "csr21", addresses...)
	b.machine(alpha, home, "machine-csr21", "csr21")
	b.node(alpha, "csr21-mapped", mapped...)
	b.machine(alpha, home, "machine-csr21-mapped", "csr21-mapped")
	// A certificate that is made by Go cannot have ::ffff:10.0.0.9: it becomes 10.0.0.9, which is another address.
	b.request(alpha, "csr21-mapped", func() wish {
		w := fulfilled("csr21-mapped")
		w.ips = append(w.ips, "::ffff:10.0.0.9")
		return w
	}())
	b.denied(alpha, "csr21-mapped", kubeletKind, `the IP addresses are not those of Node "csr21-mapped"`)
	tests := []struct {
		name   string
		change func(*wish)
		check  string // empty: approved
	}{
		{
			"extra DNS name", func(w *wish) { w.dns = append(w.dns, "extra") },
			`the DNS names are not those of Node "csr21"`,
		},
		{
			"extra IP address", func(w *wish) { w.ips = append(w.ips, "10.0.0.7") },
			`the IP addresses are not those of Node "csr21"`,
		},
		{"missing DNS name", func(w *wish) { w.dns = w.dns[1:] }, `the DNS names are not those of Node "csr21"`},
		{"missing IP address", func(w *wish) { w.ips = w.ips[1:] }, `the IP addresses are not those of Node "csr21"`},
		{"another order", func(w *wish) { slices.Reverse(w.dns); slices.Reverse(w.ips) }, ""},
		{"duplicates", func(w *wish) { w.dns, w.ips = append(w.dns, w.dns...), append(w.ips, w.ips...) }, ""},
	}
	for i, test := range tests {
		t.Run("CSR-21 "+test.name, func(t *testing.T) {
			b := b.in(t)
			name := "csr21-" + string(rune('a'+i))
			w := fulfilled("csr21")
			test.change(&w)
			b.request(alpha, name, w)
			if test.check == "" {
				b.approved(alpha, name, kubeletKind)
			} else {
				b.denied(alpha, name, kubeletKind, test.check)
			}
		})
	}
}

// D-7: usages, e-mail addresses and URIs matter in strict mode only.
func TestCSRStrictMode(t *testing.T) {
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth}
	tests := []struct {
		name   string
		change func(*wish)
		check  string
	}{
		{"usage", func(w *wish) { w.usages = usages }, `usage "client auth" is not one of a server certificate`},
		{
			"e-mail", func(w *wish) { w.emails = []string{"a@example.com"} },
			"there are e-mail addresses or URIs among the subject alternative names",
		},
		{
			"URI", func(w *wish) { w.uris = []string{"spiffe://example.com/a"} },
			"there are e-mail addresses or URIs among the subject alternative names",
		},
		{"server certificate", func(*wish) {}, ""},
	}
	for _, strict := range []bool{false, true} {
		name := map[bool]string{false: "default", true: "strict"}[strict]
		t.Run(name, func(t *testing.T) {
			b := start(t, with(Settings{Strict: strict}, alpha))
			b.node(alpha, "strict", nodeAddresses...)
			b.machine(alpha, home, "machine-strict", "strict")
			for i, test := range tests {
				csr := "strict-" + name + "-" + string(rune('a'+i))
				w := fulfilled("strict")
				test.change(&w)
				b.request(alpha, csr, w)
				if strict && test.check != "" {
					b.denied(alpha, csr, kubeletKind, test.check)
				} else {
					b.approved(alpha, csr, kubeletKind)
				}
			}
		})
	}
}

func TestCSR14_WithoutMachinesAKubeletNeedsANodeOnly(t *testing.T) {
	b := start(t, with(Settings{WithoutMachines: true}, alpha))
	b.node(alpha, "csr14", nodeAddresses...)
	b.request(alpha, "csr14", fulfilled("csr14"))
	b.approved(alpha, "csr14", kubeletKind)
	b.request(alpha, "csr14-missing", fulfilled("csr14-missing"))
	b.denied(alpha, "csr14-missing", kubeletKind, `Node "csr14-missing" does not exist`)
}

func TestCSR22_MachinesOfOtherTargetsDoNotCount(t *testing.T) {
	b := start(t)
	b.node(alpha, "csr22", nodeAddresses...)
	b.machine(alpha, beta.key.Namespace, "machine-csr22", "csr22")
	b.request(alpha, "csr22", fulfilled("csr22"))
	b.denied(alpha, "csr22", kubeletKind, "there is no Machine with the label node=csr22")
}

func TestCSR23_TheSameNameIsDecidedInEachTargetByItself(t *testing.T) {
	b := start(t)
	for _, s := range []*site{alpha, beta} {
		b.node(s, "csr23", nodeAddresses...)
	}
	b.machine(alpha, beta.key.Namespace, "machine-csr23", "csr23")
	b.request(alpha, "csr23", fulfilled("csr23"))
	b.request(beta, "csr23", fulfilled("csr23"))
	b.approved(beta, "csr23", kubeletKind)
	b.denied(alpha, "csr23", kubeletKind, "there is no Machine with the label node=csr23")
}

// Requests are left alone while the settings of a target are missing.
func TestCSRWithoutSettingsNothingIsDecided(t *testing.T) {
	b := start(t, with(Settings{}, beta))
	for _, s := range []*site{alpha, beta} {
		b.node(s, "unset", nodeAddresses...)
		b.machine(alpha, s.key.Namespace, "machine-unset", "unset")
		b.request(s, "unset", fulfilled("unset"))
	}
	b.approved(beta, "unset", kubeletKind)
	b.undecided(alpha, "unset")
	b.Expect(b.calls(alpha, "unset")).To(BeEmpty())
}

// The user of a request is written into the condition, and can be of any length.
func TestCSRMessagesAreBounded(t *testing.T) {
	b := start(t)
	w := fulfilled("bounded")
	w.user = strings.Repeat("u", 4000)
	b.request(alpha, "bounded", w)
	b.Eventually(b.conditions(alpha, "bounded")).Should(HaveLen(1))
	b.Expect(len(b.conditions(alpha, "bounded")()[0].Message)).To(BeNumerically("<=", 1024))
}

func TestCSR24_MachinesOfAForeignNamespaceAreRejected(t *testing.T) {
	b := start(t, func(o *Options) {
		o.Settings = func(clustercache.Status) (Settings, bool) {
			return Settings{MachineNamespace: beta.key.Namespace}, true // right for beta, wrong for alpha
		}
	})
	for _, s := range []*site{alpha, beta} {
		b.node(s, "csr24", nodeAddresses...)
	}
	b.machine(alpha, beta.key.Namespace, "machine-csr24", "csr24")
	b.request(alpha, "csr24", fulfilled("csr24"))
	b.Eventually(b.runs("error")).Should(BeNumerically(">=", 2), "it is tried again")
	b.request(beta, "csr24", fulfilled("csr24"))
	b.approved(beta, "csr24", kubeletKind)
	b.undecided(alpha, "csr24")
	b.Expect(b.events.Events).To(Receive(And(
		ContainSubstring("Warning CSRApproverSettingsInvalid"), ContainSubstring("machineNamespace is \"shoot-beta\""))))
	b.Expect(b.events.Events).NotTo(Receive(), "one event is enough")
	csr := &certificatesv1.CertificateSigningRequest{}
	b.Expect(alpha.client.Get(context.Background(), clientKey("csr24"), csr)).To(Succeed())
	b.Expect(csr.Status).To(Equal(certificatesv1.CertificateSigningRequestStatus{}))
}
