package barrier

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
)

const (
	pageSize = 500
	// poll is how often the informer is asked; recheck is how often the source is, about what the informer lacks.
	poll    = 20 * time.Millisecond
	recheck = time.Second
)

// Await returns when cached shows every ManagedResource as it is in live at the time of the call, or as it was later,
// and none that was gone by then. It returns how many it had to wait for. The error is that of the list, or the end of
// ctx.
func Await(ctx context.Context, live, cached client.Reader) (behind int, err error) {
	present, asOf, err := versions(ctx, live)
	if err != nil {
		return 0, err
	}
	list := &resourcesv1alpha1.ManagedResourceList{}
	if err := cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("listing known ManagedResources: %w", err)
	}
	gone := map[types.NamespacedName]bool{}
	for i := range list.Items {
		mr := &list.Items[i]
		name := client.ObjectKeyFromObject(mr)
		version, exists := present[name]
		switch {
		case exists && !informers.Older(mr.ResourceVersion, version):
			delete(present, name)
		case !exists && !informers.Older(asOf, mr.ResourceVersion):
			gone[name] = true
		}
	}
	behind = len(present) + len(gone)
	next := time.Now().Add(recheck)
	err = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		ask := time.Now().After(next)
		if ask {
			next = time.Now().Add(recheck)
		}
		for name, version := range present {
			mr := &resourcesv1alpha1.ManagedResource{}
			err := cached.Get(ctx, name, mr)
			switch {
			case err == nil && !informers.Older(mr.ResourceVersion, version):
				delete(present, name)
			case apierrors.IsNotFound(err) && ask:
				// It may have been created and deleted between two reads. That does no harm: only the hub removes its
				// finalizer.
				if apierrors.IsNotFound(live.Get(ctx, name, metadata())) {
					delete(present, name)
				}
			}
		}
		for name := range gone {
			mr := &resourcesv1alpha1.ManagedResource{}
			err := cached.Get(ctx, name, mr)
			if apierrors.IsNotFound(err) || err == nil && informers.Older(asOf, mr.ResourceVersion) {
				delete(gone, name)
			}
		}
		return len(present)+len(gone) == 0, nil
	})
	if err != nil {
		return behind, fmt.Errorf("waiting for the watch of ManagedResources: %w", err)
	}
	return behind, nil
}

// versions lists what is there, as of one version of the collection.
func versions(ctx context.Context, live client.Reader) (
	present map[types.NamespacedName]string, asOf string, err error) {
	present = map[types.NamespacedName]string{}
	for token := ""; ; {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(resourcesv1alpha1.GroupVersion.WithKind("ManagedResourceList"))
		if err := live.List(ctx, page, client.Limit(pageSize), client.Continue(token)); err != nil {
			return nil, "", fmt.Errorf("listing ManagedResources: %w", err)
		}
		for i := range page.Items {
			present[client.ObjectKeyFromObject(&page.Items[i])] = page.Items[i].ResourceVersion
		}
		asOf = page.ResourceVersion
		if token = page.Continue; token == "" {
			return present, asOf, nil
		}
	}
}

func metadata() *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(resourcesv1alpha1.GroupVersion.WithKind("ManagedResource"))
	return obj
}
