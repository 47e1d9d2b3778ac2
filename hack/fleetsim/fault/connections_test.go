package fault_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
)

func TestABlackHoleSwallowsOpenAndNewConnections(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	v := s.client(t)
	w := v.watch(t, s)
	before := s.reached.Load()

	s.set(t, fault.Fault{Kind: fault.BlackHole})
	g.Expect(v.version(brief)).To(MatchError(context.DeadlineExceeded))
	newcomer := s.client(t)
	g.Expect(newcomer.version(brief)).To(MatchError(context.DeadlineExceeded))
	conn, err := net.DialTimeout("tcp", s.listener.Addr().String(), patience)
	g.Expect(err).NotTo(HaveOccurred(), "the kernel accepts it")
	defer func() { g.Expect(conn.Close()).To(Succeed()) }()
	s.add("a")
	_, err = next(w, brief)
	g.Expect(err).To(MatchError(ContainSubstring("no event")), "the watch is open and gets no event")
	g.Expect(s.reached.Load()).To(Equal(before), "the server gets no request")

	done := make(chan error, 1)
	go func() { done <- v.list(patience) }()
	g.Consistently(done, brief).ShouldNot(Receive())
	s.clear(t)
	g.Eventually(done, patience).Should(Receive(BeNil()), "what was sent is delivered late")
	g.Expect(next(w, patience)).To(Equal("a"))
	g.Expect(v.version(patience)).To(Succeed())
	g.Expect(newcomer.version(patience)).To(Succeed())
}

func TestPingsVanishInABlackHole(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	v := s.client(t)
	v.transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: 100 * time.Millisecond, PingTimeout: 10 * time.Second}
	w := v.watch(t, s)
	g.Consistently(w.ResultChan(), 5*brief).ShouldNot(Receive(), "pings are answered")
	s.set(t, fault.Fault{Kind: fault.BlackHole})
	g.Eventually(w.ResultChan(), patience).Should(Receive(HaveField("Type", BeEquivalentTo("ERROR"))), "the client gives the connection up")
	s.clear(t)
	g.Expect(v.version(patience)).To(Succeed())
	g.Eventually(s.watching, patience).Should(BeZero(), "the server notices that the client has left")
}

func TestNoHandshakeWithClientsThatHaveLeft(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	g.Expect(s.client(t).version(patience)).To(Succeed())
	before := s.conns.Load()
	s.set(t, fault.Fault{Kind: fault.BlackHole})                        // the server takes the first one that comes now, and then no more
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it gets no answer
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), brief)
		defer cancel()
		_, err := dialer.DialContext(ctx, "tcp", s.listener.Addr().String())
		g.Expect(err).To(MatchError(context.DeadlineExceeded), "its hello arrives, and then its end")
	}
	s.clear(t)
	g.Expect(s.client(t).version(patience)).To(Succeed())
	g.Expect(s.conns.Load()).To(Equal(before+1), "who said hello to those that are there")
}

func TestABlackHoleForOldConnectionsOnly(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	old := s.client(t)
	g.Expect(old.version(patience)).To(Succeed())
	s.set(t, fault.Fault{Kind: fault.BlackHole, Connections: fault.ExistingConnections})
	g.Expect(old.version(brief)).To(MatchError(context.DeadlineExceeded))
	g.Expect(s.client(t).version(patience)).To(Succeed())
	g.Expect(s.struck(fault.BlackHole)()).To(Equal(uint64(1)))
}

func TestABlackHoleForNewConnectionsOnly(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	old := s.client(t)
	g.Expect(old.version(patience)).To(Succeed())
	s.set(t, fault.Fault{Kind: fault.BlackHole, Connections: fault.NewConnections})
	g.Expect(old.version(patience)).To(Succeed())
	g.Expect(s.client(t).version(brief)).To(MatchError(context.DeadlineExceeded))
}

func TestConnectionsThatAreHeldAreBounded(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	s.set(t, fault.Fault{Kind: fault.BlackHole, Share: 0.9999})
	conns := make([]net.Conn, 100)
	for i := range conns {
		var err error
		conns[i], err = net.DialTimeout("tcp", s.listener.Addr().String(), patience)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { g.Expect(conns[i].Close()).To(Succeed()) }()
	}
	for _, conn := range conns[:80] {
		g.Expect(conn.SetReadDeadline(time.Now().Add(patience))).To(Succeed())
		_, err := conn.Read(make([]byte, 1))
		g.Expect(utilnet.IsConnectionReset(err) || errors.Is(err, io.EOF)).To(BeTrue(), "%v", err)
	}
	g.Eventually(s.listener.Connections, patience).Should(BeNumerically("<=", 16), "the last one may be about to be counted")
}

func TestSilenceAfterTheHandshake(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	old := s.client(t)
	g.Expect(old.version(patience)).To(Succeed())
	s.set(t, fault.Fault{Kind: fault.Silent})
	g.Expect(old.version(patience)).To(Succeed(), "open connections continue")

	v := s.client(t)
	v.transport.TLSHandshakeTimeout = patience
	shaken := make(chan struct{}, 1)
	v.traceHandshake(shaken)
	done := make(chan error, 1)
	go func() { done <- v.version(patience) }()
	g.Eventually(shaken, patience).Should(Receive())
	g.Consistently(done, brief).ShouldNot(Receive())
	s.clear(t)
	g.Eventually(done, patience).Should(Receive(BeNil()))
}

func TestSilenceBeforeTheHandshake(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	old := s.client(t)
	g.Expect(old.version(patience)).To(Succeed())
	s.set(t, fault.Fault{Kind: fault.Silent, At: fault.BeforeHandshake})
	g.Expect(old.version(patience)).To(Succeed(), "open connections continue")

	v := s.client(t)
	v.transport.TLSHandshakeTimeout = brief
	g.Expect(v.version(patience)).To(MatchError(ContainSubstring("TLS handshake timeout")))
	v.transport.TLSHandshakeTimeout = patience
	done := make(chan error, 1)
	go func() { done <- v.version(patience) }()
	g.Consistently(done, brief).ShouldNot(Receive())
	s.clear(t)
	g.Eventually(done, patience).Should(Receive(BeNil()))
}

func TestARefusedConnection(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	old := s.client(t)
	g.Expect(old.version(patience)).To(Succeed())
	for range 3 {
		s.set(t, fault.Fault{Kind: fault.Refuse})
		g.Expect(old.version(patience)).To(Succeed(), "open connections continue")
		err := s.client(t).version(patience)
		g.Expect(utilnet.IsConnectionRefused(err)).To(BeTrue(), "%v", err)
		s.clear(t)
		g.Expect(s.client(t).version(patience)).To(Succeed())
	}
}

func TestAStoppedListenerKeepsItsPort(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	v := s.client(t)
	w := v.watch(t, s)
	g.Expect(s.listener.Stop()).To(Succeed())
	g.Eventually(w.ResultChan(), patience).Should(Or(BeClosed(), Receive(HaveField("Type", BeEquivalentTo("ERROR")))))
	err := v.version(patience)
	g.Expect(utilnet.IsConnectionRefused(err)).To(BeTrue(), "%v", err)
	_, err = net.Listen("tcp4", s.listener.Addr().String())
	g.Expect(err).To(MatchError(ContainSubstring("address already in use")), "no other process gets the port")

	s.set(t, fault.Fault{Kind: fault.Refuse})
	g.Expect(s.listener.Start()).To(Succeed())
	err = v.version(patience)
	g.Expect(utilnet.IsConnectionRefused(err)).To(BeTrue(), "the fault is still there: %v", err)
	s.clear(t)
	g.Expect(v.version(patience)).To(Succeed())
}

func TestAListenerThatIsClosedReleasesAllThatIsHeld(t *testing.T) {
	for _, f := range []fault.Fault{
		{Kind: fault.BlackHole},
		{Kind: fault.BlackHole, Share: 0.99999},
		{Kind: fault.Silent},
		{Kind: fault.Silent, At: fault.BeforeHandshake},
		{Kind: fault.Hang},
		{Kind: fault.Latency, Delay: duration(time.Hour)},
		{Kind: fault.Drip, Rate: 1},
		{Kind: fault.SlowWatch, Delay: duration(time.Hour)},
		{Kind: fault.SilentWatch},
		{Kind: fault.Refuse},
	} {
		t.Run(string(f.Kind)+f.At, func(t *testing.T) {
			s := start(t)
			v := s.client(t)
			w := v.watch(t, s)
			defer w.Stop()
			s.set(t, f)
			s.add("a")
			var group errgroup.Group
			for _, v := range []*visitor{v, s.client(t)} {
				group.Go(func() error { return v.version(brief) })
			}
			_ = group.Wait() // some are struck
			// The server's end, a cleanup, waits for its connections, and TestMain looks for goroutines.
		})
	}
}
