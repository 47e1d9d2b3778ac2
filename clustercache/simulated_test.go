package clustercache

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// simulatedFleet starts simulated targets, which know more faults than apiServer and take writes.
func simulatedFleet(t *testing.T, o fleetsim.Options) []*fleetsim.Target {
	t.Helper()
	fleet, err := fleetsim.Start(t.Context(), o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(fleet.Stop)
	return fleet.Targets()
}

// simulated registers one simulated target and waits until it is connected.
func simulated(t *testing.T, options Options) (*hub, *fleetsim.Target, ClusterKey) {
	t.Helper()
	target := simulatedFleet(t, fleetsim.Options{Targets: 1})[0]
	h := start(t, options)
	key := h.register(target.Name(), target.Kubeconfig())
	if clock, fake := options.Clock.(*clocktesting.FakeClock); fake {
		h.pass(clock, 0, key) // a timer of no time at all waits for that, too
	}
	h.expectState(key, StateConnected)
	return h, target, key
}

// strike sets a fault and returns what clears it.
func (h *hub) strike(target *fleetsim.Target, f fault.Fault) (mend func()) {
	h.t.Helper()
	f, err := target.Faults().Set(f)
	h.Expect(err).NotTo(HaveOccurred())
	return func() {
		_, err := target.Faults().Clear(f.ID)
		h.Expect(err).NotTo(HaveOccurred())
	}
}

// asked counts the requests of a verb for ConfigMaps that a target answered.
func asked(target *fleetsim.Target, verb string) int {
	n := int64(0)
	for _, c := range target.Journal().Counts().Where(func(c journal.Count) bool { return c.Verb == verb && c.Resource == "configmaps" }) {
		n += c.Requests
	}
	return int(n)
}

// opened counts how often a target was asked for all ConfigMaps, at once or as a stream.
func opened(target *fleetsim.Target) int { return asked(target, "list") + asked(target, "watch") }

// writer returns what writes ConfigMaps through the connection of a target.
func (h *hub) writer(key ClusterKey) dynamic.ResourceInterface {
	h.t.Helper()
	config, err := h.cache.GetRESTConfig(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	c, err := dynamic.NewForConfig(config)
	h.Expect(err).NotTo(HaveOccurred())
	return c.Resource(configMapResource).Namespace("default")
}

// write applies a ConfigMap with some content.
func write(ctx context.Context, c dynamic.ResourceInterface, name, value string) error {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"value": value},
	}}
	_, err := c.Apply(ctx, name, obj, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
