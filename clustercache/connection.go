package clustercache

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/clustercache/internal/watching"
	"github.com/trellis-hub/trellis/clustercache/mapperpool"
)

// connection is one connection to a target. Everything it starts lives in its context; but for the token nothing in it
// changes.
type connection struct {
	number    int64
	access    access
	ctx       context.Context
	end       context.CancelCauseFunc
	transport *transport.Transport

	// config and clients are for callers, who call through guarded; control is for the cache's own calls.
	config   *rest.Config
	guarded  *http.Client
	control  *http.Client
	mapper   *mapperpool.Mapper
	clients  *atomic.Pointer[clients]
	metadata metadata.Interface
	watching *watching.Connection

	uid     types.UID
	version string
}

// newConnection builds a connection without calling the target. previous, which may be nil, is the one whose mappings
// it begins with.
func (t *target) newConnection(number int64, a access, previous *connection) (*connection, error) {
	g := &connection{number: number, access: a}
	g.ctx, g.end = context.WithCancelCause(t.ctx)
	config := a.config()
	config.UserAgent = t.cache.options.UserAgent
	if wrap := t.cache.options.WrapTransport; wrap != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return wrap(t.key, next) })
	}
	var err error
	g.transport, err = transport.New(g.ctx, transport.Options{
		Config: config, Token: a.token(), Throttle: &t.throttle, Suspect: t.suspect, Meter: t.meter, Openings: t.openings,
		Answers: t.cache.answers, Owner: t.key,
		Addresses: t.cache.addressesFor(a), WrapConn: t.cache.options.Dial.WrapConn, Resolver: t.cache.options.Dial.resolver,
		Unanswered: func(err error) { t.unanswered(err, a) },
		Fenced:     t.cache.options.Fenced, PingInterval: t.cache.options.Probe.PingInterval,
		PingTimeout: t.cache.options.Probe.PingTimeout,
	})
	if err != nil {
		g.end(err)
		return nil, err
	}
	if err := g.buildClients(t, previous); err != nil {
		g.stop(err)
		return nil, err
	}
	return g, nil
}

func (g *connection) buildClients(t *target, previous *connection) error {
	options := &t.cache.options
	g.control = &http.Client{Transport: g.transport.Control(), CheckRedirect: noRedirect}
	guarded := &rediscovery{next: g.transport.Guarded(), base: strings.TrimSuffix(g.transport.Base().Path, "/"),
		suspect: func(group string) { g.unserved(t, group) }}
	g.guarded = &http.Client{Transport: guarded, CheckRedirect: noRedirect}
	g.config = &rest.Config{
		Host:                      g.transport.Host(),
		Transport:                 guarded,
		UserAgent:                 options.UserAgent,
		QPS:                       -1, // the transport limits
		WarningHandlerWithContext: rest.NoWarnings{},
	}
	var seed *mapperpool.Mapper
	if previous != nil {
		seed = previous.mapper
	}
	g.mapper = t.cache.mappers.Mapper(g.ctx, g.config, g.guarded, seed)
	g.clients = &atomic.Pointer[clients]{}
	if err := g.renewClients(t); err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfigAndClient(g.config, g.guarded)
	if err != nil {
		return fmt.Errorf("cannot build the metadata client: %w", err)
	}
	g.metadata = scopedMetadata{metadataClient}
	g.watching = &watching.Connection{
		Context: g.ctx, Held: g.transport.Gate().Closed, Fenced: options.Fenced, Outages: g.transport.Gate().Holds,
		Mapper: g.mapper, Client: g.guarded, Server: g.transport.Base(),
		Clock: options.Clock, SyncTimeout: options.Watch.SyncTimeout, SilenceTimeout: options.Watch.SilenceTimeout,
		Logger: t.log,
		Events: &t.cache.metrics.watchEvents, Lists: t.lists, Budget: t.budget, Redact: func(text string) string {
			if serving := t.current(); serving != nil { // its token may have been changed since
				text = serving.access.redact(text)
			}
			return g.access.redact(text)
		},
	}
	return nil
}

// stop ends everything in the generation; calls fail with cause from now on.
func (g *connection) stop(cause error) {
	g.end(cause)
	g.transport.Shut()
}

// noRedirect hands redirects to the caller: API servers give none, and following one would lead the hub elsewhere.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
