package app_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// call sends a pod to the webhook of an entry of the target's configuration, at another address than the entry has.
func (e *env) call(
	in *testbed.Cluster, entry, address string, pod *corev1.Pod,
) (*admissionv1.AdmissionResponse, error) {
	list := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	labelled := client.MatchingLabels{hubv1alpha1.WebhooksLabel: "true"}
	if err := in.Client.List(e.ctx, list, labelled); err != nil {
		return nil, err
	}
	for _, configuration := range list.Items {
		for _, hook := range configuration.Webhooks {
			if strings.Contains(hook.Name, entry) {
				return e.send(hook.ClientConfig, address, pod)
			}
		}
	}
	return nil, fmt.Errorf("no entry %q", entry)
}

func (e *env) send(
	to admissionregistrationv1.WebhookClientConfig, address string, pod *corev1.Pod,
) (*admissionv1.AdmissionResponse, error) {
	object, err := json.Marshal(pod)
	e.Expect(err).NotTo(HaveOccurred())
	review := &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u", Operation: admissionv1.Create, Namespace: pod.Namespace,
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		},
	}
	review.Request.Object.Raw = object
	body, err := json.Marshal(review)
	e.Expect(err).NotTo(HaveOccurred())
	where, err := url.Parse(*to.URL)
	e.Expect(err).NotTo(HaveOccurred())
	where.Host = address
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(to.CABundle)
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots},
	}}
	response, err := c.Post(where.String(), "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return nil, fmt.Errorf("%s: %w", response.Status, err)
	}
	return answer.Response, nil
}

// A replica that does not lead answers what comes to it, by what it reads of the target at that moment.
func TestHUB21_AnyReplicaAnswers(t *testing.T) {
	e := newEnv(t)
	e.Expect(source.Client.Update(e.ctx, testbed.Registration(e.name, "target", e.alias(target)))).To(Succeed())
	serve := serveWebhooks(e)
	leader := e.startHub(serve)
	account := &corev1.ServiceAccount{
		ObjectMeta:                   metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: e.name + "-own"},
		AutomountServiceAccountToken: ptr.To(false),
	}
	e.Expect(target.Client.Create(e.ctx, account)).To(Succeed())
	e.setWebhooks("target", `{"projectedTokenMount":{"enabled":true}}`)
	e.Eventually(e.webhooksOf("target")).Should(Equal("True WebhooksRegistered"), "%s", leader.Log)

	port := e.freePort()
	standby := e.startHub(serve, func(c *configv1alpha1.HubConfiguration) { c.Server.Webhooks.Port = port })
	e.Eventually(func() string { return standby.Log.About("Serving webhooks") }).ShouldNot(BeEmpty())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "p"},
		Spec: corev1.PodSpec{
			ServiceAccountName: account.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		},
	}
	answer := func() (*admissionv1.AdmissionResponse, error) {
		return e.call(target, "projected-token-mount", fmt.Sprintf("127.0.0.1:%d", port), pod)
	}
	e.Eventually(answer).Should(And(
		HaveField("Allowed", true),
		HaveField("Patch", ContainSubstring("kube-api-access-gardener"))), "%s", standby.Log)
	e.Expect(e.holder()).NotTo(BeEmpty())

	e.setWebhooks("target", "null")
	e.Eventually(e.webhooksOf("target")).Should(BeEmpty(), "%s", leader.Log)
	e.stop(standby)
	e.stop(leader)
}
