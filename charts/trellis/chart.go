package chart

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	// ServiceAccount is the name of the hub's own identity on the source cluster.
	ServiceAccount = "trellis"
	// SourceServiceAccount is the name of the second identity, by which the hub applies objects to the source cluster.
	SourceServiceAccount = "trellis-source"
)

//go:embed files/crds/*.yaml rbac/*.yaml admission/*.yaml monitoring/*.yaml
var files embed.FS

// Rules returns the recording rules and alerts, as a rules file of Prometheus.
func Rules() []byte { return content("monitoring/rules.yaml") }

// InhibitRules returns which alert mutes which, as a part of a configuration of Alertmanager.
func InhibitRules() []byte { return content("monitoring/alertmanager.yaml") }

// ManagedResourceCRD returns the CRD of ManagedResources. Install it only where there is none.
func ManagedResourceCRD() *apiextensionsv1.CustomResourceDefinition {
	return read[apiextensionsv1.CustomResourceDefinition]("files/crds/resources.gardener.cloud_managedresources.yaml")
}

// TargetClusterCRD returns the CRD of TargetClusters.
func TargetClusterCRD() *apiextensionsv1.CustomResourceDefinition {
	return read[apiextensionsv1.CustomResourceDefinition]("files/crds/hub.gardener.cloud_targetclusters.yaml")
}

// CRDs returns both CRDs.
func CRDs() []*apiextensionsv1.CustomResourceDefinition {
	return []*apiextensionsv1.CustomResourceDefinition{ManagedResourceCRD(), TargetClusterCRD()}
}

// HubIdentity returns the service account of the hub in the given namespace, with its roles and bindings. The namespace
// itself is not among them. They are all that it may need; the chart leaves out what the configured classes do not
// need: the Secrets of some namespaces, becoming the second identity, what controllers need that no class mentions, the
// Secret of webhooks unless they are on, and asking who reads metrics unless that matters.
func HubIdentity(namespace string) []client.Object {
	return slices.Concat(
		[]client.Object{serviceAccount(namespace, ServiceAccount)},
		clusterRole(namespace, ServiceAccount, "rbac/hub-cluster.yaml", "rbac/hub-secrets.yaml", "rbac/hub-tokens.yaml",
			"rbac/hub-machines.yaml", "rbac/hub-metrics.yaml"),
		role(namespace, namespace, ServiceAccount, "rbac/hub-namespace.yaml", "rbac/hub-source.yaml",
			"rbac/hub-webhooks.yaml"),
		role(metav1.NamespaceSystem, namespace, ServiceAccount, "rbac/hub-kube-system.yaml"),
	)
}

// SourceIdentity returns the service account by which the hub applies objects to the source cluster, with its role and
// binding. It is only needed for classes with the target type Source.
func SourceIdentity(namespace string) []client.Object {
	return slices.Concat(
		[]client.Object{serviceAccount(namespace, SourceServiceAccount)},
		clusterRole(namespace, SourceServiceAccount, "rbac/source-class.yaml"),
	)
}

// DeletionGuard returns the policies by which an API server refuses to delete a TargetCluster, or a registration that
// ManagedResources need, unless it is confirmed. Service accounts, and members of the group
// hub.gardener.cloud:programs, need no confirmation. The CRD of TargetClusters has to be
// there first.
func DeletionGuard() []client.Object {
	return slices.Concat(
		denial("trellis-targetcluster-deletion", "admission/targetcluster-deletion.yaml", nil),
		denial("trellis-registration-deletion", "admission/registration-deletion.yaml", &admissionregistrationv1.ParamRef{
			Selector: &metav1.LabelSelector{}, ParameterNotFoundAction: ptr.To(admissionregistrationv1.AllowAction),
		}),
	)
}

// SecretWrites returns the policy by which an API server has the hub in a namespace write access Secrets only, and
// nothing but tokens, certificates and the time of renewal there.
func SecretWrites(namespace string) []client.Object {
	objects := denial("trellis-secret-writes", "admission/secret-writes.yaml", nil)
	for i := range objects {
		if policy, ok := objects[i].(*admissionregistrationv1.ValidatingAdmissionPolicy); ok {
			for n := range policy.Spec.MatchConditions {
				condition := &policy.Spec.MatchConditions[n]
				condition.Expression = strings.ReplaceAll(condition.Expression, "NAMESPACE", namespace)
			}
		}
	}
	return objects
}

func denial(name, spec string, params *admissionregistrationv1.ParamRef) []client.Object {
	meta := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
	}
	return []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{
			TypeMeta:   meta("ValidatingAdmissionPolicy"),
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       *read[admissionregistrationv1.ValidatingAdmissionPolicySpec](spec),
		},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			TypeMeta:   meta("ValidatingAdmissionPolicyBinding"),
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ParamRef: params, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		},
	}
}

func serviceAccount(namespace, name string) client.Object {
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}

func clusterRole(accountNamespace, name string, files ...string) []client.Object {
	return []client.Object{
		&rbacv1.ClusterRole{
			TypeMeta:   typeMeta("ClusterRole"),
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules:      rules(files),
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta:   typeMeta("ClusterRoleBinding"),
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   subjects(accountNamespace, name),
		},
	}
}

func role(namespace, accountNamespace, name string, files ...string) []client.Object {
	return []client.Object{
		&rbacv1.Role{
			TypeMeta:   typeMeta("Role"),
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Rules:      rules(files),
		},
		&rbacv1.RoleBinding{
			TypeMeta:   typeMeta("RoleBinding"),
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   subjects(accountNamespace, name),
		},
	}
}

// rules are those of several files.
func rules(files []string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, file := range files {
		rules = append(rules, *read[[]rbacv1.PolicyRule](file)...)
	}
	return rules
}

func subjects(namespace, name string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// read decodes a file of the chart. Like content, it panics if it cannot, because the file is part of the program.
func read[T any](name string) *T {
	value := new(T)
	if err := yaml.UnmarshalStrict(content(name), value); err != nil {
		panic(fmt.Sprintf("chart: %s: %v", name, err))
	}
	return value
}

func content(name string) []byte {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("chart: %v", err))
	}
	return content
}
