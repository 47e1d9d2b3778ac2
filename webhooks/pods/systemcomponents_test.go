package pods_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/pods"
)

const (
	managedLabel = `resources.gardener.cloud/managed-by: gardener`
	configured   = `systemComponentsConfig: {enabled: true, nodeSelector: {system: "true"}, podNodeSelector: {a: b},
		podTolerations: [{key: t1, operator: Exists}, {key: t2, value: v, effect: NoSchedule}]}`
	configuredTolerations = `{key: t1, operator: Exists}, {key: t2, value: v, effect: NoSchedule}`
)

func node(name, system string, taints ...corev1.Taint) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"system": system}},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
}

func placing(t testing.TB, nodes ...corev1.Node) reviews.Target {
	t.Helper()
	return reviews.Target{Settings: reviews.Webhooks(t, configured), State: &reviews.State{NodeList: nodes}}
}

// component is a pod of a system component.
func component(spec string) string { return pod(`labels: {`+managedLabel+`}`, spec) }

// SCC-5 is part of SCC-3.
func TestSCC_SystemComponents(t *testing.T) {
	k1 := corev1.Taint{Key: "k1", Value: "v1", Effect: corev1.TaintEffectNoExecute}
	k2 := corev1.Taint{Key: "k2", Effect: corev1.TaintEffectNoSchedule}
	ofConfig := corev1.Taint{Key: "t2", Value: "v", Effect: corev1.TaintEffectNoSchedule}
	for name, test := range map[string]struct {
		nodes        []corev1.Node
		before, want string
	}{
		"SCC-1 no nodes": {nil, ``, `nodeSelector: {a: b}, tolerations: [` + configuredTolerations + `]`},
		"SCC-2 nodes without taints": {[]corev1.Node{node("n", "true")}, ``,
			`nodeSelector: {a: b}, tolerations: [` + configuredTolerations + `]`},
		"SCC-3 SCC-5 each taint once": {
			[]corev1.Node{node("n1", "true", k2, k1), node("n0", "true", k1), node("n2", "true", k1, k2)}, ``,
			`nodeSelector: {a: b}, tolerations: [` + configuredTolerations + `, {key: k1, operator: Equal, value: v1,
				effect: NoExecute},
				{key: k2, operator: Exists, effect: NoSchedule}]`},
		"SCC-4 taints that come and go": {
			[]corev1.Node{node("n", "true", corev1.Taint{Key: "node.kubernetes.io/memory-pressure"},
				corev1.Taint{Key: "node.kubernetes.io/disk-pressure"}, corev1.Taint{Key: "node.kubernetes.io/pid-pressure"},
				corev1.Taint{Key: "node.kubernetes.io/network-unavailable"}, corev1.Taint{Key: "node.kubernetes.io/unschedulable"},
				corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized"},
				corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler"},
				corev1.Taint{Key: "node.gardener.cloud/critical-components-not-ready", Effect: "NoSchedule"})}, ``,
			`nodeSelector: {a: b}, tolerations: [` + configuredTolerations + `,
				{key: node.gardener.cloud/critical-components-not-ready, operator: Exists, effect: NoSchedule}]`},
		"SCC-6 tolerations of the pod, each once": {nil,
			`tolerations: [{key: x, operator: Exists, effect: NoExecute, tolerationSeconds: 5}, {key: t1, operator: Exists},
				{key: x, operator: Exists, effect: NoExecute, tolerationSeconds: 5}, {key: x, operator: Exists, effect: NoExecute},
				{key: x, operator: Exists, effect: NoExecute, tolerationSeconds: 0}]`,
			`nodeSelector: {a: b}, tolerations: [{key: x, operator: Exists, effect: NoExecute, tolerationSeconds: 5},
				{key: t1, operator: Exists}, {key: x, operator: Exists, effect: NoExecute},
				{key: x, operator: Exists, effect: NoExecute, tolerationSeconds: 0}, {key: t2, value: v, effect: NoSchedule}]`},
		"a taint that is tolerated as configured, written in another way": {[]corev1.Node{node("n", "true", ofConfig)}, ``,
			`nodeSelector: {a: b}, tolerations: [` + configuredTolerations + `, {key: t2, operator: Equal, value: v,
				effect: NoSchedule}]`},
		"SCC-9 other nodes": {[]corev1.Node{node("n", "false", k1)}, ``,
			`nodeSelector: {a: b}, tolerations: [` + configuredTolerations + `]`},
		"SCC-17 the selector of the pod": {nil, `nodeSelector: {a: x, c: d}`,
			`nodeSelector: {a: b, c: d}, tolerations: [` + configuredTolerations + `]`},
	} {
		t.Run(name, func(t *testing.T) {
			changed(t, placing(t, test.nodes...), pods.SystemComponents(), component(test.before), component(test.want))
		})
	}
	t.Run("SCC-7 skipped", func(t *testing.T) {
		unchanged(t, placing(t), pods.SystemComponents(),
			pod(`labels: {`+managedLabel+`, system-components-config.resources.gardener.cloud/skip: "false"}`, ``))
	})
	t.Run("SCC-8 managed by another", func(t *testing.T) {
		unchanged(t, placing(t), pods.SystemComponents(), pod(`labels: {resources.gardener.cloud/managed-by: x}`, ``))
	})
	t.Run("CMN-14 a static pod", func(t *testing.T) {
		unchanged(t, placing(t), pods.SystemComponents(), pod(`labels: {`+managedLabel+`, static-pod: "true"}`, ``))
	})
}

func TestSCC_PodsOfDaemonSets(t *testing.T) {
	const other = `{apiVersion: v1, kind: Node, name: other, uid: u}`
	owner := func(more string) string { return `{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u` + more + `}` }
	for name, test := range map[string]struct {
		owners    string
		unchanged bool
	}{
		"SCC-10 nothing is said":          {`null`, false},
		"SCC-11 none":                     {`[]`, false},
		"SCC-12 another":                  {`[` + other + `]`, false},
		"SCC-13 not said to control":      {`[` + owner("") + `]`, false},
		"SCC-14 does not control":         {`[` + owner(", controller: false") + `]`, false},
		"SCC-15 controls":                 {`[` + owner(", controller: true") + `]`, true},
		"SCC-16 controls, beside another": {`[` + other + `, ` + owner(", controller: true") + `]`, true},
	} {
		t.Run(name, func(t *testing.T) {
			answer := placing(t).Send(t, pods.SystemComponents(),
				pod(`labels: {`+managedLabel+`}, ownerReferences: `+test.owners, ``))
			if test.unchanged {
				NewWithT(t).Expect(answer.Patch).To(BeEmpty())
			} else {
				NewWithT(t).Expect(answer.Patch).NotTo(BeEmpty())
			}
		})
	}
}

func TestSCC18_NodesThatCannotBeListed(t *testing.T) {
	c := placing(t)
	c.State.Err = errors.New("no")
	NewWithT(t).Expect(c.Send(t, pods.SystemComponents(),
		component(``)).Err).To(MatchError(ContainSubstring("listing nodes: no")))
}

func TestSCC19_TheOrderIsAlwaysTheSame(t *testing.T) {
	var nodes []corev1.Node
	for i := range 20 {
		taint := corev1.Taint{Key: fmt.Sprint("k", 97*i%20), Effect: "NoSchedule"}
		nodes = append(nodes, node(fmt.Sprint("n", i), "true", taint))
	}
	first := placing(t, nodes...).Send(t, pods.SystemComponents(), component(``)).Patch
	for i := range 100 {
		nodes = append(nodes[1+i%7:], nodes[:1+i%7]...)
		NewWithT(t).Expect(placing(t, nodes...).Send(t, pods.SystemComponents(), component(``)).Patch).To(Equal(first))
	}
}

func TestSCC20_NodesOfOneTargetDoNotMatterToAnother(t *testing.T) {
	a := placing(t, node("n", "true", corev1.Taint{Key: "of-a", Effect: "NoSchedule"}))
	b := placing(t, node("n", "true", corev1.Taint{Key: "of-b", Effect: "NoSchedule"}))
	for range 3 {
		g := NewWithT(t)
		g.Expect(string(a.Send(t, pods.SystemComponents(), component(``)).Patch)).To(And(
			ContainSubstring("of-a"), Not(ContainSubstring("of-b"))))
		g.Expect(string(b.Send(t, pods.SystemComponents(), component(``)).Patch)).To(And(
			ContainSubstring("of-b"), Not(ContainSubstring("of-a"))))
	}
}

func TestSCC21_NodesThatAreTheLastKnownOnes(t *testing.T) {
	g := NewWithT(t)
	c := placing(t, node("n", "true", corev1.Taint{Key: "known", Effect: "NoSchedule"}))
	c.State.Stale = true
	answer := c.Send(t, pods.SystemComponents(), component(``))
	g.Expect(string(answer.Patch)).To(And(ContainSubstring(`"t1"`), ContainSubstring(`"known"`)))
	g.Expect(strings.Join(answer.Warnings, " ")).To(ContainSubstring("nodes cannot be listed"))
}
