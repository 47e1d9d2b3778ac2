package objects

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache/mapperpool"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

// slowDiscovery is a target whose discovery takes 9 seconds and then fails, or hangs.
type slowDiscovery struct {
	*WithT
	target   apply.Target
	requests atomic.Int64
	hangs    atomic.Bool
}

func newSlowDiscovery(t *testing.T) *slowDiscovery {
	d := &slowDiscovery{WithT: NewWithT(t)}
	clock := clocktesting.NewFakePassiveClock(time.Now())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.requests.Add(1)
		if d.hangs.Load() {
			<-r.Context().Done()
			return
		}
		clock.SetTime(clock.Now().Add(9 * time.Second))
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	connection, disconnect := context.WithCancel(context.Background())
	t.Cleanup(disconnect)
	pool := mapperpool.New(mapperpool.Options{Clock: clock, Timeout: time.Hour})
	d.target = apply.Target{Mapper: pool.Mapper(connection, &rest.Config{Host: server.URL}, server.Client(), nil)}
	return d
}

// many returns objects of different kinds.
func many() (b *bundle.Bundle, intents []apply.Intent, refs []resourcesv1alpha1.ObjectReference) {
	b = &bundle.Bundle{}
	for i := range 150 {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": fmt.Sprint("Kind", i),
			"metadata": map[string]any{"namespace": "a", "name": "b"},
		}}
		b.Objects = append(b.Objects, bundle.Object{Unstructured: o})
		intents = append(intents, apply.Intent{Object: o, Key: inventory.KeyOfObject(o)})
		refs = append(refs, inventory.Entry(o, nil, nil))
	}
	return b, intents, refs
}

// steps are the operations of a run on each object of a bundle. They return how many of them failed, and an error.
func (d *slowDiscovery) steps() map[string]func(ctx context.Context) (failed int, err error) {
	b, intents, refs := many()
	return map[string]func(context.Context) (int, error){
		"plan": func(ctx context.Context) (int, error) {
			work := &run.Subject{
				MR:    &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}},
				Class: &assignment.Class{},
				Name:  types.NamespacedName{Namespace: "a", Name: "b"},
			}
			p, err := NewPlan(ctx, work, "", b, d.target)
			if err != nil {
				return len(b.Objects), err
			}
			return len(p.Faults), nil
		},
		"apply": func(ctx context.Context) (int, error) {
			failures := apply.Failures((&apply.Applier{Parallel: 16}).Run(ctx, d.target, intents, nil))
			return len(failures), failures[0].Err
		},
		"look": func(ctx context.Context) (failed int, err error) {
			o := &Writer{Applier: &apply.Applier{Parallel: 16}}
			for _, h := range o.heads(ctx, d.target, intents) {
				if h.err != nil {
					failed, err = failed+1, h.err
				}
			}
			return failed, err
		},
		"prune": func(ctx context.Context) (failed int, err error) {
			for _, o := range prune.Objects(ctx, prune.Target{Mapper: d.target.Mapper}, refs, prune.Policy{Parallel: 16}) {
				if o.Err != nil {
					failed, err = failed+1, o.Err
				}
			}
			return failed, err
		},
	}
}

// A run asks a target whose discovery is slow and fails once, not once for each of its objects.
func TestObjectsShareTheFailureOfDiscovery(t *testing.T) {
	for name := range newSlowDiscovery(t).steps() {
		t.Run(name, func(t *testing.T) {
			d := newSlowDiscovery(t)
			failed, err := d.steps()[name](t.Context())
			d.Expect(failed).To(Equal(150))
			if err != nil {
				d.Expect(err).To(MatchError(ContainSubstring("discovery")))
			}
			d.Expect(d.requests.Load()).To(BeEquivalentTo(1))
		})
	}
}

// A run ends with its context, wherever it is just then.
func TestARunEndsWithItsContextWhileDiscoveryHangs(t *testing.T) {
	for name := range newSlowDiscovery(t).steps() {
		t.Run(name, func(t *testing.T) {
			d := newSlowDiscovery(t)
			d.hangs.Store(true)
			over := errors.New("the time of the run is over")
			ctx, cancel := context.WithCancelCause(t.Context())
			outcome := make(chan error, 1)
			go func() {
				_, err := d.steps()[name](ctx)
				outcome <- err
			}()
			d.Eventually(d.requests.Load, 2*time.Minute).Should(BeEquivalentTo(1))
			cancel(over)
			d.Eventually(outcome, 2*time.Minute).Should(Receive(MatchError(over)))
			d.Expect(d.requests.Load()).To(BeEquivalentTo(1))
		})
	}
}
