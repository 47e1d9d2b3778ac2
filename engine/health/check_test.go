package health

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// checkCase is a live object and why it is unhealthy, or "".
type checkCase struct {
	object  string
	message string
}

// testCheck runs Check on the cases.
func testCheck(t *testing.T, cases map[string]checkCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			live := object(t, test.object)
			result := Check(live)
			g.Expect(result.Message).To(Equal(test.message))
			g.Expect(result.Healthy).To(Equal(test.message == ""))
			g.Expect(result.Checked).To(BeTrue())
			g.Expect(isSound(result.Problem)).To(BeTrue())
		})
	}
}

func TestDeploymentHealth(t *testing.T) {
	testCheck(t, map[string]checkCase{
		"available": {
			deployment + "status: {observedGeneration: 2, conditions: [{type: Available, status: 'True'}]}", "",
		},
		"a later generation observed": {
			deployment + "status: {observedGeneration: 3, conditions: [{type: Available, status: 'True'}]}", "",
		},
		"available, progressing, no replica failure": {
			deployment + "status: {observedGeneration: 2, conditions: [{type: Available, status: 'True'}, {type: Progressing, status: 'True'}, {type: ReplicaFailure, status: 'False'}]}", "",
		},
		"outdated": {
			deployment + "status: {observedGeneration: 1, conditions: [{type: Available, status: 'True'}]}",
			"generation 2 has not been observed yet, only 1",
		},
		"without status": {
			deployment, "generation 2 has not been observed yet, only 0",
		},
		"without Available": {
			deployment + "status: {observedGeneration: 2}", "condition Available is missing",
		},
		"not available": {
			deployment + "status: {observedGeneration: 2, conditions: [{type: Available, status: 'False', reason: MinimumReplicasUnavailable, message: too few}]}",
			"condition Available is False (MinimumReplicasUnavailable): too few",
		},
		"deadline exceeded": {
			deployment + "status: {observedGeneration: 2, conditions: [{type: Available, status: 'True'}, {type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}]}",
			"condition Progressing is False (ProgressDeadlineExceeded)",
		},
		"progress unknown": {
			deployment + "status: {observedGeneration: 2, conditions: [{type: Available, status: 'True'}, {type: Progressing, status: Unknown}]}",
			"condition Progressing is Unknown",
		},
		"replica failure": {
			deployment + "status: {observedGeneration: 2, conditions: [{type: Available, status: 'True'}, {type: ReplicaFailure, status: 'True', message: quota}]}",
			"condition ReplicaFailure is True: quota",
		},
	})
}

func TestStatefulSetHealth(t *testing.T) {
	testCheck(t, map[string]checkCase{
		"ready":                     {statefulSet + "spec: {replicas: 2}\nstatus: {observedGeneration: 2, readyReplicas: 2}", ""},
		"scaled to zero":            {statefulSet + "spec: {replicas: 0}\nstatus: {observedGeneration: 2}", ""},
		"outdated":                  {statefulSet + "spec: {replicas: 1}\nstatus: {observedGeneration: 1, readyReplicas: 1}", "generation 2 has not been observed yet, only 1"},
		"one short":                 {statefulSet + "spec: {replicas: 2}\nstatus: {observedGeneration: 2, readyReplicas: 1}", "1 of 2 ready replicas"},
		"none, default is one":      {statefulSet + "spec: {}\nstatus: {observedGeneration: 2}", "0 of 1 ready replicas"},
		"ready, default is one":     {statefulSet + "status: {observedGeneration: 2, readyReplicas: 1}", ""},
		"more ready than necessary": {statefulSet + "spec: {replicas: 1}\nstatus: {observedGeneration: 2, readyReplicas: 2}", ""},
	})
}

func TestH20_DaemonSetHealth(t *testing.T) {
	rolling := func(maxUnavailable, status string) string {
		return daemonSet + "spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: " + maxUnavailable + "}}}\n" +
			"status: {observedGeneration: 2, " + status + "}"
	}
	testCheck(t, map[string]checkCase{
		"settled":  {rolling("1", "desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 3"), ""},
		"no nodes": {rolling("1", ""), ""},
		"outdated generation": {
			daemonSet + "status: {observedGeneration: 1}", "generation 2 has not been observed yet, only 1",
		},
		"too few scheduled": {
			rolling("1", "desiredNumberScheduled: 3, currentNumberScheduled: 2, updatedNumberScheduled: 3"), "2 of 3 scheduled pods",
		},
		"misscheduled": {
			rolling("1", "desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 3, numberMisscheduled: 1"),
			"1 pods run where they should not",
		},
		"unavailable after the roll-out": {
			rolling("1", "desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 3, numberUnavailable: 1"),
			"1 pods are unavailable, 0 may be",
		},
		"allowed unavailable during the roll-out": {
			rolling("1", "desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 2, numberUnavailable: 1"), "",
		},
		"too many unavailable during the roll-out": {
			rolling("1", "desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 2, numberUnavailable: 2"),
			"2 pods are unavailable, 1 may be",
		},
		"percentage, allowed": {
			rolling("25%", "desiredNumberScheduled: 8, currentNumberScheduled: 8, numberUnavailable: 2"), "",
		},
		"percentage, rounded down": {
			rolling("25%", "desiredNumberScheduled: 7, currentNumberScheduled: 7, numberUnavailable: 2"), "2 pods are unavailable, 1 may be",
		},
		"percentage, rounded down to none": {
			rolling("25%", "desiredNumberScheduled: 3, currentNumberScheduled: 3, numberUnavailable: 1"), "1 pods are unavailable, 0 may be",
		},
		"bad value": {
			rolling("many", "desiredNumberScheduled: 3, currentNumberScheduled: 3, numberUnavailable: 1"), "1 pods are unavailable, 0 may be",
		},
		"no value": {
			rolling("", "desiredNumberScheduled: 3, currentNumberScheduled: 3, numberUnavailable: 1"), "1 pods are unavailable, 0 may be",
		},
		"no rolling update config": {
			daemonSet + "spec: {updateStrategy: {type: RollingUpdate}}\n" +
				"status: {observedGeneration: 2, desiredNumberScheduled: 3, currentNumberScheduled: 3, numberUnavailable: 1}",
			"1 pods are unavailable, 0 may be",
		},
		"update on delete": {
			daemonSet + "spec: {updateStrategy: {type: OnDelete, rollingUpdate: {maxUnavailable: 3}}}\n" +
				"status: {observedGeneration: 2, desiredNumberScheduled: 3, currentNumberScheduled: 3, numberUnavailable: 1}",
			"1 pods are unavailable, 0 may be",
		},
	})
}

func TestReplicaSetAndReplicationControllerHealth(t *testing.T) {
	for _, head := range []string{replicaSet, controller} {
		testCheck(t, map[string]checkCase{
			"ready":              {head + "spec: {replicas: 2}\nstatus: {observedGeneration: 2, readyReplicas: 2}", ""},
			"one short":          {head + "spec: {replicas: 2}\nstatus: {observedGeneration: 2, readyReplicas: 1}", "1 of 2 ready replicas"},
			"replicas not given": {head + "status: {observedGeneration: 2}", ""},
			"outdated":           {head + "status: {observedGeneration: 1}", "generation 2 has not been observed yet, only 1"},
		})
	}
}

func TestJobHealth(t *testing.T) {
	testCheck(t, map[string]checkCase{
		"running":    {job, ""},
		"complete":   {job + "status: {conditions: [{type: Complete, status: 'True'}]}", ""},
		"not failed": {job + "status: {conditions: [{type: Failed, status: 'False'}]}", ""},
		"failed": {
			job + "status: {conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded, message: gave up}]}",
			"condition Failed is True (BackoffLimitExceeded): gave up",
		},
	})
}

func TestH6_PodHealth(t *testing.T) {
	testCheck(t, map[string]checkCase{
		"pending":            {pod + "status: {phase: Pending}", "the pod is in phase Pending"},
		"running":            {pod + "status: {phase: Running}", ""},
		"running, not ready": {pod + "status: {phase: Running, conditions: [{type: Ready, status: 'False'}]}", ""},
		"succeeded":          {pod + "status: {phase: Succeeded}", ""},
		"failed":             {pod + "status: {phase: Failed}", "the pod is in phase Failed"},
		"unknown":            {pod + "status: {phase: Unknown}", "the pod is in phase Unknown"},
		"without status":     {pod, "the pod has no phase yet"},
	})
}

func TestServiceHealth(t *testing.T) {
	testCheck(t, map[string]checkCase{
		"cluster IP":                    {service + "spec: {type: ClusterIP}", ""},
		"without type":                  {service, ""},
		"load balancer with ingress":    {service + "spec: {type: LoadBalancer}\nstatus: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}", ""},
		"load balancer without ingress": {service + "spec: {type: LoadBalancer}\nstatus: {loadBalancer: {ingress: []}}", "the load balancer has no ingress yet"},
		"load balancer without status":  {service + "spec: {type: LoadBalancer}", "the load balancer has no ingress yet"},
	})
}

func TestCustomResourceDefinitionHealth(t *testing.T) {
	conditions := func(accepted, established, terminating string) string {
		text := crd + "status:\n  conditions:\n  - {type: Other, status: 'False'}\n"
		for conditionType, status := range map[string]string{"NamesAccepted": accepted, "Established": established, "Terminating": terminating} {
			if status != "" {
				text += "  - {type: " + conditionType + ", status: '" + status + "', reason: R}\n"
			}
		}
		return text
	}
	testCheck(t, map[string]checkCase{
		"established":      {conditions("True", "True", ""), ""},
		"not terminating":  {conditions("True", "True", "False"), ""},
		"terminating":      {conditions("True", "True", "True"), "condition Terminating is True (R)"},
		"names missing":    {conditions("", "True", ""), "condition NamesAccepted is missing"},
		"names refused":    {conditions("False", "True", ""), "condition NamesAccepted is False (R)"},
		"not established":  {conditions("True", "False", ""), "condition Established is False (R)"},
		"not yet":          {conditions("True", "", ""), "condition Established is missing"},
		"without a status": {crd, "condition NamesAccepted is missing"},
	})
}

func TestAPIServiceHealth(t *testing.T) {
	const service = "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.a}\n"
	testCheck(t, map[string]checkCase{
		"available":     {service + "status: {conditions: [{type: Available, status: 'True', reason: Passed}]}", ""},
		"not available": {service + "status: {conditions: [{type: Available, status: 'False', reason: MissingEndpoints, message: no endpoints}]}", "condition Available is False (MissingEndpoints): no endpoints"},
		"not known":     {service + "status: {conditions: [{type: Available, status: Unknown}]}", "condition Available is Unknown"},
		"new":           {service, ""},
	})
}

// H-9: what is well is neither unhealthy nor progressing, in every kind that has criteria.
func TestH9_TypicalObjectsAreWell(t *testing.T) {
	covered := map[schema.GroupKind]bool{}
	for name, text := range well {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			live := object(t, text)
			covered[live.GroupVersionKind().GroupKind()] = true
			g.Expect(Check(live).Problem).To(Equal(Problem{}))
			g.Expect(Check(live).Healthy).To(BeTrue())
			g.Expect(Progress(live).Problem).To(Equal(Problem{}))
		})
	}
	for gk := range kinds {
		NewWithT(t).Expect(covered).To(HaveKey(gk))
	}
}

func TestH24_KindsWithoutCriteriaAreNotChecked(t *testing.T) {
	const broken = "\nmetadata: {name: a, generation: 2, deletionTimestamp: '2026-01-01T00:00:00Z'}" +
		"\nstatus: {phase: Terminating, observedGeneration: 1, conditions: [{type: Ready, status: 'False'}, {type: Stalled, status: 'True'}]}"
	for name, head := range map[string]string{
		"Namespace":                 "apiVersion: v1\nkind: Namespace",
		"ConfigMap":                 "apiVersion: v1\nkind: ConfigMap",
		"PersistentVolumeClaim":     "apiVersion: v1\nkind: PersistentVolumeClaim",
		"PodDisruptionBudget":       "apiVersion: policy/v1\nkind: PodDisruptionBudget",
		"CronJob":                   "apiVersion: batch/v1\nkind: CronJob",
		"HorizontalPodAutoscaler":   "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler",
		"Ingress":                   "apiVersion: networking.k8s.io/v1\nkind: Ingress",
		"ClusterRole":               "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole",
		"FlowSchema":                "apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: FlowSchema",
		"CertificateSigningRequest": "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest",
		"Deployment of the core":    "apiVersion: v1\nkind: Deployment",
		"nothing at all":            "a: b",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			live := object(t, head+broken)
			g.Expect(Check(live)).To(Equal(Result{Healthy: true}))
			g.Expect(Progress(live)).To(Equal(ProgressResult{}))
			g.Expect(NeedsFullObject(live.GroupVersionKind().GroupKind())).To(BeFalse(), "metadata is enough")
		})
	}
	t.Run("a foreign kind without a status that is known", func(t *testing.T) {
		g := NewWithT(t)
		live := object(t, "apiVersion: core.gardener.cloud/v1beta1\nkind: Shoot\nmetadata: {name: a, generation: 2}\nstatus: {conditions: [{type: APIServerAvailable, status: 'False'}]}")
		g.Expect(Check(live)).To(Equal(Result{Healthy: true}))
		g.Expect(Progress(live)).To(Equal(ProgressResult{}))
	})
}

// What is checked depends on the kind, not on the version in which it is served.
func TestEveryVersionOfAKindIsChecked(t *testing.T) {
	for gk := range kinds {
		for _, version := range []string{"v1", "v1beta1", "v2alpha7"} {
			t.Run(gk.String()+" "+version, func(t *testing.T) {
				g := NewWithT(t)
				live := object(t, "metadata: {name: a, generation: 2}\nspec: {type: LoadBalancer}\nstatus: {conditions: [{type: Failed, status: 'True'}, {type: ConfigUnsupported, status: 'True'}, {type: Available, status: 'False'}]}")
				live.SetGroupVersionKind(gk.WithVersion(version))
				result := Check(live)
				g.Expect(result.Checked).To(BeTrue())
				g.Expect(result.Healthy).To(BeFalse())
			})
		}
	}
}

func TestH25_SkipAnnotationTurnsChecksOff(t *testing.T) {
	unhealthy := []string{
		deployment, statefulSet, daemonSet + "status: {observedGeneration: 1}", replicaSet, controller,
		job + "status: {conditions: [{type: Failed, status: 'True'}]}", pod, service + "spec: {type: LoadBalancer}", crd,
		autoscaler + "status: {conditions: [{type: ConfigUnsupported, status: 'True'}]}", prometheus, alertmanager, certificate, issuer,
		custom + "status: {observedGeneration: 1}",
	}
	for _, text := range unhealthy {
		live := object(t, text)
		t.Run(live.GetKind(), func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(Check(live).Healthy).To(BeFalse())
			for _, almost := range []string{"True", "1", "false", ""} {
				live.SetAnnotations(map[string]string{"resources.gardener.cloud/skip-health-check": almost})
				g.Expect(Check(live).Healthy).To(BeFalse(), "only the exact value true counts, not %q", almost)
			}
			live.SetAnnotations(map[string]string{"resources.gardener.cloud/skip-health-check": "true"})
			g.Expect(Check(live)).To(Equal(Result{Healthy: true}))
			g.Expect(Progress(live)).To(Equal(ProgressResult{}))
		})
	}
}
