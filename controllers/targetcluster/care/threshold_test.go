package care_test

import (
	"os"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/trellis-hub/trellis/controllers/targetcluster/care"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

func good() Check { return Check{Status: yes, Reason: "Good", Failing: "Failing"} }
func bad(message string) Check {
	return Check{Status: no, Reason: "Bad", Message: message, Failing: "Failing"}
}
func uncertain() Check { return Check{Status: unknown, Reason: "Uncertain", Failing: "Failing"} }
func down() Check {
	return Check{Status: unknown, Reason: "Down", Failing: "Failing", AtOnce: true}
}

// history is what a hub keeps of a condition: only what is in the status.
type history struct {
	condition *metav1.Condition
	since     time.Time
}

func (h *history) advance(check Check, threshold, after time.Duration) State {
	s := Advance(h.condition, h.since, check, threshold, start.Add(after))
	h.condition = &metav1.Condition{Status: s.Status, Reason: s.Reason, Message: s.Message}
	h.since = s.Since
	return s
}

func TestAdvance(t *testing.T) {
	// A step is a check at a time, and what the condition is after it.
	type step struct {
		after time.Duration
		check Check
		want  string
	}
	const minute = time.Minute
	tests := map[string]struct {
		threshold time.Duration
		steps     []step
	}{
		"a failure that passes is never seen": {minute, []step{
			{0, good(), "True/Good"}, {10 * time.Second, bad(""), "True/Failing"}, {69 * time.Second, bad(""), "True/Failing"}, {70 * time.Second, good(), "True/Good"},
		}},
		"one that lasts is seen when the threshold ends": {minute, []step{
			{0, good(), "True/Good"}, {10 * time.Second, bad(""), "True/Failing"}, {70 * time.Second, bad(""), "False/Bad"}, {80 * time.Second, good(), "True/Good"},
		}},
		"another message does not start the clock again": {minute, []step{
			{0, good(), "True/Good"}, {time.Second, bad("a"), "True/Failing"}, {31 * time.Second, bad("b"), "True/Failing"}, {61 * time.Second, bad("c"), "False/Bad"},
		}},
		"neither does a failure of another kind": {minute, []step{
			{0, good(), "True/Good"}, {time.Second, bad(""), "True/Failing"}, {31 * time.Second, uncertain(), "True/Failing"}, {61 * time.Second, bad(""), "False/Bad"},
		}},
		"a success does": {minute, []step{
			{0, good(), "True/Good"}, {0, bad(""), "True/Failing"}, {50 * time.Second, good(), "True/Good"}, {55 * time.Second, bad(""), "True/Failing"}, {100 * time.Second, bad(""), "True/Failing"}, {115 * time.Second, bad(""), "False/Bad"},
		}},
		"without a threshold it is seen at once": {0, []step{{0, good(), "True/Good"}, {0, bad(""), "False/Bad"}}},
		"what was False becomes so again at once": {minute, []step{
			{0, good(), "True/Good"}, {0, bad(""), "True/Failing"}, {minute, bad(""), "False/Bad"}, {90 * time.Second, bad("more"), "False/Bad"},
		}},
		"what was Unknown becomes False at once": {minute, []step{
			{0, good(), "True/Good"}, {0, down(), "Unknown/Down"}, {time.Second, bad(""), "False/Bad"},
		}},
		"nothing delays what is not to be waited for": {minute, []step{
			{0, good(), "True/Good"}, {0, bad(""), "True/Failing"}, {time.Second, down(), "Unknown/Down"}, {2 * time.Second, good(), "True/Good"},
		}},
		"what is uncertain for long is Unknown": {minute, []step{
			{0, good(), "True/Good"}, {0, uncertain(), "True/Failing"}, {minute, uncertain(), "Unknown/Uncertain"}, {2 * minute, uncertain(), "Unknown/Uncertain"},
		}},
		"what was False and is uncertain stays so for a while": {minute, []step{
			{0, good(), "True/Good"}, {0, bad(""), "True/Failing"}, {minute, bad(""), "False/Bad"},
			{90 * time.Second, uncertain(), "False/Failing"}, {149 * time.Second, uncertain(), "False/Failing"}, {150 * time.Second, uncertain(), "Unknown/Uncertain"},
		}},
		"the first roll-out raises no alarm": {minute, []step{
			{0, bad(""), "Unknown/Failing"}, {30 * time.Second, uncertain(), "Unknown/Failing"}, {59 * time.Second, bad(""), "Unknown/Failing"}, {time.Minute, good(), "True/Good"},
		}},
		"unless it takes too long": {minute, []step{{0, bad(""), "Unknown/Failing"}, {minute, bad(""), "False/Bad"}}},
		"a clock that is put back delays no longer than the threshold": {minute, []step{
			{0, good(), "True/Good"}, {time.Hour, bad(""), "True/Failing"}, {0, bad(""), "True/Failing"}, {minute, bad(""), "False/Bad"},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			h := &history{}
			for i, step := range test.steps {
				s := h.advance(step.check, test.threshold, step.after)
				g.Expect(string(s.Status)+"/"+s.Reason).To(Equal(step.want), "step %d", i)
				g.Expect(s.Since.IsZero()).To(Equal(s.Reason != "Failing"), "step %d", i)
				if s.Reason == "Failing" {
					g.Expect(s.Left).To(BeNumerically(">", 0), "step %d", i)
				} else {
					g.Expect(s.Left).To(BeZero(), "step %d", i)
				}
			}
		})
	}
}

func TestThresholdIsNeverCutShortByRounding(t *testing.T) {
	g := NewWithT(t)
	h := &history{condition: &metav1.Condition{Status: yes}}
	s := h.advance(bad("no"), time.Minute, 900*time.Millisecond)
	g.Expect(s.Since).To(Equal(start.Add(time.Second)), "a status has no fractions of a second")
	g.Expect(s.Message).To(Equal("failing since 2026-03-01T12:00:01Z, which counts after 1m0s: no"))
	g.Expect(h.advance(bad("no"), time.Minute, 60900*time.Millisecond).Status).To(Equal(yes))
	g.Expect(h.advance(bad("no"), time.Minute, 61*time.Second).Status).To(Equal(no))
}

// TestTheExampleHasTheThresholdOfOwnTypes: the types that it lists are compared with the defaults where these are.
func TestTheExampleHasTheThresholdOfOwnTypes(t *testing.T) {
	g := NewWithT(t)
	example, err := os.ReadFile("../../../docs/reference/config/example.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	said := regexp.MustCompile(`conditionThresholds: .*; of types of your own that are not listed: (\S+)`).
		FindStringSubmatch(string(example))
	g.Expect(said).To(HaveLen(2))
	g.Expect(time.ParseDuration(said[1])).To(Equal(DefaultThreshold))
}
