package csrapprover_test

import (
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"

	. "github.com/trellis-hub/trellis/controllers/csrapprover"
)

const (
	nodeAgentKind = "gardener-node-agent certificate"
	gardenadmKind = "gardenadm certificate"
	nodeAgent     = "gardener.cloud:node-agent:machine:"
	gardenadm     = "gardener.cloud:gardenadm:shoot:"
	bootstrap     = "system:bootstrap:abcdef"
	migrant       = "system:serviceaccount:kube-system:gardener-node-agent"
)

// clientWish asks for a client certificate.
func clientWish(user, commonName string, orgs ...string) wish {
	return wish{
		signer: certificatesv1.KubeAPIServerClientSignerName, user: user, commonName: commonName, orgs: orgs,
	}
}

func TestCSR4_OtherClientCertificatesAreLeftToOthers(t *testing.T) {
	b := start(t)
	b.node(alpha, "csr4", nodeAddresses...)
	b.machine(alpha, home, "machine-csr4", "csr4")
	kubelet := fulfilled("csr4")
	kubelet.signer = certificatesv1.KubeAPIServerClientSignerName
	others := map[string]wish{
		"csr4-kubelet":   kubelet,
		"csr4-user":      clientWish("jane", "jane"),
		"csr4-gardenadm": clientWish(bootstrap, gardenadm+"a:b", "gardener.cloud:system:shoots"), // it is switched off
	}
	var csrs []*certificatesv1.CertificateSigningRequest
	for name, w := range others {
		csrs = append(csrs, b.request(alpha, name, w))
	}
	b.Eventually(b.runs("success")).Should(BeEquivalentTo(len(others)))
	for name := range others {
		b.undecided(alpha, name)
	}

	t.Log("Nothing follows from their deletion")
	for _, csr := range csrs {
		b.delete(alpha, csr)
	}
	b.machine(alpha, home, "csr4", "")
	b.request(alpha, "csr4", clientWish(nodeAgent+"csr4", nodeAgent+"csr4"))
	b.approved(alpha, "csr4", nodeAgentKind)
	b.Eventually(b.runs("success")).Should(BeEquivalentTo(len(others) + 1))
}

func TestCSR5_OtherSignersAreNotWatched(t *testing.T) {
	b := start(t)
	b.machine(alpha, home, "csr5", "")
	for name, signer := range map[string]string{
		"csr5-kubelet": certificatesv1.KubeAPIServerClientKubeletSignerName, "csr5-other": "example.com/other",
	} {
		w := clientWish("system:node:csr5", "system:node:csr5", "system:nodes")
		w.signer = signer
		w.usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
		b.request(alpha, name, w)
	}
	b.request(alpha, "csr5", clientWish(nodeAgent+"csr5", nodeAgent+"csr5"))
	b.approved(alpha, "csr5", nodeAgentKind)
	for _, name := range []string{"csr5-kubelet", "csr5-other"} {
		b.undecided(alpha, name)
		b.Expect(b.calls(alpha, name)).To(BeEmpty())
	}
	entries, err := alpha.AuditEntries()
	b.Expect(err).NotTo(HaveOccurred())
	selectors := map[string]bool{}
	for _, e := range entries {
		reads := e.Resource == "certificatesigningrequests" && (e.Verb == "list" || e.Verb == "watch")
		if !reads || e.UserAgent == testAgent || strings.HasPrefix(e.UserAgent, "kube-apiserver/") {
			continue
		}
		uri, err := url.Parse(e.RequestURI)
		b.Expect(err).NotTo(HaveOccurred())
		selectors[uri.Query().Get("fieldSelector")] = true
	}
	b.Expect(selectors).To(Equal(map[string]bool{
		"spec.signerName=kubernetes.io/kubelet-serving":       true,
		"spec.signerName=kubernetes.io/kube-apiserver-client": true,
	}))
}

func TestCSRNodeAgents(t *testing.T) {
	b := start(t)
	b.machine(alpha, home, "m-fresh", "")
	b.machine(alpha, home, "m-named", "agent-absent")
	b.machine(alpha, home, "m-joined", "agent-present")
	b.node(alpha, "agent-present")
	tests := []struct{ name, user, commonName, check string }{
		{"CSR-6 renewal", nodeAgent + "m-joined", nodeAgent + "m-joined", ""},
		{
			"CSR-7 Machine is missing", nodeAgent + "m-missing", nodeAgent + "m-missing",
			`Machine "m-missing" does not exist`,
		},
		{
			"CSR-8 CN of another Machine", nodeAgent + "m-joined", nodeAgent + "m-fresh",
			`username "gardener.cloud:node-agent:machine:m-joined" is not the common name ` +
				`"gardener.cloud:node-agent:machine:m-fresh"`,
		},
		{"CSR-9 bootstrap without node label", bootstrap, nodeAgent + "m-fresh", ""},
		{"CSR-10 bootstrap without Node", bootstrap, nodeAgent + "m-named", ""},
		{
			"CSR-11 bootstrap with Node", bootstrap, nodeAgent + "m-joined",
			`Machine "m-joined" has joined the cluster already, as Node "agent-present"`,
		},
		{"CSR-12 bootstrap without Machine", bootstrap, nodeAgent + "m-missing", `Machine "m-missing" does not exist`},
		{
			"CSR-13 kubelet", "system:node:agent-present", nodeAgent + "m-joined",
			`username "system:node:agent-present" may not ask for this certificate`,
		},
		{
			"migration user by default", migrant, nodeAgent + "m-joined",
			`username "` + migrant + `" may not ask for this certificate`,
		},
		{"no name", bootstrap, nodeAgent, `"" is not the name of a Machine`},
		{"a path for a name", bootstrap, nodeAgent + "m-fresh/status", `"m-fresh/status" is not the name of a Machine`},
		{
			"two names in a selector", bootstrap, nodeAgent + "m-fresh,x=y", `"m-fresh,x=y" is not the name of a Machine`,
		},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := b.in(t)
			name := "agent-" + string(rune('a'+i))
			b.request(alpha, name, clientWish(test.user, test.commonName))
			if test.check == "" {
				b.approved(alpha, name, nodeAgentKind)
			} else {
				b.denied(alpha, name, nodeAgentKind, test.check)
			}
		})
	}
}

func TestCSR14_WithoutMachinesANodeAgentIsOnTheNodeOfItsName(t *testing.T) {
	b := start(t, with(Settings{WithoutMachines: true}, alpha))
	b.node(alpha, "csr14-present")
	b.request(alpha, "csr14-present", clientWish(bootstrap, nodeAgent+"csr14-present"))
	b.denied(alpha, "csr14-present", nodeAgentKind,
		`Machine "csr14-present" has joined the cluster already, as Node "csr14-present"`)
	b.request(alpha, "csr14-absent", clientWish(bootstrap, nodeAgent+"csr14-absent"))
	b.approved(alpha, "csr14-absent", nodeAgentKind)
	b.request(alpha, "csr14-renewal", clientWish(nodeAgent+"csr14-present", nodeAgent+"csr14-present"))
	b.approved(alpha, "csr14-renewal", nodeAgentKind)
}

func TestCSR15_Gardenadm(t *testing.T) {
	const shoots = "gardener.cloud:system:shoots"
	const badO = `the organization is not "gardener.cloud:system:shoots" and nothing else`
	b := start(t, with(Settings{Gardenadm: true}, alpha))
	tests := []struct {
		name, user string
		orgs       []string
		check      string
	}{
		{"good", bootstrap, []string{shoots}, ""},
		{"bad username", "jane", []string{shoots}, `username "jane" does not begin with "system:bootstrap:"`},
		{"bad O", bootstrap, []string{"others"}, badO},
		{"two O", bootstrap, []string{shoots, "others"}, badO},
		{"no O", bootstrap, nil, badO},
	}
	for i, test := range tests {
		t.Run("CSR-15 "+test.name, func(t *testing.T) {
			b := b.in(t)
			name := "csr15-" + string(rune('a'+i))
			b.request(alpha, name, clientWish(test.user, gardenadm+"garden-x:y", test.orgs...))
			if test.check == "" {
				b.approved(alpha, name, gardenadmKind)
			} else {
				b.denied(alpha, name, gardenadmKind, test.check)
			}
		})
	}
}

// Organizations become groups. Without the setting they are not checked, as in GRM.
func TestStrictDeniesNodeAgentsGroups(t *testing.T) {
	for name, strict := range map[string]bool{"strict-groups": true, "groups": false} {
		b := start(t, with(Settings{Strict: strict}, alpha))
		b.machine(alpha, home, name, "")
		b.request(alpha, name, clientWish(bootstrap, nodeAgent+name, "example:admins"))
		if strict {
			b.denied(alpha, name, nodeAgentKind, "a node agent is in no groups, but there are 1 organizations")
			b.request(alpha, name+"-none", clientWish(bootstrap, nodeAgent+name))
			b.approved(alpha, name+"-none", nodeAgentKind)
		} else {
			b.approved(alpha, name, nodeAgentKind)
		}
		b.stop()
	}
}

// D-8: the ServiceAccount that node agents used to be.
func TestCSRMigrationUser(t *testing.T) {
	b := start(t, with(Settings{MigrationUser: true}, alpha))
	b.machine(alpha, home, "migrating", "migrating")
	b.machine(alpha, home, "unlabelled", "")
	b.request(alpha, "migrating", clientWish(migrant, nodeAgent+"migrating"))
	b.approved(alpha, "migrating", nodeAgentKind)
	b.request(alpha, "unlabelled", clientWish(migrant, nodeAgent+"unlabelled"))
	b.denied(alpha, "unlabelled", nodeAgentKind, `Machine "unlabelled" has no label "node"`)
	b.Expect(b.events.Events).To(BeEmpty())
}
