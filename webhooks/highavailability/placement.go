package highavailability

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// maxHostDomains is over how many nodes pods have to be spread at most.
const maxHostDomains = 3

// confine has the pods of a template run in some zones.
func confine(spec *corev1.PodSpec, zones []string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := &spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil {
		*required = &corev1.NodeSelector{}
	}
	if len((*required).NodeSelectorTerms) == 0 {
		(*required).NodeSelectorTerms = []corev1.NodeSelectorTerm{{}}
	}
	for i := range (*required).NodeSelectorTerms { // one of them has to match, so each one has to say it
		term := &(*required).NodeSelectorTerms[i]
		others := slices.DeleteFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == corev1.LabelTopologyZone
		})
		term.MatchExpressions = append(others, corev1.NodeSelectorRequirement{
			Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: slices.Clone(zones),
		})
	}
}

// spread is how the pods of a workload are spread.
type spread struct {
	// most is how many replicas there can be.
	most int32
	// strict keeps pods from being scheduled where they would not be spread over nodes.
	strict bool
	// zones is over how many zones they are spread; zero: over none.
	zones int
	// uneven allows more pods in one zone than in another if there are many.
	uneven bool
}

// constraints are those of topology spread that a workload gets.
func (s spread) constraints(selector *metav1.LabelSelector) []corev1.TopologySpreadConstraint {
	host := corev1.TopologySpreadConstraint{
		TopologyKey: corev1.LabelHostname, MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: selector.DeepCopy(),
	}
	if s.strict {
		host.WhenUnsatisfiable, host.MinDomains = corev1.DoNotSchedule, ptr.To(min(maxHostDomains, s.most))
	}
	if s.zones == 0 {
		return []corev1.TopologySpreadConstraint{host}
	}
	zones := int32(min(s.zones, int(s.most)))
	zone := corev1.TopologySpreadConstraint{
		TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
		MinDomains: &zones, LabelSelector: selector.DeepCopy(),
	}
	if s.uneven && int(s.most) >= 2*s.zones {
		zone.MaxSkew = 2
	}
	return []corev1.TopologySpreadConstraint{host, zone}
}

// replaceSpread puts constraints in the place of those over nodes and zones.
func replaceSpread(spec *corev1.PodSpec, constraints []corev1.TopologySpreadConstraint) {
	others := slices.DeleteFunc(spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.TopologyKey == corev1.LabelHostname || c.TopologyKey == corev1.LabelTopologyZone
	})
	spec.TopologySpreadConstraints = append(others, constraints...)
}

// spreadByReplicaSet has all constraints of a Deployment count only pods of the same ReplicaSet. The API refuses the
// key in constraints without a selector, and in those whose selector names it.
func spreadByReplicaSet(spec *corev1.PodSpec) {
	const key = appsv1.DefaultDeploymentUniqueLabelKey
	for i := range spec.TopologySpreadConstraints {
		constraint := &spec.TopologySpreadConstraints[i]
		if constraint.LabelSelector == nil || slices.Contains(constraint.MatchLabelKeys, key) ||
			names(constraint.LabelSelector, key) {
			continue
		}
		constraint.MatchLabelKeys = append(constraint.MatchLabelKeys, key)
	}
}

func names(selector *metav1.LabelSelector, key string) bool {
	_, is := selector.MatchLabels[key]
	return is || slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == key
	})
}

// matching is a selector of labels.
func matching(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: maps.Clone(labels)}
}

// tolerate has pods stay on nodes with a taint for a while, unless they say themselves for how long. Nil: nothing is
// said.
func tolerate(spec *corev1.PodSpec, taint string, seconds *int64) {
	said := slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == taint && (t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute)
	})
	if seconds == nil || said {
		return
	}
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
		Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: ptr.To(*seconds),
	})
}
