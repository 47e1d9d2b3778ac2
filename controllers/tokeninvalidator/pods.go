package tokeninvalidator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/untrusted"
)

// A pod has some hundred elements, and an answer 131072.
const (
	defaultPageSize = 100
	defaultMaxPods  = 10_000
)

// errTooMany says that not everything could be looked at.
var errTooMany = errors.New("there are too many")

// mounting returns the name of a pod that has a Secret among its volumes; empty if there is none.
func (r *reconciler) mounting(ctx context.Context, c client.Reader, secret types.NamespacedName) (string, error) {
	for next, seen := "", 0; ; {
		page, err := r.podsOf(ctx, c, secret, next)
		if err == nil && page.pod == "" && page.next != "" {
			switch seen += page.n; {
			case page.n == 0:
				err = errors.New("a page is empty and not the last one")
			case seen >= r.maxPods:
				err = fmt.Errorf("%w: %d are looked at", errTooMany, r.maxPods)
			}
		}
		if err != nil {
			return "", fmt.Errorf("listing pods of Namespace %s: %w", untrusted.Name(secret.Namespace), err)
		}
		if page.pod != "" || page.next == "" {
			return page.pod, nil
		}
		next = page.next
	}
}

// page is what is needed of one of a list of pods.
type page struct {
	pod  string // that has the Secret among its volumes; empty if there is none
	n    int    // how many pods there are
	next string
}

func (r *reconciler) podsOf(
	ctx context.Context, c client.Reader, secret types.NamespacedName, next string,
) (page, error) {
	ctx, done := clustercache.HoldAnswers(ctx) // next to nothing is kept of a page
	defer done()
	list := &corev1.PodList{}
	err := c.List(ctx, list, client.InNamespace(secret.Namespace), client.Limit(r.pageSize), client.Continue(next))
	if err != nil {
		return page{}, err //nolint:wrapcheck // mounting says what was listed
	}
	p := page{n: len(list.Items), next: list.Continue}
	for i := range list.Items {
		if mounts(&list.Items[i], secret.Name) {
			p.pod = untrusted.Name(list.Items[i].Name)
		}
	}
	return p, nil
}

// mounts reports whether a pod, be it running or not, has a Secret among its volumes.
func mounts(pod *corev1.Pod, secret string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == secret
	})
}
