package fault

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxHeld is how many connections a listener accepts and holds. When another one comes, the oldest is closed.
const maxHeld = 16

// backlog is how many connections the kernel keeps for a listener that does not accept them, if it allows so many.
const backlog = 4096

// Listener accepts connections that faults can strike. It listens on a port of 127.0.0.1 that stays its own
// while no client can connect.
type Listener struct {
	faults *Switch
	addr   *net.TCPAddr

	mu sync.Mutex
	// inner is what listens, nil while no client can connect. Then placeholder is a socket that is bound to the port
	// and does not listen, so that the kernel refuses connections and gives the port to no other process.
	inner       net.Listener
	placeholder int
	stopped     bool
	closed      bool
	changed     chan struct{} // closed when inner changes
	conns       map[*Conn]struct{}
	held        []*Conn // accepted although a fault holds them, the oldest first
}

// Listen starts to listen on a free port of 127.0.0.1. A switch has one listener at most.
func (s *Switch) Listen() (*Listener, error) {
	inner, err := listen(0)
	if err != nil {
		return nil, err
	}
	addr, ok := inner.Addr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("listening on 127.0.0.1: the address %s is not one of TCP", inner.Addr())
	}
	l := &Listener{faults: s, addr: addr, inner: inner, placeholder: -1, changed: make(chan struct{}), conns: map[*Conn]struct{}{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = l
	return l, l.follow()
}

// listen opens a port, 0 for a free one, which it can share with the placeholder.
func listen(port int) (net.Listener, error) {
	fd, err := bind(port, unix.SO_REUSEADDR, unix.SO_REUSEPORT)
	if err != nil {
		return nil, fmt.Errorf("opening port %d of 127.0.0.1: %w", port, err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer func() { _ = file.Close() }() // the listener has a descriptor of its own
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, fmt.Errorf("listening on port %d of 127.0.0.1: %w", port, err)
	}
	inner, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("listening on port %d of 127.0.0.1: %w", port, err)
	}
	return inner, nil
}

// reserve makes a placeholder.
func reserve(port int) (int, error) {
	fd, err := bind(port, unix.SO_REUSEPORT)
	if err != nil {
		return -1, fmt.Errorf("reserving port %d of 127.0.0.1: %w", port, err)
	}
	return fd, nil
}

// bind binds a socket with these options to the port.
func bind(port int, options ...int) (int, error) {
	syscall.ForkLock.RLock() // no child may inherit the socket before it is marked
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return -1, err
	}
	for _, option := range options {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1))
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		_ = unix.Close(fd) // it was never used
		return -1, err
	}
	return fd, nil
}

// Addr implements net.Listener. It never changes.
func (l *Listener) Addr() net.Addr { return l.addr }

// Connections returns how many connections are open.
func (l *Listener) Connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// Stop resets all connections and refuses new ones until Start.
func (l *Listener) Stop() error {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	err := l.follow()
	l.Reset()
	return err
}

// Start listens again after Stop.
func (l *Listener) Start() error {
	l.mu.Lock()
	l.stopped = false
	l.mu.Unlock()
	return l.follow()
}

// Stopped reports whether Stop was called, and Start was not since.
func (l *Listener) Stopped() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped
}

// Reset ends all connections with a TCP reset and returns how many there were.
func (l *Listener) Reset() int {
	l.mu.Lock()
	conns := make([]*Conn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	for _, c := range conns {
		c.Reset()
	}
	return len(conns)
}

// Close implements net.Listener. It gives up the port and resets all connections.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	err := l.follow()
	l.Reset()
	return err
}

// follow opens or closes the port, as faults, Stop and Close want it. Nothing in it can block, so that it may hold the lock.
func (l *Listener) follow() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := !l.stopped && !l.closed
	for _, f := range l.faults.state.Load().faults {
		open = open && f.Kind != Refuse
	}
	var err error
	switch {
	case open && l.inner == nil:
		if l.inner, err = listen(l.addr.Port); err != nil {
			l.inner = nil
			return err
		}
	case !open && l.inner != nil:
		if !l.closed {
			if l.placeholder, err = reserve(l.addr.Port); err != nil {
				return err
			}
		}
		err = l.inner.Close()
		l.inner = nil
	case !l.closed:
		return nil
	}
	if l.placeholder >= 0 && (open || l.closed) {
		err = errors.Join(err, unix.Close(l.placeholder))
		l.placeholder = -1
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return err
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.await()
		if err != nil {
			return nil, err
		}
		conn, err := inner.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				continue // await knows whether another one opens
			}
			return nil, err
		}
		c := &Conn{Conn: conn, listener: l, number: l.faults.accepted.Add(1), over: make(chan struct{})}
		if l.admit(c) {
			return c, nil
		}
		_ = c.Close() // there is no caller to return an error to
	}
}

// hasLeft reports whether a client gave up while the kernel kept its connection. What it sent would have been lost in a
// black hole: a server that is reachable again and shook hands with each of thousands that had called meanwhile would
// take the processors from the measurement.
func hasLeft(conn net.Conn) (left bool) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // descriptors are small
		n, err := unix.Poll(poll, 0)
		left = err == nil && n > 0
	})
	return left && err == nil
}

// admit takes the connection in, and reports whether it is still there when no fault wants it to wait outside.
func (l *Listener) admit(c *Conn) bool {
	l.mu.Lock()
	l.conns[c] = struct{}{}
	ended := l.stopped || l.closed
	var surplus *Conn
	if c.mayBeHeld() {
		l.held = append(slices.DeleteFunc(l.held, (*Conn).isOver), c)
		if len(l.held) > maxHeld {
			surplus = l.held[0]
		}
	}
	l.mu.Unlock()
	if surplus != nil {
		surplus.Reset()
	}
	if ended {
		c.Reset()
	}
	// A fault may have come while no client connected.
	for {
		state := l.faults.state.Load()
		if !state.stopsAccepting() {
			return !c.isOver() && !hasLeft(c.Conn)
		}
		select {
		case <-state.changed:
		case <-c.over:
		}
		if c.isOver() {
			return false
		}
	}
}

// forget drops a connection that was closed.
func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// await returns what to accept from, once there is something and no fault wants connections to wait in the kernel.
func (l *Listener) await() (net.Listener, error) {
	for {
		state := l.faults.state.Load()
		l.mu.Lock()
		inner, closed, changed := l.inner, l.closed, l.changed
		l.mu.Unlock()
		if closed {
			return nil, net.ErrClosed
		}
		if inner != nil && !state.stopsAccepting() {
			return inner, nil
		}
		select {
		case <-state.changed:
		case <-changed:
		}
	}
}

// stopsAccepting reports whether all new connections are to get no answer at all.
func (s *state) stopsAccepting() bool {
	for _, f := range s.faults {
		all := f.Share == 0 || f.Share == 1
		if all && (f.Kind == BlackHole && f.Connections != ExistingConnections || f.Kind == Silent && f.At == BeforeHandshake) {
			return true
		}
	}
	return false
}
