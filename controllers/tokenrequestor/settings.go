package tokenrequestor

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// Settings are those of the token requestor in one target. The zero value is responsible for Secrets of any class,
// names no audiences and allows all ServiceAccounts but the hub's own.
type Settings struct {
	// ConcurrentSyncs is how many Secrets of the target are worked on at a time. Less than one is one.
	ConcurrentSyncs int
	// Class is the value that the label ClassLabel of a Secret must have. Nil: any, or none. A resource manager has
	// "shoot", a gardenlet "garden".
	Class *string
	// Audiences are those of tokens. None: the API server's own. A resource manager has "gardener", which the API server
	// of the target must accept then (--api-audiences).
	Audiences []string
	// TargetNamespace is the namespace of all ServiceAccounts. Empty: that of the annotation.
	TargetNamespace string
	// Policy says which ServiceAccounts may be named.
	Policy Policy
}

// SettingsOf are those of a target whose tokens are requested as own says. Nil: none are.
func SettingsOf(own *hubv1alpha1.TokenRequestorController) (settings Settings, on bool) {
	if own == nil {
		return Settings{}, false
	}
	s := Settings{
		ConcurrentSyncs: int(*own.ConcurrentSyncs), Audiences: own.TokenAudiences(),
		TargetNamespace: ptr.Deref(own.TargetNamespace, ""),
		Policy:          Policy{Allowed: own.AllowedServiceAccounts, Denied: own.DeniedServiceAccounts},
	}
	if *own.Class != "" {
		s.Class = own.Class
	}
	return s, true
}

// Policy says which ServiceAccounts of a target may be named by access Secrets. A user who may create Secrets in the
// home namespace of a target can get the rights of each of them. Entries are namespace or namespace/name.
type Policy struct {
	// Allowed are the only ones that may be named. Empty: all.
	Allowed []string
	// Denied may not be named even if they are allowed.
	Denied []string
}

// relevant reports whether a Secret is one of a class.
func relevant(obj client.Object, class *string) bool {
	labels := obj.GetLabels()
	if labels[PurposeLabel] != Purpose {
		return false
	}
	if class == nil {
		return true
	}
	actual, has := labels[ClassLabel]
	return has && actual == *class
}

// refuses says why a ServiceAccount may not be named; empty if it may. own is that of the hub in the target, which only
// the Secret may name that the hub itself takes its access from.
func (p Policy) refuses(account, own types.NamespacedName, selfAccess bool) string {
	listed := func(list []string) bool {
		return slices.Contains(list, account.Namespace) || slices.Contains(list, account.String())
	}
	switch {
	case listed(p.Denied):
		return fmt.Sprintf("ServiceAccount %s is denied by the policy of the hub", account)
	case len(p.Allowed) > 0 && !listed(p.Allowed):
		return fmt.Sprintf("ServiceAccount %s is not among those that the policy of the hub allows", account)
	case account == own && !selfAccess:
		return fmt.Sprintf("ServiceAccount %s is the hub's own in the target: only the Secret by which the target is "+
			"registered may name it", account)
	}
	return ""
}

// permit returns what an access Secret asks for and may not have; nil if there is nothing. own is as for refuses.
func (s Settings) permit(a *access, own types.NamespacedName, selfAccess bool) error {
	if refusal := s.Policy.refuses(a.account, own, selfAccess); refusal != "" {
		return &inputError{reasonDenied, refusal}
	}
	if selfAccess && a.targetSecret.Name != "" {
		return &inputError{reasonInvalidAnnotation, fmt.Sprintf(
			"Annotation %s: the Secret registers the target, so that its token has to stay in it", TargetSecretNameAnnotation)}
	}
	return nil
}
