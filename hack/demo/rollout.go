package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// rolloutGetsStuck changes a Deployment so that no node fits its new pods. The old ones serve on, so it is healthy, and
// the conditions say which pod stops the roll-out, and why.
func (w *world) rolloutGetsStuck(ctx context.Context) error {
	ref := testbed.ManagedResourceRef(namespace(w.beta), "web")
	content := func(manifest string) error {
		if err := w.source.Client.Update(ctx, testbed.Content(
			ref.Namespace, ref.Name, "objects.yaml", manifest)); err != nil {
			return fmt.Errorf("changing the content for beta: %w", err)
		}
		return nil
	}
	manifest := file("manifests/web.yaml")
	impossible := strings.Replace(manifest, "      containers:\n", "      nodeSelector: {disk: optical}\n      containers:\n", 1)
	if impossible == manifest {
		return errors.New("the manifest has no containers")
	}
	// It was scaled by hand: its pods have to serve again before they can serve on.
	if _, err := available(ctx, w.beta, func(*unstructured.Unstructured) bool { return true }); err != nil {
		return err
	}
	began := time.Now()
	if err := content(impossible); err != nil {
		return err
	}
	entry, err := w.observer.Await(ctx, ref, func(e testbed.Entry) bool {
		_, _, message := e.Condition("ResourcesProgressing")
		stuck := e.Is("ResourcesProgressing", "True") && strings.Contains(message, "Unschedulable")
		return stuck && e.Is("ResourcesHealthy", "True") // the old pods serve on
	})
	if err != nil {
		return err
	}
	_, _, message := entry.Condition("Ready")
	w.measured(entry.Since.Sub(began), "new pods in beta fit no node, and the ManagedResource says so")
	w.printf("its condition Ready: %s", message)

	began = time.Now()
	if err := content(manifest); err != nil {
		return err
	}
	if entry, err = w.observer.Await(ctx, ref, ready); err != nil {
		return err
	}
	w.measured(entry.Since.Sub(began), "the former content is back, and so is Ready")
	return nil
}
