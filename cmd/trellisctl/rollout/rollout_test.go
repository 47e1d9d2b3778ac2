package rollout

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
	"github.com/trellis-hub/trellis/cmd/trellisctl/pack"
	"github.com/trellis-hub/trellis/engine/bundle"
)

func secretOf(namespace, value string) *corev1.Secret {
	manifest := fmt.Appendf(nil,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\ndata: {a: %q}\n", value)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "content", Labels: map[string]string{"app": "x"}},
		Data:       map[string][]byte{"data.yaml": manifest},
	}
}

func checksumOf(value string) *string {
	return ptr.To(bundle.Decode(pack.Sources([]*corev1.Secret{secretOf("any", value)}), bundle.Limits{}).Checksum)
}

// mr is a ManagedResource that has applied a value.
func mr(namespace, applied string, change func(*resourcesv1alpha1.ManagedResource)) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "addons", Generation: 3},
	}
	mr.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: "content"}}
	mr.Status.ObservedGeneration, mr.Status.SecretsDataChecksum = 3, checksumOf(applied)
	for t, status := range map[resourcesv1alpha1.ConditionType]resourcesv1alpha1.ConditionStatus{
		"ResourcesApplied": "True", "ResourcesHealthy": "True", "ResourcesProgressing": "False", "Ready": "True",
	} {
		mr.Status.Conditions = append(mr.Status.Conditions,
			resourcesv1alpha1.Condition{Type: t, Status: status, Reason: string(t) + "Is" + string(status)})
	}
	if change != nil {
		change(mr)
	}
	return mr
}

func is(conditionType resourcesv1alpha1.ConditionType, status resourcesv1alpha1.ConditionStatus) func(
	*resourcesv1alpha1.ManagedResource) {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, conditionType)
		c.Status, c.Reason = status, string(conditionType)+"Is"+string(status)
	}
}

func TestHowFarAChangeHasCome(t *testing.T) {
	g := NewWithT(t)
	objects := []client.Object{
		mr("done", "new", nil),
		mr("old", "old", nil),
		mr("failed", "new", is("ResourcesApplied", "False")),
		mr("unhealthy", "new", is("ResourcesHealthy", "False")),
		mr("progressing", "new", is("ResourcesProgressing", "True")),
		mr("spec", "new", func(mr *resourcesv1alpha1.ManagedResource) { mr.Generation = 4 }),
		mr("suspended", "old", func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Annotations = map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
		}),
		mr("missing", "new", nil),
		mr("another", "new", func(mr *resourcesv1alpha1.ManagedResource) { mr.Name = "another" }),
	}
	for _, namespace := range []string{"done", "old", "failed", "unhealthy", "progressing", "spec", "suspended"} {
		objects = append(objects, secretOf(namespace, "new"))
	}
	name := func(o client.Object) []string { return []string{o.GetName()} }
	source := &cli.Source{WithWatch: fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(objects...).
		WithIndex(&resourcesv1alpha1.ManagedResource{}, metav1.ObjectNameField, name).
		WithIndex(&corev1.Secret{}, metav1.ObjectNameField, name).Build()}
	r := &rollout{}
	p, err := r.look(t.Context(), source, listing.Scope{Name: "addons"}, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.String()).To(Equal(
		"1 of 8 ManagedResources have the change: 2 failed, 3 pending, 1 unhealthy, 1 progressing"))
	states := map[string]string{}
	for _, item := range p.Items {
		states[item.Namespace] = string(item.State) + "/" + item.Reason
	}
	g.Expect(states).To(Equal(map[string]string{
		"old": "Pending/NotAppliedYet", "failed": "Failed/ResourcesAppliedIsFalse",
		"unhealthy":   "Unhealthy/ResourcesHealthyIsFalse",
		"progressing": "Progressing/ResourcesProgressingIsTrue", "spec": "Pending/NotAppliedYet",
		"suspended": "Pending/ManagedResourceIgnored", "missing": "Failed/CannotReadSecret",
	}))

	// Of Secrets, by their labels or their name: all ManagedResources that refer to one.
	selector, err := labels.Parse("app=x")
	g.Expect(err).NotTo(HaveOccurred())
	for _, scope := range []listing.Scope{{Selector: selector}, {Name: "content"}} {
		p, err = r.look(t.Context(), source, scope, true)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(p.Total).To(Equal(7))
		g.Expect(p.States[Done]).To(Equal(1))
	}
}

func TestArguments(t *testing.T) {
	for args, want := range map[string]string{
		"mr a": "false a", "mr/a": "false a", "secret a": "true a", "secret": "true ", "secrets/n/a": "true n/a",
		"": "error", "pod a": "error", "mr a b": "error",
	} {
		g := NewWithT(t)
		secret, name, err := parse(strings.Fields(args))
		got := fmt.Sprintf("%t %s", secret, name)
		if err != nil {
			got = "error"
		}
		g.Expect(got).To(Equal(want), args)
	}
}
