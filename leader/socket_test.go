package leader_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trellis-hub/trellis/leader"
)

// peer is what a socket of a fence leads to.
type peer struct {
	*source
	listener net.Listener
}

func (s *source) peer() *peer {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.Expect(err).NotTo(HaveOccurred())
	s.t.Cleanup(func() { _ = listener.Close() })
	return &peer{source: s, listener: listener}
}

func (p *peer) open(fence *leader.Fence) net.Conn {
	p.t.Helper()
	conn, err := fence.Dial(p.t.Context(), "tcp", p.listener.Addr().String())
	p.Expect(err).NotTo(HaveOccurred())
	p.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// dial opens a socket of a fence. It returns what sends something, and what the other end reads when that is over.
func (p *peer) dial(fence *leader.Fence) (send func() error, end <-chan error) {
	p.t.Helper()
	conn := p.open(fence)
	return func() error { _, err := conn.Write([]byte("x")); return err }, p.accept()
}

// read opens a socket of a fence, and returns the error of a read from it.
func (p *peer) read(fence *leader.Fence) <-chan error {
	p.t.Helper()
	conn := p.open(fence)
	p.accept()
	over := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		over <- err
	}()
	return over
}

// accept returns how the next socket ends, as the other end of it sees it.
func (p *peer) accept() <-chan error {
	p.t.Helper()
	other, err := p.listener.Accept()
	p.Expect(err).NotTo(HaveOccurred())
	p.t.Cleanup(func() { _ = other.Close() })
	over := make(chan error, 1)
	go func() {
		for {
			if _, err := other.Read(make([]byte, 1)); err != nil {
				over <- err
				return
			}
		}
	}()
	return over
}

func TestSocketsAreResetWhenTheLeaseRanOut(t *testing.T) {
	s := newSource(t)
	p := s.peer()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s.take(3600)
	r := s.start("first", func(o *leader.Options) { o.Clock = clock })
	send, end := p.dial(r.Fence())
	ended := p.read(r.Fence())
	s.Expect(send()).To(Succeed(), "a standby reads")
	s.Expect(s.client.CoordinationV1().Leases("default").Delete(t.Context(), "hub", deleteNow)).To(Succeed())
	s.Eventually(r.began).Should(Receive())
	s.Expect(send()).To(Succeed(), "in a term")
	s.expectRenewed()
	clock.SetTime(clock.Now().Add(41 * time.Minute))
	s.Expect(send()).To(MatchError(leader.ErrNotLeading), "a term whose Lease ran out")
	s.Expect(end).NotTo(Receive(), "before the term is over")
	r.stop()
	s.Expect(send()).To(And(MatchError(net.ErrClosed), MatchError(leader.ErrNotLeading)), "it may have requests of the term in its buffers")
	s.Eventually(ended).Should(Receive(MatchError(leader.ErrNotLeading)), "it was not the other end")
	s.Eventually(end).Should(Receive(MatchError(syscall.ECONNRESET)), "which are thrown away")
	send, _ = p.dial(r.Fence())
	s.Expect(send()).To(Succeed(), "a standby again")
}

// TestAllCallsOfASocketReturnWhyItIsClosed: HTTP/2, for one, may set a deadline before it reads or writes, so the calls
// that set deadlines return the reason, too.
func TestAllCallsOfASocketReturnWhyItIsClosed(t *testing.T) {
	s := newSource(t)
	p := s.peer()
	r, result := s.writing(server{got: make(chan struct{}, 1)}, context.WithCancel)
	conn := p.open(r.Fence())
	r.stop()
	s.Expect(result).To(Receive(MatchError(context.Canceled)), "so all sockets are closed")
	for name, call := range map[string]func() error{
		"read":               func() error { _, err := conn.Read(make([]byte, 1)); return err },
		"write":              func() error { _, err := conn.Write([]byte("x")); return err },
		"deadline of both":   func() error { return conn.SetDeadline(time.Now().Add(time.Hour)) },
		"deadline of reads":  func() error { return conn.SetReadDeadline(time.Time{}) },
		"deadline of writes": func() error { return conn.SetWriteDeadline(time.Time{}) },
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(call()).To(And(MatchError(net.ErrClosed), MatchError(leader.ErrNotLeading)))
		})
	}
}

func TestSocketsOfATermThatEndsInOrderStay(t *testing.T) {
	s := newSource(t)
	p := s.peer()
	target := server{got: make(chan struct{}, 1), answer: make(chan struct{})}
	r, result := s.writing(target, context.WithCancel)
	send, _ := p.dial(r.Fence())
	close(target.answer)
	s.Eventually(result).Should(Receive(BeNil()))
	r.stop()
	s.Expect(send()).To(Succeed())
}

func TestSocketsAreResetWhenAWriteIsGivenUp(t *testing.T) {
	s := newSource(t)
	p := s.peer()
	r, result := s.writing(server{got: make(chan struct{}, 1)}, context.WithCancel)
	send, end := p.dial(r.Fence())
	r.stop()
	s.Expect(result).To(Receive(MatchError(context.Canceled)))
	s.Expect(send()).To(MatchError(net.ErrClosed))
	s.Eventually(end).Should(Receive(MatchError(syscall.ECONNRESET)))
}

// TestWriteEndsWithItsTimeout has a target that does not answer. What was sent to it may still be on its way.
func TestWriteEndsWithItsTimeout(t *testing.T) {
	for name, limit := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"a deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
		"a timer that says why": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, end := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { end(fmt.Errorf("no answer: %w", context.DeadlineExceeded)) })
			return ctx, func() { end(nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			p := s.peer()
			r, result := s.writing(server{got: make(chan struct{}, 1)}, limit, func(o *leader.Options) { o.Patience = time.Hour })
			send, end := p.dial(r.Fence())
			s.Eventually(result).Should(Receive(MatchError(context.Canceled)), "of the call; the caller asks its own context")
			s.Expect(send()).To(Succeed(), "in the term, which still has the Lease")
			r.stop()
			s.Expect(send()).To(MatchError(net.ErrClosed))
			s.Eventually(end).Should(Receive(MatchError(syscall.ECONNRESET)))
		})
	}
}

// TestSocketsTakeBackWhatWasNotSent covers each way in which a socket ends without the end of a term.
func TestSocketsTakeBackWhatWasNotSent(t *testing.T) {
	if address := os.Getenv(dialled); address != "" {
		// The other process, which is about to be killed.
		if _, err := leader.New(leader.Options{}).Fence().Dial(t.Context(), "tcp", address); err != nil {
			t.Fatal(err)
		}
		fmt.Println("dialled")
		select {}
	}
	t.Run("closed", func(t *testing.T) {
		s := newSource(t)
		p := s.peer()
		conn, err := leader.New(leader.Options{}).Fence().Dial(t.Context(), "tcp", p.listener.Addr().String())
		s.Expect(err).NotTo(HaveOccurred())
		over := p.accept()
		s.Expect(conn.Close()).To(Succeed())
		s.Eventually(over).Should(Receive(MatchError(syscall.ECONNRESET)))
	})
	t.Run("of a process that is killed", func(t *testing.T) {
		s := newSource(t)
		p := s.peer()
		process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSocketsTakeBackWhatWasNotSent$") //nolint:gosec // this test
		process.Env = append(os.Environ(), dialled+"="+p.listener.Addr().String())
		reported, err := process.StdoutPipe()
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(process.Start()).To(Succeed())
		over := p.accept()
		s.Expect(reported.Read(make([]byte, 1))).To(Equal(1), "dialled")
		s.Expect(process.Process.Kill()).To(Succeed())
		s.Eventually(over).Should(Receive(MatchError(syscall.ECONNRESET)))
		s.Expect(process.Wait()).To(HaveOccurred())
	})
}

// dialled is the environment variable by which a child process of this test gets the address to dial.
const dialled = "TRELLIS_TEST_DIALLED"

func TestClosedSocketsAreForgotten(t *testing.T) {
	s := newSource(t)
	p := s.peer()
	fence := leader.New(leader.Options{}).Fence()
	gone := make(chan struct{})
	func() {
		conn, err := fence.Dial(t.Context(), "tcp", p.listener.Addr().String())
		s.Expect(err).NotTo(HaveOccurred())
		runtime.SetFinalizer(conn, func(net.Conn) { close(gone) })
		s.Expect(conn.Close()).To(Succeed())
	}()
	s.Eventually(func() chan struct{} {
		runtime.GC()
		return gone
	}).Should(BeClosed())
	runtime.KeepAlive(fence)
}
