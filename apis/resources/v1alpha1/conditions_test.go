package v1alpha1_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

var (
	before = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now    = before.Add(time.Hour)
)

func TestNewConditionKnowsNothing(t *testing.T) {
	g := NewWithT(t)
	condition := NewCondition(now.Add(123*time.Millisecond), ConditionReady)
	g.Expect(condition.Type).To(Equal(ConditionReady))
	g.Expect(condition.Status).To(Equal(ConditionUnknown))
	g.Expect(condition.Reason).To(Equal("ConditionInitialized"))
	g.Expect(condition.Message).NotTo(BeEmpty())
	g.Expect(condition.LastTransitionTime.Time).To(Equal(now), "times have the precision of the API")
	g.Expect(condition.LastUpdateTime.Time).To(Equal(now))
}

func TestUpdatedCondition(t *testing.T) {
	old := Condition{
		Type: ConditionResourcesApplied, Status: ConditionTrue, Reason: "A", Message: "a", Codes: []string{"ERR"},
		LastTransitionTime: metav1.NewTime(before), LastUpdateTime: metav1.NewTime(before),
	}
	tests := map[string]struct {
		status                          ConditionStatus
		reason, message                 string
		codes                           []string
		transitionMoves, updateMoves    bool
		expectedReason, expectedMessage string
	}{
		"nothing new":                  {ConditionTrue, "A", "a", []string{"ERR"}, false, false, "A", "a"},
		"only the status":              {ConditionProgressing, "A", "a", []string{"ERR"}, true, false, "A", "a"},
		"only the reason":              {ConditionTrue, "B", "a", []string{"ERR"}, false, true, "B", "a"},
		"only the message":             {ConditionTrue, "A", "b", []string{"ERR"}, false, true, "A", "b"},
		"codes are not carried over":   {ConditionTrue, "A", "a", nil, false, true, "A", "a"},
		"everything":                   {ConditionFalse, "B", "b", nil, true, true, "B", "b"},
		"an empty reason":              {ConditionTrue, "", "a", []string{"ERR"}, false, true, "Unspecified", "a"},
		"an empty message, a stand-in": {ConditionTrue, "A", "", []string{"ERR"}, false, true, "A", "No message was given."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			updated := UpdatedCondition(now, old, test.status, test.reason, test.message, test.codes...)
			g.Expect(updated.Type).To(Equal(old.Type))
			g.Expect(updated.Status).To(Equal(test.status))
			g.Expect(updated.Reason).To(Equal(test.expectedReason))
			g.Expect(updated.Message).To(Equal(test.expectedMessage))
			g.Expect(updated.Codes).To(Equal(test.codes))
			g.Expect(updated.LastTransitionTime.Time).To(Equal(either(test.transitionMoves)))
			g.Expect(updated.LastUpdateTime.Time).To(Equal(either(test.updateMoves)))
		})
	}
}

func TestSetConditionKeepsTheOrderAndTheGivenList(t *testing.T) {
	g := NewWithT(t)
	given := []Condition{NewCondition(before, ConditionResourcesApplied), NewCondition(before, ConditionResourcesHealthy)}

	list := SetCondition(now, given, ConditionResourcesApplied, ConditionTrue, ReasonApplySucceeded, "done")
	list = SetCondition(now, list, ConditionReady, ConditionFalse, "x", "y")

	g.Expect(types(list)).To(Equal([]ConditionType{ConditionResourcesApplied, ConditionResourcesHealthy, ConditionReady}))
	g.Expect(GetCondition(list, ConditionResourcesApplied).Status).To(Equal(ConditionTrue))
	g.Expect(GetCondition(list, ConditionReady).LastTransitionTime.Time).To(Equal(now))
	g.Expect(GetCondition(list, ConditionResourcesProgressing)).To(BeNil())
	g.Expect(given[0].Status).To(Equal(ConditionUnknown))
	g.Expect(given).To(HaveLen(2))
}

func TestSetConditionTwiceIsTheSame(t *testing.T) {
	g := NewWithT(t)
	once := SetCondition(before, nil, ConditionReady, ConditionTrue, "a", "b")
	g.Expect(SetCondition(now, once, ConditionReady, ConditionTrue, "a", "b")).To(Equal(once))
}

func either(moved bool) time.Time {
	if moved {
		return now
	}
	return before
}

func types(conditions []Condition) []ConditionType {
	var types []ConditionType
	for _, condition := range conditions {
		types = append(types, condition.Type)
	}
	return types
}
