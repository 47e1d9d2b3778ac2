package policies_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/deletionprotection"
	"github.com/trellis-hub/trellis/webhooks/endpointslices"
	"github.com/trellis-hub/trellis/webhooks/pods"
	"github.com/trellis-hub/trellis/webhooks/policies"
	"github.com/trellis-hub/trellis/webhooks/verticalpodautoscalers"
)

// table are objects that are sent through a webhook and through its policies. The first one is changed.
type table struct {
	webhook  admission.Webhook
	settings string
	// namespace with its labels.
	namespace string
	labels    map[string]string
	objects   []string
}

// pod has metadata and a spec without containers, and containers.
func pod(labels, spec string, containers ...string) string {
	if len(containers) == 0 {
		containers = []string{`{name: a, image: i}`}
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: x, labels: {%s}}, spec: {%scontainers: [%s]}}`,
		labels, spec, strings.Join(containers, ", "))
}

var (
	runtimeNamespace = map[string]string{"gardener.cloud/role": "shoot"}
	optOuts          = []string{
		`static-pod: "true"`, `app: gardener-resource-manager`, `seccompprofile.resources.gardener.cloud/skip: "false"`,
		`apiserver-proxy.networking.gardener.cloud/inject: disable`,
		`apiserver-proxy.networking.gardener.cloud/inject: other`, ``,
	}
	environments = []string{
		``, `{name: X, value: why}`, `{name: KUBERNETES_SERVICE_HOST, value: own}`,
		`{name: KUBERNETES_SERVICE_HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}`,
		`{name: KUBERNETES_SERVICE_PORT, value: "1"}`, `{name: X, value: a}, {name: X, value: b}`,
		`{name: KUBERNETES_SERVICE_PORT, value: "6443"}, {name: X, value: why}`,
	}
	schedulers = []string{``, `schedulerName: default-scheduler, `, `schedulerName: own, `, `schedulerName: packing, `}
	contexts   = []string{
		``, `securityContext: {}, `, `securityContext: {runAsNonRoot: true, runAsUser: 5, supplementalGroups: [1]}, `,
		`securityContext: {seccompProfile: {type: Unconfined}}, `,
		`securityContext: {seccompProfile: {type: RuntimeDefault}}, `,
		`securityContext: {seccompProfile: {type: Localhost, localhostProfile: p}}, `,
	}
)

func one(of []string, random *rand.Rand) string { return of[random.IntN(len(of))] }

// somePods are made by chance, the same ones each time.
func somePods(seed uint64) (all []string) {
	random := rand.New(rand.NewPCG(seed, 0))
	containers := func(prefix string, least int) (list []string) {
		for i := range least + random.IntN(3) {
			list = append(list, fmt.Sprintf(`{name: %s%d, image: i, env: [%s], securityContext: {runAsUser: %d}}`,
				prefix, i, one(environments, random), i))
		}
		return list
	}
	for range 40 {
		spec := one(schedulers, random) + one(contexts, random)
		if inits := containers("i", 0); len(inits) > 0 {
			spec += "initContainers: [" + strings.Join(inits, ", ") + "], "
		}
		all = append(all, pod(one(optOuts, random), spec, containers("c", 1)...))
	}
	return all
}

func slice(labels, endpoints string) string {
	return fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: x, labels: {%s}},
		addressType: IPv4, endpoints: %s}`,
		labels, endpoints)
}

func autoscaler(labels, spec string) string {
	return fmt.Sprintf(`{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler,
		metadata: {name: x%s}, spec: %s}`, labels, spec)
}

func tables() map[string]table {
	const hints = `endpoint-slice-hints.resources.gardener.cloud/consider: "true"`
	return map[string]table{
		"POL-1 seccomp profiles": {
			webhook: pods.SeccompProfile(), settings: "registration: {scope: Runtime}, seccompProfile: {enabled: true}",
			namespace: "shoot--a--b", labels: runtimeNamespace, objects: append([]string{pod(``, ``)}, somePods(1)...),
		},
		"POL-1 seccomp profiles in other namespaces": {
			webhook: pods.SeccompProfile(), settings: "seccompProfile: {enabled: true}",
			namespace: "kube-system", objects: []string{pod(``, ``), pod(`static-pod: "true"`, ``)},
		},
		"POL-2 schedulers": {
			webhook: pods.SchedulerName(), settings: "podSchedulerName: {enabled: true, schedulerName: packing}",
			namespace: "of-a-user", objects: append([]string{pod(``, ``)}, somePods(2)...),
		},
		"POL-3 hosts": {
			webhook: pods.ServiceHost(), settings: "kubernetesServiceHost: {enabled: true, host: api.a.example}",
			namespace: "of-a-user", objects: append([]string{pod(``, ``)}, somePods(3)...),
		},
		"POL-3 hosts with another port": {
			webhook:   pods.ServiceHost(),
			settings:  "kubernetesServiceHost: {enabled: true, host: api.a.example, port: 6443}",
			namespace: "of-a-user", objects: append([]string{pod(``, ``)}, somePods(4)...),
		},
		"POL-4 hints": {
			webhook: endpointslices.Hints(), settings: "endpointSliceHints: {enabled: true}", namespace: "kube-system",
			objects: []string{
				slice(hints, `[{addresses: [10.0.0.1], zone: a}, {addresses: [10.0.0.2], zone: ""}, {addresses: [10.0.0.3]},
					{addresses: [10.0.0.4], zone: b, hints: {forZones: [{name: c}]}},
					{addresses: [10.0.0.5], hints: {forZones: [{name: c}]}}]`),
				slice(``, `[{addresses: [10.0.0.1], zone: a}]`), slice(hints, `[]`), slice(hints, `null`),
			},
		},
		"POL-5 modes": {
			webhook: verticalpodautoscalers.InPlaceUpdates(), settings: "vpaInPlaceUpdates: {enabled: true}",
			namespace: "kube-system",
			objects: []string{
				autoscaler(``, `{updatePolicy: {updateMode: Auto, minReplicas: 2}}`), autoscaler(``, `{}`),
				autoscaler(`, labels: {a: b}`, `{updatePolicy: {}}`),
				autoscaler(``, `{updatePolicy: null}`), autoscaler(`, labels: null`, `{updatePolicy: {updateMode: null}}`),
				autoscaler(`, labels: {vpa-in-place-updates.resources.gardener.cloud/mutated: "false"}`, `{}`), autoscaler(``,
					`{updatePolicy: {updateMode: Recreate}}`),
				autoscaler(``, `{updatePolicy: {updateMode: ""}}`), autoscaler(``,
					`{updatePolicy: {updateMode: Initial}}`),
				autoscaler(``, `{updatePolicy: {updateMode: "Off"}}`), autoscaler(``,
					`{updatePolicy: {updateMode: InPlaceOrRecreate}}`),
				autoscaler(`, labels: {vpa-in-place-updates.resources.gardener.cloud/skip: "x"}`, `{}`),
			},
		},
	}
}

// POL-1, POL-2, POL-3, POL-4, POL-5: the same objects through both.
func TestPoliciesDoWhatWebhooksDo(t *testing.T) {
	needsTarget(t)
	define(t, "autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers", nil)
	for name, table := range tables() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			namespace(t, table.namespace, table.labels)
			c := reviews.Target{
				Settings: reviews.Webhooks(t, "{"+table.settings+"}"), Namespace: table.namespace, Labels: table.labels,
			}
			var objects []*unstructured.Unstructured
			var wanted [][]byte
			for _, text := range table.objects {
				object := parsed(t, text)
				object.SetNamespace(table.namespace)
				before, err := created(t, object).MarshalJSON()
				g.Expect(err).NotTo(HaveOccurred())
				answer := c.Send(t, table.webhook, string(before))
				g.Expect(answer.Err).NotTo(HaveOccurred())
				g.Expect(answer.Denied).To(BeNil())
				objects, wanted = append(objects, object), append(wanted, answer.Object)
			}
			same := func(i int) (bool, string) {
				document, err := created(t, objects[i]).MarshalJSON()
				g.Expect(err).NotTo(HaveOccurred())
				equal, err := MatchJSON(wanted[i]).Match(document)
				g.Expect(err).NotTo(HaveOccurred())
				return equal, string(document)
			}
			unchanged, _ := same(0)
			g.Expect(unchanged).To(BeFalse(), "the first object has to be changed")
			install(t, table.webhook, &c.Settings, func() bool {
				works, _ := same(0)
				return works
			})
			for i, text := range table.objects {
				_, document := same(i)
				g.Expect(document).To(MatchJSON(wanted[i]), text)
			}
		})
	}
}

// CDP-15, POL-6
func TestPoliciesProtectFromDeletion(t *testing.T) {
	needsTarget(t)
	g := NewWithT(t)
	const space = "deletion"
	namespace(t, space, nil)
	settings := reviews.Webhooks(t, "{crdDeletionProtection: {enabled: true}}")
	webhook := deletionprotection.Webhook(nil)

	// What there is: a kind with its CRD for each resource, and one object that is confirmed and one that is not.
	type kept struct {
		object   client.Object
		resource metav1.GroupVersionResource
	}
	var all []kept
	const extensions = "extensions.gardener.cloud"
	for _, plural := range append(deletionprotection.Resources(), "bastions", "etcds") {
		group := extensions
		if plural == "etcds" {
			group = "druid.gardener.cloud"
		}
		labels := map[string]string{deletionprotection.ProtectedLabel: "true"}
		if plural == "bastions" {
			labels = nil
		}
		kind := strings.ToUpper(plural[:1]) + plural[1:len(plural)-1]
		crd := define(t, group, "v1alpha1", kind, plural, labels)
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		all = append(all, kept{crd, metav1.GroupVersionResource{
			Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
		}})
		for _, confirmation := range []string{"", "false", "yes", "1", "t", "TRUE", "true"} {
			object := parsed(t, fmt.Sprintf(
				`{apiVersion: %s/v1alpha1, kind: %s, metadata: {generateName: x-, namespace: %s}}`, group, kind, space))
			if confirmation != "" {
				object.SetAnnotations(map[string]string{deletionprotection.ConfirmationAnnotation: confirmation})
			}
			g.Expect(target.Client.Create(t.Context(), object)).To(Succeed())
			all = append(all,
				kept{object, metav1.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: plural}})
		}
	}
	confirmed := define(t, "example.com", "v1", "Other", "others",
		map[string]string{deletionprotection.ProtectedLabel: "true"})
	before := confirmed.DeepCopy()
	confirmed.Annotations = map[string]string{deletionprotection.ConfirmationAnnotation: "true"}
	g.Expect(target.Client.Patch(t.Context(), confirmed, client.MergeFrom(before))).To(Succeed())

	// Whether the webhook, if it is called, refuses.
	refuses := func(k kept) bool {
		document, err := runtime.DefaultUnstructuredConverter.ToUnstructured(k.object)
		g.Expect(err).NotTo(HaveOccurred())
		raw, err := (&unstructured.Unstructured{Object: document}).MarshalJSON()
		g.Expect(err).NotTo(HaveOccurred())
		if k.resource.Group == "apiextensions.k8s.io" &&
			k.object.GetLabels()[deletionprotection.ProtectedLabel] != "true" {
			return false // by the selector
		}
		answer, err := webhook.Handler.Handle(t.Context(),
			&admission.Request{AdmissionRequest: &admissionv1.AdmissionRequest{
				Operation: admissionv1.Delete, Name: k.object.GetName(), Namespace: k.object.GetNamespace(),
				Resource:  k.resource,
				OldObject: runtime.RawExtension{Raw: raw},
			}})
		g.Expect(err).NotTo(HaveOccurred())
		return answer.Denied != nil
	}
	deletion := func(object client.Object) error {
		return target.Client.Delete(context.Background(), object, client.DryRunAll) // also after the test
	}
	install(t, webhook, &settings, func() bool {
		return apierrors.IsForbidden(deletion(all[0].object)) && apierrors.IsForbidden(deletion(all[1].object))
	})
	refused := 0
	for _, k := range all {
		err := deletion(k.object)
		if refuses(k) {
			refused++
			g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v %s: %v", k.resource, k.object.GetName(), err)
			g.Expect(err).To(MatchError(And(ContainSubstring(deletionprotection.ConfirmationAnnotation),
				ContainSubstring("annotation to delete"))))
		} else {
			g.Expect(err).NotTo(HaveOccurred(), "%v %s", k.resource, k.object.GetName())
		}
	}
	g.Expect(refused).To(Equal(12 * 4)) // of each kind but bastions, the CRD and three objects
	g.Expect(deletion(confirmed)).To(Succeed())

	t.Log("Collections, of which one object is enough to refuse")
	for _, k := range all {
		if k.resource.Group == "apiextensions.k8s.io" {
			continue
		}
		object, is := k.object.(*unstructured.Unstructured)
		g.Expect(is).To(BeTrue())
		err := target.Client.DeleteAllOf(t.Context(), object, client.InNamespace(space), client.DryRunAll)
		g.Expect(apierrors.IsForbidden(err)).To(Equal(k.resource.Resource != "bastions"), "%v: %v", k.resource, err)
	}
}

func TestPOL7_WherePoliciesReplaceWebhooks(t *testing.T) {
	g := NewWithT(t)
	w := pods.SeccompProfile()
	for _, test := range []struct {
		settings         string
		served, unserved policies.Way
	}{
		{"{}", policies.Off, policies.Off},
		{"{seccompProfile: {enabled: false}}", policies.Off, policies.Off},
		{"{seccompProfile: {enabled: true}}", policies.Policy, policies.Call},
		{"{seccompProfile: {enabled: true, mode: Auto}}", policies.Policy, policies.Call},
		{"{seccompProfile: {enabled: true, mode: Policy}}", policies.Policy, policies.Missing},
		{"{seccompProfile: {enabled: true, mode: Webhook}}", policies.Call, policies.Call},
	} {
		settings := reviews.Webhooks(t, test.settings)
		g.Expect(policies.WayOf(w, &settings, true)).To(Equal(test.served), test.settings)
		g.Expect(policies.WayOf(w, &settings, false)).To(Equal(test.unserved), test.settings)
	}
	all := reviews.Webhooks(t, "{projectedTokenMount: {enabled: true}}")
	g.Expect(policies.WayOf(pods.TokenMount(), &all, true)).To(Equal(policies.Call))
	g.Expect(policies.Of("a-", pods.TokenMount(), &all)).To(BeEmpty())
	off := hubv1alpha1.TargetWebhooks{}
	g.Expect(policies.Of("a-", w, &off)).To(BeEmpty())
}

// HUB-11: what is excluded from mutating webhooks is also excluded from policies in their place.
func TestExcludedObjects(t *testing.T) {
	g := NewWithT(t)
	settings := reviews.Webhooks(t, "{seccompProfile: {enabled: true}, crdDeletionProtection: {enabled: true}}")
	objects := policies.Of("a-", pods.SeccompProfile(), &settings)
	policy, is := objects[0].(*admissionregistrationv1.MutatingAdmissionPolicy)
	g.Expect(is).To(BeTrue())
	g.Expect(policy.Name).To(Equal("a-seccomp-profile"))
	g.Expect(policy.Spec.MatchConstraints.ObjectSelector.MatchExpressions).To(ContainElement(
		metav1.LabelSelectorRequirement{
			Key: hubv1alpha1.WebhooksExcludeLabel, Operator: metav1.LabelSelectorOpDoesNotExist,
		}))
	for _, object := range policies.Of("a-", deletionprotection.Webhook(nil), &settings) {
		if validating, is := object.(*admissionregistrationv1.ValidatingAdmissionPolicy); is {
			g.Expect(validating.Spec.MatchConstraints.ObjectSelector.MatchExpressions).To(BeEmpty())
		}
	}
}
