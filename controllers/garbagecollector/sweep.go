package garbagecollector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
)

const (
	// batch is for how many candidates of a namespace what refers to them is listed once more.
	batch = 100
	// callsAtATime is how many objects of a target are read or deleted at a time.
	callsAtATime = 5
	// mostErrors is how many errors of a pass are reported in full.
	mostErrors = 5
)

// version is an object as it was read.
type version struct {
	uid             types.UID
	resourceVersion string
}

// sweep deletes the candidates. One that cannot be deleted does not stop the others.
func (p *pass) sweep(ctx context.Context) error {
	f := &failures{}
	for _, namespace := range p.candidates.namespaces() {
		all := slices.SortedFunc(maps.Keys(p.candidates[namespace]), func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
		})
		for some := range slices.Chunk(all, batch) {
			if err := p.sweepBatch(ctx, namespace, some, f); err != nil {
				return err
			}
		}
	}
	p.target.Log.V(1).Info("Deleted what nothing refers to", "objects", f.deleted)
	return f.err()
}

// sweepBatch looks once more at some candidates of a namespace, then at all that may refer to them, and deletes those
// that nothing refers to. It returns an error if the pass cannot continue.
func (p *pass) sweepBatch(ctx context.Context, namespace string, some []candidate, f *failures) error {
	var mu sync.Mutex
	read := map[candidate]version{}
	left := candidates{}
	err := p.each(some, func(one candidate) error {
		obj, err := p.read(ctx, namespace, one)
		if obj == nil || err != nil {
			return f.note(err)
		}
		mu.Lock()
		defer mu.Unlock()
		read[one] = version{obj.UID, obj.ResourceVersion}
		left.add(namespace, one)
		return nil
	})
	if err != nil || len(left) == 0 {
		return err
	}
	if err := p.keepReferenced(ctx, namespace, left); err != nil {
		return err
	}
	return p.each(slices.Collect(maps.Keys(left[namespace])), func(one candidate) error {
		return p.delete(ctx, namespace, one, read[one], f)
	})
}

// each calls do for all of some candidates, a few at a time, until one call returns an error.
func (p *pass) each(some []candidate, do func(candidate) error) error {
	group := errgroup.Group{}
	group.SetLimit(callsAtATime)
	for _, one := range some {
		group.Go(func() error { return do(one) })
	}
	return group.Wait() //nolint:wrapcheck // do wraps
}

// read returns a candidate as it is now; nil if it is gone, or is not to be collected any longer.
func (p *pass) read(ctx context.Context, namespace string, one candidate) (*metav1.PartialObjectMetadata, error) {
	obj := metadata(namespace, one)
	err := p.target.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s/%s once more: %w", collectable[one.kind].Kind, namespace, one.name, err)
	case !p.isCollectable(obj), obj.UID == "", obj.ResourceVersion == "":
		return nil, nil
	}
	return obj, nil
}

// delete deletes a candidate if it still is as it was read.
func (p *pass) delete(ctx context.Context, namespace string, one candidate, as version, f *failures) error {
	if err := p.target.Valid(); err != nil {
		return err //nolint:wrapcheck // it names the target
	}
	err := p.target.Client.Delete(ctx, metadata(namespace, one),
		client.Preconditions{UID: &as.uid, ResourceVersion: &as.resourceVersion})
	kind := collectable[one.kind].Kind
	switch {
	case err == nil:
		f.count()
		p.Metrics.deleted(p.target.Key())
		p.target.Log.V(1).Info("Deleted an object that nothing refers to", "kind", kind, "namespace", namespace,
			"name", one.name)
		return nil
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err): // another client has changed it; the next pass looks at it again
		return nil
	}
	return f.note(fmt.Errorf("deleting %s %s/%s: %w", kind, namespace, one.name, err))
}

func metadata(namespace string, one candidate) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: one.name}}
	obj.SetGroupVersionKind(collectable[one.kind])
	return obj
}

// failures are what went wrong with single objects.
type failures struct {
	mu      sync.Mutex
	errs    []error
	more    int
	deleted int
}

func (f *failures) count() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deleted++
}

// note keeps an error that concerns one object. It returns errors that concern all.
func (f *failures) note(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, clustercache.ErrConnectionReplaced) || errors.Is(err, clustercache.ErrClusterNotConnected) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) == mostErrors {
		f.more++
	} else {
		f.errs = append(f.errs, err)
	}
	return nil
}

func (f *failures) err() error {
	if f.more > 0 {
		return fmt.Errorf("%w; and %d more", errors.Join(f.errs...), f.more)
	}
	return errors.Join(f.errs...)
}
