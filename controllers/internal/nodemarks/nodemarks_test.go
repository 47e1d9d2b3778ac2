package nodemarks

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func asUnstructured(t *testing.T, object client.Object) client.Object {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &unstructured.Unstructured{Object: content}
}

// NODE-1: the taint counts with any effect and value.
func TestMarksOfANode(t *testing.T) {
	tainted := func(taints ...corev1.Taint) client.Object {
		return asUnstructured(t, &corev1.Node{Spec: corev1.NodeSpec{Taints: taints}})
	}
	labelled := func(secret string) client.Object {
		return asUnstructured(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{AgentSecretLabel: secret},
		}})
	}
	broken := func(spec any) client.Object {
		return &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	}
	const schedule = corev1.TaintEffectNoSchedule
	ours := func(value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: CriticalComponentsTaint, Value: value, Effect: effect}
	}
	tests := map[string]struct {
		node client.Object
		want Marks
	}{
		"no taint":        {tainted(), Marks{}},
		"another taint":   {tainted(corev1.Taint{Key: "x", Effect: schedule}), Marks{}},
		"the taint":       {tainted(ours("", schedule)), Marks{Waits: true}},
		"another effect":  {tainted(ours("", corev1.TaintEffectNoExecute)), Marks{Waits: true}},
		"a value":         {tainted(corev1.Taint{Key: "x"}, ours("y", schedule)), Marks{Waits: true}},
		"no spec":         {broken(nil), Marks{}},
		"a strange spec":  {broken("x"), Marks{}},
		"strange taints":  {broken(map[string]any{"taints": "x"}), Marks{}},
		"a strange taint": {broken(map[string]any{"taints": []any{"x", nil, map[string]any{"key": 1}}}), Marks{}},
		"only metadata":   {&metav1.PartialObjectMetadata{}, Marks{}},
		"an agent":        {labelled("osc"), Marks{AgentSecret: "osc"}},
		"a long name":     {labelled(strings.Repeat("x", 1<<20)), Marks{AgentSecret: strings.Repeat("x", 250) + "..."}},
		"something else":  {asUnstructured(t, &corev1.Pod{}), Marks{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(marksOf(test.node)).To(Equal(test.want))
		})
	}
}
