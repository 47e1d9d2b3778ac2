package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// authority signs certificates.
type authority struct {
	e       *env
	certs   *x509.Certificate
	private *ecdsa.PrivateKey
	pem     []byte
}

func (e *env) newAuthority(name string) *authority {
	e.t.Helper()
	a := &authority{e: e}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	a.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	e.Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.private.Public(), a.private)
	e.Expect(err).NotTo(HaveOccurred())
	a.certs, err = x509.ParseCertificate(der)
	e.Expect(err).NotTo(HaveOccurred())
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// sign returns a certificate for 127.0.0.1, and its key, in PEM.
func (a *authority) sign(name string, usage x509.ExtKeyUsage) (certificate, key []byte) {
	a.e.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.e.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certs, private.Public(), a.private)
	a.e.Expect(err).NotTo(HaveOccurred())
	encoded, err := x509.MarshalECPrivateKey(private)
	a.e.Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

// asks is a hub's server with the certificates of others, and a control plane that asks it about node agents.
type asks struct {
	*testbed.Cluster
	uid   types.UID // by which it is registered
	serve func(*configv1alpha1.HubConfiguration)
}

// hubSecret makes a Secret in the namespace of the hub until the test ends.
func (e *env) hubSecret(name string, data map[string][]byte) {
	e.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testbed.HubNamespace, Name: name}, Data: data,
	}
	e.Expect(source.Client.Create(e.ctx, secret)).To(Succeed())
	e.t.Cleanup(func() { e.Expect(source.Client.Delete(e.ctx, secret)).To(Succeed()) })
}

// authorizationConfig is that of the how-to, with the kubeconfig in a directory.
const authorizationConfig = `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: Node, name: node}
- {type: RBAC, name: rbac}
- type: Webhook
  name: node-agent-authorizer
  webhook:
    timeout: 10s
    failurePolicy: Deny
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    authorizedTTL: 1ns
    unauthorizedTTL: 1ns
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s/kubeconfig}
    matchConditions:
    - expression: "'gardener.cloud:node-agents' in request.groups"
`

// startAsking starts a control plane that asks the hub about node agents, as a target of a name that is yet to be
// registered.
func (e *env) startAsking(name string) *asks {
	e.t.Helper()
	port, err := controlplane.FreePort()
	e.Expect(err).NotTo(HaveOccurred())
	a := &asks{uid: uuid.NewUUID()}
	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	servers, clients := e.newAuthority("servers"), e.newAuthority("clients")
	certificate, key := servers.sign("hub", x509.ExtKeyUsageServerAuth)
	e.hubSecret("server", map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": servers.pem})
	e.hubSecret("clients", map[string][]byte{"ca.crt": clients.pem})
	certificate, key = clients.sign(string(a.uid), x509.ExtKeyUsageClientAuth)
	kubeconfig, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "hub",
		"clusters": []any{map[string]any{"name": "hub", "cluster": map[string]any{
			"server":                     fmt.Sprintf("%s/%s/%s/%s/node-agent-authorizer", url, e.name, name, a.uid),
			"certificate-authority-data": servers.pem,
		}}},
		"users": []any{map[string]any{"name": "hub", "user": map[string]any{
			"client-certificate-data": certificate, "client-key-data": key,
		}}},
		"contexts": []any{map[string]any{"name": "hub", "context": map[string]any{"cluster": "hub", "user": "hub"}}},
	})
	e.Expect(err).NotTo(HaveOccurred())
	dir := e.t.TempDir()
	e.Expect(os.WriteFile(filepath.Join(dir, "kubeconfig"), kubeconfig, 0o600)).To(Succeed())
	config := filepath.Join(dir, "authorization.yaml")
	e.Expect(os.WriteFile(config, fmt.Appendf(nil, authorizationConfig, dir), 0o600)).To(Succeed())
	a.Cluster, err = testbed.StartCluster(e.ctx, controlplane.Options{
		Name: "asks", ExtraAPIServerArgs: []string{"--authorization-config=" + config},
	})
	e.Expect(err).NotTo(HaveOccurred())
	e.t.Cleanup(a.Stop)
	a.serve = func(c *configv1alpha1.HubConfiguration) {
		w := &c.Server.Webhooks
		w.Enabled, w.BindAddress, w.Port, w.ClientConfig.URL = true, "127.0.0.1", int32(port), url
		w.Certificates.ExternalSecretName, w.ClientAuthorities.SecretName = "server", "clients"
		e.complete(c)
	}
	return a
}

// agent is the node agent of a machine.
func (a *asks) agent(e *env, machine string) client.Client {
	e.t.Helper()
	config := rest.CopyConfig(a.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "gardener.cloud:node-agent:machine:" + machine,
		Groups:   []string{"gardener.cloud:node-agents", "system:authenticated"},
	}
	c, err := client.New(config, client.Options{})
	e.Expect(err).NotTo(HaveOccurred())
	return c
}

// machines has the source know Machines, as far as the hub reads them.
func (e *env) machines(nodes map[string]string) {
	e.t.Helper()
	kind := schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "Machine"}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "machines." + kind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "machines", Kind: kind.Kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: ptr.To(true),
					},
				},
			}},
		},
	}
	err := source.Client.Create(e.ctx, crd)
	e.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	for name, node := range nodes {
		machine := &unstructured.Unstructured{}
		machine.SetGroupVersionKind(kind)
		e.Expect(unstructured.SetNestedStringMap(machine.Object, map[string]string{
			"worker.gardener.cloud/gardener-node-agent-secret-name": "osc-of-" + name,
		}, "spec", "nodeTemplate", "metadata", "labels")).To(Succeed())
		machine.SetNamespace(e.name)
		machine.SetName(name)
		machine.SetLabels(map[string]string{"node": node})
		e.Eventually(func() error { return source.Client.Create(e.ctx, machine) }).Should(Succeed())
	}
}

// NAA-17: the API server of a target asks the hub what node agents may do, and proves with a certificate which it is.
func TestAuthorizationOfNodeAgents(t *testing.T) {
	e := newEnv(t)
	asking := e.startAsking("asks")
	for _, name := range []string{"one", "two"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + name}}
		e.Expect(asking.Client.Create(e.ctx, node)).To(Succeed())
		e.Expect(asking.Client.Create(e.ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "osc-of-" + name},
			Data:       map[string][]byte{"osc.yaml": []byte("{}")},
		})).To(Succeed())
	}
	e.machines(map[string]string{"one": "node-one", "two": "node-two"})
	_, kubeconfig := e.startAliasAs(asking.Cluster, asking.uid)
	e.Expect(source.Client.Create(e.ctx, testbed.Registration(e.name, "asks", kubeconfig))).To(Succeed())
	hub := e.startHub(asking.serve)
	one, two := asking.agent(e, "one"), asking.agent(e, "two")
	secret := func(c client.Client, name string) error {
		return c.Get(e.ctx, types.NamespacedName{Namespace: "kube-system", Name: name}, &corev1.Secret{})
	}
	e.Eventually(func() error { return secret(one, "osc-of-one") }).Should(Satisfy(apierrors.IsForbidden),
		"it is off by default")

	e.setWebhooks("asks", `{"nodeAgentAuthorizer":{"enabled":true}}`)
	for name, agent := range map[string]client.Client{"one": one, "two": two} {
		e.Eventually(func() error { return secret(agent, "osc-of-"+name) }).Should(Succeed(), "%s", hub.Log)
		e.Expect(agent.Get(e.ctx, types.NamespacedName{Name: "node-" + name}, &corev1.Node{})).To(Succeed())
		e.Expect(agent.Create(e.ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "gardener-node-agent-node-" + name},
		})).To(Succeed())
		e.Expect(agent.List(e.ctx, &corev1.SecretList{}, client.InNamespace("kube-system"))).To(
			Satisfy(apierrors.IsForbidden))
	}
	e.Expect(secret(one, "osc-of-two")).To(And(Satisfy(apierrors.IsForbidden),
		MatchError(ContainSubstring("only the secrets"))), "it says what is allowed")
	e.Expect(secret(asking.agent(e, "three"), "osc-of-one")).To(Satisfy(apierrors.IsForbidden))

	// HUB-32: with the settings of this target, lists of pods need a selector, which its API server sends.
	pods := func(options ...client.ListOption) error { return one.List(e.ctx, &corev1.PodList{}, options...) }
	e.Expect(pods()).To(Succeed())
	e.setWebhooks("asks", `{"nodeAgentAuthorizer":{"enabled":true,"authorizeWithSelectors":true}}`)
	e.Eventually(func() error { return pods() }).Should(Satisfy(apierrors.IsForbidden))
	e.Expect(pods(client.MatchingFields{"spec.nodeName": "node-one"})).To(Succeed())
	e.Expect(pods(client.MatchingFields{"spec.nodeName": "node-two"})).To(Satisfy(apierrors.IsForbidden))

	// While the hub is down, requests of node agents are denied, and those of other users are not affected.
	e.stop(hub)
	e.Expect(secret(one, "osc-of-one")).NotTo(Succeed())
	e.Expect(secret(asking.Client, "osc-of-one")).To(Succeed())
}
