package inspect

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
	"github.com/trellis-hub/trellis/engine/health"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/warnings"
)

const (
	// parallel bounds the reads at a time.
	parallel = 10
	// podLimit bounds the pods that are read in a namespace.
	podLimit = 500
)

// Health of an object, as it is printed.
type Health string

// Values of Health.
const (
	Healthy     Health = "Healthy"
	Unhealthy   Health = "Unhealthy"
	Progressing Health = "Progressing"
	Missing     Health = "Missing"
	Unknown     Health = "Unknown"
)

// Object is an object of an inventory and its health.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Health     Health `json:"health"`
	// Message says what is wrong or waited for.
	Message string `json:"message,omitempty"`
	// Notes are warning events that explain it.
	Notes []string `json:"notes,omitempty"`
	// Replaced is true if another object has the name now.
	Replaced bool `json:"replaced,omitempty"`
	// Created is when the live object was created.
	Created *time.Time `json:"created,omitempty"`
	// Children are ReplicaSets, Pods and Jobs that belong to it, of tree.
	Children []Object `json:"children,omitempty"`

	uid types.UID
}

// Key identifies the object.
func (o *Object) Key() inventory.Key {
	return inventory.KeyOf(reference(o))
}

func reference(o *Object) (ref resourcesv1alpha1.ObjectReference) {
	ref.APIVersion, ref.Kind, ref.Namespace, ref.Name = o.APIVersion, o.Kind, o.Namespace, o.Name
	return ref
}

// unseen is an inventory whose target cannot be read.
func unseen(refs []resourcesv1alpha1.ObjectReference) []Object {
	objects := make([]Object, 0, len(refs))
	for _, ref := range refs {
		objects = append(objects, Object{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name,
			Health: Unknown})
	}
	return objects
}

// reader reads and checks objects in a target.
type reader struct {
	connection *remote.Connection
	// withChildren also reads the children of workloads.
	withChildren bool

	mu   sync.Mutex
	pods map[string]*namespacePods
}

// namespacePods are the pods of a namespace, read once.
type namespacePods struct {
	once     sync.Once
	pods     []*health.Pod
	children []unstructured.Unstructured
	err      error
}

// read reads and checks all objects of an inventory.
func (l *reader) read(ctx context.Context, refs []resourcesv1alpha1.ObjectReference) []Object {
	objects := unseen(refs)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(parallel, len(objects)) {
		wg.Go(func() {
			for i := range next {
				l.at(ctx, &objects[i], refs[i])
			}
		})
	}
	for i := range objects {
		next <- i
	}
	close(next)
	wg.Wait()
	return objects
}

// at reads and checks one object.
func (l *reader) at(ctx context.Context, o *Object, ref resourcesv1alpha1.ObjectReference) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(ref.GroupVersionKind())
	err := l.connection.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, live)
	switch {
	case apierrors.IsNotFound(err):
		o.Health = Missing
		return
	case meta.IsNoMatchError(err):
		o.Health, o.Message = Missing, "the target does not serve the kind"
		return
	case err != nil:
		o.Message = err.Error()
		return
	}
	created := live.GetCreationTimestamp().Time
	o.Created, o.uid = &created, live.GetUID()
	o.Replaced = ref.UID != "" && ref.UID != live.GetUID()
	o.check(live, l.namespace(ctx, live))
	if o.Health == Unhealthy && o.Kind == "Service" {
		// A Service that is not ready has no load balancer, and its events have the reason.
		if events, err := warnings.Last(ctx, l.connection.Client, o.Key()); err == nil {
			o.Notes = warnings.Notes(events)
		}
	}
}

// check applies the health checks of the hub.
func (o *Object) check(live *unstructured.Unstructured, inNamespace *namespacePods) {
	result, progress := health.Check(live), health.Progress(live)
	rolling := progress.Problem
	if progress.CountPods && inNamespace != nil && inNamespace.err == nil {
		if done, message := health.PodsRolledOut(progress, each(inNamespace.pods)); !done {
			rolling = health.Problem{Severity: health.Unavailable, Message: message}
		}
	} else if progress.CountPods {
		rolling = progress.Reported
	}
	none := health.Problem{}
	problem := none
	switch {
	case !result.Healthy:
		o.Health, problem = Unhealthy, result.Problem
	case live.GetDeletionTimestamp() != nil:
		o.Health, problem = Progressing, health.Problem{Severity: health.Unavailable, Message: "it is being deleted"}
	case rolling != none:
		o.Health, problem = Progressing, rolling
	default:
		o.Health = Healthy
	}
	o.Message = problem.Message
	if progress.Selector == nil || problem == none || inNamespace == nil || inNamespace.err != nil {
		return
	}
	least := health.Unavailable
	if o.Health == Unhealthy {
		least = health.Waiting
	}
	if cause := health.Explain(progress.Selector, each(inNamespace.pods), least); cause != none {
		o.Message = cause.Message + "; " + o.Message
	}
}

func each(pods []*health.Pod) iter.Seq[*health.Pod] {
	return func(yield func(*health.Pod) bool) {
		for _, p := range pods {
			if !yield(p) {
				return
			}
		}
	}
}

// ownerKinds are the kinds whose children are shown.
var ownerKinds = map[string]bool{"Deployment": true, "StatefulSet": true, "DaemonSet": true, "ReplicaSet": true,
	"ReplicationController": true, "Job": true, "CronJob": true}

// childKinds are the kinds of their children.
var childKinds = []string{"apps/v1 ReplicaSet", "batch/v1 Job", "v1 Pod"}

// namespace reads the pods of a workload's namespace, once; nil for what has no pods.
func (l *reader) namespace(ctx context.Context, live *unstructured.Unstructured) *namespacePods {
	if !ownerKinds[live.GetKind()] {
		return nil
	}
	l.mu.Lock()
	p := l.pods[live.GetNamespace()]
	if p == nil {
		p = &namespacePods{}
		l.pods[live.GetNamespace()] = p
	}
	l.mu.Unlock()
	p.once.Do(func() { p.read(ctx, l.connection.Client, live.GetNamespace(), l.withChildren) })
	return p
}

func (p *namespacePods) read(ctx context.Context, c client.Client, namespace string, withChildren bool) {
	kinds := childKinds
	if !withChildren {
		kinds = []string{"v1 Pod"}
	}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(parseKind(kind))
		if err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(podLimit)); err != nil {
			p.err = err
			return
		}
		if list.GetContinue() != "" && kind == "v1 Pod" {
			p.err = errors.New("there are too many pods to look at them all") // some of them would give a wrong result
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(parseKind(kind))
			if kind == "v1 Pod" {
				pod := health.PodOf(&list.Items[i])
				p.pods = append(p.pods, &pod)
			}
		}
		if withChildren {
			p.children = append(p.children, list.Items...)
		}
	}
}
