package istioclusterconfig

import (
	"context"
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestIST1_BufferLimitForAPort(t *testing.T) {
	b := start(t, alpha)
	source, gateways := b.namespace(alpha, "source"), b.ingress(alpha, "gateways")
	b.service(alpha, source, "svc", "*", "https=443")
	b.rule(alpha, source, "rule", "svc."+source+".svc.cluster.local", `"*"`, "")
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal([]string{"443 svc plain"}))
	made := b.filter(alpha, gateways, source)
	b.Expect(made.GetLabels()).To(Equal(map[string]string{
		"resources.gardener.cloud/managed-by": "istio-cluster-configuration",
	}))
	owner := &corev1.Namespace{}
	b.Expect(alpha.client.Get(context.Background(), types.NamespacedName{Name: source}, owner)).To(Succeed())
	b.Expect(made.GetOwnerReferences()).To(Equal([]metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Namespace", Name: source, UID: owner.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}}))
	b.Expect(made.Object["spec"]).To(Equal(map[string]any{"configPatches": []any{map[string]any{
		"applyTo": "CLUSTER",
		"match": map[string]any{
			"context": "GATEWAY", "cluster": map[string]any{"name": "outbound|443||svc." + source + ".svc.cluster.local"},
		},
		"patch": map[string]any{
			"operation": "MERGE", "value": map[string]any{"per_connection_buffer_limit_bytes": int64(32768)},
		},
	}}}))
}

func TestIST2_IST3_IST4_IST5_IST7_IST8_Protocols(t *testing.T) {
	b := start(t, alpha)
	source, gateways := b.namespace(alpha, "source"), b.ingress(alpha, "gateways")
	b.service(alpha, source, "many", "*",
		"grpc-a=1", "http2=2", "web=3/h2c", "other=4/grpc", "grpc-b=5/http", "tcp-main=6", "grpc-web-x=7")
	b.rule(alpha, source, "c-many", "many", `"*"`, "")
	b.service(alpha, source, "policies", "*", "tcp-a=1", "tcp-b=2")
	policies := b.rule(alpha, source, "d-policies", "policies", `"*"`, http("h2UpgradePolicy: UPGRADE"))
	want := []string{
		"1 many http2", "2 many http2", "3 many http2", "4 many http2", "5 many plain", "6 many plain", "7 many http2",
	}
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal(append(slices.Clone(want),
		"1 policies http2", "2 policies http2")), "IST-2, IST-5, IST-7, IST-8")

	change(b, alpha, policies, func(r *unstructured.Unstructured) {
		b.Expect(unstructured.SetNestedMap(r.Object, map[string]any{
			"useClientProtocol": true, "h2UpgradePolicy": "UPGRADE",
		}, "spec", "trafficPolicy", "connectionPool", "http")).To(Succeed())
	})
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal(append(slices.Clone(want),
		"1 policies client", "2 policies client")), "IST-3")

	change(b, alpha, policies, func(r *unstructured.Unstructured) {
		b.Expect(unstructured.SetNestedSlice(r.Object, []any{
			map[string]any{
				"port":           map[string]any{"number": int64(2)},
				"connectionPool": map[string]any{"http": map[string]any{"h2UpgradePolicy": "UPGRADE"}},
			},
			map[string]any{
				"port":           map[string]any{"number": int64(3)},
				"connectionPool": map[string]any{"http": map[string]any{"h2UpgradePolicy": "UPGRADE"}},
			},
			map[string]any{"port": map[string]any{"number": int64(1)}, "connectionPool": map[string]any{}},
		}, "spec", "trafficPolicy", "portLevelSettings")).To(Succeed())
	})
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal(append(slices.Clone(want),
		"1 policies client", "2 policies http2")), "IST-4")

	b.service(alpha, source, "first", "*", "x=1")
	b.rule(alpha, source, "a-first", "first", `"*"`, "")
	b.Eventually(b.patches(alpha, gateways, source)).Should(HaveExactElements(
		"1 first plain", "1 many http2", "2 many http2", "3 many http2", "4 many http2", "5 many plain", "6 many plain",
		"7 many http2", "1 policies client", "2 policies http2"), "in the order of names")
}

func TestIST9_IST10_ServicesOfRules(t *testing.T) {
	b := start(t, alpha)
	source, gateways := b.namespace(alpha, "source"), b.ingress(alpha, "gateways")
	elsewhere := b.namespace(alpha, "elsewhere")
	b.service(alpha, source, "short", "*", "x=1")
	b.service(alpha, elsewhere, "far", "*", "x=2")
	for i, host := range []string{
		"unknown", "example.org", "short." + source, "short." + source + ".svc", "short", "'*." + source + "'",
		"far." + elsewhere + ".svc.cluster.local", "far",
	} {
		b.rule(alpha, source, fmt.Sprintf("rule-%d", i), host, `"*"`, "")
	}
	b.rule(alpha, source, "subsets", "short", `"*"`, "subsets: [{name: a, labels: {a: b}}]")
	b.rule(alpha, source, "selector", "short", `"*"`, "workloadSelector: {matchLabels: {a: b}}")
	last := b.rule(alpha, source, "z-last", "short", `"*"`, "")
	want := []string{"1 short plain", "2 far." + elsewhere + " plain", "1 short plain"}
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal(want))
	b.delete(alpha, last)
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal(want[:2]))

	late := b.service(alpha, source, "unknown", "*", "x=3")
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal(append([]string{"3 unknown plain"}, want[:2]...)),
		"IST-17: a Service that comes later")
	b.delete(alpha, late)
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal(want[:2]))
}

func TestIST11_IST12_ExportsOfRules(t *testing.T) {
	b := start(t, alpha)
	first, second := b.ingress(alpha, "a"), b.namespace(alpha, "b", LabelExposureClass, "")
	source := b.ingress(alpha, "source")
	b.namespace(alpha, "none", LabelRole, "else")
	b.service(alpha, source, "svc", "*", "x=1")
	r := b.rule(alpha, source, "rule", "svc", `"*"`, "")
	all := []string{first, second, source}
	in := func(namespaces ...string) {
		b.t.Helper()
		b.Eventually(func() (found []string) {
			for _, namespace := range append([]string{b.prefix + "none"}, all...) {
				if b.filter(alpha, namespace, source) != nil {
					found = append(found, namespace)
				}
			}
			return found
		}).Should(ConsistOf(namespaces))
	}
	exported := func(to ...any) {
		change(b, alpha, r, func(r *unstructured.Unstructured) {
			unstructured.RemoveNestedField(r.Object, "spec", "exportTo")
			if to != nil {
				b.Expect(unstructured.SetNestedSlice(r.Object, to, "spec", "exportTo")).To(Succeed())
			}
		})
	}
	in(all...)
	exported()
	in()
	exported(second, b.prefix+"none", "unknown")
	in(second)
	exported(".")
	in(source)
	exported("~")
	in()
	exported(first, ".")
	in(first, source)
}

func TestIST13_ExportsOfServices(t *testing.T) {
	b := start(t, alpha)
	first, second, source := b.ingress(alpha, "a"), b.ingress(alpha, "b"), b.namespace(alpha, "source")
	s := b.service(alpha, source, "svc", "", "x=1")
	b.rule(alpha, source, "rule", "svc", `"*"`, "")
	narrow := b.rule(alpha, source, "rule-to-a", "svc", first, "")
	in := func(inFirst, inSecond int, why string) {
		b.t.Helper()
		b.Eventually(func() []int {
			return []int{len(b.patches(alpha, first, source)()), len(b.patches(alpha, second, source)())}
		}).Should(Equal([]int{inFirst, inSecond}), why)
	}
	exported := func(to string) {
		change(b, alpha, s, func(s *corev1.Service) { s.Annotations = map[string]string{AnnotationExportTo: to} })
	}
	exported("*")
	in(2, 1, "IST-13, and an annotation alone has an effect")
	exported("~")
	in(0, 0, "nowhere")
	exported(" " + second + " , unknown")
	in(0, 1, "an intersection, with blanks")
	b.delete(alpha, narrow)
	exported(first)
	in(1, 0, "a name")
	exported(".")
	in(0, 0, "its own namespace has no gateways")
	exported(first + "," + second)
	in(1, 1, "names")
	change(b, alpha, s, func(s *corev1.Service) { s.Annotations = nil })
	in(0, 0, "no annotation")
}

func TestIST14_IST15_WhatIsNotDesiredIsDeleted(t *testing.T) {
	b := start(t, alpha)
	source, gateways := b.namespace(alpha, "source"), b.ingress(alpha, "gateways")
	s := b.service(alpha, source, "svc", "*", "tcp=1")
	r := b.rule(alpha, source, "rule", "svc", `"*"`, "")
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal([]string{"1 svc plain"}))
	change(b, alpha, s, func(s *corev1.Service) { s.Spec.Ports[0].Name = "grpc" })
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal([]string{"1 svc http2"}), "IST-15")
	b.delete(alpha, r)
	b.Eventually(b.patches(alpha, gateways, source)).Should(BeNil(), "IST-14")
	b.rule(alpha, source, "rule", "svc", `"*"`, "")
	b.Eventually(b.patches(alpha, gateways, source)).Should(Equal([]string{"1 svc http2"}))
	b.delete(alpha, s)
	b.Eventually(b.patches(alpha, gateways, source)).Should(BeNil(), "nothing without a Service")
}

func TestIST16_NamespacesBeginAndCeaseToHaveGateways(t *testing.T) {
	b := start(t, alpha)
	source, gateways := b.namespace(alpha, "source"), b.ingress(alpha, "gateways")
	b.service(alpha, source, "svc", "*", "x=1")
	b.rule(alpha, source, "rule", "svc", `"*"`, "")
	b.Eventually(b.patches(alpha, gateways, source)).ShouldNot(BeNil())
	late := b.ingress(alpha, "late")
	b.Eventually(b.patches(alpha, late, source)).ShouldNot(BeNil(), "IST-16")
	labelled := func(name, role string) {
		change(b, alpha, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(n *corev1.Namespace) {
			n.Labels[LabelRole] = role
		})
	}
	labelled(late, "else")
	b.Eventually(b.patches(alpha, late, source)).Should(BeNil(), "it is not an ingress namespace any more")
	b.Expect(b.patches(alpha, gateways, source)()).NotTo(BeNil())
	labelled(late, RoleIngress)
	b.Eventually(b.patches(alpha, late, source)).ShouldNot(BeNil())

	b.stop()
	labelled(late, "else")
	b.restart()
	b.Eventually(b.patches(alpha, late, source)).Should(BeNil(), "the hub did not see the change")
}

func TestIST17_NothingIsWrittenWhileAllIsAsItShouldBe(t *testing.T) {
	b := start(t, alpha)
	source, gateways := b.namespace(alpha, "source"), b.ingress(alpha, "gateways")
	other := b.namespace(alpha, "other")
	s := b.service(alpha, source, "svc", "*", "grpc=1", "x=2")
	r := b.rule(alpha, source, "rule", "svc", `"*"`, http("h2UpgradePolicy: UPGRADE"))
	b.Eventually(b.patches(alpha, gateways, source)).Should(HaveLen(2))
	before := b.filter(alpha, gateways, source)
	b.service(alpha, other, "svc", "*", "x=1")
	change(b, alpha, s, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} })
	change(b, alpha, s, func(s *corev1.Service) { s.Annotations["a"] = "b" })
	change(b, alpha, r, func(r *unstructured.Unstructured) { r.SetLabels(map[string]string{"a": "b"}) })
	b.rule(alpha, other, "rule", "svc", `"*"`, "")
	b.Eventually(b.patches(alpha, gateways, other)).Should(HaveLen(1), "what came last is done")
	b.stop()
	b.restart()
	b.rule(alpha, other, "rule-2", "svc", `"*"`, "")
	b.Eventually(b.patches(alpha, gateways, other)).Should(HaveLen(2), "what came last is done")
	b.Expect(b.filter(alpha, gateways, source).GetResourceVersion()).To(Equal(before.GetResourceVersion()))
}

func TestFiltersAreRestored(t *testing.T) {
	b := start(t, alpha)
	source, gateways := b.namespace(alpha, "source"), b.ingress(alpha, "gateways")
	b.service(alpha, source, "svc", "*", "x=1")
	b.rule(alpha, source, "rule", "svc", `"*"`, "")
	b.Eventually(b.patches(alpha, gateways, source)).Should(HaveLen(1))
	made := b.filter(alpha, gateways, source)
	change(b, alpha, made, func(f *unstructured.Unstructured) {
		f.SetLabels(map[string]string{LabelManagedBy: ManagedBy, "a": "b"})
		f.SetAnnotations(map[string]string{"a": "b"})
		f.SetOwnerReferences(nil)
		f.Object["spec"] = map[string]any{"priority": int64(1)}
	})
	b.Eventually(func() fingerprint { return fingerprintOf(b.filter(alpha, gateways, source)) }).
		Should(Equal(fingerprintOf(made)))
	b.Expect(b.filter(alpha, gateways, source).GetAnnotations()).To(Equal(map[string]string{"a": "b"}),
		"annotations are of others")
	b.delete(alpha, made)
	b.Eventually(b.patches(alpha, gateways, source)).Should(HaveLen(1))
}

func TestForeignFiltersStay(t *testing.T) {
	b := start(t, alpha)
	source, gateways := b.namespace(alpha, "source"), b.ingress(alpha, "gateways")
	second := b.ingress(alpha, "second")
	foreign := b.istio(alpha, envoyFilterKind, gateways, source+"-cluster-configuration", "{priority: 1}")
	b.service(alpha, source, "svc", "*", "x=1")
	r := b.rule(alpha, source, "rule", "svc", `"*"`, "")
	b.Eventually(b.warnings(alpha, foreign.GetUID())).Should(ConsistOf(
		HavePrefix("EnvoyFilterConflict: an EnvoyFilter with this name is needed, ")))
	b.Eventually(b.patches(alpha, second, source)).Should(HaveLen(1), "the other ones are written")
	b.delete(alpha, r)
	b.Eventually(b.patches(alpha, second, source)).Should(BeNil())
	b.Expect(b.filter(alpha, gateways, source).GetUID()).To(Equal(foreign.GetUID()))
	b.Expect(b.filter(alpha, gateways, source).Object["spec"]).To(Equal(foreign.Object["spec"]))

	b.rule(alpha, source, "rule", "svc", `"*"`, "")
	b.Eventually(b.patches(alpha, second, source)).Should(HaveLen(1))
	b.delete(alpha, foreign)
	b.Eventually(b.patches(alpha, gateways, source)).Should(HaveLen(1), "it is tried again")

	made := b.filter(alpha, gateways, source)
	change(b, alpha, made, func(f *unstructured.Unstructured) { f.SetLabels(nil) })
	b.Eventually(b.warnings(alpha, made.GetUID())).Should(HaveLen(1), "it is not the controller's any more")
	b.Expect(b.filter(alpha, gateways, source).GetLabels()).To(BeEmpty())
}

func TestFiltersThatOthersLabelAreDeletedOnlyByTheirName(t *testing.T) {
	b := start(t, alpha)
	source, gateways := b.namespace(alpha, "source"), b.ingress(alpha, "gateways")
	label := func(f *unstructured.Unstructured) {
		change(b, alpha, f, func(f *unstructured.Unstructured) {
			f.SetLabels(map[string]string{LabelManagedBy: ManagedBy})
		})
	}
	kept := b.istio(alpha, envoyFilterKind, gateways, "kept", "{}")
	label(kept)
	taken := b.istio(alpha, envoyFilterKind, gateways, source+"-cluster-configuration", "{}")
	label(taken)
	b.Eventually(b.patches(alpha, gateways, source)).Should(BeNil())
	b.Expect(alpha.client.Get(context.Background(), client.ObjectKeyFromObject(kept), kept)).To(Succeed())
}
