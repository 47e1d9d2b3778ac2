package server

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
)

// asking is how callers are asked for client certificates.
type asking struct {
	clients *x509.CertPool
	config  *tls.Config
}

// ask returns how a caller is asked for a client certificate; nil, as of all callers, if it is not.
func (s *Server) ask(*tls.ClientHelloInfo) (*tls.Config, error) {
	clients := s.Clients()
	if clients == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking == nil || s.asking.clients != clients {
		// One for all connections, so that sessions are resumed, and only by certificates of these authorities.
		s.asking = &asking{clients, &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: s.Certificate, NextProtos: []string{"h2", "http/1.1"},
			ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients,
		}}
	}
	return s.asking.config, nil
}

// caller returns which cluster a caller has proven to be; empty if none. ok is false for a certificate that
// does not, or no longer, prove anything: a connection may be older than the authorities that count, or its
// certificate has expired.
func (s *Server) caller(r *http.Request) (uid types.UID, ok bool) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return "", true
	}
	clients := (*x509.CertPool)(nil)
	if s.Clients != nil {
		clients = s.Clients()
	}
	if clients == nil {
		return "", false
	}
	options := x509.VerifyOptions{
		Roots: clients, Intermediates: x509.NewCertPool(), CurrentTime: s.Clock.Now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, intermediate := range r.TLS.PeerCertificates[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	leaf := r.TLS.PeerCertificates[0]
	if _, err := leaf.Verify(options); err != nil || leaf.Subject.CommonName == "" {
		return "", false
	}
	return types.UID(leaf.Subject.CommonName), true
}
