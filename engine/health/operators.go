package health

import "fmt"

// Kinds of operators that have criteria of their own.

// verticalPodAutoscalerUnhealthy does not check the observed generation. The recommender, which sets the conditions,
// may itself depend on a VerticalPodAutoscaler to start.
func verticalPodAutoscalerUnhealthy(autoscaler content) Problem {
	return failed(autoscaler.optional("ConfigUnsupported", statusFalse))
}

// monitoringUnhealthy is for Prometheus and Alertmanager.
func monitoringUnhealthy(object content) Problem {
	if problem := object.current("Available"); problem != (Problem{}) {
		return problem
	}
	wanted, _ := object.replicas()
	return unavailable(object.notEnough("available replicas", "availableReplicas", wanted))
}

func monitoringProgressing(object content) Problem {
	if problem := object.current("Reconciled"); problem != (Problem{}) {
		return problem
	}
	wanted, _ := object.replicas()
	return unavailable(object.notEnough("updated replicas", "updatedReplicas", wanted))
}

// current returns why a condition is not present and True for the current generation.
func (c content) current(conditionType string) Problem {
	condition := c.condition(conditionType)
	if condition == nil {
		return waiting(c.required(conditionType, statusTrue))
	}
	if outdated := c.outdatedCondition(condition); outdated != (Problem{}) {
		return outdated
	}
	return unavailable(c.required(conditionType, statusTrue))
}

// outdatedCondition returns a problem if a condition is about an earlier generation of the spec.
func (c content) outdatedCondition(condition content) Problem {
	observed, _ := integer(condition["observedGeneration"])
	if generation := c.number(0, "metadata", "generation"); observed < generation {
		return waiting(fmt.Sprintf("condition %s is about generation %d, not about %d", condition.text("type"), observed,
			generation))
	}
	return Problem{}
}

func certificateUnhealthy(certificate content) Problem {
	return worst(
		unavailable(certificate.optional(conditionReady, statusTrue)),
		issuerUnhealthy(certificate),
	)
}

// issuerUnhealthy checks what Issuers and Certificates have in common.
func issuerUnhealthy(object content) Problem {
	state := object.text("status", "state")
	severity := Unavailable
	switch state {
	case "Ready":
		return Problem{}
	case "":
		return waiting("there is no state yet")
	case "Error":
		severity = Failed
	}
	return problem(severity, fmt.Sprintf("the state is %s%s", state,
		explanation(content{"message": object.text("status", "message")})))
}
