package app_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/tokenrequestor"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// A Secret of the source gets a token of its target as soon as the target's settings say so.
func TestTokensAreRequested(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub()
	e.eventuallyReady()
	access := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: e.name, Name: "access", Labels: map[string]string{tokenrequestor.PurposeLabel: tokenrequestor.Purpose},
		Annotations: map[string]string{
			tokenrequestor.ServiceAccountNameAnnotation:      "component",
			tokenrequestor.ServiceAccountNamespaceAnnotation: e.name,
		},
	}}
	e.Expect(source.Client.Create(e.ctx, access)).To(Succeed())
	token := func() string {
		e.Expect(source.Client.Get(e.ctx, client.ObjectKeyFromObject(access), access)).To(Succeed())
		return string(access.Data[tokenrequestor.KeyToken])
	}
	e.Expect(e.setControllers(`{"tokenRequestor":{"enabled":true}}`)).To(Succeed())
	e.Eventually(e.working(hub, tokenrequestor.Name)).Should(BeEquivalentTo(1))
	e.Consistently(token, "200ms").Should(BeEmpty(), "it has no class")

	t.Log("of any class")
	e.Expect(e.setControllers(`{"tokenRequestor":{"class":""}}`)).To(Succeed())
	e.Eventually(token).ShouldNot(BeEmpty())
	config := rest.AnonymousClientConfig(target.RESTConfig())
	config.BearerToken = token()
	as, err := client.New(config, client.Options{Scheme: source.Client.Scheme()})
	e.Expect(err).NotTo(HaveOccurred())
	who := &authenticationv1.SelfSubjectReview{}
	e.Expect(as.Create(e.ctx, who)).To(Succeed())
	e.Expect(who.Status.UserInfo.Username).To(Equal("system:serviceaccount:" + e.name + ":component"))

	t.Log("settings that cannot be")
	e.Expect(e.setControllers(`{"tokenRequestor":{"deniedServiceAccounts":["kube-system/*"]}}`)).To(Succeed())
	e.Eventually(e.working(hub, tokenrequestor.Name)).Should(BeZero())
	e.Eventually(e.reasons).Should(ContainElement(And(HavePrefix("ControllersInvalid"),
		ContainSubstring(`spec.controllers.tokenRequestor.deniedServiceAccounts[0]: Invalid value: "kube-system/*"`))))
}

// TR-22 When a registration comes to serve another class, all its Secrets are looked at again: those that pick it by a
// label, too.
func TestTR22_ARegistrationThatServesAnotherClass(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub(func(c *configv1alpha1.HubConfiguration) {
		for i, class := range []string{"shoot", "garden"} {
			c.Classes[i*2].Controllers.TokenRequestor = &hubv1alpha1.TokenRequestorController{
				Enabled: ptr.To(true), Class: ptr.To(class),
			}
		}
		c.Classes[2].DryRun = false
	})
	e.eventuallyReady()
	e.Eventually(e.working(hub, tokenrequestor.Name)).Should(BeEquivalentTo(1))
	access := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: e.name, Name: "access",
		Labels: map[string]string{
			tokenrequestor.PurposeLabel: tokenrequestor.Purpose, tokenrequestor.ClassLabel: "garden",
			hubv1alpha1.ClusterNameLabel: "target",
		},
		Annotations: map[string]string{
			tokenrequestor.ServiceAccountNameAnnotation:      "component",
			tokenrequestor.ServiceAccountNamespaceAnnotation: e.name,
		},
	}}
	e.Expect(source.Client.Create(e.ctx, access)).To(Succeed())
	token := func() string {
		e.Expect(source.Client.Get(e.ctx, client.ObjectKeyFromObject(access), access)).To(Succeed())
		return string(access.Data[tokenrequestor.KeyToken])
	}
	e.Consistently(token, "500ms").Should(BeEmpty(), "it is for another class")
	patch := client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"hub.gardener.cloud/class":"planned"}}}`))
	e.Expect(source.Client.Patch(e.ctx, testbed.Registration(e.name, "target", nil), patch)).To(Succeed())
	e.Eventually(token).ShouldNot(BeEmpty())
}

// A kubelet of the target gets its certificate as soon as the target's settings say so.
func TestCertificatesOfKubeletsAreApproved(t *testing.T) {
	e := newEnv(t)
	e.startHub()
	e.eventuallyReady()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.name}}
	e.Expect(target.Client.Create(e.ctx, node)).To(Succeed())
	t.Cleanup(func() { e.Expect(target.Client.Delete(e.ctx, node)).To(Succeed()) })
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	e.Expect(target.Client.Status().Update(e.ctx, node)).To(Succeed())

	user := "system:node:" + node.Name
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	e.Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: user, Organization: []string{"system:nodes"}},
		IPAddresses: []net.IP{net.ParseIP("10.0.0.1")},
	}, key)
	e.Expect(err).NotTo(HaveOccurred())
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: e.name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
	config := rest.CopyConfig(target.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:nodes", "system:masters"}}
	kubelet, err := client.New(config, client.Options{Scheme: source.Client.Scheme()})
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(kubelet.Create(e.ctx, csr)).To(Succeed())
	t.Cleanup(func() { e.Expect(target.Client.Delete(e.ctx, csr)).To(Succeed()) })
	approved := func() bool {
		e.Expect(target.Client.Get(e.ctx, types.NamespacedName{Name: csr.Name}, csr)).To(Succeed())
		return len(csr.Status.Conditions) == 1 && csr.Status.Conditions[0].Type == certificatesv1.CertificateApproved
	}
	e.Expect(approved()).To(BeFalse(), "the approver is off by default")
	e.Expect(e.setControllers(`{"csrApprover":{"enabled":true,"withoutMachines":true}}`)).To(Succeed())
	e.Eventually(approved).Should(BeTrue())

	t.Log("settings that cannot be")
	e.Expect(e.setControllers(`{"csrApprover":{"machineNamespace":"` + e.name + `"}}`)).To(Succeed())
	e.Eventually(e.reasons).Should(ContainElement(And(HavePrefix("ControllersInvalid"),
		ContainSubstring("spec.controllers.csrApprover.machineNamespace"))))
}
