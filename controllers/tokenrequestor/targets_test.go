package tokenrequestor_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/tokenrequestor"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestTR37_SecretsOfTheSameName(t *testing.T) {
	t.Parallel()
	a, b := newHome(t, inAlpha), newHome(t, inBeta)
	same := func(s *corev1.Secret) { s.Annotations[ServiceAccountNamespaceAnnotation] = "default" }
	inA, inB := a.secret("same", same), b.secret("same", same)
	a.create(inA)
	b.create(inB)
	tokenA, tokenB := token(a.issued(inA)), token(b.issued(inB))
	a.Expect(a.user(beta, tokenA)).To(BeEmpty())
	b.Expect(b.user(alpha, tokenB)).To(BeEmpty())
	accountA, err := a.account("default", "same")
	a.Expect(err).NotTo(HaveOccurred())
	accountB, err := b.account("default", "same")
	b.Expect(err).NotTo(HaveOccurred())
	a.Expect(accountA.UID).NotTo(Equal(accountB.UID))
}

func TestTR38_TheServerOfAKubeconfigIsNotCalled(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	var dialled atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	h.Expect(err).NotTo(HaveOccurred())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			_ = connection.Close() // nothing was said
		}
	}()
	defer func() { _ = listener.Close(); <-ended }()
	for name, server := range map[string]string{"listener": "https://" + listener.Addr().String(), "other": beta.Host()} {
		secret := h.secret(name, injecting, with(KeyKubeconfig, body("", func(c *api.Config) {
			c.Clusters["current"].Server = server
		})))
		h.create(secret)
		got := h.issued(secret)
		h.Expect(h.user(beta, token(got))).To(BeEmpty())
		h.Expect(h.load(got.Data[KeyKubeconfig]).Clusters["current"].Server).To(Equal(server))
		_, err := (&home{GomegaWithT: h.GomegaWithT, t: t, at: beta}).account(h.name, name)
		h.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	}
	h.Expect(dialled.Load()).To(BeZero())
}

func TestTR39_WithoutARegistrationNothingHappens(t *testing.T) {
	t.Parallel()
	h, other := newNamespace(t), newHome(t, inAlpha)
	secret := h.secret("waits")
	h.create(secret)
	there := other.secret("there")
	other.create(there)
	other.issued(there)
	h.Expect(h.get(secret).ResourceVersion).To(Equal(secret.ResourceVersion))
	h.Expect(hub.outcomes(secret)()).To(BeEmpty())
	h.at = beta
	h.register("target", beta.Kubeconfig())
	h.issued(secret)
}

func TestTR40_ARegistrationThatIsReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	arrived, release := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	hub.answer(t, h.key, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if requests(r) && once.CompareAndSwap(false, true) {
			close(arrived) // alpha has issued a token
			<-release
		}
		return response, err
	})
	secret := h.secret("replaced")
	var patches atomic.Int64
	hub.beforePatch(secret, func(string) { patches.Add(1) })
	h.create(secret)
	h.Eventually(arrived).Should(BeClosed())

	registration := h.getFrom(alpha, h.name, "target-kubeconfig")
	h.Expect(alpha.Client.Delete(t.Context(), registration)).To(Succeed())
	h.Eventually(func() bool { _, registered := hub.clusters.GetStatus(h.key); return registered }).Should(BeFalse())
	h.at = beta
	h.register("target", beta.Kubeconfig())
	h.Expect(patches.Load()).To(BeZero())
	close(release)
	h.issued(secret)
	h.Expect(patches.Load()).To(BeEquivalentTo(1), "what alpha issued was not written")
}

// The client of the target does not notice a registration that is there again; the fence does.
func TestTR40_TheFenceIsAskedRightBeforeThePatch(t *testing.T) {
	t.Parallel()
	h := newHome(t, inAlpha)
	secret := h.secret("rotated")
	arrived, release := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	hub.answer(t, h.key, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if requests(r) && once.CompareAndSwap(false, true) {
			close(arrived)
			<-release
		}
		return response, err
	})
	h.create(secret)
	h.Eventually(arrived).Should(BeClosed())
	rotated, err := alpha.ClientCertKubeconfig("rotated", []string{"system:masters"}, time.Hour)
	h.Expect(err).NotTo(HaveOccurred())
	before, _ := hub.clusters.GetStatus(h.key)
	h.change(h.getFrom(alpha, h.name, "target-kubeconfig"), with("value", rotated))
	h.Eventually(func() int64 { s, _ := hub.clusters.GetStatus(h.key); return s.Connection }).
		Should(BeNumerically(">", before.Connection))
	close(release)
	h.fails(secret, clustercache.ErrConnectionReplaced.Error())
	h.issued(secret)
}

func TestTR41_ATargetThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	a, b := newHome(t, inAlpha), newHome(t, inBeta)
	var hanging atomic.Int64
	hub.answer(t, a.key, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "/serviceaccounts/") || reviews(r) {
			hanging.Add(1)
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return next.RoundTrip(r)
	})
	for n := range 30 {
		a.create(a.secret(fmt.Sprint("hangs-", n)))
	}
	a.Eventually(hanging.Load).Should(BeNumerically(">=", 5))
	for n := range 5 {
		secret := b.secret(fmt.Sprint("quick-", n))
		b.create(secret)
		b.issued(secret)
	}
}

func TestTR42_OtherCertificatesOfATarget(t *testing.T) {
	t.Parallel()
	a, b := newHome(t, inAlpha), newHome(t, inAlpha)
	plain, bundle, inBody, foreign := a.secret("plain"), a.secret("bundle", injecting),
		a.secret("body", injecting, with(KeyKubeconfig, body(""))), b.secret("bundle", injecting)
	for _, secret := range []*corev1.Secret{plain, bundle, inBody} {
		a.create(secret)
		a.issued(secret)
		a.settled(secret)
	}
	b.create(foreign)
	b.issued(foreign)
	b.settled(foreign)
	plainRuns, foreignRuns := len(hub.outcomes(plain)()), len(hub.outcomes(foreign)())

	both := append(append([]byte{}, ca(alpha)...), ca(beta)...)
	for _, wanted := range [][]byte{both, ca(alpha), both} {
		access := testbed.Rewrite(alpha.Kubeconfig(), func(c *testbed.KubeConfig) {
			for _, cluster := range c.Clusters {
				cluster.CertificateAuthorityData = wanted
			}
		})
		a.change(a.getFrom(alpha, a.name, "target-kubeconfig"), with("value", access))
		a.Eventually(func() []byte { return a.get(bundle).Data[KeyCA] }).Should(Equal(wanted))
		a.Eventually(func() []byte {
			return a.load(a.get(inBody).Data[KeyKubeconfig]).Clusters["current"].CertificateAuthorityData
		}).Should(Equal(wanted))
		a.settled(bundle)
		a.settled(inBody)
	}
	// One run each may still have been due to the last change of the Secret.
	a.Expect(len(hub.outcomes(plain)())).To(BeNumerically("<=", plainRuns+1), "it is not concerned")
	a.Expect(len(hub.outcomes(foreign)())).To(BeNumerically("<=", foreignRuns+1), "it is not concerned")
	a.Expect(b.get(foreign).Data).To(HaveKeyWithValue(KeyCA, ca(alpha)))
}

func TestTR44_ServiceAccountsThatMayNotBeNamed(t *testing.T) {
	t.Parallel()
	h := newNamespace(t)
	h.at = beta
	access, err := beta.Access(t.Context(), h.name, time.Hour)
	h.Expect(err).NotTo(HaveOccurred())
	h.key = h.register("target", access)
	hub.set(h.name, func(clustercacheKey) (Settings, bool) {
		return Settings{Class: ptr.To("shoot"), Policy: Policy{
			Allowed: []string{h.name, "kube-system"}, Denied: []string{"kube-system/denied", h.name + "/denied"},
		}}, true
	})
	named := func(namespace, name string) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			s.Annotations[ServiceAccountNamespaceAnnotation], s.Annotations[ServiceAccountNameAnnotation] = namespace, name
		}
	}
	for secret, message := range map[*corev1.Secret]string{
		h.secret("denied"): "is denied by the policy",
		h.secret("denied-elsewhere", named("kube-system", "denied")):                            "is denied by the policy",
		h.secret("not-allowed", named("default", "any")):                                        "is not among those",
		h.secret("own", named("kube-system", "trellis")):                                        "is the hub's own",
		h.secret("own-into", named("kube-system", "trellis"), into(h.name, "x")):                "is the hub's own",
		h.secret("own-kubeconfig", named("kube-system", "trellis"), with("value", []byte("x"))): "is the hub's own",
	} {
		h.create(secret)
		h.Eventually(hub.warnings(secret)).Should(ContainElement(And(
			HavePrefix("ServiceAccountDenied: "), ContainSubstring(message))), secret.Name)
		h.Expect(h.get(secret).ResourceVersion).To(Equal(secret.ResourceVersion))
		h.Expect(len(hub.outcomes(secret)())).To(BeNumerically("<=", 2), "it is not tried again")
	}
	allowed := h.secret("allowed")
	h.create(allowed)
	h.issued(allowed)
}

// The hub's own access is renewed like others, whichever key has it, and the connection continues with it.
func TestTheAccessOfTheHubItself(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"value", KeyKubeconfig} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			h := newNamespace(t)
			h.at = beta
			access, err := beta.Access(t.Context(), h.name, time.Hour)
			h.Expect(err).NotTo(HaveOccurred())
			secret := testbed.Registration(h.name, "target", nil)
			secret.Data = map[string][]byte{key: access}
			h.create(secret)
			h.key = clustercache.ClusterKey{Namespace: h.name, Name: "target"}
			h.Eventually(h.state(h.key)).Should(Equal(clustercache.StateConnected))
			before, _ := hub.clusters.GetStatus(h.key)
			h.Expect(before.ServiceAccount.String()).To(Equal("kube-system/trellis"))
			events := hub.clusters.GetClusterSource(t.Name())
			defer events.Close()
			var lost atomic.Bool
			ctx, cancel := context.WithCancel(t.Context())
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				for {
					event, err := events.Next(ctx)
					if err != nil {
						return
					}
					if event.Cluster == h.key && event.Has(clustercache.EventDisconnected) {
						lost.Store(true)
					}
				}
			}()

			h.change(secret, func(s *corev1.Secret) {
				s.Labels[PurposeLabel], s.Labels[ClassLabel] = Purpose, "shoot"
				s.Annotations = map[string]string{
					ServiceAccountNamespaceAnnotation: "kube-system", ServiceAccountNameAnnotation: "trellis",
					InjectCAAnnotation: "true",
				}
			})
			h.Eventually(func() time.Time { s, _ := hub.clusters.GetStatus(h.key); return s.CredentialExpiry }).
				Should(BeTemporally(">", before.CredentialExpiry.Add(10*time.Hour)))
			after, _ := hub.clusters.GetStatus(h.key)
			h.Expect(after.Connection).To(Equal(before.Connection), "the connection goes on")
			h.Expect(beta.Revoke(t.Context(), h.name)).To(Succeed(), "the old token is no longer used")
			other := h.secret("other")
			h.create(other)
			h.issued(other)
			got := h.get(secret)
			h.Expect(got.Data).To(And(HaveLen(1), HaveKey(key)))
			h.Expect(h.state(h.key)()).To(Equal(clustercache.StateConnected))
			cancel()
			<-watched
			h.Expect(lost.Load()).To(BeFalse())

			h.settled(secret)
			changed := h.change(secret, into(h.name, "elsewhere"))
			h.fails(secret, "the Secret registers the target")
			h.Expect(h.get(secret).ResourceVersion).To(Equal(changed.ResourceVersion))
		})
	}
}

func TestSeveralTargetsOfANamespace(t *testing.T) {
	t.Parallel()
	h := newNamespace(t)
	h.at = beta
	a, b := h.register("a", alpha.Kubeconfig()), h.register("b", beta.Kubeconfig())
	picks := func(name string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Labels[hubv1alpha1.ClusterNameLabel] = name }
	}
	picked, unknown, open := h.secret("picked", picks("b")), h.secret("unknown", picks("c")), h.secret("open")
	for _, secret := range []*corev1.Secret{picked, unknown, open} {
		h.create(secret)
	}
	h.issued(picked)
	h.Expect(h.user(alpha, token(h.get(picked)))).To(BeEmpty())
	h.Eventually(hub.warnings(open)).Should(ContainElement(HavePrefix("TargetAmbiguous: ")))
	h.Eventually(hub.warnings(unknown)).Should(ContainElement(ContainSubstring(`no registered target "c"`)))
	h.Eventually(func() int { return len(hub.outcomes(open)()) }).Should(BeNumerically(">=", 2), "each was asked")
	h.Expect(h.get(open).ResourceVersion).To(Equal(open.ResourceVersion))
	h.Expect(h.get(unknown).ResourceVersion).To(Equal(unknown.ResourceVersion))

	t.Log("another class does not make it one of two, unless it is responsible, too")
	h.change(h.getFrom(alpha, h.name, "a-kubeconfig"), func(s *corev1.Secret) {
		s.Labels[hubv1alpha1.ClassLabel] = "other"
	})
	h.Eventually(func() map[string]string { s, _ := hub.clusters.GetStatus(a); return s.Labels }).
		Should(HaveKeyWithValue(hubv1alpha1.ClassLabel, "other"))
	h.settledWithout(open)
	h.Expect(token(h.get(open))).To(BeEmpty())

	t.Log("one leaves")
	h.Expect(alpha.Client.Delete(t.Context(), h.getFrom(alpha, h.name, "a-kubeconfig"))).To(Succeed())
	h.issued(open)
	h.Expect(b.Name).To(Equal("b"))
}

// settledWithout waits for runs of two targets that found nothing to do for a Secret as it is now.
func (h *home) settledWithout(secret *corev1.Secret) {
	h.t.Helper()
	touched := h.touch(secret)
	found := map[clustercache.ClusterKey]bool{}
	h.Eventually(func() int {
		for _, o := range hub.outcomes(secret)() {
			if o.version == touched.ResourceVersion {
				h.Expect(o.err).NotTo(HaveOccurred())
				h.Expect(o.result).To(Equal(reconcile.Result{}))
				found[o.cluster] = true
			}
		}
		return len(found)
	}).Should(Equal(2))
}

// Another term finds everything as it is, and looks at it at times that are spread.
func TestMC11_ANewTermIssuesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	hub.set(h.name, func(clustercacheKey) (Settings, bool) { return Settings{}, false })
	only := func(key clustercacheKey) (Settings, bool) { return Settings{}, key.Namespace == h.name }
	term := func(spread time.Duration) (end func()) {
		controller, err := hub.controller(nil, only, spread)
		h.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- controller.Start(ctx) }()
		return func() {
			cancel()
			h.Eventually(ended).Should(Receive(BeNil()))
		}
	}
	end := term(time.Hour)
	secret := h.secret("stays")
	h.create(secret)
	h.issued(secret)
	h.settled(secret)
	end()

	before, known := h.get(secret), len(hub.outcomes(secret)())
	end = term(-1)
	h.Eventually(func() int { return len(hub.outcomes(secret)()) }).Should(BeNumerically(">", known))
	h.Expect(hub.outcomes(secret)()[known].result.RequeueAfter).To(BeNumerically(">", 9*time.Hour))
	h.Expect(h.get(secret).ResourceVersion).To(Equal(before.ResourceVersion))
	end()

	t.Log("reviews are spread")
	h.change(secret, with(KeyToken, []byte("spoilt")))
	before, known = h.get(secret), len(hub.outcomes(secret)())
	end = term(time.Hour)
	h.Eventually(func() int { return len(hub.outcomes(secret)()) }).Should(BeNumerically(">", known))
	h.Expect(hub.outcomes(secret)()[known].result.RequeueAfter).To(And(
		BeNumerically(">", 0), BeNumerically("<=", time.Hour)))
	h.Expect(h.get(secret).ResourceVersion).To(Equal(before.ResourceVersion))
	h.change(secret, annotated("touched", "now"))
	h.issued(secret)
	end()
}
