package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/targetfacts"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/secretindex"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
	"github.com/trellis-hub/trellis/controllers/targetcluster/members"
	"github.com/trellis-hub/trellis/controllers/targetcluster/settings"
	"github.com/trellis-hub/trellis/controllers/webhookregistration"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

// all are the controllers of the hub.
var all = []struct {
	name string
	on   func(*configv1alpha1.HubConfiguration) bool
	make func(context.Context, *term) (controller, error)
}{
	{"managedresource", always, newManagedResource},
	{"targetcluster", always, newTargetCluster},
	{"settings", always, newSettings},
	{"garbagecollector", always, newGarbageCollector},
	{"tokenrequestor", always, newTokenRequestor},
	{"csrapprover", always, newCSRApprover},
	{"criticalcomponents", always, newCriticalComponents},
	{"nodeagentdelay", always, newNodeAgentDelay},
	{"networkpolicy", always, newNetworkPolicy},
	{"tokeninvalidator", always, newTokenInvalidator},
	{"nodehighavailability", always, newNodeHighAvailability},
	{"stalepods", always, newStalePods},
	{"care", always, newCare},
	{"istioclusterconfig", always, newIstioClusterConfig},
	{"webhookregistration", always, newWebhookRegistration},
}

func always(*configv1alpha1.HubConfiguration) bool { return true }

// Environment is what controllers are made of. All fields are required.
type Environment struct {
	Config *configv1alpha1.HubConfiguration
	// Cache has the informers of the source, as SourceObjects says; Client calls its API server.
	Cache  cache.Cache
	Client client.Client
	// Clusters has the connections to the targets, guarded by Guard.
	Clusters clustercache.ClusterCache
	Guard    *identity.Guard
	// Holders know for which of several registrations of a cluster controllers work.
	Holders *identity.Holders
	// Secrets, Bundles and Members are indexes and caches that outlive terms.
	Secrets *secretindex.Index
	Bundles *bundle.Cache
	Members *members.Index
	// SecretMetadata calls the API server of the source for the metadata of Secrets.
	SecretMetadata metadata.Interface
	// Settings says what works in which target.
	Settings *settings.Settings
	// Webhooks are what the hub serves to targets. Nil: it serves none.
	Webhooks *Webhooks
	// Attached are the targets that call them.
	Attached *webhookregistration.Attached
	// Events takes events about objects of the source.
	Events events.EventRecorder
	// WatchedUntil is when a hub last renewed its heartbeat before the term; zero if that is not known.
	WatchedUntil func() time.Time
	Metrics      *Metrics
	// Clock times decisions.
	Clock  clock.Clock
	Logger logr.Logger
}

// term is what the controllers of one term are made of.
type term struct {
	Environment
	facts targetfacts.Term
}

// controller is one that was made for a term.
type controller struct {
	start func(context.Context) error
	loops []heartbeat.Loop
}

// Controllers are those of one term of leadership.
type Controllers []controller

// New makes the controllers that are switched on. It calls the source.
func New(ctx context.Context, environment Environment) (Controllers, error) {
	t := &term{Environment: environment}
	var made Controllers
	for _, c := range all {
		if !c.on(environment.Config) {
			continue
		}
		controller, err := c.make(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("setting up controller %s: %w", c.name, err)
		}
		made = append(made, controller)
	}
	return made, nil
}

// Start runs them until ctx ends or one of them fails, and returns when nothing is left of any. It can be called once.
func (c Controllers) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, controller := range c {
		group.Go(func() error { return controller.start(ctx) })
	}
	return group.Wait()
}

// Loops are those that have to make progress for as long as the term lasts.
func (c Controllers) Loops() (loops []heartbeat.Loop) {
	for _, controller := range c {
		loops = append(loops, controller.loops...)
	}
	return loops
}
