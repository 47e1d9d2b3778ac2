package health

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func deploymentUnhealthy(deployment content) Problem {
	if outdated := deployment.outdated(); outdated != (Problem{}) {
		return outdated
	}
	progress := deployment.optional(string(appsv1.DeploymentProgressing), statusTrue)
	return worst(
		unavailable(deployment.required(string(appsv1.DeploymentAvailable), statusTrue)),
		problem(deployment.stuck(), progress),
		failed(deployment.optional(string(appsv1.DeploymentReplicaFailure), statusFalse)),
	)
}

// stuck returns the severity of a condition Progressing that is not True: False means that its controller gave up,
// Unknown that a user paused the roll-out.
func (c content) stuck() Severity {
	if c.condition(string(appsv1.DeploymentProgressing))["status"] == statusFalse {
		return Failed
	}
	return Unavailable
}

// newReplicaSetAvailable is the reason of the condition Progressing of a completed roll-out.
const newReplicaSetAvailable = "NewReplicaSetAvailable"

// deploymentProgressing checks the Deployment's own status; PodsRolledOut checks its pods.
func deploymentProgressing(deployment content) Problem {
	if outdated := deployment.outdated(); outdated != (Problem{}) {
		return outdated
	}
	condition := deployment.condition(string(appsv1.DeploymentProgressing))
	switch {
	case condition == nil:
		return waiting("condition Progressing is missing")
	case condition["status"] == statusTrue && condition["reason"] == newReplicaSetAvailable:
		return deployment.oldPods()
	case condition.text("message") != "":
		return problem(deployment.stuck(), condition.text("message"))
	default:
		return problem(deployment.stuck(), fmt.Sprintf("condition Progressing is %s%s", condition.text("status"),
			explanation(condition)))
	}
}

// oldPods reports pods of earlier templates or a larger scale that are not terminating yet. The condition Progressing
// is not sufficient (H-22): if the controller of Deployments fails to write it when it creates a ReplicaSet, because of
// a conflict, it is that of the last roll-out until the new one makes progress.
func (c content) oldPods() Problem {
	wanted, _ := c.replicas()
	have, updated := c.number(0, "status", "replicas"), c.number(0, "status", "updatedReplicas")
	switch {
	case have > wanted:
		return unavailable(fmt.Sprintf("old pods remain: there are %d pods instead of %d", have, wanted))
	case updated < have:
		return unavailable(fmt.Sprintf("old pods remain: %d of %d pods are updated", updated, have))
	}
	return Problem{}
}

// reportedPods returns what the status of a Deployment without old pods reports: pods that are missing or still
// terminating.
func (c content) reportedPods(wanted, ending int64) Problem {
	switch missing := c.notEnough("pods", "replicas", wanted); {
	case missing != "":
		return unavailable(missing)
	case ending > 0:
		return unavailable(fmt.Sprintf("old pods remain: %d terminating", ending))
	}
	return Problem{}
}

func statefulSetUnhealthy(statefulSet content) Problem {
	if outdated := statefulSet.outdated(); outdated != (Problem{}) {
		return outdated
	}
	wanted, _ := statefulSet.replicas()
	return unavailable(statefulSet.notEnough("ready replicas", "readyReplicas", wanted))
}

func statefulSetProgressing(statefulSet content) Problem {
	if outdated := statefulSet.outdated(); outdated != (Problem{}) {
		return outdated
	}
	wanted, _ := statefulSet.replicas()
	return unavailable(statefulSet.notEnough("updated replicas", "updatedReplicas", wanted))
}

// replicasUnhealthy is for ReplicaSets and ReplicationControllers. Unlike StatefulSets, they are not checked if the
// number of replicas is not set.
func replicasUnhealthy(object content) Problem {
	if outdated := object.outdated(); outdated != (Problem{}) {
		return outdated
	}
	wanted, given := object.replicas()
	if !given {
		return Problem{}
	}
	return unavailable(object.notEnough("ready replicas", "readyReplicas", wanted))
}

func daemonSetUnhealthy(daemonSet content) Problem {
	if outdated := daemonSet.outdated(); outdated != (Problem{}) {
		return outdated
	}
	desired := daemonSet.number(0, "status", "desiredNumberScheduled")
	if message := daemonSet.notEnough("scheduled pods", "currentNumberScheduled", desired); message != "" {
		return unavailable(message)
	}
	if misscheduled := daemonSet.number(0, "status", "numberMisscheduled"); misscheduled > 0 {
		return unavailable(fmt.Sprintf("%d pods run where they should not", misscheduled))
	}

	// Pods may be missing only during a roll-out, and only as many as maxUnavailable allows.
	allowed := int64(0)
	if daemonSet.number(0, "status", "updatedNumberScheduled") < desired {
		allowed = daemonSet.maxUnavailable(desired)
	}
	if missing := daemonSet.number(0, "status", "numberUnavailable"); missing > allowed {
		return unavailable(fmt.Sprintf("%d pods are unavailable, %d may be", missing, allowed))
	}
	return Problem{}
}

func daemonSetProgressing(daemonSet content) Problem {
	if outdated := daemonSet.outdated(); outdated != (Problem{}) {
		return outdated
	}
	return unavailable(daemonSet.notEnough("updated pods", "updatedNumberScheduled", daemonSet.number(
		0, "status", "desiredNumberScheduled")))
}

// maxUnavailable returns how many pods of a DaemonSet may be missing during a roll-out: percentages are rounded down,
// and the default is none.
func (c content) maxUnavailable(desired int64) int64 {
	if c.text("spec", "updateStrategy", "type") != string(appsv1.RollingUpdateDaemonSetStrategyType) {
		return 0
	}
	var value intstr.IntOrString
	switch given := c.field("spec", "updateStrategy", "rollingUpdate", "maxUnavailable").(type) {
	case int64:
		value = intstr.FromInt32(int32(given))
	case string:
		value = intstr.FromString(given)
	default:
		return 0
	}
	scaled, err := intstr.GetScaledValueFromIntOrPercent(&value, int(desired), false)
	if err != nil || desired == 0 {
		return 0
	}
	return int64(scaled)
}

// notEnough returns a message if a number in the status is lower than wanted, else "".
func (c content) notEnough(what, field string, wanted int64) string {
	if have := c.number(0, "status", field); have < wanted {
		return fmt.Sprintf("%d of %d %s", have, wanted, what)
	}
	return ""
}
