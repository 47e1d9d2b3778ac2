package conditions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/health"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// Problem is one object that is unhealthy or still progressing.
type Problem struct {
	Key inventory.Key
	health.Problem
	// Notes explain it further, a line each.
	Notes []string
}

// Snapshot is what the watches show of the objects of a ManagedResource. The zero value is that of one whose objects
// are all seen and well.
type Snapshot struct {
	// Unhealthy and Progressing objects, in the order of the inventory. Those that do not exist are unhealthy with the
	// severity health.Missing, and a message only if there is more to say than that.
	Unhealthy, Progressing []Problem

	// Hidden says of objects, or of kinds, why their state is unknown: the watches do not show them yet, or not as they
	// were written last. A line each.
	Hidden []string
	// Failed are errors of watches that cannot be established, by the name of the watch.
	Failed map[string]error
	// PodsHidden is true if the watch of pods, which decides about roll-outs, has not shown any yet. PodsFailed is its
	// error.
	PodsHidden bool
	PodsFailed error
	// Patient is true while what is hidden is expected to show by itself, soon.
	Patient bool
}

// Healthy is the value of ResourcesHealthy; not known while that is about to show. What is wrong for sure is reported
// meanwhile.
func (s *Snapshot) Healthy() (c Condition, known bool) {
	worst := sorted(s.Unhealthy)
	if s.awaits() && len(worst) == 0 {
		return c, false
	}
	gaps := append(s.failures(), s.hidden()...)
	message := s.message(worst, gaps, func(p Problem) string {
		switch {
		case p.Severity != health.Missing:
			return fmt.Sprintf("%s is unhealthy: %s", p.Key, p.Message)
		case p.Message != "":
			return fmt.Sprintf("%s does not exist: %s", p.Key, p.Message)
		default:
			return fmt.Sprintf("%s does not exist.", p.Key)
		}
	})
	switch {
	case len(worst) > 0 && worst[0].Severity == health.Missing:
		return Condition{resourcesv1alpha1.ConditionFalse, worst[0].Key.Kind + "Missing", message}, true
	case len(worst) > 0:
		return Condition{resourcesv1alpha1.ConditionFalse, worst[0].Key.Kind + "Unhealthy", message}, true
	case len(s.Failed) > 0:
		return Condition{resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonHealthCheckError, message}, true
	case len(s.Hidden) > 0:
		return Condition{resourcesv1alpha1.ConditionUnknown, resourcesv1alpha1.ReasonChecksPending, message}, true
	}
	return Condition{resourcesv1alpha1.ConditionTrue, resourcesv1alpha1.ReasonResourcesHealthy,
		"All resources are healthy."}, true
}

// Rollout is the value of ResourcesProgressing; not known while that is about to show. What certainly rolls out is
// reported meanwhile.
func (s *Snapshot) Rollout() (c Condition, known bool) {
	worst := sorted(s.Progressing)
	if s.awaits() && len(worst) == 0 {
		return c, false
	}
	gaps := s.failures()
	if s.PodsFailed != nil {
		gaps = append(gaps, cannotWatch("Pod", s.PodsFailed))
	}
	failed := len(gaps) > 0
	gaps = append(gaps, s.hidden()...)
	if s.PodsHidden && s.PodsFailed == nil && !s.Patient {
		gaps = append(gaps, "The pods are not listed yet.")
	}
	message := s.message(worst, gaps, func(
		p Problem) string {
		return fmt.Sprintf("%s is progressing: %s", p.Key, p.Message)
	})
	switch {
	case len(worst) > 0:
		return Condition{resourcesv1alpha1.ConditionTrue, worst[0].Key.Kind + "Progressing", message}, true
	case failed:
		return Condition{resourcesv1alpha1.ConditionUnknown, resourcesv1alpha1.ReasonHealthCheckError, message}, true
	case len(gaps) > 0:
		return Condition{resourcesv1alpha1.ConditionUnknown, resourcesv1alpha1.ReasonChecksPending, message}, true
	case s.PodsHidden:
		return c, false
	}
	return Condition{resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonResourcesRolledOut,
		"All resources have been fully rolled out."}, true
}

// awaits reports whether something is about to show.
func (s *Snapshot) awaits() bool { return len(s.Hidden) > 0 && s.Patient }

// hidden says what is not known. What is about to show is not worth a word.
func (s *Snapshot) hidden() []string {
	if s.awaits() {
		return nil
	}
	return s.Hidden
}

func (s *Snapshot) failures() (gaps []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Failed)) {
		gaps = append(gaps, cannotWatch(name, s.Failed[name]))
	}
	return gaps
}

func cannotWatch(name string, err error) string {
	return fmt.Sprintf("%s cannot be watched: %v", name, err)
}

// message has a line for each problem, with its notes behind it, and then for each gap.
func (s *Snapshot) message(problems []Problem, gaps []string, say func(Problem) string) string {
	texts := make([]string, 0, len(problems)+len(gaps))
	for _, p := range problems {
		texts = append(texts, say(p))
	}
	return withNotes(lines(append(texts, gaps...)), problems)
}

// sorted puts the worst first, and of equal ones those that others need. The rest stays in order.
func sorted(problems []Problem) []Problem {
	problems = slices.Clone(problems)
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(need(a.Key), need(b.Key)))
	})
	return problems
}

// need is less for kinds without which other objects cannot exist.
func need(key inventory.Key) int {
	switch key.GroupKind() {
	case schema.GroupKind{Kind: "Namespace"},
		schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
		schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		return 0
	default:
		return 1
	}
}
