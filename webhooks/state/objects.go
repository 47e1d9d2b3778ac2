package state

import (
	"context"
	"errors"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// pageSize is how many objects are listed at a time.
	pageSize = 500
	// maxNodes and maxAutoscalers bound what is kept of lists, in bytes as they are sent.
	maxNodes, maxAutoscalers = 2 << 20, 512 << 10
)

// errTooMany is the end of a list that is longer than anybody can need.
var errTooMany = errors.New("there are more than the hub looks at")

// ServiceAccount implements admission.State.
func (t *target) ServiceAccount(ctx context.Context, name types.NamespacedName) (*corev1.ServiceAccount, error) {
	value, _, err := t.ask(ctx, question{"ServiceAccount", name}, false,
		func(ctx context.Context, c client.Client) (any, error) {
			read := &corev1.ServiceAccount{}
			if err := c.Get(ctx, name, read); err != nil {
				return nil, err //nolint:wrapcheck // ask does
			}
			read.ObjectMeta = trimmed(read.ObjectMeta)
			read.Secrets, read.ImagePullSecrets = nil, nil
			return read, nil
		})
	if err != nil {
		return nil, err
	}
	return value.(*corev1.ServiceAccount), nil //nolint:forcetypeassert // it is the one above
}

// Namespace implements admission.State.
func (t *target) Namespace(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	value, _, err := t.ask(ctx, question{"Namespace", types.NamespacedName{Name: name}}, true,
		func(ctx context.Context, c client.Client) (any, error) {
			read := &metav1.PartialObjectMetadata{}
			read.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
			if err := c.Get(ctx, types.NamespacedName{Name: name}, read); err != nil {
				return nil, err //nolint:wrapcheck // ask does
			}
			read.ManagedFields = nil
			return read, nil
		})
	if err != nil {
		return nil, err
	}
	return value.(*metav1.PartialObjectMetadata), nil //nolint:forcetypeassert // it is the one above
}

// Nodes implements admission.State.
func (t *target) Nodes(ctx context.Context) (nodes []corev1.Node, stale bool, err error) {
	value, stale, err := t.ask(ctx, question{kind: "Nodes"}, true, func(ctx context.Context, c client.Client) (any, error) {
		var all []corev1.Node
		size := 0
		err := pages(ctx, c, &corev1.NodeList{}, func(list *corev1.NodeList) error {
			for i := range list.Items {
				node := &list.Items[i]
				kept := corev1.Node{
					ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}, Spec: corev1.NodeSpec{Taints: node.Spec.Taints},
				}
				all, size = append(all, kept), size+kept.Size()
			}
			return atMost(size, maxNodes)
		})
		return all, err
	})
	if err != nil {
		return nil, false, err
	}
	return value.([]corev1.Node), stale, nil //nolint:forcetypeassert // it is the one above
}

// HorizontalPodAutoscalers implements admission.State.
func (t *target) HorizontalPodAutoscalers(
	ctx context.Context, namespace string,
) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	q := question{"HorizontalPodAutoscalers", types.NamespacedName{Namespace: namespace}}
	value, _, err := t.ask(ctx, q, false, func(ctx context.Context, c client.Client) (any, error) {
		var all []autoscalingv2.HorizontalPodAutoscaler
		size := 0
		err := pages(ctx, c, &autoscalingv2.HorizontalPodAutoscalerList{},
			func(list *autoscalingv2.HorizontalPodAutoscalerList) error {
				for i := range list.Items {
					hpa := &list.Items[i]
					hpa.ObjectMeta, hpa.Status = trimmed(hpa.ObjectMeta), autoscalingv2.HorizontalPodAutoscalerStatus{}
					hpa.Spec.Metrics, hpa.Spec.Behavior = nil, nil
					all, size = append(all, *hpa), size+hpa.Size()
				}
				return atMost(size, maxAutoscalers)
			}, client.InNamespace(namespace))
		return all, err
	})
	if err != nil {
		return nil, err
	}
	return value.([]autoscalingv2.HorizontalPodAutoscaler), nil //nolint:forcetypeassert // it is the one above
}

// ConfigMap implements admission.State.
func (t *target) ConfigMap(ctx context.Context, name types.NamespacedName) (*corev1.ConfigMap, error) {
	value, _, err := t.ask(ctx, question{"ConfigMap", name}, false,
		func(ctx context.Context, c client.Client) (any, error) {
			read := &corev1.ConfigMap{}
			if err := c.Get(ctx, name, read); err != nil {
				return nil, err //nolint:wrapcheck // ask does
			}
			read.ObjectMeta = trimmed(read.ObjectMeta)
			return read, nil
		})
	if err != nil {
		return nil, err
	}
	return value.(*corev1.ConfigMap), nil //nolint:forcetypeassert // it is the one above
}

// Service implements admission.State.
func (t *target) Service(ctx context.Context, name types.NamespacedName) (*corev1.Service, error) {
	value, _, err := t.ask(ctx, question{"Service", name}, false,
		func(ctx context.Context, c client.Client) (any, error) {
			read := &corev1.Service{}
			if err := c.Get(ctx, name, read); err != nil {
				return nil, err //nolint:wrapcheck // ask does
			}
			read.ObjectMeta = trimmed(read.ObjectMeta)
			return read, nil
		})
	if err != nil {
		return nil, err
	}
	return value.(*corev1.Service), nil //nolint:forcetypeassert // it is the one above
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

// pages lists objects in pages.
func pages[L client.ObjectList](
	ctx context.Context, c client.Client, list L, each func(L) error, options ...client.ListOption,
) error {
	next := ""
	for {
		page := append(options[:len(options):len(options)], client.Limit(pageSize), client.Continue(next))
		if err := c.List(ctx, list, page...); err != nil {
			return err //nolint:wrapcheck // ask does
		}
		if err := each(list); err != nil {
			return err
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
		list = list.DeepCopyObject().(L) //nolint:forcetypeassert // its copy
	}
}
