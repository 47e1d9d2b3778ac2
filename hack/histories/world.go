package histories

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// world is everything that a history takes place in.
type world struct {
	universe
	ctx         context.Context
	source      client.Client
	dynamic     [clusters]dynamic.Interface
	kubeconfigs [clusters][]byte
	judge       *judge
	wire        *wire
	hubs        *hubs
	trace       *trace
	log         *testbed.Log
	impostor    *testbed.Impostor
	values      int
	watches     sync.WaitGroup
	failures    int
}

// newWorld makes a world on two clusters, of which the first one is prepared as a source.
func newWorld(ctx context.Context, prefix string, all [clusters]*testbed.Cluster, log *testbed.Log) (*world, error) {
	t := newTrace()
	w := &world{universe: universe{prefix: prefix}, ctx: ctx, trace: t, log: log}
	w.judge = &judge{
		universe: w.universe, trace: t, state: firstState(), goneUIDs: map[types.UID]bool{}, lives: map[types.UID]*life{}, violated: make(chan struct{}),
	}
	w.judge.rest = time.Now()
	w.wire = &wire{hosts: map[string]int{}, observer: w.judge, counts: map[string]int{}, bodies: map[*stream]struct{}{}}
	for c, cluster := range all {
		config := rest.CopyConfig(cluster.RESTConfig())
		config.QPS = -1
		w.wire.hosts[strings.TrimPrefix(cluster.Host(), "https://")] = c
		w.kubeconfigs[c] = cluster.Kubeconfig()
		if err := w.prepare(c, config, cluster.Client); err != nil {
			return nil, err
		}
		if c == west {
			var err error
			if w.source, err = client.New(config, client.Options{Scheme: testbed.Scheme()}); err != nil {
				return nil, fmt.Errorf("client of the source: %w", err)
			}
		}
	}
	for i := range spaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.space(i)}}
		if i == seedSpace {
			ns.Labels = map[string]string{"seed": "true"}
		}
		if err := w.source.Create(ctx, ns); err != nil {
			return nil, fmt.Errorf("creating a space: %w", err)
		}
	}
	for r := range allRegistrations {
		if err := w.source.Create(ctx, w.registrationObject(w.state(), r)); err != nil {
			return nil, fmt.Errorf("creating a registration: %w", err)
		}
	}
	//nolint:contextcheck // what it serves ends when it is stopped
	if err := w.newHostile(rest.CopyConfig(all[west].RESTConfig())); err != nil {
		return nil, err
	}
	for s := range allSecrets {
		if err := w.source.Create(ctx, w.secretObject(w.state(), s)); err != nil {
			return nil, fmt.Errorf("creating content: %w", err)
		}
	}
	if err := w.watchAll(); err != nil {
		return nil, err
	}
	w.judge.commit(nil)
	var err error
	w.hubs, err = newHubs(ctx, w.wire, t, all[west], log.Logger(), func(error) { w.failures++ })
	return w, err
}

// prepare makes a cluster ready to be a target.
func (w *world) prepare(c int, config *rest.Config, admin client.Client) (err error) {
	if w.dynamic[c], err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("client of %s: %w", clusterNames[c], err)
	}
	system := &corev1.Namespace{}
	if err := admin.Get(w.ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, system); err != nil {
		return fmt.Errorf("identity of %s: %w", clusterNames[c], err)
	}
	w.judge.uids[c] = system.UID
	for i := range namespacesEach {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace(i * len(kinds))}}
		if err := admin.Create(w.ctx, ns); err != nil {
			return fmt.Errorf("creating a namespace in %s: %w", clusterNames[c], err)
		}
	}
	if err := admin.Create(w.ctx, widgets()); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("defining a kind in %s: %w", clusterNames[c], err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, err := w.dynamic[c].Resource(kindOf(3).GroupVersionResource).List(w.ctx, metav1.ListOptions{})
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for a kind in %s: %w", clusterNames[c], err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func widgets() *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + widgetGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: widgetGroup, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", XPreserveUnknownFields: &preserve}},
				}},
			}},
		},
	}
}

// firstState is how every history begins: registrations of both classes, and no ManagedResource yet.
func firstState() *state {
	st := &state{}
	for i := range st.secrets {
		st.secrets[i] = secret{exists: true, entries: map[int]entry{}}
	}
	for m := range st.resources {
		st.resources[m] = resource{pick: -1, class: m % 2, refs: []int{m * secretsEach, m*secretsEach + 1}}
	}
	for r := range st.registrations {
		st.registrations[r] = registration{exists: true, confirm: true, classB: r%registrations == 1, cluster: (r + r/registrations) % clusters}
	}
	return st
}

// watchAll shows the judge everything that happens.
func (w *world) watchAll() error {
	for c := range w.dynamic {
		for _, k := range kinds {
			err := w.watch(w.dynamic[c].Resource(k.GroupVersionResource), func(obj *unstructured.Unstructured, gone bool) { w.judge.observeObject(c, obj, gone) })
			if err != nil {
				return fmt.Errorf("watching %s in %s: %w", k.Resource, clusterNames[c], err)
			}
		}
	}
	err := w.watch(w.dynamic[west].Resource(resourcesv1alpha1.GroupVersion.WithResource("managedresources")), func(obj *unstructured.Unstructured, gone bool) {
		mr := &resourcesv1alpha1.ManagedResource{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, mr) == nil {
			w.judge.observeResource(mr, gone)
		}
	})
	if err != nil {
		return fmt.Errorf("watching ManagedResources: %w", err)
	}
	err = w.watch(w.dynamic[west].Resource(hubv1alpha1.GroupVersion.WithResource("targetclusters")), func(obj *unstructured.Unstructured, gone bool) {
		tc := &hubv1alpha1.TargetCluster{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, tc) == nil {
			w.judge.observeTarget(tc, gone)
		}
	})
	if err != nil {
		return fmt.Errorf("watching TargetClusters: %w", err)
	}
	return nil
}

// watch calls f with every object and every event of a resource, in order, until ctx ends.
func (w *world) watch(resource dynamic.ResourceInterface, f func(obj *unstructured.Unstructured, gone bool)) error {
	list, err := resource.List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		f(&list.Items[i], false)
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(w.ctx, list.GetResourceVersion(), &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, o)
		},
	})
	if err != nil {
		return err
	}
	w.watches.Go(func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if obj, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Bookmark {
				f(obj, event.Type == watch.Deleted)
			}
		}
	})
	return nil
}

// do takes a step. void is true if there was nothing to do.
func (w *world) do(s Step) (void bool, err error) {
	w.judge.setStep()
	w.trace.add("step %s", s)
	if s.Op == restOp {
		return false, w.rest()
	}
	err = ops[s.Op].do(w, s)
	switch {
	case errors.Is(err, errVoid), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		w.trace.add("     void: %v", err)
		void, err = true, nil
	case err != nil:
		err = fmt.Errorf("step %s: %w", s, err)
	}
	select {
	case <-time.After(s.Pause):
	case <-w.judge.violated:
	case <-w.ctx.Done():
	}
	return void, err
}

func (j *judge) setStep() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.step++
}

// end ends the hub and the watches.
func (w *world) end(cancel context.CancelFunc) {
	cancel()
	<-w.hubs.stopped
	w.watches.Wait()
	w.impostor.Stop()
}

func sortedOps() []string { return slices.Sorted(maps.Keys(ops)) }
