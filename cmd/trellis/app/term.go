package app

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/controllers"
)

// term runs the controllers for one term of leadership.
func (h *hub) term(ctx context.Context) error {
	events := newPacedEvents(h.manager.GetEventRecorder("trellis"), h.manager.GetScheme(), h.Clock)
	defer events.flush()
	term, err := controllers.New(ctx, controllers.Environment{
		Config: h.Config, Cache: h.manager.GetCache(), Client: h.client, Clusters: h.clusters, Guard: h.guard,
		Holders: h.holders,
		Secrets: h.secrets, SecretMetadata: h.secretMetadata, Bundles: h.bundles, Members: h.members, Events: events,
		WatchedUntil: h.watchedUntil, Metrics: h.metrics, Settings: h.settings,
		Webhooks: h.forControllers(), Attached: &h.attached, Clock: h.Clock, Logger: h.Logger,
	})
	if err != nil {
		return fmt.Errorf("beginning a term: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	defer h.watchTerm(ctx, term.Loops())()
	group.Go(func() error { return h.beat(ctx) })
	group.Go(func() error { return events.start(ctx) })
	group.Go(func() error { return term.Start(ctx) })
	return group.Wait()
}
