package clustercache

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/fleetsim"
)

var errFenced = errors.New("not now")

// tap is what the hub's own calls have to pass. While it is shut, all sockets refuse whatever is written to them.
type tap struct {
	shut    atomic.Bool
	refused atomic.Int64
}

func (tap *tap) wrap(conn net.Conn) (net.Conn, error) { return tappedConn{conn, tap}, nil }

// options are those of a cache that calls its targets through the tap.
func (tap *tap) options() Options {
	return Options{
		Fenced: func(err error) bool { return errors.Is(err, errFenced) },
		Dial:   DialOptions{WrapConn: tap.wrap},
		Probe:  ProbeOptions{Interval: 100 * time.Millisecond, Timeout: patience, Failures: 1},
	}
}

// refuse shuts the tap until it has refused so much.
func (tap *tap) refuse(h *hub, much int64) {
	h.t.Helper()
	tap.shut.Store(true)
	enough := tap.refused.Load() + much
	h.Eventually(tap.refused.Load).Should(BeNumerically(">=", enough))
}

type tappedConn struct {
	net.Conn
	tap *tap
}

func (c tappedConn) Write(p []byte) (int, error) {
	if c.tap.shut.Load() {
		c.tap.refused.Add(1)
		return 0, errFenced
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		return n, fmt.Errorf("writing: %w", err)
	}
	return n, nil
}

func TestWhatTheHubDoesNotSendSaysNothingAboutTheTarget(t *testing.T) {
	t.Run("of probes and watches", func(t *testing.T) {
		var tap tap
		h, target, key := simulated(t, tap.options())
		r := h.watchConfigMaps(key)
		connected := h.status(key)
		tap.refuse(h, 5)
		h.Expect(h.status(key)).To(HaveField("State", StateConnected))
		refused, began := tap.refused.Load(), time.Now()
		time.Sleep(2 * time.Second)
		most := 2 * int64(time.Since(began)/(probePause*3/4)+1) // probes and attempts of the watch to open again
		h.Expect(tap.refused.Load()-refused).To(BeNumerically("<=", most), "the hub does not try all the time")
		tap.shut.Store(false)
		h.Expect(write(t.Context(), h.writer(key), "one", "x")).To(Succeed())
		h.Eventually(r.names).Should(ContainElement("one"))
		h.Expect(h.status(key)).To(And(
			HaveField("Since", connected.Since), HaveField("Connection", connected.Connection)), "it was connected all the time")
		h.Expect(h.cache.GetHealthCheckingState(t.Context(), key)).To(HaveField("ConsecutiveFailures", 0))
		h.Expect(r.syncs()).To(Equal(1), "the watch went on where it was")
		h.Eventually(target.Connections).Should(BeNumerically("<=", 2), "sockets do not pile up")
	})
	t.Run("of writes: they fail, and others are made", func(t *testing.T) {
		var tap tap
		h, _, key := simulated(t, tap.options())
		c := h.writer(key)
		tap.shut.Store(true)
		for range 20 {
			h.Expect(write(t.Context(), c, "one", "x")).To(MatchError(errFenced))
		}
		tap.shut.Store(false)
		h.Expect(write(t.Context(), c, "one", "x")).To(Succeed(), "at once: the target is not taken for one that does not answer")
	})
	t.Run("of first attempts", func(t *testing.T) {
		var tap tap
		target := simulatedFleet(t, fleetsim.Options{Targets: 1})[0]
		h := start(t, tap.options())
		tap.shut.Store(true)
		key := h.register(target.Name(), target.Kubeconfig())
		tap.refuse(h, 3)
		h.Expect(h.status(key)).To(And(HaveField("State", StateConnecting), HaveField("Message", BeEmpty())))
		tap.shut.Store(false)
		h.expectState(key, StateConnected)
	})
	t.Run("of attempts with another token", func(t *testing.T) {
		var tap tap
		options := tap.options()
		options.Probe.Interval = time.Hour // so that an attempt is what is refused
		h := start(t, options)
		a := newAPIServer(t, newStore("uid-a"))
		key := h.register("a", a.kubeconfig("first"))
		h.expectState(key, StateConnected)
		tap.shut.Store(true)
		h.register("a", a.kubeconfig("second"))
		tap.refuse(h, 1)
		h.Consistently(func() Status { return h.status(key) }).Should(And(HaveField("State", StateConnected), HaveField("PendingMessage", BeEmpty())))
		tap.shut.Store(false)
		h.Eventually(func() string { return h.status(key).PendingSecretResourceVersion }).Should(BeEmpty())
	})
}
