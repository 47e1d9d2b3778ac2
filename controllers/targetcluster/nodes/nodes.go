package nodes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	watchName = "targetcluster-nodes"

	// deprecatedRegionLabel is what nodes had before corev1.LabelTopologyRegion.
	deprecatedRegionLabel = corev1.LabelFailureDomainBetaRegion
)

// Nodes watches the nodes of all targets. Make one with New.
type Nodes struct {
	clusters clustercache.ClusterCache
	changed  func(...clustercache.ClusterKey)

	mu      sync.Mutex
	watched map[clustercache.ClusterKey]*watched
}

// watched is the watch of a target.
type watched struct {
	clustercache.Subscription
	fault error // of the watch, if it has one
}

// New returns what watches no node yet. changed is called when something is new.
func New(clusters clustercache.ClusterCache, changed func(...clustercache.ClusterKey)) *Nodes {
	return &Nodes{clusters: clusters, changed: changed, watched: map[clustercache.ClusterKey]*watched{}}
}

// state is what is kept of a node.
type state struct {
	problem string // empty if there is none
	cloud   string
	region  string
}

// Summary is what is known of the nodes of a target.
type Summary struct {
	Known bool  // whether the others mean anything
	Fault error // why nothing is known
	Total int32
	Ready int32
	// Problem is that of the first node, by name, that has one.
	Problem       string
	Cloud, Region string
}

// Summarize starts to watch the nodes of a target if that was not done yet, and returns what is known of them.
func (n *Nodes) Summarize(ctx context.Context, cluster clustercache.ClusterKey) Summary {
	nodes, err := n.watch(ctx, cluster)
	if err != nil {
		return Summary{Fault: err}
	}

	var summary Summary
	var worst, first string
	synced := nodes.Range(func(key types.NamespacedName, value any) bool {
		state, ok := value.(state)
		if !ok {
			return true
		}
		summary.Total++
		switch {
		case state.problem == "":
			summary.Ready++
		case worst == "" || key.Name < worst:
			worst, summary.Problem = key.Name, fmt.Sprintf("node %s: %s", key.Name, state.problem)
		}
		if state.cloud != "" && (first == "" || key.Name < first) {
			first, summary.Cloud, summary.Region = key.Name, state.cloud, state.region
		}
		return true
	})
	if !synced {
		return Summary{Fault: n.fault(cluster)}
	}
	summary.Known = true
	return summary
}

// watch returns the watch of a target, which is begun if there is none, or no longer one.
func (n *Nodes) watch(ctx context.Context, cluster clustercache.ClusterKey) (clustercache.Subscription, error) {
	n.mu.Lock()
	w := n.watched[cluster]
	if w == nil {
		w = &watched{}
		n.watched[cluster] = w
	}
	nodes := w.Subscription
	n.mu.Unlock()
	if nodes != nil && nodes.Live() {
		return nodes, nil
	}
	nodes, err := n.clusters.Watch(ctx, cluster, clustercache.Watcher{
		Name:      watchName,
		Form:      watchName,
		Kind:      corev1.SchemeGroupVersion.WithKind("Node"),
		Fields:    [][]string{{"spec", "providerID"}, {"status", "conditions"}},
		Transform: func(obj client.Object) any { return stateOf(obj) },
		Handler:   n,
	})
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch other := w.Subscription; {
	case n.watched[cluster] != w: // it was forgotten meanwhile
		nodes.Close()
		return nodes, nil
	case other != nil && other.Live(): // somebody else was quicker
		nodes.Close()
		return other, nil
	}
	w.Subscription = nodes
	return nodes, nil
}

// Forget ends the watch in a target.
func (n *Nodes) Forget(cluster clustercache.ClusterKey) {
	n.mu.Lock()
	w := n.watched[cluster]
	delete(n.watched, cluster)
	n.mu.Unlock()
	if w != nil && w.Subscription != nil {
		w.Close()
	}
}

// Close ends all watches.
func (n *Nodes) Close() {
	n.mu.Lock()
	clusters := slices.Collect(maps.Keys(n.watched))
	n.mu.Unlock()
	for _, cluster := range clusters {
		n.Forget(cluster)
	}
}

func (n *Nodes) fault(cluster clustercache.ClusterKey) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w := n.watched[cluster]; w != nil {
		return w.fault
	}
	return nil
}

func (n *Nodes) setFault(cluster clustercache.ClusterKey, err error) {
	n.mu.Lock()
	if w := n.watched[cluster]; w != nil {
		w.fault = err
	}
	n.mu.Unlock()
	n.changed(cluster)
}

// OnUpdate implements clustercache.WatchHandler.
func (n *Nodes) OnUpdate(cluster clustercache.ClusterKey, _ string, _ types.NamespacedName, old, value any) {
	if old != value {
		n.changed(cluster)
	}
}

// OnDelete implements clustercache.WatchHandler.
func (n *Nodes) OnDelete(cluster clustercache.ClusterKey, _ string, _ types.NamespacedName, _ any) {
	n.changed(cluster)
}

// OnSynced implements clustercache.WatchHandler.
func (n *Nodes) OnSynced(cluster clustercache.ClusterKey, _ string) {
	n.setFault(cluster, nil)
}

// OnError implements clustercache.WatchHandler.
func (n *Nodes) OnError(cluster clustercache.ClusterKey, _ string, err error) {
	n.setFault(cluster, err)
}

func stateOf(obj client.Object) state {
	node := &corev1.Node{}
	content, ok := obj.(interface{ UnstructuredContent() map[string]any })
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(content.UnstructuredContent(), node) != nil {
		return state{problem: "its state cannot be read"}
	}

	cloud, _, found := strings.Cut(node.Spec.ProviderID, "://")
	if !found {
		cloud = ""
	}
	region := node.Labels[corev1.LabelTopologyRegion]
	if region == "" {
		region = node.Labels[deprecatedRegionLabel]
	}
	// The texts that are kept are bounded, and share no memory with longer ones.
	return state{
		problem: untrusted.Message(problemOf(node)),
		cloud:   strings.Clone(untrusted.Token(cloud)), region: untrusted.Token(region),
	}
}

// problemOf says what is wrong with a node, which has to be ready and under no pressure.
func problemOf(node *corev1.Node) string {
	ready := false
	for _, condition := range node.Status.Conditions {
		switch condition.Type {
		case corev1.NodeReady:
			if condition.Status != corev1.ConditionTrue {
				return fmt.Sprintf("%s is %s (%s)", condition.Type, condition.Status, condition.Reason)
			}
			ready = true
		case corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable:
			if condition.Status == corev1.ConditionTrue {
				return fmt.Sprintf("%s is %s (%s)", condition.Type, condition.Status, condition.Reason)
			}
		}
	}
	if !ready {
		return "it has not reported its state yet"
	}
	return ""
}
