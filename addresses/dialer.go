package addresses

import (
	"net"
	"net/http"
	"net/url"
)

// Guard makes a dialer refuse what the policy refuses, for requests to one server. proxy is that of their transport;
// nil means the one of the environment. The address of a proxy is set by the operator and not checked. But then the
// proxy resolves the name, so the host of the server is checked immediately, and the error wraps ErrRefused.
func (p Policy) Guard(dialer *net.Dialer, server *url.URL, proxy func(*http.Request) (*url.URL, error)) error {
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	if through, err := proxy(&http.Request{URL: server}); err == nil && through != nil {
		return p.CheckHost(server.Hostname())
	}
	dialer.Control = p.Control
	return nil
}
