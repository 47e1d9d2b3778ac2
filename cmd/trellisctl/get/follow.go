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

// followPause is the pause before a new watch begins after one has ended or failed.
const followPause = time.Second

// follow prints the changes since a resource version until ctx ends. API servers end watches and forget versions; what
// changes between two watches is missed if the version was forgotten.
func (g *get) follow(ctx context.Context, source *cli.Source, scope listing.Scope, named []cli.Subject,
	version string) error {
	*g.print.NoHeaders = true
	var err error
	for {
		if err == nil {
			err = g.watchOnce(ctx, source, scope, named, version)
		}
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
		version, err = g.version(ctx, source, scope)
	}
}

// version is the present resource version of the objects in a scope.
func (g *get) version(ctx context.Context, source *cli.Source, scope listing.Scope) (string, error) {
	list := g.emptyList()
	if err := source.List(ctx, list, scope, client.Limit(1)); err != nil {
		return "", fmt.Errorf("listing before a watch: %w", err)
	}
	return list.GetResourceVersion(), nil
}

// emptyList is a list of the kind.
func (g *get) emptyList() client.ObjectList {
	if g.kind == cli.KindCluster {
		return &hubv1alpha1.TargetClusterList{}
	}
	return &resourcesv1alpha1.ManagedResourceList{}
}

// watchOnce prints the changes since a resource version until the API server has forgotten the one to continue from.
func (g *get) watchOnce(ctx context.Context, source *cli.Source, scope listing.Scope, named []cli.Subject,
	version string) error {
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return source.Watch(ctx, g.emptyList(), &client.ListOptions{Raw: &options}, scope)
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
		if err := g.printed(source, []client.Object{obj}, named, true); err != nil {
			return err
		}
	}
	return nil
}

// wanted reports whether an object was named, or nothing was.
func wanted(obj client.Object, source *cli.Source, named []cli.Subject) bool {
	return named == nil || slices.ContainsFunc(named, func(s cli.Subject) bool {
		return s.Name == obj.GetName() && source.For(s).Namespace == obj.GetNamespace()
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
