package conditions_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/engine/health"
	"github.com/trellis-hub/trellis/engine/inventory"
)

const (
	yes     = resourcesv1alpha1.ConditionTrue
	no      = resourcesv1alpha1.ConditionFalse
	unknown = resourcesv1alpha1.ConditionUnknown
	ongoing = resourcesv1alpha1.ConditionProgressing
)

// problem is one of an object that is named as an inventory names it.
func problem(object string, severity health.Severity, message string, notes ...string) conditions.Problem {
	parts := strings.Split(object, "/")
	return conditions.Problem{
		Key:     inventory.Key{Group: parts[0], Kind: parts[1], Namespace: parts[2], Name: parts[3]},
		Problem: health.Problem{Severity: severity, Message: message}, Notes: notes,
	}
}

func values(status resourcesv1alpha1.ConditionStatus, reason string, lines ...string) *conditions.Condition {
	return &conditions.Condition{Status: status, Reason: reason, Message: strings.Join(lines, "\n")}
}

func TestSight(t *testing.T) {
	healthy := values(yes, "ResourcesHealthy", "All resources are healthy.")
	done := values(no, "ResourcesRolledOut", "All resources have been fully rolled out.")
	missing := problem("/ConfigMap/default/a", health.Missing, "")
	down := problem("apps/Deployment/default/a", health.Unavailable, "condition Available is False")
	crashing := problem("apps/DaemonSet/default/b", health.Failed, "pod b-1: container c crashes")
	starting := problem("apps/StatefulSet/default/a", health.Waiting, "generation 2 has not been observed yet, only 1")
	const (
		saysMissing  = "ConfigMap default/a does not exist."
		saysDown     = "Deployment.apps default/a is unhealthy: condition Available is False"
		saysCrashing = "DaemonSet.apps default/b is unhealthy: pod b-1: container c crashes"
		saysStarting = "StatefulSet.apps default/a is unhealthy: generation 2 has not been observed yet, only 1"
		notShown     = "ConfigMap default/a is not shown yet as it was written last."
	)
	forbidden := map[string]error{"Secret": errors.New("forbidden")}
	for name, test := range map[string]struct {
		snapshot         conditions.Snapshot
		healthy, rollout *conditions.Condition // nil for not known
	}{
		"H4 nothing is wrong": {conditions.Snapshot{}, healthy, done},
		"H5 missing": {conditions.Snapshot{Unhealthy: []conditions.Problem{missing}},
			values(no, "ConfigMapMissing", saysMissing), done},
		"H5 of a kind that is not served": {
			conditions.Snapshot{Unhealthy: []conditions.Problem{problem(
				"example.org/Tree/default/a", health.Missing, `no matches for kind "Tree"`)}},
			values(no, "TreeMissing", `Tree.example.org default/a does not exist: no matches for kind "Tree"`), done,
		},
		"the worst comes first": {
			conditions.Snapshot{Unhealthy: []conditions.Problem{starting, down, crashing, missing}},
			values(no, "ConfigMapMissing", saysMissing, saysCrashing, saysDown, saysStarting), done,
		},
		"equally bad ones stay in order": {
			conditions.Snapshot{Unhealthy: []conditions.Problem{problem("/Secret/z/z", health.Missing, ""), missing}},
			values(no, "SecretMissing", "Secret z/z does not exist.", saysMissing), done,
		},
		"what others need comes before them": {
			conditions.Snapshot{Unhealthy: []conditions.Problem{
				missing, problem("/Namespace//default", health.Missing, ""), crashing,
				problem("apiextensions.k8s.io/CustomResourceDefinition//trees", health.Missing, ""),
				problem("apiregistration.k8s.io/APIService//v1.a", health.Failed, "no endpoints"),
			}},
			values(no, "NamespaceMissing", "Namespace default does not exist.", "CustomResourceDefinition.apiextensions.k8s.io trees does not exist.",
				saysMissing, "APIService.apiregistration.k8s.io v1.a is unhealthy: no endpoints", saysCrashing), done,
		},
		"progressing": {
			conditions.Snapshot{Progressing: []conditions.Problem{
				problem("apps/Deployment/default/a", health.Waiting, "1 of 2 pods"),
				problem("apps/Deployment/default/b", health.Failed, "pod b-1: container c waits (ImagePullBackOff)"),
			}},
			healthy, values(yes, "DeploymentProgressing", "Deployment.apps default/b is progressing: pod b-1: container c waits (ImagePullBackOff)",
				"Deployment.apps default/a is progressing: 1 of 2 pods"),
		},
		"notes follow what they explain": {
			conditions.Snapshot{Unhealthy: []conditions.Problem{down,
				problem("/Service/a/b", health.Failed, "no ingress", "Warnings:", "- one")}},
			values(no, "ServiceUnhealthy", "Service a/b is unhealthy: no ingress", "  Warnings:", "  - one", saysDown), done,
		},

		"hidden, but not for long": {conditions.Snapshot{Hidden: []string{notShown}, Patient: true}, nil, nil},
		"hidden, but not for long, and others are missing": {
			conditions.Snapshot{Hidden: []string{notShown}, Patient: true, Unhealthy: []conditions.Problem{missing}},
			values(no, missing.Key.Kind+"Missing", saysMissing), nil,
		},
		"hidden, but not for long, and others roll": {
			conditions.Snapshot{Hidden: []string{notShown}, Patient: true,
				Progressing: []conditions.Problem{problem("apps/DaemonSet/a/b", health.Waiting, "rolls")}}, nil,
			values(yes, "DaemonSetProgressing", "DaemonSet.apps a/b is progressing: rolls"),
		},
		"hidden, but not for long, and a watch fails": {conditions.Snapshot{Hidden: []string{notShown}, Patient: true,
			Failed: forbidden}, nil, nil},
		"hidden for long": {conditions.Snapshot{Hidden: []string{notShown}},
			values(unknown, "ChecksPending", notShown), values(unknown, "ChecksPending", notShown)},
		"hidden, others are worse": {conditions.Snapshot{Hidden: []string{notShown}, Unhealthy: []conditions.Problem{down}},
			values(no, "DeploymentUnhealthy", saysDown, notShown), values(unknown, "ChecksPending", notShown)},

		"a kind that cannot be watched": {
			conditions.Snapshot{Failed: forbidden, Patient: true},
			values(no, "HealthCheckError", "Secret cannot be watched: forbidden"), values(unknown, "HealthCheckError", "Secret cannot be watched: forbidden"),
		},
		"several of them, and others are unhealthy": {
			conditions.Snapshot{Failed: map[string]error{"b": errors.New("two"), "a": errors.New("one")},
				Unhealthy:   []conditions.Problem{down},
				Progressing: []conditions.Problem{problem("apps/Deployment/default/a", health.Waiting, "rolls")}},
			values(no, "DeploymentUnhealthy", saysDown, "a cannot be watched: one", "b cannot be watched: two"),
			values(yes, "DeploymentProgressing", "Deployment.apps default/a is progressing: rolls", "a cannot be watched: one", "b cannot be watched: two"),
		},

		"pods are not listed yet": {conditions.Snapshot{PodsHidden: true, Patient: true}, healthy, nil},
		"pods are not listed for long": {conditions.Snapshot{PodsHidden: true}, healthy,
			values(unknown, "ChecksPending", "The pods are not listed yet.")},
		"pods cannot be watched": {conditions.Snapshot{PodsHidden: true, PodsFailed: errors.New("forbidden"),
			Patient: true}, healthy, values(unknown, "HealthCheckError", "Pod cannot be watched: forbidden")},
		"pods are not listed, others rolls": {conditions.Snapshot{PodsHidden: true, Patient: true,
			Progressing: []conditions.Problem{problem("apps/DaemonSet/a/b", health.Waiting, "rolls")}}, healthy,
			values(yes, "DaemonSetProgressing", "DaemonSet.apps a/b is progressing: rolls")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			expect := func(c conditions.Condition, known bool, want *conditions.Condition) {
				g.Expect(known).To(Equal(want != nil))
				if known {
					g.Expect(c).To(Equal(*want))
				}
			}
			for range 2 { // the same every time
				c, known := test.snapshot.Healthy()
				expect(c, known, test.healthy)
				c, known = test.snapshot.Rollout()
				expect(c, known, test.rollout)
			}
		})
	}
}

// Whatever there is to say, a condition has room for it.
func TestMessagesAreBounded(t *testing.T) {
	g := NewWithT(t)
	var many []conditions.Problem
	for i := range 1000 {
		many = append(many, problem(fmt.Sprintf("/Service/default/%03d", i), health.Failed, strings.Repeat("€", 5000)+"\n\nlast", strings.Repeat("ä", 5000), "- x"))
	}
	snapshot := conditions.Snapshot{Unhealthy: many, Failed: map[string]error{}}
	for i := range 1000 {
		snapshot.Failed[fmt.Sprintf("%03d", i)] = errors.New(strings.Repeat("x", 5000))
	}
	c, _ := snapshot.Healthy()
	bound := conditions.Bound(c.Message)
	g.Expect(len(bound)).To(BeNumerically("<=", 32<<10))
	g.Expect(strings.ToValidUTF8(bound, "?")).To(Equal(bound))
	g.Expect(strings.Count(c.Message, "is unhealthy")).To(Equal(20))
	g.Expect(c.Message).To(HaveSuffix("\n... and 1980 more"))
	for text := range strings.SplitSeq(c.Message, "\n") {
		g.Expect(len(text)).To(BeNumerically("<=", 1026))
	}
	g.Expect(conditions.Bound("short")).To(Equal("short"))
}
