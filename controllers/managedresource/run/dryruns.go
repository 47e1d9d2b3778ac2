package run

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// DryRuns are the last reports of ManagedResources whose class is a dry run, by target.
type DryRuns struct {
	mu      sync.Mutex
	reports map[types.NamespacedName]dryRunOf
}

type dryRunOf struct {
	target clustercache.ClusterKey
	report hubv1alpha1.DryRunReport
}

// Set keeps the report of a ManagedResource.
func (d *DryRuns) Set(name types.NamespacedName, target clustercache.ClusterKey, report hubv1alpha1.DryRunReport) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reports == nil {
		d.reports = map[types.NamespacedName]dryRunOf{}
	}
	d.reports[name] = dryRunOf{target, report}
}

// Forget drops the report of a ManagedResource.
func (d *DryRuns) Forget(name types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.reports, name)
}

// Sum adds up the reports of a target, nil if there is none.
func (d *DryRuns) Sum(target clustercache.ClusterKey) (sum *hubv1alpha1.DryRunReport) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, of := range d.reports {
		if of.target != target {
			continue
		}
		if sum == nil {
			sum = &hubv1alpha1.DryRunReport{}
		}
		sum.Creates += of.report.Creates
		sum.Updates += of.report.Updates
		sum.Deletes += of.report.Deletes
	}
	return sum
}
