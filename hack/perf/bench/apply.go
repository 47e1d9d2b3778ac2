package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// The ways to bring objects into a target.
const (
	byHub   = "hub"
	byApply = "bare apply"
	byPost  = "bare create"
)

// round is one time that all objects were brought into the target.
type round struct {
	Way     string  `json:"way"`
	Objects int     `json:"objects"`
	Millis  float64 `json:"ms"`
	// PerSecond counts from the first request to the last object that a watch on the target showed.
	PerSecond float64 `json:"perSecond"`
	// ReportedMillis is when the last ManagedResource said that it is applied, and CPUMillis what the hub used until all
	// notes were written, for each object.
	ReportedMillis float64 `json:"reportedms,omitempty"`
	CPUMillis      float64 `json:"cpumsPerObject,omitempty"`
	// Processors is what each process used for an object, in milliseconds, from the first request to the last object:
	// on a busy machine it says more than a rate.
	Processors map[string]float64 `json:"processorms"`
	// Requests are the hub's to the source cluster in that time.
	Requests map[string]int `json:"requests,omitempty"`
	// RemovedPerSecond is the rate at which the objects went when the ManagedResources were deleted.
	RemovedPerSecond float64 `json:"removedPerSecond,omitempty"`
}

// measureApply alternates between the ways, each time in another order.
func measureApply(ctx context.Context, w *world) ([]round, error) {
	ways := []string{byHub, byApply, byPost}
	var rounds []round
	for i := range w.rounds + 1 {
		for j := range ways {
			r, err := w.bring(ctx, ways[(i+j)%len(ways)], i)
			if err != nil {
				return rounds, err
			}
			if i > 0 { // the first is to warm up
				rounds = append(rounds, r)
			}
		}
	}
	return rounds, nil
}

// bring brings all objects into the first target in one way, and removes them again.
func (w *world) bring(ctx context.Context, way string, number int) (round, error) {
	target := w.targets[0]
	total := w.resources * w.objects
	r := round{Way: way, Objects: total}
	arrivals, err := countArrivals(ctx, target)
	if err != nil {
		return r, err
	}
	defer arrivals.stop()
	if way == byHub {
		err = w.bringByHub(ctx, target, &r, arrivals, fmt.Sprintf("round-%d", number))
	} else {
		err = w.bringBare(ctx, target, &r, arrivals)
	}
	if err != nil {
		return r, fmt.Errorf("round %d by %s: %w", number, way, err)
	}
	r.PerSecond = 1000 * float64(total) / r.Millis
	return r, nil
}

// manifests are those of one ManagedResource.
func (w *world) manifests(resource int) []string {
	out := make([]string, 0, w.objects)
	for i := range w.objects {
		out = append(out, loadManifest(loadName(resource, i), false))
	}
	return out
}

func loadName(resource, i int) string { return fmt.Sprintf("load-%d-%d", resource, i) }

// loadManifest is a ConfigMap of which rounds are made; marked, with what the hub adds. The value of the managed-by label is
// another one, so that the hub is not bothered.
func loadManifest(name string, marked bool) string {
	labels, annotations := map[string]string{"load": "true"}, map[string]string{}
	if marked {
		labels[resourcesv1alpha1.ManagedByLabel] = "another-client"
		annotations[resourcesv1alpha1.OriginAnnotation] = "bench--alpha/round-0-0"
		annotations[resourcesv1alpha1.DescriptionAnnotation] = "This object is managed. " +
			"Changes by other clients will be reverted."
	}
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": namespace, "name": name, "labels": labels, "annotations": annotations},
		"data":     map[string]string{"text": text},
	})
	if err != nil {
		panic(err) // strings only
	}
	return string(manifest)
}

func (w *world) bringByHub(ctx context.Context, target *testbed.Cluster, r *round, arrivals *arrivals,
	prefix string) error {
	ns := sourceNamespace(target)
	name := func(i int) string { return fmt.Sprintf("%s-%d", prefix, i) }
	for i := range w.resources {
		if err := w.source.Client.Create(ctx, testbed.Content(ns, name(i), "objects.yaml", w.manifests(i)...)); err != nil {
			return fmt.Errorf("creating a Secret: %w", err)
		}
	}
	before, err := w.processors(target)
	if err != nil {
		return err
	}
	began := time.Now()
	err = inParallel(ctx, w.inFlight, w.resources, func(ctx context.Context, i int) error {
		return w.source.Client.Create(ctx, testbed.ManagedResource(ns, name(i), name(i)))
	})
	if err != nil {
		return fmt.Errorf("creating a ManagedResource: %w", err)
	}
	last, err := arrivals.await(ctx, r.Objects)
	if err != nil {
		return err
	}
	r.Millis = figures.Milliseconds(last.Sub(began))
	if err := w.account(r, target, before); err != nil {
		return err
	}
	for i := range w.resources {
		entry, err := w.observer.Await(ctx, testbed.ManagedResourceRef(ns, name(i)), applied)
		if err != nil {
			return err
		}
		r.ReportedMillis = max(r.ReportedMillis, figures.Milliseconds(entry.Since.Sub(began)))
	}
	for i := range w.resources {
		if _, err := w.observer.Await(ctx, testbed.ManagedResourceRef(ns, name(i)), noted); err != nil {
			return err
		}
	}
	after, err := w.hub.CPU()
	if err != nil {
		return err
	}
	r.CPUMillis = figures.Milliseconds(after-before[hubProcess]) / float64(r.Objects)
	if r.Requests, err = requests(w.source, began, time.Now()); err != nil {
		return err
	}
	return w.removeByHub(ctx, ns, r, arrivals, name)
}

func (w *world) removeByHub(ctx context.Context, ns string, r *round, arrivals *arrivals, name func(int) string) error {
	began := time.Now()
	err := inParallel(ctx, w.inFlight, w.resources, func(ctx context.Context, i int) error {
		return w.source.Client.Delete(ctx, testbed.ManagedResource(ns, name(i)))
	})
	if err != nil {
		return fmt.Errorf("deleting a ManagedResource: %w", err)
	}
	last, err := arrivals.await(ctx, 0)
	if err != nil {
		return err
	}
	r.RemovedPerSecond = float64(r.Objects) / last.Sub(began).Seconds()
	for i := range w.resources {
		if _, err := w.observer.Await(ctx, testbed.ManagedResourceRef(ns, name(i)), func(
			e testbed.Entry) bool {
			return e.Object == nil
		}); err != nil {
			return err
		}
		if err := w.source.Client.Delete(ctx, testbed.Content(ns, name(i), "")); err != nil {
			return fmt.Errorf("deleting a Secret: %w", err)
		}
	}
	return nil
}

// bringBare sends requests as fast as the server answers them. The objects are those that the hub makes of the manifests.
func (w *world) bringBare(ctx context.Context, target *testbed.Cluster, r *round, arrivals *arrivals) error {
	c, err := bareClient(target)
	if err != nil {
		return err
	}
	names := make([]string, 0, r.Objects)
	bodies := make([][]byte, 0, r.Objects)
	for i := range w.resources {
		for j := range w.objects {
			names = append(names, loadName(i, j))
			bodies = append(bodies, []byte(loadManifest(loadName(i, j), true)))
		}
	}
	send := func(ctx context.Context, i int) error {
		return c.Post().Namespace(namespace).Resource("configmaps").Body(bodies[i]).SetHeader("Content-Type", "application/json").Do(ctx).Error()
	}
	if r.Way == byApply {
		send = func(ctx context.Context, i int) error {
			return c.Patch(types.ApplyPatchType).Namespace(namespace).Resource("configmaps").Name(names[i]).
				Param("fieldManager", "bench").Param("force", "true").Body(bodies[i]).Do(ctx).Error()
		}
	}
	before, err := w.processors(target)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := inParallel(ctx, w.inFlight, r.Objects, send); err != nil {
		return err
	}
	last, err := arrivals.await(ctx, r.Objects)
	if err != nil {
		return err
	}
	r.Millis = figures.Milliseconds(last.Sub(began))
	if err := w.account(r, target, before); err != nil {
		return err
	}
	if err := target.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(namespace), client.MatchingLabels{"load": "true"}); err != nil {
		return fmt.Errorf("cleaning up: %w", err)
	}
	_, err = arrivals.await(ctx, 0)
	return err
}

func bareClient(target *testbed.Cluster) (rest.Interface, error) {
	clients, err := kubernetes.NewForConfig(target.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", target.Name, err)
	}
	return clients.CoreV1().RESTClient(), nil
}

// inParallel calls do for each number below total, with so many calls at a time.
func inParallel(ctx context.Context, parallel, total int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range total {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// arrivals counts the objects of a round in a target. A server that is short of time ends watches, so it begins again.
type arrivals struct {
	target *testbed.Cluster
	counts chan count // the latest one
	stop   context.CancelFunc
}

// count is how many objects there were at a time.
type count struct {
	objects int
	at      time.Time
	err     error
}

func countArrivals(ctx context.Context, target *testbed.Cluster) (*arrivals, error) {
	ctx, stop := context.WithCancel(ctx)
	a := &arrivals{target: target, counts: make(chan count, 1), stop: stop}
	w, present, err := a.watch(ctx)
	if err != nil {
		stop()
		return nil, err
	}
	go func() {
		for err == nil {
			a.read(w, present)
			w, present, err = a.watch(ctx)
		}
		if ctx.Err() == nil {
			a.record(count{at: time.Now(), err: err})
		}
	}()
	return a, nil
}

// watch counts what is there and follows it from then on, until ctx ends.
func (a *arrivals) watch(ctx context.Context) (watch.Interface, map[string]bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	ours := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{"load": "true"}}
	if err := a.target.Client.List(ctx, list, ours...); err != nil {
		return nil, nil, fmt.Errorf("listing %s: %w", a.target.Name, err)
	}
	present := map[string]bool{}
	for i := range list.Items {
		present[list.Items[i].Name] = true
	}
	a.record(count{objects: len(present), at: time.Now()})
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	w, err := a.target.Client.Watch(ctx, list, append(ours, from)...)
	if err != nil {
		return nil, nil, fmt.Errorf("watching %s: %w", a.target.Name, err)
	}
	return w, present, nil
}

// read counts until the watch ends.
func (a *arrivals) read(w watch.Interface, present map[string]bool) {
	defer w.Stop()
	for event := range w.ResultChan() {
		object, ok := event.Object.(metav1.Object)
		switch {
		case event.Type == watch.Error || !ok:
			return
		case event.Type == watch.Added:
			present[object.GetName()] = true
		case event.Type == watch.Deleted:
			delete(present, object.GetName())
		default:
			continue
		}
		a.record(count{objects: len(present), at: time.Now()})
	}
}

func (a *arrivals) record(c count) {
	select {
	case <-a.counts:
	default:
	}
	a.counts <- c // it has no other sender
}

// await waits until there are so many objects, and returns when that was seen.
func (a *arrivals) await(ctx context.Context, want int) (time.Time, error) {
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	var now count
	for {
		select {
		case now = <-a.counts:
			if now.objects == want || now.err != nil {
				return now.at, now.err
			}
		case <-timeout.C:
			return time.Now(), fmt.Errorf("there are %d objects instead of %d", now.objects, want)
		case <-ctx.Done():
			return time.Now(), context.Cause(ctx)
		}
	}
}
