package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/demo/stage"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// measureSecret changes the content of ManagedResources: one object of each.
func measureSecret(ctx context.Context, w *world) (samples, error) {
	var mu sync.Mutex
	turns := map[*stage.Cluster]int{}
	return w.inRuns(ctx, w.changes, func(ctx context.Context, target *stage.Cluster) (sample, error) {
		mu.Lock()
		turn := turns[target]
		turns[target]++
		mu.Unlock()
		name, value := fixtureName(turn%w.fixture), fmt.Sprintf("value-%d", turn)
		key := types.NamespacedName{Namespace: namespace, Name: name + "-config-0"}
		follower, err := stage.Follow(ctx, target, configMapKind, key)
		if err != nil {
			return sample{}, err
		}
		defer follower.Stop()
		content := hubtest.Content(sourceNamespace(target), name, "objects.yaml", mixture(name+"-", value)...)
		if err := w.source.Client.Update(ctx, content); err != nil {
			return sample{}, fmt.Errorf("changing Secret %s: %w", name, err)
		}
		answered := time.Now()
		seen, err := follower.Until(ctx, func(u *unstructured.Unstructured) bool {
			is, _, err := unstructured.NestedString(u.Object, "data", "key")
			return err == nil && is == value
		})
		return sample{Target: target.Name, Kind: "Secret", Change: "change content", Millis: milliseconds(max(0, seen.Sub(answered)))}, err
	})
}
