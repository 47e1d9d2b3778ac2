package clustercache

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/clustercache/internal/watching"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
)

// deafAddress is one whose packets get lost: a socket that listens and whose queue is full, so that the kernel drops
// SYNs.
func deafAddress(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	g.Expect(err).NotTo(HaveOccurred())
	file := os.NewFile(uintptr(fd), "deaf")
	t.Cleanup(func() { _ = file.Close() })
	g.Expect(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})).To(Succeed())
	g.Expect(syscall.Listen(fd, 0)).To(Succeed())
	bound, err := syscall.Getsockname(fd)
	g.Expect(err).NotTo(HaveOccurred())
	name, ok := bound.(*syscall.SockaddrInet4)
	g.Expect(ok).To(BeTrue())
	address := fmt.Sprintf("127.0.0.1:%d", name.Port)
	for range 10 {
		conn, err := net.DialTimeout("tcp", address, 300*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Skip("this kernel's queue of connections is never full")
	return ""
}

func TestAddressThatDropsPacketsDelaysNoOtherTarget(t *testing.T) {
	h := start(t, Options{Dial: DialOptions{Parallel: 8, ConnectParallel: 1, RetryMax: 100 * time.Millisecond}})
	a := newAPIServer(t, newStore("uid-a"))
	address := deafAddress(t)
	keys := make([]ClusterKey, 4)
	for i := range keys {
		keys[i] = h.register(fmt.Sprint("deaf-", i), kubeconfigOf("https://"+address, a.ca, "token"))
	}
	h.expectState(h.register("a", a.kubeconfig("x")), StateConnected)
	for _, key := range keys {
		status := h.expectState(key, StateDisconnected)
		h.Expect(status.Reason).To(Equal(ReasonUnreachable))
		h.Expect(status.Message).To(Equal(transport.Unreachable))
		h.unregister(key) // in the middle of an attempt, more likely than not
	}
	h.Eventually(func() int { return len(h.cache.List("")) }).Should(Equal(1))
}

// By default, such a socket is found within 45 s, and a target that is down within 15 s.
func TestDefaultsFindWhatIsDeadInTime(t *testing.T) {
	g := NewWithT(t)
	o, err := Options{}.withDefaults()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Probe.PingInterval + o.Probe.PingTimeout).To(BeNumerically("<=", 45*time.Second))
	g.Expect(o.Probe.Interval + time.Duration(o.Probe.Failures)*o.Probe.Timeout + time.Second).To(
		BeNumerically("<=", 15*time.Second))
	g.Expect(o.Watch.SilenceTimeout).To(BeNumerically("<=", 3*time.Minute))
}

// A socket whose peer is gone without closing it looks open until something is sent.
func TestHalfOpenConnectionIsFoundByPings(t *testing.T) {
	h, target, key := simulated(t, Options{
		Probe: ProbeOptions{PingInterval: 1500 * time.Millisecond, PingTimeout: 300 * time.Millisecond, Interval: time.Hour},
	})
	r := h.watchConfigMaps(key)
	h.Expect(opened(target)).To(Equal(1))
	mend := h.strike(target, fault.Fault{Kind: fault.BlackHole, Connections: fault.ExistingConnections})
	h.Eventually(func() int { return asked(target, "watch") }).Should(Equal(2), "the watch is opened again, on another socket")
	h.Expect(h.state(key)).To(Equal(StateConnected), "the target was there all the time")
	h.Expect(write(t.Context(), h.writer(key), "one", "x")).To(Succeed())
	h.Eventually(r.names).Should(ContainElement("one"))
	mend()
	h.Expect(r.syncs()).To(Equal(1), "it went on where it was")
	h.Expect(opened(target)).To(Equal(2))
	h.Expect(r.faults).To(BeEmpty())
}

// As kube-apiserver does with --goaway-chance, which spreads clients over servers, but all the time.
func TestStormOfGoAwayIsNoOutage(t *testing.T) {
	h, target, key := simulated(t, Options{})
	r := h.watchConfigMaps(key)
	mend := h.strike(target, fault.Fault{Kind: fault.GoAway})
	c := h.writer(key)
	for i := range 100 {
		h.Expect(write(t.Context(), c, "one", fmt.Sprint(i))).To(Succeed())
		h.Expect(target.Connections()).To(BeNumerically("<=", 8), "sockets do not pile up")
	}
	h.Expect(write(t.Context(), c, "two", "x")).To(Succeed())
	h.Eventually(r.names).Should(ContainElements("one", "two"))
	h.Expect(h.state(key)).To(Equal(StateConnected))
	h.Expect(r.syncs()).To(Equal(1), "no watch began anew")
	h.Expect(r.faults).To(BeEmpty())
	mend()
	h.Eventually(target.Connections).Should(BeNumerically("<=", 2))
}

// One byte a second is an answer that never ends, though something comes all the time.
func TestAnswersThatDrip(t *testing.T) {
	options := Options{
		Limits: func(ClusterKey) Limits { return Limits{Timeout: time.Second} },
		Grace:  GraceOptions{Disconnect: -1},
		Watch:  WatchOptions{SyncTimeout: time.Second},
	}
	t.Run("to probes, too: the target is down", func(t *testing.T) {
		h, target, key := simulated(t, options)
		mend := h.strike(target, fault.Fault{Kind: fault.Drip, Rate: 1})
		h.Expect(h.expectState(key, StateDisconnected).Reason).To(BeElementOf(ReasonProbeFailed, ReasonUnreachable))
		mend()
		h.expectState(key, StateConnected)
	})
	t.Run("to calls: they have a deadline, and then none are made", func(t *testing.T) {
		h, target, key := simulated(t, options)
		c := h.writer(key)
		mend := h.strike(target, fault.Fault{Kind: fault.Drip, Rate: 1, Match: fault.Match{Resources: []string{"configmaps"}}})
		h.Eventually(func() error { return write(t.Context(), c, "one", "x") }).Should(MatchError(ErrBusy))
		h.Expect(h.state(key)).To(Equal(StateConnected))
		mend()
		h.Eventually(func() error { return write(t.Context(), c, "one", "x") }).Should(Succeed())
	})
	t.Run("to watches: the list stands still, and nothing else", func(t *testing.T) {
		h, target, key := simulated(t, options)
		h.Expect(write(t.Context(), h.writer(key), "one", "x")).To(Succeed())
		mend := h.strike(target, fault.Fault{Kind: fault.Drip, Rate: 1, Match: fault.Match{Verbs: []string{"list", "watch"}}})
		r := h.declareConfigMaps(key)
		h.Eventually(r.lastErr).Should(MatchError(watching.ErrStalled))
		h.Expect(write(t.Context(), h.writer(key), "two", "x")).To(Succeed())
		h.Expect(h.state(key)).To(Equal(StateConnected))
		mend()
		h.Eventually(r.names).Should(ContainElements("one", "two"))
	})
}
