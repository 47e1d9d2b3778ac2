package care

import (
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// system are the labels that Gardener gives the namespace.
var system = labels.Set{"kubernetes.io/metadata.name": "kube-system", "gardener.cloud/purpose": "kube-system"}

func notIn(key string, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values},
	}}
}

func in(key string, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values},
	}}
}

func TestCARE_WebhooksAreJudged(t *testing.T) {
	of := func(group, version, resource string) hook {
		return hook{name: "h", rules: []admissionregistrationv1.RuleWithOperations{rule(group, version, resource)}}
	}
	with := func(h hook, change func(*hook)) hook {
		change(&h)
		return h
	}
	operations := func(h hook, o ...admissionregistrationv1.OperationType) hook {
		h.rules[0].Operations = o
		return h
	}
	within := func(h hook, s *metav1.LabelSelector) hook { return with(h, func(h *hook) { h.namespaceSelector = s }) }
	objects := func(h hook, s *metav1.LabelSelector) hook { return with(h, func(h *hook) { h.objectSelector = s }) }
	scope := func(h hook, s admissionregistrationv1.ScopeType) hook {
		h.rules[0].Scope = &s
		return h
	}
	exact := func(h hook) hook {
		return with(h, func(h *hook) { h.matchPolicy = ptr.To(admissionregistrationv1.Exact) })
	}
	ignored := func(h hook, timeout int32) hook {
		return with(h, func(h *hook) {
			h.failurePolicy, h.timeout = ptr.To(admissionregistrationv1.Ignore), &timeout
		})
	}
	fails := func(resource string, namespaces ...string) problem {
		return problem{fails: true, namespaces: namespaces, clusterScoped: len(namespaces) == 0, resource: resource}
	}
	const name = "kubernetes.io/metadata.name"
	tests := []struct {
		statement string
		hook      hook
		want      problem
	}{
		{"CARE-2 pods", of("", "v1", "pods"), fails("pods", "kube-system")},
		{"CARE-2 configmaps", of("", "v1", "configmaps"), fails("configmaps", "kube-system")},
		{"CARE-2 secrets", of("", "v1", "secrets"), fails("secrets", "kube-system")},
		{"CARE-2 serviceaccounts", of("", "v1", "serviceaccounts"), fails("serviceaccounts", "kube-system")},
		{"CARE-2 controllerrevisions", of("apps", "v1", "controllerrevisions"),
			fails("controllerrevisions", "kube-system")},
		{"CARE-2 daemonsets", of("apps", "v1", "daemonsets"), fails("daemonsets", "kube-system")},
		{"CARE-2 deployments", of("apps", "v1", "deployments"), fails("deployments", "kube-system")},
		{"CARE-2 replicasets", of("apps", "v1", "replicasets"), fails("replicasets", "kube-system")},
		{"CARE-2 networkpolicies", of("networking.k8s.io", "v1", "networkpolicies"),
			fails("networkpolicies", "kube-system")},
		{"CARE-2 roles", of("rbac.authorization.k8s.io", "v1", "roles"), fails("roles", "kube-system")},
		{"CARE-2 rolebindings", of("rbac.authorization.k8s.io", "v1", "rolebindings"),
			fails("rolebindings", "kube-system")},
		{"CARE-2 jobs", of("batch", "v1", "jobs"), problem{}},
		{"CARE-2 another group", of("example.org", "v1", "pods"), problem{}},
		{"CARE-2 failurePolicy Fail", with(of("", "v1", "pods"), func(h *hook) {
			h.failurePolicy = ptr.To(admissionregistrationv1.Fail)
		}), fails("pods", "kube-system")},
		{"CARE-2 failurePolicy Ignore", ignored(of("", "v1", "pods"), 10), problem{}},
		{"CARE-2 UPDATE", operations(of("", "v1", "pods"), "UPDATE"), fails("pods", "kube-system")},
		{"CARE-2 all operations", operations(of("", "v1", "pods"), "*"), fails("pods", "kube-system")},
		{"CARE-2 DELETE and CONNECT", operations(of("", "v1", "pods"), "DELETE", "CONNECT"), problem{}},
		{"CARE-2 in any namespace only", scope(of("", "v1", "pods"), "Namespaced"), fails("pods", "kube-system")},
		{"CARE-2 in no namespace", scope(of("", "v1", "pods"), "Cluster"), problem{}},
		{"CARE-2 another version", of("", "v2", "pods"), fails("pods", "kube-system")},
		{"CARE-2 exactly another version", exact(of("", "v2", "pods")), problem{}},
		{"CARE-2 exactly this version", exact(of("", "v1", "pods")), fails("pods", "kube-system")},
		{"CARE-2 no rule", hook{name: "h"}, problem{}},

		{"CARE-3 endpoints", of("", "v1", "endpoints"), fails("endpoints", "default", "kube-system")},
		{"CARE-3 services", of("", "v1", "services"), fails("services", "default", "kube-system")},
		{"CARE-3 services in default only", within(of("", "v1", "services"), in(name, "default")),
			fails("services", "default")},
		{"CARE-3 leases", within(of("coordination.k8s.io", "v1", "leases"), in(name, "kube-node-lease")),
			fails("leases", "kube-node-lease")},
		{"CARE-3 pods in default", within(of("", "v1", "pods"), in(name, "default")), problem{}},

		{"CARE-4 nodes", of("", "v1", "nodes"), fails("nodes")},
		{"CARE-4 clusterroles", of("rbac.authorization.k8s.io", "v1", "clusterroles"), fails("clusterroles")},
		{"CARE-4 clusterrolebindings", of("rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
			fails("clusterrolebindings")},
		{"CARE-4 customresourcedefinitions", of("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
			fails("customresourcedefinitions")},
		{"CARE-4 apiservices", of("apiregistration.k8s.io", "v1", "apiservices"), fails("apiservices")},
		{"CARE-4 certificatesigningrequests", of("certificates.k8s.io", "v1", "certificatesigningrequests"),
			fails("certificatesigningrequests")},
		{"CARE-4 priorityclasses", of("scheduling.k8s.io", "v1", "priorityclasses"), fails("priorityclasses")},
		{"CARE-4 a namespace selector does not matter", within(of("", "v1", "nodes"), notIn(name, "kube-system")),
			fails("nodes")},
		{"CARE-4 in a namespace only", scope(of("", "v1", "nodes"), "Namespaced"), problem{}},
		{"CARE-4 namespaces", of("", "v1", "namespaces"), fails("namespaces", "kube-system")},
		{"CARE-4 other namespaces", within(of("", "v1", "namespaces"), notIn(name, "kube-system")), problem{}},
		{"CARE-4 namespaces with labels", objects(of("", "v1", "namespaces"), in("gardener.cloud/purpose", "other")),
			problem{}},

		{"CARE-5 a subresource", of("", "v1", "pods/status"), fails("pods", "kube-system")},
		{"CARE-5 all subresources", of("apps", "v1", "deployments/*"), fails("deployments", "kube-system")},
		{"CARE-5 an approval", of("certificates.k8s.io", "v1", "certificatesigningrequests/approval"),
			fails("certificatesigningrequests")},
		{"CARE-5 another subresource", of("", "v1", "pods/eviction"), problem{}},

		{"CARE-6 a long timeout", ignored(of("", "v1", "nodes"), 16),
			problem{clusterScoped: true, resource: "nodes", timeout: 15}},
		{"CARE-6 15 seconds", ignored(of("", "v1", "nodes"), 15), problem{}},
		{"CARE-6 a long timeout for what is not vital", ignored(of("batch", "v1", "jobs"), 30), problem{}},
		{"CARE-7 leases", ignored(of("coordination.k8s.io", "v1", "leases"), 4),
			problem{namespaces: []string{"kube-node-lease", "kube-system"}, resource: "leases", timeout: 3}},
		{"CARE-7 3 seconds", ignored(of("coordination.k8s.io", "v1", "leases"), 3), problem{}},
		{"CARE-7 leases elsewhere", ignored(within(of("coordination.k8s.io", "v1", "leases"),
			notIn(name, "kube-system")), 10), problem{}},
		{"CARE-7 no timeout is 10 seconds", with(of("coordination.k8s.io", "v1", "leases"), func(h *hook) {
			h.failurePolicy = ptr.To(admissionregistrationv1.Ignore)
		}), problem{namespaces: []string{"kube-node-lease", "kube-system"}, resource: "leases", timeout: 3}},

		{"CARE-8 kube-system is excluded by name", within(of("", "v1", "pods"), notIn(name, "kube-system")), problem{}},
		{"CARE-8 kube-system is excluded by its purpose",
			within(of("", "v1", "pods"), notIn("gardener.cloud/purpose", "kube-system")), problem{}},
		{"CARE-8 another one is excluded", within(of("", "v1", "pods"), notIn(name, "monitoring")),
			fails("pods", "kube-system")},
		{"CARE-8 only labelled namespaces", within(of("", "v1", "pods"), in("inject", "true")), problem{}},
		{"CARE-8 an empty selector", within(of("", "v1", "pods"), &metav1.LabelSelector{}), fails("pods", "kube-system")},
		{"CARE-8 a selector that is none", within(of("", "v1", "pods"), &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}},
		}), problem{}},

		{"CARE-9 only objects that ask for it", objects(of("", "v1", "pods"), in("inject", "true")), problem{}},
		{"CARE-9 objects but for some", objects(of("", "v1", "pods"), notIn("inject", "false")),
			fails("pods", "kube-system")},
		{"CARE-9 objects of Gardener", objects(of("", "v1", "nodes"), in("origin", "gardener")), fails("nodes")},
	}
	for _, test := range tests {
		t.Run(test.statement, func(t *testing.T) {
			got := judge(test.hook, system)
			if got.none() {
				got = problem{}
			}
			NewWithT(t).Expect(got).To(Equal(test.want))
		})
	}
}

// A rule for everything is about all of it.
func TestCARE2_EverythingIsMeant(t *testing.T) {
	g := NewWithT(t)
	h := hook{rules: []admissionregistrationv1.RuleWithOperations{rule("*", "*", "*/*")}, timeout: ptr.To[int32](30)}
	p := judge(h, system)
	g.Expect(p.fails).To(BeTrue())
	g.Expect(p.clusterScoped).To(BeTrue())
	g.Expect(p.namespaces).To(Equal([]string{"default", "kube-node-lease", "kube-system"}))
	g.Expect(p.timeout).To(BeEquivalentTo(3))
}

// A namespace that lacks the label is not excluded by it, whatever Gardener would have.
func TestCARE8_LabelsAreThoseThatTheNamespaceHas(t *testing.T) {
	h := hook{
		rules:             []admissionregistrationv1.RuleWithOperations{rule("", "v1", "pods")},
		namespaceSelector: notIn("gardener.cloud/purpose", "kube-system"),
	}
	NewWithT(t).Expect(judge(h, labels.Set{"kubernetes.io/metadata.name": "kube-system"}).none()).To(BeFalse())
}

// What is changed of a webhook leaves nothing to be said against it.
func TestCARE22_RemediesHelp(t *testing.T) {
	for _, h := range []hook{
		{name: "all", rules: []admissionregistrationv1.RuleWithOperations{rule("*", "*", "*")}, timeout: ptr.To[int32](30)},
		{name: "pods", rules: []admissionregistrationv1.RuleWithOperations{rule("", "v1", "pods")}},
		{name: "nodes", rules: []admissionregistrationv1.RuleWithOperations{rule("", "v1", "nodes")}},
		{name: "services", rules: []admissionregistrationv1.RuleWithOperations{rule("", "v1", "services")},
			namespaceSelector: notIn("kubernetes.io/metadata.name", "kube-system")},
		{name: "leases", rules: []admissionregistrationv1.RuleWithOperations{rule("coordination.k8s.io", "v1", "leases")},
			failurePolicy: ptr.To(admissionregistrationv1.Ignore)},
	} {
		t.Run("CARE-22 "+h.name, func(t *testing.T) {
			g := NewWithT(t)
			before := judge(h, system)
			g.Expect(before.none()).To(BeFalse())
			r, changes := remedyFor(h, before)
			g.Expect(changes).NotTo(BeEmpty())
			if r.FailurePolicy != nil {
				h.failurePolicy = r.FailurePolicy
			}
			if r.TimeoutSeconds != nil {
				h.timeout = r.TimeoutSeconds
			}
			if r.NamespaceSelector != nil {
				h.namespaceSelector = &metav1.LabelSelector{MatchExpressions: r.NamespaceSelector.MatchExpressions}
			}
			g.Expect(judge(h, system).none()).To(BeTrue())
		})
	}
}
