package clustercache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/mapperpool"
)

// ErrConnectionReplaced is what calls get that still use a connection some time after another one took its place. It is
// to be handled like any error of a call: by trying again, with what the ClusterCache hands out then.
var ErrConnectionReplaced = errors.New("connection to the target cluster was replaced")

// generation is one connection to a target. Everything it starts lives in its context; but for the token nothing in it
// changes.
type generation struct {
	number int64
	access access
	ctx    context.Context
	end    context.CancelCauseFunc
	wire   *wire
	token  *atomic.Pointer[string]

	// config and http are for callers: throttled, guarded. control is for the cache's own calls, which bring deadlines of
	// their own and must get through when callers have used up what is allowed.
	config  *rest.Config
	http    *http.Client
	control *http.Client

	mapper   *mapperpool.Mapper
	uncached client.Client
	cached   client.Client
	metadata metadata.Interface
	dynamic  dynamic.Interface

	uid     types.UID
	version string
}

// newGeneration builds a connection without calling the target. It ends with ctx at the latest. previous, which may be
// nil, is the one whose mappings it begins with.
func (t *target) newGeneration(ctx context.Context, number int64, a access, previous *generation) (*generation, error) {
	config := a.config()
	wire, err := newWire(config, t.hint)
	if err != nil {
		return nil, err
	}
	g := &generation{number: number, access: a, wire: wire, token: &atomic.Pointer[string]{}}
	g.ctx, g.end = context.WithCancelCause(ctx)
	token := a.token()
	g.token.Store(&token)
	if err := g.buildClients(t, config, previous); err != nil {
		g.stop(err)
		return nil, err
	}
	return g, nil
}

func (g *generation) buildClients(t *target, config *rest.Config, previous *generation) error {
	config.UserAgent = t.cache.options.UserAgent
	authenticated, err := rest.HTTPWrappersForConfig(config, bearer{next: g.wire.http, token: g.token})
	if err != nil {
		return fmt.Errorf("cannot set up authentication: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("address of the target: %w", err)
	}
	guarded := &guard{next: authenticated, host: base.Host, ctx: g.ctx, throttle: &t.throttle, doubt: t.hint}

	g.control = &http.Client{Transport: authenticated, CheckRedirect: noRedirect}
	g.http = &http.Client{Transport: guarded, CheckRedirect: noRedirect}
	g.config = &rest.Config{
		Host:                      base.String(),
		Transport:                 guarded,
		UserAgent:                 config.UserAgent,
		QPS:                       -1, // the transport limits
		WarningHandlerWithContext: rest.NoWarnings{},
	}
	var seed *mapperpool.Mapper
	if previous != nil {
		seed = previous.mapper
	}
	g.mapper = t.cache.mappers.Mapper(g.ctx, g.config, g.http, seed)
	if g.uncached, err = client.New(g.config, client.Options{HTTPClient: g.http, Scheme: t.cache.options.Scheme, Mapper: g.mapper}); err != nil {
		return fmt.Errorf("cannot build the client: %w", err)
	}
	g.cached = &cachedClient{Client: g.uncached, reader: t.reader()}
	if g.metadata, err = metadata.NewForConfigAndClient(g.config, g.http); err != nil {
		return fmt.Errorf("cannot build the metadata client: %w", err)
	}
	if g.dynamic, err = dynamic.NewForConfigAndClient(g.config, g.http); err != nil {
		return fmt.Errorf("cannot build the dynamic client: %w", err)
	}
	return nil
}

// stop ends everything in the generation; calls fail with cause from now on.
func (g *generation) stop(cause error) {
	g.end(cause)
	g.wire.shut()
}

// noRedirect hands redirects to the caller: API servers give none, and following one would lead the hub elsewhere.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
