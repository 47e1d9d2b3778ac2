package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

// kinds resolves the kinds of a target for one run.
type kinds struct {
	Target

	// refresh resets the mapper at most once.
	refresh sync.Once
	// absences makes objects of one kind share the calls that find out whether it is absent. absent has the results:
	// kinds that the target does not have, with an error if that is not certain.
	absences singleflight.Group
	absent   sync.Map // schema.GroupKind -> absence
}

// absence is the result for a kind that was not found. err says why its absence is uncertain; nil means that it is
// certain.
type absence struct{ err error }

// place is the location of an object.
type place struct {
	mapping   *meta.RESTMapping
	namespace string // empty if the kind has none
	objects   metadata.ResourceInterface
}

// place resolves an entry; found is false if the target cannot have the object.
func (k *kinds) place(ctx context.Context, ref resourcesv1alpha1.ObjectReference) (p place, found bool, err error) {
	if ref.Name == "" || len(content.IsPathSegmentName(ref.Name)) > 0 ||
		len(content.IsPathSegmentName(ref.Namespace)) > 0 {
		return p, false, nil // no object has such a name, and in a URL it would address another one
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	mapping, err := k.mapping(ctx, gvk)
	if err != nil || mapping == nil {
		return p, false, err
	}
	p = place{mapping: mapping, objects: k.Metadata.Resource(mapping.Resource)}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		p.namespace, p.objects = ref.Namespace, k.Metadata.Resource(mapping.Resource).Namespace(ref.Namespace)
	}
	return p, true, nil
}

// mapping returns nil if it is certain that the target does not have the kind.
func (k *kinds) mapping(ctx context.Context, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	ask := func() (*meta.RESTMapping, error) {
		mapper := meta.ToRESTMapperWithContext(k.Mapper)
		mapping, err := mapper.RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			// The version may be gone while the kind is not.
			mapping, err = mapper.RESTMappingWithContext(ctx, gvk.GroupKind())
		}
		return mapping, err
	}
	mapping, err := ask()
	if meta.IsNoMatchError(err) {
		if known, ok := k.absent.Load(gvk.GroupKind()); ok {
			result, _ := known.(absence)
			return nil, result.err
		}
		// The mapper's discovery may be older than the kind.
		if mapper, ok := k.Mapper.(meta.ResettableRESTMapper); ok {
			k.refresh.Do(mapper.Reset)
		}
		mapping, err = ask()
	}
	switch {
	case err == nil:
		return mapping, nil
	case !meta.IsNoMatchError(err):
		return nil, fmt.Errorf("looking up %s: %w", gvk, err)
	}
	_, err, _ = k.absences.Do(gvk.GroupKind().String(), func() (any, error) {
		err := k.defined(ctx, gvk.GroupKind())
		k.absent.Store(gvk.GroupKind(), absence{err})
		return nil, err
	})
	return nil, err
}

// unserved returns an error unless it is certain that a kind which the server did not find has no objects any longer.
func (k *kinds) unserved(ctx context.Context, gvk schema.GroupVersionKind) error {
	if mapper, ok := k.Mapper.(meta.ResettableRESTMapper); ok {
		mapper.Reset()
		if mapping, err := k.mapping(ctx, gvk); err != nil || mapping == nil {
			return err
		}
		return fmt.Errorf("%s is not served at present", gvk)
	}
	return k.defined(ctx, gvk.GroupKind())
}

// isUnserved reports whether an error says that the server does not serve the kind, rather than that the object does
// not exist.
func isUnserved(err error) bool {
	var status *apierrors.StatusError
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.ErrStatus.Details != nil &&
		slices.ContainsFunc(status.ErrStatus.Details.Causes,
			func(c metav1.StatusCause) bool { return c.Type == metav1.CauseTypeUnexpectedServerResponse })
}

// defined returns an error if a kind that is not served has a definition. A definition that is not served yet, or not
// any longer, may still have objects.
func (k *kinds) defined(ctx context.Context, gk schema.GroupKind) error {
	if gk.Group == "" || k.Client == nil {
		return nil
	}
	guess, _ := meta.UnsafeGuessKindToResource(gk.WithVersion("v1"))
	name := guess.GroupResource().String()
	_, err := k.Metadata.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("finding out whether %s is defined: %w", gk, err)
	}
	kind, err := k.definedBy(ctx, name)
	if err != nil || kind != gk {
		return err
	}
	return fmt.Errorf("CustomResourceDefinition %s is not served", name)
}

// definedBy reads the kind out of a definition, empty if it does not exist.
func (k *kinds) definedBy(ctx context.Context, crd string) (schema.GroupKind, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(definitions.GroupVersion().WithKind("CustomResourceDefinition"))
	if err := k.Client.Get(ctx, client.ObjectKey{Name: crd}, live); err != nil {
		if apierrors.IsNotFound(err) {
			return schema.GroupKind{}, nil
		}
		return schema.GroupKind{}, fmt.Errorf("reading CustomResourceDefinition %s: %w", crd, err)
	}
	group, _, _ := unstructured.NestedString(live.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(live.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}, nil
}

// defines reports whether a definition is that of an object's kind. It returns true if that is not known.
func (k *kinds) defines(ctx context.Context, crd, object inventory.Key) bool {
	plural, ok := strings.CutSuffix(crd.Name, "."+object.Group)
	if !ok || object.Group == "" || strings.Contains(plural, ".") {
		return false
	}
	if ctx.Err() != nil {
		return true
	}
	mapping, err := meta.ToRESTMapperWithContext(k.Mapper).RESTMappingWithContext(ctx, object.GroupKind())
	return err != nil || mapping.Resource.Resource == plural
}
