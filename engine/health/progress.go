package health

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// ProgressResult says whether an object is still rolling out. The zero value is that of an object without roll-outs.
type ProgressResult struct {
	// Checked is false if the object has no roll-outs, or is annotated with skip-health-check.
	Checked bool
	// Progressing is true if the object is still rolling out.
	Progressing bool
	// Problem says what it is waiting for.
	Problem

	// Selector selects the pods of a workload, for PodsRolledOut and Explain. It is nil for everything else.
	Selector labels.Selector
	// CountPods is set if the object itself reports to be rolled out, so that PodsRolledOut decides by its pods.
	CountPods bool
	// Replicas is the number of pods that Selector should match if CountPods is set.
	Replicas int64
	// Ending is how many pods are terminating according to the workload's status. It is zero before Kubernetes 1.35.
	Ending int64
	// Reported is the problem that the workload's status reports about its pods, if CountPods is set. It is used where
	// pods are not watched.
	Reported Problem
}

// Progress reports whether a live object is still rolling out. For a Deployment, also ask PodsRolledOut.
func Progress(object *unstructured.Unstructured) ProgressResult {
	live, kind := content(object.Object), kindOf(object.GroupVersionKind().GroupKind())
	if !kind.checks(live) || kind.progressing == nil {
		return ProgressResult{}
	}
	problem := kind.progressing(live)
	result := ProgressResult{Checked: true, Progressing: problem != Problem{}, Problem: problem}
	if !kind.selectsPods {
		return result
	}
	selector, err := live.podSelector()
	result.Selector = selector
	if !kind.countsPods || result.Progressing {
		return result
	}
	if err != nil {
		result.Progressing, result.Problem = true, failed(err.Error())
		return result
	}
	result.CountPods = true
	result.Replicas, _ = live.replicas()
	result.Ending = live.number(0, "status", "terminatingReplicas")
	result.Reported = live.reportedPods(result.Replicas, result.Ending)
	return result
}

// podSelector returns what selects the pods of a workload, labels and expressions alike. A selector that is empty
// selects nothing: to Kubernetes' own function it means all pods of the namespace (BUG-5).
func (c content) podSelector() (labels.Selector, error) {
	given, _ := c.field("spec", "selector").(map[string]any)
	expressions, _ := given["matchExpressions"].([]any)
	if len(expressions) == 0 {
		wanted, _, err := unstructured.NestedStringMap(given, "matchLabels")
		switch {
		case err != nil:
			return nil, errors.New("the selector cannot be read")
		case len(wanted) == 0:
			return labels.Nothing(), nil
		}
		return labels.ValidatedSetSelector(wanted), nil // cheaper than LabelSelectorAsSelector
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(given, &selector); err != nil {
		return nil, errors.New("the selector cannot be read")
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, errors.New("the selector is not valid")
	}
	return parsed, nil
}
