package fleetsim_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/hack/fleetsim"
)

// rotations of credentials behave alike.
var rotations = []struct {
	name        string
	credentials fleetsim.Credentials
	rotate      func(*fleetsim.Target, fleetsim.Rotation) error
}{
	{"token", fleetsim.Token, (*fleetsim.Target).RotateToken},
	{"client certificate", fleetsim.Certificate, (*fleetsim.Target).RotateClientCertificate},
}

func TestAnOldCredentialIsValidUntilItIsRevoked(t *testing.T) {
	for _, c := range rotations {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			targets := start(t, fleetsim.Options{Targets: 2, Credentials: c.credentials}).Targets()
			before := targets[0].Kubeconfig()
			first := visit(t, targets[0])
			g.Expect(c.rotate(targets[0], fleetsim.Rotation{})).To(Succeed())
			g.Expect(targets[0].Kubeconfig()).NotTo(Equal(before))
			second := visit(t, targets[0])
			g.Expect(first.hello()).To(Succeed())
			g.Expect(second.hello()).To(Succeed())

			targets[0].Revoke()
			g.Expect(first.hello()).To(BeUnauthorized())
			g.Expect(second.hello()).To(Succeed())

			g.Expect(c.rotate(targets[0], fleetsim.Rotation{Revoke: true})).To(Succeed())
			g.Expect(second.hello()).To(BeUnauthorized())
			g.Expect(visit(t, targets[0]).hello()).To(Succeed())
			g.Expect(visit(t, targets[1]).hello()).To(Succeed(), "the other target is not concerned")
		})
	}
}

func TestACredentialExpiresByTheClockOfTheTarget(t *testing.T) {
	for _, c := range rotations {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			target := one(t, fleetsim.Options{Credentials: c.credentials})
			g.Expect(c.rotate(target, fleetsim.Rotation{Lifetime: time.Hour})).To(Succeed())
			config, err := kubeconfig.Parse(target.Kubeconfig(), kubeconfig.Policy{Addresses: addresses.Any()})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(config.Expiry).To(BeTemporally("~", time.Now().Add(time.Hour), time.Minute), "clients can read it")
			v := visit(t, target)
			g.Expect(v.hello()).To(Succeed())
			target.Skew(2 * time.Hour)
			g.Expect(v.hello()).To(BeUnauthorized())
			target.Skew(0)
			g.Expect(v.hello()).To(Succeed())

			g.Expect(c.rotate(target, fleetsim.Rotation{Lifetime: -time.Hour})).To(Succeed())
			g.Expect(visit(t, target).hello()).To(BeUnauthorized())
		})
	}
}

func TestACredentialThatTheKubeconfigDoesNotHaveCannotBeRotated(t *testing.T) {
	g := NewWithT(t)
	g.Expect(one(t, fleetsim.Options{}).RotateClientCertificate(fleetsim.Rotation{})).
		To(MatchError("rotating the client certificate of target-0001: its kubeconfig has no client certificate"))
	g.Expect(one(t, fleetsim.Options{Credentials: fleetsim.Certificate}).RotateToken(fleetsim.Rotation{})).
		To(MatchError("rotating the token of target-0001: its kubeconfig has no token"))
}

func TestANewServingCertificateOfTheSameAuthority(t *testing.T) {
	g := NewWithT(t)
	target := one(t, fleetsim.Options{})
	before := target.Kubeconfig()
	config := restConfig(t, target)
	open := visit(t, target)
	g.Expect(open.hello()).To(Succeed())
	g.Expect(target.RotateServingCertificate(fleetsim.Rotation{})).To(Succeed())
	g.Expect(target.Kubeconfig()).To(Equal(before))
	g.Expect(connect(t, config).hello()).To(Succeed())

	g.Expect(target.RotateServingCertificate(fleetsim.Rotation{Lifetime: -time.Minute})).To(Succeed())
	g.Expect(connect(t, rest.CopyConfig(config)).hello()).To(MatchError(ContainSubstring("certificate has expired")))
	g.Expect(open.hello()).To(Succeed(), "open connections continue")
	g.Expect(target.RotateServingCertificate(fleetsim.Rotation{})).To(Succeed())
	g.Expect(connect(t, rest.CopyConfig(config)).hello()).To(Succeed())
}

func TestANewCertificateAuthority(t *testing.T) {
	g := NewWithT(t)
	target := one(t, fleetsim.Options{})
	old := restConfig(t, target)
	open := visit(t, target)
	g.Expect(open.hello()).To(Succeed())
	g.Expect(target.RotateCA(fleetsim.Rotation{})).To(Succeed())
	g.Expect(open.hello()).To(Succeed(), "open connections continue")
	g.Expect(connect(t, old).hello()).To(MatchError(ContainSubstring("certificate signed by unknown authority")))
	g.Expect(visit(t, target).hello()).To(Succeed())

	g.Expect(target.RotateCA(fleetsim.Rotation{Revoke: true})).To(Succeed())
	g.Eventually(open.hello, patience).Should(MatchError(ContainSubstring("certificate signed by unknown authority")), "they are reset")
}

func TestTokensOfServiceAccounts(t *testing.T) {
	g := NewWithT(t)
	target := one(t, fleetsim.Options{})
	v := visit(t, target)
	ctx := t.Context()
	account, err := v.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	seconds := int64(3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	request, err = v.CoreV1().ServiceAccounts("default").CreateToken(ctx, "robot", request, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(request.Status.ExpirationTimestamp.Time).To(BeTemporally("~", time.Now().Add(time.Hour), time.Minute))

	config := restConfig(t, target)
	config.BearerToken = request.Status.Token
	robot := connect(t, config)
	review, err := robot.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(review.Status.UserInfo.Username).To(Equal("system:serviceaccount:default:robot"))
	g.Expect(review.Status.UserInfo.UID).To(BeEquivalentTo(account.UID))
	reviewed := func(token string) authenticationv1.TokenReviewStatus {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		review, err := v.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return review.Status
	}
	g.Expect(reviewed(request.Status.Token).User.Username).To(Equal("system:serviceaccount:default:robot"))
	g.Expect(reviewed("another").Authenticated).To(BeFalse())
	target.Revoke()
	g.Expect(robot.hello()).To(Succeed(), "it is no credential of the kubeconfig")
	target.Skew(2 * time.Hour)
	g.Expect(robot.hello()).To(BeUnauthorized())
}
