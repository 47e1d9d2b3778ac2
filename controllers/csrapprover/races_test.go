package csrapprover_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/trellis-hub/trellis/controllers/csrapprover"
)

func clientKey(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

// in is the same approver in a subtest.
func (b *bench) in(t *testing.T) *bench {
	sub := *b
	sub.t, sub.WithT = t, NewWithT(t)
	sub.SetDefaultEventuallyTimeout(patience)
	return &sub
}

// decide decides a request as another approver does.
func (b *bench) decide(s *site, csr *certificatesv1.CertificateSigningRequest, conditionType string) {
	b.t.Helper()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.RequestConditionType(conditionType), Status: corev1.ConditionTrue, Reason: "Other",
	})
	b.Expect(s.client.SubResource("approval").Update(context.Background(), csr)).To(Succeed())
}

func TestCSR16_WhatIsDecidedCostsNoCall(t *testing.T) {
	off := start(t, with(Settings{}))
	for name, decision := range map[string]string{"csr16-approved": "Approved", "csr16-denied": "Denied"} {
		off.decide(alpha, off.request(alpha, name, fulfilled("csr16")), decision)
	}
	issued := off.request(alpha, "csr16-issued", fulfilled("csr16"))
	issued.Status.Certificate = alpha.RESTConfig().CertData
	off.Expect(alpha.client.Status().Update(context.Background(), issued)).To(Succeed())
	off.stop()

	b := start(t, with(Settings{}, alpha))
	b.machine(alpha, home, "csr16", "")
	b.request(alpha, "csr16", clientWish(nodeAgent+"csr16", nodeAgent+"csr16"))
	b.approved(alpha, "csr16", nodeAgentKind)
	// That of another signer is seen by another watch.
	b.node(alpha, "csr16", nodeAddresses...)
	b.machine(alpha, home, "machine-csr16", "csr16")
	b.request(alpha, "csr16-kubelet", fulfilled("csr16"))
	b.approved(alpha, "csr16-kubelet", kubeletKind)
	for _, name := range []string{"csr16-approved", "csr16-denied", "csr16-issued"} {
		b.Expect(b.calls(alpha, name)).To(BeEmpty())
	}
	b.Expect(b.conditions(alpha, "csr16-issued")()).To(BeEmpty())
}

func TestCSR17_GarbageIsAnErrorAndNoDenial(t *testing.T) {
	b := start(t, with(Settings{}, alpha))
	valid := fulfilled("csr17").pem(b)
	large := fulfilled("csr17")
	for i := range 501 {
		large.dns = append(large.dns, fmt.Sprintf("n%d", i))
	}
	huge := fulfilled("csr17")
	huge.dns = []string{strings.Repeat("x", 64<<10)}
	tests := []struct {
		name    string
		request []byte
		fault   string
	}{
		{"no PEM", []byte("garbage"), "spec.request is not in PEM"},
		{
			"another block", []byte(strings.ReplaceAll(string(valid), "CERTIFICATE REQUEST", "CERTIFICATE")),
			`spec.request is a "CERTIFICATE" instead of a "CERTIFICATE REQUEST"`,
		},
		{
			"no request in it", []byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"),
			"spec.request cannot be parsed",
		},
		{"too many names", large.pem(b), "spec.request has 509 alternative names, more than 500"},
		{"too many bytes", huge.pem(b), "bytes, more than 65536"},
	}
	for i, test := range tests {
		t.Run("CSR-17 "+test.name, func(t *testing.T) {
			b := b.in(t)
			name := "csr17-" + string(rune('a'+i))
			failed := b.runs("error")()
			// An API server does not take garbage, but a target may be something else.
			csr := fulfilled("csr17").csr(b, name)
			csr.TypeMeta = metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}
			csr.UID, csr.CreationTimestamp = types.UID(name), metav1.Now()
			csr.Spec.Request, csr.Spec.Username = test.request, "system:node:csr17"
			value, err := json.Marshal(csr)
			b.Expect(err).NotTo(HaveOccurred())
			body, err := json.Marshal(map[string][]byte{
				"key": []byte("/registry/certificatesigningrequests/" + name), "value": value,
			})
			b.Expect(err).NotTo(HaveOccurred())
			b.Expect(alpha.putRaw(context.Background(), body)).To(Succeed())
			t.Cleanup(func() { b.delete(alpha, csr) })
			b.Eventually(b.runs("error")).Should(BeNumerically(">=", failed+3), "it is tried again")
			b.undecided(alpha, name)
			b.Expect(b.events.Events).To(Receive(And(ContainSubstring("Warning CertificateSigningRequestUnusable"),
				ContainSubstring("CertificateSigningRequest "+name), ContainSubstring(test.fault))))
			b.Expect(b.events.Events).NotTo(Receive(), "one event is enough")
		})
	}
}

func TestCSR17_ANodeWithTooManyAddressesIsAnError(t *testing.T) {
	b := start(t, with(Settings{}, alpha))
	addresses := make([]corev1.NodeAddress, 501)
	for i := range addresses {
		addresses[i] = corev1.NodeAddress{Type: corev1.NodeHostName, Address: fmt.Sprintf("n%d", i)}
	}
	b.node(alpha, "many", addresses...)
	b.machine(alpha, home, "many", "many")
	b.request(alpha, "many", fulfilled("many"))
	b.Eventually(b.events.Events).Should(Receive(ContainSubstring("Node many has 501 addresses, more than 500")))
	b.undecided(alpha, "many")
}

// The approver may not read Nodes of a third target.
func TestCSR18_AnErrorAboutTheNodeIsNoDenial(t *testing.T) {
	needsControlPlanes(t)
	ctx := context.Background()
	weak := &site{ControlPlane: beta.ControlPlane, client: beta.client, key: weakKey}
	kubeconfig, err := beta.ClientCertKubeconfig("weak", nil, time.Hour)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	b := start(t, with(Settings{}, weak))
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "weak"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		{
			APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"},
			Verbs: []string{"get", "list", "watch"},
		},
		{
			APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests/approval"},
			Verbs: []string{"update"},
		},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, Verbs: []string{"approve"}},
	}}
	b.create(beta, role)
	b.create(beta, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "weak"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "weak"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "weak"}},
	})
	b.create(alpha, registration(weak.key, kubeconfig))
	b.node(beta, "csr18-node", nodeAddresses...)
	machine := b.machine(alpha, weak.key.Namespace, "csr18-node", "csr18-node")
	b.request(beta, "csr18-kubelet", fulfilled("csr18-node"))
	b.request(beta, "csr18-agent", clientWish(bootstrap, nodeAgent+machine.GetName()))
	b.Eventually(b.runs("error")).Should(BeNumerically(">=", 4))
	b.undecided(beta, "csr18-kubelet")
	b.undecided(beta, "csr18-agent")

	t.Log("The rights of doc.go are enough")
	role.Rules = append(role.Rules, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"},
	})
	b.Expect(beta.client.Update(ctx, role)).To(Succeed())
	b.approved(beta, "csr18-kubelet", kubeletKind)
	b.denied(beta, "csr18-agent", nodeAgentKind,
		`Machine "csr18-node" has joined the cluster already, as Node "csr18-node"`)
}

// The source has no Machines at first, then it has, and then it has not any longer.
func TestCSR18_AMissingMachineAPIIsNoDenial(t *testing.T) {
	needsControlPlanes(t)
	ctx := context.Background()
	now := clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour)) // no request is young
	b := start(t, with(Settings{}, alpha), func(o *Options) { o.Source, o.Environment.Clock = beta.client, now })
	b.node(alpha, "csr18", nodeAddresses...)
	kubelet, agent := fulfilled("csr18"), clientWish(bootstrap, nodeAgent+"csr18-fresh")
	b.request(alpha, "csr18-a", kubelet)
	b.request(alpha, "csr18-b", agent)
	b.Eventually(b.runs("error")).Should(BeNumerically(">=", 4))
	b.undecided(alpha, "csr18-a")
	b.undecided(alpha, "csr18-b")

	now.SetTime(time.Now()) // Machines come later than their kind
	b.Expect(installMachines(ctx, beta)).To(Succeed())
	b.machine(beta, home, "csr18", "csr18")
	b.machine(beta, home, "csr18-fresh", "")
	b.approved(alpha, "csr18-a", kubeletKind)
	b.approved(alpha, "csr18-b", nodeAgentKind)

	now.SetTime(time.Now().Add(time.Hour))
	definition, err := crd()
	b.Expect(err).NotTo(HaveOccurred())
	b.delete(beta, definition)
	b.Eventually(func() error {
		machines := &metav1.PartialObjectMetadataList{}
		machines.SetGroupVersionKind(machineKind.GroupVersion().WithKind("MachineList"))
		return beta.client.List(ctx, machines)
	}).Should(HaveOccurred())
	failed := b.runs("error")()
	b.request(alpha, "csr18-c", kubelet)
	b.request(alpha, "csr18-d", agent)
	b.Eventually(b.runs("error")).Should(BeNumerically(">=", failed+4))
	b.undecided(alpha, "csr18-c")
	b.undecided(alpha, "csr18-d")
}

func TestCSR19_AConflictIsTriedAgain(t *testing.T) {
	needsControlPlanes(t)
	source := &looking{Client: alpha.client}
	b := start(t, with(Settings{}, alpha), func(o *Options) { o.Source = source })
	b.node(alpha, "csr19", nodeAddresses...)
	b.machine(alpha, home, "csr19", "csr19")
	meanwhile := func(what func(*certificatesv1.CertificateSigningRequest)) {
		source.afterNext(func() { // between reading and writing
			csr := &certificatesv1.CertificateSigningRequest{}
			b.Expect(alpha.client.Get(context.Background(), clientKey("csr19"), csr)).To(Succeed())
			what(csr)
		})
	}

	t.Log("another client labels it")
	meanwhile(func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Labels = map[string]string{"changed": "true"}
		b.Expect(alpha.client.Update(context.Background(), csr)).To(Succeed())
	})
	csr := b.request(alpha, "csr19", fulfilled("csr19"))
	b.approved(alpha, "csr19", kubeletKind)
	b.Expect(b.calls(alpha, "csr19")).To(ContainElement(ContainSubstring("409")), "otherwise this shows nothing")
	b.Expect(b.conditions(alpha, "csr19")()).To(HaveLen(1))
	b.Eventually(b.metric("trellis_controller_csr_decisions_total", "decision", "approved")).Should(BeEquivalentTo(1))

	t.Log("another client denies it")
	b.delete(alpha, csr)
	meanwhile(func(csr *certificatesv1.CertificateSigningRequest) { b.decide(alpha, csr, "Denied") })
	b.request(alpha, "csr19", fulfilled("csr19"))
	b.Eventually(b.decision(alpha, "csr19")).Should(HavePrefix("Denied/Other"))
	b.Eventually(b.runs("success")).Should(BeNumerically(">=", 2), "it has been looked at again")
	b.Expect(b.decision(alpha, "csr19")()).To(HavePrefix("Denied/Other"))

	t.Log("another client deletes it")
	runs := b.runs("success")()
	meanwhile(func(csr *certificatesv1.CertificateSigningRequest) { b.delete(alpha, csr) })
	csr = &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr19"}}
	b.delete(alpha, csr)
	b.request(alpha, "csr19", fulfilled("csr19"))
	b.Eventually(b.runs("success")).Should(BeNumerically(">", runs))
	b.Expect(apierrors.IsNotFound(alpha.client.Get(context.Background(), clientKey("csr19"), csr))).To(BeTrue())
	b.Expect(b.metric("trellis_controller_csr_decisions_total", "decision", "approved")()).To(BeEquivalentTo(1))
}

func TestCSR25_AMachineThatIsLabelledLateIsInTime(t *testing.T) {
	young := clocktesting.NewFakePassiveClock(time.Now())
	needsControlPlanes(t)
	source := &looking{Client: alpha.client}
	b := start(t, with(Settings{}, alpha), func(o *Options) {
		o.Source, o.Environment.Clock = source, young
	})
	b.node(alpha, "csr25", nodeAddresses...)
	machine := b.machine(alpha, home, "csr25", "")
	b.request(alpha, "csr25", fulfilled("csr25"))
	b.Eventually(source.looks).Should(BeNumerically(">=", 1))
	b.undecided(alpha, "csr25")
	machine.SetLabels(map[string]string{"node": "csr25"})
	b.Expect(alpha.client.Update(context.Background(), machine)).To(Succeed())
	b.approved(alpha, "csr25", kubeletKind)
}

// D-9: what is merely missing is waited for, and denied when the time is over.
func TestCSRGrace(t *testing.T) {
	young := clocktesting.NewFakePassiveClock(time.Now())
	b := start(t, with(Settings{MigrationUser: true}, alpha), func(o *Options) { o.Environment.Clock = young })
	b.node(alpha, "grace", nodeAddresses...)
	b.machine(alpha, home, "unlabelled", "")
	b.request(alpha, "grace-node", fulfilled("grace-missing"))
	b.request(alpha, "grace-machine", fulfilled("grace"))
	b.request(alpha, "grace-agent", clientWish(bootstrap, nodeAgent+"grace-missing"))
	b.request(alpha, "grace-label", clientWish(migrant, nodeAgent+"unlabelled"))
	last := b.request(alpha, "grace-not", clientWish("jane", nodeAgent+"unlabelled"))
	b.denied(alpha, "grace-not", nodeAgentKind, `username "jane" may not ask for this certificate`)
	b.Eventually(b.runs("success")).Should(BeNumerically(">=", 5+4), "each has been looked at twice")
	for _, name := range []string{"grace-node", "grace-machine", "grace-agent", "grace-label"} {
		b.undecided(alpha, name)
	}
	young.SetTime(last.CreationTimestamp.Add(10 * time.Second))
	b.denied(alpha, "grace-node", kubeletKind, `Node "grace-missing" does not exist`)
	b.denied(alpha, "grace-machine", kubeletKind, "there is no Machine with the label node=grace")
	b.denied(alpha, "grace-agent", nodeAgentKind, `Machine "grace-missing" does not exist`)
	b.denied(alpha, "grace-label", nodeAgentKind, `Machine "unlabelled" has no label "node"`)
}

// 5.7: Node and Machines are looked at once more before a denial.
func TestCSRADenialNeedsASecondLook(t *testing.T) {
	needsControlPlanes(t)
	source := &looking{Client: alpha.client}
	b := start(t, with(Settings{}, alpha), func(o *Options) { o.Source = source })
	b.node(alpha, "second", nodeAddresses...)
	b.machine(alpha, home, "second-a", "second")
	surplus := b.machine(alpha, home, "second-b", "second")
	source.afterNext(func() { b.delete(alpha, surplus) })
	b.request(alpha, "second", fulfilled("second"))
	b.approved(alpha, "second", kubeletKind)
	b.Expect(source.looks()).To(Equal(2))
}
