package fleetsim

import (
	"cmp"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
)

// Credentials says what a kubeconfig authenticates with.
type Credentials string

// The kinds of credentials. With TokenAndCertificate, clients send both.
const (
	Token               Credentials = "token"
	Certificate         Credentials = "certificate"
	TokenAndCertificate Credentials = "token-and-certificate"
)

// admin is the user of kubeconfigs.
var admin = apiserver.User{Name: "fleetsim:admin", Groups: []string{"system:masters", "system:authenticated"}}

// Rotation says how a credential is replaced.
type Rotation struct {
	// Revoke ends the older ones of its kind at once. Otherwise they stay valid until they expire or are revoked.
	Revoke bool
	// Lifetime of the new one, by the clock of the target. Zero: a token has no end, a certificate has a year. Negative: it
	// expired that long ago.
	Lifetime time.Duration
}

// credentials issues and checks those of one target.
type credentials struct {
	clock func() time.Time
	key   [32]byte   // signs tokens
	ca    *authority // signs client certificates; nil if there are none
	// verified is the client certificate whose signature was checked last. For one client, that is done once a connection. When
	// several connections have one, it is done as often as they take turns.
	verified atomic.Pointer[x509.Certificate]
	accounts atomic.Uint64 // tokens of service accounts so far

	mu    sync.RWMutex
	token *generation // nil if there are none
	cert  *generation // likewise
}

// generation is a credential of the kubeconfig among others of its kind.
type generation struct {
	newest, oldest uint64 // numbers of those that are valid
	token          string
	pem, key       []byte
}

func newCredentials(kind Credentials, name string, clock func() time.Time) (*credentials, error) {
	c := &credentials{clock: clock}
	_, _ = rand.Read(c.key[:]) // never fails
	kind = cmp.Or(kind, Token)
	if kind != Token && kind != Certificate && kind != TokenAndCertificate {
		return nil, fmt.Errorf("credentials %q are unknown: they are %q, %q or %q", kind, Token, Certificate, TokenAndCertificate)
	}
	if kind != Certificate {
		c.token = &generation{}
		if err := c.rotateToken(Rotation{}); err != nil {
			return nil, err
		}
	}
	if kind != Token {
		var err error
		if c.ca, err = newAuthority(name+"-clients", clock()); err != nil {
			return nil, err
		}
		c.cert = &generation{}
		if err := c.rotateCertificate(Rotation{}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// numbers returns those of the credentials that are valid after a rotation.
func (g *generation) numbers(r Rotation) (newest, oldest uint64) {
	newest, oldest = g.newest+1, max(1, g.oldest)
	if r.Revoke {
		oldest = newest
	}
	return newest, oldest
}

func (c *credentials) rotateToken(r Rotation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == nil {
		return errors.New("its kubeconfig has no token")
	}
	newest, oldest := c.token.numbers(r)
	now := c.clock()
	t := claims{Issuer: issuer, Subject: admin.Name, IssuedAt: now.Unix(), Number: newest}
	if r.Lifetime != 0 {
		t.Expires = now.Add(r.Lifetime).Unix()
	}
	c.token = &generation{newest: newest, oldest: oldest, token: c.sign(t)}
	return nil
}

func (c *credentials) rotateCertificate(r Rotation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cert == nil {
		return errors.New("its kubeconfig has no client certificate")
	}
	newest, oldest := c.cert.numbers(r)
	issued, err := c.ca.client(admin.Name, admin.Groups[:1], newest, c.clock(), r.Lifetime)
	if err != nil {
		return err
	}
	next := &generation{newest: newest, oldest: oldest}
	if next.pem, next.key, err = pair(issued); err != nil {
		return err
	}
	c.cert = next
	return nil
}

// revoke ends all credentials of the kubeconfig but the newest of each kind.
func (c *credentials) revoke() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range []**generation{&c.token, &c.cert} {
		if *g != nil {
			next := **g
			next.oldest = next.newest
			*g = &next
		}
	}
}

func (c *credentials) user() *api.AuthInfo {
	token, cert := c.current()
	user := &api.AuthInfo{}
	if token != nil {
		user.Token = token.token
	}
	if cert != nil {
		user.ClientCertificateData, user.ClientKeyData = cert.pem, cert.key
	}
	return user
}

func (c *credentials) current() (token, cert *generation) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.token, c.cert
}

// authenticate finds out who sent a request: by certificate first, as kube-apiserver does.
func (c *credentials) authenticate(r *http.Request) (apiserver.User, bool) {
	token, cert := c.current()
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && cert != nil {
		if c.verify(r.TLS.PeerCertificates[0], cert) {
			return admin, true
		}
	}
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return apiserver.User{}, false
	}
	return c.userOf(strings.TrimSpace(bearer), token)
}

func (c *credentials) verify(leaf *x509.Certificate, cert *generation) bool {
	if c.verified.Load() != leaf {
		if leaf.CheckSignatureFrom(c.ca.certificate) != nil {
			return false
		}
		c.verified.Store(leaf)
	}
	now := c.clock()
	return leaf.SerialNumber.IsUint64() && leaf.SerialNumber.Uint64() >= cert.oldest && !now.Before(leaf.NotBefore) && !now.After(leaf.NotAfter)
}
