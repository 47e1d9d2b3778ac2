package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// measureSecret changes the content of ManagedResources: one object of each.
func measureSecret(ctx context.Context, w *world) (samples, error) {
	var mu sync.Mutex
	turns := map[*testbed.Cluster]int{}
	return w.inRuns(ctx, w.changes, func(ctx context.Context, target *testbed.Cluster) (sample, error) {
		mu.Lock()
		turn := turns[target]
		turns[target]++
		mu.Unlock()
		name, value := fixtureName(turn%w.fixture), fmt.Sprintf("value-%d", turn)
		key := types.NamespacedName{Namespace: namespace, Name: name + "-config-0"}
		follower, err := testbed.Follow(ctx, target, configMapKind, key)
		if err != nil {
			return sample{}, err
		}
		defer follower.Stop()
		content := testbed.Content(sourceNamespace(target), name, "objects.yaml", mixture(name+"-", value)...)
		if err := w.source.Client.Update(ctx, content); err != nil {
			return sample{}, fmt.Errorf("changing Secret %s: %w", name, err)
		}
		answered := time.Now()
		seen, err := follower.Until(ctx, func(u *unstructured.Unstructured) bool {
			is, _, err := unstructured.NestedString(u.Object, "data", "key")
			return err == nil && is == value
		})
		if err != nil {
			return sample{}, err
		}
		reference, err := w.carry(ctx, target, value)
		return sample{
			Target: target.Name, Kind: secretKind.Kind, Change: "change content",
			Millis: figures.Milliseconds(max(0, seen.Sub(answered))), ReferenceMillis: figures.Milliseconds(reference),
		}, err
	})
}

// carry changes a Secret that the hub does not know, and does what there is to do about it: one apply when the change is
// seen.
func (w *world) carry(ctx context.Context, target *testbed.Cluster, value string) (time.Duration, error) {
	key := types.NamespacedName{Namespace: namespace, Name: referencePrefix + "carried"}
	manifest := configMap(key.Name, value)
	content := testbed.Content(sourceNamespace(target), key.Name, "objects.yaml", manifest)
	if err := w.source.Client.Create(ctx, content.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
		return 0, fmt.Errorf("creating Secret %s: %w", key.Name, err)
	}
	content.Labels = map[string]string{"turn": value}
	there, err := testbed.Follow(ctx, target, configMapKind, key)
	if err != nil {
		return 0, err
	}
	defer there.Stop()
	here, err := testbed.Follow(ctx, w.source, secretKind, client.ObjectKeyFromObject(content))
	if err != nil {
		return 0, err
	}
	defer here.Stop()
	if err := w.source.Client.Update(ctx, content); err != nil {
		return 0, fmt.Errorf("changing Secret %s: %w", key.Name, err)
	}
	answered := time.Now()
	if _, err := here.Until(ctx, func(u *unstructured.Unstructured) bool { return u != nil && u.GetLabels()["turn"] == value }); err != nil {
		return 0, err
	}
	err = target.Client.Patch(ctx, decode(manifest), client.RawPatch(types.ApplyPatchType, []byte(manifest)), client.FieldOwner("bench"), client.ForceOwnership)
	if err != nil {
		return 0, fmt.Errorf("applying ConfigMap %s: %w", key, err)
	}
	seen, err := there.Until(ctx, func(u *unstructured.Unstructured) bool {
		is, _, err := unstructured.NestedString(u.Object, "data", "key")
		return err == nil && is == value
	})
	return max(0, seen.Sub(answered)), err
}
