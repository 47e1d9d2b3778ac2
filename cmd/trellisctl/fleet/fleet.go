package fleet

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/explain"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
)

// Fleet is what the hub has reported of all clusters.
type Fleet struct {
	Now              time.Time
	Hub              cli.Heartbeat
	Clusters         []hubv1alpha1.TargetCluster
	ManagedResources []listing.Entry

	byUID   map[string]int   // clusters by the UID of the cluster
	byNames map[string][]int // clusters by namespace
}

// read reads the fleet, or a part of it.
func read(ctx context.Context, env *cli.Env, source *cli.Source, scope listing.Scope, hub cli.HubFlags) (
	*Fleet, error) {
	f := &Fleet{Now: env.Clock.Now()}
	var err error
	if f.Hub, err = hub.Read(ctx, source, f.Now); err != nil {
		return nil, err
	}
	if f.Clusters, err = listing.Clusters(ctx, source, scope); err != nil {
		return nil, err
	}
	if f.ManagedResources, err = listing.ManagedResources(ctx, source, scope, f.Now); err != nil {
		return nil, err
	}
	f.index()
	return f, nil
}

func (f *Fleet) index() {
	f.byUID, f.byNames = map[string]int{}, map[string][]int{}
	for i := range f.Clusters {
		tc := &f.Clusters[i]
		if uid := string(tc.Status.ClusterUID); uid != "" {
			f.byUID[uid] = i
		}
		f.byNames[tc.Namespace] = append(f.byNames[tc.Namespace], i)
	}
}

// clusterOf is the index of the cluster of a ManagedResource, -1 if it is not known.
func (f *Fleet) clusterOf(e *listing.Entry) int {
	if i, known := f.byUID[e.TargetUID]; known && e.TargetUID != "" {
		return i
	}
	here := f.byNames[e.Namespace]
	if e.Cluster == "" && len(here) == 1 && e.Class == "" {
		return here[0]
	}
	for _, i := range here {
		if f.Clusters[i].Name == e.Cluster {
			return i
		}
	}
	return -1
}

// sumOfManagedResources begins the reasons of conditions of clusters that sum up ManagedResources.
const sumOfManagedResources = "ManagedResources"

// causeOf is what is wrong with a cluster, as why would say without the registration; the zero value if nothing is.
// Conditions that sum up ManagedResources are left out, since what is wrong with these is said itself.
func (f *Fleet) causeOf(tc *hubv1alpha1.TargetCluster) explain.Cause {
	own := *tc
	own.Status.Conditions = slices.DeleteFunc(slices.Clone(tc.Status.Conditions), func(c metav1.Condition) bool {
		return strings.HasPrefix(c.Reason, sumOfManagedResources)
	})
	failing := slices.Clone(tc.Status.FailingChecks)
	own.Status.FailingChecks = slices.DeleteFunc(failing, func(c hubv1alpha1.FailingCheck) bool {
		return !slices.ContainsFunc(own.Status.Conditions, func(own metav1.Condition) bool { return own.Type == c.Type })
	})
	return explain.OfCluster(&explain.Facts{Now: f.Now, Namespace: tc.Namespace, Name: tc.Name, Cluster: &own})
}

// usable reports whether the hub can do its work in a cluster.
func usable(tc *hubv1alpha1.TargetCluster) bool {
	ready := readyOf(tc)
	return ready != nil && ready.Status == metav1.ConditionTrue
}

func readyOf(tc *hubv1alpha1.TargetCluster) *metav1.Condition {
	for i := range tc.Status.Conditions {
		if tc.Status.Conditions[i].Type == hubv1alpha1.ConditionReady {
			return &tc.Status.Conditions[i]
		}
	}
	return nil
}

// inProgress reports whether a ManagedResource is not ready because something is being done about it.
func inProgress(e *listing.Entry) bool {
	if e.Suspended || e.Ready == "True" {
		return false
	}
	if slices.Contains([]string{"ApplyProgressing", "ChecksPending", "ConditionInitialized"}, e.Reason) ||
		e.Applied == "Progressing" {
		return true
	}
	return e.Applied == "True" && e.Healthy == "True" && strings.HasSuffix(e.Reason, "Progressing")
}
