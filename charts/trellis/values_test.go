package chart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/helm"
)

// rendered is what Helm makes of the chart, by kind and name; of what is in another namespace than that of the release, by
// kind, namespace and name.
type rendered map[string]*unstructured.Unstructured

const (
	release            = "hub-namespace"
	managedResourceCRD = "CustomResourceDefinition/managedresources.resources.gardener.cloud"
	targetClusterCRD   = "CustomResourceDefinition/targetclusters.hub.gardener.cloud"
)

func render(t *testing.T, values string) rendered {
	t.Helper()
	return renderIn(t, release, values)
}

func renderIn(t *testing.T, namespace, values string) rendered {
	t.Helper()
	g := NewWithT(t)
	cli := helm.ForTest(t)
	out, err := cli.Run(t.Context(), values, "template", "trellis", cli.Chart(), "--namespace", namespace)
	g.Expect(err).NotTo(HaveOccurred())
	objects := rendered{}
	for document := range strings.SplitSeq(out, "\n---\n") {
		obj := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(document), &obj.Object)).To(Succeed(), "%s", document)
		if len(obj.Object) == 0 {
			continue
		}
		key := obj.GetKind() + "/" + obj.GetName()
		if ns := obj.GetNamespace(); ns != "" && ns != namespace {
			key = obj.GetKind() + "/" + ns + "/" + obj.GetName()
		}
		g.Expect(objects).NotTo(HaveKey(key), "twice")
		objects[key] = obj
	}
	return objects
}

// collects is how often the runtime of the hub collects its garbage, unless that is set.
var collects = corev1.EnvVar{Name: "GOGC", Value: "80"}

// hasMemoryLimit expects this memory limit in the environment of the hub, and beside it only the default of GOGC.
func hasMemoryLimit(value string) func(*testing.T, *WithT, rendered) {
	return func(t *testing.T, g *WithT, objects rendered) {
		t.Helper()
		hub := of[appsv1.Deployment](t, objects, "Deployment/trellis").Spec.Template.Spec.Containers[0]
		g.Expect(hub.Env).To(ConsistOf(collects, corev1.EnvVar{Name: "GOMEMLIMIT", Value: value}))
	}
}

// memory is how much of it is requested, or the limit of it.
func memory(list corev1.ResourceList) string {
	quantity := list[corev1.ResourceMemory]
	return quantity.String()
}

// of returns a rendered object as a typed one.
func of[T any](t *testing.T, objects rendered, key string) *T {
	t.Helper()
	g := NewWithT(t)
	g.Expect(objects).To(HaveKey(key))
	typed := new(T)
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[key].Object, typed, true)).To(Succeed())
	return typed
}

// config returns the configuration that the hub reads, as it understands it.
func config(t *testing.T, objects rendered) *configv1alpha1.HubConfiguration {
	t.Helper()
	config, err := configv1alpha1.Load([]byte(of[corev1.ConfigMap](t, objects, "ConfigMap/trellis").Data["config.yaml"]))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return config
}

func TestChartIsLinted(t *testing.T) {
	cli := helm.ForTest(t)
	_, err := cli.Run(t.Context(), "", "lint", "--strict", cli.Chart())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func TestNothingHasToBeSet(t *testing.T) {
	g := NewWithT(t)
	objects := render(t, "")
	g.Expect(config(t, objects).LeaderElection.ResourceNamespace).To(Equal(release))
	g.Expect(objects).To(And(HaveKey("PodDisruptionBudget/trellis"), HaveKey("NetworkPolicy/trellis"), HaveKey("ValidatingAdmissionPolicy/trellis-registration-deletion"),
		HaveKey("ConfigMap/trellis-fleet-dashboard"), Not(HaveKey("ServiceAccount/trellis-source")),
		Not(HaveKey("PrometheusRule/trellis"))))

	deployment := of[appsv1.Deployment](t, objects, "Deployment/trellis")
	g.Expect(*deployment.Spec.Replicas).To(BeEquivalentTo(2))
	pod := deployment.Spec.Template
	g.Expect(pod.Spec.PriorityClassName).To(BeEmpty())
	g.Expect(pod.Spec.TopologySpreadConstraints).To(HaveLen(2))
	container := pod.Spec.Containers[0]
	g.Expect(container.Image).To(MatchRegexp(`^ghcr\.io/trellis-hub/trellis:v\d+\.\d+\.\d+$`))
	g.Expect(container.Resources.Requests).To(And(HaveKey(corev1.ResourceCPU), HaveKey(corev1.ResourceMemory)))
	onlyMemory := And(HaveLen(1), HaveKey(corev1.ResourceMemory))
	g.Expect(container.Resources.Limits).To(onlyMemory, "a CPU limit would delay the hub")
	g.Expect(container.Env).To(ConsistOf(collects, corev1.EnvVar{Name: "GOMEMLIMIT", Value: "966367641"}))

	// As docs/explanation/security.md says.
	policy := of[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy/trellis").Spec
	g.Expect(policy.PodSelector.MatchLabels).To(Equal(deployment.Spec.Selector.MatchLabels))
	g.Expect(policy.Ingress).To(HaveLen(2), "scrapes and probes")
	g.Expect(policy.Egress).To(HaveLen(2), "names and TCP")
	g.Expect(policy.Egress[1].To[1].IPBlock.Except).To(ConsistOf("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32"))
	g.Expect(policy.Egress[1].To[2].IPBlock.Except).To(ConsistOf("fe80::/10", "fd00:ec2::254/128"))
	g.Expect(*pod.Spec.SecurityContext.RunAsNonRoot).To(BeTrue())
	g.Expect(pod.Spec.SecurityContext.SeccompProfile.Type).To(Equal(corev1.SeccompProfileTypeRuntimeDefault))
	g.Expect(*pod.Spec.AutomountServiceAccountToken).To(BeFalse())
	g.Expect(*container.SecurityContext.ReadOnlyRootFilesystem).To(BeTrue())
	g.Expect(container.SecurityContext.Capabilities.Drop).To(ConsistOf(corev1.Capability("ALL")))
}

// TestGoIdentityIsWhatTheChartRenders holds what tests and the demo install against the templates.
func TestGoIdentityIsWhatTheChartRenders(t *testing.T) {
	g := NewWithT(t)
	objects := render(t, `{config: {server: {webhooks: {enabled: true}, metricsAuthentication: {enabled: true}}, classes: [
		{name: "", target: {type: Namespace}, controllers: {tokenRequestor: {}, csrApprover: {}}},
		{name: seed, target: {type: Source}, namespaceSelector: {}}]}}`)
	for _, object := range append(chart.HubIdentity(release), chart.SourceIdentity(release)...) {
		key := object.GetObjectKind().GroupVersionKind().Kind + "/" + object.GetName()
		if ns := object.GetNamespace(); ns != "" && ns != release {
			key = object.GetObjectKind().GroupVersionKind().Kind + "/" + ns + "/" + object.GetName()
		}
		g.Expect(objects).To(HaveKey(key))
		for _, part := range []string{"rules", "roleRef", "subjects"} {
			g.Expect(mustJSON(g, objects[key].Object[part])).To(MatchJSON(mustJSON(g, asMap(g, object)[part])), "%s of %s", part, key)
		}
	}
	g.Expect(mustJSON(g, objects[targetClusterCRD].Object["spec"])).To(MatchJSON(mustJSON(g, chart.TargetClusterCRD().Spec)))
}

func TestValues(t *testing.T) {
	deployment := func(t *testing.T, objects rendered) *appsv1.Deployment {
		return of[appsv1.Deployment](t, objects, "Deployment/trellis")
	}
	container := func(t *testing.T, objects rendered) corev1.Container {
		return deployment(t, objects).Spec.Template.Spec.Containers[0]
	}
	tests := map[string]struct {
		values string
		check  func(t *testing.T, g *WithT, objects rendered)
	}{
		"image from another registry": {`{image: {repository: "registry:5000/a/b", tag: v9, pullPolicy: Always, pullSecrets: [{name: s}]}}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(container(t, objects).Image).To(Equal("registry:5000/a/b:v9"))
			g.Expect(container(t, objects).ImagePullPolicy).To(Equal(corev1.PullAlways))
			g.Expect(deployment(t, objects).Spec.Template.Spec.ImagePullSecrets).To(ConsistOf(corev1.LocalObjectReference{Name: "s"}))
		}},
		"image by its digest": {`{image: {tag: v9, digest: "sha256:` + strings.Repeat("0", 64) + `"}}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(container(t, objects).Image).To(Equal("ghcr.io/trellis-hub/trellis:v9@sha256:" + strings.Repeat("0", 64)))
		}},
		"a priority class": {`{priorityClassName: high}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(deployment(t, objects).Spec.Template.Spec.PriorityClassName).To(Equal("high"))
		}},
		"ports": {`{config: {server: {metrics: {port: 1234}, healthProbes: {port: 1235}}}, gardener: {enabled: true},
			monitoring: {operator: {enabled: true}}}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(container(t, objects).Ports).To(ConsistOf(HaveField("ContainerPort", BeEquivalentTo(1234)), HaveField("ContainerPort", BeEquivalentTo(1235))))
			g.Expect(of[corev1.Service](t, objects, "Service/trellis").Annotations).To(HaveKeyWithValue(ContainSubstring("scrape-targets"), ContainSubstring(`"port":1234`)))
			g.Expect(config(t, objects).Server.Metrics.Port).To(BeEquivalentTo(1234))
		}},
		"another Lease": {`{config: {leaderElection: {resourceName: other, leaseDuration: 30s}}}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(of[rbacv1.Role](t, objects, "Role/trellis").Rules).To(ContainElement(HaveField("ResourceNames", ConsistOf("other", "other-heartbeat"))))
			g.Expect(config(t, objects).LeaderElection.ResourceNamespace).To(Equal(release), "beside what is set")
		}},
		"one hub that does not elect": {`{replicas: 1, config: {leaderElection: {leaderElect: false}}}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(deployment(t, objects).Spec.Strategy.Type).To(Equal(appsv1.RecreateDeploymentStrategyType))
		}},
		"a Source class": {`{config: {classes: [{name: seed, target: {type: Source}, namespaceSelector: {matchLabels: {a: b}}}]}, sourceIdentity: {rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]}}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(config(t, objects).SourceIdentity.ServiceAccount).To(Equal(configv1alpha1.ServiceAccount{Namespace: release, Name: "trellis-source"}))
			g.Expect(of[rbacv1.ClusterRole](t, objects, "ClusterRole/trellis-source").Rules).To(ConsistOf(HaveField("Resources", ConsistOf("configmaps"))))
			g.Expect(of[rbacv1.Role](t, objects, "Role/trellis").Rules).To(ContainElement(HaveField("Resources", ConsistOf("serviceaccounts/token"))))
		}},
		"no Source class": {``, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(of[rbacv1.Role](t, objects, "Role/trellis").Rules).NotTo(ContainElement(HaveField("Resources", ConsistOf("serviceaccounts/token"))))
		}},
		"webhooks": {`{config: {server: {webhooks: {enabled: true}}}}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(of[rbacv1.Role](t, objects, "Role/trellis").Rules).To(ContainElements(
				rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}},
				rbacv1.PolicyRule{
					APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"trellis-webhooks"},
					Verbs: []string{"get", "update"},
				}))
		}},
		"webhooks with Secrets of others": {`{config: {server: {webhooks: {enabled: true,
			clientAuthorities: {secretName: clients}, certificates: {externalSecretName: server},
		}}}}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(of[rbacv1.Role](t, objects, "Role/trellis").Rules).To(ContainElement(
				HaveField("ResourceNames", ConsistOf("trellis-webhooks", "server", "clients"))))
		}},
		"Machines for node agents": {`{config: {classes: [{name: a, target: {type: Namespace},
			webhooks: {nodeAgentAuthorizer: {}},
		}]}}`, func(_ *testing.T, g *WithT, objects rendered) {
			rules := mustJSON(g, objects["ClusterRole/trellis"].Object["rules"])
			g.Expect(rules).To(ContainSubstring("machine.sapcloud.io"))
		}},
		"no webhooks": {``, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(of[rbacv1.Role](t, objects, "Role/trellis").Rules).NotTo(ContainElement(
				HaveField("Resources", ConsistOf("secrets"))))
		}},
		"CRDs, without a cluster to look at": {``, func(_ *testing.T, g *WithT, objects rendered) {
			g.Expect(objects[targetClusterCRD].GetAnnotations()).To(HaveKeyWithValue("helm.sh/resource-policy", "keep"))
			g.Expect(objects[managedResourceCRD].GetAnnotations()).To(HaveKeyWithValue("helm.sh/resource-policy", "keep"))
		}},
		"CRDs, without a cluster to look at, for a seed": {`{gardener: {enabled: true}}`,
			func(_ *testing.T, g *WithT, objects rendered) {
				g.Expect(objects).To(HaveKey(targetClusterCRD))
				g.Expect(objects).NotTo(HaveKey(managedResourceCRD), "Gardener brings it")
			}},
		"both CRDs": {`{crds: {managedResources: Always}}`, func(_ *testing.T, g *WithT, objects rendered) {
			g.Expect(objects[managedResourceCRD].GetAnnotations()).To(HaveKeyWithValue("helm.sh/resource-policy", "keep"))
			g.Expect(mustJSON(g, objects[managedResourceCRD].Object["spec"])).To(MatchJSON(mustJSON(g, chart.ManagedResourceCRD().Spec)))
		}},
		"CRDs that go with the chart": {`{crds: {managedResources: Always, keep: false}}`, func(_ *testing.T, g *WithT, objects rendered) {
			for _, key := range []string{managedResourceCRD, targetClusterCRD} {
				g.Expect(objects[key].GetAnnotations()).NotTo(HaveKey("helm.sh/resource-policy"))
			}
		}},
		"CRDs that others install": {`{crds: {targetClusters: false, managedResources: Never}}`, func(_ *testing.T, g *WithT, objects rendered) {
			g.Expect(objects).NotTo(Or(HaveKey(targetClusterCRD), HaveKey(managedResourceCRD)))
		}},
		"as little as it goes": {`{podDisruptionBudget: {enabled: false}, networkPolicy: {enabled: false},
			deletionGuard: {enabled: false}, monitoring: {dashboards: {enabled: false}}}`,
			func(t *testing.T, g *WithT, objects rendered) {
				for key := range objects {
					g.Expect(key).NotTo(Or(HavePrefix("PodDisruptionBudget"), HavePrefix("NetworkPolicy"),
						HavePrefix("Validating"), HaveSuffix("dashboard")))
				}
				g.Expect(deployment(t, objects).Spec.Template.Labels).To(And(HaveLen(4),
					HaveKeyWithValue("webhooks.hub.gardener.cloud/exclude", "true")))
			}},
		"where pods go": {`{nodeSelector: {a: b}, tolerations: [{key: c}], affinity: {nodeAffinity: {}}, topologySpreadConstraints: [{topologyKey: rack, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, func(t *testing.T, g *WithT, objects rendered) {
			spec := deployment(t, objects).Spec.Template.Spec
			g.Expect(spec.NodeSelector).To(HaveKeyWithValue("a", "b"))
			g.Expect(spec.Tolerations).To(HaveLen(1))
			g.Expect(spec.Affinity.NodeAffinity).NotTo(BeNil())
			g.Expect(spec.TopologySpreadConstraints).To(ConsistOf(HaveField("TopologyKey", "rack")))
		}},
		"more of a pod": {`{podLabels: {a: b}, podAnnotations: {c: d}, env: [{name: HTTPS_PROXY, value: p}], resources: {limits: {memory: 1Gi}}}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(deployment(t, objects).Spec.Template.Labels).To(HaveKeyWithValue("a", "b"))
			g.Expect(deployment(t, objects).Spec.Template.Annotations).To(And(HaveKeyWithValue("c", "d"), HaveKey("checksum/config")))
			g.Expect(container(t, objects).Env).To(ConsistOf(collects,
				corev1.EnvVar{Name: "GOMEMLIMIT", Value: "966367641"}, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "p"}))
			g.Expect(container(t, objects).Resources.Limits).To(HaveKey(corev1.ResourceMemory))
			g.Expect(container(t, objects).Resources.Requests).To(HaveKey(corev1.ResourceCPU), "beside what is set")
		}},
		"a memory limit of megabytes": {`{resources: {limits: {memory: 1500M}}}`, hasMemoryLimit("1350000000")},
		"a memory limit of bytes":     {`{resources: {limits: {memory: 2147483648}}}`, hasMemoryLimit("1932735283")},
		"memory of few targets": {`{targets: 1}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(memory(container(t, objects).Resources.Requests)).To(Equal("67Mi"))
			g.Expect(memory(container(t, objects).Resources.Limits)).To(Equal("1Gi"), "for hostile tenants")
		}},
		"memory of a thousand targets": {`{targets: 1000}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(memory(container(t, objects).Resources.Requests)).To(Equal("2250Mi"))
			g.Expect(memory(container(t, objects).Resources.Limits)).To(Equal("3113Mi"))
			hasMemoryLimit("2937795379")(t, g, objects)
		}},
		"memory that is named, whatever the number of targets": {
			`{targets: 1000, resources: {requests: {memory: 300Mi}, limits: {memory: 600Mi}}}`,
			func(t *testing.T, g *WithT, objects rendered) {
				g.Expect(memory(container(t, objects).Resources.Requests)).To(Equal("300Mi"))
				g.Expect(memory(container(t, objects).Resources.Limits)).To(Equal("600Mi"))
			}},
		"registrations that are opted in": {
			`{config: {clusterCache: {registrationSelector: {matchLabels: {example.com/hub: "yes"}}}}}`,
			func(t *testing.T, g *WithT, objects rendered) {
				g.Expect(config(t, objects).ClusterCache.RegistrationSelector.MatchLabels).
					To(HaveKeyWithValue("example.com/hub", "yes"))
			}},
		"more volumes": {`{extraVolumes: [{name: a, emptyDir: {}}],
			extraVolumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /b, readOnly: false}]}`,
			func(t *testing.T, g *WithT, objects rendered) {
				g.Expect(deployment(t, objects).Spec.Template.Spec.Volumes).To(ContainElement(HaveField("Name", "a")))
				g.Expect(container(t, objects).VolumeMounts).To(ContainElements(
					corev1.VolumeMount{Name: "a", MountPath: "/a", ReadOnly: true}, corev1.VolumeMount{Name: "a", MountPath: "/b"}))
			}},
		"certificate authorities of a ConfigMap": {`{customCA: {configMap: authorities}}`,
			func(t *testing.T, g *WithT, objects rendered) {
				g.Expect(container(t, objects).Env).
					To(ContainElement(corev1.EnvVar{Name: "SSL_CERT_DIR", Value: "/etc/trellis-ca"}))
				g.Expect(container(t, objects).VolumeMounts).
					To(ContainElement(corev1.VolumeMount{Name: "ca", MountPath: "/etc/trellis-ca", ReadOnly: true}))
				g.Expect(deployment(t, objects).Spec.Template.Spec.Volumes).
					To(ContainElement(HaveField("ConfigMap.Name", "authorities")))
			}},
		"certificate authorities of a Secret": {`{customCA: {secret: authorities}}`,
			func(t *testing.T, g *WithT, objects rendered) {
				g.Expect(deployment(t, objects).Spec.Template.Spec.Volumes).
					To(ContainElement(HaveField("Secret.SecretName", "authorities")))
			}},
		"annotations of the service account": {`{serviceAccount: {annotations: {a: b}}}`,
			func(_ *testing.T, g *WithT, objects rendered) {
				g.Expect(objects["ServiceAccount/trellis"].GetAnnotations()).To(HaveKeyWithValue("a", "b"))
			}},
		"metrics for those who may get them": {
			`{config: {server: {metricsAuthentication: {enabled: true}}}, monitoring: {operator: {enabled: true}}}`,
			func(t *testing.T, g *WithT, objects rendered) {
				g.Expect(config(t, objects).Server.MetricsAuthentication.Enabled).To(BeTrue())
				g.Expect(of[rbacv1.ClusterRole](t, objects, "ClusterRole/trellis").Rules).To(ContainElements(
					HaveField("Resources", ConsistOf("tokenreviews")), HaveField("Resources", ConsistOf("subjectaccessreviews"))))
				g.Expect(of[rbacv1.ClusterRole](t, objects, "ClusterRole/trellis-metrics-reader").Rules).
					To(ConsistOf(rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}))
				endpoints, _, _ := unstructured.NestedSlice(objects["ServiceMonitor/trellis"].Object, "spec", "endpoints")
				g.Expect(endpoints).To(ConsistOf(And(HaveKeyWithValue("scheme", "https"), HaveKey("bearerTokenFile"),
					HaveKeyWithValue("tlsConfig", HaveKeyWithValue("insecureSkipVerify", true)))))
			}},
		"no memory limit": {`{resources: {limits: {memory: null}}}`, func(t *testing.T, g *WithT, objects rendered) {
			g.Expect(container(t, objects).Env).To(ConsistOf(collects))
			g.Expect(container(t, objects).Resources.Limits).NotTo(HaveKey(corev1.ResourceMemory))
		}},
		"a memory limit of the runtime": {`{env: [{name: GOMEMLIMIT, value: 600MiB}]}`, hasMemoryLimit("600MiB")},
		"when garbage is collected": {`{env: [{name: GOGC, value: "200"}], resources: {limits: {memory: null}}}`,
			func(t *testing.T, g *WithT, objects rendered) {
				g.Expect(container(t, objects).Env).To(ConsistOf(corev1.EnvVar{Name: "GOGC", Value: "200"}))
			}},
		"what the hub reaches": {`{networkPolicy: {blockedCIDRs: [10.0.0.0/8, "fd00::/8"], metricsFrom: [{namespaceSelector: {matchLabels: {a: b}}}]}}`, func(t *testing.T, g *WithT, objects rendered) {
			spec := of[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy/trellis").Spec
			g.Expect(spec.Ingress[0].From).To(HaveLen(1))
			g.Expect(spec.Egress[1].To[1].IPBlock.Except).To(ConsistOf("10.0.0.0/8"))
			g.Expect(spec.Egress[1].To[2].IPBlock.Except).To(ConsistOf("fd00::/8"))
		}},
		"scraped by its Service": {`{monitoring: {operator: {enabled: true}}}`, func(_ *testing.T, g *WithT, objects rendered) {
			g.Expect(objects).To(And(HaveKey("ServiceMonitor/trellis"), HaveKey("PrometheusRule/trellis")))
			endpoints, _, _ := unstructured.NestedSlice(objects["ServiceMonitor/trellis"].Object, "spec", "endpoints")
			g.Expect(endpoints).To(HaveLen(1))
			g.Expect(objects["PrometheusRule/trellis"].GetLabels()).To(HaveLen(3), "its own, and none of a Prometheus")
		}},
		"scraped by its pods, without rules": {`{monitoring: {operator: {enabled: true, monitor: PodMonitor, rules: false}}}`, func(_ *testing.T, g *WithT, objects rendered) {
			g.Expect(objects).To(And(HaveKey("PodMonitor/trellis"), Not(HaveKey("PrometheusRule/trellis"))))
			endpoints, _, _ := unstructured.NestedSlice(objects["PodMonitor/trellis"].Object, "spec", "podMetricsEndpoints")
			g.Expect(endpoints).To(HaveLen(1))
		}},
		"dashboards with other labels": {`{monitoring: {dashboards: {labels: {a: b}}}}`, func(_ *testing.T, g *WithT, objects rendered) {
			g.Expect(objects["ConfigMap/trellis-fleet-dashboard"].GetLabels()).To(HaveKeyWithValue("a", "b"))
		}},
		"objects of one's own": {`{extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: mine, namespace: "{{ .Release.Namespace }}"}}]}`, func(_ *testing.T, g *WithT, objects rendered) {
			g.Expect(objects).To(HaveKey("ConfigMap/mine"))
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			objects := render(t, test.values)
			config(t, objects)
			test.check(t, NewWithT(t), objects)
		})
	}
}

// TestSecretsAreReadWhereTheClassesNeedThem holds the sum of the templates against that of the hub.
func TestSecretsAreReadWhereTheClassesNeedThem(t *testing.T) {
	const selected = `namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}`
	garden := fmt.Sprintf(selected, "garden")
	tests := map[string]string{
		"all registrations":           `[{name: "", target: {type: Namespace}, ` + garden + `}]`,
		"one namespace":               `[{name: a, target: {type: Source}, ` + garden + `}]`,
		"several, and a registration": `[{name: a, target: {type: Registration, namespace: z, name: r}, namespaceSelector: {matchExpressions: [{key: x, operator: Exists}, {key: kubernetes.io/metadata.name, operator: In, values: [b, a]}]}}, {name: b, target: {type: Source}, ` + garden + `}]`,
		"one that is not listed":      `[{name: a, target: {type: Source}, ` + garden + `}, {name: b, target: {type: Source}, namespaceSelector: {matchLabels: {a: b}}}]`,
		"all but one":                 `[{name: a, target: {type: Source}, namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [b]}]}}]`,
		"everywhere":                  `[{name: a, target: {type: Source}, namespaceSelector: {}}]`,
	}
	for name, classes := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			objects := render(t, "config: {classes: "+classes+"}")
			needed := configv1alpha1.SecretNamespaces(config(t, objects).Classes)
			var everywhere bool
			for _, rule := range of[rbacv1.ClusterRole](t, objects, "ClusterRole/trellis").Rules {
				for _, resource := range rule.Resources {
					everywhere = everywhere || resource == "secrets"
				}
			}
			g.Expect(everywhere).To(Equal(needed == nil))
			var granted []string
			for key, object := range objects {
				if object.GetName() == "trellis-secrets" && strings.HasPrefix(key, "RoleBinding/") {
					granted = append(granted, object.GetNamespace())
					g.Expect(of[rbacv1.RoleBinding](t, objects, key).Subjects).To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: release, Name: "trellis"}))
				}
			}
			g.Expect(granted).To(ConsistOf(needed))
		})
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	tests := map[string]struct{ values, says string }{
		"an unknown key": {`{replica: 3}`, "additional properties 'replica' not allowed"},
		"an unknown key, below": {`{image: {registry: a}}`,
			"'/image': additional properties 'registry' not allowed"},
		"a number as text":                    {`{replicas: "2"}`, "'/replicas': got string, want integer"},
		"fewer than no replicas":              {`{replicas: -1}`, "'/replicas': minimum"},
		"a tag in the repository":             {`{image: {repository: "a/b:v1"}}`, "'/image/repository'"},
		"a tag that is none":                  {`{image: {tag: "v1 beta"}}`, "'/image/tag'"},
		"a digest that is none":               {`{image: {digest: "sha256:0123"}}`, "'/image/digest'"},
		"a policy that there is not":          {`{image: {pullPolicy: Sometimes}}`, "'/image/pullPolicy': value must be one of"},
		"a block that is none":                {`{networkPolicy: {blockedCIDRs: [metadata]}}`, "'/networkPolicy/blockedCIDRs/0'"},
		"a monitor that there is not":         {`{monitoring: {operator: {monitor: Probe}}}`, "'/monitoring/operator/monitor': value must be one of"},
		"a key that the hub does not know":    {`{config: {logLevle: debug}}`, "'/config': additional properties 'logLevle' not allowed"},
		"a level that the hub does not know":  {`{config: {logLevel: loud}}`, "'/config/logLevel': value must be one of 'debug', 'info', 'error'"},
		"no classes":                          {`{config: {classes: []}}`, "'/config/classes'"},
		"a way with CRDs that there is not":   {`{crds: {managedResources: Sometimes}}`, "'/crds/managedResources': value must be one of 'IfAbsent', 'Always', 'Never'"},
		"a class without a target":            {`{config: {classes: [{name: a}]}}`, "missing property 'target'"},
		"a target that there is not":          {`{config: {classes: [{name: a, target: {type: Shoot}}]}}`, "'/config/classes/0/target/type': value must be one of"},
		"a Source class for whomever":         {`{config: {classes: [{name: a, target: {type: Source}}]}}`, "missing property 'namespaceSelector'"},
		"a Registration without its name":     {`{config: {classes: [{name: a, target: {type: Registration, namespace: b}, namespaceSelector: {}}]}}`, "missing property 'name'"},
		"a duration without a unit":           {`{config: {controllers: {managedResource: {syncPeriod: "10"}}}}`, "'/config/controllers/managedResource/syncPeriod'"},
		"a port that is none":                 {`{config: {server: {metrics: {port: 70000}}}}`, "'/config/server/metrics/port': maximum"},
		"what the chart sets: the namespace":  {`{config: {leaderElection: {resourceNamespace: a}}}`, "additional properties 'resourceNamespace' not allowed"},
		"what the chart sets: who it is":      {`{config: {sourceIdentity: {}}}`, "additional properties 'sourceIdentity' not allowed"},
		"no room at all":                      {`{targets: 0}`, "'/targets': minimum"},
		"a name that is none":                 {`{fullnameOverride: "A b"}`, "'/fullnameOverride'"},
		"two hubs that do not elect a leader": {`{config: {leaderElection: {leaderElect: false}}}`, "2 replicas would write at the same time; it needs replicas: 1"},
		"authorities of two kinds": {`{customCA: {configMap: a, secret: b}}`,
			"customCA: name a ConfigMap or a Secret"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cli := helm.ForTest(t)
			_, err := cli.Run(t.Context(), test.values, "template", "trellis", cli.Chart(), "--namespace", release)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.says)))
		})
	}
}

// TestSchemaKnowsTheWholeConfiguration renders every key of the example, less what the chart sets itself.
func TestSchemaKnowsTheWholeConfiguration(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile("../../docs/reference/config/example.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var example map[string]any
	g.Expect(yaml.Unmarshal(content, &example)).To(Succeed())
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"sourceIdentity"}, {"leaderElection", "resourceNamespace"}, {"sourceClientConnection", "kubeconfig"}} {
		unstructured.RemoveNestedField(example, path...)
	}
	objects := render(t, mustJSON(g, map[string]any{"config": example}))
	want, err := configv1alpha1.Load(content)
	g.Expect(err).NotTo(HaveOccurred())
	got := config(t, objects)
	g.Expect(got.Classes).To(Equal(want.Classes))
	g.Expect(got.Controllers).To(Equal(want.Controllers))
	g.Expect(got.ClusterCache).To(Equal(want.ClusterCache))
}

func mustJSON(g *WithT, value any) string {
	out, err := json.Marshal(value)
	g.Expect(err).NotTo(HaveOccurred())
	return string(out)
}

func asMap(g *WithT, object client.Object) map[string]any {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	g.Expect(err).NotTo(HaveOccurred())
	return out
}
