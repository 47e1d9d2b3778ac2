//go:build long

package app_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// A thousand targets, a fifth of them with all that one can have a series for: connected, by credentials that end, and
// some of them worked in. The others are unreachable. None of their series is left when they are gone.
func TestSeriesOfAThousandTargets(t *testing.T) {
	const targets, connected, worked = 1000, 200, 20
	e := newEnv(t)
	many := testbed.Namespace(t, nil, source)
	fleet, err := fleetsim.Start(e.ctx, fleetsim.Options{Targets: connected, Credentials: fleetsim.Certificate})
	e.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(fleet.Stop)
	hub := e.startHub()
	e.expectWork()
	t.Cleanup(func() {
		_ = source.Client.DeleteAllOf(e.ctx, &resourcesv1alpha1.ManagedResource{}, client.InNamespace(many))
		_ = source.Client.DeleteAllOf(e.ctx, &corev1.Secret{}, client.InNamespace(many))
	})
	var group errgroup.Group
	group.SetLimit(16)
	for i, to := range fleet.Targets() {
		group.Go(func() error {
			objects := []client.Object{to.Registration(many)}
			if i%worked == 0 {
				mr := testbed.ManagedResource(many, to.Name(), to.Name())
				mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: to.Name()}
				objects = append(objects, testbed.Content(many, to.Name(), "objects.yaml",
					testbed.ConfigMap("default", "one", "1")), mr)
			}
			for _, object := range objects {
				if err := source.Client.Create(e.ctx, object); err != nil {
					return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
				}
			}
			return nil
		})
	}
	for i := range targets - connected {
		group.Go(func() error {
			return source.Client.Create(e.ctx, testbed.Registration(many, fmt.Sprintf("away-%d", i), []byte(unreachable)))
		})
	}
	e.Expect(group.Wait()).To(Succeed())

	const slow, poll = 5 * time.Minute, 2 * time.Second
	sum := func(name string) func() (sum float64) {
		return func() (sum float64) {
			for _, m := range e.gathered(hub)[name].GetMetric() {
				sum += m.GetGauge().GetValue()
			}
			return sum
		}
	}
	own := e.name + "/target"
	e.Eventually(sum("trellis_target_up")).WithTimeout(slow).WithPolling(poll).Should(Equal(connected + 2.0))
	e.Eventually(sum("trellis_target_objects")).WithTimeout(slow).WithPolling(poll).Should(Equal(connected/worked + 1.0))
	e.Eventually(func(g Gomega) {
		counts := series(e.gathered(hub))
		g.Expect(counts).To(HaveLen(targets + 2))
		full := 0
		for name, n := range counts {
			g.Expect(n).To(BeNumerically("<=", maxSeries), name)
			if n == maxSeries {
				full++
			}
		}
		g.Expect(full).To(BeNumerically(">=", connected))
	}).WithTimeout(slow).WithPolling(poll).Should(Succeed())
	e.Expect(pageSize(hub)).To(BeNumerically("<", 4<<20), "5 MB are the most, and some series are of connected targets alone")

	e.Expect(source.Client.DeleteAllOf(e.ctx, &resourcesv1alpha1.ManagedResource{}, client.InNamespace(many))).To(Succeed())
	e.Eventually(func() []resourcesv1alpha1.ManagedResource {
		left := &resourcesv1alpha1.ManagedResourceList{}
		e.Expect(source.Client.List(e.ctx, left, client.InNamespace(many))).To(Succeed())
		return left.Items
	}).WithTimeout(slow).WithPolling(poll).Should(BeEmpty())
	e.Expect(source.Client.DeleteAllOf(e.ctx, &corev1.Secret{}, client.InNamespace(many))).To(Succeed())
	e.Eventually(func() map[string]int { return series(e.gathered(hub)) }).WithTimeout(slow).WithPolling(poll).
		Should(And(HaveLen(2), HaveKey(own), HaveKey("source")))
	e.stop(hub)
}
