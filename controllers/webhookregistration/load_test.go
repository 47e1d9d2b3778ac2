package webhookregistration

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/testbed/twins"
	"github.com/trellis-hub/trellis/webhooks/certificates"
	"github.com/trellis-hub/trellis/webhooks/server"
)

// load creates ConfigMaps in both targets until stop is called, which insists that all of them were created, and as
// they should be.
func (b *bench) load() (created *atomic.Int64, stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	created = &atomic.Int64{}
	var work sync.WaitGroup
	var mu sync.Mutex
	var faults []string
	for target, host := range map[*twins.Target]string{shared.A: "api.a", shared.B: "api.b"} {
		for range 2 {
			user := b.user(target)
			work.Go(func() {
				for ctx.Err() == nil {
					data, err := create(b.ctx, user)
					if err == nil && (data["host"] != host || data["mark"] != target.Key.Name) {
						err = fmt.Errorf("it is %v", data)
					}
					if err != nil {
						mu.Lock()
						faults = append(faults, target.Key.Name+": "+err.Error())
						mu.Unlock()
					}
					created.Add(1)
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
	}
	return created, func() {
		cancel()
		work.Wait()
		b.Expect(faults).To(BeEmpty(), "of %d", created.Load())
	}
}

func (b *bench) attachBoth() {
	b.switchOn(shared.A, "api.a")
	b.switchOn(shared.B, "api.b")
	b.start(nil)
	for _, target := range []*twins.Target{shared.A, shared.B} {
		b.Eventually(b.condition(target)).Should(Equal(registered))
	}
}

// HUB-12: no request is refused while certificate authority, certificate and paths are exchanged.
func TestRotationUnderLoad(t *testing.T) {
	b := newBench(t, func(o *certificates.Options) {
		o.Validity, o.Renewal, o.Overlap = 90*24*time.Hour, 5*time.Second, 3*time.Second
		o.Check, o.Spread = 200*time.Millisecond, time.Second
	})
	b.serve(b.listener)
	b.attachBoth()
	created, stop := b.load()
	defer stop()
	phases := map[string]bool{}
	first, _ := b.store.Material()
	b.Eventually(func() bool {
		m, _ := b.store.Material()
		phases[m.Phase] = true
		return len(m.Keys) == 1 && m.Hash != first.Hash
	}, "5m", "20ms").Should(BeTrue())
	b.Expect(phases).To(And(HaveKey("publishing"), HaveKey("overlap")))
	after := created.Load()
	b.Eventually(created.Load).Should(BeNumerically(">", after+10))
}

// replicas are servers behind one address, as a Service has them: what is not ready gets no new connections.
type replicas struct {
	mu      sync.Mutex
	servers []*server.Server
	next    int
}

func (r *replicas) change(servers ...*server.Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.servers = servers
}

func (r *replicas) pick() *server.Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range r.servers {
		r.next = (r.next + 1) % len(r.servers)
		if s := r.servers[r.next]; s.Ready(nil) == nil {
			return s
		}
	}
	return nil
}

// forward takes connections until the listener is closed.
func (r *replicas) forward(listener net.Listener, work *sync.WaitGroup) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		s := r.pick()
		if s == nil {
			_ = in.Close()
			continue
		}
		work.Go(func() {
			defer func() { _ = in.Close() }()
			out, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				return
			}
			var both sync.WaitGroup
			both.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
			_, _ = io.Copy(in, out)
			_ = in.Close()
			both.Wait()
		})
	}
}

// HUB-20: no request is refused while one replica after the other is replaced.
func TestRollingRestartUnderLoad(t *testing.T) {
	b := newBench(t, nil)
	local := func() net.Listener {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		b.Expect(err).NotTo(HaveOccurred())
		return listener
	}
	one, endOne := b.serve(local())
	two, endTwo := b.serve(local())
	service := &replicas{}
	service.change(one, two)
	var work sync.WaitGroup
	go service.forward(b.listener, &work)
	t.Cleanup(func() { _ = b.listener.Close(); work.Wait() })
	b.attachBoth()
	created, stop := b.load()
	goesOn := func() {
		before := created.Load()
		b.Eventually(created.Load).Should(BeNumerically(">", before+20))
	}
	goesOn()
	three, endThree := b.serve(local())
	service.change(one, two, three)
	endOne()
	goesOn()
	four, endFour := b.serve(local())
	service.change(two, three, four)
	endTwo()
	goesOn()
	stop()
	// Connections of API servers end with the servers.
	endThree()
	endFour()
}
