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

// Dial opens sockets on which nothing is sent while a term continues without the Lease. That includes reads, because a
// socket cannot distinguish them from writes. They are closed at the end of such a term, and of a term that aborted a
// write; their users then open new ones. The errors of both wrap ErrNotLeading, so that they are not attributed to the
// server.
//
// Such a socket is always reset when it is closed, also by the end of the process, and data that the kernel has not
// sent yet is discarded. Otherwise it could be sent long after a successor began, when the network is available again.
func (f *Fence) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return f.WrapConn(conn)
}

// WrapConn fences a socket that was just opened, as Dial does. If it fails, the socket is closed.
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

// sockets are the open sockets of a fence.
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

// SetDeadline and the others may be the first calls that fail on a closed socket.
func (s *socket) SetDeadline(t time.Time) error { return s.explain(s.Conn.SetDeadline(t)) }

func (s *socket) SetReadDeadline(t time.Time) error { return s.explain(s.Conn.SetReadDeadline(t)) }

func (s *socket) SetWriteDeadline(t time.Time) error { return s.explain(s.Conn.SetWriteDeadline(t)) }

// explain wraps errors of sockets that the fence has closed, so that they are not attributed to the server.
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
