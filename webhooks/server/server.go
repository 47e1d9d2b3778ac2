package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

const (
	// headerTime is how long a caller may take for the header of a request, idleTime how long it may keep a connection
	// without any.
	headerTime, idleTime = 5 * time.Second, 2 * time.Minute
	// maxHeader bounds the header in bytes.
	maxHeader = 16 << 10
	// maxConnections bounds the connections of all callers. Those beyond wait.
	maxConnections = 10_000
	// maxStreams bounds the requests of a connection at a time.
	maxStreams = 100
	// sweepEvery is how often it is looked for targets that are gone.
	sweepEvery = time.Minute
)

// Target is what the server has to know of a registered one.
type Target struct {
	// UID is that of the cluster. Calls of another one that was registered under the same name are not its calls.
	UID types.UID
	// Settings are those of its webhooks, with defaults. They are shared, and not to be changed.
	Settings hubv1alpha1.TargetWebhooks
}

// Caller is who sends a request that is no AdmissionReview.
type Caller struct {
	// Target is the cluster, and Settings are those of its webhooks, with defaults.
	Target   clustercache.ClusterKey
	Settings hubv1alpha1.TargetWebhooks
	// Certified says that a client certificate proves who the caller is.
	Certified bool
}

// Extra answers requests that are no AdmissionReviews. The server has found out who calls, and limits and bounds the
// requests like all others.
type Extra interface {
	// ServeTarget answers. The request's context has the deadline, and its body is bounded.
	ServeTarget(w http.ResponseWriter, r *http.Request, caller Caller)
}

// Options say what a server is made of. Webhooks, Find, State, Keys and Certificate are required.
type Options struct {
	// Address is what is listened on, such as ":10250". Listener takes its place if it is set.
	Address  string
	Listener net.Listener
	// Webhooks are all that are served; Extras what else is, by the last part of the path.
	Webhooks []admission.Webhook
	Extras   map[string]Extra
	// Find returns a target from memory; false: it is not registered.
	Find func(clustercache.ClusterKey) (Target, bool)
	// State returns what handlers read of a target, which is the cluster with a UID.
	State func(target clustercache.ClusterKey, uid types.UID) admission.State
	// Keys are those that the codes of paths may be made with.
	Keys func() [][]byte
	// Certificate returns that of the server. It is called for each connection.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Clients returns the authorities of client certificates, whose common name is the UID of the cluster. It is called
	// for each request. Nil, or if it returns nil: callers are not asked for any, and none counts.
	Clients func() *x509.CertPool
	// ServerName is the name of the host under which a target has to call, if it names one. Nil: any.
	ServerName func(target clustercache.ClusterKey, uid types.UID) string
	Limits     Limits
	// Notice is for how long calls are served as before after the end was announced, Drain how long the last answers
	// may take then. Defaults: 10s each.
	Notice, Drain time.Duration
	// Metrics counts requests. Nil: nothing is counted.
	Metrics *Metrics
	Clock   clock.WithTicker // default: the real one
	Logger  logr.Logger
}

// Server serves webhooks. Make it with New.
type Server struct {
	Options
	webhooks map[string]*admission.Webhook // by path
	limits   *limiter

	serving, ending atomic.Bool
	mu              sync.Mutex
	address         net.Addr
	asking          *asking // nil before a caller was asked for a certificate
}

// New returns a server that does nothing until it is started.
func New(o Options) (*Server, error) {
	if o.Find == nil || o.State == nil || o.Keys == nil || o.Certificate == nil {
		return nil, errors.New("server of webhooks: a required option is missing")
	}
	if o.Notice == 0 {
		o.Notice = 10 * time.Second
	}
	if o.Drain == 0 {
		o.Drain = 10 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Limits.setDefaults()
	s := &Server{Options: o, webhooks: map[string]*admission.Webhook{}, limits: newLimiter(o.Limits)}
	for i := range o.Webhooks {
		webhook := &o.Webhooks[i]
		if same, is := s.webhooks[webhook.Path]; is {
			// One that serves several entries, such as those of a mutating and of a validating configuration.
			return nil, fmt.Errorf("webhooks %s and %s have the same path", same.Name, webhook.Name)
		}
		if admission.PathsIn(webhook.Path)[0] != webhook.Path {
			return nil, fmt.Errorf("webhook %s: its path %q is one of several webhooks", webhook.Name, webhook.Path)
		}
		s.webhooks[webhook.Path] = webhook
	}
	for path := range o.Extras {
		if same, is := s.webhooks[path]; is {
			return nil, fmt.Errorf("webhook %s has the path of something else", same.Name)
		}
	}
	if o.Metrics != nil {
		o.Metrics.of(s)
	}
	return s, nil
}

// Ready returns why no more requests should be sent to this server, nil if they should.
func (s *Server) Ready(*http.Request) error {
	switch {
	case s.ending.Load():
		return errors.New("the server of webhooks is about to end")
	case !s.serving.Load():
		return errors.New("the server of webhooks does not listen yet")
	}
	return nil
}

// Addr is what the server listens on; nil before it does.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// Start serves until ctx ends, and returns when the last request was answered. It can be called once.
func (s *Server) Start(ctx context.Context) error {
	listener := s.Listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address); err != nil {
			return fmt.Errorf("server of webhooks: %w", err)
		}
	}
	s.mu.Lock()
	s.address = listener.Addr()
	s.mu.Unlock()
	inner := s.inner()
	ended := make(chan error, 1)
	go func() { ended <- inner.ServeTLS(netutil.LimitListener(listener, maxConnections), "", "") }()
	s.serving.Store(true)
	s.Logger.Info("Serving webhooks", "address", listener.Addr().String())

	sweep := s.Clock.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case err := <-ended:
			s.serving.Store(false)
			return fmt.Errorf("server of webhooks: %w", err)
		case <-sweep.C():
			s.limits.sweep(func(key clustercache.ClusterKey) bool {
				_, registered := s.Find(key)
				return registered
			})
		case <-ctx.Done():
			return s.end(ctx, inner, ended)
		}
	}
}

// inner is the server of net/http.
func (s *Server) inner() *http.Server {
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.Certificate}
	if s.Clients != nil {
		config.GetConfigForClient = s.ask
	}
	return &http.Server{
		Handler: s, TLSConfig: config, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		// A caller that does not read its answer must not keep its place.
		WriteTimeout: 2 * s.Limits.Timeout,
		HTTP2:        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:     log.New(debugWriter{s.Logger}, "", 0),
	}
}

// end ends the server: new connections go elsewhere, those that there are get a last answer. ctx has ended already.
func (s *Server) end(ctx context.Context, inner *http.Server, ended <-chan error) error {
	s.ending.Store(true)
	s.Logger.Info("Serving webhooks for a last time", "for", s.Notice.String())
	select {
	case <-s.Clock.After(s.Notice):
	case err := <-ended:
		return fmt.Errorf("server of webhooks: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Drain)
	defer cancel()
	err := inner.Shutdown(ctx)
	s.serving.Store(false)
	if err != nil {
		_ = inner.Close() // the error says already that it was not an orderly end
		err = fmt.Errorf("ending the server of webhooks: %w", err)
	}
	if served := <-ended; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = fmt.Errorf("server of webhooks: %w", served)
	}
	return err
}

// debugWriter takes the errors that net/http logs: a client that reaches the port can cause any number of them.
type debugWriter struct{ logr.Logger }

func (w debugWriter) Write(line []byte) (int, error) {
	w.V(1).Info("A connection failed", "error", strings.TrimSpace(string(line)))
	return len(line), nil
}
