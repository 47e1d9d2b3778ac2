package shoot20

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

var scheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types are compiled in
		}
	}
	return scheme
}()

// maker makes one object of a component.
type maker struct {
	author
	component
	suffix string
}

// make makes an object of the kind that the table of components names.
func (m maker) make(kind string) *unstructured.Unstructured {
	var object runtime.Object
	switch kind {
	case "namespace":
		object = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.suffix, Labels: m.labels()}}
	case "account":
		object = &corev1.ServiceAccount{ObjectMeta: m.meta(), AutomountServiceAccountToken: ptr.To(false)}
	case "clusterrole":
		object = &rbacv1.ClusterRole{ObjectMeta: m.clusterMeta(), Rules: m.rules(m.around(16))}
	case "clusterrolebinding":
		object = &rbacv1.ClusterRoleBinding{
			ObjectMeta: m.clusterMeta(), Subjects: m.subjects(),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: m.clusterMeta().Name},
		}
	case "role":
		object = &rbacv1.Role{ObjectMeta: m.meta(), Rules: m.rules(m.around(6))}
	case "rolebinding":
		object = &rbacv1.RoleBinding{
			ObjectMeta: m.meta(), Subjects: m.subjects(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: m.meta().Name},
		}
	case "config":
		object = &corev1.ConfigMap{ObjectMeta: m.meta(), Data: map[string]string{"config.yaml": m.config(m.around(3700))}}
	case "large":
		object = &corev1.ConfigMap{ObjectMeta: m.meta(), Data: map[string]string{m.app() + ".json": m.dashboard(m.around(18500))}}
	case "secret":
		object = m.secret()
	case "service":
		object = m.service()
	case "deployment":
		object = &appsv1.Deployment{ObjectMeta: m.meta(), Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(2)), RevisionHistoryLimit: ptr.To(int32(2)), Selector: m.selector(), Template: m.template(),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
			}},
		}}
	case "daemonset":
		object = &appsv1.DaemonSet{ObjectMeta: m.meta(), Spec: appsv1.DaemonSetSpec{
			RevisionHistoryLimit: ptr.To(int32(2)), Selector: m.selector(), Template: m.template(),
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{
				MaxUnavailable: ptr.To(intstr.FromString("100%")),
			}},
		}}
	case "statefulset":
		object = &appsv1.StatefulSet{ObjectMeta: m.meta(), Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(1)), ServiceName: m.meta().Name, Selector: m.selector(), Template: m.template(), PodManagementPolicy: appsv1.ParallelPodManagement,
		}}
	case "budget":
		object = &policyv1.PodDisruptionBudget{ObjectMeta: m.meta(), Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(1)), Selector: m.selector(), UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		}}
	case "policy":
		object = m.networkPolicy()
	case "priority":
		object = &schedulingv1.PriorityClass{
			ObjectMeta: m.clusterMeta(), Value: int32(m.IntN(1_000_000)), Description: "Components of the cluster that can " + m.pick(verbs) + " the " + m.term(" ") + ".",
		}
	case "quota":
		object = &corev1.ResourceQuota{ObjectMeta: m.meta(), Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("10k"), corev1.ResourcePods: resource.MustParse("5k")},
		}}
	case "limits":
		object = &corev1.LimitRange{ObjectMeta: m.meta(), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")},
		}}}}
	case "mutating":
		object = &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: m.clusterMeta(), Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: m.app() + ".hub.gardener.cloud", ClientConfig: m.webhook(), Rules: podRules, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"}, FailurePolicy: ptr.To(admissionregistrationv1.Ignore), ObjectSelector: nothing, TimeoutSeconds: ptr.To(int32(10)),
		}}}
	case "validating":
		object = &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: m.clusterMeta(), Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: m.app() + ".hub.gardener.cloud", ClientConfig: m.webhook(), Rules: podRules, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"}, FailurePolicy: ptr.To(admissionregistrationv1.Ignore), ObjectSelector: nothing, TimeoutSeconds: ptr.To(int32(10)),
		}}}
	case "driver":
		object = &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: m.app() + ".hub.gardener.cloud", Labels: m.labels()}, Spec: storagev1.CSIDriverSpec{
			AttachRequired: ptr.To(true), PodInfoOnMount: ptr.To(false), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
		}}
	case "storageclass":
		object = &storagev1.StorageClass{
			ObjectMeta: m.clusterMeta(), Provisioner: m.app() + ".hub.gardener.cloud", Parameters: map[string]string{"type": m.suffix, "encrypted": "true"},
			AllowVolumeExpansion: ptr.To(true), VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		}
	case "ingressclass":
		object = &networkingv1.IngressClass{ObjectMeta: m.clusterMeta(), Spec: networkingv1.IngressClassSpec{Controller: "hub.gardener.cloud/" + m.app()}}
	case "definition":
		return m.definition()
	default:
		return m.custom(kind)
	}
	return asMap(object)
}

// asMap converts a typed object, and leaves out what only servers write.
func asMap(object runtime.Object) *unstructured.Unstructured {
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil {
		panic(err) // all types are in the scheme
	}
	object.GetObjectKind().SetGroupVersionKind(kinds[0])
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		panic(err) // they are structs with fields that can be converted
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	return u
}

func (m maker) labels() map[string]string {
	return map[string]string{"app": m.app(), "gardener.cloud/role": "system-component", "origin": "gardener"}
}

func (m maker) named(suffix string) string {
	if suffix == "" {
		return m.app()
	}
	return m.app() + "-" + suffix
}

func (m maker) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.namespace, Name: m.named(m.suffix), Labels: m.labels()}
}

func (m maker) clusterMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "shoot20-" + m.named(m.suffix), Labels: m.labels()}
}

func (m maker) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: m.namespace, Name: m.account()}}
}

// account is the name of the ServiceAccount of the same suffix, or of the component's first.
func (m maker) account() string {
	first, found := "", false
	for _, object := range strings.Fields(m.objects) {
		kind, suffix, _ := strings.Cut(object, ":")
		if kind == "account" && (!found || suffix == m.suffix) {
			first, found = suffix, true
		}
	}
	return m.named(first)
}

func (m maker) rules(n int) []rbacv1.PolicyRule {
	rules := make([]rbacv1.PolicyRule, 0, n)
	for range max(n, 1) {
		rule := rbacv1.PolicyRule{APIGroups: []string{m.pick(groups)}, Resources: []string{m.pick(kinds)}, Verbs: slices.Clone(requests[:1+m.IntN(len(requests))])}
		if m.IntN(4) == 0 {
			rule.ResourceNames = []string{m.term("-")}
		}
		rules = append(rules, rule)
	}
	return rules
}

func (m maker) secret() *corev1.Secret {
	if m.suffix == "tls" {
		return &corev1.Secret{ObjectMeta: m.meta(), Type: corev1.SecretTypeTLS, Data: map[string][]byte{
			corev1.TLSCertKey: []byte(m.key("CERTIFICATE", 1800)), corev1.TLSPrivateKeyKey: []byte(m.key("RSA PRIVATE KEY", 2200)),
		}}
	}
	return &corev1.Secret{ObjectMeta: m.meta(), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{
		"ca.crt": []byte(m.key("CERTIFICATE", 1400)), "settings": []byte(m.config(300)),
	}}
}

func (m maker) service() *corev1.Service {
	service := &corev1.Service{ObjectMeta: m.meta(), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": m.app()},
		Ports: []corev1.ServicePort{
			{Name: "server", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("server")},
			{Name: "metrics", Port: 9100, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("metrics")},
		},
	}}
	if m.suffix == "" && strings.Contains(m.objects, "statefulset") {
		service.Spec.ClusterIP = corev1.ClusterIPNone
	}
	return service
}

// selector selects the pods of the workload of the same suffix.
func (m maker) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": m.app(), "component": m.named(m.suffix)}}
}

func (m maker) networkPolicy() *networkingv1.NetworkPolicy {
	peer := func() networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{
			PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": m.term("-")}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": m.namespace}},
		}
	}
	port := networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(int32(1024 + m.IntN(60000))))}
	return &networkingv1.NetworkPolicy{ObjectMeta: m.meta(), Spec: networkingv1.NetworkPolicySpec{
		PodSelector: *m.selector(),
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{peer(), peer()}, Ports: []networkingv1.NetworkPolicyPort{port}}},
		Egress:      []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{peer()}, Ports: []networkingv1.NetworkPolicyPort{port}}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
	}}
}

// nothing selects no object, so that no request is ever sent to a webhook.
var nothing = &metav1.LabelSelector{MatchLabels: map[string]string{"shoot20.hub.gardener.cloud/admitted": "never"}}

var podRules = []admissionregistrationv1.RuleWithOperations{{
	Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
	Rule: admissionregistrationv1.Rule{
		APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: ptr.To(admissionregistrationv1.NamespacedScope),
	},
}}

func (m maker) webhook() admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
		Namespace: m.namespace, Name: m.app(), Path: ptr.To("/admit"), Port: ptr.To(int32(443)),
	}}
}

// The three kinds of the definitions, and the names of their resources.
var definitions = map[string]func() *apiextensionsv1.CustomResourceDefinition{
	"autoscaler": func() *apiextensionsv1.CustomResourceDefinition {
		return definition("Autoscaler", "autoscalers", apiextensionsv1.NamespaceScoped, autoscalerSpec{})
	},
	"policy": func() *apiextensionsv1.CustomResourceDefinition {
		return definition("ClusterPolicy", "clusterpolicies", apiextensionsv1.ClusterScoped, policySpec{})
	},
	"agent": func() *apiextensionsv1.CustomResourceDefinition {
		return definition("Agent", "agents", apiextensionsv1.NamespaceScoped, agentSpec{})
	},
}

func (m maker) definition() *unstructured.Unstructured {
	crd := definitions[m.suffix]()
	crd.Labels = m.labels()
	return asMap(crd)
}

// custom makes what there is no Go type for.
func (m maker) custom(kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	gvk := schema.GroupVersionKind{Group: Group, Version: "v1"}
	meta := m.meta()
	var spec any // a pointer
	switch kind {
	case "autoscaler":
		gvk.Kind = "Autoscaler"
		spec = &autoscalerSpec{
			TargetRef: m.workload(), UpdateMode: "Recreate",
			ContainerPolicy: []containerPolicy{
				{ContainerName: m.app(), MinAllowed: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")}},
				{ContainerName: "*", Mode: "Off"},
			},
		}
	case "policyrule":
		gvk.Kind = "ClusterPolicy"
		meta = m.clusterMeta()
		np := m.networkPolicy().Spec
		spec = &policySpec{Order: int32(m.IntN(1000)), PodSelector: &np.PodSelector, Ingress: np.Ingress, Egress: np.Egress}
	case "agent":
		gvk.Kind = "Agent"
		spec = &agentSpec{
			Replicas: 2, Config: map[string]string{"config.yaml": m.config(600)}, NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"worker.gardener.cloud/system-components": "true"}},
			Template: m.template(),
		}
	case "apiservice":
		gvk = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
		meta = metav1.ObjectMeta{Name: "v1.metrics." + Group, Labels: m.labels()}
		// Without a service, the kube-apiserver itself is meant. So it is available.
		u.Object["spec"] = map[string]any{
			"group": "metrics." + Group, "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
		}
	default:
		panic(fmt.Sprintf("%s has an object of the unknown kind %q", m.name, kind)) // the table is compiled in
	}
	if spec != nil {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
		if err != nil {
			panic(err)
		}
		u.Object["spec"] = content
	}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(meta.Namespace)
	u.SetName(meta.Name)
	u.SetLabels(meta.Labels)
	return u
}
