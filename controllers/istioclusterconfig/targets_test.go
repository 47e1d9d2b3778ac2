package istioclusterconfig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

func TestIST18_MC9_KindsOfIstioComeAndGo(t *testing.T) {
	b := prepared(t, alpha, beta)
	b.installIstio(alpha)
	b.removeIstio(beta)
	b.restart()
	sources := map[*site]string{}
	for _, s := range b.targets {
		sources[s] = b.namespace(s, "source")
		b.ingress(s, "gateways")
		b.service(s, sources[s], "svc", "*", "x=1")
	}
	gateways := b.prefix + "gateways"
	b.rule(alpha, sources[alpha], "rule", "svc", `"*"`, "")
	b.Eventually(b.patches(alpha, gateways, sources[alpha])).Should(HaveLen(1), "beta has no effect on it")

	for range 2 {
		b.installIstio(beta)
		b.rule(beta, sources[beta], "rule", "svc", `"*"`, "")
		b.Eventually(b.patches(beta, gateways, sources[beta])).Should(HaveLen(1))
		b.removeIstio(beta)
	}
	b.Expect(b.events.Events).NotTo(Receive(), "nothing is wrong")
	b.Expect(b.patches(alpha, gateways, sources[alpha])()).To(HaveLen(1))
}

func TestFiltersStayWithoutDestinationRules(t *testing.T) {
	b := start(t, beta)
	source, gateways := b.namespace(beta, "source"), b.ingress(beta, "gateways")
	b.service(beta, source, "svc", "*", "x=1")
	b.rule(beta, source, "rule", "svc", `"*"`, "")
	b.Eventually(b.patches(beta, gateways, source)).Should(HaveLen(1))
	served := func(is bool) {
		change(b, beta, b.istioCRDs()[0], func(crd *unstructured.Unstructured) {
			versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
			b.Expect(err).NotTo(HaveOccurred())
			for _, item := range versions {
				if version, _ := item.(map[string]any); version["name"] == "v1beta1" {
					version["served"] = is
				}
			}
			b.Expect(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")).To(Succeed())
		})
	}
	b.stop()
	served(false)
	t.Cleanup(func() { served(true) })
	rules := &metav1.PartialObjectMetadataList{}
	rules.SetGroupVersionKind(destinationRuleKind.GroupVersion().WithKind("DestinationRuleList"))
	b.Eventually(func() error { return beta.client.List(context.Background(), rules) }).ShouldNot(Succeed())
	b.restart()
	b.Eventually(b.runs("success")).Should(BeNumerically(">", 0))
	b.Consistently(b.patches(beta, gateways, source), "1s").Should(HaveLen(1))
	served(true)
	b.rule(beta, source, "rule-2", "svc", `"*"`, "")
	b.Eventually(b.patches(beta, gateways, source)).Should(HaveLen(2))
}

func TestTargetsAreApart(t *testing.T) {
	b := start(t, alpha, beta)
	source, gateways := b.prefix+"source", b.prefix+"gateways"
	for _, s := range b.targets {
		b.namespace(s, "source")
		b.ingress(s, "gateways")
		b.service(s, source, "svc", "*", "x=1")
		b.service(s, source, "other", "*", "x=1")
	}
	inAlpha := b.rule(alpha, source, "rule", "svc", `"*"`, "")
	b.rule(beta, source, "rule", "other", `"*"`, http("h2UpgradePolicy: UPGRADE"))
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal([]string{"1 svc plain"}))
	b.Eventually(b.patches(beta, gateways, source)).Should(Equal([]string{"1 other http2"}))
	before := b.filter(beta, gateways, source)
	b.delete(alpha, inAlpha)
	b.Eventually(b.patches(alpha, gateways, source)).Should(BeNil())
	b.Expect(b.filter(beta, gateways, source)).To(Equal(before))
}

func TestFilterThatWouldBeTooLarge(t *testing.T) {
	for name, few := range map[string]bounds{
		"patches": {rules: 100, patches: 4, bytes: 1 << 20, ingress: 100},
		"bytes":   {rules: 100, patches: 100, bytes: 2500, ingress: 100},
	} {
		t.Run(name, func(t *testing.T) {
			b := prepared(t, alpha)
			b.installIstio(alpha)
			b.bounds = few
			b.restart()
			source, other := b.namespace(alpha, "source"), b.namespace(alpha, "other")
			gateways, second := b.ingress(alpha, "gateways"), b.ingress(alpha, "second")
			b.service(alpha, source, "svc", "*", "grpc=1", "grpc-b=2")
			b.rule(alpha, source, "rule-0", "svc", `"*"`, "")
			b.rule(alpha, source, "rule-1", "svc", `"*"`, "")
			b.Eventually(b.patches(alpha, gateways, source)).Should(HaveLen(4))
			b.Eventually(b.patches(alpha, second, source)).Should(HaveLen(4))
			before := b.filter(alpha, gateways, source)
			third := b.rule(alpha, source, "rule-2", "svc", gateways, http("useClientProtocol: true"))
			b.Eventually(b.warnings(alpha, b.uid(alpha, source))).Should(ConsistOf(SatisfyAll(
				HavePrefix("ClusterConfigurationTooLarge: EnvoyFilters stay as they are"), HaveSuffix(": "+gateways))))
			b.Expect(b.filter(alpha, gateways, source)).To(Equal(before))

			b.service(alpha, other, "svc", "*", "x=1")
			b.rule(alpha, other, "rule", "svc", `"*"`, "")
			b.Eventually(b.patches(alpha, gateways, other)).Should(HaveLen(1), "others are not concerned")
			b.delete(alpha, ruleNamed(source, "rule-1"))
			b.Eventually(b.patches(alpha, second, source)).Should(HaveLen(2))
			b.Eventually(b.patches(alpha, gateways, source)).Should(HaveExactElements(
				"1 svc http2", "2 svc http2", "1 svc client", "2 svc client"))
			b.delete(alpha, third)
			b.Eventually(b.patches(alpha, gateways, source)).Should(HaveLen(2))
		})
	}
}

// uid is that of a namespace.
func (b *bench) uid(s *site, namespace string) types.UID {
	b.t.Helper()
	found := &corev1.Namespace{}
	b.Expect(s.client.Get(context.Background(), types.NamespacedName{Name: namespace}, found)).To(Succeed())
	return found.UID
}

func ruleNamed(namespace, name string) *unstructured.Unstructured {
	rule := &unstructured.Unstructured{}
	rule.SetGroupVersionKind(destinationRuleKind)
	rule.SetNamespace(namespace)
	rule.SetName(name)
	return rule
}

func TestRulesThatExceedBoundsAreLeftOut(t *testing.T) {
	b := start(t, alpha)
	source, gateways := b.namespace(alpha, "source"), b.ingress(alpha, "gateways")
	b.service(alpha, source, "svc", "*", "x=1")
	b.rule(alpha, source, "good", "svc", `"*"`, "")
	bad := b.rule(alpha, source, "bad", "svc", strings.Repeat("a, ", 100)+`"*"`, "")
	b.Eventually(b.warnings(alpha, bad.GetUID())).Should(ConsistOf(
		"InvalidClusterConfiguration: the rule is left out: spec.exportTo has 101 entries, more than 100"))
	b.Eventually(b.patches(alpha, gateways, source)).Should(HaveLen(1))
	long := b.service(alpha, source, "long", strings.Repeat("a,", 2049), "x=1")
	second := b.rule(alpha, source, "second", "long", `"*"`, "")
	b.Eventually(b.warnings(alpha, second.GetUID())).Should(ConsistOf("InvalidClusterConfiguration: the rule is left " +
		"out: Service " + source + "/long: annotation networking.istio.io/exportTo has 4098 bytes, more than 4096"))
	change(b, alpha, long, func(s *corev1.Service) { s.Annotations[AnnotationExportTo] = "*" })
	b.Eventually(b.patches(alpha, gateways, source)).Should(HaveLen(2))
}

func TestManyRulesOfANamespaceHaveItLeftAsItIs(t *testing.T) {
	b := prepared(t, alpha)
	b.installIstio(alpha)
	b.bounds = bounds{rules: 3, patches: 100, bytes: 1 << 20, ingress: 100}
	b.restart()
	source, gateways := b.namespace(alpha, "source"), b.ingress(alpha, "gateways")
	s := b.service(alpha, source, "svc", "*", "x=1")
	b.rule(alpha, source, "rule", "svc", `"*"`, "")
	b.Eventually(b.patches(alpha, gateways, source)).Should(HaveLen(1))
	for i := range 3 {
		b.rule(alpha, source, fmt.Sprintf("rule-%d", i), "unknown", `"*"`, "")
	}
	b.Eventually(b.warnings(alpha, b.uid(alpha, source))).Should(ConsistOf("ClusterConfigurationTooLarge: " +
		"EnvoyFilters stay as they are: there are 4 DestinationRules, more than 3"))
	change(b, alpha, s, func(s *corev1.Service) { s.Spec.Ports[0].Port = 2 })
	b.Consistently(b.patches(alpha, gateways, source), "500ms").Should(Equal([]string{"1 svc plain"}))
	b.delete(alpha, ruleNamed(source, "rule-0"))
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal([]string{"2 svc plain"}))
}

func TestManyIngressNamespacesHaveNothingWritten(t *testing.T) {
	b := prepared(t, alpha)
	b.installIstio(alpha)
	b.bounds = bounds{rules: 100, patches: 100, bytes: 1 << 20, ingress: 1}
	b.restart()
	source, gateways, second := b.namespace(alpha, "source"), b.ingress(alpha, "gateways"), b.ingress(alpha, "second")
	b.service(alpha, source, "svc", "*", "x=1")
	b.rule(alpha, source, "rule", "svc", gateways, "")
	b.Eventually(b.events.Events).Should(Receive(Equal("Warning TooManyIngressNamespaces no EnvoyFilters are " +
		"written or deleted: there are 2 namespaces with ingress gateways, more than 1")))
	b.Expect(b.patches(alpha, gateways, source)()).To(BeNil())
	change(b, alpha, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: second}}, func(n *corev1.Namespace) {
		n.Labels = nil
	})
	b.Eventually(b.patches(alpha, gateways, source)).Should(HaveLen(1), "though it has nothing to do with the other one")
}

func TestSourceThatIsGoneIsLeftToItsTarget(t *testing.T) {
	b := start(t, alpha)
	source, other, gateways := b.namespace(alpha, "source"), b.namespace(alpha, "other"), b.ingress(alpha, "gateways")
	for _, namespace := range []string{source, other} {
		b.service(alpha, namespace, "svc", "*", "x=1")
		b.rule(alpha, namespace, "rule", "svc", `"*"`, "")
		b.Eventually(b.patches(alpha, gateways, namespace)).Should(HaveLen(1))
	}
	// What is in it stays here, because nothing empties namespaces.
	gone := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: source}}
	b.delete(alpha, gone)
	b.Expect(alpha.client.Get(context.Background(), types.NamespacedName{Name: source}, gone)).To(Succeed())
	gone.Spec.Finalizers = nil
	b.Expect(alpha.client.SubResource("finalize").Update(context.Background(), gone)).To(Succeed())
	late := b.ingress(alpha, "late")
	b.Eventually(b.patches(alpha, late, other)).Should(HaveLen(1), "what came last in the watch of namespaces is done")
	b.delete(alpha, ruleNamed(source, "rule"))
	b.delete(alpha, ruleNamed(other, "rule"))
	b.Eventually(b.patches(alpha, gateways, other)).Should(BeNil())
	b.Expect(b.patches(alpha, gateways, source)()).To(HaveLen(1), "it stays")
	b.Expect(b.patches(alpha, late, source)()).To(BeNil(), "and no other one is made")
}

func TestRequiredOptions(t *testing.T) {
	_, err := New(Options{})
	NewWithT(t).Expect(err).To(MatchError("controller istio-cluster-configuration: a required option is missing"))
}

// limited is a registration of beta for an account with the rights that the page for operators names, and a function
// that gives them.
func (b *bench) limited() (*site, func()) {
	b.t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "istio-cluster-configuration.md"))
	b.Expect(err).NotTo(HaveOccurred())
	_, text, found := strings.Cut(string(page), "## Rights in the target\n\n```yaml\n")
	b.Expect(found).To(BeTrue())
	text, _, _ = strings.Cut(text, "```")
	role := &rbacv1.ClusterRole{}
	b.Expect(yaml.UnmarshalStrict([]byte(text), role)).To(Succeed())
	role.Name = b.prefix + role.Name
	rules := role.Rules
	role.Rules = slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "envoyfilters")
	})
	b.create(beta, role)
	user := b.prefix + "limited"
	b.create(beta, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	kubeconfig, err := beta.ClientCertKubeconfig(user, nil, time.Hour)
	b.Expect(err).NotTo(HaveOccurred())
	s := &site{ControlPlane: beta.ControlPlane, client: beta.client}
	s.key = clustercache.ClusterKey{Namespace: b.namespace(alpha, "home"), Name: "limited"}
	b.create(alpha, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.key.Namespace, Name: "limited-kubeconfig",
			Labels: map[string]string{hubv1alpha1.ClusterNameLabel: s.key.Name},
		},
		Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": kubeconfig},
	})
	return s, func() {
		change(b, beta, role, func(r *rbacv1.ClusterRole) { r.Rules = rules })
	}
}

func TestRightsInTheTarget(t *testing.T) {
	b := prepared(t, beta)
	b.installIstio(beta)
	limited, allow := b.limited()
	source, gateways := b.namespace(beta, "source"), b.ingress(beta, "gateways")
	foreign := b.istio(beta, envoyFilterKind, gateways, source+"-cluster-configuration", "{}")
	b.service(beta, source, "svc", "*", "x=1")
	rule := b.rule(beta, source, "rule", "svc", `"*"`, "")
	b.targets = []*site{limited}
	b.restart()
	var event string
	b.Eventually(b.events.Events).Should(Receive(&event))
	b.Expect(event).To(SatisfyAll(
		HavePrefix("Warning IstioWatchRefused no EnvoyFilters are written or deleted: "), ContainSubstring("forbidden")))
	allow()
	b.Eventually(b.warnings(beta, foreign.GetUID())).Should(HaveLen(1), "events may be written")
	b.delete(beta, foreign)
	b.Eventually(b.patches(beta, gateways, source)).Should(Equal([]string{"1 svc plain"}))
	change(b, beta, rule, func(r *unstructured.Unstructured) {
		b.Expect(unstructured.SetNestedField(r.Object, true,
			"spec", "trafficPolicy", "connectionPool", "http", "useClientProtocol")).To(Succeed())
	})
	b.Eventually(b.patches(beta, gateways, source)).Should(Equal([]string{"1 svc client"}))
	b.delete(beta, rule)
	b.Eventually(b.patches(beta, gateways, source)).Should(BeNil())
}
