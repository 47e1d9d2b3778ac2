package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

//go:embed config.yaml manifests
var files embed.FS

// file returns a file that the program was built with.
func file(name string) string {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the files are part of the program
	}
	return string(content)
}

// world is everything that the show needs.
type world struct {
	*screen
	root   string // of the repository
	dir    string // for what the demo writes, inside bin/
	binary string // of the hub
	// prometheus is the folder with its binaries. Empty: none is wanted.
	prometheus string

	source, alpha, beta, gamma *testbed.Cluster
	// delta is for those who look around: the tutorial has them register it. It starts when the show is over.
	delta      *testbed.Cluster
	hub        *testbed.Process
	monitoring *testbed.Monitoring // nil if none is wanted
	observer   *testbed.Observer
}

func (w *world) targets() []*testbed.Cluster { return []*testbed.Cluster{w.alpha, w.beta, w.gamma} }

// namespace is where a target's registration and ManagedResources are, in the source cluster.
func namespace(target *testbed.Cluster) string { return "shoot--demo--" + target.Name }

// prepare builds the hub and trellisctl, and starts all clusters.
func (w *world) prepare(ctx context.Context) error {
	w.act("Starting")
	var err error
	if w.root, err = controlplane.Root(); err != nil {
		return err
	}
	if w.dir == "" {
		w.dir = filepath.Join(w.root, "bin", "demo")
	}
	if err := errors.Join(os.RemoveAll(w.dir), os.MkdirAll(w.dir, 0o700)); err != nil {
		return fmt.Errorf("making room for files: %w", err)
	}
	group, starting := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if w.binary, err = testbed.Build(starting, w.root); err != nil {
			return err
		}
		return w.buildCtl(starting)
	})
	group.Go(func() error {
		options := make([]controlplane.Options, 0, 4)
		for _, name := range []string{"source", "alpha", "beta", "gamma"} {
			options = append(options, controlplane.Options{
				Name: name, ControllerManager: true, Scheduler: true, Nodes: 1,
				Audit: name == "beta", // its token is rotated, without any effect
			})
		}
		clusters, err := testbed.StartClusters(starting, options...)
		if err != nil {
			return err
		}
		w.source, w.alpha, w.beta, w.gamma = clusters[0], clusters[1], clusters[2], clusters[3]
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	w.printf("clusters source, alpha, beta and gamma run, each with a node; the hub and trellisctl are built")
	for _, cluster := range append(w.targets(), w.source) {
		if err := w.writeAccess(cluster); err != nil {
			return err
		}
	}
	if err := w.linkKubectl(); err != nil {
		return err
	}
	return w.install(ctx)
}

// startDelta starts a cluster that is not registered.
func (w *world) startDelta(ctx context.Context) error {
	started, err := testbed.StartClusters(ctx,
		controlplane.Options{Name: "delta", ControllerManager: true, Scheduler: true, Nodes: 1})
	if err != nil {
		return err
	}
	w.delta = started[0]
	return w.writeAccess(w.delta)
}

// buildCtl builds trellisctl beside the access files, also under the name by which kubectl finds it.
func (w *world) buildCtl(ctx context.Context) error {
	if _, err := testbed.BuildCommand(ctx, w.root, "trellisctl", w.dir); err != nil {
		return err
	}
	if err := os.Symlink("trellisctl", filepath.Join(w.dir, "kubectl-trellis")); err != nil {
		return fmt.Errorf("providing kubectl trellis: %w", err)
	}
	return nil
}

// linkKubectl puts a kubectl beside the access files, for people who have none.
func (w *world) linkKubectl() error {
	kubectl, err := controlplane.Kubectl()
	if err != nil {
		return err
	}
	if err := os.Symlink(kubectl, filepath.Join(w.dir, "kubectl")); err != nil {
		return fmt.Errorf("providing kubectl: %w", err)
	}
	return nil
}

// install prepares the source cluster: CRDs, the hub's identities, and a namespace for each target.
func (w *world) install(ctx context.Context) error {
	if err := testbed.InstallSource(ctx, w.source.Client); err != nil {
		return err
	}
	for _, target := range w.targets() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(target), Labels: map[string]string{"gardener.cloud/role": "shoot"}}}
		if err := w.source.Client.Create(ctx, ns); err != nil {
			return fmt.Errorf("preparing the source cluster: %w", err)
		}
	}
	var err error
	w.observer, err = testbed.Observe(context.WithoutCancel(ctx), w.source, testbed.ObserverOptions{History: true})
	return err
}

// writeAccess writes an administrator's access for people who look around: a kubeconfig, and the same for curl.
func (w *world) writeAccess(cluster *testbed.Cluster) error {
	config, err := clientcmd.Load(cluster.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of %s: %w", cluster.Name, err)
	}
	contents := map[string][]byte{".kubeconfig": cluster.Kubeconfig()}
	for _, c := range config.Clusters {
		contents[".ca.pem"] = c.CertificateAuthorityData
	}
	for _, user := range config.AuthInfos {
		contents[".pem"] = append(user.ClientCertificateData, user.ClientKeyData...)
	}
	for suffix, content := range contents {
		if err := os.WriteFile(filepath.Join(w.dir, cluster.Name+suffix), content, 0o600); err != nil {
			return fmt.Errorf("writing the access to %s: %w", cluster.Name, err)
		}
	}
	return nil
}

// end ends the hub in order, and everything else, also if ctx has ended.
func (w *world) end(ctx context.Context) error {
	defer w.abandon()
	w.act("Ending")
	began := time.Now()
	if err := w.hub.Stop(); err != nil {
		return err
	}
	took := time.Since(began)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	lease, err := live(ctx, w.source,
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.HubNamespace, Name: "trellis"}})
	if err != nil {
		return err
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
		return fmt.Errorf("the hub has ended and %s still holds its Lease", *holder)
	}
	w.measured(took, "the hub has ended in order and given back its Lease")
	if err := w.podsStartWithoutTheHub(ctx); err != nil {
		return err
	}
	w.abandon()
	if err := os.RemoveAll(w.dir); err != nil {
		return fmt.Errorf("removing files: %w", err)
	}
	w.printf("the clusters have ended, and their files are removed")
	return nil
}

// abandon ends everything at once and leaves the log of the hub. Twice is fine.
func (w *world) abandon() {
	if w.hub != nil {
		w.hub.Kill()
	}
	if w.monitoring != nil {
		w.monitoring.Stop()
	}
	if w.observer != nil {
		w.observer.Stop()
	}
	testbed.StopClusters(append(w.targets(), w.delta, w.source)...)
}

// live reads an object.
func live[T client.Object](ctx context.Context, cluster *testbed.Cluster, object T) (T, error) {
	err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
	if err != nil {
		err = fmt.Errorf("reading from %s: %w", cluster.Name, err)
	}
	return object, err
}

// follow watches an object.
func follow(ctx context.Context, cluster *testbed.Cluster, object client.Object) (*testbed.Follower, error) {
	kind, err := apiutil.GVKForObject(object, cluster.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("watching an object: %w", err)
	}
	return testbed.Follow(ctx, cluster, kind, client.ObjectKeyFromObject(object))
}

// followSoon watches an object of a cluster whose API server is about to start.
func followSoon(ctx context.Context, cluster *testbed.Cluster, object client.Object) (*testbed.Follower, error) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		follower, err := follow(ctx, cluster, object)
		if err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return follower, err
		}
	}
}

// available waits until the pods of the Deployment of a target are available, and returns when they were. It must be
// the one that is wanted, as its controller sees it now.
func available(ctx context.Context, c *testbed.Cluster, wanted func(*unstructured.Unstructured) bool) (
	time.Time, error) {
	follower, err := follow(ctx, c, deployment())
	if err != nil {
		return time.Time{}, err
	}
	defer follower.Stop()
	return follower.Until(ctx, func(u *unstructured.Unstructured) bool {
		pods, _, _ := unstructured.NestedInt64(u.Object, "status", "availableReplicas")
		generation, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
		return wanted(u) && pods == 3 && generation == u.GetGeneration()
	})
}

// restored changes an object of a target and measures until it is back: from the answer to the last request of the
// change until a watch on the target shows the object corrected, in a new version.
func restored(ctx context.Context, cluster *testbed.Cluster, object client.Object, change func() error,
	back func(*unstructured.Unstructured) bool) (time.Duration, error) {
	object, err := live(ctx, cluster, object)
	if err != nil {
		return 0, err
	}
	follower, err := follow(ctx, cluster, object)
	if err != nil {
		return 0, err
	}
	defer follower.Stop()
	before := object.GetResourceVersion()
	if err := change(); err != nil {
		return 0, fmt.Errorf("changing %s in %s: %w", object.GetName(), cluster.Name, err)
	}
	changed := time.Now()
	seen, err := follower.Until(ctx, func(u *unstructured.Unstructured) bool {
		return u != nil && u.GetResourceVersion() != before && back(u)
	})
	return seen.Sub(changed), err
}

// hasString reports whether a field of an object has a value.
func hasString(u *unstructured.Unstructured, value string, path ...string) bool {
	is, _, err := unstructured.NestedString(u.Object, path...)
	return err == nil && is == value
}

// dashboards are manifests worth compressing: a namespace with ConfigMaps of a few KiB.
func dashboards(count int) string {
	manifests := []string{`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"monitoring"}}`}
	for i := range count {
		var panels strings.Builder
		for j := range 40 {
			fmt.Fprintf(&panels, "panel %d of dashboard %d: rate(requests_total{pod=~'web-.*'}[5m])\n", j, i)
		}
		manifests = append(manifests, testbed.ConfigMap("monitoring", fmt.Sprintf("dashboard-%d", i), panels.String()))
	}
	return strings.Join(manifests, "\n---\n")
}
