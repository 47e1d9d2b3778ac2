package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
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
	"github.com/trellis-hub/trellis/hack/demo/stage"
	"github.com/trellis-hub/trellis/hack/hubtest"
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
	// ReportedMillis is when the last ManagedResource said that it is applied, and CPUMillis what the hub used until then
	// for each object.
	ReportedMillis float64 `json:"reportedms,omitempty"`
	CPUMillis      float64 `json:"cpumsPerObject,omitempty"`
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
	defer arrivals.watch.Stop()
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
		labels[resourcesv1alpha1.ManagedByLabel] = "nobody"
		annotations[resourcesv1alpha1.OriginAnnotation] = "bench--alpha/round-0-0"
		annotations[resourcesv1alpha1.DescriptionAnnotation] = "This object is managed. Whoever changes it will see it changed back."
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

func (w *world) bringByHub(ctx context.Context, target *stage.Cluster, r *round, arrivals *arrivals, prefix string) error {
	ns := sourceNamespace(target)
	name := func(i int) string { return fmt.Sprintf("%s-%d", prefix, i) }
	for i := range w.resources {
		if err := w.source.Client.Create(ctx, hubtest.Content(ns, name(i), "objects.yaml", w.manifests(i)...)); err != nil {
			return fmt.Errorf("creating a Secret: %w", err)
		}
	}
	before, err := w.hub.CPU()
	if err != nil {
		return err
	}
	began := time.Now()
	err = inParallel(ctx, w.inFlight, w.resources, func(ctx context.Context, i int) error {
		return w.source.Client.Create(ctx, hubtest.ManagedResource(ns, name(i), name(i)))
	})
	if err != nil {
		return fmt.Errorf("creating a ManagedResource: %w", err)
	}
	last, err := arrivals.await(ctx, r.Objects)
	if err != nil {
		return err
	}
	r.Millis = milliseconds(last.Sub(began))
	for i := range w.resources {
		entry, err := w.board.Await(ctx, stage.ManagedResource(ns, name(i)), applied)
		if err != nil {
			return err
		}
		r.ReportedMillis = max(r.ReportedMillis, milliseconds(entry.Since.Sub(began)))
	}
	after, err := w.hub.CPU()
	if err != nil {
		return err
	}
	r.CPUMillis = milliseconds(after-before) / float64(r.Objects)
	return w.removeByHub(ctx, ns, r, arrivals, name)
}

func (w *world) removeByHub(ctx context.Context, ns string, r *round, arrivals *arrivals, name func(int) string) error {
	began := time.Now()
	err := inParallel(ctx, w.inFlight, w.resources, func(ctx context.Context, i int) error {
		return w.source.Client.Delete(ctx, hubtest.ManagedResource(ns, name(i)))
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
		if _, err := w.board.Await(ctx, stage.ManagedResource(ns, name(i)), func(e stage.Entry) bool { return e.Object == nil }); err != nil {
			return err
		}
		if err := w.source.Client.Delete(ctx, hubtest.Content(ns, name(i), "")); err != nil {
			return fmt.Errorf("deleting a Secret: %w", err)
		}
	}
	return nil
}

// bringBare sends requests as fast as the server answers them. The objects are those that the hub makes of the manifests.
func (w *world) bringBare(ctx context.Context, target *stage.Cluster, r *round, arrivals *arrivals) error {
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
	began := time.Now()
	if err := inParallel(ctx, w.inFlight, r.Objects, send); err != nil {
		return err
	}
	last, err := arrivals.await(ctx, r.Objects)
	if err != nil {
		return err
	}
	r.Millis = milliseconds(last.Sub(began))
	if err := target.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(namespace), client.MatchingLabels{"load": "true"}); err != nil {
		return fmt.Errorf("cleaning up: %w", err)
	}
	_, err = arrivals.await(ctx, 0)
	return err
}

func bareClient(target *stage.Cluster) (rest.Interface, error) {
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

// arrivals counts the objects of a round in a target.
type arrivals struct {
	watch watch.Interface
	count int
}

func countArrivals(ctx context.Context, target *stage.Cluster) (*arrivals, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	w, err := target.Watch.Watch(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"load": "true"})
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", target.Name, err)
	}
	return &arrivals{watch: w}, nil
}

// await waits until there are so many objects, and returns when that was seen.
func (a *arrivals) await(ctx context.Context, want int) (time.Time, error) {
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	for a.count != want {
		select {
		case event, open := <-a.watch.ResultChan():
			switch {
			case !open || event.Type == watch.Error:
				return time.Now(), fmt.Errorf("the watch of arriving objects ended: %v", event.Object)
			case event.Type == watch.Added:
				a.count++
			case event.Type == watch.Deleted:
				a.count--
			}
		case <-timeout.C:
			return time.Now(), fmt.Errorf("there are %d objects instead of %d", a.count, want)
		case <-ctx.Done():
			return time.Now(), context.Cause(ctx)
		}
	}
	return time.Now(), nil
}

// profile writes a profile of the hub's processor time while it applies round after round.
func (w *world) profile(ctx context.Context, file string) error {
	const length = 20 * time.Second
	var content []byte
	group, ctx := errgroup.WithContext(ctx)
	done := make(chan struct{})
	group.Go(func() (err error) {
		defer close(done)
		content, err = w.hub.Get(ctx, w.hub.ProfileURL(length))
		return err
	})
	group.Go(func() error {
		for i := 0; ; i++ {
			select {
			case <-done:
				return nil
			default:
			}
			if _, err := w.bring(ctx, byHub, 1000+i); err != nil {
				return err
			}
		}
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("profiling the hub: %w", err)
	}
	return os.WriteFile(file, content, 0o600)
}
