package tokeninvalidator

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/lru"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// Name is that of the controller, for logs and metrics.
const Name = "token-invalidator"

const (
	// allWorkers is how many Secrets are worked on at a time, in all targets.
	allWorkers = 20
	// runTimeout bounds a run, which lists the pods of a namespace.
	runTimeout = time.Minute
	// runRate, a second, and runBurst bound how often Secrets of one target are looked at, each of which may take a list
	// of pods. A tenant creates as many as it likes.
	runRate, runBurst = 20, 200
	// maxReported is how many faults are remembered, of all targets, to report each only once.
	maxReported = 256
)

// Settings are those of one target.
type Settings struct {
	// ConcurrentSyncs is how many Secrets are worked on at a time.
	ConcurrentSyncs int
}

// Options say what the controller is made of.
type Options struct {
	// Environment is that of all controllers in targets. Its Source is not needed.
	Environment multicluster.Environment
	// Settings returns those of a target, from memory; false: the controller is switched off there. Required.
	Settings func(clustercache.Status) (Settings, bool)
	// Follow reports targets whose settings have changed. Nil: they do not change.
	Follow multicluster.FollowFunc

	// pageSize is how many pods are listed at a time. Default 100.
	pageSize int64
	// maxPods is how many pods of a namespace are looked at. Default 10000.
	maxPods int
}

// New returns a controller that does nothing until it is started.
func New(options Options) (*multicluster.Controller, error) {
	if options.Settings == nil {
		return nil, fmt.Errorf("controller %s: %w", Name, errors.New("a required option is missing"))
	}
	r := &reconciler{pageSize: options.pageSize, maxPods: options.maxPods, reported: lru.New(maxReported)}
	if r.pageSize == 0 {
		r.pageSize = defaultPageSize
	}
	if r.maxPods == 0 {
		r.maxPods = defaultMaxPods
	}
	builder := multicluster.New(Name, options.Environment).
		Watches(secrets, aboutSecret).
		Watches(accounts, aboutAccount).
		OnSync().
		EnabledFor(func(status clustercache.Status) bool {
			_, on := options.Settings(status)
			return on
		}).
		WorkersFor(allWorkers, func(status clustercache.Status) int {
			settings, _ := options.Settings(status)
			return settings.ConcurrentSyncs
		}).
		Paced(runRate, runBurst).
		Timeout(runTimeout)
	if options.Follow != nil {
		builder.FollowsSettings(options.Follow)
	}
	controller, err := builder.Complete(r)
	r.controller = controller // before it is started
	return controller, err    //nolint:wrapcheck // it names the controller
}
