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
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}
}

// said is a problem in short.
type said struct {
	kind, reason string
	objects      []string
	waiting      int
	wished       bool
}

func TestProblemsAreGroupedByTheirCause(t *testing.T) {
	ready := condition("Ready", "True", "Ready", "")
	entry := func(cluster, name, ready, reason, message string) listing.Entry {
		return listing.Entry{Namespace: "n-" + cluster, Name: name, TargetUID: "uid-" + cluster, Ready: ready, Applied: ready, Reason: reason, Message: message}
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
		clusterOf("a", ready, condition("SystemComponentsHealthy", "False", "ManagedResourcesUnhealthy", "web-1")), // it is listed itself
		clusterOf("b", condition("Ready", "False", "Unreachable", "dial tcp 10.0.0.1:443: refused")),
		clusterOf("c", condition("Ready", "False", "Unreachable", "dial tcp 10.0.0.2:443: refused")),
		clusterOf("d", condition("Ready", "False", "Unauthorized", "the token has ended")),
		clusterOf("e", ready, condition("EveryNodeReady", "False", "NodesUnhealthy", "1 of 3 nodes")),
	}
	f.Clusters = append(f.Clusters, clusterOf("f", ready))
	f.Clusters[5].Spec.Paused = true
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
	var got []said
	for _, problem := range p.Items {
		got = append(got, said{problem.Kind, problem.Reason, problem.Objects, problem.Waiting, problem.Wished})
	}
	g := NewWithT(t)
	g.Expect(p.InProgress).To(Equal(1))
	g.Expect(got).To(Equal([]said{
		{"Hub", "NoHubWorks", []string{"trellis-0"}, 0, false},
		{"Cluster", "Unreachable", []string{"n-b/b", "n-c/c"}, 2, false},
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
