package addresses

import (
	"net"
	"net/http"
	"net/url"
)

// Guard has a dialer refuse what the policy refuses, for requests to one server. proxy is that of their transport;
// nil stands for the environment's. The address of a proxy comes from the operator and is not judged. But then the
// proxy resolves the name, so the host of the server is judged at once, and the error wraps ErrRefused.
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
