package nodehighavailability

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// considerLabel of a Namespace, exactly "true", says that the webhook is called for its workloads.
	considerLabel = "high-availability-config.resources.gardener.cloud/consider"
	// skipLabel of a workload, of whatever value, says that it is not called for this one.
	skipLabel = "high-availability-config.resources.gardener.cloud/skip"

	// patches is how many workloads of a target are patched at a time.
	patches = 5

	// A workload has up to some thousand elements, and an answer 131072.
	defaultPageSize   = 50
	defaultMaxObjects = 100_000
	defaultMaxScopes  = 20
)

// errTooMany says that not everything could be looked at.
var errTooMany = errors.New("there are too many")

var notSkipped = func() client.MatchingLabelsSelector {
	requirement, err := labels.NewRequirement(skipLabel, selection.DoesNotExist, nil)
	if err != nil {
		panic(err) // it is constant
	}
	return client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*requirement)}
}()

// severalNodes reports whether a target has more than one Node.
func severalNodes(ctx context.Context, c client.Reader) (bool, error) {
	list := metadataOf(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := c.List(ctx, list, client.Limit(2)); err != nil {
		return false, fmt.Errorf("listing Nodes: %w", err)
	}
	return len(list.Items) > 1, nil
}

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

// workload is a Deployment or StatefulSet.
type workload struct {
	kind schema.GroupVersionKind
	types.NamespacedName
}

// read is a page of workloads of a kind, and returns those whose spread does not fit the number of Nodes.
type read func(ctx context.Context, c client.Reader, many bool, options []client.ListOption) (
	found []types.NamespacedName, n int, next string, err error)

// kinds are those of workloads, in the order in which they are patched.
var kinds = []struct {
	schema.GroupVersionKind
	read read
}{
	{appsv1.SchemeGroupVersion.WithKind("Deployment"), deployments},
	{appsv1.SchemeGroupVersion.WithKind("StatefulSet"), statefulSets},
}

func deployments(ctx context.Context, c client.Reader, many bool, options []client.ListOption) (
	found []types.NamespacedName, n int, next string, err error) {
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, options...); err != nil {
		return nil, 0, "", err //nolint:wrapcheck // pages says what was listed
	}
	for i := range list.Items {
		if d := &list.Items[i]; misfits(&d.Spec.Template.Spec, many) {
			found = append(found, client.ObjectKeyFromObject(d))
		}
	}
	return found, len(list.Items), list.Continue, nil
}

func statefulSets(ctx context.Context, c client.Reader, many bool, options []client.ListOption) (
	found []types.NamespacedName, n int, next string, err error) {
	list := &appsv1.StatefulSetList{}
	if err := c.List(ctx, list, options...); err != nil {
		return nil, 0, "", err //nolint:wrapcheck // pages says what was listed
	}
	for i := range list.Items {
		if s := &list.Items[i]; misfits(&s.Spec.Template.Spec, many) {
			found = append(found, client.ObjectKeyFromObject(s))
		}
	}
	return found, len(list.Items), list.Continue, nil
}

// misfits reports whether the first constraint for the spread over Nodes is one for another number of Nodes. Without
// such a constraint there is nothing to change.
func misfits(spec *corev1.PodSpec, many bool) bool {
	for _, constraint := range spec.TopologySpreadConstraints {
		if constraint.TopologyKey == corev1.LabelHostname {
			unfit := corev1.DoNotSchedule
			if many {
				unfit = corev1.ScheduleAnyway
			}
			return constraint.WhenUnsatisfiable == unfit
		}
	}
	return false
}

// patchAll patches all workloads whose spread does not fit the number of Nodes, and returns how many. One that fails
// does not keep the others from being patched.
func (r *reconciler) patchAll(ctx context.Context, c client.Client, many bool) (patched int, err error) {
	namespaces, err := r.considered(ctx, c)
	if err != nil {
		return 0, err
	}
	scopes := slices.Sorted(maps.Keys(namespaces))
	if len(scopes) > r.maxScopes {
		scopes = []string{metav1.NamespaceAll}
	}
	var failed error
	for _, kind := range kinds {
		seen := 0
		for _, namespace := range scopes {
			err := r.pages(kind.Kind, &seen, func(options []client.ListOption) (int, string, error) {
				options = append(options, client.InNamespace(namespace), notSkipped)
				found, n, next, err := page(ctx, c, kind.read, many, options)
				if err != nil {
					return 0, "", err
				}
				found = slices.DeleteFunc(found, func(name types.NamespacedName) bool { return !namespaces[name.Namespace] })
				done, err := patchEach(ctx, c, kind.GroupVersionKind, found)
				patched += done
				if failed == nil {
					failed = err
				}
				return n, next, nil
			})
			if err != nil {
				return patched, errors.Join(err, failed)
			}
		}
	}
	return patched, failed
}

// page reads one, of which next to nothing is kept.
func page(ctx context.Context, c client.Reader, read read, many bool, options []client.ListOption) (
	found []types.NamespacedName, n int, next string, err error) {
	ctx, done := clustercache.HoldAnswers(ctx)
	defer done()
	return read(ctx, c, many, options)
}

// considered are the Namespaces for whose workloads the webhook is called.
func (r *reconciler) considered(ctx context.Context, c client.Reader) (map[string]bool, error) {
	found, seen := map[string]bool{}, 0
	kind := corev1.SchemeGroupVersion.WithKind("Namespace")
	err := r.pages(kind.Kind, &seen, func(options []client.ListOption) (int, string, error) {
		list := metadataOf(kind)
		if err := c.List(ctx, list, append(options, client.MatchingLabels{considerLabel: "true"})...); err != nil {
			return 0, "", err //nolint:wrapcheck // pages says what was listed
		}
		for i := range list.Items {
			found[list.Items[i].Name] = true
		}
		return len(list.Items), list.Continue, nil
	})
	return found, err
}

// pages reads objects page by page. read returns how many there were in a page, and where the next one begins. seen is
// how many of the kind there were, in other lists as well.
func (r *reconciler) pages(
	kind string, seen *int, read func(options []client.ListOption) (n int, next string, err error),
) error {
	for next := ""; ; {
		n, following, err := read([]client.ListOption{client.Limit(r.pageSize), client.Continue(next)})
		*seen += n
		switch {
		case err != nil:
		case following == "" && *seen <= r.maxObjects:
			return nil
		case n == 0:
			err = errors.New("a page is empty and not the last one")
		case *seen >= r.maxObjects:
			err = fmt.Errorf("%w: %d are looked at", errTooMany, r.maxObjects)
		}
		if err != nil {
			return fmt.Errorf("listing objects of kind %s: %w", kind, err)
		}
		next = following
	}
}

// patchEach patches some workloads, and returns how many.
func patchEach(
	ctx context.Context, c client.Client, kind schema.GroupVersionKind, names []types.NamespacedName,
) (patched int, err error) {
	var mu sync.Mutex
	group := errgroup.Group{} // one that fails does not keep the others from being patched
	group.SetLimit(patches)
	for _, name := range names {
		group.Go(func() error {
			if err := patch(ctx, c, workload{kind, name}); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			patched++
			return nil
		})
	}
	err = group.Wait()
	return patched, err //nolint:wrapcheck // it names the workload
}

// patch sends a patch without content: the API server calls its webhooks, and writes what they change. A workload that
// is gone needs none.
func patch(ctx context.Context, c client.Client, w workload) error {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(w.kind)
	object.Namespace, object.Name = w.Namespace, w.Name
	err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte("{}")))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching %s %s/%s: %w",
			w.kind.Kind, untrusted.Name(w.Namespace), untrusted.Name(w.Name), err)
	}
	return nil
}
