package health

import (
	"fmt"
	"strconv"
)

// The conditions of the convention that many operators follow, known from kstatus.
const (
	conditionReady       = "Ready"
	conditionStalled     = "Stalled"
	conditionReconciling = "Reconciling"
)

const beingDeleted = "it is being deleted"

// speaks tells whether an object follows the convention at all: whether it has any of the fields that are looked at.
func speaks(object content) bool {
	_, observes := object.observedGeneration()
	return observes || object.isTerminating() || object.verdict(conditionReady) != nil ||
		object.verdict(conditionStalled) != nil || object.verdict(conditionReconciling) != nil
}

// genericUnhealthy tells why an object that follows the convention is not healthy. One that is going need not be.
func genericUnhealthy(object content) Problem {
	if object.isTerminating() {
		return Problem{}
	}
	return worst(object.stalled(), object.notReady(), object.unobserved())
}

// genericProgressing tells what an object that follows the convention is waiting for. One that is stalled waits for
// nothing.
func genericProgressing(object content) Problem {
	if object.isTerminating() {
		return waiting(beingDeleted)
	}
	if object.stalled() != (Problem{}) {
		return Problem{}
	}
	var reconciling, undecided Problem
	if condition := object.present(conditionReconciling); condition["status"] == statusTrue {
		reconciling = unavailable(describe(condition))
	}
	if condition := object.present(conditionReady); condition["status"] == statusUnknown {
		undecided = unavailable(describe(condition))
	}
	return worst(reconciling, undecided, object.unobserved())
}

func (c content) stalled() Problem {
	if condition := c.present(conditionStalled); condition["status"] == statusTrue {
		return failed(describe(condition))
	}
	return Problem{}
}

func (c content) notReady() Problem {
	if condition := c.present(conditionReady); condition != nil && condition["status"] != statusTrue {
		return unavailable(describe(condition))
	}
	return Problem{}
}

// unobserved returns why nothing is known of the present generation: the status as a whole is about an earlier one, or
// the condition Ready is.
func (c content) unobserved() Problem {
	generation := c.number(0, "metadata", "generation")
	if observed, has := c.observedGeneration(); has && observed < generation {
		return waiting(fmt.Sprintf("generation %d has not been observed yet, only %d", generation, observed))
	}
	if ready := c.verdict(conditionReady); ready != nil && ready.isOlderThan(generation) {
		return c.outdatedCondition(ready)
	}
	return Problem{}
}

// verdict returns a condition that says something: True, False or Unknown.
func (c content) verdict(conditionType string) content {
	condition := c.condition(conditionType)
	switch condition["status"] {
	case statusTrue, statusFalse, statusUnknown:
		return condition
	}
	return nil
}

// present returns a condition if it is about the present generation. What a condition itself says about that counts
// more than what the status says of all: some controllers note only there what they could not bring to its end.
func (c content) present(conditionType string) content {
	condition := c.verdict(conditionType)
	generation := c.number(0, "metadata", "generation")
	if condition == nil || condition.isOlderThan(generation) {
		return nil
	}
	if _, has := integer(condition["observedGeneration"]); has {
		return condition
	}
	if observed, has := c.observedGeneration(); has && observed < generation {
		return nil
	}
	return condition
}

// isOlderThan tells of a condition whether it says that it is about an earlier generation.
func (c content) isOlderThan(generation int64) bool {
	observed, has := integer(c["observedGeneration"])
	return has && observed < generation
}

func (c content) observedGeneration() (observed int64, has bool) {
	return integer(c.field("status", "observedGeneration"))
}

// integer reads a number, which some APIs write as a string.
func integer(value any) (number int64, ok bool) {
	switch value := value.(type) {
	case int64:
		return value, true
	case float64:
		return int64(value), true
	case string:
		number, err := strconv.ParseInt(value, 10, 64)
		return number, err == nil
	}
	return 0, false
}

func (c content) isTerminating() bool { return c.text("metadata", "deletionTimestamp") != "" }

func describe(condition content) string {
	return fmt.Sprintf("condition %s is %s%s", condition.text("type"), condition.text("status"), explanation(condition))
}
