package stalepods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

// Clusters of a pass.
const inTarget, inSource = "target", "source"

// Reasons for which pods are stale.
const (
	evicted      = "Evicted"
	nodeAffinity = "NodeAffinity"
	outOf        = "OutOf"
	terminating  = "Terminating"
)

const (
	// stuckAfter is for how long a pod may be there after its time to end.
	stuckAfter = 5 * time.Minute
	// mostErrors is how many errors of a pass are reported in full.
	mostErrors = 5
)

// errTooMany ends a list that is longer than any real one.
var errTooMany = errors.New("too many pods to look at")

// place is a pod in the order of a pass: namespaces by name, in each one the pods that have failed and then those that
// are stuck, by name.
type place struct {
	namespace string
	stuck     bool
	name      string
}

// order is less than zero if p comes before other.
func (p place) order(other place) int {
	number := map[bool]int{true: 1}
	return cmp.Or(
		cmp.Compare(p.namespace, other.namespace), cmp.Compare(number[p.stuck], number[other.stuck]),
		cmp.Compare(p.name, other.name))
}

// stale is a pod that is to be deleted.
type stale struct {
	name            string
	uid             types.UID
	resourceVersion string
	reason          string
}

// pass is one look at the pods of a cluster.
type pass struct {
	*reconciler
	target  *multicluster.Target
	cluster string
	client  client.Client
	after   place  // what comes before has had its turn
	end     *place // where the pass ended early

	tried, deleted int
	errs           []error
	more           int
}

// run deletes what is stale in some namespaces, which are sorted.
func (p *pass) run(ctx context.Context, namespaces []string) error {
	for _, namespace := range namespaces {
		for _, stuck := range []bool{false, true} {
			err := p.sweep(ctx, namespace, stuck)
			if err != nil && concernsAll(err) {
				return err
			}
			p.note(err)
			if p.end != nil {
				return p.err()
			}
		}
	}
	return p.err()
}

// sweep deletes the pods of a namespace that are stale in one way.
func (p *pass) sweep(ctx context.Context, namespace string, stuck bool) error {
	seen := 0
	for next := ""; ; {
		found, listed, after, err := p.page(ctx, namespace, stuck, next)
		if err != nil {
			return fmt.Errorf("listing the pods of namespace %s: %w", untrusted.Name(namespace), err)
		}
		for _, pod := range found {
			at := place{namespace, stuck, pod.name}
			if at.order(p.after) <= 0 {
				continue
			}
			if p.tried == p.maxDeletes {
				return nil
			}
			if err := p.delete(ctx, namespace, pod, stuck); err != nil {
				return err
			}
			if p.tried++; p.tried == p.maxDeletes {
				p.end = &at
			}
		}
		seen += listed
		switch {
		case after == "" || p.end != nil:
			return nil
		case seen >= p.maxPods || listed == 0:
			return fmt.Errorf("namespace %s: %w: more than %d", untrusted.Name(namespace), errTooMany, seen)
		}
		next = after
	}
}

// page returns what is stale of one page, how many pods it has, and where the next one begins.
func (p *pass) page(ctx context.Context, namespace string, stuck bool, next string) (
	found []stale, listed int, after string, err error,
) {
	ctx, done := clustercache.HoldAnswers(ctx) // a page is in memory until it was looked at
	defer done()
	options := []client.ListOption{client.InNamespace(namespace), client.Limit(p.pageSize), client.Continue(next)}
	var list client.ObjectList = &corev1.PodList{}
	if stuck {
		metadata := &metav1.PartialObjectMetadataList{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		list = metadata
	} else {
		options = append(options, client.MatchingFields{"status.phase": string(corev1.PodFailed)})
	}
	if err := p.client.List(ctx, list, options...); err != nil {
		return nil, 0, "", err //nolint:wrapcheck // sweep does
	}
	now := p.clock.Now()
	err = meta.EachListItem(list, func(item runtime.Object) error {
		listed++
		var reason string
		obj, is := item.(client.Object)
		switch pod := item.(type) {
		case *corev1.Pod:
			reason = failedFor(pod)
		case *metav1.PartialObjectMetadata:
			reason = stuckFor(pod, now)
		}
		if is && reason != "" && obj.GetNamespace() == namespace && len(obj.GetName()) <= untrusted.MaxName {
			found = append(found, stale{
				strings.Clone(obj.GetName()), obj.GetUID(), obj.GetResourceVersion(), reason,
			})
		}
		return nil
	})
	return found, listed, list.GetContinue(), err
}

// failedFor is why a pod is stale that has failed; empty if it is not stale.
func failedFor(pod *corev1.Pod) string {
	if pod.Status.Phase != corev1.PodFailed || pod.DeletionTimestamp != nil {
		return ""
	}
	switch reason := pod.Status.Reason; {
	case reason == evicted, reason == nodeAffinity:
		return reason
	case strings.HasPrefix(reason, outOf):
		return outOf
	}
	return ""
}

// stuckFor is why a pod is stale that should be gone; empty if it is not stale.
func stuckFor(pod *metav1.PartialObjectMetadata, now time.Time) string {
	if pod.DeletionTimestamp == nil || now.Sub(pod.DeletionTimestamp.Time) <= stuckAfter {
		return ""
	}
	if grace := pod.DeletionGracePeriodSeconds; grace != nil && *grace == 0 && len(pod.Finalizers) > 0 {
		return "" // another deletion would change nothing
	}
	return terminating
}

// delete deletes a pod if it still is as it was listed. It returns errors that concern all pods.
func (p *pass) delete(ctx context.Context, namespace string, pod stale, atOnce bool) error {
	if err := p.target.Valid(); err != nil {
		return err //nolint:wrapcheck // it names the target
	}
	if pod.uid == "" || pod.resourceVersion == "" {
		return nil // what cannot be distinguished from its successor
	}
	options := []client.DeleteOption{client.Preconditions{UID: &pod.uid, ResourceVersion: &pod.resourceVersion}}
	if atOnce {
		options = append(options, client.GracePeriodSeconds(0))
	}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.name}}
	err := p.client.Delete(ctx, object, options...)
	switch {
	case err == nil:
		p.deleted++
		p.Metrics.count(p.cluster, pod.reason)
		p.target.Log.V(1).Info("Deleted a stale pod", "cluster", p.cluster, "namespace", namespace, "name", pod.name,
			"reason", pod.reason)
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // the next pass sees what has become of it
		return nil
	}
	err = fmt.Errorf("deleting Pod %s/%s: %w", namespace, pod.name, err)
	if concernsAll(err) {
		return err
	}
	p.note(err)
	return nil
}

// concernsAll reports whether an error would meet every other call, too.
func concernsAll(err error) bool {
	return errors.Is(err, clustercache.ErrConnectionReplaced) || errors.Is(err, clustercache.ErrClusterNotConnected) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (p *pass) note(err error) {
	switch {
	case err == nil:
	case len(p.errs) == mostErrors:
		p.more++
	default:
		p.errs = append(p.errs, err)
	}
}

func (p *pass) err() error {
	if p.more > 0 {
		return fmt.Errorf("%w; and %d more", errors.Join(p.errs...), p.more)
	}
	return errors.Join(p.errs...)
}
