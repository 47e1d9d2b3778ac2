package nodes

import (
	"context"
	"errors"
	"fmt"
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
	watched map[clustercache.ClusterKey]error // with the fault of the watch, if it has one
}

// New returns what watches no node yet. changed is called when something is new.
func New(clusters clustercache.ClusterCache, changed func(...clustercache.ClusterKey)) *Nodes {
	return &Nodes{clusters: clusters, changed: changed, watched: map[clustercache.ClusterKey]error{}}
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
	if err := n.watch(ctx, cluster); err != nil {
		return Summary{Fault: err}
	}

	var summary Summary
	var worst, first string
	synced := n.clusters.Range(cluster, watchName, func(key types.NamespacedName, value any) bool {
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

func (n *Nodes) watch(ctx context.Context, cluster clustercache.ClusterKey) error {
	n.mu.Lock()
	if _, ok := n.watched[cluster]; !ok {
		n.watched[cluster] = nil
	}
	n.mu.Unlock()
	return n.clusters.Watch(ctx, cluster, clustercache.Watcher{
		Name:      watchName,
		Kind:      corev1.SchemeGroupVersion.WithKind("Node"),
		Fields:    [][]string{{"spec", "providerID"}, {"status", "conditions"}},
		Transform: func(obj client.Object) any { return stateOf(obj) },
		Handler:   n,
	})
}

// Forget ends the watch in a target.
func (n *Nodes) Forget(ctx context.Context, cluster clustercache.ClusterKey) error {
	n.mu.Lock()
	_, watched := n.watched[cluster]
	delete(n.watched, cluster)
	n.mu.Unlock()
	if !watched {
		return nil
	}
	if err := n.clusters.Unwatch(ctx, cluster, watchName); err != nil && !errors.Is(err, clustercache.ErrClusterUnknown) {
		return fmt.Errorf("cannot end the watch of nodes: %w", err)
	}
	return nil
}

// Close ends all watches.
func (n *Nodes) Close(ctx context.Context) {
	n.mu.Lock()
	var clusters []clustercache.ClusterKey
	for cluster := range n.watched {
		clusters = append(clusters, cluster)
	}
	n.mu.Unlock()
	for _, cluster := range clusters {
		_ = n.Forget(ctx, cluster) // the process or the term ends, there is nobody to tell
	}
}

func (n *Nodes) fault(cluster clustercache.ClusterKey) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.watched[cluster]
}

func (n *Nodes) setFault(cluster clustercache.ClusterKey, err error) {
	n.mu.Lock()
	if _, watched := n.watched[cluster]; watched {
		n.watched[cluster] = err
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
