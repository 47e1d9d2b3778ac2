package webhooks_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/routes"
)

// neighbour is a target that is none of the fleet's, and hangs one whose API server answers nothing.
var (
	neighbour = clustercache.ClusterKey{Namespace: "shoot--neighbour", Name: "target"}
	hangs     = clustercache.ClusterKey{Namespace: "shoot--hangs", Name: "target"}
)

// hanging is the state of a target that answers nothing, within the second that the hub waits.
type hanging struct{ admission.State }

func (hanging) ServiceAccount(ctx context.Context, _ types.NamespacedName) (*corev1.ServiceAccount, error) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return nil, admission.ErrUnknown
}

// BenchmarkNeighbours measures what the fleet gets while another target floods the hub, or does not answer it, and
// without that. The flood is five times what a target may send. Its client and the hub share the processors, so the
// same flood is sent to a second hub, too: what it costs the fleet then is no fault of the limits.
func BenchmarkNeighbours(b *testing.B) {
	c := ofSamples(b)
	var all []admission.Webhook
	for _, w := range webhooks.All(nil) {
		if !w.Validating && w.Enabled(&c.Settings) {
			all = append(all, w)
		}
	}
	for _, beside := range []struct {
		name   string
		target clustercache.ClusterKey
		rate   int  // requests a second; 0: none
		served int  // HTTP status of those that are worked on
		second bool // they are sent to a second hub
	}{
		{"none", neighbour, 0, 0, false},
		{"one that floods", neighbour, 1000, http.StatusOK, false},
		{"one that floods a second hub", neighbour, 1000, http.StatusOK, true},
		{"one that hangs", hangs, 300, http.StatusServiceUnavailable, false},
	} {
		b.Run(beside.name, func(b *testing.B) {
			f := newFleet(b, c, all)
			called := f
			if beside.second {
				called = newFleet(b, c, all)
			}
			statuses := called.pester(b, beside.target, beside.rate)
			f.measure(b)
			served, refused := statuses(beside.served), statuses(http.StatusTooManyRequests)
			if beside.rate > 0 && b.N > 1000 {
				f.Expect(served).To(BeNumerically(">", 0))
				f.Expect(refused).To(BeNumerically(">", 0))
				b.ReportMetric(100*float64(refused)/float64(served+refused), "refused-%")
			}
		})
	}
}

// pester has a target send reviews of its pods at a rate until the benchmark ends, whatever becomes of them. statuses
// counts the answers with an HTTP status.
func (f *fleet) pester(b *testing.B, target clustercache.ClusterKey, rate int) (statuses func(int) int64) {
	b.Helper()
	counts := map[int]*atomic.Int64{
		http.StatusOK: {}, http.StatusTooManyRequests: {}, http.StatusServiceUnavailable: {},
	}
	statuses = func(status int) int64 {
		if n := counts[status]; n != nil {
			return n.Load()
		}
		return 0
	}
	if rate == 0 {
		return statuses
	}
	route := routes.Route{Target: target, UID: "uid", Webhook: f.webhooks[0].Path} // reads the ServiceAccount
	url := f.address + route.Path(fleetSecret)
	client := f.newClient(b, rate)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		begun := time.Now()
		for i := 0; ctx.Err() == nil; i++ {
			time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / time.Duration(rate))))
			work.Go(func() {
				response, err := client.Post(url, "application/json", bytes.NewReader(f.bodies[0]))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if n := counts[response.StatusCode]; n != nil {
					n.Add(1)
				}
			})
		}
	})
	b.Cleanup(func() { cancel(); work.Wait() })
	return statuses
}
