package follow_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/internal/follow"
)

// gate is a server that cannot be asked while resume is to be called.
type gate struct {
	closed bool
	resume func()
}

func (g *gate) await(_ context.Context, resume func()) bool {
	if g.closed {
		g.resume = resume
	}
	return g.closed
}

// While a target cannot be asked nobody waits for it, neither asking again and again nor in a goroutine.
func TestNobodyWaitsWhileTheServerCannotBeAsked(t *testing.T) {
	const list = `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}`
	begin := func(t *testing.T) (*WithT, *gate, *answers, *hasty, func(context.Context) error, *int) {
		g := NewWithT(t)
		first := &parking{}
		first.have.WriteString(list)
		server := &answers{kind: "application/json", bodies: []*parking{first, {}, {}}}
		address, err := url.Parse("https://target")
		g.Expect(err).NotTo(HaveOccurred())
		gate, clock, woken := &gate{}, &hasty{now: time.Now()}, 0
		f := follow.New(follow.Collection{
			Client: &http.Client{Transport: server}, Server: address, Clock: clock, MetadataOnly: true, Await: gate.await,
			Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		}, &sink{present: map[string]client.Object{}}, func() { woken++ })
		g.Expect(f.Follow(t.Context())).To(MatchError(follow.ErrParked))
		return g, gate, server, clock, f.Follow, &woken
	}
	t.Run("it goes on where it was", func(t *testing.T) {
		g, gate, server, clock, again, woken := begin(t)
		for _, body := range server.bodies[:2] {
			gate.closed = true
			last := server.current
			last.end()
			g.Expect(again(t.Context())).To(MatchError(follow.ErrParked))
			asked := len(server.asked)
			gate.resume()
			g.Expect(again(t.Context())).To(MatchError(follow.ErrParked), "it was closed again meanwhile")
			g.Expect(server.asked).To(HaveLen(asked))

			before := *woken
			gate.closed = false
			gate.resume()
			g.Expect(*woken).To(Equal(before + 1))
			g.Expect(again(t.Context())).To(MatchError(follow.ErrParked))
			g.Expect(server.asked).To(HaveLen(asked + 1))
			g.Expect(server.asked[asked].Get("resourceVersion")).To(Equal("5"))
			g.Expect(server.current).To(BeIdenticalTo(body))
		}
		g.Expect(clock.paused()).To(BeEmpty())
	})
	t.Run("it ends meanwhile", func(t *testing.T) {
		g, gate, server, _, again, _ := begin(t)
		gate.closed = true
		server.current.end()
		g.Expect(again(t.Context())).To(MatchError(follow.ErrParked))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		g.Expect(again(ended)).To(Succeed())
	})
	t.Run("what went wrong before counts no more", func(t *testing.T) {
		g, gate, server, clock, again, _ := begin(t)
		for range 3 * 4 { // more often than a watch is opened again in a row
			server.bodies = append(server.bodies, &parking{}, &parking{})
			server.current.end() // at once
			g.Expect(again(t.Context())).To(MatchError(follow.ErrParked))
			clock.step(time.Minute)
			gate.closed = true
			server.current.end()
			g.Expect(again(t.Context())).To(MatchError(follow.ErrParked))
			gate.closed = false
			gate.resume()
			g.Expect(again(t.Context())).To(MatchError(follow.ErrParked))
		}
		for _, pause := range clock.paused() {
			g.Expect(pause).To(BeNumerically("<", 2*time.Second))
		}
	})
	t.Run("it is lost while there is a pause", func(t *testing.T) {
		g, gate, server, clock, again, _ := begin(t)
		clock.during = func() { gate.closed = true }
		server.current.end() // at once after the list, so that it is not opened again at once
		g.Expect(again(t.Context())).To(MatchError(follow.ErrParked))
		g.Expect(clock.paused()).To(HaveLen(1))
		g.Expect(server.asked).To(HaveLen(1))
		gate.closed = false
		gate.resume()
		g.Expect(again(t.Context())).To(MatchError(follow.ErrParked))
		g.Expect(server.asked).To(HaveLen(2))
	})
}
