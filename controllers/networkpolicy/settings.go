package networkpolicy

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
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

// SettingsOf are those of a target whose Services get policies as own says. Nil: they get none.
func SettingsOf(own *hubv1alpha1.NetworkPolicyController) (settings Settings, on bool) {
	if own == nil {
		return Settings{}, false
	}
	settings = Settings{
		ConcurrentSyncs: int(*own.ConcurrentSyncs), NamespaceSelectors: own.NamespaceSelectors,
		OnlyWithClientPods: ptr.Deref(own.OnlyWithClientPods, false),
	}
	if ingress := own.IngressControllerSelector; ingress != nil {
		settings.IngressController = &IngressController{Namespace: ingress.Namespace, PodSelector: ingress.PodSelector}
	}
	return settings, true
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
