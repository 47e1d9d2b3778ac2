package targetcluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/targetcluster/care"
	"github.com/trellis-hub/trellis/controllers/targetcluster/nodes"
)

// life is a status with what a hub observes after one another.
type life struct {
	status hubv1alpha1.TargetClusterStatus
	next   time.Time
}

// see has an observation of a healthy target judged, changed by what a test says.
func (l *life) see(after time.Duration, changes ...func(*observation)) *life {
	o := healthy()
	o.now = now.Add(after)
	o.sign = o.now
	o.rules.thresholds = map[string]time.Duration{"APIServerAvailable": time.Minute, "EveryNodeReady": 5 * time.Minute, "SystemComponentsHealthy": time.Minute}
	for _, change := range changes {
		change(&o)
	}
	// What a hub has in memory is lost each time: all that counts is the status.
	before := l.status.DeepCopy()
	o.failing = before.FailingChecks
	l.next, _ = record(&l.status, 1, o, false)
	// A write needs a reason: what is only in the list of failing checks would be lost.
	if !slices.Equal(before.FailingChecks, l.status.FailingChecks) {
		a, b := before.DeepCopy(), l.status.DeepCopy()
		a.FailingChecks, b.FailingChecks = nil, nil
		if (&reconciler{Options: Options{SyncPeriod: time.Second}}).pause(*a, *b) > flapPause {
			panic("a write for the list of failing checks alone")
		}
	}
	return l
}

func (l *life) is(conditionType string) string {
	c := meta.FindStatusCondition(l.status.Conditions, conditionType)
	if c == nil {
		return "none"
	}
	return string(c.Status) + "/" + c.Reason
}

func (l *life) says(conditionType string) string {
	return meta.FindStatusCondition(l.status.Conditions, conditionType).Message
}

func sickNode(o *observation) { o.nodes.Ready, o.nodes.Problem = 1, "node b: Ready is False" }

func unreachable(o *observation) {
	o.status.State, o.status.Reason, o.status.Message = clustercache.StateDisconnected, clustercache.ReasonUnreachable, "dial tcp: refused"
}

func connecting(o *observation) { o.status = clustercache.Status{State: clustercache.StateConnecting} }

func TestNodesHaveTheirThreshold(t *testing.T) {
	g := NewWithT(t)
	const condition = "EveryNodeReady"
	l := (&life{}).see(0)
	g.Expect(l.is(condition)).To(Equal("True/EveryNodeReady"))
	g.Expect(l.says(condition)).To(Equal("Every node registered to the cluster is ready."))

	l.see(time.Second, sickNode)
	g.Expect(l.is(condition)).To(Equal("True/NodesFailing"))
	g.Expect(l.says(condition)).To(Equal("failing since 2026-03-01T12:00:01Z, which counts after 5m0s: 1 of 2 nodes are not healthy, node b: Ready is False"))
	g.Expect(l.status.FailingChecks).To(Equal([]hubv1alpha1.FailingCheck{{Type: condition, Since: metav1.NewTime(now.Add(time.Second))}}))
	g.Expect(l.next).To(Equal(now.Add(5*time.Minute + time.Second)))

	l.see(4*time.Minute, sickNode, func(o *observation) { o.nodes.Problem = "node c: Ready is False" })
	g.Expect(l.is(condition)).To(Equal("True/NodesFailing"))
	l.see(4*time.Minute, connecting)
	g.Expect(l.is(condition)).To(Equal("True/NodesFailing"), "neither does a hub that has just started")
	l.see(4*time.Minute, func(o *observation) { o.nodes = nodes.Summary{} })
	g.Expect(l.is(condition)).To(Equal("True/NodesFailing"), "nodes that are not listed yet change nothing")
	l.see(5*time.Minute+time.Second, sickNode)
	g.Expect(l.is(condition)).To(Equal("False/NodesUnhealthy"))
	g.Expect(l.status.FailingChecks).To(BeEmpty())
	g.Expect(l.see(6 * time.Minute).is(condition)).To(Equal("True/EveryNodeReady"))

	l.see(7*time.Minute, sickNode).see(8*time.Minute, func(o *observation) { o.nodes = nodes.Summary{Known: true} })
	g.Expect(l.is(condition)).To(Equal("none"), "a target without nodes has no such condition")
	g.Expect(l.status.FailingChecks).To(BeEmpty())
}

func TestAPIServerHasItsThresholdAndTheConnectionHasNone(t *testing.T) {
	g := NewWithT(t)
	const condition = "APIServerAvailable"
	l := (&life{}).see(0).see(time.Second, func(o *observation) { o.health.ConsecutiveFailures = 1 })
	g.Expect(l.is(condition)).To(Equal("True/ProbeFailing"))
	l.see(2*time.Second, unreachable)
	g.Expect(l.is(condition)).To(Equal("True/ProbeFailing"))
	g.Expect(l.says(condition)).To(ContainSubstring("since 2026-03-01T12:00:01Z, which counts after 1m0s: dial tcp: refused"))
	g.Expect(l.is("Connected")).To(Equal("False/Unreachable"))
	g.Expect(l.is("Ready")).To(Equal("False/Unreachable"))
	g.Expect(l.is("HubReady")).To(Equal("Unknown/TargetUnreachable"))
	g.Expect(l.see(61*time.Second, unreachable).is(condition)).To(Equal("False/Unreachable"))
	g.Expect(l.see(62 * time.Second).is(condition)).To(Equal("True/HealthzRequestSucceeded"))
}

func TestOneFailedProbeIsNoFailureWhateverTheThreshold(t *testing.T) {
	g := NewWithT(t)
	l := (&life{}).see(0).see(time.Second, func(o *observation) {
		o.health.ConsecutiveFailures, o.rules.thresholds = 1, nil
	})
	g.Expect(l.is("APIServerAvailable")).To(Equal("True/ProbeFailing"))
}

func TestB3_ResponseTimeIsReportedInSteps(t *testing.T) {
	g := NewWithT(t)
	l := &life{}
	g.Expect(l.see(0).says("APIServerAvailable")).To(Equal("API server /healthz endpoint responded with success status code."))
	l.see(0, func(o *observation) { o.roundTrip = 50 })
	g.Expect(l.says("APIServerAvailable")).To(Equal("API server /healthz endpoint responded with success status code. [response_time:50ms]"))
}

func sickMember(message string) func(*observation) {
	return func(o *observation) {
		mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		for _, t := range []resourcesv1alpha1.ConditionType{resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionResourcesHealthy} {
			status := resourcesv1alpha1.ConditionTrue
			if t == resourcesv1alpha1.ConditionResourcesHealthy && message != "" {
				status = resourcesv1alpha1.ConditionFalse
			}
			mr.Status.Conditions = resourcesv1alpha1.SetCondition(now, mr.Status.Conditions, t, status, "R", message)
		}
		o.members, o.membersKnown = []care.Member{{ManagedResource: mr}}, true
	}
}

func TestManagedResourcesHaveTheirThreshold(t *testing.T) {
	g := NewWithT(t)
	const condition = "SystemComponentsHealthy"
	l := (&life{}).see(0, sickMember(""))
	g.Expect(l.is(condition)).To(Equal("True/ManagedResourcesHealthy"))
	l.see(time.Second, sickMember("one"))
	g.Expect(l.is(condition)).To(Equal("True/ManagedResourcesFailing"))
	transition := meta.FindStatusCondition(l.status.Conditions, condition).LastTransitionTime
	g.Expect(transition.Time).To(Equal(now), "the status did not change")
	l.see(2*time.Second, connecting, sickMember("two"))
	g.Expect(l.is(condition)).To(Equal("True/ManagedResourcesFailing"), "a hub that has just started")
	l.see(2*time.Second, func(o *observation) { o.membersKnown = false })
	g.Expect(l.is(condition)).To(Equal("True/ManagedResourcesFailing"), "informers that do not answer")
	g.Expect(l.see(61*time.Second, sickMember("three")).is(condition)).To(Equal("False/ManagedResourcesUnhealthy"))
	g.Expect(l.see(62*time.Second, unreachable, sickMember("three")).is(condition)).To(Equal("Unknown/TargetUnreachable"))
	g.Expect(l.says(condition)).To(ContainSubstring("dial tcp: refused"))
	l.see(63*time.Second, sickMember("three"))
	g.Expect(l.is(condition)).To(Equal("Unknown/ManagedResourcesFailing"), "what comes back has its time")
	g.Expect(l.see(123*time.Second, sickMember("three")).is(condition)).To(Equal("False/ManagedResourcesUnhealthy"))
	g.Expect(l.see(124*time.Second, sickMember("")).is(condition)).To(Equal("True/ManagedResourcesHealthy"))
	l.see(125*time.Second, func(o *observation) { o.membersKnown = true })
	g.Expect(l.is(condition)).To(Equal("none"), "no ManagedResource is left")
	g.Expect(l.is("Ready")).To(Equal("True/Ready"))
}

func TestTypesByLabelHaveAThreshold(t *testing.T) {
	labelled := func(message string) func(*observation) {
		return func(o *observation) {
			sickMember(message)(o)
			o.members[0].Labels = map[string]string{hubv1alpha1.CareConditionTypeLabel: "BackupHealthy"}
		}
	}
	listed := func(o *observation) { o.rules.thresholds = map[string]time.Duration{"BackupHealthy": 0} }
	g := NewWithT(t)
	l := (&life{}).see(0, labelled("")).see(time.Second, labelled("bad"))
	g.Expect(l.is("BackupHealthy")).To(Equal("True/ManagedResourcesFailing"))
	g.Expect(l.see(61*time.Second, labelled("bad")).is("BackupHealthy")).To(Equal("False/ManagedResourcesUnhealthy"))
	l = (&life{}).see(0, labelled(""), listed).see(time.Second, labelled("bad"), listed)
	g.Expect(l.is("BackupHealthy")).To(Equal("False/ManagedResourcesUnhealthy"), "the configuration says so")
}

func TestNodesHaveTheirThresholdAfterAnOutage(t *testing.T) {
	faulty := func(o *observation) { o.nodes = nodes.Summary{Fault: errors.New(strings.Repeat("forbidden ", 10000))} }
	for name, outage := range map[string]func(*observation){"of the target": unreachable, "of the watch": faulty} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			const condition = "EveryNodeReady"
			l := (&life{}).see(0).see(time.Minute, outage)
			g.Expect(l.is(condition)).To(HavePrefix("Unknown/"))
			g.Expect(len(l.says(condition))).To(BeNumerically("<", 1000))
			g.Expect(l.see(2*time.Minute, sickNode).is(condition)).To(Equal("Unknown/NodesFailing"))
			g.Expect(l.see(6*time.Minute, sickNode).is(condition)).To(Equal("Unknown/NodesFailing"))
			g.Expect(l.see(7*time.Minute, sickNode).is(condition)).To(Equal("False/NodesUnhealthy"))
		})
	}
}

// A threshold that is over stays so until it is written, however often the target is looked at before.
func TestTheEndOfAThresholdWaitsForItsWrite(t *testing.T) {
	g := NewWithT(t)
	const condition = "SystemComponentsHealthy"
	written := (&life{}).see(0, sickMember("")).status
	var failing []hubv1alpha1.FailingCheck
	var status hubv1alpha1.TargetClusterStatus
	look := func(after time.Duration) string {
		o := healthy()
		sickMember("bad")(&o)
		o.now, o.failing = now.Add(after), failing
		o.sign, o.rules.thresholds = o.now, map[string]time.Duration{condition: 3 * time.Second}
		status = *written.DeepCopy()
		_, failing = record(&status, 1, o, false)
		return (&life{status: status}).is(condition)
	}
	g.Expect(look(time.Second)).To(Equal("True/ManagedResourcesFailing"))
	g.Expect(look(2 * time.Second)).To(Equal("True/ManagedResourcesFailing"))
	g.Expect(look(4 * time.Second)).To(Equal("False/ManagedResourcesUnhealthy"))
	g.Expect(look(5 * time.Second)).To(Equal("False/ManagedResourcesUnhealthy"))
	written = status
	g.Expect(look(6 * time.Second)).To(Equal("False/ManagedResourcesUnhealthy"))
	g.Expect(failing).To(BeEmpty())
}

func TestWakingTargetHasItsThresholdsAnew(t *testing.T) {
	g := NewWithT(t)
	const condition = "EveryNodeReady"
	l := (&life{}).see(0).see(time.Second, sickNode)
	g.Expect(l.is(condition)).To(Equal("True/NodesFailing"))
	o := healthy()
	o.failing = l.status.FailingChecks
	_, failing := record(&l.status, 1, o, true)
	g.Expect(failing).To(BeEmpty())
	l.see(9*time.Hour, sickNode)
	g.Expect(l.is(condition)).To(Equal("True/NodesFailing"))
	g.Expect(l.see(9*time.Hour+5*time.Minute, sickNode).is(condition)).To(Equal("False/NodesUnhealthy"))
}

func TestHibernatedTargetKeepsItsConditions(t *testing.T) {
	g := NewWithT(t)
	l := (&life{}).see(0, sickMember(""))
	before := l.status.DeepCopy()
	o := healthy()
	unreachable(&o)
	sickMember("bad")(&o)
	o.sign = now.Add(-time.Hour)
	next, failing := record(&l.status, 1, o, true)
	g.Expect(next).To(BeZero())
	g.Expect(failing).To(BeEmpty())
	g.Expect(l.status.Conditions).To(Equal(before.Conditions))
	g.Expect(l.status.FailingChecks).To(BeEmpty())
}

func TestB2_HubReady(t *testing.T) {
	stale := func(d time.Duration) func(*observation) {
		return func(o *observation) { o.sign = o.now.Add(-d) }
	}
	freshTerm := func(d time.Duration) func(*observation) {
		return func(o *observation) { o.rules.termBegan = o.now.Add(-d) }
	}
	draining := func(o *observation) { o.status.State = clustercache.StateDraining }
	// The others are what the conditions Connected and EveryNodeReady are.
	tests := map[string]struct {
		changes            []func(*observation)
		want, others, says string
	}{
		"the hub works": {nil, "True/HubReady", "True/Connected", "Hub is posting ready status."},
		"a sign of life that is late, not too late": {[]func(*observation){stale(40 * time.Second)}, "True/HubReady", "True/Connected", ""},
		"no sign of life": {[]func(*observation){stale(41 * time.Second)},
			"Unknown/TargetStatusUnknown", "True/Connected", "Hub stopped posting status for this target."},
		"none for long": {[]func(*observation){stale(239 * time.Second)},
			"Unknown/TargetStatusUnknown", "True/Connected", ""},
		"none for so long that nothing counts": {[]func(*observation){stale(240 * time.Second)},
			"Unknown/TargetStatusUnknown", "Unknown/StatusUnknown", ""},
		"a target that does not answer": {[]func(*observation){unreachable}, "Unknown/TargetUnreachable",
			"False/Unreachable", "dial tcp: refused"},
		"one that does not, and the hub is down": {[]func(*observation){unreachable, stale(41 * time.Second)},
			"Unknown/TargetStatusUnknown", "False/Unreachable", ""},
		"a new leader does not judge at once":        {[]func(*observation){stale(time.Hour), freshTerm(39 * time.Second)}, "True/HubReady", "True/Connected", ""},
		"it does after a monitor period":             {[]func(*observation){stale(time.Hour), freshTerm(40 * time.Second)}, "Unknown/TargetStatusUnknown", "Unknown/StatusUnknown", ""},
		"it does at once where it sees something":    {[]func(*observation){unreachable, freshTerm(time.Second)}, "Unknown/TargetUnreachable", "False/Unreachable", ""},
		"the first attempt is under way":             {[]func(*observation){connecting, freshTerm(time.Second)}, "True/HubReady", "Unknown/Connecting", ""},
		"the registration is gone, and it cleans up": {[]func(*observation){draining}, "True/HubReady", "True/Connected", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := (&life{}).see(0)
			l.see(time.Minute, test.changes...)
			g.Expect(l.is("HubReady")).To(Equal(test.want))
			g.Expect(l.is("Connected")).To(Equal(test.others))
			g.Expect(l.says("HubReady")).To(ContainSubstring(test.says))
			if test.others == "Unknown/StatusUnknown" {
				g.Expect(l.status.Conditions).To(HaveEach(Or(HaveField("Type", "HubReady"), HaveField("Reason", "StatusUnknown"))))
			}
			g.Expect(l.see(2 * time.Minute).is("HubReady")).To(Equal("True/HubReady"))
			g.Expect(l.is("Connected")).To(Equal("True/Connected"))
		})
	}
}

func TestB2_UnknownIsWrittenOnce(t *testing.T) {
	g := NewWithT(t)
	expiren := func(o *observation) { o.sign = now }
	l := (&life{}).see(0, sickMember("")).see(time.Second, sickMember("one")).see(
		time.Hour, expiren, sickNode, sickMember("one"))
	g.Expect(l.status.FailingChecks).To(BeEmpty())
	before := l.status.DeepCopy()
	g.Expect(l.is("Connected")).To(Equal("Unknown/StatusUnknown"))
	l.see(2*time.Hour, expiren, sickNode, sickMember("one"))
	g.Expect(l.status).To(Equal(*before))
}

func TestAHubThatHasJustStartedSaysNothingAtFirst(t *testing.T) {
	g := NewWithT(t)
	o := healthy()
	g.Expect(o.tooEarly(&hubv1alpha1.TargetClusterStatus{})).To(BeZero())
	reported := (&life{}).see(0).status
	g.Expect(o.tooEarly(&reported)).To(BeZero(), "it is connected")
	connecting(&o)
	o.status.Since = now.Add(-3 * time.Second)
	g.Expect(o.tooEarly(&reported)).To(Equal(7 * time.Second))
	g.Expect(o.tooEarly(&hubv1alpha1.TargetClusterStatus{})).To(BeZero(), "a new target")
	o.status.Since = now.Add(-10 * time.Second)
	g.Expect(o.tooEarly(&reported)).To(BeZero(), "it takes long")
}

// TestANewRegistrationIsNotOneThatTheHubStoppedWatching: the term began long before the registration, whose first
// attempt to connect is under way.
func TestANewRegistrationIsNotOneThatTheHubStoppedWatching(t *testing.T) {
	g := NewWithT(t)
	first := func(after time.Duration) func(*observation) {
		return func(o *observation) {
			connecting(o)
			o.status.Since = now
			o.now = now.Add(after)
			o.sign = o.signOfWork(o.rules.termBegan.Add(-time.Hour))
		}
	}
	l := (&life{}).see(0, first(0)).see(time.Second, first(time.Second))
	for _, c := range l.status.Conditions {
		g.Expect(c.Reason).NotTo(Equal(hubv1alpha1.ReasonTargetStatusUnknown))
	}
	g.Expect(l.see(2 * time.Second).is("HubReady")).To(Equal("True/HubReady"))
	g.Expect(l.see(41*time.Second, first(41*time.Second)).is("HubReady")).To(Equal("Unknown/TargetStatusUnknown"),
		"one that hangs is reported")
}

func TestSignOfWork(t *testing.T) {
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	began, watched := now.Add(-time.Minute), now.Add(-time.Hour)
	connectingSince := func(seconds int) clustercache.Status {
		return clustercache.Status{State: clustercache.StateConnecting, Since: at(seconds)}
	}
	unprobed := clustercache.HealthCheckingState{}
	tests := map[string]struct {
		status  clustercache.Status
		health  clustercache.HealthCheckingState
		watched time.Time
		want    time.Time
	}{
		"the last probe":                         {clustercache.Status{State: clustercache.StateConnected, Since: at(-50)}, clustercache.HealthCheckingState{LastProbeTime: at(-3)}, watched, at(-3)},
		"a connection that is new":               {clustercache.Status{State: clustercache.StateConnected, Since: at(-2)}, clustercache.HealthCheckingState{}, watched, at(-2)},
		"the next attempt is settled":            {clustercache.Status{State: clustercache.StateDisconnected, Since: at(-900), NextAttempt: at(4)}, clustercache.HealthCheckingState{LastProbeTime: at(-1)}, watched, at(4)},
		"a refused registration needs no work":   {clustercache.Status{State: clustercache.StateRefused, Since: at(-900)}, clustercache.HealthCheckingState{}, watched, now},
		"nor does one that is gone":              {clustercache.Status{State: clustercache.StateDraining, Since: at(-900)}, clustercache.HealthCheckingState{}, watched, now},
		"nothing yet, but a predecessor's":       {connectingSince(-58), unprobed, watched, watched},
		"nothing yet, and no predecessor's":      {connectingSince(-58), unprobed, time.Time{}, began},
		"nothing yet, and registered since":      {connectingSince(-1), unprobed, watched, at(-1)},
		"an attempt that hangs after a failure":  {clustercache.Status{State: clustercache.StateDisconnected, Since: at(-900), NextAttempt: at(-300)}, clustercache.HealthCheckingState{LastProbeTime: at(-301)}, watched, at(-300)},
		"a probe that hangs on a connected peer": {clustercache.Status{State: clustercache.StateConnected, Since: at(-900)}, clustercache.HealthCheckingState{LastProbeTime: at(-301)}, watched, at(-301)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := observation{now: now, registered: true, status: test.status, health: test.health, rules: rules{termBegan: began}}
			NewWithT(t).Expect(o.signOfWork(test.watched)).To(Equal(test.want))
		})
	}
}

func TestB4_StatusLabelIsTheWorst(t *testing.T) {
	of := func(pairs ...string) []metav1.Condition {
		var list []metav1.Condition
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, metav1.Condition{Status: metav1.ConditionStatus(pairs[i]), Reason: pairs[i+1]})
		}
		return list
	}
	for want, conditions := range map[string][][]metav1.Condition{
		"":            {nil},
		"healthy":     {of("True", "Ready", "True", "DuplicateRegistration")},
		"progressing": {of("True", "Ready", "True", "NodesFailing"), of("True", "ManagedResourcesFailing"), of("Unknown", "ManagedResourcesFailing"), of("True", "ProbeFailing", "True", "Ready")},
		"unknown":     {of("Unknown", "NotProbed", "True", "NodesFailing")},
		"unhealthy":   {of("Unknown", "NotProbed", "False", "Paused", "True", "NodesFailing"), of("False", "ManagedResourcesFailing")},
	} {
		for _, list := range conditions {
			NewWithT(t).Expect(summary(list)).To(Equal(want), "%v", list)
		}
	}
}
