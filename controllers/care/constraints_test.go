package care

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
)

func TestCARE1_ProblematicWebhooksAreReported(t *testing.T) {
	b := newBench(t)
	b.start(Options{})
	b.Eventually(b.constraint(shared.B, webhooks)).Should(isGood)

	c := b.validating(shared.B, "problem", nil)
	b.Eventually(b.constraint(shared.B, webhooks)).Should(And(
		is(metav1.ConditionFalse, hubv1alpha1.ReasonProblematicWebhooks),
		HaveField("Message", And(HavePrefix("ERR_PROBLEMATIC_WEBHOOK: "), ContainSubstring(
			"ValidatingWebhookConfiguration problem: problem.example.org (failurePolicy Fail for pods)")))))
	b.Expect(b.constraint(shared.A, webhooks)()).To(Equal(metav1.Condition{}), "it is switched off there")

	t.Log("the other kind")
	b.mutating(shared.B, "other", admissionregistrationv1.MutatingWebhook{
		Name: "other.example.org", FailurePolicy: ptr.To(admissionregistrationv1.Ignore), TimeoutSeconds: ptr.To[int32](30),
		Rules: []admissionregistrationv1.RuleWithOperations{rule("", "v1", "nodes")},
	})
	b.Eventually(b.constraint(shared.B, webhooks)).Should(HaveField("Message", ContainSubstring(
		"MutatingWebhookConfiguration other: other.example.org (timeoutSeconds more than 15 for nodes)")))

	t.Log("they go")
	shared.B.Delete(t, c)
	shared.B.Delete(t, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	b.Eventually(b.constraint(shared.B, webhooks)).Should(isGood)
}

func TestCARE10_ExemptConfigurationsDoNotCount(t *testing.T) {
	b := newBench(t)
	for label, value := range map[string]string{
		"remediation.webhook.shoot.gardener.cloud/exclude": "true", "resources.gardener.cloud/managed-by": "gardener",
	} {
		b.validating(shared.B, "exempt-"+value, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Labels = map[string]string{label: value}
		})
	}
	b.start(Options{})
	b.Eventually(b.constraint(shared.B, webhooks)).Should(isGood)
	b.validating(shared.B, "not-exempt", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		c.Labels = map[string]string{
			"remediation.webhook.shoot.gardener.cloud/exclude": "false", "resources.gardener.cloud/managed-by": "other",
		}
	})
	b.Eventually(b.constraint(shared.B, webhooks)).Should(And(
		is(metav1.ConditionFalse, hubv1alpha1.ReasonProblematicWebhooks),
		HaveField("Message", And(ContainSubstring("not-exempt"), Not(ContainSubstring("exempt-"))))))
}

func TestCARE11_AuthoritiesThatExpireSoon(t *testing.T) {
	b := newBench(t)
	const day = 24 * time.Hour
	// The authorities of a control plane are valid for a year from now on.
	clock := clocktesting.NewFakePassiveClock(time.Now().Add(-30 * day))
	const soon, late = 334 * day, 336 * day
	root := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-root-ca.crt"},
		Data: map[string]string{
			"ca.crt": "no certificate\n" + certificate(t, "late", late) + certificate(t, "soon", soon),
		},
	}
	shared.B.Create(t, root)
	b.start(at(clock))
	b.Eventually(b.constraint(shared.B, authorities)).Should(And(
		is(metav1.ConditionFalse, hubv1alpha1.ReasonExpiringCACertificates),
		HaveField("Message", And(ContainSubstring("CN=soon"), Not(ContainSubstring("CN=late"))))))

	t.Log("it is there only as long as there is one")
	root.Data["ca.crt"] = certificate(t, "late", late)
	b.Expect(shared.B.Client.Update(t.Context(), root)).To(Succeed())
	b.Eventually(b.constraint(shared.B, authorities)).Should(Equal(metav1.Condition{}))
}

func TestCARE11_TheAuthorityOfTheRegistration(t *testing.T) {
	b := newBench(t)
	status, _ := shared.Clusters.GetStatus(shared.B.Key)
	block, _ := pem.Decode(status.CA)
	b.Expect(block).NotTo(BeNil())
	ca, err := x509.ParseCertificate(block.Bytes)
	b.Expect(err).NotTo(HaveOccurred())
	b.start(at(clocktesting.NewFakePassiveClock(ca.NotAfter.Add(-30 * 24 * time.Hour))))
	b.Eventually(b.constraint(shared.B, authorities)).Should(And(
		is(metav1.ConditionFalse, hubv1alpha1.ReasonExpiringCACertificates),
		HaveField("Message", ContainSubstring(ca.NotAfter.UTC().Format(time.RFC3339)))))
}

func certificate(t *testing.T, name string, valid time.Duration) string {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(valid), IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// definition creates a CustomResourceDefinition that is converted by a webhook, in a target.
func (b *bench) definition(in *twins.Target, kind string, stored ...string) *apiextensionsv1.CustomResourceDefinition {
	b.t.Helper()
	c, err := client.New(in.RESTConfig(), client.Options{Scheme: scheme})
	b.Expect(err).NotTo(HaveOccurred())
	plural := strings.ToLower(kind) + "s"
	schema := &apiextensionsv1.CustomResourceValidation{
		OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".care.example.org"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "care.example.org", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1", Served: true, Storage: true, Schema: schema},
				{Name: "v1beta1", Served: true, Schema: schema},
			},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: ptr.To("https://webhook.invalid/")},
					ConversionReviewVersions: []string{"v1"},
				},
			},
		},
	}
	b.Eventually(func() error { // that of the test before may be going still
		crd.ResourceVersion = ""
		return c.Create(b.t.Context(), crd)
	}).Should(Succeed())
	b.t.Cleanup(func() { b.Expect(client.IgnoreNotFound(c.Delete(context.Background(), crd))).To(Succeed()) })
	b.store(in, crd, stored...)
	return crd
}

// store has a definition say that objects are stored in some versions.
func (b *bench) store(in *twins.Target, crd *apiextensionsv1.CustomResourceDefinition, versions ...string) {
	b.t.Helper()
	c, err := client.New(in.RESTConfig(), client.Options{Scheme: scheme})
	b.Expect(err).NotTo(HaveOccurred())
	b.Eventually(func() error { // the API server writes the status, too
		if err := c.Get(b.t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
			return err
		}
		crd.Status.StoredVersions = versions
		return c.Status().Update(b.t.Context(), crd)
	}).Should(Succeed())
}

func TestCARE12_ConversionWebhooks(t *testing.T) {
	b := newBench(t)
	b.definition(shared.B, "Harmless", "v1")
	crd := b.definition(shared.B, "Problem", "v1beta1", "v1")
	b.start(Options{pageSize: 1})
	b.Eventually(b.constraint(shared.B, conversions)).Should(And(
		is(metav1.ConditionFalse, hubv1alpha1.ReasonProblematicConversionWebhooks),
		HaveField("Message", And(ContainSubstring("problems.care.example.org"),
			Not(ContainSubstring("harmless"))))))

	t.Log("it is there only as long as there is one")
	b.store(shared.B, crd, "v1")
	b.Eventually(b.constraint(shared.B, conversions)).Should(Equal(metav1.Condition{}))

	t.Log("what is harmless is not read again")
	b.looks(shared.B)
	shared.Reset()
	b.looks(shared.B)
	b.looks(shared.B)
	b.Expect(shared.Calls(shared.B.Key, func(c twins.Call) bool {
		return strings.Contains(c.Path, "/customresourcedefinitions/")
	})).To(BeEmpty())
}

func TestCARE12_FewDefinitionsAreReadAtATime(t *testing.T) {
	b := newBench(t)
	for _, kind := range []string{"Aa", "Bb", "Cc"} {
		b.definition(shared.B, kind, "v1")
	}
	b.definition(shared.B, "Zz", "v1beta1", "v1")
	b.start(Options{maxReads: 1})
	b.Eventually(b.constraint(shared.B, conversions)).Should(HaveField("Message", ContainSubstring("zzs.care")))
}

func TestCARE13_NothingIsWrittenAtRest(t *testing.T) {
	b := newBench(t)
	tc := b.targetCluster(shared.B)
	tc.Status.KubernetesVersion = "v1.2.3"
	b.Expect(source.Status().Update(t.Context(), tc)).To(Succeed())
	c := b.validating(shared.B, "problem", nil)
	b.start(Options{})
	b.Eventually(b.constraint(shared.B, webhooks)).Should(HaveField("Status", metav1.ConditionFalse))
	b.looks(shared.B)
	before := b.targetCluster(shared.B)
	b.looks(shared.B)
	b.looks(shared.B)
	after := b.targetCluster(shared.B)
	b.Expect(after.ResourceVersion).To(Equal(before.ResourceVersion))
	b.Expect(after.Status.KubernetesVersion).To(Equal("v1.2.3"), "only the constraints are written")
	b.Expect(writes(shared.B)).To(BeEmpty())

	t.Log("another message is no transition")
	old := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	meta.FindStatusCondition(after.Status.Constraints, webhooks).LastTransitionTime = old
	b.Expect(source.Status().Update(t.Context(), after)).To(Succeed())
	b.validating(shared.B, "another", nil)
	b.Eventually(b.constraint(shared.B, webhooks)).Should(And(
		HaveField("Message", ContainSubstring("another")),
		WithTransform(func(c metav1.Condition) bool { return c.LastTransitionTime.Equal(&old) }, BeTrue())))
	shared.B.Delete(t, c)
}

// Another client writes the TargetCluster all the time; neither writer loses what it wrote.
func TestCARE13_TwoWritersOfAStatus(t *testing.T) {
	b := newBench(t)
	b.start(Options{})
	for i := range 20 {
		b.Eventually(func() error {
			tc := b.targetCluster(shared.B)
			tc.Status.Objects = int64(i)
			return source.Status().Update(t.Context(), tc)
		}).Should(Succeed())
		if i == 10 {
			b.validating(shared.B, "problem", nil)
		}
	}
	b.Eventually(b.constraint(shared.B, webhooks)).Should(HaveField("Status", metav1.ConditionFalse))
	b.Expect(b.targetCluster(shared.B).Status.Objects).To(BeEquivalentTo(19))
}

func TestCARE14_WhatCannotBeReadIsUnknown(t *testing.T) {
	b := newBench(t)
	user := "weak-" + utilrand.String(5) // the test may run several times
	kubeconfig, err := shared.B.Restricted(t.Context(), user, rbacv1.PolicyRule{
		APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"},
		Verbs: []string{"get", "list"},
	})
	b.Expect(err).NotTo(HaveOccurred())
	weak := &twins.Target{
		ControlPlane: shared.B.ControlPlane, Client: shared.B.Client,
		Key: clustercache.ClusterKey{Namespace: "shoot-" + user, Name: user},
	}
	b.Expect(shared.Register(t.Context(), weak.Key, kubeconfig)).To(Succeed())
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: weak.Key.Namespace, Name: weak.Key.Name}}
	b.Expect(source.Create(t.Context(), tc)).To(Succeed())
	crd := b.definition(shared.B, "Problem", "v1beta1", "v1")
	b.set(weak, &Settings{SyncPeriod: often})
	b.start(Options{})
	b.Eventually(b.constraint(weak, webhooks)).Should(And(
		is(metav1.ConditionUnknown, hubv1alpha1.ReasonCheckFailed),
		HaveField("Message", ContainSubstring("forbidden"))))
	b.Eventually(b.constraint(weak, conversions)).Should(
		HaveField("Message", ContainSubstring(crd.Name)), "the others are looked at")
	b.Eventually(b.events.Events).Should(Receive(HavePrefix("Warning CareFailed ")))
}

func TestCARE14_WhatFailsOnceIsTriedAgain(t *testing.T) {
	b := newBench(t)
	b.validating(shared.B, "problem", nil)
	b.start(Options{})
	b.Eventually(b.constraint(shared.B, webhooks)).Should(HaveField("Status", metav1.ConditionFalse))
	before := b.constraint(shared.B, webhooks)()
	fail := func(key clustercache.ClusterKey, r *http.Request) *http.Response {
		if key != shared.B.Key || !strings.HasSuffix(r.URL.Path, "/validatingwebhookconfigurations") {
			return nil
		}
		return answer(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	}
	t.Run("while it fails", func(t *testing.T) {
		shared.Intercept(t, fail)
		b.definition(shared.B, "Problem", "v1beta1", "v1")
		b.Eventually(b.constraint(shared.B, conversions)).Should(HaveField("Status", metav1.ConditionFalse))
		b.Expect(b.constraint(shared.B, webhooks)()).To(Equal(before), "it stays")
	})
	b.looks(shared.B)
	b.Expect(b.constraint(shared.B, webhooks)()).To(Equal(before))
}

func TestCARE14_TooManyAreUnknown(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"one", "two", "three"} {
		b.validating(shared.B, name, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) { c.Webhooks = nil })
	}
	b.start(Options{pageSize: 1, maxConfigurations: 2})
	b.Eventually(b.constraint(shared.B, webhooks)).Should(And(
		is(metav1.ConditionUnknown, hubv1alpha1.ReasonCheckFailed),
		HaveField("Message", ContainSubstring("too many to look at: more than 2"))))
}

func TestCARE15_ConstraintsGoWhereItIsSwitchedOff(t *testing.T) {
	b := newBench(t)
	stop := b.start(Options{})
	b.Eventually(b.constraint(shared.B, webhooks)).Should(isGood)
	b.set(shared.B, nil)
	b.Eventually(func() []metav1.Condition { return b.targetCluster(shared.B).Status.Constraints }).Should(BeEmpty())

	t.Log("also if it is switched off while no hub is at work")
	b.set(shared.B, &Settings{SyncPeriod: often})
	stop()
	stop = b.start(Options{})
	b.Eventually(b.constraint(shared.B, webhooks)).Should(isGood)
	stop()
	b.set(shared.B, nil)
	b.start(Options{})
	b.Eventually(func() []metav1.Condition { return b.targetCluster(shared.B).Status.Constraints }).Should(BeEmpty())
}

func TestCARE16_ConstraintsOfATargetThatIsAwayAreUnknown(t *testing.T) {
	b := newBench(t)
	b.validating(shared.B, "problem", nil)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	b.start(at(clock))
	b.Eventually(b.constraint(shared.B, webhooks)).Should(HaveField("Status", metav1.ConditionFalse))
	shared.B.StopAPIServer()
	b.Eventually(func() bool {
		status, _ := shared.Clusters.GetStatus(shared.B.Key)
		return status.State == clustercache.StateDisconnected && !status.InGrace
	}).Should(BeTrue())
	b.Expect(b.constraint(shared.B, webhooks)()).To(HaveField("Status", metav1.ConditionFalse))
	clock.SetTime(time.Now().Add(10 * time.Minute))
	b.Eventually(b.constraint(shared.B, webhooks)).Should(
		is(metav1.ConditionUnknown, hubv1alpha1.ReasonTargetUnreachable))
	version := b.targetCluster(shared.B).ResourceVersion
	b.Consistently(func() string { return b.targetCluster(shared.B).ResourceVersion }).Should(Equal(version))

	t.Log("it is back")
	b.Expect(shared.B.StartAPIServer(t.Context())).To(Succeed())
	b.Eventually(b.constraint(shared.B, webhooks)).Should(
		is(metav1.ConditionFalse, hubv1alpha1.ReasonProblematicWebhooks))
}

func TestCARE17_AnEventSaysWhatBecameWrong(t *testing.T) {
	b := newBench(t)
	b.validating(shared.B, "problem", nil)
	b.start(Options{})
	b.Eventually(b.events.Events).Should(Receive(And(
		HavePrefix("Warning ProblematicWebhooks ERR_PROBLEMATIC_WEBHOOK"), ContainSubstring("problem.example.org"))))
	b.looks(shared.B)
	b.looks(shared.B)
	b.Expect(b.events.Events).To(BeEmpty(), "it is said once")
}

func TestCARE18_MetricsCountTargets(t *testing.T) {
	b := newBench(t)
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	b.Expect(err).NotTo(HaveOccurred())
	b.set(shared.A, &Settings{SyncPeriod: often})
	b.validating(shared.B, "problem", nil)
	stop := b.start(Options{Metrics: metrics})
	value := func(status string) func() float64 {
		return func() float64 { return testutil.ToFloat64(metrics.constraints.WithLabelValues(webhooks, status)) }
	}
	b.Eventually(value("True")).Should(BeEquivalentTo(1))
	b.Eventually(value("False")).Should(BeEquivalentTo(1))
	stop()
	b.Expect(value("True")()).To(BeZero(), "a hub that does not lead has no series of it")
	b.Expect(value("False")()).To(BeZero())
}

// answer is one of an API server that fails.
func answer(code int, reason metav1.StatusReason) *http.Response {
	return response(code, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"`+string(reason)+`"}`)
}

func TestCARE19_OneTargetSaysNothingAboutAnother(t *testing.T) {
	b := newBench(t)
	b.set(shared.A, &Settings{SyncPeriod: often, Remediate: true})
	b.validating(shared.B, "problem", nil)
	b.start(Options{})
	b.Eventually(b.constraint(shared.B, webhooks)).Should(HaveField("Status", metav1.ConditionFalse))
	b.Eventually(b.constraint(shared.A, webhooks)).Should(isGood)
	b.Expect(writes(shared.B)).To(BeEmpty())
}
