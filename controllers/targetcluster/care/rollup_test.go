package care_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	. "github.com/trellis-hub/trellis/controllers/targetcluster/care"
)

type change = func(*resourcesv1alpha1.ManagedResource)

// member is a healthy ManagedResource of the target, but for the changes.
func member(name string, changes ...change) Member {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: name, Generation: 3}}
	mr.Status.ObservedGeneration = 3
	for _, set := range []change{
		condition(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue, "ApplySucceeded", ""),
		condition(resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionTrue, "ResourcesHealthy", ""),
		condition(resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionFalse, "ResourcesRolledOut", ""),
		condition(resourcesv1alpha1.ConditionReady, resourcesv1alpha1.ConditionTrue, "Ready", ""),
	} {
		set(mr)
	}
	for _, set := range changes {
		set(mr)
	}
	return Member{ManagedResource: mr}
}

func condition(t resourcesv1alpha1.ConditionType, status resourcesv1alpha1.ConditionStatus, reason, message string) change {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Status.Conditions = resourcesv1alpha1.SetCondition(start, mr.Status.Conditions, t, status, reason, message)
	}
}

func label(value string) change {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Labels = map[string]string{"care.gardener.cloud/condition-type": value}
	}
}

// sick is unhealthy, and its summary says so.
func sick(reason, message string) change {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		condition(resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionFalse, reason, message)(mr)
		condition(resourcesv1alpha1.ConditionReady, resourcesv1alpha1.ConditionFalse, reason, message)(mr)
	}
}

func onSource(m Member) Member {
	m.OnSource = true
	return m
}

func rollUp(members ...Member) map[string]Check {
	checks, _ := RollUp(Situation{Now: start, Namespace: "shoot", Members: members})
	return checks
}

func statuses(checks map[string]Check) map[string]string {
	out := map[string]string{}
	for t, c := range checks {
		out[t] = string(c.Status) + "/" + c.Reason
	}
	return out
}

const (
	isHealthy   = "True/ManagedResourcesHealthy"
	isUnhealthy = "False/ManagedResourcesUnhealthy"
	isUncertain = "Unknown/ManagedResourcesUnknown"
)

func TestWhichConditionAManagedResourceCountsFor(t *testing.T) {
	tests := map[string]struct {
		members []Member
		want    map[string]string
	}{
		"none at all":                   {nil, map[string]string{}},
		"one for the target":            {[]Member{member("a")}, map[string]string{"SystemComponentsHealthy": isHealthy}},
		"one for the source":            {[]Member{onSource(member("a"))}, map[string]string{"ControlPlaneHealthy": isHealthy}},
		"the label wins":                {[]Member{onSource(member("a", label("ObservabilityComponentsHealthy"))), member("b", label("ControlPlaneHealthy"))}, map[string]string{"ObservabilityComponentsHealthy": isHealthy, "ControlPlaneHealthy": isHealthy}},
		"an unknown type":               {[]Member{member("a", label("Backup"))}, map[string]string{"Backup": isHealthy}},
		"an empty label":                {[]Member{member("a", label(""))}, map[string]string{"SystemComponentsHealthy": isHealthy}},
		"a label that no condition has": {[]Member{member("a", label("not a type"))}, map[string]string{"SystemComponentsHealthy": isHealthy}},
		"conditions that the hub derives from something else": {
			[]Member{
				member("a", label("Ready")), member("b", label("Connected")), member("c", label("CredentialsValid")),
				member("d", label("APIServerAvailable")), member("e", label("EveryNodeReady")), onSource(member("f", label("HubReady"))),
			},
			map[string]string{"SystemComponentsHealthy": isHealthy, "ControlPlaneHealthy": isHealthy},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(statuses(rollUp(test.members...))).To(Equal(test.want))
		})
	}
}

func TestLabelsBringABoundedNumberOfTypes(t *testing.T) {
	g := NewWithT(t)
	var members []Member
	for i := range 30 {
		members = append(members, member(fmt.Sprint("mr-", i), label(fmt.Sprintf("Type%02d", i))))
	}
	members = append(members, member("z", label("ObservabilityComponentsHealthy")))
	for range 5 {
		rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		checks := rollUp(members...)
		g.Expect(checks).To(HaveLen(12))
		g.Expect(checks).To(And(HaveKey("Type00"), HaveKey("Type09"), HaveKey("SystemComponentsHealthy"), HaveKey("ObservabilityComponentsHealthy")))
	}
}

func TestWhenAManagedResourceIsHealthy(t *testing.T) {
	applied := func(status resourcesv1alpha1.ConditionStatus) change {
		return condition(resourcesv1alpha1.ConditionResourcesApplied, status, "Reason", "message")
	}
	health := func(status resourcesv1alpha1.ConditionStatus) change {
		return condition(resourcesv1alpha1.ConditionResourcesHealthy, status, "Reason", "message")
	}
	progressing := condition(resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionTrue, "DeploymentProgressing", "rolling")
	deleting := func(mr *resourcesv1alpha1.ManagedResource) { mr.DeletionTimestamp = new(metav1.NewTime(start)) }
	ignored := func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Annotations = map[string]string{"resources.gardener.cloud/ignore": "true"}
	}
	nothing := func(mr *resourcesv1alpha1.ManagedResource) { mr.Status = resourcesv1alpha1.ManagedResourceStatus{} }
	tests := map[string]struct {
		changes []change
		want    string // empty: it is left out
		says    string
	}{
		"all is well":                        {nil, isHealthy, "all ManagedResources are healthy"},
		"not applied":                        {[]change{applied("False")}, isUnhealthy, "a (Reason: message)"},
		"being applied":                      {[]change{applied("Progressing"), health("Unknown")}, isUnhealthy, "a (Reason: message)"},
		"whether it is applied is not known": {[]change{applied("Unknown")}, isUncertain, ""},
		"not healthy":                        {[]change{health("False")}, isUnhealthy, "1 ManagedResource is not healthy: a (Reason: message)"},
		"whether it is healthy is not known": {[]change{health("Unknown")}, isUncertain,
			"1 ManagedResource is in an unknown state: a (Reason: message)"},
		"progressing": {[]change{progressing}, isHealthy, ""},
		"another generation": {[]change{func(mr *resourcesv1alpha1.ManagedResource) { mr.Generation = 4 }}, isUnhealthy,
			"a (its present generation is not applied yet)"},
		"another generation, and the summary is about the last one": {
			[]change{func(mr *resourcesv1alpha1.ManagedResource) { mr.Generation = 4 }, condition(resourcesv1alpha1.ConditionReady, "False", "Old", "old")},
			isUnhealthy, "a (its present generation is not applied yet)",
		},
		"a new one, whose generation is not 0":   {[]change{nothing}, isUnhealthy, ""},
		"one without conditions":                 {[]change{func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Conditions = nil }}, isUncertain, "nothing is known of it yet"},
		"the summary names the cause":            {[]change{health("False"), condition(resourcesv1alpha1.ConditionReady, "False", "DeploymentUnhealthy", "first\nsecond")}, isUnhealthy, "a (DeploymentUnhealthy: first)"},
		"ignored":                                {[]change{sick("A", "b"), ignored}, "", ""},
		"being deleted":                          {[]change{sick("A", "b"), deleting, applied("Progressing")}, "", ""},
		"ignored and being deleted":              {[]change{sick("A", "b"), deleting, ignored}, "", ""},
		"being deleted, which fails":             {[]change{deleting, applied("False")}, isUnhealthy, "a (Reason: message)"},
		"ignored, and its deletion fails":        {[]change{ignored, deleting, applied("False")}, isUnhealthy, ""},
		"a message of several lines without end": {[]change{health("False"), sick("A", strings.Repeat("é", 4000)+"\nmore")}, isUnhealthy, "é..."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			checks := rollUp(member("a", test.changes...))
			if test.want == "" {
				g.Expect(checks).To(BeEmpty())
				return
			}
			g.Expect(statuses(checks)).To(Equal(map[string]string{"SystemComponentsHealthy": test.want}))
			message := checks["SystemComponentsHealthy"].Message
			g.Expect(message).To(ContainSubstring(test.says))
			g.Expect(len(message)).To(BeNumerically("<", 300))
		})
	}
}

func TestProgressingForTooLong(t *testing.T) {
	g := NewWithT(t)
	m := member("a", condition(resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionTrue, "DeploymentProgressing", "rolling"))
	at := func(limit, after time.Duration) (string, time.Time) {
		checks, due := RollUp(Situation{Now: start.Add(after), Namespace: "shoot", Members: []Member{m, member("b")}, ProgressingLimit: limit})
		return statuses(checks)["SystemComponentsHealthy"], due
	}
	status, due := at(0, 1000*time.Hour)
	g.Expect(status).To(Equal(isHealthy))
	g.Expect(due).To(BeZero())

	status, due = at(time.Hour, 59*time.Minute)
	g.Expect(status).To(Equal(isHealthy))
	g.Expect(due).To(Equal(start.Add(time.Hour)))

	status, due = at(time.Hour, time.Hour)
	g.Expect(status).To(Equal(isUnhealthy))
	g.Expect(due).To(BeZero())
}

func TestTargetThatCannotBeAsked(t *testing.T) {
	g := NewWithT(t)
	checks, _ := RollUp(Situation{Now: start, Namespace: "shoot", Down: "dial tcp: refused", Members: []Member{
		member("a"), member("b", sick("X", "y")), onSource(member("c")), member("d", label("Mixed")), onSource(member("e", label("Mixed"), sick("Z", "z"))),
	}})
	g.Expect(statuses(checks)).To(Equal(map[string]string{
		"SystemComponentsHealthy": "Unknown/TargetUnreachable", "ControlPlaneHealthy": isHealthy, "Mixed": isUnhealthy,
	}))
	g.Expect(checks["SystemComponentsHealthy"].AtOnce).To(BeTrue())
	g.Expect(checks["SystemComponentsHealthy"].Message).To(ContainSubstring("dial tcp: refused"))
	g.Expect(checks["Mixed"].AtOnce).To(BeFalse())
}

func TestMessageNamesTheWorstAndIsAlwaysTheSame(t *testing.T) {
	g := NewWithT(t)
	members := []Member{
		member("fine"), member("waiting", func(mr *resourcesv1alpha1.ManagedResource) { mr.Generation = 4 }),
		member("sick-b", sick("DeploymentUnhealthy", "b")), member("sick-a", sick("DeploymentUnhealthy", "a")),
		member("not-applied", condition(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionFalse, "ApplyFailed", "quota")),
		member("elsewhere", sick("JobUnhealthy", "c"), func(mr *resourcesv1alpha1.ManagedResource) { mr.Namespace = "other" }),
	}
	for range 20 {
		rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		g.Expect(rollUp(members...)["SystemComponentsHealthy"].Message).To(Equal("5 ManagedResources are not healthy: " +
			"not-applied (ApplyFailed: quota), other/elsewhere (JobUnhealthy: c), sick-a (DeploymentUnhealthy: a) and 2 more"))
	}
}
