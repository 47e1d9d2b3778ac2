package connection

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/clustercache/internal/watching"
	"github.com/trellis-hub/trellis/clustercache/mapperpool"
	"github.com/trellis-hub/trellis/untrusted"
)

// Connection is one connection to a target. Everything it starts lives in its context; but for the token nothing in it
// changes.
type Connection struct {
	number    int64
	dialer    *Dialer
	began     Access                 // what it was made with
	access    atomic.Pointer[Access] // with the present token
	ctx       context.Context
	end       context.CancelCauseFunc
	transport *transport.Transport
	peer      Peer

	// config and clients are for callers, whose calls go through guarded; control is for the connection's own calls.
	config   *rest.Config
	guarded  *http.Client
	control  *http.Client
	mapper   *mapperpool.Mapper
	clients  atomic.Pointer[clients]
	metadata metadata.Interface
	watching *watching.Connection
}

// Peer identifies the cluster that a connection leads to.
type Peer struct {
	UID     types.UID // of the namespace kube-system
	Version string    // gitVersion
}

// clients are those for callers.
type clients struct{ uncached, cached client.Client }

// newConnection builds a connection without calling the target. previous, which may be nil, is the one whose mappings
// it begins with.
func (d *Dialer) newConnection(number int64, a Access, previous *Connection) (*Connection, error) {
	c := &Connection{number: number, dialer: d, began: a}
	c.access.Store(&a)
	d.newest.Store(&a)
	c.ctx, c.end = context.WithCancelCause(d.ctx)
	options := d.options.Transport
	options.Config, options.Token = a.config(), a.token()
	options.Config.UserAgent = d.options.UserAgent
	if wrap := d.options.WrapTransport; wrap != nil {
		options.Config.Wrap(wrap)
	}
	options.Addresses = d.options.addressesFor(a)
	options.Unanswered = func(err error) {
		d.options.Unanswered(untrusted.Text(c.redact(transport.Reason(err)), maxMessage))
	}
	var err error
	if c.transport, err = transport.New(c.ctx, options); err != nil {
		c.end(err)
		return nil, err //nolint:wrapcheck // the caller does
	}
	if err := c.buildClients(previous); err != nil {
		c.Stop(err)
		return nil, err
	}
	return c, nil
}

func (c *Connection) buildClients(previous *Connection) error {
	options := &c.dialer.options
	c.control = &http.Client{Transport: c.transport.Control(), CheckRedirect: noRedirect}
	guarded := &rediscovery{
		next: c.transport.Guarded(), base: strings.TrimSuffix(c.transport.Base().Path, "/"), suspect: c.unserved,
	}
	c.guarded = &http.Client{Transport: guarded, CheckRedirect: noRedirect}
	c.config = &rest.Config{
		Host:                      c.transport.Host(),
		Transport:                 guarded,
		UserAgent:                 options.UserAgent,
		QPS:                       -1, // the transport limits
		WarningHandlerWithContext: rest.NoWarnings{},
	}
	var seed *mapperpool.Mapper
	if previous != nil {
		seed = previous.mapper
	}
	c.mapper = options.Mappers.Mapper(c.ctx, c.config, c.guarded, seed)
	if err := c.renewClients(); err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfigAndClient(c.config, c.guarded)
	if err != nil {
		return fmt.Errorf("cannot build the metadata client: %w", err)
	}
	c.metadata = scopedMetadata{metadataClient}
	w, gate := options.Watching(), c.transport.Gate()
	w.Context, w.Suspended, w.Outages, w.Redact = c.ctx, gate.Closed, gate.Holds, c.redact
	w.Mapper, w.Client, w.Server = c.mapper, c.guarded, c.transport.Base()
	c.watching = w
	return nil
}

// renewClients has the clients for callers be such that know no kind yet.
func (c *Connection) renewClients() error {
	options := &c.dialer.options
	made, err := client.New(c.config, client.Options{HTTPClient: c.guarded, Scheme: options.Scheme, Mapper: c.mapper})
	if err != nil {
		return fmt.Errorf("cannot build the client: %w", err)
	}
	uncached := scopedClient{made}
	c.clients.Store(&clients{
		uncached: uncached, cached: &watching.Client{Client: uncached, Reader: options.Reader},
	})
	return nil
}

// unserved notes that the target does not serve a resource of a group as discovery said. The clients are made again,
// for they remember permanently what they learned of each kind.
func (c *Connection) unserved(group string) {
	if !c.mapper.Suspect(group) {
		return
	}
	log := c.dialer.options.Logger
	log.V(1).Info("The target does not serve a kind as it said; it is asked again what it serves", "group", group)
	if err := c.renewClients(); err != nil {
		log.Error(err, "Cannot forget what is known of the kinds of the target")
	}
}

// Number distinguishes the connections of a target. It is what Dial was called with.
func (c *Connection) Number() int64 { return c.number }

// Peer returns the cluster that the connection led to when it was opened.
func (c *Connection) Peer() Peer { return c.peer }

// Access returns what the connection was made from, with the present token.
func (c *Connection) Access() Access { return *c.access.Load() }

// Client returns a client that reads watched kinds from memory and everything else live.
func (c *Connection) Client() client.Client { return c.clients.Load().cached }

// UncachedClient returns a client that always calls the target.
func (c *Connection) UncachedClient() client.Client { return c.clients.Load().uncached }

// MetadataClient returns a client whose answers carry metadata only.
func (c *Connection) MetadataClient() metadata.Interface { return c.metadata }

// Config returns a copy of the configuration for clients of this connection.
func (c *Connection) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Mapper returns the REST mapper of the target.
func (c *Connection) Mapper() meta.ResettableRESTMapper { return c.mapper }

// Watching is what bindings need of it.
func (c *Connection) Watching() *watching.Connection { return c.watching }

// Done is closed when the connection has ended.
func (c *Connection) Done() <-chan struct{} { return c.ctx.Done() }

// SetToken continues with the token of another Access that differs in nothing else.
func (c *Connection) SetToken(a Access) {
	c.transport.SetToken(a.token())
	c.access.Store(&a)
}

// Suspend closes the sockets. Calls fail with cause, and watches wait, until Resume.
func (c *Connection) Suspend(cause error) {
	c.transport.Gate().Close(cause)
	c.transport.Cut()
}

// Resume ends a suspension. Watches continue where they were.
func (c *Connection) Resume() { c.transport.Gate().Open() }

// Stop ends everything in the connection; calls fail with cause from now on.
func (c *Connection) Stop(cause error) {
	c.end(cause)
	c.transport.Shut()
}

// redact takes out of a text every credential that the target may know: the one that the connection began with, which
// calls that are under way may have sent, the present one, and the newest of all connections.
func (c *Connection) redact(text string) string {
	return c.dialer.newest.Load().redact(c.Access().redact(c.began.redact(text)))
}

// noRedirect hands redirects to the caller: API servers give none, and following one would lead the hub elsewhere.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
