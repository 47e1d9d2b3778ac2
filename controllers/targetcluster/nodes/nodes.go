package nodes

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

// deprecatedRegionLabel is what nodes had before corev1.LabelTopologyRegion.
const deprecatedRegionLabel = corev1.LabelFailureDomainBetaRegion

var objects = &multicluster.Objects{
	Kind:      corev1.SchemeGroupVersion.WithKind("Node"),
	Fields:    [][]string{{"spec", "providerID"}, {"status", "conditions"}},
	Transform: func(obj client.Object) any { return stateOf(obj) },
	Form:      "state of nodes",
}

// Nodes watches the nodes of all connected targets for one term of leadership. Make one with New.
type Nodes struct{ *multicluster.Controller }

// New returns what watches no node until it is started. changed is called when something is new of the nodes of a
// target.
func New(environment multicluster.Environment, changed func(...clustercache.ClusterKey)) (*Nodes, error) {
	controller, err := multicluster.New("nodes", environment).Watches(objects, ofTarget).OnSync().InDuplicates().Complete(
		multicluster.ReconcilerFunc(func(
			_ context.Context, target *multicluster.Target, _ types.NamespacedName,
		) (reconcile.Result, error) {
			changed(target.Key())
			return reconcile.Result{}, nil
		}))
	return &Nodes{controller}, err
}

// ofTarget has the target reconciled as a whole, unless nothing that matters has changed of a node.
func ofTarget(_ types.NamespacedName, old, value any) []types.NamespacedName {
	if old == value {
		return nil
	}
	return []types.NamespacedName{{}}
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

// Summarize returns what is known of the nodes of a target: nothing while it was not connected yet.
func (n *Nodes) Summarize(cluster clustercache.ClusterKey) Summary {
	nodes, fault := n.Objects(cluster, objects)
	if nodes == nil {
		return Summary{}
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
		return Summary{Fault: fault}
	}
	summary.Known = true
	return summary
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
