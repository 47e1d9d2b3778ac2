package chart_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// guarded is a cluster with the policies, and how people and programs see it.
type guarded struct {
	people, programs, hub client.Client
}

// startGuarded starts a cluster with a TargetCluster "used" that ManagedResources need, another "idle" that none needs, and
// "fresh" of which nothing is known yet.
func startGuarded(ctx context.Context, t *testing.T) guarded {
	t.Helper()
	g := NewWithT(t)
	cp := controlplane.StartForTest(t, controlplane.Options{})
	as := func(user string, groups ...string) client.Client {
		config := rest.CopyConfig(cp.RESTConfig())
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:masters")}
		c, err := client.New(config, client.Options{Scheme: testbed.Scheme()})
		g.Expect(err).NotTo(HaveOccurred())
		return c
	}
	c := guarded{
		people:   as("jane"),
		programs: as("system:serviceaccount:kube-system:namespace-controller", "system:serviceaccounts"),
		hub:      as("trellis", "hub.gardener.cloud:programs"),
	}
	g.Expect(testbed.InstallSource(ctx, c.people)).To(Succeed())
	for _, policy := range chart.DeletionGuard() {
		g.Expect(c.people.Create(ctx, policy)).To(Succeed())
	}
	for name, count := range map[string]*hubv1alpha1.ManagedResourceCounts{"used": {Total: 3}, "idle": {}, "fresh": nil} {
		tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.HubNamespace, Name: name}}
		g.Expect(c.people.Create(ctx, tc)).To(Succeed())
		tc.Status.ManagedResources = count
		g.Expect(c.people.Status().Update(ctx, tc)).To(Succeed())
	}
	// The API server takes a moment until it uses new policies, and knows the TargetClusters.
	for _, probe := range []client.Object{target("used"), registration("used")} {
		g.Expect(client.IgnoreAlreadyExists(c.people.Create(ctx, probe))).To(Succeed())
		g.Eventually(func() error { return c.people.Delete(ctx, probe, client.DryRunAll) }, time.Minute, 100*time.Millisecond).Should(MatchError(apierrors.IsForbidden, "forbidden"))
	}
	return c
}

func target(name string) *hubv1alpha1.TargetCluster {
	return &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.HubNamespace, Name: name}}
}

func registration(name string) *corev1.Secret {
	return testbed.Registration(testbed.HubNamespace, name, []byte("kubeconfig"))
}

// TestDeletionsAreConfirmed deletes objects in dry runs, as a user and as a service account.
func TestDeletionsAreConfirmed(t *testing.T) {
	ctx := t.Context()
	cluster := startGuarded(ctx, t)

	named := func(secret *corev1.Secret, name string) *corev1.Secret {
		secret.Name = name
		return secret
	}
	unlabelled := named(registration("used"), "unlabelled-kubeconfig")
	unlabelled.Labels = nil
	tests := map[string]struct {
		object    client.Object
		confirmed string
		denied    string // a part of the answer; empty: it is allowed
	}{
		"a TargetCluster":                                       {target("used"), "", "kubectl -n trellis annotate targetcluster used confirmation.gardener.cloud/deletion=true"},
		"a TargetCluster without ManagedResources":              {target("idle"), "", "the hub would forget"},
		"a TargetCluster, confirmed":                            {target("used"), "true", ""},
		"a TargetCluster, with the confirmation taken back":     {target("used"), "false", "the hub would forget"},
		"a registration":                                        {registration("used"), "", "3 ManagedResources need this registration"},
		"a registration, and what to do":                        {registration("used"), "", "kubectl -n trellis annotate secret used-kubeconfig confirmation.gardener.cloud/deletion=true"},
		"a registration, confirmed":                             {registration("used"), "true", ""},
		"a registration, with the confirmation taken back":      {registration("used"), "false", "3 ManagedResources"},
		"a registration without ManagedResources":               {registration("idle"), "", ""},
		"a registration of which nothing is known yet":          {registration("fresh"), "", ""},
		"a registration without a TargetCluster":                {registration("unknown"), "", ""},
		"another Secret of the same cluster":                    {named(registration("used"), "used-ca"), "", ""},
		"a kubeconfig with the label of another cluster":        {named(registration("used"), "other-kubeconfig"), "", ""},
		"a Secret with the name of a registration and no label": {unlabelled, "", ""},
		"a Secret that is none of the hub's business": {testbed.Content(testbed.HubNamespace, "content", "a", "b"),
			"", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(client.IgnoreAlreadyExists(cluster.people.Create(ctx, test.object))).To(Succeed())
			annotate := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, hubv1alpha1.ConfirmDeletionAnnotation, test.confirmed)
			g.Expect(cluster.people.Patch(ctx, test.object, client.RawPatch(types.MergePatchType, annotate))).To(Succeed())
			err := cluster.people.Delete(ctx, test.object, client.DryRunAll)
			if test.denied == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(apierrors.IsForbidden, "forbidden"))
				g.Expect(err).To(MatchError(ContainSubstring(test.denied)))
			}
			g.Expect(cluster.programs.Delete(ctx, test.object, client.DryRunAll)).To(Succeed(), "by a service account")
		})
	}
}

func TestDeletionsOfManyAreConfirmed(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	cluster := startGuarded(ctx, t)
	everything := []client.DeleteAllOfOption{client.InNamespace(testbed.HubNamespace)}
	g.Expect(cluster.people.DeleteAllOf(ctx, &hubv1alpha1.TargetCluster{}, everything...)).To(MatchError(ContainSubstring("the hub would forget")))
	g.Expect(cluster.people.DeleteAllOf(ctx, &corev1.Secret{}, everything...)).To(MatchError(ContainSubstring("3 ManagedResources need this registration")))
	g.Expect(cluster.people.Get(ctx, client.ObjectKeyFromObject(registration("used")), &corev1.Secret{})).To(Succeed())
	g.Expect(cluster.programs.DeleteAllOf(ctx, &hubv1alpha1.TargetCluster{}, everything...)).To(Succeed())
	g.Expect(cluster.programs.DeleteAllOf(ctx, &corev1.Secret{}, everything...)).To(Succeed())
}

// TestHubWithACertificateNeedsNoConfirmation has a program that is no service account: its certificate has the group as organization.
func TestHubWithACertificateNeedsNoConfirmation(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	cluster := startGuarded(ctx, t)
	for _, object := range []client.Object{target("used"), registration("used")} {
		g.Expect(cluster.people.Delete(ctx, object, client.DryRunAll)).To(MatchError(apierrors.IsForbidden, "forbidden"))
		g.Expect(cluster.hub.Delete(ctx, object, client.DryRunAll)).To(Succeed())
	}
}

// TestTerminatingNamespaceIsEmptiedByAnyUser: deletions in a namespace that is being deleted are allowed to users that
// are no service accounts, too. Some controller managers run as such a user.
func TestTerminatingNamespaceIsEmptiedByAnyUser(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	cluster := startGuarded(ctx, t)
	// Its content stays, because there is no controller manager.
	g.Expect(cluster.people.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testbed.HubNamespace}})).To(
		Succeed())
	for _, object := range []client.Object{registration("used"), target("used")} {
		g.Eventually(func() error { return cluster.people.Delete(ctx, object) }, time.Minute, 100*time.Millisecond).Should(Succeed())
	}
}

// TestCRDTakesItsObjectsWithIt shows that this is no way to be asked: API servers do it without admission.
func TestCRDTakesItsObjectsWithIt(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	cluster := startGuarded(ctx, t)
	crd := chart.TargetClusterCRD()
	g.Expect(cluster.people.Delete(ctx, crd)).To(Succeed())
	g.Eventually(func() error { return cluster.people.Get(ctx, client.ObjectKeyFromObject(crd), crd) }, time.Minute, 100*time.Millisecond).
		Should(MatchError(apierrors.IsNotFound, "not found"))
	g.Expect(cluster.people.Create(ctx, chart.TargetClusterCRD())).To(Succeed())
	list := &hubv1alpha1.TargetClusterList{}
	g.Eventually(func() error { return cluster.people.List(ctx, list) }, time.Minute, 100*time.Millisecond).Should(Succeed())
	g.Expect(list.Items).To(BeEmpty())
}

// TestSecretsGoWithoutTheCRD has the policy about registrations fail, because what it compares them with is not there.
func TestSecretsGoWithoutTheCRD(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	cp := controlplane.StartForTest(t, controlplane.Options{})
	c, err := client.New(cp.RESTConfig(), client.Options{Scheme: testbed.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testbed.HubNamespace}})).To(Succeed())
	g.Expect(c.Create(ctx, registration("used"))).To(Succeed())
	for _, policy := range chart.DeletionGuard() {
		g.Expect(c.Create(ctx, policy)).To(Succeed())
	}
	// API servers take up policies all at once, so that the others are in use when one that comes later is.
	late := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "late"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "oldObject.metadata.name != 'sentinel'"}},
		},
	}
	g.Expect(c.Create(ctx, late)).To(Succeed())
	g.Expect(c.Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "late"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "late", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})).To(Succeed())
	sentinel := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.HubNamespace, Name: "sentinel"}}
	g.Expect(c.Create(ctx, sentinel)).To(Succeed())
	g.Eventually(func() error { return c.Delete(ctx, sentinel, client.DryRunAll) }, time.Minute, 100*time.Millisecond).Should(MatchError(apierrors.IsInvalid, "invalid"))

	deletion := func() error { return c.Delete(ctx, registration("used"), client.DryRunAll) }
	g.Consistently(deletion, 5*time.Second, 100*time.Millisecond).Should(Succeed())
}
