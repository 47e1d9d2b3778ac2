package leader

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Dial opens sockets on which nothing is sent while a term goes on without the Lease. That holds for all that goes over them,
// because a socket cannot tell a write from a read. They are closed when such a term is over, and when one had to give up a write:
// whoever uses them opens new ones. Both are ErrNotLeading for them, so that nobody blames the other end.
//
// However such a socket ends, also with its process, it is reset, and what the kernel has not sent yet is thrown away. A network
// that comes back would have it sent long after a successor began. There is nothing in it that anybody waits for.
func (f *Fence) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return f.WrapConn(conn)
}

// WrapConn treats a socket that was just opened like those that Dial opens. If it fails, the socket is closed.
func (f *Fence) WrapConn(conn net.Conn) (net.Conn, error) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := tcp.SetLinger(0); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("have the socket reset when it is closed: %w", err)
		}
	}
	s := &socket{Conn: conn, fence: f}
	f.sockets.add(s)
	return s, nil
}

// sockets are those that a fence opened and nobody has closed yet.
type sockets struct {
	mu   sync.Mutex
	open map[*socket]struct{}
}

func (s *sockets) add(one *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*socket]struct{}{}
	}
	s.open[one] = struct{}{}
}

func (s *sockets) remove(one *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, one)
}

// retire closes all of them.
func (s *sockets) retire() {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, one := range all {
		one.retired.Store(true)
		_ = one.Close()
	}
}

type socket struct {
	net.Conn
	fence   *Fence
	retired atomic.Bool
}

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	return n, s.explain(err)
}

func (s *socket) Write(p []byte) (int, error) {
	if s.fence.Leading() && s.fence.lapsed() {
		return 0, ErrNotLeading
	}
	n, err := s.Conn.Write(p)
	return n, s.explain(err)
}

// SetDeadline and the others are the first that whoever writes or reads learns of a socket that is closed.
func (s *socket) SetDeadline(t time.Time) error { return s.explain(s.Conn.SetDeadline(t)) }

func (s *socket) SetReadDeadline(t time.Time) error { return s.explain(s.Conn.SetReadDeadline(t)) }

func (s *socket) SetWriteDeadline(t time.Time) error { return s.explain(s.Conn.SetWriteDeadline(t)) }

// explain tells that it was not the other end that closed the socket.
func (s *socket) explain(err error) error {
	if err == nil || !s.retired.Load() {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotLeading, err)
}

func (s *socket) Close() error {
	s.fence.sockets.remove(s)
	return s.Conn.Close()
}
