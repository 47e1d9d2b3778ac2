//go:build observability

package observability

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
	"github.com/trellis-hub/trellis/webhooks/endpointslices"
)

// webhookServer has a hub serve webhooks at a port, and API servers call one at another port. What a target may ask
// for is little, so that a test exceeds it.
const webhookServer = `
server:
  webhooks:
    enabled: true
    bindAddress: 127.0.0.1
    port: %d
    clientConfig: {url: "https://127.0.0.1:%d"}
    limits: {qpsPerTarget: 2, burstPerTarget: 5}
    shutdownNotice: 1s
`

// webhookPorts are those of both replicas, which keep them when they are started again. API servers call the first.
var webhookPorts [2]int

// chooseWebhookPorts finds ports that are free.
func chooseWebhookPorts() (err error) {
	for i := range webhookPorts {
		if webhookPorts[i], err = controlplane.FreePort(); err != nil {
			return err
		}
	}
	return nil
}

// startReplica starts one of both replicas.
func startReplica(ctx context.Context, i int) (*testbed.Process, error) {
	return startHub(ctx, config+fmt.Sprintf(webhookServer, webhookPorts[i], webhookPorts[0]))
}

// webhookSituations are about what the hub answers to API servers.
var webhookSituations = map[string]func(t *testing.T, alert string){
	// The hub's certificate was replaced by one that ends sooner than the authority, so that it is not renewed in time.
	"TrellisWebhookCertificateExpiring": func(t *testing.T, alert string) {
		g, ctx := NewWithT(t), context.Background()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: testbed.HubNamespace, Name: "trellis-webhooks",
		}}
		g.Eventually(func() error {
			return source.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		}).Should(Succeed())
		good := maps.Clone(secret.Data)
		serve := func(data map[string][]byte) {
			g.Eventually(func(g Gomega) {
				g.Expect(source.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
				secret.Data = data
				g.Expect(source.Client.Update(ctx, secret)).To(Succeed())
			}).Should(Succeed())
		}
		serve(lasting(g, good, 4*24*time.Hour))
		expectFiring(t, alert, nil)
		const now = "TrellisWebhookCertificateExpiresNow"
		g.Expect(samples(g, fmt.Sprintf(`ALERTS{alertname=%q}`, now))).To(BeZero())
		serve(lasting(g, good, 12*time.Hour))
		expectFiring(t, now, nil)
		serve(good)
		expectOver(t, now, nil)
		expectOver(t, alert, nil)
	},
	// The hub cannot read what it needs for an answer.
	"TrellisWebhookRequestsFailing": func(t *testing.T, alert string) {
		to := prepareTarget(t, "unreadable")
		to.disguise(t)
		kubeconfig, widen := to.limitedAccess(t,
			eachObject,
			rbacv1.PolicyRule{
				APIGroups: []string{"", "autoscaling", "admissionregistration.k8s.io"},
				Resources: []string{
					"namespaces", "secrets", "horizontalpodautoscalers", "mutatingwebhookconfigurations",
					"validatingwebhookconfigurations",
				},
				Verbs: []string{"list", "watch"},
			})
		to.create(t, kubeconfig)
		to.awaitConnected(t)
		const prefix = "high-availability-config.resources.gardener.cloud/"
		g, ctx := NewWithT(t), context.Background()
		system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
		consider := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, prefix+"consider")
		g.Expect(home.Client.Patch(ctx, system, client.RawPatch(client.Merge.Type(), consider))).To(Succeed())
		to.callWebhooks(t, `"highAvailabilityConfig":{"enabled":true,"failurePolicy":"Ignore"}`)
		meanwhile(t, time.Second, func() {
			labels := map[string]string{"app": "web"}
			deployment := &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: metav1.NamespaceSystem, Name: "web",
					Annotations: map[string]string{prefix + "host-spread": "true"},
					Labels: map[string]string{
						resourcesv1alpha1.ManagedByLabel: resourcesv1alpha1.ManagedByDefault,
					},
				},
				Spec: appsv1.DeploymentSpec{
					Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
					},
				},
			}
			_ = home.Client.Create(ctx, deployment, client.DryRunAll)
		})
		labels := map[string]string{"webhook": "high-availability-config"}
		expectFiring(t, alert, labels)
		widen()
		expectOver(t, alert, labels)
	},
	// A client that is not the API server of a target calls the hub.
	"TrellisWebhookRequestsForged": func(t *testing.T, alert string) {
		caller := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it sends nothing secret
		}}
		t.Cleanup(caller.CloseIdleConnections)
		stop := meanwhile(t, 200*time.Millisecond, func() {
			url := fmt.Sprintf("https://127.0.0.1:%d/shoot--foo/foo/unknown/seccomp-profile", webhookPorts[0])
			if answer, err := caller.Post(url, "application/json", bytes.NewReader([]byte("{}"))); err == nil {
				_ = answer.Body.Close()
			}
		})
		expectFiring(t, alert, nil)
		stop()
		expectOver(t, alert, nil)
	},
	// An API server calls more often than a target may.
	"TrellisWebhookRequestsRefused": func(t *testing.T, alert string) {
		to := newCluster(t, "eager")
		labels := map[string]string{"target": to.label()}
		to.callWebhooks(t, `"endpointSliceHints":{"enabled":true,"mode":"Webhook","failurePolicy":"Ignore"}`)
		calls := fmt.Sprintf(`sum(trellis_target_webhook_requests_total{%s})`, selector(labels))
		g := NewWithT(t)
		g.Eventually(func(g Gomega) { g.Expect(value(g, calls)).NotTo(BeZero()) }).Should(Succeed())
		var stops []func()
		for i := range 8 { // the API server waits before it repeats a call that was refused
			slice := &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: metav1.NamespaceSystem, Name: fmt.Sprintf("web-%d", i),
					Labels: map[string]string{endpointslices.ConsiderLabel: "true"},
				},
				AddressType: discoveryv1.AddressTypeIPv4,
			}
			stops = append(stops, meanwhile(t, 100*time.Millisecond, func() {
				_ = home.Client.Create(context.Background(), slice.DeepCopy(), client.DryRunAll)
			}))
		}
		expectFiring(t, alert, labels)
		for _, stop := range stops {
			stop()
		}
		expectOver(t, alert, labels)
	},
	// The credential may not write configurations of webhooks.
	"TrellisWebhooksNotRegistered": func(t *testing.T, alert string) {
		to := prepareTarget(t, "unasked")
		to.disguise(t)
		labels := map[string]string{"target": to.label()}
		everything := []string{rbacv1.APIGroupAll}
		kubeconfig, widen := to.limitedAccess(t,
			rbacv1.PolicyRule{APIGroups: everything, Resources: everything, Verbs: []string{"get", "list", "watch"}})
		to.create(t, kubeconfig)
		to.awaitConnected(t)
		to.callWebhooks(t, `"projectedTokenMount":{"enabled":true,"failurePolicy":"Ignore"}`)
		expectFiring(t, alert, labels)
		widen()
		expectOver(t, alert, labels)
	},
	// A registration is deleted while the API server of the target cannot be reached.
	"TrellisWebhooksLeftBehind": func(t *testing.T, alert string) {
		to := newCluster(t, "left")
		labels := map[string]string{"target": to.label()}
		to.callWebhooks(t, `"projectedTokenMount":{"enabled":true,"failurePolicy":"Ignore"}`)
		g, ctx := NewWithT(t), context.Background()
		tc := &hubv1alpha1.TargetCluster{}
		g.Eventually(func(g Gomega) {
			g.Expect(source.Client.Get(ctx, client.ObjectKey{Namespace: to.namespace, Name: to.name}, tc)).To(Succeed())
			g.Expect(meta.IsStatusConditionTrue(tc.Status.Conditions, hubv1alpha1.ConditionWebhooksRegistered)).To(BeTrue())
		}).Should(Succeed())
		to.way.set(true)
		g.Expect(source.Client.Delete(ctx, testbed.Registration(to.namespace, to.name, nil))).To(Succeed())
		expectFiring(t, alert, labels)
		to.way.set(false)
		again := testbed.Registration(to.namespace, to.name, to.access(t, "second", long))
		g.Expect(source.Client.Create(ctx, again)).To(Succeed())
		expectOver(t, alert, labels)
	},
}

// callWebhooks says which webhooks the API server of the target calls. They are switched off again before the target is
// deleted: nothing else cleans up the cluster of all targets.
func (to *target) callWebhooks(t *testing.T, webhooks string) {
	t.Helper()
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: to.namespace, Name: to.name}}
	set := func(webhooks string) error {
		patch := client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"webhooks":`+webhooks+`}}`))
		return source.Client.Patch(context.Background(), tc, patch)
	}
	g := NewWithT(t)
	g.Eventually(func() error { return set("{" + webhooks + "}") }).Should(Succeed()) // the hub creates it in a moment
	t.Cleanup(func() {
		g.Expect(set("null")).To(Succeed())
		g.Eventually(func(g Gomega) {
			g.Expect(source.Client.Get(context.Background(), client.ObjectKeyFromObject(tc), tc)).To(Succeed())
			registered := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionWebhooksRegistered)
			g.Expect(registered).To(BeNil())
		}).Should(Succeed())
	})
}

// lasting returns the content of the hub's Secret with another certificate of the same authority for the same names,
// which ends after some time.
func lasting(g Gomega, data map[string][]byte, lifetime time.Duration) map[string][]byte {
	parse := func(key string) *x509.Certificate {
		block, _ := pem.Decode(data[key])
		g.Expect(block).NotTo(BeNil(), key)
		parsed, err := x509.ParseCertificate(block.Bytes)
		g.Expect(err).NotTo(HaveOccurred())
		return parsed
	}
	key := func(key string) any {
		parsed, err := keyutil.ParsePrivateKeyPEM(data[key])
		g.Expect(err).NotTo(HaveOccurred())
		return parsed
	}
	template := parse("tls.crt")
	template.NotAfter = time.Now().Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, parse("ca.crt"), template.PublicKey, key("ca.key"))
	g.Expect(err).NotTo(HaveOccurred())
	changed := maps.Clone(data)
	changed["tls.crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return changed
}
