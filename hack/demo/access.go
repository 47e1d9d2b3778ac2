package main

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// tokenIsRequested asks for a token of alpha by a Secret of the source, as a component does that runs there.
func (w *world) tokenIsRequested(ctx context.Context) error {
	const prefix = "serviceaccount.resources.gardener.cloud/"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace(w.alpha), Name: "shoot-access-autoscaler",
		Labels:      map[string]string{resourcesv1alpha1.PurposeLabel: resourcesv1alpha1.PurposeTokenRequestor},
		Annotations: map[string]string{prefix + "name": "autoscaler", prefix + "namespace": metav1.NamespaceSystem},
	}}
	if err := w.source.Client.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating an access Secret: %w", err)
	}
	began := time.Now()
	issued := func(ctx context.Context) (bool, error) {
		err := w.source.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		return len(secret.Data["token"]) > 0, err //nolint:wrapcheck // the caller does
	}
	if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, issued); err != nil {
		return fmt.Errorf("waiting for a token in Secret %s: %w", secret.Name, err)
	}
	w.measured(time.Since(began), "a Secret beside alpha that asks for a token has one")
	config := rest.AnonymousClientConfig(w.alpha.RESTConfig())
	config.BearerToken = string(secret.Data["token"])
	bearer, err := client.New(config, client.Options{Scheme: testbed.Scheme()})
	if err != nil {
		return fmt.Errorf("client with the token: %w", err)
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := bearer.Create(ctx, review); err != nil {
		return fmt.Errorf("asking alpha whose token it is: %w", err)
	}
	w.printf("alpha takes its bearer for %s", review.Status.UserInfo.Username)
	return nil
}
