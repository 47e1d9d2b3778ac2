package chart_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/hack/helm"
)

// TestRightsFollowTheClasses lists all rights that the chart grants, for each combination of classes. A right that is
// not listed is not needed, and must not be granted.
func TestRightsFollowTheClasses(t *testing.T) {
	const garden = `namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: garden}}`
	always := []string{
		"trellis: ClusterRole trellis everywhere",
		"trellis: Role trellis in kube-system",
		"trellis: Role trellis in " + release,
	}
	tests := map[string]struct {
		classes string
		more    []string
		second  bool     // whether the hub may become the second identity
		secrets []string // where Secrets are read; "" is everywhere
	}{
		"targets of any namespace": {`[{name: "", target: {type: Namespace}}]`, nil, false, []string{""}},
		"the source itself, for a namespace": {
			`[{name: seed, target: {type: Source}, ` + garden + `}]`,
			[]string{"trellis: Role trellis-secrets in garden", "trellis-source: ClusterRole trellis-source everywhere"}, true, []string{"garden"},
		},
		"the source itself, for any namespace": {
			`[{name: seed, target: {type: Source}, namespaceSelector: {}}]`,
			[]string{"trellis-source: ClusterRole trellis-source everywhere"}, true, []string{""},
		},
		"one target, for a namespace": {
			`[{name: virtual, target: {type: Registration, namespace: other, name: r}, ` + garden + `}]`,
			[]string{"trellis: Role trellis-secrets in garden", "trellis: Role trellis-secrets in other"}, false, []string{"garden", "other"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			objects := render(t, "config: {classes: "+test.classes+"}")
			g.Expect(grants(t, objects)).To(ConsistOf(append(slices.Clone(always), test.more...)))

			second := false
			var secrets []string
			accounts := []string{"trellis"}
			for key, rules := range roles(t, objects) {
				if key == "ClusterRole trellis-source everywhere" {
					accounts = append(accounts, "trellis-source")
					continue // what it may do is the operator's business
				}
				for _, rule := range rules {
					if slices.Contains(rule.Resources, "secrets") {
						g.Expect(rule).To(Equal(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}), key)
						_, where, _ := strings.Cut(key, " in ")
						secrets = append(secrets, where)
					} else {
						g.Expect(key).NotTo(ContainSubstring("trellis-secrets"), "it is about Secrets only")
					}
					second = second || slices.Contains(rule.Resources, "serviceaccounts/token")
				}
			}
			g.Expect(second).To(Equal(test.second), "becomes the second identity")
			g.Expect(secrets).To(ConsistOf(test.secrets))

			for key := range objects {
				g.Expect(strings.HasPrefix(key, "ServiceAccount/") && !slices.Contains(accounts, strings.TrimPrefix(key, "ServiceAccount/"))).To(BeFalse(), key)
			}
			for _, account := range accounts {
				g.Expect(of[corev1.ServiceAccount](t, objects, "ServiceAccount/"+account).AutomountServiceAccountToken).To(Equal(ptr.To(false)), account)
			}
		})
	}
}

// roles are the rules of all roles, by kind, name and place.
func roles(t *testing.T, objects rendered) map[string][]rbacv1.PolicyRule {
	t.Helper()
	found := map[string][]rbacv1.PolicyRule{}
	for key, object := range objects {
		switch object.GetKind() {
		case "ClusterRole":
			found["ClusterRole "+object.GetName()+" everywhere"] = of[rbacv1.ClusterRole](t, objects, key).Rules
		case "Role":
			found["Role "+object.GetName()+" in "+object.GetNamespace()] = of[rbacv1.Role](t, objects, key).Rules
		}
	}
	return found
}

// grants are who gets which role where, by all bindings. Each role has to be bound, and each subject to be a service
// account of the release.
func grants(t *testing.T, objects rendered) []string {
	t.Helper()
	g := NewWithT(t)
	var found, bound []string
	for key, object := range objects {
		var ref rbacv1.RoleRef
		var subjects []rbacv1.Subject
		where := " everywhere"
		switch object.GetKind() {
		case "ClusterRoleBinding":
			binding := of[rbacv1.ClusterRoleBinding](t, objects, key)
			ref, subjects = binding.RoleRef, binding.Subjects
		case "RoleBinding":
			binding := of[rbacv1.RoleBinding](t, objects, key)
			ref, subjects, where = binding.RoleRef, binding.Subjects, " in "+object.GetNamespace()
		default:
			continue
		}
		role := ref.Kind + " " + ref.Name + where
		bound = append(bound, role)
		for _, subject := range subjects {
			g.Expect(fmt.Sprint(subject.Kind, subject.Namespace)).To(Equal("ServiceAccount"+release), key)
			found = append(found, subject.Name+": "+role)
		}
	}
	for role := range roles(t, objects) {
		g.Expect(bound).To(ContainElement(role))
	}
	return found
}

// TestOlderServersAreRefused: what confirms deletions is v1 since 1.30.
func TestOlderServersAreRefused(t *testing.T) {
	g := NewWithT(t)
	cli := helm.ForTest(t)
	_, err := cli.Run(t.Context(), "", "template", "trellis", cli.Chart(), "--kube-version", "1.29.9")
	g.Expect(err).To(MatchError(ContainSubstring("incompatible with Kubernetes v1.29.9")))
	_, err = cli.Run(t.Context(), "", "template", "trellis", cli.Chart(), "--kube-version", "1.30.0")
	g.Expect(err).NotTo(HaveOccurred())
}

// TestRightsOfControllersFollowTheClasses: what only some controllers need is granted where a class mentions them.
func TestRightsOfControllersFollowTheClasses(t *testing.T) {
	const class = `{name: "", target: {type: Namespace}, controllers: `
	for name, test := range map[string]struct {
		controllers string
		more        []rbacv1.PolicyRule
		guarded     bool
	}{
		"none":              {"{}", nil, false},
		"garbage collector": {"{garbageCollector: {enabled: true}}", nil, false},
		"network policies":  {"{networkPolicy: {enabled: true}}", nil, false},
		"nodes": {
			"{nodeCriticalComponents: {enabled: true}, nodeAgentReconciliationDelay: {enabled: true}}", nil, false,
		},
		"token requestor, off": {"{tokenRequestor: {enabled: false}}", []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"patch"}},
		}, true},
		"CSR approver": {"{csrApprover: {enabled: true}}", []rbacv1.PolicyRule{
			{APIGroups: []string{"machine.sapcloud.io"}, Resources: []string{"machines"}, Verbs: []string{"list", "get"}},
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			plain := render(t, "config: {classes: ["+class+"{}}]}")
			objects := render(t, "config: {classes: ["+class+test.controllers+"}]}")
			const role = "ClusterRole trellis everywhere"
			g.Expect(roles(t, objects)[role]).To(ConsistOf(append(slices.Clone(roles(t, plain)[role]), test.more...)))
			_, guarded := objects["ValidatingAdmissionPolicy/trellis-secret-writes"]
			g.Expect(guarded).To(Equal(test.guarded))
		})
	}
}

// TestRightsOfControllersInTheSource: where the source itself is the target, controllers have the rights of the second
// identity, which are the operator's business.
func TestRightsOfControllersInTheSource(t *testing.T) {
	const class = `{name: seed, target: {type: Source}, namespaceSelector: {}, controllers: `
	const all = `{garbageCollector: {enabled: true}, networkPolicy: {enabled: true}, nodeCriticalComponents: {enabled: ` +
		`true}, ` +
		`nodeAgentReconciliationDelay: {enabled: true}}`
	const rules = `, sourceIdentity: {rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]}`
	for name, values := range map[string]string{"everything": "", "what the operator says": rules} {
		t.Run(name, func(t *testing.T) {
			plain := render(t, "{config: {classes: ["+class+"{}}]}"+values+"}")
			objects := render(t, "{config: {classes: ["+class+all+"}]}"+values+"}")
			NewWithT(t).Expect(roles(t, objects)).To(Equal(roles(t, plain)))
		})
	}
}
