package fleetsim

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	// validity of a certificate without a lifetime of its own.
	validity = 365 * 24 * time.Hour
	// leeway is how long before now certificates begin to be valid, for clocks that are a little wrong.
	leeway = time.Hour
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of %s: %w", name, err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-leeway),
		NotAfter:              now.Add(10 * validity),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", name, err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return &authority{certificate: certificate, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})}, nil
}

// window returns when a certificate made now is valid. A lifetime of zero is the usual one, a negative one is over.
func window(now time.Time, lifetime time.Duration) (notBefore, notAfter time.Time) {
	if lifetime == 0 {
		lifetime = validity
	}
	return now.Add(min(0, lifetime) - leeway), now.Add(lifetime)
}

func (a *authority) issue(template *x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generating the key of %s: %w", template.Subject.CommonName, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, nil
}

// serving makes a certificate for an API server.
func (a *authority) serving(name string, now time.Time, lifetime time.Duration) (tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{name, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}
	template.NotBefore, template.NotAfter = window(now, lifetime)
	return a.issue(template)
}

// client makes a certificate for a user, with a serial number that no other of this authority has.
func (a *authority) client(user string, groups []string, serial uint64, now time.Time, lifetime time.Duration) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetUint64(serial),
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	template.NotBefore, template.NotAfter = window(now, lifetime)
	return a.issue(template)
}

// pair encodes a certificate and its key.
func pair(c tls.Certificate) (certificate, key []byte, err error) {
	raw, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a private key: %w", err)
	}
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

// tlsConfig is what a target shakes hands with. Client certificates are asked for and left to authentication, as
// kube-apiserver does it, so that a bad one is answered with a 401.
func tlsConfig(serving tls.Certificate) *tls.Config {
	return &tls.Config{
		Certificates:           []tls.Certificate{serving},
		ClientAuth:             tls.RequestClientCert,
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"h2", "http/1.1"},
		SessionTicketsDisabled: true, // each new connection has to get the current certificate
	}
}
