package fleetsim

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// State of a target.
type State string

// A target is Running, Stopped as if its process had been killed, or Hibernated.
const (
	Running    State = "Running"
	Stopped    State = "Stopped"
	Hibernated State = "Hibernated"
)

// Target is one simulated API server. All methods may be called at any time by many.
type Target struct {
	name        string
	options     *Options
	seed        uint64
	faults      *fault.Switch
	journal     *journal.Target
	listener    *fault.Listener
	credentials *credentials
	skew        atomic.Int64 // a time.Duration
	server      atomic.Pointer[apiserver.Server]
	tls         atomic.Pointer[tls.Config]
	http        http.Server
	served      chan struct{} // closed when http serves no more
	work        work          // connections and requests

	mu       sync.Mutex // serializes changes
	ca       *authority // of the serving certificate
	clusters uint64     // that were behind the address so far
	uid      types.UID
	state    State
	ended    bool
}

func newTarget(name string, number int, o *Options) (*Target, error) {
	t := &Target{name: name, options: o, state: Running, journal: o.Journal.Target(name), served: make(chan struct{})}
	t.seed = rand.New(rand.NewPCG(uint64(o.Seed), uint64(number))).Uint64()
	t.faults = fault.New(fault.Options{Seed: t.seed, Answered: t.answered})
	var err error
	if t.credentials, err = newCredentials(o.Credentials, name, t.Now); err != nil {
		return nil, err
	}
	if err := t.RotateCA(Rotation{}); err != nil {
		return nil, err
	}
	server, err := t.cluster(o.Snapshot)
	if err != nil {
		return nil, err
	}
	t.server.Store(server)
	if t.listener, err = t.faults.Listen(); err != nil {
		server.Stop()
		return nil, err
	}
	t.http = http.Server{
		Handler:           t.work.handler(t.faults.Handler(http.HandlerFunc(t.serve))),
		ConnContext:       fault.ConnContext,
		ConnState:         t.work.follow,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that leave during a handshake are part of the game
		IdleTimeout:       90 * time.Second,
		ReadHeaderTimeout: 32 * time.Second,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 100, MaxReceiveBufferPerStream: 256 << 10, MaxReadFrameSize: 256 << 10, MaxReceiveBufferPerConnection: 25 << 20},
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS13,
			NextProtos: []string{"h2", "http/1.1"},
			GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				return fault.Handshake(hello, t.tls.Load()), nil
			},
		},
	}
	go func() {
		defer close(t.served)
		_ = t.http.ServeTLS(t.listener, "", "") // ends when the listener is closed, and says so
	}()
	return t, nil
}

// Name of the target, unique in its fleet.
func (t *Target) Name() string { return t.name }

// Host is the address of the target: https://127.0.0.1:<port>. It never changes.
func (t *Target) Host() string { return "https://" + t.listener.Addr().String() }

// Faults of the target.
func (t *Target) Faults() *fault.Switch { return t.faults }

// Journal of the target. It continues when the target is stopped or replaced.
func (t *Target) Journal() *journal.Target { return t.journal }

// Server that is behind the address now.
func (t *Target) Server() *apiserver.Server { return t.server.Load() }

// Connections returns how many are open.
func (t *Target) Connections() int { return t.listener.Connections() }

// Now is the time by the target's clock.
func (t *Target) Now() time.Time { return t.options.Clock().Add(time.Duration(t.skew.Load())) }

// Skew sets the target's clock wrong by d: times in objects, the Date of answers, and when credentials expire. Serving
// certificates follow the right time.
func (t *Target) Skew(d time.Duration) { t.skew.Store(int64(d)) }

// UID of the namespace kube-system, which is the identity of the cluster behind the address now.
func (t *Target) UID() types.UID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.uid
}

// State of the target.
func (t *Target) State() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// Stop lets the target die as if its process were killed: connections are reset and new ones refused. What it stores
// stays.
func (t *Target) Stop() error { return t.down(Stopped) }

// Hibernate has all watches end, and stops the target without waiting for that: their clients may see the end of the
// watch, or no more than that of the connection.
func (t *Target) Hibernate() error {
	t.Server().EndWatches()
	return t.down(Hibernated)
}

func (t *Target) down(state State) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = state
	if err := t.listener.Stop(); err != nil {
		return fmt.Errorf("stopping %s: %w", t.name, err)
	}
	return nil
}

// Start lets the target run again, at the same address and with what it stored.
func (t *Target) Start() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return fmt.Errorf("starting %s: its fleet has ended", t.name)
	}
	if err := t.listener.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", t.name, err)
	}
	t.state = Running
	return nil
}

// ResetConnections ends all connections with a TCP reset and returns how many there were.
func (t *Target) ResetConnections() int { return t.listener.Reset() }

// Replace puts another cluster behind the address: with another UID of kube-system, filled with the snapshot if it is
// not nil, and with the same certificates and credentials. Connections to the old one are reset.
func (t *Target) Replace(snapshot *apiserver.Snapshot) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return fmt.Errorf("replacing %s: its fleet has ended", t.name)
	}
	server, err := t.cluster(snapshot)
	if err != nil {
		return fmt.Errorf("replacing %s: %w", t.name, err)
	}
	t.server.Swap(server).Stop()
	t.listener.Reset()
	return nil
}

// cluster makes the next cluster behind the address. Its identity and those of its objects follow from the seed.
func (t *Target) cluster(snapshot *apiserver.Snapshot) (*apiserver.Server, error) {
	seed := rand.New(rand.NewPCG(t.seed, t.clusters))
	t.clusters++
	var uid uuid.UUID
	binary.BigEndian.PutUint64(uid[:8], seed.Uint64())
	binary.BigEndian.PutUint64(uid[8:], seed.Uint64())
	uid[6], uid[8] = uid[6]&0x0f|0x40, uid[8]&0x3f|0x80 // version 4
	server, err := apiserver.New(apiserver.Options{
		Name: t.name, UID: types.UID(uid.String()), Seed: seed.Int64(), Version: t.options.Version, Window: t.options.Window,
		Clock: t.Now, Journal: t.journal, Authenticate: t.authenticate, IssueToken: t.credentials.issue,
	})
	if err != nil {
		return nil, err
	}
	if snapshot != nil {
		if err := server.Load(snapshot, seed.Int64()); err != nil {
			server.Stop()
			return nil, err
		}
	}
	t.uid = types.UID(uid.String())
	return server, nil
}

func (t *Target) serve(w http.ResponseWriter, r *http.Request) {
	if t.skew.Load() != 0 {
		w.Header().Set("Date", t.Now().UTC().Format(http.TimeFormat))
	}
	t.Server().ServeHTTP(w, r)
}

type insideKey struct{}

// inside marks requests of the simulator itself, which come with no credential and on no connection.
func inside(ctx context.Context) context.Context { return context.WithValue(ctx, insideKey{}, true) }

func (t *Target) authenticate(r *http.Request) (apiserver.User, bool) {
	if r.Context().Value(insideKey{}) != nil {
		return admin, true
	}
	return t.credentials.authenticate(r)
}

// answered records requests in the journal that a fault kept from the server.
func (t *Target) answered(a fault.Answer) {
	resource := a.Resource
	if resource == "" {
		resource = a.Request.URL.Path
	}
	t.journal.Answered(journal.Request{
		Verb: a.Verb, Resource: resource, Code: a.Code, UserAgent: a.Request.UserAgent(),
		BytesIn: max(0, a.Request.ContentLength), BytesOut: a.Sent, Took: a.Took,
	})
}

// end ends the target permanently and waits until nothing of it is left.
func (t *Target) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	// Both close sockets, which are gone whatever they say; the second one finds the first one's work done.
	_ = t.listener.Close()
	_ = t.http.Close()
	<-t.served
	t.Server().Stop()
	t.work.wait()
}
