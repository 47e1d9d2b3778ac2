package care

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

var definitions = schema.GroupVersionKind{
	Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition",
}

// version stands for a version of an object. That of another version is another one, but for an unlikely accident.
type version uint64

func versionOf(obj client.Object) version {
	h := fnv.New64a()
	for _, text := range []string{string(obj.GetUID()), obj.GetResourceVersion()} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		_, _ = h.Write(length[:])
		_, _ = h.Write([]byte(text))
	}
	return version(h.Sum64())
}

// conversions reports whether there are CustomResourceDefinitions with a conversion webhook whose objects may be stored
// in several versions. They are large, and seldom change: only those that are new are read whole.
func (r *reconciler) conversions(ctx context.Context, target *multicluster.Target) (finding, error) {
	m := r.memoryOf(target.Key())
	fine, unread, err := r.unreadDefinitions(ctx, target, m.harmless)
	if err != nil {
		return finding{}, fmt.Errorf("listing all of kind %s: %w", definitions.Kind, err)
	}
	var found texts
	for _, name := range unread[:min(len(unread), r.maxReads)] {
		read, problematic, err := isProblematic(ctx, target.Client, name)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return finding{}, fmt.Errorf("reading %s %s: %w", definitions.Kind, untrusted.Name(name), err)
		case problematic:
			found.add(untrusted.Name(name))
		default:
			fine[read] = struct{}{}
			m.harmless = fine // what was read so far need not be read again, whatever comes
		}
	}
	m.harmless = fine
	f := finding{constraint: hubv1alpha1.ConstraintCRDsWithProblematicConversionWebhooks}
	switch {
	case found.n > 0:
		f.status, f.reason = metav1.ConditionFalse, hubv1alpha1.ReasonProblematicConversionWebhooks
		f.message = fmt.Sprintf("CustomResourceDefinitions with a conversion webhook have several stored versions: %s", found)
	case len(unread) > r.maxReads:
		f.keep = true // the next looks continue
	}
	return f, nil
}

// unreadDefinitions returns which versions of definitions are known to be harmless, and the names of those of which
// that is not known.
func (r *reconciler) unreadDefinitions(
	ctx context.Context, target *multicluster.Target, known map[version]struct{},
) (fine map[version]struct{}, unread []string, err error) {
	fine = map[version]struct{}{}
	seen := 0
	for next := ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(definitions.GroupVersion().WithKind(definitions.Kind + "List"))
		n, err := page(ctx, target.Client, list, r.pageSize, next, func(item runtime.Object) {
			obj, is := item.(*metav1.PartialObjectMetadata)
			if !is {
				return
			}
			if v := versionOf(obj); has(known, v) {
				fine[v] = struct{}{}
			} else {
				unread = append(unread, obj.Name)
			}
		})
		seen += n
		switch next = list.GetContinue(); {
		case err != nil:
			return nil, nil, err
		case next == "":
			return fine, unread, nil
		case seen >= r.maxDefinitions || n == 0:
			return nil, nil, fmt.Errorf("%w: more than %d", errTooMany, seen)
		}
	}
}

func has(known map[version]struct{}, v version) bool {
	_, is := known[v]
	return is
}

// isProblematic reads a definition.
func isProblematic(ctx context.Context, c client.Client, name string) (read version, problematic bool, err error) {
	ctx, done := clustercache.HoldAnswers(ctx)
	defer done()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(definitions)
	if err := c.Get(ctx, client.ObjectKey{Name: name}, obj); err != nil {
		return 0, false, err //nolint:wrapcheck // the caller does
	}
	strategy, _, _ := unstructured.NestedString(obj.Object, "spec", "conversion", "strategy")
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "storedVersions")
	stored, _ := value.([]any)
	different := slices.ContainsFunc(stored, func(v any) bool { return v != stored[0] })
	return versionOf(obj), strategy == "Webhook" && different, nil
}
