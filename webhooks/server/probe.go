package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// probeTime bounds a look at a server.
const probeTime = 5 * time.Second

// Served returns why this server does not serve a route to a caller that uses a name and trusts a bundle of
// authorities; nil if it does. path is that of ReadyPath.
func (s *Server) Served(ctx context.Context, name string, bundle []byte, path string) error {
	address, is := s.Addr().(*net.TCPAddr)
	if !is {
		return errors.New("the server of webhooks does not listen yet")
	}
	host := address.IP
	if host.IsUnspecified() {
		host = net.IPv4(127, 0, 0, 1)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: name},
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	url := "https://" + (&net.TCPAddr{IP: host, Port: address.Port}).String() + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("calling the server of webhooks: %w", err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		// Without the URL, which contains the code of the target.
		return fmt.Errorf("calling the server of webhooks: %w", errors.Unwrap(err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server of webhooks answers %d", response.StatusCode)
	}
	return nil
}
