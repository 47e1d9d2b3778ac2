package fleet

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func clusterOf(name string, conditions ...metav1.Condition) hubv1alpha1.TargetCluster {
	tc := hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n-" + name, Name: name}}
	tc.Status.ClusterUID, tc.Status.Conditions = types.UID("uid-"+name), conditions
	return tc
}

func condition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}
}

// summary is a problem in short.
type summary struct {
	kind, reason string
	objects      []string
	waiting      int
	wished       bool
}

func TestProblemsAreGroupedByTheirCause(t *testing.T) {
	ready := condition("Ready", "True", "Ready", "")
	entry := func(cluster, name, ready, reason, message string) listing.Entry {
		return listing.Entry{Namespace: "n-" + cluster, Name: name, TargetUID: "uid-" + cluster, Ready: ready,
			Applied: ready, Reason: reason, Message: message}
	}
	suspended := entry("a", "suspended", "True", "Ready", "")
	suspended.Suspended = true
	contested := entry("a", "contested", "True", "Ready", "")
	contested.Contested = "True"
	rolling := entry("a", "rolling", "False", "DeploymentProgressing", "Deployment is progressing")
	rolling.Applied, rolling.Healthy = "True", "True"
	unplaced := listing.Entry{Namespace: "elsewhere", Name: "new"}
	f := &Fleet{Now: now, Hub: cli.Heartbeat{Known: true, Leader: "trellis-0", Renewed: &now}} // and not Working
	f.Clusters = []hubv1alpha1.TargetCluster{
		// web-1 is a problem of its own
		clusterOf("a", ready, condition("SystemComponentsHealthy", "False", "ManagedResourcesUnhealthy", "web-1")),
		clusterOf("b", condition("Ready", "False", "Unreachable", "dial tcp 10.0.0.1:443: refused")),
		clusterOf("c", condition("Ready", "False", "Unreachable", "dial tcp 10.0.0.2:443: refused")),
		clusterOf("d", condition("Ready", "False", "Unauthorized", "the token has ended")),
		clusterOf("e", ready, condition("EveryNodeReady", "False", "NodesUnhealthy", "1 of 3 nodes")),
		clusterOf("g", ready, condition("WebhooksRegistered", "False", "WebhooksUnreachable",
			"dial tcp 10.0.0.1:443: refused")),
		clusterOf("h", ready, condition("WebhooksRegistered", "False", "WebhooksUnreachable",
			"dial tcp 10.0.0.2:443: refused")),
	}
	f.Clusters = append(f.Clusters, clusterOf("f", ready))
	f.Clusters[7].Spec.Paused = true
	f.ManagedResources = []listing.Entry{
		entry("a", "well", "True", "Ready", ""),
		entry("a", "web-1", "False", "DeploymentUnhealthy", "pod web-7d4b: ImagePullBackOff\nmore"),
		entry("e", "web-2", "False", "DeploymentUnhealthy", "pod web-1a2c: ImagePullBackOff\nother"),
		entry("e", "db", "False", "StatefulSetUnhealthy", "pod db-0: CrashLoopBackOff"),
		entry("b", "web", "Unknown", "TargetUnreachable", ""), entry("c", "web", "Unknown", "TargetUnreachable", ""),
		suspended, contested, rolling, unplaced,
	}
	f.index()
	p := f.Problems()
	var got []summary
	for _, problem := range p.Items {
		got = append(got, summary{problem.Kind, problem.Reason, problem.Objects, problem.Waiting, problem.Wished})
	}
	g := NewWithT(t)
	g.Expect(p.InProgress).To(Equal(1))
	g.Expect(got).To(Equal([]summary{
		{"Hub", "NoHubWorks", []string{"trellis-0"}, 0, false},
		{"Cluster", "Unreachable", []string{"n-b/b", "n-c/c"}, 2, false},
		{"Cluster", "WebhooksUnreachable", []string{"n-g/g", "n-h/h"}, 0, false},
		{"Cluster", "NodesUnhealthy", []string{"n-e/e"}, 0, false},
		{"Cluster", "Unauthorized", []string{"n-d/d"}, 0, false},
		{"ManagedResource", "DeploymentUnhealthy", []string{"n-a/web-1", "n-e/web-2"}, 0, false},
		{"ManagedResource", "NotSeen", []string{"elsewhere/new"}, 0, false},
		{"ManagedResource", "ObjectsContested", []string{"n-a/contested"}, 0, false},
		{"ManagedResource", "StatefulSetUnhealthy", []string{"n-e/db"}, 0, false},
		{"ManagedResource", "ManagedResourceIgnored", []string{"n-a/suspended"}, 0, true},
		{"Cluster", "Paused", []string{"n-f/f"}, 0, true},
	}))
}

// TestWhoseClusterIsRegisteredSeveralTimes: a ManagedResource has the problems of its own registration.
func TestWhoseClusterIsRegisteredSeveralTimes(t *testing.T) {
	registered := func(namespace, name string) hubv1alpha1.TargetCluster {
		tc := clusterOf("same")
		tc.Namespace, tc.Name = namespace, name
		return tc
	}
	f := &Fleet{Clusters: []hubv1alpha1.TargetCluster{
		registered("one", "a"), registered("two", "a"), registered("two", "b"), registered("three", "a"),
	}}
	f.index()
	for name, test := range map[string]struct {
		entry listing.Entry
		want  int
	}{
		"of the first namespace":             {listing.Entry{Namespace: "one", TargetUID: "uid-same"}, 0},
		"of the last one":                    {listing.Entry{Namespace: "three", TargetUID: "uid-same"}, 3},
		"one that picks a registration":      {listing.Entry{Namespace: "two", TargetUID: "uid-same", Cluster: "b"}, 2},
		"one that picks none of several":     {listing.Entry{Namespace: "two", TargetUID: "uid-same"}, 1},
		"of a namespace without a cluster":   {listing.Entry{Namespace: "four", TargetUID: "uid-same"}, 0},
		"one that is not applied yet":        {listing.Entry{Namespace: "one"}, 0},
		"one that picks what is not there":   {listing.Entry{Namespace: "one", Cluster: "x"}, -1},
		"one of a cluster that is not known": {listing.Entry{Namespace: "four", TargetUID: "uid-other"}, -1},
	} {
		NewWithT(t).Expect(f.clusterOf(&test.entry)).To(Equal(test.want), name)
	}
}
