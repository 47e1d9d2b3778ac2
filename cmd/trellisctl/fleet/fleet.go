package fleet

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/diagnosis"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
)

// Fleet is what the hub has reported of all clusters.
type Fleet struct {
	Now              time.Time
	Hub              cli.Heartbeat
	Clusters         []hubv1alpha1.TargetCluster
	ManagedResources []listing.Entry

	byUID       map[string][]int // indexes of Clusters by the UID of the cluster, which may be registered several times
	byNamespace map[string][]int // indexes of Clusters by namespace
}

// read reads the fleet, or a part of it.
func read(ctx context.Context, env *cli.Env, source *cli.Source, scope listing.Scope, hub cli.HubFlags) (
	*Fleet, error) {
	f := &Fleet{Now: env.Clock.Now()}
	var err error
	if f.Hub, err = hub.Read(ctx, source, f.Now); err != nil {
		return nil, err
	}
	var work sync.WaitGroup
	var failed error
	work.Go(func() { f.Clusters, failed = listing.Clusters(ctx, source, scope) })
	f.ManagedResources, err = listing.ManagedResources(ctx, source, scope, f.Now)
	work.Wait()
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	f.index()
	return f, nil
}

func (f *Fleet) index() {
	f.byUID, f.byNamespace = map[string][]int{}, map[string][]int{}
	for i := range f.Clusters {
		tc := &f.Clusters[i]
		if uid := string(tc.Status.ClusterUID); uid != "" {
			f.byUID[uid] = append(f.byUID[uid], i)
		}
		f.byNamespace[tc.Namespace] = append(f.byNamespace[tc.Namespace], i)
	}
}

// clusterOf is the index of the cluster of a ManagedResource, -1 if it is not known. Of several registrations of one
// cluster, it is that of the namespace of the ManagedResource if there is one.
func (f *Fleet) clusterOf(e *listing.Entry) int {
	found := -1
	for _, i := range f.byUID[e.TargetUID] {
		tc := &f.Clusters[i]
		own := tc.Namespace == e.Namespace
		if own && tc.Name == e.Cluster {
			return i
		}
		if found < 0 || own && f.Clusters[found].Namespace != e.Namespace {
			found = i
		}
	}
	if found >= 0 {
		return found
	}
	here := f.byNamespace[e.Namespace]
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

// causeOf is what is wrong with a cluster, as "why" finds it without the registration; the zero value if nothing is.
// Conditions that sum up ManagedResources are left out, since these have problems of their own.
func (f *Fleet) causeOf(tc *hubv1alpha1.TargetCluster) diagnosis.Cause {
	own := *tc
	own.Status.Conditions = slices.DeleteFunc(slices.Clone(tc.Status.Conditions), func(c metav1.Condition) bool {
		return diagnosis.SumsUp(c.Reason)
	})
	failing := slices.Clone(tc.Status.FailingChecks)
	own.Status.FailingChecks = slices.DeleteFunc(failing, func(c hubv1alpha1.FailingCheck) bool {
		return !slices.ContainsFunc(own.Status.Conditions,
			func(own metav1.Condition) bool { return own.Type == c.Type })
	})
	return diagnosis.OfCluster(&diagnosis.Facts{Now: f.Now, Namespace: tc.Namespace, Name: tc.Name, Cluster: &own})
}

// usable reports whether the hub can do its work in a cluster.
func usable(tc *hubv1alpha1.TargetCluster) bool {
	return meta.IsStatusConditionTrue(tc.Status.Conditions, hubv1alpha1.ConditionReady)
}

// inProgress reports whether a ManagedResource is not ready because it is being applied or rolled out.
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
