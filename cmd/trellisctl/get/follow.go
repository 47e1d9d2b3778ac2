package get

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
)

// followPause is how long to wait before a watch begins anew after it could not.
const followPause = time.Second

// follow prints what changes after the list, until the user ends it. API servers end watches and forget versions; what
// changes between two watches is missed if the version was forgotten.
func (g *get) follow(ctx context.Context, source *cli.Source, scope listing.Scope, named []cli.Subject) error {
	*g.print.NoHeaders = true
	for {
		err := g.watchOnce(ctx, source, scope, named)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && !cli.IsUnreachable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g.env.Clock.After(followPause):
		}
	}
}

// emptyList is a list of the kind.
func (g *get) emptyList() client.ObjectList {
	if g.kind == cli.KindCluster {
		return &hubv1alpha1.TargetClusterList{}
	}
	return &resourcesv1alpha1.ManagedResourceList{}
}

func (g *get) watchOnce(ctx context.Context, source *cli.Source, scope listing.Scope, named []cli.Subject) error {
	list := g.emptyList()
	one := &client.ListOptions{Namespace: scope.Namespace, LabelSelector: scope.Selector, Limit: 1}
	if err := source.List(ctx, list, one); err != nil {
		return fmt.Errorf("listing before a watch: %w", err)
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return source.Watch(ctx, g.emptyList(),
				&client.ListOptions{Namespace: scope.Namespace, LabelSelector: scope.Selector, Raw: &options})
		},
	})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		obj, is := event.Object.(client.Object)
		if !is || event.Type == watch.Bookmark || !wanted(obj, source, named) {
			continue
		}
		obj = cli.Typed(source.Scheme(), obj)
		if event.Type == watch.Deleted {
			g.env.Note("%s deleted", cli.Name(source.Scheme(), obj))
			continue
		}
		if err := g.printed(source, []client.Object{obj}, true); err != nil {
			return err
		}
	}
	return nil
}

// wanted reports whether an object was named, or nothing was.
func wanted(obj client.Object, source *cli.Source, named []cli.Subject) bool {
	return named == nil || slices.ContainsFunc(named, func(s cli.Subject) bool {
		namespace := s.Namespace
		if namespace == "" {
			namespace = source.Namespace
		}
		return s.Name == obj.GetName() && namespace == obj.GetNamespace()
	})
}

// toUnstructured is what the printers of kubectl take.
func toUnstructured(obj client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", obj.GetName(), err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}
