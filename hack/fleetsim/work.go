package fleetsim

import (
	"net"
	"net/http"
	"sync"
)

// work counts what is under way at a target, which http.Server.Close does not wait for. The zero value is ready.
type work struct {
	mu    sync.Mutex
	count int
	idle  *sync.Cond // made by wait
}

func (w *work) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count += n
	if w.count == 0 && w.idle != nil {
		w.idle.Broadcast()
	}
}

// follow is the ConnState of an http.Server.
func (w *work) follow(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		w.add(1)
	case http.StateClosed:
		w.add(-1)
	}
}

// handler counts requests. With HTTP/2, they can outlive their connections.
func (w *work) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, r *http.Request) {
		w.add(1)
		defer w.add(-1)
		next.ServeHTTP(writer, r)
	})
}

// wait returns when nothing is under way.
func (w *work) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = sync.NewCond(&w.mu)
	for w.count > 0 {
		w.idle.Wait()
	}
}
