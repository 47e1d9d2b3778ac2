package health

import (
	"iter"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rolledOut is a Deployment that looks rolled out, with the given spec.
func rolledOut(t testing.TB, spec string) ProgressResult {
	return Progress(object(t, deployment+"spec: "+spec+"\n"+
		"status: {observedGeneration: 2, conditions: [{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]}"))
}

// pods returns pods that are all relevant, one for each set of labels.
func pods(labels ...map[string]string) iter.Seq[*Pod] {
	var pods []*Pod
	for _, labels := range labels {
		pods = append(pods, &Pod{Labels: LabelsOf(labels), Relevant: true})
	}
	return slices.Values(pods)
}

func TestH11_H21_NumberOfPodsDecides(t *testing.T) {
	a, b := map[string]string{"app": "a"}, map[string]string{"app": "b"}
	const selectsA, expressionA = "selector: {matchLabels: {app: a}}",
		"selector: {matchExpressions: [{key: app, operator: In, values: [a]}]}"

	for name, test := range map[string]struct {
		spec    string
		pods    iter.Seq[*Pod]
		message string
	}{
		"as many as wanted": {"{replicas: 2, " + selectsA + "}", pods(a, a, b), ""},
		"one, default":      {"{" + selectsA + "}", pods(a), ""},
		"none wanted":       {"{replicas: 0, " + selectsA + "}", pods(b), ""},
		"an old pod": {"{replicas: 1, " + selectsA + "}", pods(a, a),
			"old pods remain: there are 2 pods instead of 1"},
		"too few":                         {"{replicas: 2, " + selectsA + "}", pods(a, b), "1 of 2 pods"},
		"expressions count":               {"{replicas: 1, " + expressionA + "}", pods(a, b, b), ""},
		"labels and expressions":          {"{replicas: 1, selector: {matchLabels: {app: a}, matchExpressions: [{key: x, operator: DoesNotExist}]}}", pods(a, map[string]string{"app": "a", "x": "y"}), ""},
		"BUG-5, empty selector":           {"{replicas: 2, selector: {}}", pods(a, b), "0 of 2 pods"},
		"BUG-5, no selector":              {"{replicas: 2}", pods(a, b), "0 of 2 pods"},
		"BUG-5, selector with empty list": {"{replicas: 2, selector: {matchExpressions: []}}", pods(a, b), "0 of 2 pods"},
		"pods without labels":             {"{replicas: 0, " + selectsA + "}", pods(nil, nil), ""},
		"irrelevant pods do not count": {"{replicas: 1, " + selectsA + "}",
			slices.Values([]*Pod{{Labels: LabelsOf(a)}, {Labels: LabelsOf(a), Relevant: true}}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			progress := rolledOut(t, test.spec)
			g.Expect(progress.Progressing).To(BeFalse())
			done, message := PodsRolledOut(progress, test.pods)
			g.Expect(message).To(Equal(test.message))
			g.Expect(done).To(Equal(test.message == ""))
		})
	}
}

func TestW14_PodsAreNotLookedAtBeforeTheDeploymentIsRolledOut(t *testing.T) {
	g := NewWithT(t)
	progress := Progress(object(t, deployment))
	done, message := PodsRolledOut(progress, func(func(*Pod) bool) { t.Error("pods were looked at") })
	g.Expect(done).To(BeFalse())
	g.Expect(message).To(Equal("generation 2 has not been observed yet, only 0"))
}

func TestH21_RelevantPods(t *testing.T) {
	for status, relevant := range map[string]bool{
		"{}":                                true,
		"{phase: Pending}":                  true,
		"{phase: Running}":                  true,
		"{phase: Succeeded}":                false,
		"{phase: Failed}":                   false,
		"{phase: Running, reason: Evicted}": false,
		"{phase: Running, reason: TheKubeletEvictedIt}":                               false,
		"{phase: Pending, reason: NodeAffinity}":                                      false,
		"{phase: Running, reason: NodeLost}":                                          false,
		"{phase: Running, reason: Preempting}":                                        false,
		"{phase: Pending, reason: OutOfcpu}":                                          false,
		"{phase: Pending, reason: OutOfmemory}":                                       false,
		"{phase: Pending, reason: NotOutOfcpu}":                                       true,
		"{conditions: [{type: Ready, status: 'False'}]}":                              true,
		"{conditions: [{type: Ready, status: 'False', reason: PodCompleted}]}":        false,
		"{conditions: [{type: Ready, status: 'True', reason: PodCompleted}]}":         true,
		"{conditions: [{type: DisruptionTarget, status: 'True', reason: Eviction}]}":  false,
		"{conditions: [{type: DisruptionTarget, status: 'False', reason: Eviction}]}": true,
	} {
		t.Run(status, func(t *testing.T) {
			g := NewWithT(t)
			live := object(t, pod+"status: "+status)
			live.SetLabels(map[string]string{"app": "a"})
			kept := PodOf(live)
			g.Expect(kept.Name).To(Equal("a"))
			g.Expect(kept.Labels).To(Equal(LabelsOf(map[string]string{"app": "a"})))
			g.Expect(kept.Relevant).To(Equal(relevant))
		})
	}

	t.Run("terminating pods count", func(t *testing.T) {
		live := object(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}\nstatus: {phase: Running}")
		NewWithT(t).Expect(relevantPod(live)).To(BeTrue())
	})
}

// Pods are watched by a label, and apart from their Deployment. The Deployment knows of those that are not seen (H-11).
func TestPodsThatAreNotSeen(t *testing.T) {
	const text = deployment + "spec: {replicas: 1, selector: {matchLabels: {app: a}}}\nstatus: {observedGeneration: 2, " +
		"conditions: [{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}], "
	a := LabelsOf(map[string]string{"app": "a"})
	current, ending, disrupted := &Pod{Labels: a, Relevant: true}, &Pod{Labels: a, Relevant: true, Terminating: true},
		&Pod{Labels: a, Terminating: true}
	foreign := &Pod{Labels: LabelsOf(map[string]string{"app": "b"}), Relevant: true, Terminating: true}

	for name, test := range map[string]struct {
		counts  string
		pods    []*Pod
		message string
	}{
		"all seen":                   {"replicas: 1, updatedReplicas: 1, terminatingReplicas: 0}", []*Pod{current}, ""},
		"a server that does not say": {"replicas: 1, updatedReplicas: 1}", []*Pod{current}, ""},
		"an old pod that is not ended yet": {"replicas: 2, updatedReplicas: 1, terminatingReplicas: 0}", []*Pod{current},
			"old pods remain: there are 2 pods instead of 1"},
		"an old pod without the label": {"replicas: 1, updatedReplicas: 1, terminatingReplicas: 1}", []*Pod{current},
			"old pods remain: 1 more terminating"},
		"the old pod is seen": {"replicas: 1, updatedReplicas: 1, terminatingReplicas: 1}",
			[]*Pod{current, ending}, "old pods remain: there are 2 pods instead of 1"},
		"H-21, one that is disrupted": {"replicas: 1, updatedReplicas: 1, terminatingReplicas: 1}",
			[]*Pod{current, disrupted}, ""},
		"one of something else": {"replicas: 1, updatedReplicas: 1, terminatingReplicas: 1}",
			[]*Pod{current, foreign}, "old pods remain: 1 more terminating"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			done, message := PodsRolledOut(Progress(object(t, text+test.counts)), slices.Values(test.pods))
			g.Expect(message).To(Equal(test.message))
			g.Expect(done).To(Equal(test.message == ""))
		})
	}
}

func TestPodsThatHaveEndedAreNotEnding(t *testing.T) {
	for phase, terminating := range map[string]bool{"Pending": true, "Running": true, "Succeeded": false,
		"Failed": false} {
		live := object(t, pod+"status: {phase: "+phase+"}")
		NewWithT(t).Expect(PodOf(live).Terminating).To(BeFalse(), phase)
		now := metav1.Now()
		live.SetDeletionTimestamp(&now)
		NewWithT(t).Expect(PodOf(live).Terminating).To(Equal(terminating), phase)
	}
}
