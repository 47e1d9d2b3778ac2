package rig

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// ByHub reports whether the hub made a change, by its user agent.
var ByHub = journal.ByUserAgent("trellis")

// config is that of the hub as it ships, and with profiles, which cost nothing until a client requests one. Nothing
// else may be in it: what is measured is what operators get. Sections that it does not have may be added.
const config = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection:
  resourceNamespace: trellis
debugging:
  enableProfiling: true
classes:
- name: ""
  target: {type: Namespace}
`

// startPatience is how long a hub may take to become ready: with a thousand targets, it reads tens of thousands of
// objects first.
const startPatience = 10 * time.Minute

// etcdQuota has room for a thousand targets with all versions of five minutes, and for a hundred thousand foreign
// Secrets.
const etcdQuota = 8 << 30

// sourceShare leaves the machine to the hub, as a source does that has one of its own. With 20,000 ManagedResources a
// collection of its heap takes the processors for seconds, so it is to be seldom. Without the limit, a roll-out took 24
// GiB of memory, and the machine stood still. A source with a lower priority (nice), or with one processor, makes
// the hub wait for it, which is worse.
var sourceShare = controlplane.Share{HeapGrowth: 300, MemoryLimit: 7 << 30, TraceCollections: true}

// unchecked keeps the source's API server from comparing its caches with etcd, as it does by default every five to
// seven minutes: it reads and decodes everything for that, which with 20,000 ManagedResources and Secrets is work for
// the processors of the hub at a moment of its own choice.
const unchecked = "--feature-gates=DetectCacheInconsistency=false"

// profiled has the source's API server serve profiles, and collect its garbage when it is asked to.
const profiled = "--profiling=true"

// history is how many writes the journal of a target remembers: more than any trial makes, for a verdict about a part
// of them is none. Room is taken only for what is written.
const history = 1 << 17

// Options of a Rig.
type Options struct {
	// Root of the repository.
	Root string
	// Results is the directory in which the run gets one for its files, which goes with it.
	Results string
	// Fleet is the fleet of targets. Its journal is made by the rig.
	Fleet fleetsim.Options
	// Binary is the hub. Empty: it is built.
	Binary string
	// Environment is added to that of the hub, as "NAME=value".
	Environment []string
	// Progress gets a line for each step. Nil: nothing is written.
	Progress io.Writer
}

// Rig is started by Start and ended by Stop.
type Rig struct {
	Source  *testbed.Cluster
	Fleet   *fleetsim.Fleet
	Journal *journal.Journal
	Writers *Writers
	// Observer sees the ManagedResources and TargetClusters of the source.
	Observer *testbed.Observer
	// Hub is nil unless it runs.
	Hub *testbed.Process
	// Class is YAML that is added to the class of hubs that are started, as lines of its mapping. Empty: what ships.
	Class string

	options Options
	began   time.Time
	binary  string
	dir     string
}

// Start starts everything but the hub.
func Start(ctx context.Context, o Options) (*Rig, error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	r := &Rig{options: o, began: time.Now(), Journal: journal.New(journal.Options{History: history, Owner: ByHub})}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("setting up: %w", err), r.Stop())
	}
	return r, nil
}

func (r *Rig) start(ctx context.Context) (err error) {
	if err := files(r.options.Fleet.Targets); err != nil {
		return err
	}
	if err := os.MkdirAll(r.options.Results, 0o700); err != nil {
		return err
	}
	if r.dir, err = os.MkdirTemp(r.options.Results, "run-"); err != nil {
		return err
	}
	r.Say("starting a source cluster and %d simulated targets, and building the hub", r.options.Fleet.Targets)
	group, starting := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if r.binary = r.options.Binary; r.binary != "" {
			return nil
		}
		r.binary, err = testbed.BuildInto(starting, r.options.Root, r.dir)
		return err
	})
	group.Go(func() error {
		clusters, err := testbed.StartClusters(starting, controlplane.Options{
			Name: "source", Share: sourceShare, ExtraAPIServerArgs: []string{unchecked, profiled},
			ExtraEtcdArgs: []string{fmt.Sprintf("--quota-backend-bytes=%d", int64(etcdQuota))},
		})
		if err != nil {
			return err
		}
		r.Source = clusters[0]
		return testbed.InstallSource(starting, r.Source.Client)
	})
	group.Go(func() (err error) {
		o := r.options.Fleet
		o.Journal = r.Journal
		r.Fleet, err = fleetsim.Start(starting, o)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if r.Writers, err = newWriters(r.Source); err != nil {
		return err
	}
	r.Observer, err = testbed.Observe(context.WithoutCancel(ctx), r.Source, testbed.ObserverOptions{})
	return err
}

// Stop ends everything, and says if the hub did not end well.
func (r *Rig) Stop() error {
	err := r.StopHub()
	if r.Observer != nil {
		r.Observer.Stop()
	}
	if r.Fleet != nil {
		r.Fleet.Stop()
	}
	testbed.StopClusters(r.Source)
	if r.dir != "" {
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	return err
}

// environment is what is added to that of a hub: when garbage is collected, as the chart has it, and the options.
func (r *Rig) environment() []string {
	return append([]string{"GOGC=80"}, r.options.Environment...)
}

// StartHub starts the hub and returns when it is ready. Sections are added to its configuration.
func (r *Rig) StartHub(ctx context.Context, sections string) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	var err error
	r.Hub, err = testbed.StartProcess(ctx, r.binary, r.dir, r.Source, r.config(sections), r.environment()...)
	return err
}

// config is that of a hub, with sections that are added.
func (r *Rig) config(sections string) string {
	var class strings.Builder
	for line := range strings.Lines(r.Class) { // the class is what config ends with
		class.WriteString("  " + line)
	}
	return config + class.String() + sections
}

// StartBeside starts a further hub of the same binary, with the same configuration as StartHub, and returns when it is
// ready. The caller stops it.
func (r *Rig) StartBeside(ctx context.Context, sections string) (*testbed.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	dir, err := os.MkdirTemp(r.dir, "beside-")
	if err != nil {
		return nil, fmt.Errorf("directory of a replica: %w", err)
	}
	return testbed.StartProcess(ctx, r.binary, dir, r.Source, r.config(sections), r.environment()...)
}

// Replica starts a further hub with the same configuration and returns when it is ready. Its user agent is AgentOf its
// name, by which targets identify it. The caller stops it.
func (r *Rig) Replica(ctx context.Context, name string) (*testbed.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	dir, err := os.MkdirTemp(r.dir, "replica-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("directory of a replica: %w", err)
	}
	// The linker names it, so that nothing else in the hub is other than as it ships.
	binary, err := testbed.BuildInto(ctx, r.options.Root, filepath.Join(r.dir, "binary-"+name),
		"-ldflags=-X "+userAgentVariable+"="+AgentOf(name))
	if err != nil {
		return nil, err
	}
	return testbed.StartProcess(ctx, binary, dir, r.Source, r.config(""), r.environment()...)
}

// userAgentVariable is what the linker sets to name a replica.
const userAgentVariable = "github.com/trellis-hub/trellis/cmd/trellis/app.userAgent"

// AgentOf is the user agent of a replica.
func AgentOf(name string) string { return "trellis/" + name }

// StopHub ends the hub in order. It does nothing if none runs.
func (r *Rig) StopHub() error {
	if r.Hub == nil {
		return nil
	}
	err := r.Hub.Stop()
	r.Hub = nil
	return err
}

// Extra starts further targets with the journal of the rig. The caller stops them.
func (r *Rig) Extra(ctx context.Context, targets int, prefix string) (*fleetsim.Fleet, error) {
	o := r.options.Fleet
	o.Targets, o.Prefix, o.Journal = targets, prefix, r.Journal
	// Another seed, since targets with the same identity are the same cluster, which nothing is deleted from twice.
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(prefix)) // it never fails
	o.Seed += 1 + int64(hash.Sum32())
	return fleetsim.Start(ctx, o)
}

// Log returns the end of the hub's log; empty if it does not run.
func (r *Rig) Log() string {
	if r.Hub == nil {
		return ""
	}
	return r.Hub.LogTail()
}

// Say prints a line of progress, with the time since the start and the load of the machine.
func (r *Rig) Say(format string, args ...any) {
	fmt.Fprintf(r.options.Progress, "%7.1fs  load %s  %s\n", time.Since(r.began).Seconds(), figures.LoadOfMinute(figures.Load()), fmt.Sprintf(format, args...))
}

// Until polls until something is done. The error says what it waited for.
func (r *Rig) Until(ctx context.Context, patience, every time.Duration, what string, done func() (bool, error)) error {
	began, said := time.Now(), time.Now()
	for {
		ok, err := done()
		switch {
		case err != nil:
			return fmt.Errorf("waiting until %s: %w", what, err)
		case ok:
			return nil
		case time.Since(began) > patience:
			return fmt.Errorf("gave up waiting after %s until %s", patience, what)
		case time.Since(said) > 20*time.Second:
			r.Say("waiting until %s", what)
			said = time.Now()
		}
		if r.Hub != nil {
			select {
			case <-r.Hub.Done():
				return fmt.Errorf("waiting until %s: the hub has ended\n%s", what, r.Hub.LogTail())
			default:
			}
		}
		if err := Pause(ctx, every); err != nil {
			return err
		}
	}
}

// Pause waits.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// files makes sure that this process and the hub may open as many files as they will: a listener and two connections
// for each target here, and a connection there.
func files(targets int) error {
	needed := uint64(4*targets + 1000)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	if limit.Cur >= needed {
		return nil
	}
	if limit.Max < needed {
		return fmt.Errorf("%d targets need %d open files, and the hard limit is %d: raise it with ulimit -Hn", targets, needed, limit.Max)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raising the limit of open files to %d: %w", limit.Max, err)
	}
	return nil
}

// Namespace is where the registration of a target is, and what is for it.
func Namespace(target *fleetsim.Target) string { return "fleet--" + target.Name() }

// Results is the directory for what trials measured.
func Results(root string) string { return filepath.Join(root, "bin", "trials") }
