package isolation_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/istioclusterconfig"
	"github.com/trellis-hub/trellis/controllers/tokeninvalidator"
)

// transient marks what controllers that poll delete or change.
const transient = "isolation.example.com/transient"

// staleTimeout is one that the care controller does not leave to a webhook.
const staleTimeout = 30

// stale adds a pod that was evicted, or one that has failed otherwise.
func stale(m *model, random *rand.Rand) step {
	name, reason := m.next("pod"), "Error"
	if random.IntN(2) == 0 {
		reason = "Evicted"
	}
	return step{text: fmt.Sprintf("%s failed: %s", name, reason), do: func(ctx context.Context, s *stage) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceSystem, Name: name, Labels: map[string]string{transient: reason},
			},
			Spec: podSpec,
		}
		if err := s.Client.Create(ctx, pod); err != nil {
			return err
		}
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, reason
		return s.Client.Status().Update(ctx, pod)
	}}
}

// harmful adds a webhook that keeps the target waiting for too long. No server answers it, and its failures
// are ignored.
func harmful(m *model, _ *rand.Rand) step {
	name := m.next("hook") + ".example.com"
	return step{text: name + " comes", do: func(ctx context.Context, s *stage) error {
		return s.Client.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{transient: "webhook"}},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: name, TimeoutSeconds: ptr.To[int32](staleTimeout),
				AdmissionReviewVersions: []string{"v1"},
				FailurePolicy:           ptr.To(admissionregistrationv1.Ignore),
				SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
				ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{"rbac.authorization.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"roles"},
					},
				}},
			}},
		})
	}}
}

// calm returns an error as long as something is left for controllers that poll.
func calm(ctx context.Context, s *stage) error {
	pods := &corev1.PodList{}
	err := s.Client.List(ctx, pods, client.InNamespace(metav1.NamespaceSystem),
		client.MatchingLabels{transient: "Evicted"})
	if err != nil {
		return err
	}
	if len(pods.Items) > 0 {
		return fmt.Errorf("%s still exists", pods.Items[0].Name)
	}
	hooks := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	if err := s.Client.List(ctx, hooks, client.HasLabels{transient}); err != nil {
		return err
	}
	for _, hook := range hooks.Items {
		if *hook.Webhooks[0].TimeoutSeconds == staleTimeout {
			return fmt.Errorf("%s is as it was", hook.Name)
		}
	}
	return nil
}

// rest returns what returns an error as long as controllers that poll have something to do.
func (m *model) rest() func(context.Context, *stage) error {
	garbage := collected(m.kept)
	return func(ctx context.Context, s *stage) error {
		if err := garbage(ctx, s); err != nil {
			return err
		}
		return calm(ctx, s)
	}
}

// static adds a ServiceAccount with a static token, which is to be invalid if the account mounts none.
func static(m *model, random *rand.Rand) step {
	name, mounts := m.next("static"), random.IntN(2) == 0
	want := map[string]string{tokeninvalidator.PurposeLabel: tokeninvalidator.Purpose}
	if !mounts {
		want[tokeninvalidator.ConsiderLabel] = "true"
	}
	return step{
		text: fmt.Sprintf("%s comes, mounts its token: %t", name, mounts),
		do: func(ctx context.Context, s *stage) error {
			meta := metav1.ObjectMeta{Namespace: s.space, Name: name}
			account := &corev1.ServiceAccount{ObjectMeta: meta, AutomountServiceAccountToken: &mounts}
			if err := s.Client.Create(ctx, account); err != nil {
				return err
			}
			meta.Annotations = map[string]string{corev1.ServiceAccountNameKey: name}
			return s.Client.Create(ctx, &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeServiceAccountToken})
		},
		done: func(ctx context.Context, s *stage) error {
			secret := &corev1.Secret{}
			if err := s.Client.Get(ctx, types.NamespacedName{Namespace: s.space, Name: name}, secret); err != nil {
				return err
			}
			if !maps.Equal(secret.Labels, want) {
				return fmt.Errorf("%s has the labels %v, not %v", name, secret.Labels, want)
			}
			return nil
		},
	}
}

// unspread adds a workload that is not to be spread again, since its namespace does not have the label for that. How
// often one with the label is spread depends on how quickly Nodes come and go.
func unspread(m *model, _ *rand.Rand) step {
	name := m.next("workload")
	return step{text: name + " comes", do: func(ctx context.Context, s *stage) error {
		labels := map[string]string{"app": name}
		spec := *podSpec.DeepCopy()
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
		}}
		return s.Client.Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.space, Name: name},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
			},
		})
	}}
}

// destinationRule is the rule of a Service.
func destinationRule(namespace, name string) *unstructured.Unstructured {
	rule := istioObject("DestinationRule", namespace, name)
	rule.Object["spec"] = map[string]any{
		"host": name + "." + namespace + ".svc.cluster.local", "exportTo": []any{"*"},
	}
	return rule
}

// istioObject is one of Istio, in the version that the controller asks for.
func istioObject(kind, namespace, name string) *unstructured.Unstructured {
	version := "v1alpha3"
	if kind == "DestinationRule" {
		version = "v1beta1"
	}
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetAPIVersion("networking.istio.io/" + version)
	obj.SetKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// buffers adds a Service that ingress gateways have a rule for, or takes the rule away.
func buffers(m *model, random *rand.Rand) step {
	if names := slices.Sorted(maps.Keys(m.rules)); len(names) > 0 && random.IntN(3) == 0 {
		name := names[random.IntN(len(names))]
		delete(m.rules, name)
		return step{
			text: "the rule of " + name + " goes", done: filtered(m), do: func(ctx context.Context, s *stage) error {
				return s.Client.Delete(ctx, destinationRule(s.space, name))
			},
		}
	}
	name := m.next("ruled")
	m.rules[name] = 1000 + 10*m.number
	port := m.rules[name]
	return step{text: name + " has a rule", done: filtered(m), do: func(ctx context.Context, s *stage) error {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.space, Name: name,
				Annotations: map[string]string{istioclusterconfig.AnnotationExportTo: "*"},
			},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: int32(port + s.number)}}}, // without policies
		}
		if err := s.Client.Create(ctx, service); err != nil {
			return err
		}
		return s.Client.Create(ctx, destinationRule(s.space, name))
	}}
}

// filtered returns an error as long as the EnvoyFilter is not that of the rules.
func filtered(m *model) func(context.Context, *stage) error {
	rules := maps.Clone(m.rules)
	return func(ctx context.Context, s *stage) error {
		var want, found []string
		for name, port := range rules {
			want = append(want, fmt.Sprintf("outbound|%d||%s.%s.svc.cluster.local", port+s.number, name, s.space))
		}
		filter := istioObject("EnvoyFilter", s.peer, s.space+"-cluster-configuration")
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(filter), filter); client.IgnoreNotFound(err) != nil {
			return err
		}
		patches, _, err := unstructured.NestedSlice(filter.Object, "spec", "configPatches")
		if err != nil {
			return err
		}
		for _, patch := range patches {
			content, _ := patch.(map[string]any)
			cluster, _, err := unstructured.NestedString(content, "match", "cluster", "name")
			if err != nil {
				return err
			}
			found = append(found, cluster)
		}
		return same("clusters", found, want)
	}
}
