package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
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

// TestObjectsFindEachOther follows the labels and ports by which objects refer to others. Kubernetes does not refuse
// wrong ones: a budget, a policy or a scrape that matches nothing has no effect.
func TestObjectsFindEachOther(t *testing.T) {
	g := NewWithT(t)
	objects := render(t, `{monitoring: {operator: {enabled: true}}}`)
	deployment := of[appsv1.Deployment](t, objects, "Deployment/trellis")
	service := of[corev1.Service](t, objects, "Service/trellis")
	policy := of[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy/trellis")
	budget := of[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget/trellis")
	scraped := of[monitor](t, objects, "ServiceMonitor/trellis")
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

	objects = render(t, `{monitoring: {operator: {enabled: true, monitor: PodMonitor}}}`)
	byPod := of[monitor](t, objects, "PodMonitor/trellis")
	matches, err = metav1.LabelSelectorAsSelector(&byPod.Spec.Selector)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(matches.Matches(labels.Set(pods.Labels))).To(BeTrue(), "the PodMonitor")
	g.Expect(byPod.Spec.PodMetricsEndpoints).To(Equal(scraped.Spec.Endpoints))
	for _, m := range []*monitor{scraped, byPod} {
		g.Expect(m.Labels).NotTo(HaveKey("prometheus"), "the %s of no Prometheus in particular", m.Kind)
	}
}

// TestWhatIsScraped looks at the name by which rules and dashboards ask, and at what is kept.
func TestWhatIsScraped(t *testing.T) {
	g := NewWithT(t)
	objects := render(t, `{monitoring: {operator: {enabled: true}}}`)
	endpoint := of[monitor](t, objects, "ServiceMonitor/trellis").Spec.Endpoints[0]
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
		g.Expect(dashboard.Labels).To(HaveKeyWithValue("grafana_dashboard", "1"))
	}
	rules := map[string]any{}
	g.Expect(yaml.Unmarshal(chart.Rules(), &rules)).To(Succeed())
	g.Expect(mustJSON(g, objects["PrometheusRule/trellis"].Object["spec"])).To(MatchJSON(mustJSON(g, rules)))
}

// alertsOf are the alerts of a rendered PrometheusRule, by their names.
func alertsOf(g *WithT, objects rendered, name string) map[string]alertRule {
	var spec struct {
		Groups []struct {
			Rules []alertRule `json:"rules"`
		} `json:"groups"`
	}
	g.Expect(yaml.Unmarshal([]byte(mustJSON(g, objects["PrometheusRule/"+name].Object["spec"])), &spec)).To(Succeed())
	alerts := map[string]alertRule{}
	for _, group := range spec.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				alerts[rule.Alert] = rule
			}
		}
	}
	return alerts
}

type alertRule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func TestAlertsAreNamedAsTheValuesSay(t *testing.T) {
	g := NewWithT(t)
	objects := render(t, `{monitoring: {operator: {enabled: true}, job: hub-a, clusterLabel: seed, alerts: {
		labels: {team: platform}, severities: {critical: page, warning: ticket}, severityOf: {TrellisDriftSlow: info},
		disabled: [TrellisContested], runbookURL: "https://wiki.example.org/trellis/",
		grafanaURL: "https://grafana.example.org"}}}`)
	alerts := alertsOf(g, objects, "trellis")
	down := alerts["TrellisTargetDown"]
	g.Expect(down.Expr).To(Equal(`target:trellis_target_up:max{job="hub-a"} == 0`))
	g.Expect(down.Labels).To(And(HaveLen(3), HaveKeyWithValue("severity", "page"), HaveKeyWithValue("team", "platform"),
		HaveKeyWithValue("namespace", ContainSubstring("$labels.target"))))
	g.Expect(down.Annotations).To(HaveKeyWithValue("runbook_url", "https://wiki.example.org/trellis/trellistargetdown"))
	g.Expect(down.Annotations["dashboard_url"]).To(HavePrefix("https://grafana.example.org/d/trellis-target?"))
	g.Expect(alerts["TrellisTargetFlapping"].Expr).To(HavePrefix("max by (seed, job, target) ("))
	g.Expect(alerts["TrellisTargetFlapping"].Labels).To(HaveKeyWithValue("severity", "ticket"))
	g.Expect(alerts["TrellisDriftSlow"].Labels).To(HaveKeyWithValue("severity", "info"))
	g.Expect(alerts["TrellisConfigRestartNeeded"].Labels).To(HaveKeyWithValue("severity", "info"), "as it was")
	g.Expect(alerts).NotTo(HaveKey("TrellisContested"))
	endpoint := of[monitor](t, objects, "ServiceMonitor/trellis").Spec.Endpoints[0]
	g.Expect(endpoint.Relabelings).To(ConsistOf(relabeling{TargetLabel: "job", Replacement: "hub-a"}))
	dashboard := of[corev1.ConfigMap](t, objects, "ConfigMap/trellis-fleet-dashboard").Data["trellis-fleet.json"]
	g.Expect(dashboard).To(And(ContainSubstring(`seed=~\"$cluster\"`),
		ContainSubstring("label_values(trellis_build_info, seed)"), Not(ContainSubstring("cluster=~"))))
}

// TestAlertsOfASeed are routed by Gardener's Alertmanager, and its Plutono reads the dashboards.
func TestAlertsOfASeed(t *testing.T) {
	g := NewWithT(t)
	objects := render(t, gardenerWith(t, "monitoring: {operator: {enabled: true}}"))
	for name, alert := range alertsOf(g, objects, "seed-trellis") {
		g.Expect(alert.Labels).To(And(HaveKeyWithValue("type", "seed"), HaveKeyWithValue("service", "trellis"),
			HaveKeyWithValue("visibility", "operator")), name)
		g.Expect(alert.Labels["severity"]).To(BeElementOf("blocker", "critical", "warning", "info"), name)
	}
	g.Expect(alertsOf(g, objects, "seed-trellis")["TrellisHubDown"].Labels).To(HaveKeyWithValue("severity", "blocker"))
	dashboard := of[corev1.ConfigMap](t, objects, "ConfigMap/trellis-fleet-dashboard")
	g.Expect(dashboard.Labels).To(HaveKeyWithValue("dashboard.monitoring.gardener.cloud/seed", "true"))
	g.Expect(dashboard.Labels).NotTo(HaveKey("grafana_dashboard"))
	g.Expect(dashboard.Data["trellis-fleet.json"]).To(ContainSubstring(`"schemaVersion": 27`))
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
	values := gardenerWith(t, "monitoring: {operator: {enabled: true}}")
	objects := render(t, values)
	g.Expect(pod(t, objects).Spec.PriorityClassName).To(Equal("gardener-system-critical"))
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		g.Expect(objects[kind+"/seed-trellis"].GetLabels()).To(HaveKeyWithValue("prometheus", "seed"), kind)
	}
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
	inGarden := renderIn(t, "garden", values)
	g.Expect(annotations(inGarden)).To(And(HaveLen(1), HaveKey(ports)))
	g.Expect(annotations(render(t, "{gardener: {enabled: true}}"))).To(BeEmpty(), "without a Prometheus operator")
}

// TestNothingOfGardenerIsADefault looks through all that is installed by default for what only a seed of Gardener
// knows. Groups of APIs and the names that the compatibility with its resource manager needs are not labels or
// annotations.
func TestNothingOfGardenerIsADefault(t *testing.T) {
	g := NewWithT(t)
	const values = `{monitoring: {operator: {enabled: true}}, config: {server: {webhooks: {enabled: true}}}}`
	for key, object := range render(t, values) {
		if object.GetKind() == "CustomResourceDefinition" {
			continue
		}
		all := []map[string]string{object.GetLabels(), object.GetAnnotations()}
		for _, kind := range []string{"labels", "annotations"} {
			of, _, err := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", kind)
			g.Expect(err).NotTo(HaveOccurred())
			all = append(all, of)
		}
		for _, of := range all {
			for name := range of {
				if name != "webhooks.hub.gardener.cloud/exclude" { // the hub's own
					g.Expect(name).NotTo(ContainSubstring("gardener.cloud"), key)
				}
			}
		}
		g.Expect(object.GetName()).NotTo(HavePrefix("seed-"), key)
	}
	g.Expect(pod(t, render(t, values)).Spec.PriorityClassName).To(BeEmpty())
}

// TestAnotherNameIsThatOfAllObjects, so that another release may have the default names: Helm would refuse an object
// that kept its own.
func TestAnotherNameIsThatOfAllObjects(t *testing.T) {
	g := NewWithT(t)
	const values = `{monitoring: {operator: {enabled: true}}, config: {
		server: {webhooks: {enabled: true}, metricsAuthentication: {enabled: true}},
		classes: [{name: a, target: {type: Source}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: b}},
			controllers: {tokenRequestor: {}}}]}`
	first := render(t, values+"}")
	second := render(t, values+", fullnameOverride: other, nameOverride: hub}")
	for key := range second {
		if !strings.HasPrefix(key, "CustomResourceDefinition/") {
			g.Expect(first).NotTo(HaveKey(key))
		}
	}
	g.Expect(second).To(HaveLen(len(first)))
	deployment := of[appsv1.Deployment](t, second, "Deployment/other")
	g.Expect(deployment.Spec.Selector.MatchLabels).To(HaveKeyWithValue("app.kubernetes.io/name", "hub"))
	g.Expect(deployment.Spec.Template.Spec.ServiceAccountName).To(Equal("other"))
	mounted := deployment.Spec.Template.Spec.Volumes[0].ConfigMap.Name
	hub, err := configv1alpha1.Load([]byte(of[corev1.ConfigMap](t, second, "ConfigMap/"+mounted).Data["config.yaml"]))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(hub.LeaderElection.ResourceName).To(Equal("other"))
	g.Expect(hub.SourceIdentity.ServiceAccount.Name).To(Equal("other-source"))
	g.Expect(hub.Server.Webhooks.ClientConfig.URL).To(Equal("https://other-webhooks." + release + ".svc"))
	g.Expect(hub.Server.Webhooks.Certificates.SecretName).To(Equal("other-webhooks"))
	rights := of[rbacv1.Role](t, second, "Role/other").Rules
	g.Expect(rights).To(ContainElements(HaveField("ResourceNames", ConsistOf("other", "other-heartbeat")),
		HaveField("ResourceNames", ConsistOf("other-source")), HaveField("ResourceNames", ConsistOf("other-webhooks"))))
	policy := second["ValidatingAdmissionPolicy/other-secret-writes"]
	g.Expect(mustJSON(g, policy.Object)).To(And(
		ContainSubstring("system:serviceaccount:"+release+":other'"), ContainSubstring("'other-webhooks'")))
}

// TestNotesSayWhatToDoNext looks for the commands that follow an installation. Without the label of the namespace,
// Gardener's policies keep the hub from the API servers of shoots.
func TestNotesSayWhatToDoNext(t *testing.T) {
	const label, role = "networking.gardener.cloud/access-target-apiserver=allowed", "--clusterrole trellis-metrics-reader"
	const monitoring = "--set monitoring.operator.enabled=true"
	for name, test := range map[string]struct {
		namespace, values string
		also              []string
	}{
		"no values":    {release, "", []string{monitoring}},
		"a seed":       {release, "{gardener: {enabled: true}}", []string{label, monitoring}},
		"in garden":    {"garden", "{gardener: {enabled: true}}", []string{monitoring}},
		"with metrics": {release, "{monitoring: {operator: {enabled: true}}}", nil},
		"authenticated": {release, "{config: {server: {metricsAuthentication: {enabled: true}}}}",
			[]string{role, monitoring}},
		"opt-in": {release, `{config: {clusterCache: {registrationSelector: {matchLabels: {a: "yes"}}}}}`,
			[]string{"matchLabels:", monitoring}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cli := helm.ForTest(t)
			out, err := cli.Run(t.Context(), test.values, "install", "trellis", cli.Chart(), "--namespace", test.namespace, "--dry-run=client")
			g.Expect(err).NotTo(HaveOccurred())
			_, notes, _ := strings.Cut(out, "\nNOTES:\n")
			for _, line := range []string{"with room for 200 targets", "trellisctl -n my-cluster cluster add",
				"trellisctl status", "kubectl -n " + test.namespace + " rollout status deployment trellis\n"} {
				g.Expect(notes).To(ContainSubstring(line))
			}
			for _, line := range []string{label, role, monitoring, "matchLabels:"} {
				g.Expect(strings.Contains(notes, line)).To(Equal(slices.Contains(test.also, line)), line)
			}
		})
	}
}

// TestEveryObjectSaysWhoseItIs looks at everything that the chart may install but CRDs, which are generated.
func TestEveryObjectSaysWhoseItIs(t *testing.T) {
	g := NewWithT(t)
	for key, object := range render(t, `{monitoring: {operator: {enabled: true}}, config: {classes: [{name: a, target: {type: Source}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: b}}}]}}`) {
		if object.GetKind() == "CustomResourceDefinition" {
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
