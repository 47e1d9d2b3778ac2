package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Files in the directory of a control plane. Components are started there, so these names do as paths.
const (
	caCert                  = "ca.crt"
	caKey                   = "ca.key"
	servingCert             = "server.crt"
	servingKey              = "server.key"
	frontProxyCACert        = "front-proxy-ca.crt"
	frontProxyCert          = "front-proxy.crt"
	frontProxyKey           = "front-proxy.key"
	serviceAccountKey       = "service-account.key"
	serviceAccountPublicKey = "service-account.pub"
	auditPolicyFile         = "audit-policy.yaml"
	kubeconfigSuffix        = ".kubeconfig"

	frontProxyName = "front-proxy"
)

// aYear is the lifetime of certificates without a requested one.
const aYear = 365 * 24 * time.Hour

// pki is everything a control plane signs with.
type pki struct {
	// ca signs the serving certificate and the client certificates.
	ca *authority
	// serviceAccounts signs service account tokens.
	serviceAccounts *ecdsa.PrivateKey
}

// newPKI makes keys and certificates and writes those that the components need into dir. The certificates
// with which the API server calls aggregated servers come from an authority of their own: a client that has
// one may act as any user.
func newPKI(dir string) (*pki, error) {
	ca, err := newAuthority("trellis-control-plane")
	if err != nil {
		return nil, err
	}
	frontProxyCA, err := newAuthority("trellis-front-proxy")
	if err != nil {
		return nil, err
	}
	frontProxyCertPEM, frontProxyKeyPEM, err := frontProxyCA.issueClient(frontProxyName, nil, aYear)
	if err != nil {
		return nil, err
	}
	serverCertPEM, serverKeyPEM, err := ca.issueServer(
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		[]net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
	)
	if err != nil {
		return nil, err
	}
	serviceAccounts, err := newKey()
	if err != nil {
		return nil, err
	}
	serviceAccountsPEM, err := encodeKey(serviceAccounts)
	if err != nil {
		return nil, err
	}
	serviceAccountsPublicPEM, err := encodePublicKey(serviceAccounts)
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{
		caCert: ca.certPEM, caKey: ca.keyPEM,
		servingCert: serverCertPEM, servingKey: serverKeyPEM,
		frontProxyCACert: frontProxyCA.certPEM, frontProxyCert: frontProxyCertPEM, frontProxyKey: frontProxyKeyPEM,
		serviceAccountKey: serviceAccountsPEM, serviceAccountPublicKey: serviceAccountsPublicPEM,
		auditPolicyFile: []byte(auditPolicy),
	} {
		if err := writeFile(dir, name, content); err != nil {
			return nil, err
		}
	}
	return &pki{ca: ca, serviceAccounts: serviceAccounts}, nil
}

func writeFile(dir, name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}

// authority is a certificate authority that lives in memory.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// certPEM and keyPEM are the same for files.
	certPEM, keyPEM []byte
}

func newAuthority(name string) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := newTemplate(pkix.Name{CommonName: name}, aYear)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("cannot create the certificate authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cannot parse the certificate authority %s: %w", name, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, certPEM: encodePEM("CERTIFICATE", der), keyPEM: keyPEM}, nil
}

// issueClient makes a client certificate. With a negative ttl it has already expired.
func (a *authority) issueClient(user string, groups []string, ttl time.Duration) (certPEM, keyPEM []byte, err error) {
	template := newTemplate(pkix.Name{CommonName: user, Organization: groups}, ttl)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// issueServer makes a serving certificate for the loopback interface and the given names.
func (a *authority) issueServer(names []string, ips []net.IP) (certPEM, keyPEM []byte, err error) {
	template := newTemplate(pkix.Name{CommonName: names[0]}, aYear)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = names
	template.IPAddresses = ips
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	if keyPEM, err = encodeKey(key); err != nil {
		return nil, nil, err
	}
	return encodePEM("CERTIFICATE", der), keyPEM, nil
}

func newTemplate(subject pkix.Name, ttl time.Duration) *x509.Certificate {
	if ttl == 0 {
		ttl = aYear
	}
	now := time.Now()
	expiry := now.Add(ttl)
	begin := now
	if expiry.Before(begin) {
		begin = expiry
	}
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetInt64(now.UnixNano()),
		Subject:      subject,
		NotBefore:    begin.Add(-time.Hour),
		NotAfter:     expiry,
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot generate a key: %w", err)
	}
	return key, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a private key: %w", err)
	}
	return encodePEM("EC PRIVATE KEY", der), nil
}

func encodePublicKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("cannot encode a public key: %w", err)
	}
	return encodePEM("PUBLIC KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
