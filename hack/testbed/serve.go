package testbed

import (
	"context"
	"net"
	"net/http/httptest"
)

// Serve starts a server with TLS whose requests end with it: their context does. Without that, a client that connects
// again at the very moment of the end, and watches, would have the server wait for it for ever.
func Serve(server *httptest.Server) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.StartTLS()
	return func() {
		cancel()
		server.CloseClientConnections()
		server.Close()
	}
}
