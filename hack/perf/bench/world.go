package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/shoot20"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// config has its arguments for the number of requests in flight. There is no limit on the rate, which would be what is
// measured then.
const config = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection:
  resourceNamespace: trellis
debugging:
  enableProfiling: true
targetClientConnection: {qps: 100000, burst: 100000, maxInFlight: %d}
classes:
- name: ""
  target: {type: Namespace}
`

// unprobed makes probes so rare that none happens in a measurement. What they are a sign of has to wait for them, then.
const unprobed = `
clusterCache: {probeInterval: 2h}
controllers: {heartbeat: {monitorPeriod: 5h, targetMonitorPeriod: 10h}}
`

// letters name the targets, as many as there are. The last one keeps an audit log, which slows a server down, and is used by rest
// and restart only.
var letters = strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi psi omega")

// startedAtOnce is how many control planes start beside each other. More of them would only wait for the processors, and then
// no longer for each other.
const startedAtOnce = 5

// world is what is measured, and where.
type world struct {
	Options
	dir      string // for the files of the run, inside bin/bench
	binary   string // of the hub
	source   *testbed.Cluster
	targets  []*testbed.Cluster // without the audited one
	audited  *testbed.Cluster
	hub      *testbed.Process
	observer *testbed.Observer
}

// sourceNamespace is where a target's registration and ManagedResources are.
func sourceNamespace(target *testbed.Cluster) string { return "bench--" + target.Name }

// setUp starts clusters and the hub, and applies the fixture.
func setUp(ctx context.Context, o Options, root, dir string) (*world, error) {
	w := &world{Options: o, dir: dir}
	err := w.start(ctx, root)
	if err != nil && w.hub != nil {
		err = fmt.Errorf("%w\n%s", err, w.hub.LogTail())
	}
	if err != nil {
		w.tearDown()
		return nil, err
	}
	return w, nil
}

func (w *world) start(ctx context.Context, root string) error {
	group, starting := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		w.binary, err = testbed.Build(starting, root)
		return err
	})
	group.Go(func() error { return w.startClusters(starting) })
	if err := group.Wait(); err != nil {
		return err
	}
	if err := testbed.InstallSource(ctx, w.source.Client); err != nil {
		return err
	}
	var err error
	if w.observer, err = testbed.Observe(context.WithoutCancel(ctx), w.source, testbed.ObserverOptions{}); err != nil {
		return err
	}
	if err := w.startHub(ctx, ""); err != nil {
		return err
	}
	var shoot *shoot20.Fixture
	if w.shoot {
		shoot = shoot20.New(shoot20.Options{})
	}
	for _, target := range w.all() {
		if err := w.fill(ctx, target, shoot); err != nil {
			return err
		}
	}
	return nil
}

// startClusters starts a few control planes at a time.
func (w *world) startClusters(ctx context.Context) error {
	planes := []controlplane.Options{{Name: "source", Audit: true}}
	for i, name := range letters[:w.targetCount] {
		planes = append(planes, controlplane.Options{Name: name, Audit: i == w.targetCount-1})
	}
	for i := range planes {
		planes[i].ExtraAPIServerArgs = []string{fmt.Sprintf("--profiling=%t", w.profiled)}
	}
	var clusters []*testbed.Cluster
	for few := range slices.Chunk(planes, startedAtOnce) {
		started, err := testbed.StartClusters(ctx, few...)
		if err != nil {
			testbed.StopClusters(clusters...)
			return err
		}
		clusters = append(clusters, started...)
	}
	last := len(clusters) - 1
	w.source, w.targets, w.audited = clusters[0], clusters[1:last], clusters[last]
	return nil
}

// all are the targets with the audited one.
func (w *world) all() []*testbed.Cluster { return append(slices.Clone(w.targets), w.audited) }

// startHub starts a hub with sections added to its configuration. If that fails, the one before is still there to be asked for
// its log.
func (w *world) startHub(ctx context.Context, sections string) error {
	hub, err := testbed.StartProcess(ctx, w.binary, w.dir, w.source, fmt.Sprintf(config, w.inFlight)+sections)
	if err != nil {
		return err
	}
	w.hub = hub
	return nil
}

// fill registers a target and applies the fixture to it, and what a shoot has, unless that is nil.
func (w *world) fill(ctx context.Context, target *testbed.Cluster, shoot *shoot20.Fixture) error {
	ns := sourceNamespace(target)
	kubeconfig, err := target.Access(ctx, "only", 12*time.Hour)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		cluster *testbed.Cluster
		object  client.Object
	}{
		{w.source, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}},
		{target, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}},
		{w.source, testbed.Registration(ns, target.Name, kubeconfig)},
	} {
		if err := step.cluster.Client.Create(ctx, step.object); err != nil {
			return fmt.Errorf("preparing %s: %w", target.Name, err)
		}
	}
	const kinds = "definitions"
	if err := w.create(ctx, target, kinds, definitions()); err != nil {
		return err
	}
	if _, err := w.observer.Await(ctx, testbed.ManagedResourceRef(ns, kinds), applied); err != nil {
		return err
	}
	for i := range w.fixture {
		if err := w.create(ctx, target, fixtureName(i), mixture(fixtureName(i)+"-", "steady")); err != nil {
			return err
		}
	}
	if shoot != nil {
		for _, object := range shoot.Source(ns, target.Name) {
			if err := w.source.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("creating what a shoot has: %w", err)
			}
		}
	}
	var list resourcesv1alpha1.ManagedResourceList
	if err := w.source.Client.List(ctx, &list, client.InNamespace(ns)); err != nil {
		return fmt.Errorf("listing what %s is to have: %w", target.Name, err)
	}
	for i := range list.Items {
		if _, err := w.observer.Await(ctx, testbed.ManagedResourceRef(ns, list.Items[i].Name), applied); err != nil {
			return err
		}
	}
	return nil
}

func fixtureName(i int) string { return fmt.Sprintf("fixture-%d", i) }

// create creates a ManagedResource and its Secret.
func (w *world) create(ctx context.Context, target *testbed.Cluster, name string, manifests []string) error {
	ns := sourceNamespace(target)
	for _, object := range []client.Object{testbed.Content(ns, name, "objects.yaml", manifests...),
		testbed.ManagedResource(ns, name, name)} {
		if err := w.source.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating ManagedResource %s/%s: %w", ns, name, err)
		}
	}
	return nil
}

// applied reports whether everything of a ManagedResource is in its target. Without a controller manager Deployments
// never become ready there.
func applied(e testbed.Entry) bool {
	return e.Is(string(resourcesv1alpha1.ConditionResourcesApplied), string(resourcesv1alpha1.ConditionTrue))
}

// noted reports whether the hub is done with a ManagedResource.
func noted(e testbed.Entry) bool {
	return e.Object != nil && e.Object.GetAnnotations()[hubv1alpha1.AppliedAnnotation] != ""
}

// tearDown ends everything at once, and removes what is of no use without it.
func (w *world) tearDown() {
	if w.hub != nil {
		w.hub.Kill()
	}
	if w.observer != nil {
		w.observer.Stop()
	}
	testbed.StopClusters(append(w.all(), w.source)...)
	_ = os.RemoveAll(w.dir) // inside bin/, and made again by the next run
}

// makeDirs makes the directory of results, and in it one for the files of the run.
func makeDirs(root string) (results, run string, err error) {
	results = filepath.Join(root, "bin", "bench")
	run = filepath.Join(results, "run")
	if err := errors.Join(os.RemoveAll(run), os.MkdirAll(run, 0o700)); err != nil {
		return "", "", fmt.Errorf("making room for files: %w", err)
	}
	return results, run, nil
}
