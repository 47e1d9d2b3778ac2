package health

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

// testProgress runs Progress on the cases.
func testProgress(t *testing.T, cases map[string]checkCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			live := object(t, test.object)
			result := Progress(live)
			g.Expect(result.Checked).To(BeTrue())
			g.Expect(result.Message).To(Equal(test.message))
			g.Expect(result.Progressing).To(Equal(test.message != ""))
			g.Expect(isSound(result.Problem)).To(BeTrue())
		})
	}
}

func TestH9_H10_H22_DeploymentProgress(t *testing.T) {
	progressing := func(condition string) string {
		return deployment + "spec: {selector: {matchLabels: {a: b}}}\n" +
			"status: {observedGeneration: 2, conditions: [{type: Available, status: 'True'}, {type: Progressing, " + condition +
			"}]}"
	}
	testProgress(t, map[string]checkCase{
		"rolled out": {progressing("status: 'True', reason: NewReplicaSetAvailable, message: done"), ""},
		"True for another reason": {progressing("status: 'True', reason: ReplicaSetUpdated, message: 1 of 2 updated"),
			"1 of 2 updated"},
		"False for that reason": {progressing("status: 'False', reason: NewReplicaSetAvailable, message: odd"), "odd"},
		"deadline exceeded": {progressing("status: 'False', reason: ProgressDeadlineExceeded, message: timed out"),
			"timed out"},
		"paused": {progressing("status: Unknown, reason: DeploymentPaused, message: paused"), "paused"},
		"without a message": {progressing("status: 'True', reason: FoundNewReplicaSet"),
			"condition Progressing is True (FoundNewReplicaSet)"},
		"without condition": {deployment + "status: {observedGeneration: 2}", "condition Progressing is missing"},
		"outdated": {deployment + "status: {observedGeneration: 1}",
			"generation 2 has not been observed yet, only 1"},
		"a selector that is not valid": {deployment + "spec: {selector: {matchExpressions: [{key: a, operator: Near}]}}\nstatus: {observedGeneration: 2, conditions: [{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]}", "the selector is not valid"},
		"a selector of a wrong type":   {deployment + "spec: {selector: {matchLabels: [a]}}\nstatus: {observedGeneration: 2, conditions: [{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]}", "the selector cannot be read"},
	})
}

// What a Deployment says of its pods matters where they cannot be counted, and nowhere else.
func TestDeploymentReportsItsPods(t *testing.T) {
	for status, reported := range map[string]string{
		"replicas: 2, updatedReplicas: 2": "",
		"replicas: 1, updatedReplicas: 1": "1 of 2 pods",
		"":                                "0 of 2 pods",
		"replicas: 2, updatedReplicas: 2, terminatingReplicas: 3": "old pods remain: 3 terminating",
	} {
		g := NewWithT(t)
		result := Progress(object(t, deployment+"spec: {replicas: 2, selector: {matchLabels: {a: b}}}\n"+
			"status: {observedGeneration: 2, conditions: [{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}], "+status+"}"))
		g.Expect(result.Reported.Message).To(Equal(reported), status)
		g.Expect(isSound(result.Reported)).To(BeTrue())
		g.Expect(result.Progressing).To(BeFalse())
		g.Expect(result.CountPods).To(BeTrue())
	}
}

func TestH9_H12_StatefulSetProgress(t *testing.T) {
	testProgress(t, map[string]checkCase{
		"rolled out": {statefulSet + "spec: {replicas: 2}\nstatus: {observedGeneration: 2, updatedReplicas: 2}",
			""},
		"one short": {statefulSet + "spec: {replicas: 2}\nstatus: {observedGeneration: 2, updatedReplicas: 1}",
			"1 of 2 updated replicas"},
		"none, default is one": {statefulSet + "status: {observedGeneration: 2}", "0 of 1 updated replicas"},
		"scaled to zero":       {statefulSet + "spec: {replicas: 0}\nstatus: {observedGeneration: 2}", ""},
		"outdated": {statefulSet + "status: {observedGeneration: 1, updatedReplicas: 1}",
			"generation 2 has not been observed yet, only 1"},
		"rolled out, none ready": {statefulSet + "status: {observedGeneration: 2, updatedReplicas: 1, readyReplicas: 0}", ""},
	})
}

func TestH9_H12_DaemonSetProgress(t *testing.T) {
	testProgress(t, map[string]checkCase{
		"rolled out": {daemonSet + "status: {observedGeneration: 2, desiredNumberScheduled: 2, updatedNumberScheduled: 2}",
			""},
		"no nodes": {daemonSet + "status: {observedGeneration: 2}", ""},
		"one short": {daemonSet + "status: {observedGeneration: 2, desiredNumberScheduled: 2, updatedNumberScheduled: 1}",
			"1 of 2 updated pods"},
		"outdated": {daemonSet + "status: {observedGeneration: 1}", "generation 2 has not been observed yet, only 1"},
	})
}

func TestH7_OtherKindsHaveNoRollOuts(t *testing.T) {
	for _, text := range []string{replicaSet, controller, job, pod, service, crd} {
		live := object(t, text)
		t.Run(live.GetKind(), func(t *testing.T) {
			g := NewWithT(t)
			progress := Progress(live)
			g.Expect(progress).To(Equal(ProgressResult{}))
			done, _ := PodsRolledOut(progress, slices.Values([]*Pod{}))
			g.Expect(done).To(BeTrue())
		})
	}
}

// The controller of Deployments may observe a generation and leave the condition of the last roll-out, as long as the
// new one makes no progress.
func TestH22_ConditionOfTheLastRolloutIsNotBelieved(t *testing.T) {
	for status, message := range map[string]string{
		"replicas: 2":                     "old pods remain: 0 of 2 pods are updated",
		"replicas: 2, updatedReplicas: 1": "old pods remain: 1 of 2 pods are updated",
		"replicas: 3, updatedReplicas: 1": "old pods remain: there are 3 pods instead of 2",
		"replicas: 2, updatedReplicas: 2": "",
	} {
		g := NewWithT(t)
		result := Progress(object(t, deployment+"spec: {replicas: 2, selector: {matchLabels: {a: b}}}\n"+
			"status: {observedGeneration: 2, "+
			"conditions: [{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}], "+status+"}"))
		g.Expect(result.Progressing).To(Equal(message != ""), status)
		g.Expect(result.Message).To(Equal(message), status)
	}
}
