package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// halfBlind returns a place whose registration may write everything in the target, but read no single ConfigMaps but
// those with the names.
func halfBlind(t *testing.T, readable ...string) place {
	t.Helper()
	p := unregistered(t, nil)
	meta := metav1.ObjectMeta{Name: p.ns, Namespace: p.ns}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: p.ns}}
	p.inTarget(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: p.ns}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"list", "watch", "create", "update", "patch", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
			{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: p.ns}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.ns}},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: readable, Verbs: []string{"get"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: p.ns}},
	)
	kubeconfig, err := target.ClientCertKubeconfig(p.ns, nil, 0)
	p.Expect(err).NotTo(HaveOccurred())
	p.register("a", kubeconfig)
	return p
}

// One failing object stops only what needs it, and every failure is reported.
func TestSharedObjectThatCannotBeReadStopsNothingElse(t *testing.T) {
	t.Parallel()
	p := halfBlind(t, "own", "old")
	p.content("first", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "own", "1"),
		testbed.ConfigMap(p.ns, "old", "1"))
	p.mr("first", "first")
	p.awaitReady("first")
	uid := read(p, p.configMap("one")).UID
	p.content("last", testbed.ConfigMap(p.ns, "one", "2"))
	p.mr("last", "last")
	p.awaitReady("last")
	p.content("first", testbed.ConfigMap(p.ns, "one", "3"), testbed.ConfigMap(p.ns, "own", "2"))

	mr := p.await("first", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "1 error occurred", p.ns+"/one", "forbidden"))
	p.awaitValue("own", "2")
	p.awaitAbsent(p.configMap("old"))
	p.awaitValue("one", "2")
	p.Expect(mr.Status.Resources).To(ContainElement(SatisfyAll(HaveField("Name", "one"), HaveField("UID", uid))), "it is not forgotten")
}

func TestDriftedObjectThatCannotBeReadStopsNoOtherCorrection(t *testing.T) {
	t.Parallel()
	p := halfBlind(t, "own")
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "own", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	tc := p.targetCluster("a")
	p.edit(source, tc, func() { tc.Spec.Paused = true })
	p.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionFalse, hubv1alpha1.ReasonPaused)
	history := p.history("mr")
	one, own := p.configMap("one"), p.configMap("own")
	p.edit(target, one, func() { one.Data["key"] = "by hand" })
	p.edit(target, own, func() { own.Data["key"] = "by hand" })
	p.edit(source, tc, func() { tc.Spec.Paused = false })

	p.awaitValue("own", "1")
	p.awaitValue("one", "1") // the whole is tried again soon, and needs no look
	p.awaitReady("mr")
	p.Eventually(history.versions).Should(ContainElement(has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "1 error occurred", p.ns+"/one", "forbidden")))
}
