package v1alpha1

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	messageInitialized = "The condition was not checked yet."
	messageMissing     = "No message was given."
)

// NewCondition returns a condition that was not checked yet.
func NewCondition(now time.Time, conditionType ConditionType) Condition {
	return Condition{
		Type:               conditionType,
		Status:             ConditionUnknown,
		LastTransitionTime: timestamp(now),
		LastUpdateTime:     timestamp(now),
		Reason:             ReasonConditionInitialized,
		Message:            messageInitialized,
	}
}

// GetCondition returns the condition of a type, as a pointer into the list; nil if the list has none.
func GetCondition(conditions []Condition, conditionType ConditionType) *Condition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}
	return nil
}

// UpdatedCondition returns a condition after a new observation. The transition time changes if and only if the status
// did; the update time, if and only if the reason, the message or the codes did. An empty reason or message is replaced
// by a default, because the API requires both. Codes are not kept.
func UpdatedCondition(now time.Time, old Condition, status ConditionStatus, reason, message string,
	codes ...string) Condition {
	if reason == "" {
		reason = ReasonUnspecified
	}
	if message == "" {
		message = messageMissing
	}

	updated := old
	updated.Status, updated.Reason, updated.Message, updated.Codes = status, reason, message, codes
	if old.Status != status {
		updated.LastTransitionTime = timestamp(now)
	}
	if old.Reason != reason || old.Message != message || !slices.Equal(old.Codes, codes) {
		updated.LastUpdateTime = timestamp(now)
	}
	return updated
}

// SetCondition returns the list with the condition of a type updated by UpdatedCondition, or added if there is none.
// The given list is not changed.
func SetCondition(now time.Time, conditions []Condition, conditionType ConditionType, status ConditionStatus, reason,
	message string, codes ...string) []Condition {
	old := NewCondition(now, conditionType)
	if existing := GetCondition(conditions, conditionType); existing != nil {
		old = *existing
	}
	return MergeConditions(conditions, UpdatedCondition(now, old, status, reason, message, codes...))
}

// MergeConditions returns the list with each update in the place of the condition of its type, or at the end if there
// is none. The order of existing conditions is kept, so that a patch of the list is small. The given list is not
// changed.
func MergeConditions(conditions []Condition, updates ...Condition) []Condition {
	merged := slices.Clone(conditions)
	for _, update := range updates {
		if existing := GetCondition(merged, update.Type); existing != nil {
			*existing = update
		} else {
			merged = append(merged, update)
		}
	}
	return merged
}

// timestamp cuts a time to the precision of the API, so that a condition equals itself after a round trip.
func timestamp(t time.Time) metav1.Time {
	return metav1.NewTime(t.Truncate(time.Second))
}
