package tokenrequestor_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	. "github.com/trellis-hub/trellis/controllers/tokenrequestor"
)

// Each row is a faulty change that a user makes to a Secret: an event and an error report it, the Secret stays as it
// is, and nothing is tried again until it changes.
func TestTR9_TR17_TR21_TR30_FaultsOfSecrets(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	long := strings.Repeat("x", 200)
	for _, row := range []struct {
		name    string
		change  func(*corev1.Secret)
		reason  string
		message string
	}{
		{"TR-9 undecodable", with(KeyKubeconfig, []byte("foo")), "InvalidKubeconfig", "Key kubeconfig: the content is no"},
		{"TR-9 empty", with(KeyKubeconfig, []byte("")), "InvalidKubeconfig", "Key kubeconfig: the content is no"},
		{"TR-9 too long", with(KeyKubeconfig, []byte(strings.Repeat("x", 65<<10))), "InvalidKubeconfig", "more than 65536"},
		{"TR-9 anchors", with(KeyKubeconfig, []byte("a: &a [1]\nb: *a\n")), "InvalidKubeconfig", "anchors or aliases"},
		{"TR-30 no current context", with(KeyKubeconfig, body("", func(c *api.Config) { c.CurrentContext = "" })),
			"InvalidKubeconfig", "the context that current-context names does not exist"},
		{"TR-30 unknown context", with(KeyKubeconfig, body("", func(c *api.Config) { c.CurrentContext = "x" })),
			"InvalidKubeconfig", "the context that current-context names does not exist"},
		{"TR-30 no user", with(KeyKubeconfig, body("", func(c *api.Config) { delete(c.AuthInfos, "current") })),
			"InvalidKubeconfig", "the user that the current context names does not exist"},
		{"TR-17 lifetime", annotated(ExpirationAnnotation, "unparsable"), "InvalidAnnotation",
			ExpirationAnnotation + `: "unparsable" is no duration`},
		{"TR-21 labels", annotated(ServiceAccountLabelsAnnotation, "{"), "InvalidAnnotation",
			ServiceAccountLabelsAnnotation + `: "{" is no JSON object of strings`},
		{"TR-21 labels of numbers", annotated(ServiceAccountLabelsAnnotation, `{"a":1}`), "InvalidAnnotation",
			ServiceAccountLabelsAnnotation},
		{"TR-21 labels that are none", annotated(ServiceAccountLabelsAnnotation, `{"a":"`+long+`"}`), "InvalidAnnotation",
			`xx..." has a label that is not valid`},
		{"no name", func(s *corev1.Secret) { delete(s.Annotations, ServiceAccountNameAnnotation) }, "InvalidAnnotation",
			ServiceAccountNameAnnotation + " is missing or empty"},
		{"no namespace", annotated(ServiceAccountNamespaceAnnotation, ""), "InvalidAnnotation",
			ServiceAccountNamespaceAnnotation + " is missing or empty"},
		{"a name that is none", annotated(ServiceAccountNameAnnotation, "../token"), "InvalidAnnotation",
			ServiceAccountNameAnnotation + `: "../token" is no valid name`},
		{"a namespace that is none", annotated(ServiceAccountNamespaceAnnotation, long), "InvalidAnnotation",
			`xx..." is no valid name`},
		{"a target Secret that is none", into("a", "/"), "InvalidAnnotation", TargetSecretNameAnnotation},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := &home{GomegaWithT: NewWithT(t), t: t, name: h.name, key: h.key, at: h.at}
			name := strings.Trim(strings.ToLower(strings.ReplaceAll(row.name, " ", "-")), "-")
			secret := h.secret(name, row.change)
			h.create(secret)
			h.fails(secret, row.message)
			h.Expect(hub.warnings(secret)()).To(ContainElement(And(
				HavePrefix(row.reason+": "), ContainSubstring(row.message), WithTransform(func(s string) int { return len(s) },
					BeNumerically("<", 400)))))
			other := h.secret(name + "-later")
			h.create(other)
			h.issued(other)
			h.Expect(len(hub.outcomes(secret)())).To(BeNumerically("<=", 2), "it is not tried again")
			h.Expect(h.get(secret).ResourceVersion).To(Equal(secret.ResourceVersion))

			h.change(secret, func(s *corev1.Secret) {
				s.Data, s.Annotations = nil, h.secret(name).Annotations
			})
			h.issued(secret)
		})
	}
}

func TestInjectionThatIsNeitherTrueNorFalse(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	secret := h.secret("odd", annotated(InjectCAAnnotation, "perhaps"))
	h.create(secret)
	h.Expect(h.issued(secret).Data).NotTo(HaveKey(KeyCA))
	h.Expect(hub.warnings(secret)()).To(ContainElement(ContainSubstring(InjectCAAnnotation + `: "perhaps"`)))
}

func TestTR18_AnInvalidTimeWithATokenIsAnError(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	secret := h.secret("time")
	h.create(secret)
	h.issued(secret)
	h.settled(secret)
	changed := h.change(secret, annotated(RenewTimestampAnnotation, "yesterday"))
	h.fails(secret, RenewTimestampAnnotation+`: "yesterday" is no time`)
	h.Expect(hub.warnings(secret)()).To(ContainElement(ContainSubstring(`"yesterday"`)))
	h.Expect(h.get(secret).ResourceVersion).To(Equal(changed.ResourceVersion))
}

func TestTR19_AnInvalidTimeWithoutATokenIsNone(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	secret := h.secret("time", annotated(RenewTimestampAnnotation, "yesterday"))
	h.create(secret)
	h.issued(secret)
}

func TestTR26_ATokenThatDoesNotAuthenticateIsReplaced(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	for name, spoil := range map[string]func(*corev1.Secret){
		"tampered": func(s *corev1.Secret) { s.Data[KeyToken] = append(s.Data[KeyToken], 'x') },
		"account-is-new": func(*corev1.Secret) {
			account, err := h.account(h.name, "account-is-new")
			h.Expect(err).NotTo(HaveOccurred())
			h.Expect(client.IgnoreNotFound(beta.Client.Delete(context.Background(), account))).To(Succeed())
		},
		"long": with(KeyToken, []byte(strings.Repeat("x", 20<<10))),
	} {
		secret := h.secret(name)
		h.create(secret)
		first := h.issued(secret)
		h.settled(secret)
		h.change(secret, spoil)
		// The API server remembers for ten seconds that a token was good.
		h.Eventually(func() string { return token(h.touch(secret)) }).WithPolling(time.Second).
			ShouldNot(Or(Equal(token(first)), Equal(token(first)+"x"), HaveLen(20<<10)))
		h.issued(secret, token(first))
	}
}

func TestTR27_AReviewThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	secret := h.secret("review")
	h.create(secret)
	first := token(h.issued(secret))
	h.settled(secret)
	hub.answer(t, h.key, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if reviews(r) {
			return refusal(r, http.StatusForbidden, "Forbidden", "no reviews of "+first+" here"), nil
		}
		return next.RoundTrip(r)
	})
	changed := h.change(secret, annotated("touched", "true"))
	h.fails(secret, "reviewing the token of ServiceAccount "+h.name+"/review: no reviews of [token] here")
	h.Expect(hub.warnings(secret)()).To(ContainElement(HavePrefix("TokenRequestFailed: ")))
	h.Expect(hub.warnings(secret)()).NotTo(ContainElement(ContainSubstring(first)))
	h.Expect(h.get(secret).ResourceVersion).To(Equal(changed.ResourceVersion))
}

func TestTR29_AConcurrentEditIsKept(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	secret := h.secret("edited", with(KeyKubeconfig, body("")))
	edited := false
	hub.beforePatch(secret, func(string) {
		if !edited {
			edited = true
			h.change(secret, func(s *corev1.Secret) {
				s.Annotations["foreign"] = "kept"
				s.Data[KeyKubeconfig] = body("", func(c *api.Config) { c.Clusters["current"].Server = "https://changed.invalid" })
			})
		}
	})
	h.create(secret)
	got := h.issued(secret)
	h.Expect(got.Annotations).To(HaveKeyWithValue("foreign", "kept"))
	h.Expect(h.load(got.Data[KeyKubeconfig]).Clusters["current"].Server).To(Equal("https://changed.invalid"))
	h.Expect(hub.outcomes(secret)()[0].err).To(Satisfy(apierrors.IsConflict))
}

// A Secret of the same name that is another one is not written to, either.
func TestASecretThatIsReplacedGetsItsOwnToken(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	secret := h.secret("replaced")
	replaced := false
	hub.beforePatch(secret, func(string) {
		if !replaced {
			replaced = true
			h.Expect(alpha.Client.Delete(context.Background(), secret)).To(Succeed())
			h.create(h.secret("replaced", annotated(ServiceAccountNameAnnotation, "another")))
		}
	})
	h.create(secret)
	h.Eventually(func() string { return h.user(alpha, token(h.get(secret))) }).Should(Equal(h.username("another")))
	h.Expect(hub.outcomes(secret)()[0].err).To(HaveOccurred())
}

func TestTR35_AMissingNamespaceIsTriedAgain(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	later := h.name + "-later"
	secret := h.secret("account", annotated(ServiceAccountNamespaceAnnotation, later))
	h.create(secret)
	h.fails(secret, "creating ServiceAccount "+later+"/account: namespaces")
	h.Expect(h.get(secret).ResourceVersion).To(Equal(secret.ResourceVersion))
	h.Expect(hub.warnings(secret)()).To(ContainElement(HavePrefix("TokenRequestFailed: creating ServiceAccount")))
	h.Expect(beta.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: later}})).To(Succeed())
	h.issued(secret)
}

func TestTR36_AShortLifetimeIsTheTargetsError(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	secret := h.secret("short", annotated(ExpirationAnnotation, "599s"))
	h.create(secret)
	h.fails(secret, "may not specify a duration less than 10 minutes")
	h.Eventually(hub.warnings(secret)).Should(ContainElement(ContainSubstring("less than 10 minutes")))
	h.Expect(h.get(secret).ResourceVersion).To(Equal(secret.ResourceVersion))
}

// A target that does not accept its own tokens has them renewed with a pause, and an event says so.
func TestATargetThatDoesNotAcceptItsTokens(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	hub.set(h.name, func(clustercacheKey) (Settings, bool) {
		return Settings{Class: ptr.To("shoot"), Audiences: []string{"unaccepted"}}, true
	})
	secret := h.secret("unaccepted")
	h.create(secret)
	h.Eventually(hub.warnings(secret)).Should(ContainElement(HavePrefix("TokenNotAccepted: ")))
	waits := func() (waits int) {
		for _, o := range hub.outcomes(secret)() {
			if d := o.result.RequeueAfter; o.err == nil && d >= time.Second && d <= 10*time.Second {
				waits++
			}
		}
		return waits
	}
	h.Expect(waits()).To(BeNumerically(">=", 1), "it rests")
	issued := 0
	for _, o := range hub.outcomes(secret)() {
		if o.err == nil && o.result.RequeueAfter > time.Hour {
			issued++
		}
	}
	h.Expect(issued).To(BeNumerically("<=", 4))
}

func TestTokensOverdueAreCounted(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	good, bad := h.secret("good"), h.secret("bad")
	never := h.secret("never", annotated(ServiceAccountNamespaceAnnotation, "absent"))
	for _, secret := range []*corev1.Secret{good, never, bad} {
		h.create(secret)
	}
	h.issued(good)
	first := h.issued(bad)
	h.settled(bad)
	h.change(bad, func(s *corev1.Secret) {
		renewAt(-time.Minute)(s)
		s.Annotations[ExpirationAnnotation] = "1s"
	})
	h.fails(bad, "less than 10 minutes")
	h.fails(never, "absent")
	figure := func(name string) func() map[string]float64 {
		return func() map[string]float64 {
			found := map[string]float64{}
			families, err := hub.registry.Gather()
			h.Expect(err).NotTo(HaveOccurred())
			for _, family := range families {
				for _, metric := range family.GetMetric() {
					if family.GetName() == name && metric.GetLabel()[0].GetValue() == h.key.String() {
						found[h.key.String()] = metric.GetGauge().GetValue()
					}
				}
			}
			return found
		}
	}
	const (
		overdue    = "trellis_target_tokens_overdue"
		expiration = "trellis_target_tokens_overdue_expiration_timestamp_seconds"
	)
	h.Eventually(figure(overdue)).Should(HaveKeyWithValue(h.key.String(), 2.0))
	claims, _ := kubeconfig.ClaimsOf(token(first))
	h.Expect(figure(expiration)()).To(HaveKeyWithValue(h.key.String(), float64(claims.Expiry.Unix())))

	h.Expect(alpha.Client.Delete(t.Context(), never)).To(Succeed())
	h.Eventually(figure(overdue)).Should(HaveKeyWithValue(h.key.String(), 1.0))

	registration := h.getFrom(alpha, h.name, h.key.Name+"-kubeconfig")
	h.Expect(alpha.Client.Delete(t.Context(), registration)).To(Succeed())
	h.Eventually(figure(overdue)).Should(BeEmpty(), "they go with the target")
	h.Expect(figure(expiration)()).To(BeEmpty())
	problems, err := testutil.GatherAndLint(hub.registry)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(problems).To(BeEmpty())
}
