package tokenrequestor_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	. "github.com/trellis-hub/trellis/controllers/tokenrequestor"
)

func TestTR1_ANewSecretGetsAToken(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	secret := h.secret("plain")
	h.create(secret)
	got := h.issued(secret)

	account, err := h.account(h.name, "plain")
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(account.AutomountServiceAccountToken).To(Equal(ptr.To(false)))
	h.Expect(got.Data).To(And(HaveLen(1), HaveKey(KeyToken)), "no %s", KeyCA)

	claims, _ := kubeconfig.ClaimsOf(token(got))
	h.Expect(claims.Expiry.Sub(claims.Issued)).To(Equal(12 * time.Hour))
	after := h.expected(token(got))
	h.Expect(got.Annotations[RenewTimestampAnnotation]).To(Equal(
		hub.clock.Now().Add(after).UTC().Format(time.RFC3339)))
	h.Expect(hub.outcomes(secret)()).To(ContainElement(
		WithTransform(func(o outcome) time.Duration { return o.result.RequeueAfter }, Equal(after))))
}

func TestTR2_CertificatesAreInjected(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	secret := h.secret("bundle", injecting)
	h.create(secret)
	h.Expect(h.issued(secret).Data).To(HaveKeyWithValue(KeyCA, ca(beta)))
}

func TestTR3_TheTokenGoesIntoAKubeconfig(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	secret := h.secret("body", with(KeyKubeconfig, body("")))
	h.create(secret)
	got := h.issued(secret)
	h.Expect(got.Data).To(HaveLen(1), "no token beside it")
	config := h.load(got.Data[KeyKubeconfig])
	h.Expect(config.Clusters["current"].CertificateAuthorityData).To(BeEquivalentTo("current-ca"))
}

func TestTR4_CertificatesGoIntoAKubeconfig(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	secret := h.secret("body", injecting, with(KeyKubeconfig, body("")))
	h.create(secret)
	got := h.issued(secret)
	h.Expect(got.Data).To(HaveLen(1))
	config := h.load(got.Data[KeyKubeconfig])
	h.Expect(config.Clusters["current"].CertificateAuthorityData).To(Equal(ca(beta)))
	h.Expect(config.Clusters["other"].CertificateAuthorityData).To(BeEquivalentTo("other-ca"))
}

func TestTR5_ASecretOfTheTargetGetsTheToken(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	existing := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: "in-target", Labels: map[string]string{"kept": "true"}},
		Data:       map[string][]byte{"kept": []byte("true")},
	}
	h.Expect(beta.Client.Create(t.Context(), existing)).To(Succeed())
	secret := h.secret("into", injecting, into(h.name, "in-target"), with("foreign", []byte("kept")))
	h.create(secret)
	h.Eventually(func() string { return h.user(beta, token(h.getFrom(beta, h.name, "in-target"))) }).
		Should(Equal(h.username("into")))
	h.settled(secret)

	there, here := h.getFrom(beta, h.name, "in-target"), h.get(secret)
	h.Expect(there.Data).To(And(HaveKeyWithValue("kept", []byte("true")), HaveKeyWithValue(KeyCA, ca(beta))))
	h.Expect(there.Labels).To(HaveKeyWithValue("kept", "true"))
	h.Expect(here.Data).To(Equal(map[string][]byte{"foreign": []byte("kept")}))
	h.Expect(here.Annotations).To(HaveKey(RenewTimestampAnnotation))
}

func TestTR6_TheSecretOfTheTargetComesLater(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]func(*corev1.Secret){
		"plain": func(*corev1.Secret) {}, "kubeconfig": with(KeyKubeconfig, body("")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, inBeta)
			secret := h.secret("later", injecting, data)
			h.create(secret)
			h.issued(secret)
			h.settled(secret)
			h.change(secret, into(h.name, "in-target"))
			h.Eventually(func() string { return h.user(beta, token(h.getFrom(beta, h.name, "in-target"))) }).
				Should(Equal(h.username("later")))
			h.Eventually(func() map[string][]byte { return h.get(secret).Data }).Should(BeEmpty())
		})
	}
}

func TestTR7_AMissingTokenIsIssuedWhateverTheTime(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	for name, change := range map[string]func(*corev1.Secret){
		"plain": func(*corev1.Secret) {}, "body": with(KeyKubeconfig, body("")),
	} {
		secret := h.secret(name, renewAt(time.Hour), change)
		h.create(secret)
		h.issued(secret)
	}
}

func TestTR8_ATokenInTheTargetIsLeftAlone(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	first := h.secret("there", into(h.name, "in-target"))
	h.create(first)
	h.Eventually(func() string { return token(h.getFrom(beta, h.name, "in-target")) }).ShouldNot(BeEmpty())
	h.settled(first)
	h.change(first, renewAt(time.Hour))
	before := h.getFrom(beta, h.name, "in-target")
	h.Expect(h.settled(first).RequeueAfter).To(And(
		BeNumerically("<=", time.Hour), BeNumerically(">", time.Hour-time.Second)), "the time has whole seconds")
	here := h.get(first)
	h.Expect(h.settled(first).RequeueAfter).To(BeNumerically("~", time.Hour, time.Second))
	h.Expect(h.getFrom(beta, h.name, "in-target").ResourceVersion).To(Equal(before.ResourceVersion))
	h.Expect(h.get(first).Annotations[RenewTimestampAnnotation]).To(Equal(here.Annotations[RenewTimestampAnnotation]))
}

func TestTR10_ATokenIsLeftAloneUntilItsTime(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	for name, change := range map[string]func(*corev1.Secret){
		"plain": func(*corev1.Secret) {}, "body": with(KeyKubeconfig, body("")),
	} {
		secret := h.secret(name, change)
		h.create(secret)
		h.issued(secret)
		h.settled(secret)
		before := h.change(secret, renewAt(time.Minute))
		h.Expect(h.settled(secret).RequeueAfter).To(BeNumerically("~", time.Minute, time.Second))
		after := h.get(secret)
		h.Expect(after.Data).To(Equal(before.Data))
		h.Expect(after.Annotations[RenewTimestampAnnotation]).To(Equal(before.Annotations[RenewTimestampAnnotation]))
	}
}

func TestTR11_WrongCertificatesAreCorrected(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)

	plain := h.secret("plain", injecting)
	h.create(plain)
	first := h.issued(plain)
	h.settled(plain)
	h.change(plain, with(KeyCA, []byte("wrong")))
	h.Expect(h.issued(plain, token(first)).Data).To(HaveKeyWithValue(KeyCA, ca(alpha)))

	inBody := h.secret("body", injecting, with(KeyKubeconfig, body("")))
	h.create(inBody)
	first = h.issued(inBody)
	h.settled(inBody)
	h.change(inBody, with(KeyKubeconfig, body(token(first))))
	config := h.load(h.issued(inBody, token(first)).Data[KeyKubeconfig])
	h.Expect(config.Clusters["current"].CertificateAuthorityData).To(Equal(ca(alpha)))
}

func TestTR12_ATokenIsRenewedWhenItsTimeHasCome(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	secret := h.secret("due")
	h.create(secret)
	first := h.issued(secret)
	h.settled(secret)
	h.change(secret, renewAt(-time.Hour))
	again := h.issued(secret, token(first))
	h.Expect(again.Annotations[RenewTimestampAnnotation]).To(Equal(
		hub.clock.Now().Add(h.expected(token(again))).UTC().Format(time.RFC3339)))
}

func TestTR13_ATokenIsNotMounted(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	secret := h.secret("mounted")
	h.Expect(beta.Client.Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.name, Name: "mounted", Annotations: map[string]string{"kept": "true"},
		},
		AutomountServiceAccountToken: ptr.To(true),
	})).To(Succeed())
	h.create(secret)
	h.issued(secret)
	account, err := h.account(h.name, "mounted")
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(account.AutomountServiceAccountToken).To(Equal(ptr.To(false)))
	h.Expect(account.Annotations).To(HaveKeyWithValue("kept", "true"), "other fields are not touched")
}

func TestTR14_OtherSecretsAreLeftAlone(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	others := []*corev1.Secret{
		h.secret("no-purpose", func(s *corev1.Secret) { delete(s.Labels, PurposeLabel) }),
		h.secret("other-purpose", func(s *corev1.Secret) { s.Labels[PurposeLabel] = "other" }),
		h.secret("other-class", func(s *corev1.Secret) { s.Labels[ClassLabel] = "garden" }),
		h.secret("no-class", func(s *corev1.Secret) { delete(s.Labels, ClassLabel) }),
	}
	for _, other := range others {
		h.create(other)
	}
	last := h.secret("last")
	h.create(last)
	h.issued(last)
	for _, other := range others {
		h.Expect(h.get(other).ResourceVersion).To(Equal(other.ResourceVersion), other.Name)
		_, err := h.account(h.name, other.Name)
		h.Expect(apierrors.IsNotFound(err)).To(BeTrue(), other.Name)
	}
}

func TestTR15_TR16_TheLifetimeIsAskedFor(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	for name, lifetime := range map[string]time.Duration{
		"ten-minutes": 10 * time.Minute, "hundred-hours": 100 * time.Hour,
	} {
		secret := h.secret(name, annotated(ExpirationAnnotation, lifetime.String()))
		h.create(secret)
		got := h.issued(secret)
		claims, _ := kubeconfig.ClaimsOf(token(got))
		h.Expect(claims.Expiry.Sub(claims.Issued)).To(Equal(lifetime))
		h.Expect(got.Annotations[RenewTimestampAnnotation]).To(Equal(
			hub.clock.Now().Add(h.expected(token(got))).UTC().Format(time.RFC3339)))
	}
}

func TestTR20_TheNamespaceMayBeFixed(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	hub.set(h.name, func(clustercacheKey) (Settings, bool) {
		return Settings{Class: ptr.To("shoot"), TargetNamespace: h.name}, true
	})
	secret := h.secret("fixed", annotated(ServiceAccountNamespaceAnnotation, "elsewhere"))
	h.create(secret)
	h.Eventually(func() string { return h.user(beta, token(h.get(secret))) }).Should(Equal(h.username("fixed")))
}

func TestTR21_LabelsAreThoseOfTheAnnotation(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	h.Expect(beta.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: h.name, Name: "labels", Labels: map[string]string{"old": "true"},
	}})).To(Succeed())
	secret := h.secret("labels", annotated(ServiceAccountLabelsAnnotation, `{"foo":"bar"}`))
	h.create(secret)
	first := h.issued(secret)
	account, err := h.account(h.name, "labels")
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(account.Labels).To(Equal(map[string]string{"foo": "bar"}))

	h.settled(secret)
	h.change(secret, func(s *corev1.Secret) {
		delete(s.Annotations, ServiceAccountLabelsAnnotation)
		delete(s.Annotations, RenewTimestampAnnotation)
	})
	h.issued(secret, token(first))
	account, err = h.account(h.name, "labels")
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(account.Labels).To(BeEmpty())
}

func TestTR23_ALabelledSecretBecomesRelevant(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	secret := h.secret("labelled", func(s *corev1.Secret) { s.Labels = nil })
	h.create(secret)
	other := h.secret("other")
	h.create(other)
	h.issued(other)
	h.Expect(h.get(secret).ResourceVersion).To(Equal(secret.ResourceVersion))
	h.change(secret, func(s *corev1.Secret) { s.Labels = other.Labels })
	h.issued(secret)
}

func TestTR24_NothingIsDeletedInTheTarget(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	for name, end := range map[string]func(*corev1.Secret){
		"unlabelled": func(s *corev1.Secret) { h.change(s, func(s *corev1.Secret) { s.Labels = nil }) },
		"deleted":    func(s *corev1.Secret) { h.Expect(alpha.Client.Delete(context.Background(), s)).To(Succeed()) },
	} {
		secret := h.secret(name)
		h.create(secret)
		got := h.issued(secret)
		h.settled(secret)
		end(secret)
		h.Eventually(hub.outcomes(secret)).Should(ContainElement(outcome{cluster: h.key}), "the end of the loop")
		_, err := h.account(h.name, name)
		h.Expect(err).NotTo(HaveOccurred())
		h.Expect(h.user(beta, token(got))).To(Equal(h.username(name)))
	}
}

func TestTR25_TokensAuthenticate(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	genuine := with(KeyKubeconfig, body("", func(c *api.Config) {
		c.Clusters["current"] = &api.Cluster{Server: beta.Host(), CertificateAuthorityData: ca(beta)}
	}))
	uncertain := with(KeyKubeconfig, body("", func(c *api.Config) {
		c.Clusters["current"] = &api.Cluster{Server: beta.Host(), CertificateAuthorityData: []byte("wrong")}
	}))
	for name, changes := range map[string][]func(*corev1.Secret){
		"plain": {}, "bundle": {injecting}, "body": {genuine}, "body-and-bundle": {uncertain, injecting},
	} {
		secret := h.secret(name, changes...)
		h.create(secret)
		got := h.issued(secret)
		config := beta.RESTConfig()
		config.CertData, config.KeyData, config.CertFile, config.KeyFile = nil, nil, "", ""
		config.BearerToken = token(got)
		if content, has := got.Data[KeyCA]; has {
			config.CAData, config.CAFile = content, ""
		}
		if content, has := got.Data[KeyKubeconfig]; has {
			var err error
			config, err = clientcmd.RESTConfigFromKubeConfig(content)
			h.Expect(err).NotTo(HaveOccurred())
		}
		c, err := client.New(config, client.Options{})
		h.Expect(err).NotTo(HaveOccurred())
		review := &authenticationv1.SelfSubjectReview{}
		h.Expect(c.Create(t.Context(), review)).To(Succeed(), name)
		h.Expect(review.Status.UserInfo.Username).To(Equal(h.username(name)))
	}
}

func TestTR28_AudiencesAreThoseOfTheInstance(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]Settings{
		"shoot":  {Class: ptr.To("shoot"), Audiences: []string{"gardener"}},
		"garden": {Class: ptr.To("garden")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, inAlpha)
			hub.set(h.name, func(clustercacheKey) (Settings, bool) { return settings, true })
			secret := h.secret("audience", func(s *corev1.Secret) { s.Labels[ClassLabel] = name })
			h.create(secret)
			audiences := audiencesOf(token(h.issued(secret)))
			if name == "shoot" {
				h.Expect(audiences).To(ConsistOf("gardener"))
			} else {
				h.Expect(audiences).To(ConsistOf("gardener", "other"), "those of the API server")
			}
		})
	}
}

func TestTR31_OnlyTheCurrentUserChanges(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	before := body("old", func(c *api.Config) { c.AuthInfos["current"].Username = "kept" })
	secret := h.secret("users", with(KeyKubeconfig, before), with(KeyToken, []byte("kept")), with(KeyCA, []byte("kept")))
	h.create(secret)
	got := h.issued(secret)
	h.Expect(got.Data).To(And(HaveKeyWithValue(KeyToken, []byte("kept")), HaveKeyWithValue(KeyCA, []byte("kept"))))
	config, wanted := h.load(got.Data[KeyKubeconfig]), h.load(before)
	wanted.AuthInfos["current"].Token = token(got)
	h.Expect(config).To(Equal(wanted))
}

func TestTR32_CertificatesGoWhenTheyAreNotWantedAnyMore(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	secret := h.secret("off", injecting)
	h.create(secret)
	first := h.issued(secret)
	h.settled(secret)
	h.change(secret, func(s *corev1.Secret) { delete(s.Annotations, InjectCAAnnotation) })
	h.settled(secret)
	h.Expect(h.get(secret).Data).To(HaveKey(KeyCA), "until the next renewal")
	h.change(secret, renewAt(-time.Minute))
	h.Expect(h.issued(secret, token(first)).Data).NotTo(HaveKey(KeyCA))
}

func TestTR43_AnotherServiceAccountIsANewToken(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	secret := h.secret("before")
	h.create(secret)
	h.issued(secret)
	h.settled(secret)
	h.change(secret, annotated(ServiceAccountNameAnnotation, "after"))
	h.Eventually(func() string { return h.user(beta, token(h.get(secret))) }).Should(Equal(h.username("after")))
}

func TestD5_ALeftoverFinalizerIsRemoved(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	finalizers := func(s *corev1.Secret) { s.Finalizers = []string{LegacyFinalizer, "example.com/kept"} }
	secret := h.secret("finalized", finalizers)
	h.create(secret)
	h.issued(secret)
	h.Eventually(func() []string { return h.get(secret).Finalizers }).Should(Equal([]string{"example.com/kept"}))
	h.settled(secret)
	h.change(secret, finalizers)
	h.Eventually(func() []string { return h.get(secret).Finalizers }).Should(Equal([]string{"example.com/kept"}))

	invalid := h.secret("invalid", func(s *corev1.Secret) {
		s.Annotations, s.Finalizers = nil, []string{LegacyFinalizer}
	})
	h.create(invalid)
	h.Expect(alpha.Client.Delete(t.Context(), invalid)).To(Succeed())
	h.Eventually(func() bool {
		return apierrors.IsNotFound(alpha.Client.Get(context.Background(), types.NamespacedName{
			Namespace: h.name, Name: invalid.Name,
		}, &corev1.Secret{}))
	}).Should(BeTrue(), "it is gone")
	h.change(secret, func(s *corev1.Secret) { s.Finalizers = nil })
}
