package connection

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache/internal/seats"
	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/clustercache/internal/watching"
	"github.com/trellis-hub/trellis/clustercache/mapperpool"
)

// ErrOtherCluster is why a connection that was suspended does not continue.
var ErrOtherCluster = errors.New("the address leads to another cluster now; its identity is verified")

// Options are what all connections to one target have in common.
type Options struct {
	Cluster   types.NamespacedName
	UserAgent string
	// WrapTransport is put around the transport of each connection. Nil: nothing is.
	WrapTransport func(next http.RoundTripper) http.RoundTripper
	Scheme        *runtime.Scheme
	Mappers       *mapperpool.Pool
	// Reader reads the kinds that are watched, for the client that reads them from memory.
	Reader *watching.Reader
	// Transport is what the transport of each connection gets, and Watching returns what its watches get, beyond what is
	// the connection's own.
	Transport transport.Options
	Watching  func() *watching.Connection
	// Addresses says where the connections of registrations may go. Static targets, which the operator configured, may
	// have any address.
	Addresses addresses.Policy

	// Dials bounds the first steps of connecting of all targets, and Probes the probes and tries of tokens.
	// Identifications bounds the second steps.
	Dials, Probes   Pool
	Identifications *seats.Flow
	// ReachTimeout bounds the first step of Dial, ResumeTimeout that of Resume, and IdentifyTimeout the second one.
	// ProbeTimeout bounds a probe.
	ReachTimeout, ResumeTimeout, IdentifyTimeout, ProbeTimeout time.Duration

	// Unanswered is called, from any goroutine, when a call of a caller got no answer, with details for the log that
	// show no credential.
	Unanswered func(details string)
	Clock      clock.PassiveClock
	Logger     logr.Logger
}

func (o *Options) addressesFor(a Access) addresses.Policy {
	if a.Kubeconfig == nil {
		return addresses.Any()
	}
	return o.Addresses
}

// Verify reports whether a cluster with a UID is the right one.
type Verify func(ctx context.Context, uid types.UID) error

// Dialer opens the connections to one target.
type Dialer struct {
	ctx     context.Context
	options Options
	newest  atomic.Pointer[Access] // that was sent to the target
}

// NewDialer returns a dialer. Its connections end with ctx.
func NewDialer(ctx context.Context, options Options) *Dialer {
	return &Dialer{ctx: ctx, options: options}
}

// Dial opens a connection that works and leads to the right cluster. previous, which may be nil, is the one whose
// mappings it begins with.
func (d *Dialer) Dial(ctx context.Context, number int64, a Access, verify Verify, previous *Connection) (
	_ *Connection, err error) {
	c, err := d.newConnection(number, a, previous)
	if err != nil {
		return nil, Failed(ReasonInvalid, "%w", err)
	}
	defer func() {
		if err != nil {
			c.Stop(err)
		}
	}()
	if c.peer, err = d.meet(ctx, c, verify, d.options.ReachTimeout); err != nil {
		return nil, err
	}
	return c, nil
}

// Reconnect finds out whether a connection that is suspended can continue, and returns the version that the target has
// now.
func (d *Dialer) Reconnect(ctx context.Context, c *Connection, verify Verify) (string, error) {
	met, err := d.meet(ctx, c, verify, d.options.ResumeTimeout)
	switch {
	case err != nil:
		c.transport.Cut() // what was opened just now may lead nowhere, too
		return "", err
	case met.UID != c.peer.UID:
		return "", ErrOtherCluster
	}
	return met.Version, nil
}

// TryToken checks whether the target accepts another token. It uses the open connection, whose server is verified
// already: the token is sent with each request, and another connection would need another handshake.
func (d *Dialer) TryToken(ctx context.Context, c *Connection, a Access, verify Verify) error {
	d.newest.Store(&a)
	ctx = transport.WithToken(ctx, a.token())
	return d.options.Probes.Do(ctx, d.options.Cluster, d.options.IdentifyTimeout, func(ctx context.Context) error {
		uid, err := c.identify(ctx)
		if err != nil || uid == c.peer.UID {
			return err
		}
		return verify(ctx, uid)
	})
}

// meet finds out whether a connection works and leads to the right cluster. Only targets that answered within timeout
// in the first step get one of the few seats for the second. Those that hang there keep it for a limited time, and wait
// in a separate queue the next time.
func (d *Dialer) meet(ctx context.Context, c *Connection, verify Verify, timeout time.Duration) (met Peer, err error) {
	err = d.options.Dials.Do(ctx, d.options.Cluster, timeout, func(ctx context.Context) error {
		met.Version, err = c.readVersion(ctx)
		return err
	})
	if err != nil {
		return Peer{}, err
	}
	done, err := d.options.Identifications.Acquire(ctx)
	if err != nil {
		return Peer{}, err //nolint:wrapcheck // it is the cause of ctx
	}
	ctx, cancel := context.WithTimeout(ctx, d.options.IdentifyTimeout)
	defer cancel()
	if met.UID, err = c.identify(ctx); err == nil {
		err = verify(ctx, met.UID)
	}
	done(err == nil)
	return met, err
}

// identify returns what identifies the cluster, if the target takes the credential and lets its user know.
func (c *Connection) identify(ctx context.Context) (types.UID, error) {
	user, err := c.reviewSelf(ctx)
	if err != nil {
		return "", err
	}
	uid, err := c.readUID(ctx)
	var f *Failure
	if errors.As(err, &f) && f.Reason == ReasonForbidden {
		return "", Failed(ReasonForbidden,
			"the credential%s may not get the namespace %s, whose UID identifies the cluster: %w",
			user, metav1.NamespaceSystem, f.err)
	}
	return uid, err
}
