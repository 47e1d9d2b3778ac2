package fleetsim

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// MaxTargets is the most targets that a fleet may have.
const MaxTargets = 5000

// Options of a Fleet.
type Options struct {
	// Targets is how many there are, from 1 to MaxTargets.
	Targets int
	// Seed decides everything that is drawn by lot: identities, UIDs of objects, and who is struck by faults with a share.
	Seed int64
	// Prefix of the targets' names, which continue with a number of four digits from 0001. Empty: "target-".
	Prefix string
	// Credentials of kubeconfigs. Empty: Token.
	Credentials Credentials
	// Snapshot is what each target holds at the start. Nil: what every cluster has.
	Snapshot *apiserver.Snapshot
	// Journal records what the targets are asked for. Nil: one with journal.Options' defaults.
	Journal *journal.Journal
	// Version of Kubernetes. Empty: that of package apiserver.
	Version string
	// Window is how many events each target keeps for watches. Zero: as package apiserver has it.
	Window int
	// Clock is the right time. Nil: time.Now.
	Clock func() time.Time
}

// Fleet is a number of targets that run together. Create it with Start and end it with Stop.
type Fleet struct {
	options Options
	targets []*Target
}

// Start starts a fleet. If ctx ends before it is there, it fails; the fleet itself runs until Stop.
func Start(ctx context.Context, o Options) (*Fleet, error) {
	if o.Targets < 1 || o.Targets > MaxTargets {
		return nil, fmt.Errorf("starting a fleet: the number of targets is %d, and must be between 1 and %d", o.Targets, MaxTargets)
	}
	if o.Prefix == "" {
		o.Prefix = "target-"
	}
	if problems := validation.IsDNS1123Label(o.Prefix + "0001"); len(problems) > 0 || len(o.Prefix) > 40 {
		return nil, fmt.Errorf("starting a fleet: the prefix %q makes no names of clusters: %s", o.Prefix, strings.Join(append(problems, "it has at most 40 characters"), "; "))
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Journal == nil {
		o.Journal = journal.New(journal.Options{})
	}
	f := &Fleet{options: o, targets: make([]*Target, o.Targets)}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range f.targets {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			name := fmt.Sprintf("%s%04d", o.Prefix, i+1)
			target, err := newTarget(name, i+1, &f.options)
			if err != nil {
				return fmt.Errorf("starting %s: %w", name, err)
			}
			f.targets[i] = target
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		f.Stop()
		return nil, err
	}
	return f, nil
}

// Targets returns all targets in the order of their names. The slice is the caller's.
func (f *Fleet) Targets() []*Target { return append([]*Target(nil), f.targets...) }

// Journal of the whole fleet.
func (f *Fleet) Journal() *journal.Journal { return f.options.Journal }

// Stop ends all targets and waits until nothing is left of them. It may be called twice.
func (f *Fleet) Stop() {
	var group sync.WaitGroup
	for _, t := range f.targets {
		if t != nil { // it could not be started
			group.Go(t.end)
		}
	}
	group.Wait()
}
