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

// followsConvention reports whether an object has any of the fields of the convention.
func followsConvention(object content) bool {
	_, observes := object.observedGeneration()
	return observes || object.isTerminating() || object.valid(conditionReady) != nil ||
		object.valid(conditionStalled) != nil || object.valid(conditionReconciling) != nil
}

// genericUnhealthy returns why an object that follows the convention is not healthy. One that is being deleted need not
// be.
func genericUnhealthy(object content) Problem {
	if object.isTerminating() {
		return Problem{}
	}
	return worst(object.stalled(), object.notReady(), object.unobserved())
}

// genericProgressing returns what an object that follows the convention is waiting for. A stalled one waits for
// nothing.
func genericProgressing(object content) Problem {
	if object.isTerminating() {
		return waiting(beingDeleted)
	}
	if object.stalled() != (Problem{}) {
		return Problem{}
	}
	var reconciling, undecided Problem
	if condition := object.upToDate(conditionReconciling); condition["status"] == statusTrue {
		reconciling = unavailable(describe(condition))
	}
	if condition := object.upToDate(conditionReady); condition["status"] == statusUnknown {
		undecided = unavailable(describe(condition))
	}
	return worst(reconciling, undecided, object.unobserved())
}

func (c content) stalled() Problem {
	if condition := c.upToDate(conditionStalled); condition["status"] == statusTrue {
		return failed(describe(condition))
	}
	return Problem{}
}

func (c content) notReady() Problem {
	if condition := c.upToDate(conditionReady); condition != nil && condition["status"] != statusTrue {
		return unavailable(describe(condition))
	}
	return Problem{}
}

// unobserved returns a problem if the status as a whole, or the condition Ready, is about an earlier generation.
func (c content) unobserved() Problem {
	generation := c.number(0, "metadata", "generation")
	if observed, has := c.observedGeneration(); has && observed < generation {
		return waiting(fmt.Sprintf("generation %d has not been observed yet, only %d", generation, observed))
	}
	if ready := c.valid(conditionReady); ready != nil && ready.isOlderThan(generation) {
		return c.outdatedCondition(ready)
	}
	return Problem{}
}

// valid returns a condition whose status is True, False or Unknown.
func (c content) valid(conditionType string) content {
	condition := c.condition(conditionType)
	switch condition["status"] {
	case statusTrue, statusFalse, statusUnknown:
		return condition
	}
	return nil
}

// upToDate returns a condition if it is about the current generation. The observedGeneration of the condition takes
// precedence over that of the status, because some controllers set only the former when they fail.
func (c content) upToDate(conditionType string) content {
	condition := c.valid(conditionType)
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

// isOlderThan reports whether a condition says that it is about an earlier generation.
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
