package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const (
	memoryNamespace = "memory"
	// memoryLabel is the value of the managed-by label of the objects, which the hub does not look for.
	memoryLabel = "memory"
	// memoryManager applies the objects.
	memoryManager = "trellis"
	// perResource is how many objects a ManagedResource has.
	perResource = 50
)

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

// footprint is what one watched object of a kind takes of the heap, in bytes.
type footprint struct {
	Kind    string `json:"kind"`
	Objects int    `json:"objects"`
	// Bytes is the size of an object as the API server sends it.
	Bytes int `json:"bytes"`
	// Hub is by what the hub keeps: its cluster cache and its tracker, where the objects are listed by ManagedResources, but
	// pods, which belong to Deployments.
	Hub []float64 `json:"hub"`
	// Typed and Metadata are by what informers of client-go keep, of whole objects and of their metadata.
	Typed    []float64 `json:"typed"`
	Metadata []float64 `json:"metadata"`
}

// watching is one way to watch all objects of a kind in a target. It comes with its connections, and has no objects yet.
type watching struct {
	// fill returns when all objects are there.
	fill func(context.Context) error
	end  func()
}

// measureMemory creates many objects of each kind and watches them in this process, as the hub does and as others do.
func measureMemory(ctx context.Context, w *world) ([]footprint, error) {
	target := w.targets[0]
	if err := target.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: memoryNamespace}}); err != nil {
		return nil, fmt.Errorf("preparing %s: %w", target.Name, err)
	}
	var out []footprint
	for _, kind := range []schema.GroupVersionKind{configMapKind, deploymentKind, podKind} {
		f := footprint{Kind: kind.Kind, Objects: w.memory}
		var err error
		if f.Bytes, err = populate(ctx, target, kind, w.memory, w.inFlight); err != nil {
			return nil, err
		}
		for range w.runs {
			for _, way := range []struct {
				name    string
				figures *[]float64
				watch   func(context.Context, *testbed.Cluster, schema.GroupVersionKind, int) (watching, error)
			}{{"the hub", &f.Hub, watchAsHub}, {"an informer", &f.Typed, watchTyped}, {"an informer of metadata", &f.Metadata, watchMetadata}} {
				watch, err := way.watch(ctx, target, kind, w.memory)
				if err != nil {
					return nil, err
				}
				before := heap()
				err = watch.fill(ctx)
				taken := heap() - before
				watch.end()
				if err != nil {
					return nil, fmt.Errorf("watching objects of kind %s as %s does: %w", kind.Kind, way.name, err)
				}
				*way.figures = append(*way.figures, taken/float64(w.memory))
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// heap is what is alive after garbage collection.
func heap() float64 {
	for range 3 { // what has a finalizer goes later
		runtime.GC()
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// populate creates objects of a kind as they are in clusters: applied by one, and with a status by another. It returns the
// size of one of them.
func populate(ctx context.Context, target *testbed.Cluster, kind schema.GroupVersionKind, n, inFlight int) (
	size int, err error) {
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	manager := memoryManager
	if kind == podKind {
		manager = "kube-controller-manager"
	}
	for i := range n {
		group.Go(func() error {
			object, status := typical(kind, i)
			if err := target.Client.Patch(creating, object, client.RawPatch(types.ApplyPatchType, encode(object)), client.FieldOwner(manager)); err != nil {
				return fmt.Errorf("creating %s %s: %w", kind.Kind, object.GetName(), err)
			}
			if status == "" {
				return nil
			}
			if err := target.Client.Status().Patch(creating, object, client.RawPatch(types.MergePatchType, []byte(status)), client.FieldOwner("controller")); err != nil {
				return fmt.Errorf("reporting the status of %s %s: %w", kind.Kind, object.GetName(), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	live := object(kind, memoryKey(kind, 0))
	if err := target.Client.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		return 0, fmt.Errorf("reading %s %s: %w", kind.Kind, live.GetName(), err)
	}
	return len(encode(live)), nil
}

func memoryKey(kind schema.GroupVersionKind, i int) types.NamespacedName {
	return types.NamespacedName{Namespace: memoryNamespace, Name: fmt.Sprintf("component-%s-%d", strings.ToLower(kind.Kind), i)}
}

func encode(object *unstructured.Unstructured) []byte {
	raw, err := object.MarshalJSON()
	if err != nil {
		panic(err) // it was decoded, or comes from a server
	}
	return raw
}

// typical returns an object of average size and the status that it gets.
func typical(kind schema.GroupVersionKind, i int) (object *unstructured.Unstructured, status string) {
	const (
		template = `"containers":[{"name":"main","image":"registry.example.org/component/main:v1.2.3","args":["--verbose","--port=8080"],"env":[{"name":"MODE","value":"steady"},{"name":"REGION","value":"north"}],` +
			`"ports":[{"containerPort":8080,"name":"http"}],"resources":{"requests":{"cpu":"10m","memory":"64Mi"},"limits":{"memory":"256Mi"}},` +
			`"livenessProbe":{"httpGet":{"path":"/healthz","port":8080},"periodSeconds":10},"volumeMounts":[{"name":"config","mountPath":"/etc/config"}]}],` +
			`"volumes":[{"name":"config","configMap":{"name":"config"}}]`
		since = `"lastTransitionTime":"2026-01-01T00:00:00Z"`
	)
	key, app := memoryKey(kind, i), fmt.Sprintf("component-%d", i)
	meta := fmt.Sprintf(`"metadata":{"namespace":%q,"name":%q,"labels":{"app":%q,"role":"server",%q:%q},"annotations":{"resources.gardener.cloud/origin":"garden:shoot--one/component-%d"}%%s}`,
		key.Namespace, key.Name, app, resourcesv1alpha1.ManagedByLabel, memoryLabel, i/perResource)
	podLabels := fmt.Sprintf(`{"app":%q,"role":"server",%q:%q}`, app, resourcesv1alpha1.ManagedByLabel, memoryLabel)
	switch kind {
	case deploymentKind:
		return decode(fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment",`+fmt.Sprintf(meta, "")+`,"spec":{"replicas":1,"selector":{"matchLabels":{"app":%q,"role":"server"}},`+
				`"template":{"metadata":{"labels":%s},"spec":{%s}}}}`, app, podLabels, template)),
			`{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[` +
				`{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"Deployment has minimum availability.","lastUpdateTime":"2026-01-01T00:00:00Z",` + since + `},` +
				`{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"ReplicaSet has successfully progressed.","lastUpdateTime":"2026-01-01T00:00:00Z",` + since + `}]}}`
	case podKind:
		owner := fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"component-%d","uid":"01234567-89ab-cdef-0123-456789abcdef","controller":true,"blockOwnerDeletion":true}]`, i)
		return decode(`{"apiVersion":"v1","kind":"Pod",` + fmt.Sprintf(meta, owner) + `,"spec":{` + template + `}}`),
			`{"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"hostIP":"10.1.0.1","startTime":"2026-01-01T00:00:00Z","conditions":[` +
				`{"type":"Initialized","status":"True",` + since + `},{"type":"Ready","status":"True",` + since + `},{"type":"ContainersReady","status":"True",` + since + `},{"type":"PodScheduled","status":"True",` + since + `}],` +
				`"containerStatuses":[{"name":"main","image":"registry.example.org/component/main:v1.2.3","imageID":"registry.example.org/component/main@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",` +
				`"containerID":"containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","ready":true,"started":true,"restartCount":0,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}]}}`
	default:
		return decode(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap",`+fmt.Sprintf(meta, "")+`,"data":{"key":"value","text":%q}}`, text)), ""
	}
}

// watchAsHub watches with the hub's own packages. Objects are listed by ManagedResources and accepted as they are, as after
// an apply; pods are those of a Deployment.
func watchAsHub(ctx context.Context, target *testbed.Cluster, kind schema.GroupVersionKind, n int) (watching, error) {
	key := clustercache.ClusterKey{Name: memoryNamespace}
	clusters, err := clustercache.New(clustercache.Options{
		Static: map[clustercache.ClusterKey]*rest.Config{key: target.RESTConfig()},
		Probe:  clustercache.ProbeOptions{Interval: time.Hour},
	})
	if err != nil {
		return watching{}, fmt.Errorf("watching as the hub does: %w", err)
	}
	running, cancel := context.WithCancel(ctx)
	var work errgroup.Group
	work.Go(func() error { return clusters.Start(running) })
	end := func() {
		cancel()
		_ = work.Wait() // it ends with its context
	}
	selector := labels.SelectorFromSet(labels.Set{resourcesv1alpha1.ManagedByLabel: memoryLabel})
	t := tracker.New(tracker.Options{
		Clusters: clusters, FieldManager: memoryManager, Selector: selector, Notify: func(types.NamespacedName, tracker.Cause) {},
	})
	if err := until(ctx, func() bool {
		status, _ := clusters.GetStatus(key)
		return status.State == clustercache.StateConnected
	}); err != nil {
		end()
		return watching{}, err
	}
	mapper, err := clusters.GetRESTMapper(ctx, key)
	if err == nil {
		_, err = mapper.RESTMapping(kind.GroupKind())
	}
	if err != nil {
		end()
		return watching{}, fmt.Errorf("watching as the hub does: %w", err)
	}
	listed, resources := kind, (n+perResource-1)/perResource
	if kind == podKind {
		listed, resources = deploymentKind, 1
	}
	return watching{end: end, fill: func(ctx context.Context) error {
		for r := range resources {
			mr, refs := types.NamespacedName{Namespace: memoryNamespace, Name: fmt.Sprint("mr-", r)}, []resourcesv1alpha1.ObjectReference{}
			for i := r * perResource; i < min(n, (r+1)*perResource) && (kind != podKind || i == 0); i++ {
				var ref resourcesv1alpha1.ObjectReference
				at := memoryKey(listed, i)
				ref.APIVersion, ref.Kind = listed.ToAPIVersionAndKind()
				ref.Namespace, ref.Name = at.Namespace, at.Name
				refs = append(refs, ref)
			}
			if err := t.Track(ctx, mr, key, refs, tracker.Exact{}); err != nil {
				return err
			}
			if err := until(ctx, func() bool {
				v := t.Judge(mr)
				return v.Synced && !v.PodsUnknown && len(v.Observed) == len(refs)
			}); err != nil {
				return err
			}
			t.AcceptObserved(mr, t.Judge(mr).Observed)
		}
		if kind != podKind {
			return nil
		}
		return until(ctx, func() bool {
			pods, synced := t.Pods(key)
			return synced && len(slices.Collect(pods.Of(memoryNamespace, labels.Everything()))) >= n
		})
	}}, nil
}

// watchTyped watches whole objects with an informer of client-go.
func watchTyped(ctx context.Context, target *testbed.Cluster, kind schema.GroupVersionKind, n int) (watching, error) {
	clients, err := kubernetes.NewForConfig(target.RESTConfig())
	if err != nil {
		return watching{}, fmt.Errorf("client for %s: %w", target.Name, err)
	}
	var lister toolscache.ListerWatcher
	var example client.Object
	selected := func(o *metav1.ListOptions) { o.LabelSelector = resourcesv1alpha1.ManagedByLabel + "=" + memoryLabel }
	switch kind {
	case deploymentKind:
		lister, example = toolscache.NewFilteredListWatchFromClient(clients.AppsV1().RESTClient(), "deployments", memoryNamespace, selected), &appsv1.Deployment{}
	case podKind:
		lister, example = toolscache.NewFilteredListWatchFromClient(clients.CoreV1().RESTClient(), "pods", memoryNamespace, selected), &corev1.Pod{}
	default:
		lister, example = toolscache.NewFilteredListWatchFromClient(clients.CoreV1().RESTClient(), "configmaps", memoryNamespace, selected), &corev1.ConfigMap{}
	}
	return byInformer(ctx, toolscache.NewSharedIndexInformer(lister, example, 0, toolscache.Indexers{}), n), nil
}

// watchMetadata watches the metadata of objects with an informer of client-go.
func watchMetadata(ctx context.Context, target *testbed.Cluster, kind schema.GroupVersionKind, n int) (
	watching, error) {
	clients, err := metadata.NewForConfig(target.RESTConfig())
	if err != nil {
		return watching{}, fmt.Errorf("client for %s: %w", target.Name, err)
	}
	mapping, err := target.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return watching{}, fmt.Errorf("client for %s: %w", target.Name, err)
	}
	resource := clients.Resource(mapping.Resource).Namespace(memoryNamespace)
	selected := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector = resourcesv1alpha1.ManagedByLabel + "=" + memoryLabel
		return o
	}
	lister := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
			return resource.List(ctx, selected(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, selected(o))
		},
	}
	return byInformer(ctx, toolscache.NewSharedIndexInformer(lister, &metav1.PartialObjectMetadata{}, 0, toolscache.Indexers{}), n), nil
}

func byInformer(ctx context.Context, informer toolscache.SharedIndexInformer, n int) watching {
	running, cancel := context.WithCancel(ctx)
	var work errgroup.Group
	return watching{
		fill: func(ctx context.Context) error {
			work.Go(func() error { informer.RunWithContext(running); return nil })
			return until(ctx, func() bool { return informer.HasSynced() && len(informer.GetStore().ListKeys()) >= n })
		},
		end: func() {
			cancel()
			_ = work.Wait() // it ends with its context
		},
	}
}

// errPatience says that something does not happen.
var errPatience = errors.New("nothing more happens")

// until polls a condition until it holds.
func until(ctx context.Context, done func() bool) error {
	const patience = time.Minute
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if done() {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return errPatience
}
