package targetcluster

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
	"github.com/trellis-hub/trellis/controllers/targetcluster/nodes"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// healthy is the observation of a target without any problem. Tests change it.
func healthy() observation {
	return observation{
		now:        now,
		registered: true,
		status:     clustercache.Status{State: clustercache.StateConnected, Reason: clustercache.ReasonConnected, UID: "a", CredentialExpiry: now.Add(90 * 24 * time.Hour)},
		nodes:      nodes.Summary{Known: true, Total: 2, Ready: 2},
		sign:       now,
		rules:      rules{monitor: 40 * time.Second, targetMonitor: 200 * time.Second, termBegan: now.Add(-time.Hour)},
	}
}

// conditionsFor judges without anything but conditions in the status before.
func conditionsFor(old []metav1.Condition, generation int64, o observation) []metav1.Condition {
	return judge(&hubv1alpha1.TargetClusterStatus{Conditions: old}, generation, o).conditions
}

func TestConditions(t *testing.T) {
	const (
		yes     = metav1.ConditionTrue
		no      = metav1.ConditionFalse
		unknown = metav1.ConditionUnknown
	)
	// want has conditions as "status/reason"; those that are not named are as in a healthy target.
	type want = map[string]string
	is := func(status metav1.ConditionStatus, reason string) string { return string(status) + "/" + reason }
	asHealthy := want{
		"Ready": is(yes, "Ready"), "HubReady": is(yes, "HubReady"), "Connected": is(yes, "Connected"), "CredentialsValid": is(yes, "CredentialsAccepted"),
		"APIServerAvailable": is(yes, "HealthzRequestSucceeded"), "EveryNodeReady": is(yes, "EveryNodeReady"),
	}
	refused := func(reason string) func(*observation) {
		return func(o *observation) {
			o.status = clustercache.Status{State: clustercache.StateRefused, Reason: reason, Message: "no"}
		}
	}
	refusedWant := func(reason string) want {
		return want{
			"Ready": is(no, reason), "Connected": is(no, reason), "CredentialsValid": is(no, reason),
			"APIServerAvailable": is(unknown, reason), "EveryNodeReady": is(unknown, reason), "HubReady": is(unknown, "TargetUnreachable"),
		}
	}

	tests := map[string]struct {
		change  func(*observation)
		want    want
		message string // of Ready
	}{
		"a healthy target": {func(*observation) {}, nil, "does its work"},
		"a target without nodes": {
			func(o *observation) { o.nodes = nodes.Summary{Known: true} }, want{"EveryNodeReady": ""}, "",
		},
		"a node that is not ready does not stop the hub": {
			func(o *observation) { o.nodes.Ready, o.nodes.Problem = 1, "node b: Ready is False (KubeletDown)" },
			want{"EveryNodeReady": is(no, "NodesUnhealthy")}, "",
		},
		"nodes that were not listed yet leave the condition as it was": {
			func(o *observation) { o.nodes = nodes.Summary{} }, nil, "",
		},
		"nodes that cannot be watched": {
			func(o *observation) { o.nodes = nodes.Summary{Fault: errors.New("forbidden")} }, want{"EveryNodeReady": is(unknown, "NodesUnknown")}, "",
		},
		"one failed probe leaves the status and changes the reason": {
			func(o *observation) { o.health.ConsecutiveFailures = 1 }, want{"APIServerAvailable": is(yes, "ProbeFailing")}, "",
		},
		"a target that does not answer": {
			unreachable,
			want{
				"Ready": is(no, "Unreachable"), "Connected": is(no, "Unreachable"), "CredentialsValid": is(unknown, "NotProbed"),
				"APIServerAvailable": is(no, "Unreachable"), "EveryNodeReady": is(unknown, "NotProbed"), "HubReady": is(unknown, "TargetUnreachable"),
			}, "dial tcp: refused",
		},
		"a target that does not answer and whose credential has expired": {
			func(o *observation) { unreachable(o); o.status.CredentialExpiry = now.Add(-time.Minute) },
			want{
				"Ready": is(no, "CredentialsExpired"), "Connected": is(no, "Unreachable"), "CredentialsValid": is(no, "CredentialsExpired"),
				"APIServerAvailable": is(no, "Unreachable"), "EveryNodeReady": is(unknown, "NotProbed"), "HubReady": is(unknown, "TargetUnreachable"),
			}, "expired at 2026-03-01T11:59:00Z",
		},
		"a target that rejects the credential": {
			func(o *observation) {
				o.status.State, o.status.Reason, o.status.Message = clustercache.StateDisconnected, clustercache.ReasonUnauthorized, "401"
			},
			want{
				"Ready": is(no, "Unauthorized"), "Connected": is(no, "Unauthorized"), "CredentialsValid": is(no, "Unauthorized"),
				"APIServerAvailable": is(unknown, "NotProbed"), "EveryNodeReady": is(unknown, "NotProbed"), "HubReady": is(unknown, "TargetUnreachable"),
			}, "401",
		},
		"a credential that ends within the hour": {
			func(o *observation) { o.status.CredentialExpiry = now.Add(30 * time.Minute) },
			want{"CredentialsValid": is(yes, "CredentialsExpireSoon")}, "",
		},
		"a credential that ends within a tenth of its short life": {
			func(o *observation) {
				o.status.CredentialIssued, o.status.CredentialExpiry = now.Add(-11*time.Hour), now.Add(time.Hour)
			},
			want{"CredentialsValid": is(yes, "CredentialsExpireSoon")}, "",
		},
		"a credential that its requestor is about to renew": {
			func(o *observation) {
				o.status.CredentialIssued, o.status.CredentialExpiry = now.Add(-10*time.Hour), now.Add(2*time.Hour)
			},
			want{"CredentialsValid": is(yes, "CredentialsAccepted")}, "",
		},
		"a credential that ends within a fifth of its long life": {
			func(o *observation) {
				o.status.CredentialIssued, o.status.CredentialExpiry = now.AddDate(0, 0, -300), now.AddDate(0, 0, 65)
			},
			want{"CredentialsValid": is(yes, "CredentialsExpireSoon")}, "",
		},
		"a credential of a long life with more than a fifth of it left": {
			func(o *observation) {
				o.status.CredentialIssued, o.status.CredentialExpiry = now.AddDate(0, 0, -280), now.AddDate(0, 0, 85)
			},
			want{"CredentialsValid": is(yes, "CredentialsAccepted")}, "",
		},
		"an expired credential on a connection that still works": {
			func(o *observation) { o.status.CredentialExpiry = now }, want{"CredentialsValid": is(no, "CredentialsExpired")}, "",
		},
		"a new kubeconfig that does not work beside a connection that does": {
			func(o *observation) {
				o.status.PendingReason, o.status.PendingMessage = clustercache.ReasonUnreachable, "no route"
			},
			want{"CredentialsValid": is(no, "Unreachable")}, "the former connection stays in use: no route",
		},
		"a first attempt": {
			func(o *observation) { o.status = clustercache.Status{State: clustercache.StateConnecting} },
			want{
				"Ready": is(unknown, "Connecting"), "Connected": is(unknown, "Connecting"), "CredentialsValid": is(unknown, "NotProbed"),
			}, "",
		},
		"a refused kubeconfig": {refused(clustercache.ReasonKubeconfigRefused), refusedWant("KubeconfigRefused"), "no"},
		"garbage":              {refused(clustercache.ReasonKubeconfigInvalid), refusedWant("KubeconfigInvalid"), "no"},
		"an empty Secret":      {refused(clustercache.ReasonSecretInvalid), refusedWant("SecretInvalid"), "no"},
		"a full namespace": {
			refused(clustercache.ReasonQuotaExceeded), refusedWant("RegistrationQuotaExceeded"), "no",
		},
		"another cluster": {refused(clustercache.ReasonIdentityChanged), refusedWant("IdentityChanged"), "no"},
		"another cluster that is connected all the same": {
			func(o *observation) { o.conflict = identity.Changed("a", "b") }, want{"Ready": is(no, "IdentityChanged")}, "UID b, but this target is the cluster with UID a",
		},
		"more objects than may be kept": {
			func(o *observation) {
				o.status.Overfull, o.others = "there are more than 5 objects", []clustercache.ClusterKey{{Namespace: "x", Name: "y"}}
			},
			want{"Ready": is(no, "TooManyObjects")}, "there are more than 5 objects; see clusterCache.maxObjectsPerTarget",
		},
		"another manager": {func(o *observation) { o.elsewhere = "grm-0"; o.paused = true }, want{"Ready": is(no, "ManagedElsewhere")}, "grm-0"},
		"a paused target": {func(o *observation) { o.paused = true }, want{"Ready": is(no, "Paused")}, ""},
		"a refused target that is also paused": {
			func(o *observation) { refused(clustercache.ReasonSecretInvalid)(o); o.paused = true }, refusedWant("SecretInvalid"), "",
		},
		"a second registration of the same cluster": {
			func(o *observation) { o.others = []clustercache.ClusterKey{{Namespace: "x", Name: "y"}} },
			want{"Ready": is(yes, "DuplicateRegistration")}, "x/y",
		},
		"the same server in another namespace, which is not named": {
			func(o *observation) { o.elsewhereToo = true },
			want{"Ready": is(yes, "DuplicateRegistration")}, "the same cluster is also registered in another namespace",
		},
		"a second registration here, and one in another namespace": {
			func(o *observation) {
				o.others, o.elsewhereToo = []clustercache.ClusterKey{{Namespace: "x", Name: "y"}}, true
			},
			want{"Ready": is(yes, "DuplicateRegistration")}, "x/y, and in another namespace",
		},
		"controllers work for another registration here": {
			func(o *observation) {
				o.namespace, o.holder = "x", clustercache.ClusterKey{Namespace: "x", Name: "first"}
			},
			want{"Ready": is(yes, "DuplicateRegistration"), "DuplicateRegistration": is(yes, "DuplicateRegistration")},
			"not work for this registration, but for x/first, which had the cluster first",
		},
		"controllers work for one of another namespace": {
			func(o *observation) {
				o.namespace, o.holder = "x", clustercache.ClusterKey{Namespace: "y", Name: "first"}
			},
			want{"Ready": is(yes, "DuplicateRegistration"), "DuplicateRegistration": is(yes, "DuplicateRegistration")},
			"not work for this registration, but for one in another namespace, which had the cluster first",
		},
		"controllers work for the source": {
			func(o *observation) { o.namespace, o.holder = "x", clustercache.ClusterKey{Name: "source"} },
			want{"Ready": is(yes, "DuplicateRegistration"), "DuplicateRegistration": is(yes, "DuplicateRegistration")},
			"the configuration of the hub has them for the source",
		},
		"a paused one for which controllers do not work anyway": {
			func(o *observation) {
				o.namespace, o.paused, o.holder = "x", true, clustercache.ClusterKey{Namespace: "x", Name: "first"}
			},
			want{"Ready": is(no, "Paused"), "DuplicateRegistration": is(yes, "DuplicateRegistration")}, "",
		},
		"a draining target keeps all but Ready": {
			func(o *observation) { o.status.State = clustercache.StateDraining }, want{"Ready": is(no, "RegistrationGone")}, "clean up",
		},
		"a registration that is gone while ManagedResources remain": {
			func(o *observation) { *o = observation{now: now, sign: now, rules: o.rules} },
			want{
				"Ready": is(no, "RegistrationGone"), "Connected": is(no, "RegistrationGone"), "CredentialsValid": is(unknown, "NotProbed"),
				"APIServerAvailable": is(unknown, "RegistrationGone"), "EveryNodeReady": is(unknown, "RegistrationGone"), "HubReady": is(unknown, "TargetUnreachable"),
			}, "ManagedResources still have",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := conditionsFor(nil, 1, healthy())
			o := healthy()
			test.change(&o)
			after := conditionsFor(before, 1, o)

			got := want{}
			for _, condition := range after {
				got[condition.Type] = is(condition.Status, condition.Reason)
			}
			for conditionType, expected := range asHealthy {
				if changed, ok := test.want[conditionType]; ok {
					expected = changed
				}
				g.Expect(got[conditionType]).To(Equal(expected), conditionType)
			}
			g.Expect(meta.FindStatusCondition(after, "Ready").Message).To(ContainSubstring(test.message))
			g.Expect(before).To(Equal(conditionsFor(nil, 1, healthy())), "the given list stays as it is")
		})
	}
}

func TestTransitionTimeMovesWithTheStatusOnly(t *testing.T) {
	g := NewWithT(t)
	before := conditionsFor(nil, 1, healthy())

	o := healthy()
	o.now = now.Add(time.Hour)
	o.sign = o.now
	o.paused = true
	after := conditionsFor(before, 1, o)
	g.Expect(meta.FindStatusCondition(after, "Ready").LastTransitionTime.Time).To(Equal(o.now))
	g.Expect(meta.FindStatusCondition(after, "Connected").LastTransitionTime.Time).To(Equal(now))
}

func TestReasonsAreThoseOfTheClusterCache(t *testing.T) {
	g := NewWithT(t)
	for ours, theirs := range map[string]string{
		hubv1alpha1.ReasonSecretInvalid:     clustercache.ReasonSecretInvalid,
		hubv1alpha1.ReasonKubeconfigInvalid: clustercache.ReasonKubeconfigInvalid,
		hubv1alpha1.ReasonKubeconfigRefused: clustercache.ReasonKubeconfigRefused,
		hubv1alpha1.ReasonIdentityChanged:   clustercache.ReasonIdentityChanged,

		hubv1alpha1.ReasonRegistrationQuotaExceeded: clustercache.ReasonQuotaExceeded,
		hubv1alpha1.ReasonUnauthorized:              clustercache.ReasonUnauthorized,
		hubv1alpha1.ReasonForbidden:                 clustercache.ReasonForbidden,
		hubv1alpha1.ReasonUnreachable:               clustercache.ReasonUnreachable,
		hubv1alpha1.ReasonProbeFailed:               clustercache.ReasonProbeFailed,
		hubv1alpha1.ReasonConnected:                 clustercache.ReasonConnected,
		hubv1alpha1.ReasonRegistrationGone:          clustercache.ReasonRegistrationGone,
	} {
		g.Expect(ours).To(Equal(theirs))
	}
}

func TestExpiryText(t *testing.T) {
	for left, expected := range map[time.Duration]string{
		time.Minute:         "expires in less than an hour, at 2026-03-01T12:01:00Z",
		2 * time.Hour:       "expires in less than a day, at 2026-03-01T14:00:00Z",
		48 * time.Hour:      "expires in less than a week, at 2026-03-03T12:00:00Z",
		20 * 24 * time.Hour: "expires in less than 30 days, at 2026-03-21T12:00:00Z",
		31 * 24 * time.Hour: "expires at 2026-04-01T12:00:00Z",
	} {
		NewWithT(t).Expect(expiryText(now, now.Add(left))).To(Equal(expected))
	}
}

func TestCoarseRoundTrip(t *testing.T) {
	tests := map[string]struct {
		stored   int64
		measured time.Duration
		expected int64
	}{
		"nothing measured":                 {0, 0, 0},
		"the first one is rounded up":      {0, 31 * time.Millisecond, 50},
		"the shortest step":                {0, 100 * time.Microsecond, 10},
		"a little more than what is known": {50, 90 * time.Millisecond, 50},
		"much less than what is known":     {500, 30 * time.Millisecond, 50},
		"much more than what is known":     {50, 101 * time.Millisecond, 200},
		"more than the longest step":       {0, time.Minute, 5000},
		"nothing measured any more":        {50, 0, 50},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(coarseRoundTrip(test.stored, test.measured)).To(Equal(test.expected))
		})
	}
}

func TestWhatIsWorthAWrite(t *testing.T) {
	const figures = 30 * time.Second
	base := hubv1alpha1.TargetClusterStatus{RoundTripMilliseconds: 50, Conditions: conditionsFor(nil, 1, healthy())}
	setCondition(&base, "SystemComponentsHealthy", metav1.ConditionTrue, "ManagedResourcesHealthy")
	tests := map[string]struct {
		change func(*hubv1alpha1.TargetClusterStatus)
		pause  time.Duration
	}{
		"another message":    {func(s *hubv1alpha1.TargetClusterStatus) { s.Conditions[0].Message = "x" }, detailsPause},
		"another round trip": {func(s *hubv1alpha1.TargetClusterStatus) { s.RoundTripMilliseconds = 100 }, detailsPause},
		"another count":      {func(s *hubv1alpha1.TargetClusterStatus) { s.Objects++; s.Conditions[0].Message = "x" }, figures},
		"other ManagedResources": {func(s *hubv1alpha1.TargetClusterStatus) {
			s.ManagedResources = &hubv1alpha1.ManagedResourceCounts{Total: 1}
		}, figures},
		"another reason": {func(s *hubv1alpha1.TargetClusterStatus) { s.Conditions[0].Reason = "x" }, 0},
		"a check that begins to fail": {func(s *hubv1alpha1.TargetClusterStatus) {
			s.Conditions[0].Reason, s.FailingChecks = "NodesFailing", []hubv1alpha1.FailingCheck{{Type: "a"}}
		}, flapPause},
		"one that is Unknown before it fails": {func(s *hubv1alpha1.TargetClusterStatus) {
			s.Conditions[0].Reason, s.Conditions[0].Status = "NodesFailing", metav1.ConditionUnknown
		}, 0},
		"what ManagedResources turn": {func(s *hubv1alpha1.TargetClusterStatus) {
			setCondition(s, "SystemComponentsHealthy", metav1.ConditionFalse, "ManagedResourcesUnhealthy")
		}, flapPause},
		"one condition less":            {func(s *hubv1alpha1.TargetClusterStatus) { s.Conditions = s.Conditions[1:] }, 0},
		"another number of nodes":       {func(s *hubv1alpha1.TargetClusterStatus) { s.NodeCounts = &hubv1alpha1.NodeCounts{Total: 1} }, 0},
		"a count and another condition": {func(s *hubv1alpha1.TargetClusterStatus) { s.Objects++; s.Conditions[0].Status = metav1.ConditionFalse }, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			changed := *base.DeepCopy()
			test.change(&changed)
			r := &reconciler{Options: Options{SyncPeriod: figures}}
			NewWithT(t).Expect(r.pause(base, changed)).To(Equal(test.pause))
		})
	}
}

func setCondition(s *hubv1alpha1.TargetClusterStatus, conditionType string, status metav1.ConditionStatus, reason string) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: conditionType, Status: status, Reason: reason})
}

// What begins to fail waits from then on, not only since the last write: a roll-out is often over before.
func TestCheckThatPassesSoonIsNeverWritten(t *testing.T) {
	const condition = "SystemComponentsHealthy"
	base := hubv1alpha1.TargetClusterStatus{Conditions: conditionsFor(nil, 1, healthy())}
	setCondition(&base, condition, metav1.ConditionTrue, "ManagedResourcesHealthy")
	failing := *base.DeepCopy()
	setCondition(&failing, condition, metav1.ConditionTrue, "ManagedResourcesFailing")
	failing.FailingChecks = []hubv1alpha1.FailingCheck{{Type: condition, Since: metav1.NewTime(now)}}
	with := func(change func(*hubv1alpha1.TargetClusterStatus)) hubv1alpha1.TargetClusterStatus {
		changed := *failing.DeepCopy()
		change(&changed)
		return changed
	}
	tests := map[string]struct {
		before, after hubv1alpha1.TargetClusterStatus
		last, now     time.Time
		wait          time.Duration
	}{
		"it has just begun":                     {base, failing, now.Add(-time.Hour), now, 5 * time.Second},
		"it has lasted":                         {base, failing, now.Add(-time.Hour), now.Add(5 * time.Second), 0},
		"it has lasted, after a write":          {base, failing, now.Add(2 * time.Second), now.Add(5 * time.Second), 2 * time.Second},
		"figures do not carry it along":         {base, with(func(s *hubv1alpha1.TargetClusterStatus) { s.Objects++ }), now.Add(-time.Hour), now, 5 * time.Second},
		"neither do details":                    {base, with(func(s *hubv1alpha1.TargetClusterStatus) { s.Conditions[0].Message = "x" }), now.Add(-time.Hour), now, 5 * time.Second},
		"what cannot wait does":                 {base, with(func(s *hubv1alpha1.TargetClusterStatus) { s.Conditions[0].Status = "False" }), now.Add(-time.Second), now, -time.Second},
		"the end of one that was never written": {base, base, now.Add(-time.Hour), now, detailsPause - time.Hour},
		"the end of one that was":               {failing, base, now.Add(-time.Second), now, 4 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &reconciler{Options: Options{SyncPeriod: 30 * time.Second}}
			NewWithT(t).Expect(r.wait(test.before, test.after, test.last, test.now)).To(Equal(test.wait))
		})
	}
}
