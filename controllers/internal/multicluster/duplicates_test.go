package multicluster_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// become makes both targets registrations of one cluster.
func (w *world) become(uid types.UID) {
	for _, key := range []clustercache.ClusterKey{east, west} {
		status, _ := w.clusters.GetStatus(key)
		status.UID = uid
		w.clusters.SetStatus(status)
	}
}

// The work for a registration of a cluster begins when the last run for the former one has ended.
func TestMC4_RegistrationsOfAClusterFollowEachOther(t *testing.T) {
	w := newWorld(t)
	w.become("same")
	var holder atomic.Pointer[clustercache.ClusterKey]
	holder.Store(&east)
	began, release := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	w.do = func(_ context.Context, target *Target, _ types.NamespacedName) (reconcile.Result, error) {
		if target.Key() == east {
			close(began)
			<-release // it does not look at its context
		}
		return reconcile.Result{}, nil
	}
	changes := make(chan clustercache.ClusterKey)
	w.start(func(b *Builder) *Builder {
		return b.For(namespaces).
			EnabledFor(func(status clustercache.Status) bool { return status.Cluster == *holder.Load() }).
			FollowsSettings(func(ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey)) error {
				work.Go(func() {
					for {
						select {
						case key := <-changes:
							changed(key)
						case <-ctx.Done():
							return
						}
					}
				})
				return nil
			})
	})
	t.Cleanup(end)
	w.Eventually(func() any { return w.clusters.Watches(east) }).Should(HaveLen(1))
	w.put(east, "one")
	w.Eventually(began).Should(BeClosed())

	t.Log("the other one holds the cluster now")
	holder.Store(&west)
	changes <- west
	changes <- east
	changes <- west // it is followed when this is taken
	w.Expect(w.clusters.Watches(west)).To(BeEmpty(), "a run for the first one is under way")
	end()
	w.Eventually(func() any { return w.clusters.Watches(west) }).Should(HaveLen(1))
	w.Expect(w.timesForgotten(east)()).To(Equal(1))
	w.Expect(w.clusters.Watches(east)).To(BeEmpty())
}

// If both registrations are enabled, the controller works for one, and for the other one when that goes.
func TestMC4_OneRegistrationOfAClusterAtATime(t *testing.T) {
	w := newWorld(t)
	w.become("same")
	w.start(func(b *Builder) *Builder { return b.For(namespaces) })
	watches := func() (engaged []clustercache.ClusterKey) {
		for _, key := range []clustercache.ClusterKey{east, west} {
			if len(w.clusters.Watches(key)) > 0 {
				engaged = append(engaged, key)
			}
		}
		return engaged
	}
	w.Eventually(watches).Should(HaveLen(1))
	first := watches()[0]
	for _, key := range []clustercache.ClusterKey{west, east} {
		w.clusters.Emit(key, clustercache.EventConnected)
	}
	w.clusters.Remove(first)
	w.Eventually(watches).Should(And(HaveLen(1), Not(ContainElement(first))))
}

func TestInDuplicatesWorksForAllRegistrations(t *testing.T) {
	w := newWorld(t)
	w.become("same")
	w.start(func(b *Builder) *Builder { return b.For(namespaces).InDuplicates() })
	w.Eventually(func() int { return len(w.clusters.Watches(east)) + len(w.clusters.Watches(west)) }).Should(Equal(2))
}
