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
	// tainted is a Node with one more taint.
	tainted := func(key string, effect corev1.TaintEffect) *corev1.Node {
		return node(corev1.Taint{Key: key, Effect: effect})
	}
	usual := tolerating(taint.Key)
	selecting := func(pool string) corev1.PodSpec {
		return with(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"pool": pool} })
	}
	named := func(name string) corev1.PodSpec { return with(func(s *corev1.PodSpec) { s.NodeName = name }) }
	requiring := func(terms ...corev1.NodeSelectorTerm) corev1.PodSpec {
		return with(func(s *corev1.PodSpec) { s.Affinity = affinity(terms...) })
	}
	onHost := with(func(s *corev1.PodSpec) { s.HostNetwork = true })
	const schedule, execute, prefer = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute,
		corev1.TaintEffectPreferNoSchedule
	tests := map[string]struct {
		spec corev1.PodSpec
		node *corev1.Node
		runs bool
	}{
		"tolerates everything":      {corev1.PodSpec{Tolerations: everywhere}, tainted("x", execute), true},
		"tolerates the taint":       {usual, node(), true},
		"does not tolerate it":      {corev1.PodSpec{}, node(), false},
		"does not tolerate another": {usual, tainted("x", schedule), false},
		"one that evicts":           {usual, tainted("x", execute), false},
		"one that only is a wish":   {usual, tainted("x", prefer), true},
		"another value of the taint": {corev1.PodSpec{Tolerations: []corev1.Toleration{
			{Key: taint.Key, Value: "x"},
		}}, node(), false},
		"a comparison": {corev1.PodSpec{Tolerations: []corev1.Toleration{
			{Key: taint.Key, Operator: "Gt", Value: "0"},
		}}, node(), false},

		"of itself, not ready":           {usual, tainted(corev1.TaintNodeNotReady, execute), true},
		"not ready, nothing scheduled":   {usual, tainted(corev1.TaintNodeNotReady, schedule), false},
		"of itself, unreachable":         {usual, tainted(corev1.TaintNodeUnreachable, execute), true},
		"of itself, disk":                {usual, tainted(corev1.TaintNodeDiskPressure, schedule), true},
		"of itself, memory":              {usual, tainted(corev1.TaintNodeMemoryPressure, schedule), true},
		"of itself, processes":           {usual, tainted(corev1.TaintNodePIDPressure, schedule), true},
		"of itself, cordoned":            {usual, tainted(corev1.TaintNodeUnschedulable, schedule), true},
		"no network":                     {usual, tainted(corev1.TaintNodeNetworkUnavailable, schedule), false},
		"of itself, no network but host": {onHost, tainted(corev1.TaintNodeNetworkUnavailable, schedule), true},

		"selector":               {selecting("a"), node(), true},
		"selector of others":     {selecting("b"), node(), false},
		"its name":               {named("n"), node(), true},
		"another name":           {named("m"), node(), false},
		"affinity":               {requiring(labels("pool", "In", "b", "a")), node(), true},
		"affinity, of numbers":   {requiring(labels("size", "Gt", "2")), node(), true},
		"affinity for others":    {requiring(labels("pool", "NotIn", "a")), node(), false},
		"affinity, one of terms": {requiring(name("m"), name("n")), node(), true},
		"affinity, its name":     {requiring(name("m")), node(), false},
		"affinity without terms": {requiring(), node(), false},
		"unreadable affinity":    {requiring(labels("pool", "Like", "a")), node(), false},
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
			d := newDaemonSet("d")
			d.Spec.Template.Spec = test.spec
			before := d.DeepCopy()
			g := NewWithT(t)
			g.Expect(shouldRun(d, test.node)).To(Equal(test.runs))
			g.Expect(d).To(Equal(before))
		})
	}
}
