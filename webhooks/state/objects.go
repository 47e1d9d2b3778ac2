package state

import (
	"context"
	"errors"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// pageSize is how many objects are listed at a time.
	pageSize = 500
	// maxNodes and maxAutoscalers bound what is read of lists, in bytes as they are sent.
	maxNodes, maxAutoscalers = 2 << 20, 512 << 10
)

// errTooMany is the end of a list that is longer than any use of it needs.
var errTooMany = errors.New("there are more than the hub looks at")

// ServiceAccount implements admission.State.
func (t *target) ServiceAccount(ctx context.Context, name types.NamespacedName) (*corev1.ServiceAccount, error) {
	value, _, err := asked(ctx, t, question{"ServiceAccount", name}, false, one(
		func(ctx context.Context, c client.Client) (*corev1.ServiceAccount, error) {
			read := &corev1.ServiceAccount{}
			if err := c.Get(ctx, name, read); err != nil {
				return nil, err //nolint:wrapcheck // ask does
			}
			read.ObjectMeta = trimmed(read.ObjectMeta)
			read.Secrets, read.ImagePullSecrets = nil, nil
			return read, nil
		}))
	return value, err
}

// Namespace implements admission.State.
func (t *target) Namespace(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	value, _, err := asked(ctx, t, question{"Namespace", types.NamespacedName{Name: name}}, true, one(
		func(ctx context.Context, c client.Client) (*metav1.PartialObjectMetadata, error) {
			read := &metav1.PartialObjectMetadata{}
			read.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
			if err := c.Get(ctx, types.NamespacedName{Name: name}, read); err != nil {
				return nil, err //nolint:wrapcheck // ask does
			}
			read.ManagedFields = nil
			return read, nil
		}))
	return value, err
}

// Nodes implements admission.State.
func (t *target) Nodes(ctx context.Context) (nodes []corev1.Node, stale bool, err error) {
	value, stale, err := asked(ctx, t, question{kind: "Nodes"}, true, func(
		ctx context.Context, c client.Client,
	) ([]corev1.Node, int, error) {
		var all []corev1.Node
		size := 0
		err := pages(ctx, c, func(list *corev1.NodeList) error {
			for i := range list.Items {
				node := &list.Items[i]
				kept := corev1.Node{
					ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels},
					Spec:       corev1.NodeSpec{Taints: node.Spec.Taints},
				}
				all, size = append(all, kept), size+kept.Size()
			}
			return atMost(size, maxNodes)
		})
		return all, size + len(all)*overhead, err
	})
	return value, stale, err
}

// HorizontalPodAutoscalers implements admission.State.
func (t *target) HorizontalPodAutoscalers(
	ctx context.Context, namespace string,
) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	q := question{"HorizontalPodAutoscalers", types.NamespacedName{Namespace: namespace}}
	value, _, err := asked(ctx, t, q, false, func(
		ctx context.Context, c client.Client,
	) ([]autoscalingv2.HorizontalPodAutoscaler, int, error) {
		var all []autoscalingv2.HorizontalPodAutoscaler
		size := 0
		err := pages(ctx, c,
			func(list *autoscalingv2.HorizontalPodAutoscalerList) error {
				for i := range list.Items {
					hpa := &list.Items[i]
					hpa.ObjectMeta, hpa.Status = trimmed(hpa.ObjectMeta), autoscalingv2.HorizontalPodAutoscalerStatus{}
					hpa.Spec.Metrics, hpa.Spec.Behavior = nil, nil
					all, size = append(all, *hpa), size+hpa.Size()
				}
				return atMost(size, maxAutoscalers)
			}, client.InNamespace(namespace))
		return all, size + len(all)*overhead, err
	})
	return value, err
}

// ConfigMap implements admission.State.
func (t *target) ConfigMap(ctx context.Context, name types.NamespacedName) (*corev1.ConfigMap, error) {
	value, _, err := asked(ctx, t, question{"ConfigMap", name}, false, one(
		func(ctx context.Context, c client.Client) (*corev1.ConfigMap, error) {
			read := &corev1.ConfigMap{}
			if err := c.Get(ctx, name, read); err != nil {
				return nil, err //nolint:wrapcheck // ask does
			}
			read.ObjectMeta = trimmed(read.ObjectMeta)
			return read, nil
		}))
	return value, err
}

// Service implements admission.State.
func (t *target) Service(ctx context.Context, name types.NamespacedName) (*corev1.Service, error) {
	value, _, err := asked(ctx, t, question{"Service", name}, false, one(
		func(ctx context.Context, c client.Client) (*corev1.Service, error) {
			read := &corev1.Service{}
			if err := c.Get(ctx, name, read); err != nil {
				return nil, err //nolint:wrapcheck // ask does
			}
			read.ObjectMeta = trimmed(read.ObjectMeta)
			return read, nil
		}))
	return value, err
}

// trimmed is what is kept of the metadata of an object.
func trimmed(meta metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, Labels: meta.Labels}
}

func atMost(n, most int) error {
	if n > most {
		return errTooMany
	}
	return nil
}

// sized is an object that knows its size as it is sent, in bytes.
type sized interface{ Size() int }

// one has an object kept if it is not too large.
func one[T sized](
	read func(context.Context, client.Client) (T, error),
) func(context.Context, client.Client) (T, int, error) {
	return func(ctx context.Context, c client.Client) (object T, size int, err error) {
		if object, err = read(ctx, c); err != nil {
			return object, 0, err
		}
		if size = object.Size(); size > maxObject {
			return object, -1, nil
		}
		return object, size + overhead, nil
	}
}

// asked is ask for answers of one type.
func asked[T any](
	ctx context.Context, t *target, q question, old bool,
	read func(context.Context, client.Client) (T, int, error),
) (value T, stale bool, err error) {
	var none T
	said, stale, err := t.ask(ctx, q, old, func(ctx context.Context, c client.Client) (any, int, error) {
		return read(ctx, c)
	})
	if err != nil {
		return none, false, err
	}
	value, is := said.(T)
	if !is {
		return none, false, fmt.Errorf("reading %s: the answer is a %T", q.text(), said)
	}
	return value, stale, nil
}

// list is a type of lists, whose pointers are what clients take.
type list[T any] interface {
	*T
	client.ObjectList
}

// pages lists objects in pages.
func pages[T any, L list[T]](
	ctx context.Context, c client.Client, each func(L) error, options ...client.ListOption,
) error {
	next := ""
	for {
		page := L(new(T))
		few := append(options[:len(options):len(options)], client.Limit(pageSize), client.Continue(next))
		if err := c.List(ctx, page, few...); err != nil {
			return err //nolint:wrapcheck // ask does
		}
		if err := each(page); err != nil {
			return err
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}
