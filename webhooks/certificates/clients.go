package certificates

import (
	"context"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/cert"
)

// clientAuthorities are those of client certificates.
type clientAuthorities struct {
	pool    *x509.CertPool
	version string // of the Secret that they are from
}

// ClientAuthorities are those of client certificates at a moment; nil if there are none. The same ones are the same
// pointer.
func (s *Store) ClientAuthorities() *x509.CertPool {
	if a := s.clients.Load(); a != nil {
		return a.pool
	}
	return nil
}

// lookClients reads the Secret with the authorities of client certificates once. If it no longer exists, no authority
// counts; what cannot be read does not replace what is known.
func (s *Store) lookClients(ctx context.Context) error {
	if s.Clients.Name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	secret := &corev1.Secret{}
	err := s.Client.Get(ctx, s.Clients, secret)
	if apierrors.IsNotFound(err) {
		s.clients.Store(nil)
	}
	if err != nil {
		return fmt.Errorf("the Secret %s: %w", s.Clients, err)
	}
	version := string(secret.UID) + " " + secret.ResourceVersion
	if known := s.clients.Load(); known != nil && known.version == version {
		return nil
	}
	certificates, err := cert.ParseCertsPEM(secret.Data[keyAuthority])
	if err != nil {
		return fmt.Errorf("the Secret %s: %s has no certificate authority in PEM", s.Clients, keyAuthority)
	}
	pool := x509.NewCertPool()
	for _, c := range certificates {
		pool.AddCert(c)
	}
	s.clients.Store(&clientAuthorities{pool, version})
	s.Logger.Info("Client certificates are verified by other authorities", "authorities", len(certificates))
	return nil
}
