package highavailability_test

import (
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/highavailability"
)

const zoneKey = "topology.kubernetes.io/zone"

func TestHA_Affinity(t *testing.T) {
	inZones := `{key: ` + zoneKey + `, operator: In, values: [a, b]}`
	required := func(terms string) string {
		return `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` +
			terms + `]}}}`
	}
	for name, test := range map[string]struct {
		tolerance, zones, pinning, before, want string
	}{
		"HA-22 nothing is asked for":       {unset, unset, "", ``, ``},
		"HA-23 no zones":                   {"zone", unset, "", ``, ``},
		"HA-24 empty zones":                {"zone", "", "", ``, ``},
		"HA-25 zones without a demand":     {unset, "a,b", "", ``, ``},
		"HA-25 a pinning that says no":     {unset, "a,b", "x", ``, ``},
		"HA-26 pinned":                     {unset, "a,b", "true", ``, required(`{matchExpressions: [` + inZones + `]}`)},
		"HA-27 nothing is to be tolerated": {"", "a,b", "", ``, required(`{matchExpressions: [` + inZones + `]}`)},
		"HA-28 each term": {"zone", "a,b", "",
			required(`{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]},
				{matchExpressions: [{key: ` + zoneKey + `, operator: NotIn, values: [x]}]}, {matchExpressions: [{key: foo,
					operator: NotIn, values: [bar]}]}`),
			required(`{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}, ` + inZones + `]},
				{matchExpressions: [` + inZones + `]}, {matchExpressions: [{key: foo, operator: NotIn, values: [bar]},
					` + inZones + `]}`)},
		"HA-29 right already": {"zone", "a,b", "", required(`{matchExpressions: [` + inZones + `]}`),
			required(`{matchExpressions: [` + inZones + `]}`)},
		"HA-29 right already, in several terms": {"zone", "a,b", "",
			required(`{matchExpressions: [` + inZones + `]}, {matchExpressions: [{key: x, operator: Exists}, ` + inZones + `]}`),
			required(`{matchExpressions: [` + inZones + `]}, {matchExpressions: [{key: x, operator: Exists},
				` + inZones + `]}`)},
		"HA-30 each zone once": {"zone", "b,,a,b", "", ``, required(`{matchExpressions: [` + inZones + `]}`)},
		"HA-30 blanks stay": {"zone", "a, b", "", ``,
			required(`{matchExpressions: [{key: ` + zoneKey + `, operator: In, values: [" b", a]}]}`)},
		"other affinities stay": {"zone", "a,b", "",
			`affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}, podAffinity: {}}`,
			`affinity: {podAffinity: {}, nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
				{matchExpressions: [` + inZones + `]}]}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := target(t, test.tolerance, test.zones, 2)
			if test.pinning != "" {
				c.State.Spaces[0].Annotations[prefix+"zone-pinning"] = test.pinning
			}
			var want corev1.PodSpec
			g.Expect(yaml.Unmarshal([]byte("{"+test.want+"}"), &want)).To(Succeed())
			got := send(t, c, deployment("", "replicas: 1,", test.before)).Spec.Template.Spec.Affinity
			if got != nil && got.NodeAffinity != nil {
				got.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = nil
			}
			g.Expect(got).To(Equal(want.Affinity))
		})
	}
}

// TestHA32_Spread is the matrix of the statement.
func TestHA32_Spread(t *testing.T) {
	zonesOf := []string{unset, "a", "a,b", "a,b,c"}
	for name, test := range map[string]struct {
		tolerance             string
		replicas, most, zones int
		nodes                 int
		hostSpread            bool
		want                  string
	}{
		"a":                                 {unset, 1, 1, 1, 2, false, ""},
		"b":                                 {unset, 2, 2, 1, 2, false, "host any"},
		"c":                                 {unset, 2, 2, 1, 2, true, "host d2"},
		"d":                                 {"", 2, 2, 1, 2, false, "host any"},
		"e":                                 {"foo", 2, 2, 1, 2, false, "host d2"},
		"f":                                 {"node", 3, 4, 1, 2, false, "host d3"},
		"g":                                 {"node", 3, 4, 1, 1, false, "host any"},
		"h":                                 {unset, 2, 2, 2, 2, false, "host any, zone d2"},
		"j":                                 {"", 2, 2, 2, 2, false, "host any"},
		"k":                                 {"foo", 2, 2, 2, 2, false, "host d2"},
		"l":                                 {"zone", 2, 2, 2, 2, false, "host d2, zone d2"},
		"m":                                 {"zone", 2, 4, 2, 2, false, "host d3, zone d2"},
		"n":                                 {unset, 2, 4, 2, 2, false, "host any, zone d2"},
		"o":                                 {unset, 2, 4, 2, 2, true, "host d3, zone d2"},
		"p":                                 {unset, 2, 2, 3, 2, false, "host any, zone d2"},
		"q":                                 {unset, 2, 2, 3, 2, true, "host d2, zone d2"},
		"HA-34 the most is twice the zones": {"zone", 2, 4, 2, 3, false, "host d3, zone d2"},
		"an autoscaler that gives fewer":    {"node", 3, 2, 1, 3, false, "host d3"},
		"HA-31 one replica":                 {"zone", 1, 4, 2, 3, false, ""},
		"a cluster without nodes, so far":   {"zone", 2, 2, 2, 0, false, "host any, zone d2"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := target(t, test.tolerance, zonesOf[test.zones], test.nodes)
			metadata := ""
			if test.hostSpread {
				metadata = "annotations: {" + prefix + "host-spread: \"true\"}"
			}
			c.State.Autoscalers = []autoscalingv2.HorizontalPodAutoscaler{
				scaler("ns", "apps/v1", "StatefulSet", "w", int32(test.most)),
			}
			d := send(t, c, object("StatefulSet", metadata, "replicas: "+strconv.Itoa(test.replicas)+",", ""))
			g.Expect(shortly(d)).To(Equal(test.want))
			for _, constraint := range d.Spec.Template.Spec.TopologySpreadConstraints {
				g.Expect(constraint.LabelSelector).To(Equal(&metav1.LabelSelector{MatchLabels: map[string]string{"own": "s"}}))
			}
		})
	}
}

// HA-55 is part of the first case.
func TestHA_SpreadThatIsThereAlready(t *testing.T) {
	const existing = `topologySpreadConstraints: [
		{topologyKey: kubernetes.io/hostname, maxSkew: 34, whenUnsatisfiable: DoNotSchedule},
		{topologyKey: some-key, maxSkew: 12, whenUnsatisfiable: DoNotSchedule, labelSelector: {}},
		{topologyKey: ` + zoneKey + `, maxSkew: 56, whenUnsatisfiable: DoNotSchedule},
		{topologyKey: without-selector, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]`
	t.Run("HA-33 HA-36 HA-55 that of others stays", func(t *testing.T) {
		d := send(t, target(t, "zone", "a,b", 2), deployment("", "replicas: 2,", existing))
		NewWithT(t).Expect(shortly(d)).To(Equal("some-key d skew 12 by pod-template-hash, without-selector any, " +
			"host d2 by pod-template-hash, zone d2 by pod-template-hash"))
	})
	t.Run("HA-31 HA-36 with one replica all stays", func(t *testing.T) {
		d := send(t, target(t, "zone", "a,b", 2), deployment("", "replicas: 1,", existing))
		NewWithT(t).Expect(shortly(d)).To(Equal(
			"host d skew 34, some-key d skew 12 by pod-template-hash, zone d skew 56, without-selector any"))
	})
	t.Run("HA-36 no ReplicaSets", func(t *testing.T) {
		d := send(t, target(t, "zone", "a,b", 2), object("StatefulSet", "", "replicas: 2,", existing))
		NewWithT(t).Expect(shortly(d)).To(Equal("some-key d skew 12, without-selector any, host d2, zone d2"))
	})
	t.Run("HA-36 once is enough", func(t *testing.T) {
		d := send(t, target(t, unset, unset, 2), deployment("", "replicas: 1,", `topologySpreadConstraints: [
			{topologyKey: x, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, labelSelector: {},
				matchLabelKeys: [pod-template-hash, z]},
			{topologyKey: w, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway,
				labelSelector: {matchLabels: {pod-template-hash: z}}}]`))
		NewWithT(t).Expect(shortly(d)).To(Equal("x any by pod-template-hash+z, w any"))
	})
}

func TestHA37_SelectorOfAStatefulSet(t *testing.T) {
	selector := func(d *reviews.Target, object string) *metav1.LabelSelector {
		return send(t, *d, object).Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector
	}
	g := NewWithT(t)
	c := target(t, unset, unset, 2)
	g.Expect(selector(&c, object("StatefulSet", "", "replicas: 2,", ""))).To(Equal(
		&metav1.LabelSelector{MatchLabels: map[string]string{"own": "s"}}))
	g.Expect(selector(&c, deployment("", "replicas: 2,", ""))).To(Equal(
		&metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}))

	t.Log("HA-56 it is validated only afterwards")
	g.Expect(selector(&c, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: w}, spec: {replicas: 2, "+
		"template: {metadata: {labels: {app: x}}, spec: {}}}}")).To(Equal(&metav1.LabelSelector{}))

	t.Log("HA-57 as it was before v1.107")
	c.Settings.HighAvailabilityConfig.TemplateLabelSelectorForStatefulSets = new(bool)
	*c.Settings.HighAvailabilityConfig.TemplateLabelSelectorForStatefulSets = true
	g.Expect(selector(&c, object("StatefulSet", "", "replicas: 2,", ""))).To(Equal(
		&metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}))
}

func TestHA35_TheSkewOfOldVersions(t *testing.T) {
	for name, test := range map[string]struct {
		replicas, want string
	}{
		"twice the zones": {"4", "host d3 by pod-template-hash, zone d2 skew 2 by pod-template-hash"},
		"fewer":           {"3", "host d3 by pod-template-hash, zone d2 by pod-template-hash"},
	} {
		t.Run(name, func(t *testing.T) {
			c := target(t, "zone", "a,b", 2)
			c.Settings = reviews.Webhooks(t,
				"{registration: {scope: Runtime}, highAvailabilityConfig: {enabled: true, legacyMaxSkew: true}}")
			NewWithT(t).Expect(shortly(send(t, c, deployment("", "replicas: "+test.replicas+",", "")))).To(Equal(test.want))
		})
	}
}

func TestHA_Tolerations(t *testing.T) {
	const notReady, unreachable = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
	added := func(key, seconds string) string {
		return `{key: ` + key + `, operator: Exists, effect: NoExecute, tolerationSeconds: ` + seconds + `}`
	}
	both := added(notReady, "60") + `, ` + added(unreachable, "70")
	for name, test := range map[string]struct{ settings, before, want string }{
		"HA-38 none": {"", ``, both},
		"HA-39 of another effect": {"",
			`{key: ` + notReady + `, effect: NoSchedule}, {key: ` + unreachable + `, effect: NoSchedule}`,
			`{key: ` + notReady + `, effect: NoSchedule}, {key: ` + unreachable + `, effect: NoSchedule}, ` + both},
		"HA-40 one of them": {"", added(unreachable, "300"), added(unreachable, "300") + `, ` + added(notReady,
			"60")},
		"HA-41 nothing is configured": {"{registration: {scope: Runtime}, highAvailabilityConfig: {enabled: true}}", ``, ``},
		"HA-41 one is configured": {
			"{registration: {scope: Runtime}, highAvailabilityConfig: {enabled: true, defaultUnreachableTolerationSeconds: " +
				"0}}", ``,
			added(unreachable, "0")},
		"HA-42 of any effect": {"", `{key: ` + notReady + `, operator: Exists}, {key: ` + unreachable + `, operator: Exists}`,
			`{key: ` + notReady + `, operator: Exists}, {key: ` + unreachable + `, operator: Exists}`},
		"of any key": {"", `{operator: Exists}`, `{operator: Exists}, ` + both},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := target(t, unset, unset, 2)
			if test.settings != "" {
				c.Settings = reviews.Webhooks(t, test.settings)
			}
			var want []corev1.Toleration
			g.Expect(yaml.Unmarshal([]byte("["+test.want+"]"), &want)).To(Succeed())
			got := send(t, c, deployment("", "replicas: 0,", `tolerations: [`+test.before+`]`)).Spec.Template.Spec.Tolerations
			g.Expect(append([]corev1.Toleration{}, got...)).To(Equal(append([]corev1.Toleration{}, want...)))
		})
	}
}

// TestHA51_AllAtOnce is the example of the page. That the second pass changes nothing is part of every test.
func TestHA51_AllAtOnce(t *testing.T) {
	g := NewWithT(t)
	c := target(t, "zone", "b,a,c", 5)
	answer := c.Send(t, highavailability.Webhook(), deployment("server", "replicas: 1,", ""))
	g.Expect(answer.Object).To(MatchYAML(deployment("server", "replicas: 2,", `
		affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
			{matchExpressions: [{key: `+zoneKey+`, operator: In, values: [a, b, c]}]}]}}},
		topologySpreadConstraints: [
			{topologyKey: kubernetes.io/hostname, maxSkew: 1, minDomains: 2, whenUnsatisfiable: DoNotSchedule,
				labelSelector: {matchLabels: {app: x}}, matchLabelKeys: [pod-template-hash]},
			{topologyKey: `+zoneKey+`, maxSkew: 1, minDomains: 2, whenUnsatisfiable: DoNotSchedule,
				labelSelector: {matchLabels: {app: x}}, matchLabelKeys: [pod-template-hash]}],
		tolerations: [
			{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 60},
			{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 70}]`)))
}
