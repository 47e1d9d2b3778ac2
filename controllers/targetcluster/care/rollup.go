package care

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// maxOwnTypes is how many types labels can add to a target's conditions.
	maxOwnTypes = 10
	// maxNamed is how many ManagedResources a message names.
	maxNamed = 3
)

// Member is a ManagedResource that contributes to the conditions of a target.
type Member struct {
	*resourcesv1alpha1.ManagedResource
	// OnSource is true if it is applied to the source cluster: then the hub knows how it is, whether or not it reaches the
	// target.
	OnSource bool
}

var (
	// derived are the types of conditions that follow from something else.
	derived = sets.New(hubv1alpha1.ConditionReady, hubv1alpha1.ConditionConnected, hubv1alpha1.ConditionCredentialsValid,
		hubv1alpha1.ConditionAPIServerAvailable, hubv1alpha1.ConditionEveryNodeReady, hubv1alpha1.ConditionHubReady,
		hubv1alpha1.ConditionDuplicateRegistration, hubv1alpha1.ConditionWebhooksRegistered)
	known = sets.New(hubv1alpha1.ConditionSystemComponentsHealthy, hubv1alpha1.ConditionControlPlaneHealthy,
		hubv1alpha1.ConditionObservabilityComponentsHealthy)
)

// Concerns reports whether a condition is one that sums up ManagedResources.
func Concerns(conditionType string) bool { return !derived.Has(conditionType) }

// DefaultThreshold is that of types that only labels know, unless the configuration has another one.
const DefaultThreshold = time.Minute

// IsOwn reports whether a condition is one that only labels know.
func IsOwn(conditionType string) bool { return Concerns(conditionType) && !known.Has(conditionType) }

// Situation is what conditions are derived from.
type Situation struct {
	Now time.Time
	// Namespace is that of the target. ManagedResources of others are named with theirs.
	Namespace string
	Members   []Member
	// Down is why the target cannot be asked, empty if it can.
	Down string
	// ProgressingLimit is how long a ManagedResource may be progressing, zero for ever.
	ProgressingLimit time.Duration
}

// RollUp returns the check for each type of condition that there are ManagedResources for. due is when the next of them
// will have been progressing for too long, zero if none will.
func RollUp(s Situation) (checks map[string]Check, due time.Time) {
	own := ownTypes(s.Members)
	found := map[string][]finding{}
	for _, m := range s.Members {
		f := judge(m.ManagedResource, s.ProgressingLimit, s.Now)
		if f.leftOut {
			continue
		}
		if m.Namespace != s.Namespace {
			f.name = m.Namespace + "/" + f.name
		}
		if s.Down != "" && !m.OnSource {
			f = finding{severity: unreachable}
		}
		if !f.due.IsZero() && (due.IsZero() || f.due.Before(due)) {
			due = f.due
		}
		t := typeOf(m, own)
		if found[t] == nil {
			found[t] = make([]finding, 0, len(s.Members)) // nearly always, all are of one type
		}
		found[t] = append(found[t], f)
	}
	checks = make(map[string]Check, len(found))
	for t, findings := range found {
		checks[t] = sum(findings, s.Down)
	}
	return checks, due
}

// ownTypes are the types that labels bring, as many as there may be.
func ownTypes(members []Member) sets.Set[string] {
	own := sets.New[string]()
	for _, m := range members {
		t := m.Labels[hubv1alpha1.CareConditionTypeLabel]
		if t != "" && !derived.Has(t) && !known.Has(t) && len(validation.IsValidLabelValue(t)) == 0 {
			own.Insert(t)
		}
	}
	all := sets.List(own)
	return sets.New(all[:min(len(all), maxOwnTypes)]...)
}

// typeOf is the type of the condition that a ManagedResource counts for.
func typeOf(m Member, own sets.Set[string]) string {
	switch t := m.Labels[hubv1alpha1.CareConditionTypeLabel]; {
	case own.Has(t), known.Has(t):
		return t
	case m.OnSource:
		return hubv1alpha1.ConditionControlPlaneHealthy
	default:
		return hubv1alpha1.ConditionSystemComponentsHealthy
	}
}

// severity is how bad a finding is, from bad to good.
type severity int

const (
	notApplied severity = iota
	unhealthy
	outdated
	progressing
	uncertain
	unreachable
	healthy
)

// status is what a severity means for a condition.
func (s severity) status() metav1.ConditionStatus {
	switch s {
	case healthy:
		return metav1.ConditionTrue
	case uncertain, unreachable:
		return metav1.ConditionUnknown
	default:
		return metav1.ConditionFalse
	}
}

// finding is how one ManagedResource is.
type finding struct {
	severity    severity
	name, cause string
	leftOut     bool
	// due is when it will have been progressing for too long, zero if it will not.
	due time.Time
}

func judge(mr *resourcesv1alpha1.ManagedResource, limit time.Duration, now time.Time) finding {
	applied := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
	if mr.DeletionTimestamp != nil {
		if applied == nil || applied.Status != resourcesv1alpha1.ConditionFalse {
			return finding{leftOut: true}
		}
		return finding{severity: notApplied, name: mr.Name, cause: text(applied)}
	}
	if resourcesv1alpha1.IsTruthy(mr.Annotations[resourcesv1alpha1.IgnoreAnnotation]) {
		return finding{leftOut: true}
	}
	f := finding{name: mr.Name, severity: healthy}
	health := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesHealthy)
	rollout := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesProgressing)
	is := func(c *resourcesv1alpha1.Condition, status resourcesv1alpha1.ConditionStatus) bool {
		return c != nil && c.Status == status
	}
	switch {
	case is(applied, resourcesv1alpha1.ConditionFalse):
		f.severity, f.cause = notApplied, text(applied)
	case is(health, resourcesv1alpha1.ConditionFalse):
		f.severity, f.cause = unhealthy, text(health)
	case mr.Status.ObservedGeneration != mr.Generation:
		f.severity, f.cause = outdated, "its present generation is not applied yet"
	case is(applied, resourcesv1alpha1.ConditionProgressing):
		f.severity, f.cause = outdated, text(applied)
	case !is(applied, resourcesv1alpha1.ConditionTrue):
		f.severity, f.cause = uncertain, text(applied)
	case !is(health, resourcesv1alpha1.ConditionTrue):
		f.severity, f.cause = uncertain, text(health)
	case is(rollout, resourcesv1alpha1.ConditionTrue) && limit > 0:
		if end := rollout.LastTransitionTime.Add(limit); end.After(now) {
			f.due = end
		} else {
			f.severity, f.cause = progressing, fmt.Sprintf("progressing for more than %s: %s", limit, text(rollout))
		}
	}
	// The summary has the first root cause.
	ready := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionReady)
	if f.severity < outdated && ready != nil && ready.Status != resourcesv1alpha1.ConditionTrue {
		f.cause = text(ready)
	}
	return f
}

// maxCause bounds what a message says of one ManagedResource.
const maxCause = 200

// text is what a condition says, in one bounded line.
func text(c *resourcesv1alpha1.Condition) string {
	if c == nil {
		return "nothing is known of it yet"
	}
	line, _, _ := strings.Cut(c.Message, "\n")
	return untrusted.Text(c.Reason+": "+strings.TrimSpace(line), maxCause)
}

// sum returns the check of one type. It is as good as the worst finding.
func sum(findings []finding, down string) Check {
	slices.SortFunc(findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.severity, b.severity), cmp.Compare(a.name, b.name), cmp.Compare(a.cause, b.cause))
	})
	c := Check{Status: findings[0].severity.status(), Failing: hubv1alpha1.ReasonManagedResourcesFailing}
	same := findings // what has the same status, which comes first
	if end := slices.IndexFunc(findings, func(f finding) bool { return f.severity.status() != c.Status }); end >= 0 {
		same = findings[:end]
	}
	switch {
	case c.Status == metav1.ConditionTrue:
		c.Reason, c.Message = hubv1alpha1.ReasonManagedResourcesHealthy, "all ManagedResources are healthy"
	case c.Status == metav1.ConditionFalse:
		c.Reason = hubv1alpha1.ReasonManagedResourcesUnhealthy
		c.Message = fmt.Sprintf("%s not healthy: %s", many(len(same)), named(same))
	case slices.ContainsFunc(same, func(f finding) bool { return f.severity == unreachable }):
		c.Reason, c.AtOnce = hubv1alpha1.ReasonTargetUnreachable, true
		c.Message = "the target cannot be asked: " + down
	default:
		c.Reason = hubv1alpha1.ReasonManagedResourcesUnknown
		c.Message = fmt.Sprintf("%s in an unknown state: %s", many(len(same)), named(same))
	}
	return c
}

func many(n int) string {
	if n == 1 {
		return "1 ManagedResource is"
	}
	return fmt.Sprintf("%d ManagedResources are", n)
}

// named lists the worst findings with their causes.
func named(findings []finding) string {
	parts := make([]string, 0, maxNamed)
	for _, f := range findings[:min(len(findings), maxNamed)] {
		parts = append(parts, f.name+" ("+f.cause+")")
	}
	out := strings.Join(parts, ", ")
	if rest := len(findings) - len(parts); rest > 0 {
		out += fmt.Sprintf(" and %d more", rest)
	}
	return out
}
