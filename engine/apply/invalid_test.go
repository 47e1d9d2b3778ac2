package apply_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/engine/apply"
)

// immutableMap is a ConfigMap that cannot be changed.
func immutableMap(ns, annotations, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %s, name: a, annotations: {%s}}\nimmutable: true\ndata: {key: %q}\n", ns, annotations, value)
}

// claimed is a StatefulSet with an immutable field.
func statefulSet(ns, annotations, service string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: %s, name: db, annotations: {%s}}
spec:
  replicas: 1
  serviceName: %s
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: example/db:1}]}
`, ns, annotations, service)
}

const onInvalid = `resources.gardener.cloud/delete-on-invalid-update: "true"`

func TestMR16ImmutableObjectsAreReplaced(t *testing.T) {
	for name, text := range map[string]func(ns, value string) string{
		"a ConfigMap": func(ns, value string) string { return immutableMap(ns, "", value) },
		"a Secret": func(ns, value string) string {
			return "apiVersion: v1\nkind: Secret\nmetadata: {namespace: " + ns + ", name: a}\nimmutable: true\nstringData: {key: " + value + "}\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			first := run1(t, text(ns, "one"))
			g.Expect(first.Err).NotTo(HaveOccurred())
			g.Expect(run1(t, text(ns, "one")).Recreated).To(BeFalse())
			second := run1(t, text(ns, "two"))
			g.Expect(second.Err).NotTo(HaveOccurred())
			g.Expect(second.Recreated).To(BeTrue())
			g.Expect(second.UID).NotTo(Equal(first.UID))
			g.Expect(run1(t, text(ns, "two")).UID).To(Equal(second.UID))
		})
	}
}

func TestMR15InvalidUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		text      func(ns, service string) string
		prepare   func(g *WithT, t *testing.T, ns string)
		in        func(in *apply.Intent)
		recreated bool
		err       string
	}{
		"without the annotation": {
			text: func(ns, s string) string { return statefulSet(ns, "", s) }, err: "is invalid:",
		},
		"with the annotation": {
			text: func(ns, s string) string { return statefulSet(ns, onInvalid, s) }, recreated: true,
		},
		"with a propagation": {
			text: func(ns, s string) string {
				return statefulSet(ns, onInvalid+", resources.gardener.cloud/deletion-propagation-on-invalid-update: Background", s)
			}, recreated: true,
		},
		"with a propagation that leaves the object for others to finish": {
			text: func(ns, s string) string {
				return statefulSet(ns, onInvalid+", resources.gardener.cloud/deletion-propagation-on-invalid-update: Foreground", s)
			}, err: apply.ErrTerminating.Error(),
		},
		"MR36 with a propagation that does not exist": {
			text: func(ns, s string) string {
				return statefulSet(ns, onInvalid+", resources.gardener.cloud/deletion-propagation-on-invalid-update: foreground", s)
			}, err: `has the value "foreground"`,
		},
		"with the annotation on the live object only": {
			text:      func(ns, s string) string { return statefulSet(ns, "", s) },
			prepare:   annotate(`{"metadata":{"annotations":{"resources.gardener.cloud/delete-on-invalid-update":"1"}}}`),
			recreated: true,
		},
		"that is to be kept": {
			text:    func(ns, s string) string { return statefulSet(ns, onInvalid, s) },
			prepare: annotate(`{"metadata":{"annotations":{"resources.gardener.cloud/keep-object":"true"}}}`),
			err:     "keep-object",
		},
		"that has another origin": {
			text:    func(ns, s string) string { return statefulSet(ns, onInvalid, s) },
			prepare: annotate(`{"metadata":{"annotations":{"resources.gardener.cloud/origin":"other/mr"}}}`),
			err:     "not known to be ours",
		},
		"that has another origin, although it is in the inventory": {
			text:    func(ns, s string) string { return statefulSet(ns, onInvalid, s) },
			prepare: annotate(`{"metadata":{"annotations":{"resources.gardener.cloud/origin":"other/mr"}}}`),
			in:      func(in *apply.Intent) { in.UID = live(t, in.Object).GetUID() },
			err:     "not known to be ours",
		},
		"that lost our origin, but is in the inventory": {
			text:      func(ns, s string) string { return statefulSet(ns, onInvalid, s) },
			prepare:   annotate(`{"metadata":{"annotations":{"resources.gardener.cloud/origin":null}}}`),
			in:        func(in *apply.Intent) { in.UID = live(t, in.Object).GetUID() },
			recreated: true,
		},
		"with a finalizer": {
			text:    func(ns, s string) string { return statefulSet(ns, onInvalid, s) },
			prepare: annotate(`{"metadata":{"finalizers":["example.com/hold"]}}`),
			err:     apply.ErrTerminating.Error(),
		},
		"whose manifest is invalid for a new object, too": {
			text: func(ns, s string) string {
				if s == "two" {
					return strings.Replace(statefulSet(ns, onInvalid, s), "app: db}}\n    spec", "app: other}}\n    spec", 1)
				}
				return statefulSet(ns, onInvalid, s)
			},
			err: "a new object would be refused as well",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			first := run1(t, c.text(ns, "one"))
			g.Expect(first.Err).NotTo(HaveOccurred())
			if c.prepare != nil {
				c.prepare(g, t, ns)
			}
			in := prepare(t, manifest(t, c.text(ns, "two")))
			if c.in != nil {
				c.in(&in[0])
			}
			out := applier.Run(t.Context(), access, in, nil)[0]
			g.Expect(out.Recreated).To(Equal(c.recreated || c.err == apply.ErrTerminating.Error()))
			if c.err != "" {
				g.Expect(out.Err).To(MatchError(ContainSubstring(c.err)))
				g.Expect(live(t, in[0].Object).GetUID()).To(Equal(first.UID))
				return
			}
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.UID).NotTo(Equal(first.UID))
		})
	}
}

// What is deleted has to come back: whatever refuses a new object keeps the old one.
func TestMR15InvalidUpdatesDeleteNothingThatCannotBeCreated(t *testing.T) {
	for name, refuse := range map[string]func(g *WithT, ns string) client.Object{
		"by a quota": func(g *WithT, ns string) client.Object {
			none := corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("0")}
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
			g.Expect(cluster.Client.Create(t.Context(), quota)).To(Succeed())
			quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none} // as its controller would say
			g.Expect(cluster.Client.Status().Update(t.Context(), quota)).To(Succeed())
			return quota
		},
		"by a webhook that does not answer": func(g *WithT, ns string) client.Object {
			webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: ns},
				Webhooks: []admissionregistrationv1.ValidatingWebhook{{
					Name: "creates.example.com", SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
					ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
					Rules: []admissionregistrationv1.RuleWithOperations{{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"statefulsets"}},
					}},
				}},
			}
			g.Expect(cluster.Client.Create(t.Context(), webhook)).To(Succeed())
			return webhook
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			first := run1(t, statefulSet(ns, onInvalid, "one"))
			g.Expect(first.Err).NotTo(HaveOccurred())
			refusal := refuse(g, ns)
			t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), refusal) })
			g.Eventually(func() error {
				another := manifest(t, statefulSet(ns, "", "one"))
				another.SetName("another")
				return cluster.Client.Create(t.Context(), another, client.DryRunAll)
			}).Should(HaveOccurred(), "admission knows what to refuse")

			out := run1(t, statefulSet(ns, onInvalid, "two"))
			g.Expect(out.Err).To(MatchError(ContainSubstring("not deleted because a new object would be refused as well")))
			g.Expect(out.Recreated).To(BeFalse())
			g.Expect(live(t, manifest(t, statefulSet(ns, "", "one"))).GetUID()).To(Equal(first.UID))
		})
	}
}

// annotate changes the StatefulSet of a namespace as another writer.
func annotate(patch string) func(g *WithT, t *testing.T, ns string) {
	return func(g *WithT, t *testing.T, ns string) {
		obj := live(t, manifest(t, statefulSet(ns, "", "one")))
		g.Expect(cluster.Client.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("someone"))).To(Succeed())
	}
}
