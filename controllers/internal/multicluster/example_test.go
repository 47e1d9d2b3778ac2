package multicluster_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	. "github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// namespaces are what the example watches: every Namespace gets a ConfigMap that says whose it is.
var namespaces = &Objects{Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), MetadataOnly: true}

// newExample is all that a controller needs beside its logic.
func newExample(environment Environment) (*Controller, error) {
	return New("example", environment).For(namespaces).Complete(ReconcilerFunc(writeOwner))
}

// writeOwner is the logic of the example.
func writeOwner(ctx context.Context, target *Target, name types.NamespacedName) (reconcile.Result, error) {
	if _, found, synced := target.Objects(namespaces).Lookup(name); !synced || !found {
		return reconcile.Result{}, nil
	}
	owner := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Name, Name: "owner"},
		Data:       map[string]string{"owner": target.Namespace()},
	}
	err := target.Client.Create(ctx, owner)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, fmt.Errorf("writing ConfigMap %s: %w", client.ObjectKeyFromObject(owner), err)
	}
	return reconcile.Result{}, nil
}
