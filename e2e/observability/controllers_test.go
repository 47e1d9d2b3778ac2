//go:build observability

package observability

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// controllerSituations are about controllers that work in targets. Behind all targets is the same cluster, so each of
// these controllers works in one of them only.
var controllerSituations = map[string]func(t *testing.T, alert string){
	// The namespace of the ServiceAccount does not exist.
	"TrellisTokensOverdue": func(t *testing.T, alert string) {
		to := newCluster(t, "tokenless")
		labels := map[string]string{"target": to.label()}
		to.control(t, `"tokenRequestor":{"enabled":true,"class":""}`)
		secret := to.askForToken(t, "missing-"+to.name)
		expectFiring(t, alert, labels)
		createNamespace(t, "missing-"+to.name)
		to.annotate(t, secret, "example.org/again", "yes") // the next try may be minutes away
		expectOver(t, alert, labels)
	},
	// There is a token of ten minutes, and the next one cannot be had.
	"TrellisTokenExpiresNow": func(t *testing.T, alert string) {
		to := newCluster(t, "tokens")
		labels := map[string]string{"target": to.label()}
		to.control(t, `"tokenRequestor":{"enabled":true,"class":""}`)
		secret := to.askForToken(t, to.namespace)
		g := NewWithT(t)
		g.Eventually(func(g Gomega) {
			g.Expect(source.Client.Get(context.Background(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
			g.Expect(secret.Data).To(HaveKey("token"))
		}).Should(Succeed())
		to.annotate(t, secret, "serviceaccount.resources.gardener.cloud/namespace", "lost-"+to.name)
		to.annotate(t, secret, "serviceaccount.resources.gardener.cloud/token-renew-timestamp", "2020-01-01T00:00:00Z")
		expectFiring(t, alert, labels)
		createNamespace(t, "lost-"+to.name)
		to.annotate(t, secret, "example.org/again", "yes")
		expectOver(t, alert, labels)
	},
	// Only nodes may request the certificate of a node.
	"TrellisCertificatesDenied": func(t *testing.T, alert string) {
		to := newCluster(t, "certificates")
		labels := map[string]string{"target": to.label()}
		to.control(t, `"csrApprover":{"enabled":true,"withoutMachines":true}`)
		g := NewWithT(t)
		denied := fmt.Sprintf(`trellis_target_certificates_denied_total{%s}`, selector(labels))
		g.Eventually(func(g Gomega) { g.Expect(samples(g, denied)).NotTo(BeZero()) }).Should(Succeed())
		for i := range 3 {
			requestCertificate(t, fmt.Sprintf("stranger-%d", i))
		}
		expectFiring(t, alert, labels)
		expectOver(t, alert, labels)
	},
	// Not everything can be listed that may refer to a ConfigMap.
	"TrellisGarbageCollectionBlocked": func(t *testing.T, alert string) {
		to := newCluster(t, "garbage")
		labels := map[string]string{"target": to.label()}
		narrow, widen := to.narrowAccess(t)
		to.register(t, narrow)
		to.control(t, `"garbageCollector":{"enabled":true,"syncPeriod":"15s"}`)
		expectFiring(t, alert, labels)
		widen()
		expectOver(t, alert, labels)
	},
	// A DaemonSet without a controller that rolls it out.
	"TrellisNodesWaitForCriticalComponents": func(t *testing.T, alert string) {
		to := newCluster(t, "nodes")
		labels := map[string]string{"target": to.label()}
		g, ctx := NewWithT(t), context.Background()
		const critical = "node.gardener.cloud/critical-component"
		network := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceSystem, Name: "network", Labels: map[string]string{critical: "true"},
			},
			Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "network"}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "network", critical: "true"}},
					Spec: corev1.PodSpec{
						Containers:  []corev1.Container{{Name: "network", Image: "network"}},
						Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					},
				},
			},
		}
		g.Expect(home.Client.Create(ctx, network)).To(Succeed())
		earlier := metav1.NewTime(time.Now().Add(-20 * time.Minute))
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node"},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
				Key: "node.gardener.cloud/critical-components-not-ready", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &earlier,
			}}},
		}
		g.Expect(home.Client.Create(ctx, node)).To(Succeed())
		t.Cleanup(func() { _ = home.Client.Delete(ctx, node) })
		to.control(t, `"nodeCriticalComponents":{"enabled":true,"backoff":"1s"}`)
		expectFiring(t, alert, labels)
		g.Expect(home.Client.Delete(ctx, network)).To(Succeed())
		expectOver(t, alert, labels)
	},
	// A selector that is none.
	"TrellisNetworkPoliciesFailing": func(t *testing.T, alert string) {
		to := newCluster(t, "policies")
		labels := map[string]string{"target": to.label()}
		g, ctx := NewWithT(t), context.Background()
		const annotation = "networking.resources.gardener.cloud/namespace-selectors"
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: to.namespace, Name: "web", Annotations: map[string]string{annotation: "nonsense"},
			},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}},
			},
		}
		g.Expect(home.Client.Create(ctx, service)).To(Succeed())
		to.control(t, fmt.Sprintf(
			`"networkPolicy":{"enabled":true,"namespaceSelectors":[{"matchLabels":{"kubernetes.io/metadata.name":%q}}]}`,
			to.namespace))
		expectFiring(t, alert, labels)
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, annotation)
		g.Expect(home.Client.Patch(ctx, service, client.RawPatch(client.Merge.Type(), patch))).To(Succeed())
		expectOver(t, alert, labels)
	},
}

// control says which controllers work in the target.
func (to *target) control(t *testing.T, controllers string) {
	t.Helper()
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: to.namespace, Name: to.name}}
	patch := client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"controllers":{`+controllers+`}}}`))
	NewWithT(t).Eventually(func() error { // the hub creates it in a moment
		return source.Client.Patch(context.Background(), tc, patch)
	}).Should(Succeed())
}

// askForToken creates an access Secret for a ServiceAccount in a namespace of the target.
func (to *target) askForToken(t *testing.T, namespace string) *corev1.Secret {
	t.Helper()
	const prefix = "serviceaccount.resources.gardener.cloud/"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: to.namespace, Name: "access",
		Labels: map[string]string{resourcesv1alpha1.PurposeLabel: resourcesv1alpha1.PurposeTokenRequestor},
		Annotations: map[string]string{
			prefix + "name": "client", prefix + "namespace": namespace, prefix + "token-expiration-duration": "10m",
		},
	}}
	NewWithT(t).Expect(source.Client.Create(context.Background(), secret)).To(Succeed())
	t.Cleanup(func() { _ = source.Client.Delete(context.Background(), secret) })
	return secret
}

// annotate changes an annotation of a Secret of the source.
func (to *target) annotate(t *testing.T, secret *corev1.Secret, key, value string) {
	t.Helper()
	patch := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	NewWithT(t).Expect(source.Client.Patch(context.Background(), secret, patch)).To(Succeed())
}

// createNamespace creates a namespace in the cluster of all targets.
func createNamespace(t *testing.T, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	NewWithT(t).Expect(home.Client.Create(context.Background(), namespace)).To(Succeed())
}

// requestCertificate requests the server certificate of a node.
func requestCertificate(t *testing.T, name string) {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
		DNSNames: []string{name},
	}, key)
	g.Expect(err).NotTo(HaveOccurred())
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages: []certificatesv1.KeyUsage{
				certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth,
			},
		},
	}
	g.Expect(home.Client.Create(context.Background(), csr)).To(Succeed())
}
