package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/apis/references"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

var (
	managedResources = resourcesv1alpha1.GroupVersion.WithKind("ManagedResource")
	prometheuses     = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "Prometheus"}
)

// collectable are the kinds that can be collected, by their names in references. They are listed before anything that
// refers to them.
var collectable = map[string]schema.GroupVersionKind{
	references.KindSecret:    corev1.SchemeGroupVersion.WithKind("Secret"),
	references.KindConfigMap: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
}

// referring are the kinds whose annotations are looked at.
var referring = []schema.GroupVersionKind{
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
	batchv1.SchemeGroupVersion.WithKind("Job"),
	batchv1.SchemeGroupVersion.WithKind("CronJob"),
	corev1.SchemeGroupVersion.WithKind("Pod"),
	managedResources,
	prometheuses,
}

// Names are bounded by Kubernetes. A target that gives longer ones is not to fill our memory.
const longestNamespace, longestName = 63, 253

// errGone is the end of a pass in a target that served ManagedResources before.
var errGone = errors.New(
	"the target served ManagedResources before and no longer does; nothing is deleted, since they may refer to " +
		"anything")

// candidate is a ConfigMap or a Secret that may be garbage, within its namespace.
type candidate struct{ kind, name string }

// candidates are those of all namespaces, by namespace. They hold no more than names.
type candidates map[string]map[candidate]struct{}

func (c candidates) add(namespace string, one candidate) {
	if c[namespace] == nil {
		c[namespace] = map[candidate]struct{}{}
	}
	c[namespace][one] = struct{}{}
}

// keep drops what an object names in its namespace.
func (c candidates) keep(obj *metav1.PartialObjectMetadata) {
	within := c[obj.Namespace]
	if len(within) == 0 {
		return
	}
	for one := range named(obj) {
		delete(within, one)
	}
	if len(within) == 0 {
		delete(c, obj.Namespace)
	}
}

// named are the ConfigMaps and Secrets of its namespace that an object names.
func named(obj *metav1.PartialObjectMetadata) iter.Seq[candidate] {
	return func(yield func(candidate) bool) {
		for key, name := range obj.Annotations {
			if kind := references.KindFromAnnotationKey(key); kind != "" && name != "" && !yield(candidate{kind, name}) {
				return
			}
		}
	}
}

// pass is one look at all of a target.
type pass struct {
	*collector
	target     *multicluster.Target
	memory     *memory
	candidates candidates
}

// run lists what may be garbage, drops what is in use, and deletes the rest.
func (p *pass) run(ctx context.Context) error {
	err := p.look(ctx)
	if err == nil && len(p.candidates) > 0 {
		err = p.sweep(ctx)
	}
	switch {
	case err == nil:
		p.Metrics.passed(p.target.Key())
	case errors.Is(err, errGone):
		p.warn("GarbageCollectionSkipped", err)
		p.target.Log.Info("Garbage is not collected", "reason", err.Error())
		return nil
	case ctx.Err() == nil && p.target.Valid() == nil:
		p.warn("GarbageCollectionFailed", err)
	}
	return err
}

// warn reports something on the TargetCluster. The source as a target has none.
func (p *pass) warn(reason string, err error) {
	key := p.target.Key()
	if key.Namespace == "" {
		return
	}
	about := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	p.target.Warn(about, reason, "CollectGarbage", untrusted.Message(err.Error()))
}

// look fills candidates with what nothing refers to.
func (p *pass) look(ctx context.Context) error {
	if err := p.learnKinds(); err != nil {
		return err
	}
	for _, kind := range []string{references.KindSecret, references.KindConfigMap} {
		if err := p.listCandidates(ctx, kind); err != nil {
			return err
		}
	}
	if len(p.candidates) == 0 {
		return nil
	}
	return p.keepReferenced(ctx, "", p.candidates)
}

// learnKinds has the target say again which kinds it serves, so that none is missed that has just been added, and
// remembers if ManagedResources are one of them.
func (p *pass) learnKinds() error {
	mapper := p.target.Client.RESTMapper()
	meta.MaybeResetRESTMapper(mapper)
	_, err := mapper.RESTMapping(managedResources.GroupKind(), managedResources.Version)
	switch {
	case err == nil:
		p.memory.managedResources = true
	case !meta.IsNoMatchError(err):
		return fmt.Errorf("asking which kinds there are: %w", err)
	case p.memory.managedResources:
		return errGone
	}
	return nil
}

// listCandidates adds the objects of a kind that may be collected and are old enough, at most half of what one pass
// looks at. The next pass continues where this one ends, and then begins again.
func (p *pass) listCandidates(ctx context.Context, kind string) error {
	after, most, found := p.memory.after[kind], max(1, p.maxCandidates/2), 0
	last := after
	delete(p.memory.after, kind)
	return p.list(ctx, collectable[kind], func(obj *metav1.PartialObjectMetadata) bool {
		place := obj.Namespace + "/" + obj.Name // the order in which objects are listed
		if place <= after || !p.isCollectable(obj) {
			return true
		}
		if found == most {
			p.memory.after[kind] = last
			return false
		}
		last = place
		p.candidates.add(obj.Namespace, candidate{kind, obj.Name})
		found++
		return true
	}, client.MatchingLabels{references.Label: references.LabelValue})
}

// isCollectable reports whether an object is labelled as one that may be collected, is old enough, and is not being
// deleted already.
func (p *pass) isCollectable(obj *metav1.PartialObjectMetadata) bool {
	return obj.Labels[references.Label] == references.LabelValue && obj.DeletionTimestamp == nil &&
		len(obj.Namespace) <= longestNamespace && len(obj.Name) <= longestName &&
		!obj.CreationTimestamp.Add(p.lifetime).After(p.Clock.Now())
}

// keepReferenced drops the candidates that an object of the target refers to. An empty namespace means all. When it
// returns an error, something may have been missed.
func (p *pass) keepReferenced(ctx context.Context, namespace string, of candidates) error {
	return p.eachReferring(ctx, namespace, func(_ schema.GroupVersionKind, obj *metav1.PartialObjectMetadata) {
		of.keep(obj)
	})
}

// eachReferring shows visit all objects that may refer to something. An empty namespace means all.
func (p *pass) eachReferring(ctx context.Context, namespace string,
	visit func(kind schema.GroupVersionKind, obj *metav1.PartialObjectMetadata)) error {
	for _, kind := range referring {
		err := p.list(ctx, kind, func(obj *metav1.PartialObjectMetadata) bool {
			visit(kind, obj)
			return true
		}, client.InNamespace(namespace))
		absent := meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
		switch {
		case absent && kind == managedResources && p.memory.managedResources:
			return errGone
		case absent && (kind == managedResources || kind == prometheuses):
		case err != nil:
			return err
		}
	}
	return nil
}

// list shows visit the metadata of all objects of a kind, read live and in pages, until it returns false.
func (p *pass) list(ctx context.Context, kind schema.GroupVersionKind,
	visit func(*metav1.PartialObjectMetadata) bool, options ...client.ListOption) error {
	for next := ""; ; {
		page := append(slices.Clone(options), client.Limit(p.pageSize), client.Continue(next))
		var goOn bool
		var err error
		if next, goOn, err = p.page(ctx, kind, visit, page); err != nil {
			return fmt.Errorf("listing all of kind %s: %w", kind.GroupKind(), err)
		}
		if next == "" || !goOn {
			return nil
		}
	}
}

// page shows visit one page, and returns where the next one begins.
func (p *pass) page(ctx context.Context, kind schema.GroupVersionKind, visit func(*metav1.PartialObjectMetadata) bool,
	options []client.ListOption) (next string, goOn bool, err error) {
	ctx, done := clustercache.HoldAnswers(ctx) // a page is in memory until it was visited
	defer done()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := p.target.Client.List(ctx, list, options...); err != nil {
		return "", false, err //nolint:wrapcheck // list does
	}
	for i := range list.Items {
		if !visit(&list.Items[i]) {
			return "", false, nil
		}
	}
	return list.Continue, true, nil
}

// namespaces of candidates, sorted.
func (c candidates) namespaces() []string { return slices.Sorted(maps.Keys(c)) }
