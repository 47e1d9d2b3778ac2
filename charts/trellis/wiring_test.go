package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/helm"
)

// monitor is what a ServiceMonitor and a PodMonitor have in common.
type monitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector            metav1.LabelSelector `json:"selector"`
		Endpoints           []endpoint           `json:"endpoints"`
		PodMetricsEndpoints []endpoint           `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

type endpoint struct {
	Port              string       `json:"port"`
	Relabelings       []relabeling `json:"relabelings"`
	MetricRelabelings []relabeling `json:"metricRelabelings"`
}

type relabeling struct {
	SourceLabels []string `json:"sourceLabels"`
	TargetLabel  string   `json:"targetLabel"`
	Action       string   `json:"action"`
	Regex        string   `json:"regex"`
	Replacement  string   `json:"replacement"`
}

// TestObjectsFindEachOther follows the labels and ports by which objects refer to others. Nobody refuses them if they are wrong:
// a budget, a policy or a scrape that finds nothing just does nothing.
func TestObjectsFindEachOther(t *testing.T) {
	g := NewWithT(t)
	objects := render(t, `{monitoring: {operator: {enabled: true}}}`)
	deployment := of[appsv1.Deployment](t, objects, "Deployment/trellis")
	service := of[corev1.Service](t, objects, "Service/trellis")
	policy := of[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy/trellis")
	budget := of[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget/trellis")
	scraped := of[monitor](t, objects, "ServiceMonitor/seed-trellis")
	pods := deployment.Spec.Template

	selectors := map[string]*metav1.LabelSelector{
		"the Deployment": deployment.Spec.Selector, "the PodDisruptionBudget": budget.Spec.Selector,
		"the NetworkPolicy": &policy.Spec.PodSelector, "the Service": {MatchLabels: service.Spec.Selector},
	}
	for _, constraint := range pods.Spec.TopologySpreadConstraints {
		selectors["the spread over "+constraint.TopologyKey] = constraint.LabelSelector
	}
	others := labels.Merge(pods.Labels, labels.Set{"app.kubernetes.io/instance": "other"})
	for name, selector := range selectors {
		matches, err := metav1.LabelSelectorAsSelector(selector)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(matches.Matches(labels.Set(pods.Labels))).To(BeTrue(), name)
		g.Expect(matches.Matches(others)).To(BeFalse(), "%s, of another release", name)
	}
	matches, err := metav1.LabelSelectorAsSelector(&scraped.Spec.Selector)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(matches.Matches(labels.Set(service.Labels))).To(BeTrue(), "the ServiceMonitor")

	// Ports by their names.
	var opened, served []string
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			opened = append(opened, port.Port.String())
		}
	}
	for _, port := range pods.Spec.Containers[0].Ports {
		served = append(served, port.Name)
	}
	g.Expect(opened).To(ConsistOf(served), "what is served, the policy lets in")
	g.Expect(service.Spec.Ports).To(ConsistOf(corev1.ServicePort{Name: "metrics", Port: 8080, TargetPort: intstr.FromString("metrics")}))
	g.Expect(scraped.Spec.Endpoints[0].Port).To(Equal("metrics"))

	byPod := of[monitor](t, render(t, `{monitoring: {operator: {enabled: true, monitor: PodMonitor}}}`), "PodMonitor/seed-trellis")
	matches, err = metav1.LabelSelectorAsSelector(&byPod.Spec.Selector)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(matches.Matches(labels.Set(pods.Labels))).To(BeTrue(), "the PodMonitor")
	g.Expect(byPod.Spec.PodMetricsEndpoints).To(Equal(scraped.Spec.Endpoints))
	for _, m := range []*monitor{scraped, byPod} {
		g.Expect(m.Labels).To(HaveKeyWithValue("prometheus", "seed"), "Gardener's Prometheus finds the %s", m.Kind)
	}
}

// TestWhatIsScraped looks at the name by which rules and dashboards ask, and at what is kept.
func TestWhatIsScraped(t *testing.T) {
	g := NewWithT(t)
	endpoint := of[monitor](t, render(t, `{monitoring: {operator: {enabled: true}}}`), "ServiceMonitor/seed-trellis").Spec.Endpoints[0]
	g.Expect(endpoint.Relabelings).To(ConsistOf(relabeling{TargetLabel: "job", Replacement: "trellis"}))
	g.Expect(endpoint.MetricRelabelings).To(HaveLen(1))
	keep := endpoint.MetricRelabelings[0]
	g.Expect(keep.Action).To(Equal("keep"))
	g.Expect(keep.SourceLabels).To(ConsistOf("__name__"))
	pattern := regexp.MustCompile("^(?:" + keep.Regex + ")$")
	for _, name := range []string{"trellis_build_info", "process_resident_memory_bytes", "go_goroutines", "rest_client_requests_total", "controller_runtime_reconcile_total"} {
		g.Expect(pattern.MatchString(name)).To(BeTrue(), name)
	}
	g.Expect(pattern.MatchString("workqueue_depth")).To(BeFalse())
}

func TestDashboardsAndRulesAreThoseOfTheFiles(t *testing.T) {
	g := NewWithT(t)
	objects := render(t, `{monitoring: {operator: {enabled: true}}}`)
	files, err := filepath.Glob("monitoring/dashboards/*.json")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		name := filepath.Base(file)
		dashboard := of[corev1.ConfigMap](t, objects, "ConfigMap/"+name[:len(name)-len(".json")]+"-dashboard")
		g.Expect(dashboard.Data[name]).To(MatchJSON(content), name)
		g.Expect(dashboard.Labels).To(And(HaveKeyWithValue("dashboard.monitoring.gardener.cloud/seed", "true"), HaveKeyWithValue("grafana_dashboard", "1")))
	}
	rules := map[string]any{}
	g.Expect(yaml.Unmarshal(chart.Rules(), &rules)).To(Succeed())
	g.Expect(mustJSON(g, objects["PrometheusRule/seed-trellis"].Object["spec"])).To(MatchJSON(mustJSON(g, rules)))
}

func TestOneHubAtATimeIsEvicted(t *testing.T) {
	g := NewWithT(t)
	spec := of[policyv1.PodDisruptionBudget](t, render(t, ""), "PodDisruptionBudget/trellis").Spec
	g.Expect(spec.MaxUnavailable).To(Equal(ptr.To(intstr.FromInt32(1))))
	g.Expect(spec.MinAvailable).To(BeNil())
	g.Expect(spec.UnhealthyPodEvictionPolicy).To(Equal(ptr.To(policyv1.AlwaysAllow)))
}

func TestNetworkPolicy(t *testing.T) {
	g := NewWithT(t)
	spec := of[networkingv1.NetworkPolicy](t, render(t, ""), "NetworkPolicy/trellis").Spec
	g.Expect(spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress))
	g.Expect(spec.Ingress).To(HaveLen(2))
	for _, rule := range spec.Ingress {
		g.Expect(rule.From).To(BeEmpty(), "from everywhere")
	}

	g.Expect(spec.Egress).To(HaveLen(2))
	port := func(number int32, protocol corev1.Protocol) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Port: ptr.To(intstr.FromInt32(number)), Protocol: &protocol}
	}
	g.Expect(spec.Egress[0]).To(Equal(networkingv1.NetworkPolicyEgressRule{Ports: []networkingv1.NetworkPolicyPort{
		port(53, corev1.ProtocolUDP), port(53, corev1.ProtocolTCP), port(8053, corev1.ProtocolUDP), port(8053, corev1.ProtocolTCP),
	}}))
	g.Expect(spec.Egress[1]).To(Equal(networkingv1.NetworkPolicyEgressRule{
		Ports: []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolTCP)}},
		To: []networkingv1.NetworkPolicyPeer{
			{NamespaceSelector: &metav1.LabelSelector{}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32"}}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: []string{"fe80::/10", "fd00:ec2::254/128"}}},
		},
	}))
}

// TestLabelsOfGardener are what its network policies and its resource manager go by.
func TestLabelsOfGardener(t *testing.T) {
	g := NewWithT(t)
	objects := render(t, `{monitoring: {operator: {enabled: true}}}`)
	g.Expect(objects["Deployment/trellis"].GetLabels()).To(HaveKeyWithValue("high-availability-config.resources.gardener.cloud/type", "server"))
	for _, name := range []string{
		"networking.gardener.cloud/to-dns", "networking.gardener.cloud/to-private-networks", "networking.gardener.cloud/to-public-networks",
		"networking.gardener.cloud/to-runtime-apiserver", "networking.resources.gardener.cloud/to-all-shoots-kube-apiserver-tcp-443",
		"networking.resources.gardener.cloud/to-garden-virtual-garden-kube-apiserver-tcp-443",
	} {
		g.Expect(pod(t, objects).Labels).To(HaveKeyWithValue(name, "allowed"))
	}

	const ports, namespaces, alias = "networking.resources.gardener.cloud/from-all-seed-scrape-targets-allowed-ports",
		"networking.resources.gardener.cloud/namespace-selectors", "networking.resources.gardener.cloud/pod-label-selector-namespace-alias"
	annotations := func(objects rendered) map[string]string { return objects["Service/trellis"].GetAnnotations() }
	g.Expect(annotations(objects)).To(HaveLen(3))
	g.Expect(annotations(objects)[ports]).To(MatchJSON(`[{"port":8080,"protocol":"TCP"}]`))
	g.Expect(annotations(objects)[namespaces]).To(MatchJSON(`[{"matchLabels":{"kubernetes.io/metadata.name":"garden"}}]`))
	g.Expect(annotations(objects)[alias]).To(Equal("extensions"))
	inGarden := renderIn(t, "garden", `{monitoring: {operator: {enabled: true}}}`)
	g.Expect(annotations(inGarden)).To(And(HaveLen(1), HaveKey(ports)))
	g.Expect(annotations(render(t, ""))).To(BeEmpty(), "without a Prometheus operator")
}

// TestNotesNameTheLabelOfTheNamespace: without it, Gardener's policies keep the hub from the API servers of shoots.
func TestNotesNameTheLabelOfTheNamespace(t *testing.T) {
	for name, test := range map[string]struct {
		namespace, values string
		named             bool
	}{
		"a namespace of its own": {release, "", true},
		"garden, which has it":   {"garden", "", false},
		"no Gardener":            {release, "{networkPolicy: {gardenerLabels: false}}", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cli := helm.ForTest(t)
			out, err := cli.Run(t.Context(), test.values, "install", "trellis", cli.Chart(), "--namespace", test.namespace, "--dry-run=client")
			g.Expect(err).NotTo(HaveOccurred())
			_, notes, _ := strings.Cut(out, "\nNOTES:\n")
			g.Expect(notes).To(ContainSubstring("kubectl -n " + test.namespace + " rollout status deployment trellis\n"))
			g.Expect(strings.Contains(notes, "kubectl label namespace "+test.namespace+" networking.gardener.cloud/access-target-apiserver=allowed\n")).To(Equal(test.named))
		})
	}
}

// TestEveryObjectSaysWhoseItIs looks at everything that the chart may install but CRDs, which are generated.
func TestEveryObjectSaysWhoseItIs(t *testing.T) {
	g := NewWithT(t)
	for key, object := range render(t, `{monitoring: {operator: {enabled: true}}, config: {classes: [{name: a, target: {type: Source}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: b}}}]}}`) {
		if key == targetClusterCRD {
			continue
		}
		g.Expect(object.GetLabels()).To(And(HaveKeyWithValue("app.kubernetes.io/name", "trellis"), HaveKeyWithValue("app.kubernetes.io/instance", "trellis"),
			HaveKeyWithValue("app.kubernetes.io/managed-by", "Helm")), key)
	}
}

// TestGuardIsWhatTheChartRenders holds what tests and the demo install against the templates.
func TestGuardIsWhatTheChartRenders(t *testing.T) {
	g := NewWithT(t)
	objects := render(t, "")
	for _, object := range chart.DeletionGuard() {
		key := object.GetObjectKind().GroupVersionKind().Kind + "/" + object.GetName()
		g.Expect(objects).To(HaveKey(key))
		installed := &unstructured.Unstructured{Object: asMap(g, object)}
		g.Expect(objects[key].GetAPIVersion()).To(Equal(installed.GetAPIVersion()))
		g.Expect(mustJSON(g, objects[key].Object["spec"])).To(MatchJSON(mustJSON(g, installed.Object["spec"])), key)
	}
}
