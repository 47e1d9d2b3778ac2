package tokenrequestor

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// Policy says which ServiceAccounts of a target may be named by access Secrets. Whoever may create Secrets in the home
// namespace of a target can get the rights of each of them. Entries are namespace or namespace/name.
type Policy struct {
	// Allowed are the only ones that may be named. Empty: all.
	Allowed []string
	// Denied may not be named even if they are allowed.
	Denied []string
}

// relevant tells whether a Secret is one of a class.
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
