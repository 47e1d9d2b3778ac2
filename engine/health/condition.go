package health

import "fmt"

// Values of the status of a condition.
const (
	statusTrue    = "True"
	statusFalse   = "False"
	statusUnknown = "Unknown"
)

// maxMessage bounds a message, and so the memory for text that a target controls.
const maxMessage = 512

// condition returns the condition of the given type, or nil.
func (c content) condition(conditionType string) content {
	conditions, _ := c.field("status", "conditions").([]any)
	for _, element := range conditions {
		if condition, isMap := element.(map[string]any); isMap && condition["type"] == conditionType {
			return condition
		}
	}
	return nil
}

// required returns why a condition that must be present with the given status is not, or "".
func (c content) required(conditionType, status string) string {
	if c.condition(conditionType) == nil {
		return fmt.Sprintf("condition %s is missing", conditionType)
	}
	return c.optional(conditionType, status)
}

// optional returns why a condition that must have the given status if it is present has another, or "".
func (c content) optional(conditionType, status string) string {
	condition := c.condition(conditionType)
	if condition == nil || condition["status"] == status {
		return ""
	}
	return fmt.Sprintf("condition %s is %s%s", conditionType, condition.text("status"), explanation(condition))
}

// explanation returns a condition's reason and message as the end of a sentence.
func explanation(condition content) string {
	reason, message := condition.text("reason"), condition.text("message")
	switch {
	case reason != "" && message != "":
		return fmt.Sprintf(" (%s): %s", reason, message)
	case reason != "":
		return fmt.Sprintf(" (%s)", reason)
	case message != "":
		return ": " + message
	default:
		return ""
	}
}
