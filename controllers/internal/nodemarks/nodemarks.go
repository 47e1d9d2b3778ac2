package nodemarks

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// CriticalComponentsTaint is the key of a taint, of any effect, that keeps workloads away from a Node until the
	// components are ready that it cannot do without.
	CriticalComponentsTaint = "node.gardener.cloud/critical-components-not-ready"
	// AgentSecretLabel is the label of a Node with the name of the Secret with which its node agent is configured.
	AgentSecretLabel = "worker.gardener.cloud/gardener-node-agent-secret-name"
)

// Marks are what is kept of a Node.
type Marks struct {
	// Waits is whether it has CriticalComponentsTaint.
	Waits bool
	// AgentSecret is the value of AgentSecretLabel.
	AgentSecret string
}

// Nodes are those of a target. Marks are kept of each.
var Nodes = &multicluster.Objects{
	Kind:      corev1.SchemeGroupVersion.WithKind("Node"),
	Fields:    [][]string{{"spec", "taints"}},
	Transform: func(obj client.Object) any { return marksOf(obj) },
	Form:      "marks of nodes",
}

func marksOf(obj client.Object) Marks {
	// What is kept shares no memory with the object.
	marks := Marks{AgentSecret: strings.Clone(untrusted.Name(obj.GetLabels()[AgentSecretLabel]))}
	content, ok := obj.(interface{ UnstructuredContent() map[string]any })
	if !ok {
		return marks
	}
	taints, _, err := unstructured.NestedFieldNoCopy(content.UnstructuredContent(), "spec", "taints")
	if err != nil {
		return marks
	}
	list, _ := taints.([]any)
	for _, item := range list {
		if taint, _ := item.(map[string]any); taint["key"] == CriticalComponentsTaint {
			marks.Waits = true
		}
	}
	return marks
}
