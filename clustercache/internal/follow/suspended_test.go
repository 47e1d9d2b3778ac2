package follow_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/internal/follow"
)

// gate says when a server cannot be asked.
type gate struct {
	mu   sync.Mutex
	held chan struct{}
}

func (g *gate) closed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held != nil {
		close(g.held)
	}
	g.held = nil
}

// opened is a watch as its server sees it.
type opened struct {
	version string // that it continues from
	body    *io.PipeWriter
}

// opener answers each request with a watch.
type opener chan opened

func (o opener) RoundTrip(r *http.Request) (*http.Response, error) {
	read, write := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = write.CloseWithError(r.Context().Err()) })
	o <- opened{r.URL.Query().Get("resourceVersion"), write}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: read, Request: r,
	}, nil
}

// While a target cannot be asked its watches wait, and continue where they were afterwards.
func TestWatchesWaitWhileTheServerCannotBeAsked(t *testing.T) {
	begin := func(t *testing.T) (*WithT, *gate, opener, *hasty, context.CancelFunc, <-chan error, opened) {
		g := NewWithT(t)
		g.SetDefaultEventuallyTimeout(2 * time.Minute)
		address, err := url.Parse("https://target")
		g.Expect(err).NotTo(HaveOccurred())
		server, gate, clock := make(opener, 100), &gate{}, &hasty{now: time.Now()}
		f := follow.New(follow.Collection{
			Client: &http.Client{Transport: server}, Server: address, Clock: clock, MetadataOnly: true, Suspended: gate.closed,
			Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		}, &sink{present: map[string]client.Object{}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Follow(ctx) }()
		t.Cleanup(func() { cancel(); gate.open() })
		var first opened
		g.Eventually(server).Should(Receive(&first))
		_, _ = io.WriteString(first.body, all("5"))
		return g, gate, server, clock, cancel, ended, first
	}
	t.Run("it goes on where it was", func(t *testing.T) {
		g, gate, server, clock, _, _, current := begin(t)
		for range 2 {
			gate.close()
			_ = current.body.Close()
			g.Consistently(server, 50*time.Millisecond).ShouldNot(Receive())
			gate.open()
			g.Eventually(server).Should(Receive(&current))
			g.Expect(current.version).To(Equal("5"))
		}
		g.Expect(clock.paused()).To(BeEmpty())
	})
	t.Run("it ends meanwhile", func(t *testing.T) {
		g, gate, _, _, cancel, ended, current := begin(t)
		gate.close()
		_ = current.body.Close()
		cancel()
		g.Eventually(ended).Should(Receive(BeNil()))
	})
	t.Run("earlier failures do not count after it", func(t *testing.T) {
		g, gate, server, clock, _, _, current := begin(t)
		for range 3 * 4 { // more often than a watch is opened again in a row
			_ = current.body.Close() // at once
			g.Eventually(server).Should(Receive(&current))
			_, _ = io.WriteString(current.body, mark("5")) // it is being read, so its beginning was noted
			clock.step(time.Minute)
			gate.close()
			_ = current.body.Close()
			gate.open()
			g.Eventually(server).Should(Receive(&current))
		}
		for _, pause := range clock.paused() {
			g.Expect(pause).To(BeNumerically("<", 2*time.Second))
		}
	})
	t.Run("it is lost while there is a pause", func(t *testing.T) {
		g, gate, server, clock, _, _, current := begin(t)
		clock.during = gate.close
		_ = current.body.Close() // at once after the list, so that it is not opened again at once
		g.Eventually(clock.paused).Should(HaveLen(1))
		g.Consistently(server, 50*time.Millisecond).ShouldNot(Receive())
		gate.open()
		g.Eventually(server).Should(Receive())
	})
}
