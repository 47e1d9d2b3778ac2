package criticalcomponents

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the DaemonSet controller would do with a Node n of the pool a.
func TestNODE5_NODE17_PlacementOfDaemonSets(t *testing.T) {
	node := func(taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"pool": "a", "size": "3"}},
			Spec:       corev1.NodeSpec{Taints: append([]corev1.Taint{taint}, taints...)},
		}
	}
	affinity := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
	labels := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: key, Operator: operator, Values: values},
		}}
	}
	name := func(value string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{value}},
		}}
	}
	tolerating := func(keys ...string) corev1.PodSpec {
		spec := corev1.PodSpec{}
		for _, key := range keys {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		}
		return spec
	}
	with := func(change func(*corev1.PodSpec)) corev1.PodSpec {
		spec := tolerating(taint.Key)
		change(&spec)
		return spec
	}
	const schedule, execute, prefer = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute,
		corev1.TaintEffectPreferNoSchedule
	tests := map[string]struct {
		spec corev1.PodSpec
		node *corev1.Node
		runs bool
	}{
		"tolerates everything":       {corev1.PodSpec{Tolerations: everywhere}, node(corev1.Taint{Key: "x", Effect: execute}), true},
		"tolerates the taint":        {tolerating(taint.Key), node(), true},
		"does not tolerate it":       {corev1.PodSpec{}, node(), false},
		"does not tolerate another":  {tolerating(taint.Key), node(corev1.Taint{Key: "x", Effect: schedule}), false},
		"one that evicts":            {tolerating(taint.Key), node(corev1.Taint{Key: "x", Effect: execute}), false},
		"one that only is a wish":    {tolerating(taint.Key), node(corev1.Taint{Key: "x", Effect: prefer}), true},
		"another value of the taint": {corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: taint.Key, Value: "x"}}}, node(), false},
		"a comparison": {corev1.PodSpec{Tolerations: []corev1.Toleration{
			{Key: taint.Key, Operator: "Gt", Value: "0"},
		}}, node(), false},

		"of itself, not ready":           {tolerating(taint.Key), node(corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: execute}), true},
		"not ready, nothing scheduled":   {tolerating(taint.Key), node(corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: schedule}), false},
		"of itself, unreachable":         {tolerating(taint.Key), node(corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: execute}), true},
		"of itself, disk":                {tolerating(taint.Key), node(corev1.Taint{Key: corev1.TaintNodeDiskPressure, Effect: schedule}), true},
		"of itself, memory":              {tolerating(taint.Key), node(corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: schedule}), true},
		"of itself, processes":           {tolerating(taint.Key), node(corev1.Taint{Key: corev1.TaintNodePIDPressure, Effect: schedule}), true},
		"of itself, cordoned":            {tolerating(taint.Key), node(corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: schedule}), true},
		"no network":                     {tolerating(taint.Key), node(corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: schedule}), false},
		"of itself, no network but host": {with(func(s *corev1.PodSpec) { s.HostNetwork = true }), node(corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: schedule}), true},

		"selector":               {with(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"pool": "a"} }), node(), true},
		"selector of others":     {with(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"pool": "b"} }), node(), false},
		"its name":               {with(func(s *corev1.PodSpec) { s.NodeName = "n" }), node(), true},
		"another name":           {with(func(s *corev1.PodSpec) { s.NodeName = "m" }), node(), false},
		"affinity":               {with(func(s *corev1.PodSpec) { s.Affinity = affinity(labels("pool", "In", "b", "a")) }), node(), true},
		"affinity, of numbers":   {with(func(s *corev1.PodSpec) { s.Affinity = affinity(labels("size", "Gt", "2")) }), node(), true},
		"affinity for others":    {with(func(s *corev1.PodSpec) { s.Affinity = affinity(labels("pool", "NotIn", "a")) }), node(), false},
		"affinity, one of terms": {with(func(s *corev1.PodSpec) { s.Affinity = affinity(name("m"), name("n")) }), node(), true},
		"affinity, its name":     {with(func(s *corev1.PodSpec) { s.Affinity = affinity(name("m")) }), node(), false},
		"affinity without terms": {with(func(s *corev1.PodSpec) { s.Affinity = affinity() }), node(), false},
		"unreadable affinity":    {with(func(s *corev1.PodSpec) { s.Affinity = affinity(labels("pool", "Like", "a")) }), node(), false},
		"affinity that is a wish": {with(func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
					{Weight: 1, Preference: labels("pool", "In", "b")},
				},
			}}
		}), node(), true},
		"selector and affinity": {with(func(s *corev1.PodSpec) {
			s.NodeSelector = map[string]string{"pool": "a"}
			s.Affinity = affinity(labels("pool", "In", "b"))
		}), node(), false},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			d := daemonSet("d")
			d.Spec.Template.Spec = test.spec
			before := d.DeepCopy()
			g := NewWithT(t)
			g.Expect(shouldRun(d, test.node)).To(Equal(test.runs))
			g.Expect(d).To(Equal(before))
		})
	}
}
