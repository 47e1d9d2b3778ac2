package hostile

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
)

// interceptor answers a request in place of the honest server; false if it leaves it to that.
type interceptor func(http.ResponseWriter, *http.Request) bool

// serverOptions say what is hostile in a server.
type serverOptions struct {
	// http1 makes it speak HTTP/1.1 alone. Otherwise it speaks HTTP/2, too.
	http1 bool
	// pages has it not stream lists, as servers with that feature switched off: clients ask for pages then.
	pages bool
	// intercept answers what the server does not answer honestly. Nil: nothing.
	intercept interceptor
	// connection serves a connection after its handshake, by whatever protocol it likes. Nil: net/http does.
	connection func(*server, *tls.Conn)
}

// server is an API server that answers as a simulated one does, but for what its options say.
type server struct {
	options  serverOptions
	uid      types.UID
	honest   *apiserver.Server
	identity *identity
	listener net.Listener
	http     *http.Server
	served   sync.WaitGroup
	// struck counts the answers and connections that were hostile.
	struck atomic.Int64
	// connections counts those that were accepted.
	connections atomic.Int64

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	ended bool
}

// identity is what servers show, and what their clients verify it with.
type identity struct {
	certificate tls.Certificate
	ca          []byte // PEM
}

// newIdentity makes one for the loopback interface. All servers of a run have the same one.
func newIdentity() (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of the hostile servers: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hostile"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, DNSNames: []string{"localhost"},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the hostile servers: %w", err)
	}
	return &identity{
		certificate: tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key},
		ca:          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}),
	}, nil
}

// newServer starts a server on a free port of 127.0.0.1. The caller closes it.
func newServer(id *identity, o serverOptions) (*server, error) {
	return newServerAt(id, "127.0.0.1:0", o)
}

// newServerAt starts a server at an address. The caller closes it.
func newServerAt(id *identity, address string, o serverOptions) (*server, error) {
	s := &server{options: o, uid: types.UID(uuid.NewString()), identity: id, open: map[net.Conn]struct{}{}}
	var err error
	if s.honest, err = apiserver.New(apiserver.Options{Name: "hostile", UID: s.uid}); err != nil {
		return nil, fmt.Errorf("starting a hostile server: %w", err)
	}
	if s.listener, err = net.Listen("tcp", address); err != nil {
		s.honest.Stop()
		return nil, fmt.Errorf("starting a hostile server: %w", err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{id.certificate}, MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2", "http/1.1"},
	}
	switch {
	case o.http1:
		config.NextProtos = config.NextProtos[1:]
	case o.connection != nil:
		config.NextProtos = config.NextProtos[:1]
	}
	if o.connection != nil {
		s.served.Go(func() { s.accept(tls.NewListener(s.listener, config)) })
		return s, nil
	}
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.serve), TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0),
		ReadHeaderTimeout: time.Minute,
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.connections.Add(1)
			}
		},
	}
	s.served.Go(func() {
		_ = s.http.ServeTLS(s.listener, "", "") // it ends when the server is closed, and says so
	})
	return s, nil
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	if s.options.pages && r.URL.Query().Has("sendInitialEvents") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, noStreams) // a client that left gets no answer
		return
	}
	if s.options.intercept != nil {
		strike := sync.OnceFunc(func() { s.struck.Add(1) })
		if s.options.intercept(striking{w, strike}, r) {
			strike() // if nothing was written
			return
		}
	}
	s.honest.ServeHTTP(w, r)
}

// striking is the answer to a request that counts as hostile from its first byte on: some never end.
type striking struct {
	http.ResponseWriter
	strike func()
}

func (w striking) Write(p []byte) (int, error) {
	w.strike()
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w striking) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// noStreams is what an API server says that does not stream lists.
const noStreams = `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Invalid","code":422,` +
	`"message":"sendInitialEvents: Forbidden: is forbidden for watch unless the WatchList feature gate is enabled"}`

// accept serves connections by another protocol than net/http does.
func (s *server) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // it was closed
		}
		s.connections.Add(1)
		encrypted, ok := conn.(*tls.Conn)
		if !ok || !s.follow(conn) {
			_ = conn.Close()
			continue
		}
		s.served.Go(func() {
			defer s.leave(conn)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			err := encrypted.HandshakeContext(ctx)
			cancel()
			if err == nil {
				s.options.connection(s, encrypted)
			}
		})
	}
}

func (s *server) follow(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.open[conn] = struct{}{}
	}
	return !s.ended
}

func (s *server) leave(conn net.Conn) {
	_ = conn.Close() // it is over whatever that says
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
}

// close ends the server and waits until nothing is left of it.
func (s *server) close() {
	s.mu.Lock()
	s.ended = true
	for conn := range s.open {
		_ = conn.Close() // it is over whatever that says
	}
	s.mu.Unlock()
	_ = s.listener.Close()
	if s.http != nil {
		_ = s.http.Close()
	}
	s.honest.Stop()
	s.served.Wait()
}

// address of the server.
func (s *server) address() string { return "https://" + s.listener.Addr().String() }

// kubeconfig leads to the server.
func (s *server) kubeconfig() []byte { return s.identity.kubeconfig(s.address()) }

// kubeconfig leads to an address whose server shows the identity.
func (id *identity) kubeconfig(address string) []byte {
	const name = "hostile"
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: address, CertificateAuthorityData: id.ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: "hostile"}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		panic(fmt.Sprintf("a kubeconfig cannot be encoded: %v", err))
	}
	return content
}
