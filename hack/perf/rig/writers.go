package rig

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// parallel is how many write to the source at a time.
const parallel = 32

// Writers write to the source as fast as it takes it.
type Writers struct {
	typed kubernetes.Interface // speaks protobuf
	other client.Client        // for what has none
}

func newWriters(source *testbed.Cluster) (*Writers, error) {
	config := source.RESTConfig()
	config.QPS, config.UserAgent, config.Timeout = -1, "writers", 2*time.Minute
	other, err := client.New(config, client.Options{Scheme: testbed.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("client for the source: %w", err)
	}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the source: %w", err)
	}
	return &Writers{typed: typed, other: other}, nil
}

// Create creates objects in their order. It does not set ResourceVersions and the like in them.
func (w *Writers) Create(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		var err error
		switch o := object.(type) {
		case *corev1.Namespace:
			_, err = w.typed.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{})
		case *corev1.Secret:
			_, err = w.typed.CoreV1().Secrets(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		default:
			err = w.other.Create(ctx, o)
		}
		if err != nil {
			return fmt.Errorf("creating %T %s in the source: %w", object, client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

// UpdateSecret writes a Secret whatever is there.
func (w *Writers) UpdateSecret(ctx context.Context, secret *corev1.Secret) error {
	if _, err := w.typed.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing Secret %s of the source: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
}

// DeleteSecret deletes a Secret.
func (w *Writers) DeleteSecret(ctx context.Context, namespace, name string) error {
	if err := w.typed.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting Secret %s/%s of the source: %w", namespace, name, err)
	}
	return nil
}

// DeleteManagedResources deletes those of a namespace, or only the one with this name.
func (w *Writers) DeleteManagedResources(ctx context.Context, namespace, name string) error {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	var err error
	if name == "" {
		err = w.other.DeleteAllOf(ctx, mr, client.InNamespace(namespace))
	} else {
		err = w.other.Delete(ctx, mr)
	}
	if err != nil {
		return fmt.Errorf("deleting ManagedResources %s/%s of the source: %w", namespace, name, err)
	}
	return nil
}

// DeleteNamespace deletes a namespace without ManagedResources, and its Secrets. It is what a controller manager does, which the
// source does not have.
func (w *Writers) DeleteNamespace(ctx context.Context, name string) error {
	err := w.typed.CoreV1().Secrets(name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err == nil {
		err = w.typed.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err == nil {
		_, err = w.typed.CoreV1().Namespaces().Finalize(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("deleting namespace %s of the source: %w", name, err)
	}
	return nil
}

// EachOf does something for all targets, many at a time, and counts those that are done, unless done is nil.
func EachOf(ctx context.Context, targets []*fleetsim.Target, done *atomic.Int64, do func(context.Context, *fleetsim.Target) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, target := range targets {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := do(ctx, target); err != nil {
				return fmt.Errorf("%s: %w", target.Name(), err)
			}
			if done != nil {
				done.Add(1)
			}
			return nil
		})
	}
	return group.Wait()
}

// Register creates the namespace of a target and then its registration.
func (w *Writers) Register(ctx context.Context, target *fleetsim.Target) error {
	ns := Namespace(target)
	return w.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, target.Registration(ns))
}
