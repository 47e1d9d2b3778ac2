package isolation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// again registers the target of a scenario once more, from another namespace.
func (b *bench) again(first *scenario) *scenario {
	b.t.Helper()
	ctx, stage := b.t.Context(), *first.stage
	stage.home = first.home + "-again"
	b.Expect(source.Client.Create(ctx, namespace(stage.home))).To(Succeed())
	b.Expect(source.Client.Create(ctx, testbed.Registration(stage.home, first.Name(), first.Kubeconfig()))).To(Succeed())
	second := &scenario{b, &stage, newModel(), rand.New(rand.NewPCG(2, 0))}
	second.model.number = 1000 // its objects have other names than any of the first one
	b.t.Cleanup(func() { b.Expect(second.leave(context.WithoutCancel(ctx))).To(Succeed()) })
	return second
}

// forge registers a server in another namespace that is a place, and claims to be the target of a scenario.
func (b *bench) forge(genuine *scenario, by *place) *scenario {
	b.t.Helper()
	ctx, stage := b.t.Context(), *genuine.stage
	alias, err := testbed.StartAlias(by.RESTConfig(), b.uidOf(genuine.place))
	b.Expect(err).NotTo(HaveOccurred())
	b.t.Cleanup(alias.Stop)
	access, err := by.Access(ctx, "forger", time.Hour)
	b.Expect(err).NotTo(HaveOccurred())
	stage.home = genuine.home + "-forged"
	b.Expect(source.Client.Create(ctx, namespace(stage.home))).To(Succeed())
	registration := testbed.Registration(stage.home, genuine.Name(), alias.Through(access))
	b.Expect(source.Client.Create(ctx, registration)).To(Succeed())
	forged := &scenario{b, &stage, newModel(), rand.New(rand.NewPCG(3, 0))}
	b.t.Cleanup(func() { b.Expect(forged.leave(context.WithoutCancel(ctx))).To(Succeed()) })
	return forged
}

// uidOf is the UID of a cluster.
func (b *bench) uidOf(p *place) types.UID {
	b.t.Helper()
	system := &corev1.Namespace{}
	b.Expect(p.Client.Get(b.t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system)).To(Succeed())
	return system.UID
}

// duplicate is the message of the condition DuplicateRegistration, empty if the registration is none.
func (t *scenario) duplicate() string {
	tc := &hubv1alpha1.TargetCluster{}
	if source.Client.Get(t.t.Context(), client.ObjectKey{Namespace: t.home, Name: t.Name()}, tc) != nil {
		return ""
	}
	condition := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionDuplicateRegistration)
	if condition == nil || condition.Status != metav1.ConditionTrue {
		return ""
	}
	return condition.Message
}

// apply has a ManagedResource apply a ConfigMap and delete it again.
func (t *scenario) apply(name string) {
	t.t.Helper()
	ctx := t.t.Context()
	manifest := testbed.ConfigMap(t.space, name, "well")
	t.Expect(source.Client.Create(ctx, testbed.Content(t.home, name, "objects.yaml", manifest))).To(Succeed())
	mr := testbed.ManagedResource(t.home, name, name)
	t.Expect(source.Client.Create(ctx, mr)).To(Succeed())
	applied := func() error {
		return t.Client.Get(ctx, client.ObjectKey{Namespace: t.space, Name: name}, &corev1.ConfigMap{})
	}
	t.Eventually(applied).Should(Succeed())
	t.Expect(source.Client.Delete(ctx, mr)).To(Succeed())
	t.Eventually(func() error { return source.Client.Get(ctx, client.ObjectKeyFromObject(mr), mr) }).ShouldNot(Succeed())
	t.Expect(applied()).NotTo(Succeed())
}

// MC-4 Of two registrations of one cluster the controllers work for the first one until it is gone, also after the hub
// was restarted or replaced, and when another server claims the UID of the cluster. ManagedResources of both are
// applied, and a condition of the second one explains why controllers do not work for it.
func TestMC4_TwoRegistrationsOfOneCluster(t *testing.T) {
	b := start(t)
	first := b.scenarios(0)[0]
	second := b.again(first)
	b.Eventually(second.duplicate).Should(And(ContainSubstring("for one in another namespace"),
		Not(ContainSubstring(first.home))))
	asked := tokens(second.model, second.random)
	b.Expect(asked.do(t.Context(), second.stage)).To(Succeed())
	nothing := func() {
		t.Helper()
		b.engaged(1)
		first.everything()
		b.Consistently(func() error { return asked.done(t.Context(), second.stage) }, time.Second).ShouldNot(Succeed())
		for _, call := range b.calls.to(first.host) {
			b.Expect(call.String()).NotTo(ContainSubstring("access-1001"))
		}
		b.Eventually(first.duplicate).Should(BeEmpty())
		b.Eventually(second.duplicate).ShouldNot(BeEmpty())
	}
	nothing()

	t.Log("ManagedResources of both")
	for i, scenario := range []*scenario{first, second} {
		scenario.apply(fmt.Sprintf("applied-%d", i))
	}

	t.Log("the hub starts again")
	b.hub.Stop()
	b.startHub(testbed.HubOptions{})
	nothing()

	t.Log("another replica takes over")
	former := b.hub
	b.startHub(testbed.HubOptions{})
	former.Stop()
	nothing()

	t.Log("a server that claims to be the cluster")
	forged := b.forge(first, places[1])
	b.Eventually(forged.duplicate).ShouldNot(BeEmpty())
	nothing()
	b.Expect(forged.leave(t.Context())).To(Succeed())

	t.Log("the first one goes")
	b.Expect(first.leave(t.Context())).To(Succeed())
	b.Eventually(second.duplicate).Should(BeEmpty())
	b.Eventually(func() error { return asked.done(t.Context(), second.stage) }).Should(Succeed())
	b.engaged(1)
}
