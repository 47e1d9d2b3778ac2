package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/demo/stage"
	"github.com/trellis-hub/trellis/hack/hubtest"
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

// targetNames are the targets. The last one keeps an audit log, which slows a server down, and is used at rest only.
var targetNames = []string{"alpha", "beta", "gamma", audited}

const audited = "delta"

// world is what is measured, and where.
type world struct {
	options
	dir     string // for the files of the run, inside bin/bench
	source  *stage.Cluster
	targets []*stage.Cluster // without the audited one
	audited *stage.Cluster
	hub     *stage.Hub
	board   *stage.Board
	closing context.CancelFunc
}

// sourceNamespace is where a target's registration and ManagedResources are.
func sourceNamespace(target *stage.Cluster) string { return "bench--" + target.Name }

// setUp starts clusters and the hub, and applies the fixture.
func setUp(ctx context.Context, o options, root, dir string) (*world, error) {
	w := &world{options: o, dir: dir, closing: func() {}}
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
	var binary string
	group, starting := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		binary, err = stage.Build(starting, root)
		return err
	})
	group.Go(func() error {
		planes := []controlplane.Options{{Name: "source", Audit: true}}
		for _, name := range targetNames {
			planes = append(planes, controlplane.Options{Name: name, Audit: name == audited})
		}
		for i := range planes {
			planes[i].ExtraAPIServerArgs = []string{fmt.Sprintf("--profiling=%t", w.profiled)}
		}
		clusters, err := stage.StartClusters(starting, planes...)
		if err != nil {
			return err
		}
		w.source, w.targets, w.audited = clusters[0], clusters[1:len(clusters)-1], clusters[len(clusters)-1]
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := hubtest.InstallSource(ctx, w.source.Client); err != nil {
		return err
	}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.closing = cancel
	var err error
	if w.board, err = stage.NewBoard(watching, w.source); err != nil {
		return err
	}
	if w.hub, err = stage.StartHub(ctx, binary, w.dir, w.source, fmt.Sprintf(config, w.inFlight)); err != nil {
		return err
	}
	for _, target := range append(w.targets, w.audited) {
		if err := w.fill(ctx, target); err != nil {
			return err
		}
	}
	return nil
}

// fill registers a target and applies the fixture to it.
func (w *world) fill(ctx context.Context, target *stage.Cluster) error {
	ns := sourceNamespace(target)
	kubeconfig, err := target.Access(ctx, "only", 12*time.Hour)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		cluster *stage.Cluster
		object  client.Object
	}{
		{w.source, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}},
		{target, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}},
		{w.source, hubtest.Registration(ns, target.Name, kubeconfig)},
	} {
		if err := step.cluster.Client.Create(ctx, step.object); err != nil {
			return fmt.Errorf("preparing %s: %w", target.Name, err)
		}
	}
	const kinds = "definitions"
	if err := w.create(ctx, target, kinds, definitions()); err != nil {
		return err
	}
	if _, err := w.board.Await(ctx, stage.ManagedResource(ns, kinds), applied); err != nil {
		return err
	}
	for i := range w.fixture {
		if err := w.create(ctx, target, fixtureName(i), mixture(fixtureName(i)+"-", "steady")); err != nil {
			return err
		}
	}
	for i := range w.fixture {
		if _, err := w.board.Await(ctx, stage.ManagedResource(ns, fixtureName(i)), applied); err != nil {
			return err
		}
	}
	return nil
}

func fixtureName(i int) string { return fmt.Sprintf("fixture-%d", i) }

// create creates a ManagedResource and its Secret.
func (w *world) create(ctx context.Context, target *stage.Cluster, name string, manifests []string) error {
	ns := sourceNamespace(target)
	for _, object := range []client.Object{hubtest.Content(ns, name, "objects.yaml", manifests...), hubtest.ManagedResource(ns, name, name)} {
		if err := w.source.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating ManagedResource %s/%s: %w", ns, name, err)
		}
	}
	return nil
}

// applied tells whether everything of a ManagedResource is in its target. Without a controller manager Deployments never
// become ready there.
func applied(e stage.Entry) bool {
	return e.Is(string(resourcesv1alpha1.ConditionResourcesApplied), string(resourcesv1alpha1.ConditionTrue))
}

// noted tells whether the hub is done with a ManagedResource.
func noted(e stage.Entry) bool {
	return e.Object != nil && e.Object.GetAnnotations()[hubv1alpha1.AppliedAnnotation] != ""
}

// tearDown ends everything at once, and removes what is of no use without it.
func (w *world) tearDown() {
	if w.hub != nil {
		w.hub.Kill()
	}
	w.closing()
	stage.StopClusters(append(w.targets, w.source, w.audited)...)
	_ = os.RemoveAll(w.dir) // inside bin/, and made anew by the next run
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
