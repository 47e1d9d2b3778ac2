package networkpolicy

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Settings are those of the controller in one target.
type Settings struct {
	// ConcurrentSyncs is how many Services of the target are worked on at a time. Less than one is one.
	ConcurrentSyncs int
	// NamespaceSelectors select the namespaces whose Services get policies. Without any, all do.
	NamespaceSelectors []metav1.LabelSelector
	// IngressController has the pods that Ingresses let in. Nil: Ingresses are not looked at.
	IngressController *IngressController
	// OnlyWithClientPods leaves out policies for clients that do not exist: as long as no pod of their namespace has the
	// label.
	OnlyWithClientPods bool
}

func (s *Settings) selectors() ([]labels.Selector, error) {
	selectors := make([]labels.Selector, 0, len(s.NamespaceSelectors))
	for i := range s.NamespaceSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&s.NamespaceSelectors[i])
		if err != nil {
			return nil, fmt.Errorf("namespaceSelectors[%d]: %w", i, err)
		}
		selectors = append(selectors, selector)
	}
	return selectors, nil
}
