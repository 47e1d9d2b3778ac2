package registrations

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestExpiredCredentialIsReportedAndReplaced(t *testing.T) {
	p := newPlace(t, 1)
	target := p.targets[0]
	p.Expect(target.RotateToken(fleetsim.Rotation{Revoke: true, Lifetime: time.Hour})).To(Succeed())
	p.register("target", target)
	p.manage("mr", "1", 2)
	p.eventuallyReady("mr")
	p.eventually("target", hubv1alpha1.ConditionCredentialsValid, "True/CredentialsAccepted")
	// The next one was issued an hour ago, and lasts for another minute. That is a warning all the time.
	target.Skew(-time.Hour)
	p.Expect(target.RotateToken(fleetsim.Rotation{Lifetime: time.Hour + time.Minute})).To(Succeed())
	target.Skew(0)
	p.rewrite("target", target)
	p.eventually("target", hubv1alpha1.ConditionCredentialsValid, "True/CredentialsExpireSoon")
	p.eventuallyEvent("target", hubv1alpha1.ReasonCredentialsExpireSoon, "expires in less than an hour")

	end := p.target("target").Status.CredentialExpiry
	p.eventually("target", hubv1alpha1.ConditionCredentialsValid, "False/CredentialsExpired")
	p.Expect(p.condition("target", hubv1alpha1.ConditionCredentialsValid)).To(ContainSubstring("expired at " + end.UTC().Format(time.RFC3339)))
	p.eventually("target", hubv1alpha1.ConditionReady, "False/CredentialsExpired")
	p.eventuallyEvent("target", hubv1alpha1.ReasonCredentialsExpired, "expired at")
	p.eventuallyMR("mr", resourcesv1alpha1.ConditionReady, "Unknown/TargetUnreachable")
	p.edit(target, "mr-0", "changed without credentials")

	p.Expect(target.RotateToken(fleetsim.Rotation{})).To(Succeed())
	p.rewrite("target", target)
	p.eventually("target", hubv1alpha1.ConditionCredentialsValid, "True/CredentialsAccepted")
	p.eventually("target", hubv1alpha1.ConditionReady, "True/Ready")
	p.Eventually(func() string { return p.value(target, "mr-0") }).Should(Equal("1"))
	p.eventuallyReady("mr")
}

func TestRevokedCredentialIsReportedAndReplaced(t *testing.T) {
	p := newPlace(t, 1)
	target := p.targets[0]
	p.register("target", target)
	p.manage("mr", "1", 2)
	p.eventuallyReady("mr")
	p.Expect(target.RotateToken(fleetsim.Rotation{Revoke: true})).To(Succeed())
	p.eventually("target", hubv1alpha1.ConditionReady, "False/Unauthorized")
	p.eventually("target", hubv1alpha1.ConditionCredentialsValid, "False/Unauthorized")
	p.eventuallyEvent("target", hubv1alpha1.ReasonUnauthorized, "")
	p.rewrite("target", target)
	p.eventually("target", hubv1alpha1.ConditionReady, "True/Ready")
	p.eventually("target", hubv1alpha1.ConditionCredentialsValid, "True/CredentialsAccepted")
	p.expectCare(target, "mr-0", "1")
	p.Expect(p.writes(target, "delete create")).To(BeEmpty())
}

func TestSecretThatIsMadeAnewAtOnce(t *testing.T) {
	p := newPlace(t, 1)
	target := p.targets[0]
	p.register("target", target)
	p.manage("mr", "1", 2)
	p.eventuallyReady("mr")
	p.eventually("target", hubv1alpha1.ConditionReady, "True/Ready")
	uid, began := p.target("target").UID, time.Now()
	for range 3 {
		p.unregister("target")
		p.register("target", target)
	}
	p.expectCare(target, "mr-0", "1")
	p.eventuallyReady("mr")
	p.eventually("target", hubv1alpha1.ConditionReady, "True/Ready")
	p.Expect(p.target("target").UID).To(Equal(uid), "it is remembered what is known of the target")
	p.Expect(p.changes(target, began)).To(ConsistOf(MatchRegexp("^(apply|update) configmaps default/mr-0$")), "the correction")
	p.Expect(p.writes(target, "delete")).To(BeEmpty())
}

func TestRegistrationThatIsRenamed(t *testing.T) {
	p := newPlace(t, 1)
	target := p.targets[0]
	p.register("target", target)
	p.manage("mr", "1", 2)
	p.eventuallyReady("mr")
	p.eventually("target", hubv1alpha1.ConditionReady, "True/Ready")
	p.unregister("target")
	p.register("renamed", target)
	p.eventually("renamed", hubv1alpha1.ConditionReady, "True/Ready")
	p.eventuallyGone(targetCluster(p, "target"))
	p.expectCare(target, "mr-0", "1")
	p.eventuallyReady("mr")
	p.Expect(p.writes(target, "delete")).To(BeEmpty())
}

func TestRegistrationThatLeadsElsewhereAndBack(t *testing.T) {
	p := newPlace(t, 2)
	first, second := p.targets[0], p.targets[1]
	p.register("target", first)
	p.manage("mr", "1", 2)
	p.eventuallyReady("mr")
	p.eventually("target", hubv1alpha1.ConditionReady, "True/Ready")

	p.rewrite("target", second)
	p.eventually("target", hubv1alpha1.ConditionReady, "False/IdentityChanged")
	p.eventuallyEvent("target", hubv1alpha1.ReasonIdentityChanged, string(second.UID()))
	p.eventuallyMR("mr", resourcesv1alpha1.ConditionReady, "Unknown/IdentityChanged")
	p.edit(first, "mr-0", "edited")
	p.Consistently(func() []string { return p.writes(second) }, 2*time.Second).Should(BeEmpty())

	p.rewrite("target", first)
	p.eventually("target", hubv1alpha1.ConditionReady, "True/Ready")
	p.Eventually(func() string { return p.value(first, "mr-0") }).Should(Equal("1"))
	p.eventuallyReady("mr")
	p.Expect(p.writes(second)).To(BeEmpty())

	p.rewrite("target", second)
	p.eventually("target", hubv1alpha1.ConditionReady, "False/IdentityChanged")
	p.annotate(testbed.Registration(p.name, "target", nil), hubv1alpha1.ConfirmIdentityAnnotation, string(second.UID()))
	p.eventually("target", hubv1alpha1.ConditionReady, "True/Ready")
	p.eventuallyEvent("target", "IdentityConfirmed", string(second.UID()))
	p.Eventually(func() string { return p.value(second, "mr-1") }).Should(Equal("1"))
	p.eventuallyReady("mr")
	p.eventuallyEvent("mr", "ObjectsReleased", "2 objects stay behind")
	p.Expect(p.value(first, "mr-0")).To(Equal("1"), "nothing is deleted where no controller works any longer")
	p.Expect(append(p.writes(first, "delete"), p.writes(second, "delete")...)).To(BeEmpty())
}
