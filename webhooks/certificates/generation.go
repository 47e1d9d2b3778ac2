package certificates

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// keySize is that of keys of paths, in bytes.
	keySize = 32
	// backdated is how long before now certificates are valid, for clocks that differ.
	backdated = 5 * time.Minute
)

// generation is an authority, a certificate that it has issued for the server, and a key of paths. All but the key are
// PEM.
type generation struct {
	authority, authorityKey     []byte
	certificate, certificateKey []byte
	key                         []byte
}

// newGeneration makes one for a server with some names.
func newGeneration(names []string, now time.Time, validity time.Duration) (*generation, error) {
	g := &generation{key: make([]byte, keySize)}
	if _, err := rand.Read(g.key); err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	name := "trellis webhooks " + now.UTC().Format(time.RFC3339)
	template, err := newTemplate(name, now.Add(-backdated), now.Add(validity))
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate authority: %w", err)
	}
	g.authority, g.authorityKey = encode(der), keyPEM
	return g, g.issue(names, now)
}

// issue makes a new certificate of the server. It is valid for as long as its authority is.
func (g *generation) issue(names []string, now time.Time) error {
	authority, err := g.parseAuthority()
	if err != nil {
		return err
	}
	signer, err := keyutil.ParsePrivateKeyPEM(g.authorityKey)
	if err != nil {
		return errors.New("the key of the certificate authority cannot be read")
	}
	if len(names) == 0 {
		return errors.New("the server has no name")
	}
	template, err := newTemplate(names[0], now.Add(-backdated), authority.NotAfter)
	if err != nil {
		return err
	}
	if len(template.Subject.CommonName) > 64 { // more is not allowed, and no client checks it
		template.Subject.CommonName = "trellis webhooks"
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("issuing the certificate of the server: %w", err)
	}
	g.certificate, g.certificateKey = encode(der), keyPEM
	return nil
}

func newTemplate(name string, from, until time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: from.UTC(), NotAfter: until.UTC(),
	}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a private key: %w", err)
	}
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a private key: %w", err)
	}
	return key, pem, nil
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}

func (g *generation) parseAuthority() (*x509.Certificate, error) {
	parsed, err := cert.ParseCertsPEM(g.authority)
	if err != nil || len(parsed) != 1 {
		return nil, errors.New("the certificate authority cannot be read")
	}
	return parsed[0], nil
}

// life is since when and until when the authority is valid.
func (g *generation) life() (from, until time.Time) {
	authority, err := g.parseAuthority()
	if err != nil {
		return time.Time{}, time.Time{}
	}
	return authority.NotBefore.Add(backdated), authority.NotAfter
}

// hasNames reports whether the certificate is for exactly these names, and from this authority.
func (g *generation) hasNames(names []string) bool {
	pair, err := g.pair()
	if err != nil {
		return false
	}
	authority, err := g.parseAuthority()
	if err != nil || pair.Leaf.CheckSignatureFrom(authority) != nil {
		return false
	}
	has := slices.Clone(pair.Leaf.DNSNames)
	for _, ip := range pair.Leaf.IPAddresses {
		has = append(has, ip.String())
	}
	var wanted []string
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			name = ip.String()
		}
		wanted = append(wanted, name)
	}
	slices.Sort(has)
	slices.Sort(wanted)
	return slices.Equal(slices.Compact(has), slices.Compact(wanted))
}

func (g *generation) pair() (*tls.Certificate, error) {
	return parsePair(g.certificate, g.certificateKey)
}

func parsePair(certificate, key []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		// What else the error says may be about the content of the key.
		return nil, errors.New("the certificate of the server and its key cannot be read, or do not fit together")
	}
	return &pair, nil
}

// bundle joins authorities.
func bundle(generations ...*generation) []byte {
	var all [][]byte
	for _, g := range generations {
		if g != nil {
			all = append(all, g.authority)
		}
	}
	return bytes.Join(all, nil)
}
