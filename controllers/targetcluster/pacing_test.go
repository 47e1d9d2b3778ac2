package targetcluster

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/pacing"
)

func TestWritesWaitForThoseOfTheirKind(t *testing.T) {
	healthyStatus := hubv1alpha1.TargetClusterStatus{Conditions: conditionsFor(nil, 1, healthy())}
	gone := *healthyStatus.DeepCopy()
	setCondition(&gone, hubv1alpha1.ConditionConnected, metav1.ConditionFalse, hubv1alpha1.ReasonUnreachable)
	slower := *healthyStatus.DeepCopy()
	slower.RoundTripMilliseconds++
	sick := *healthyStatus.DeepCopy()
	setCondition(&sick, "SystemComponentsHealthy", metav1.ConditionFalse, "ManagedResourcesUnhealthy")
	wasFine := *healthyStatus.DeepCopy()
	setCondition(&wasFine, "SystemComponentsHealthy", metav1.ConditionTrue, "ManagedResourcesHealthy")
	tests := map[string]struct {
		before, after        hubv1alpha1.TargetClusterStatus
		noDetails, noChanges bool // the line is long
		waits                bool
	}{
		"one that goes": {before: healthyStatus, after: gone},
		"one that goes, behind details of others":        {before: healthyStatus, after: gone, noDetails: true},
		"components that fail, behind details of others": {before: wasFine, after: sick, noDetails: true},
		"one that goes with many":                        {before: healthyStatus, after: gone, noChanges: true, waits: true},
		"one that is back":                               {before: gone, after: healthyStatus, noDetails: true, noChanges: true},
		"a new one":                                      {after: gone, noDetails: true, noChanges: true},
		"details":                                        {before: healthyStatus, after: slower},
		"details behind those of others":                 {before: healthyStatus, after: slower, noDetails: true, waits: true},
		"details while many go":                          {before: healthyStatus, after: slower, noChanges: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := &reconciler{Options: Options{SyncPeriod: 30 * time.Second}, changes: pacing.New(changesPerSecond),
				details: pacing.New(detailsPerSecond)}
			others := func(c *pacing.Pacer, n int) {
				for i := range n {
					c.Delay(clustercache.ClusterKey{Namespace: "others", Name: fmt.Sprint(i)}, now)
				}
			}
			if test.noChanges {
				others(r.changes, changesPerSecond)
			}
			if test.noDetails {
				others(r.details, detailsPerSecond)
			}
			wait := r.pace(clustercache.ClusterKey{Namespace: "fleet", Name: "a"}, test.before, test.after, now)
			if test.waits {
				g.Expect(wait).To(BeNumerically(">", 0))
			} else {
				g.Expect(wait).To(BeZero())
			}
		})
	}
}
