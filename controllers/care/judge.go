package care

import (
	"cmp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

const (
	// defaultTimeout is that of a webhook without one.
	defaultTimeout = 10
	// longestTimeout is the most that does no harm: components of a control plane wait 30 seconds for all that one of
	// their requests needs. longestLeaseTimeout is that for Leases, which have to be renewed within 10 seconds.
	longestTimeout, longestLeaseTimeout = 15, 3
)

// vital is a resource without which a target does not live.
type vital struct {
	group, version, resource string
	subresources             []string
	// namespaces are those in which it is vital; nil: it is in none.
	namespaces []string
}

var (
	kubeSystem           = []string{metav1.NamespaceSystem}
	kubeSystemAndDefault = []string{metav1.NamespaceDefault, metav1.NamespaceSystem}
)

// leases are renewed by the components of the control plane, and by kubelets.
var leases = vital{
	"coordination.k8s.io", "v1", "leases", nil, []string{corev1.NamespaceNodeLease, metav1.NamespaceSystem},
}

// vitals are all of these resources.
var vitals = []vital{
	leases,
	{"", "v1", "pods", []string{"status"}, kubeSystem},
	{"", "v1", "configmaps", nil, kubeSystem},
	{"", "v1", "endpoints", nil, kubeSystemAndDefault},
	{"", "v1", "secrets", nil, kubeSystem},
	{"", "v1", "serviceaccounts", nil, kubeSystem},
	{"", "v1", "services", []string{"status"}, kubeSystemAndDefault},
	{"apps", "v1", "controllerrevisions", nil, kubeSystem},
	{"apps", "v1", "daemonsets", []string{"status"}, kubeSystem},
	{"apps", "v1", "deployments", []string{"status", "scale"}, kubeSystem},
	{"apps", "v1", "replicasets", []string{"status", "scale"}, kubeSystem},
	{"networking.k8s.io", "v1", "networkpolicies", nil, kubeSystem},
	{"rbac.authorization.k8s.io", "v1", "roles", nil, kubeSystem},
	{"rbac.authorization.k8s.io", "v1", "rolebindings", nil, kubeSystem},

	{"", "v1", "nodes", []string{"status"}, nil},
	namespaces,
	{"rbac.authorization.k8s.io", "v1", "clusterroles", nil, nil},
	{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", nil, nil},
	{"apiextensions.k8s.io", "v1", "customresourcedefinitions", []string{"status"}, nil},
	{"apiregistration.k8s.io", "v1", "apiservices", []string{"status"}, nil},
	{"certificates.k8s.io", "v1", "certificatesigningrequests", []string{"status", "approval"}, nil},
	{"scheduling.k8s.io", "v1", "priorityclasses", nil, nil},
}

// namespaces are in no namespace, and yet namespace selectors apply to them: to their own labels.
var namespaces = vital{"", "v1", "namespaces", []string{"status", "finalize"}, nil}

// systemObjects are the labels that objects of a system have: most have none that a selector would ask for, those of
// Gardener have these.
var systemObjects = []labels.Set{nil, {"origin": "gardener", "resources.gardener.cloud/managed-by": "gardener"}}

// hook is a webhook of either kind.
type hook struct {
	name                              string
	failurePolicy                     *admissionregistrationv1.FailurePolicyType
	matchPolicy                       *admissionregistrationv1.MatchPolicyType
	rules                             []admissionregistrationv1.RuleWithOperations
	objectSelector, namespaceSelector *metav1.LabelSelector
	timeout                           *int32
}

// problem is what is wrong with a webhook.
type problem struct {
	// fails is whether vital requests fail if the webhook does not answer. They are in these namespaces, and in none if
	// clusterScoped is set.
	fails         bool
	namespaces    []string
	clusterScoped bool
	// timeout is the most that the webhook may have; zero: it has no more than that.
	timeout int32
	// resource is one that the webhook is called for.
	resource string
}

func (p problem) none() bool { return !p.fails && p.timeout == 0 }

// judge returns what is wrong with a webhook in a target. system are the labels of the namespace kube-system there.
func judge(h hook, system labels.Set) problem {
	objects, err := selector(h.objectSelector)
	within, err2 := selector(h.namespaceSelector)
	if err != nil || err2 != nil {
		return problem{} // no API server would call it
	}
	p := problem{fails: ptr.Deref(h.failurePolicy, admissionregistrationv1.Fail) != admissionregistrationv1.Ignore}
	longest, hit := int32(longestTimeout), false
	touch := func(v *vital, namespace string) {
		hit = true
		p.resource = cmp.Or(p.resource, v.resource)
		if namespace == "" {
			p.clusterScoped = true
		} else if !slices.Contains(p.namespaces, namespace) {
			p.namespaces = append(p.namespaces, namespace)
		}
		if v.resource == leases.resource && namespace == metav1.NamespaceSystem {
			longest = longestLeaseTimeout
		}
	}
	isCalled := slices.ContainsFunc(systemObjects, func(l labels.Set) bool { return objects.Matches(l) })
	for i := range vitals {
		v := &vitals[i]
		switch {
		case !slices.ContainsFunc(h.rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return v.isIn(r, h.matchPolicy)
		}):
		case v.resource == namespaces.resource:
			// Only kube-system itself is vital, and it can be excluded as a namespace.
			if within.Matches(system) && objects.Matches(system) {
				touch(v, metav1.NamespaceSystem)
			}
		case !isCalled:
		case v.namespaces == nil:
			touch(v, "")
		default:
			for _, namespace := range v.namespaces {
				if within.Matches(labelsOf(namespace, system)) {
					touch(v, namespace)
				}
			}
		}
	}
	if !hit {
		return problem{}
	}
	if ptr.Deref(h.timeout, defaultTimeout) > longest {
		p.timeout = longest
	}
	slices.Sort(p.namespaces)
	return p
}

// labelsOf are the labels of a namespace.
func labelsOf(namespace string, system labels.Set) labels.Set {
	if namespace == metav1.NamespaceSystem {
		return system
	}
	return labels.Set{corev1.LabelMetadataName: namespace}
}

// selector is that of a webhook. Without one it is called for everything.
func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s) //nolint:wrapcheck // it is not reported
}

// isIn reports whether a rule is about the creation or a change of a resource.
func (v *vital) isIn(
	r admissionregistrationv1.RuleWithOperations, match *admissionregistrationv1.MatchPolicyType,
) bool {
	writes := slices.ContainsFunc(r.Operations, func(o admissionregistrationv1.OperationType) bool {
		return o == admissionregistrationv1.OperationAll || o == admissionregistrationv1.Create ||
			o == admissionregistrationv1.Update
	})
	has := func(list []string, one string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, one)
	}
	scope := admissionregistrationv1.NamespacedScope
	if v.namespaces == nil {
		scope = admissionregistrationv1.ClusterScope
	}
	only := ptr.Deref(r.Scope, admissionregistrationv1.AllScopes)
	// A rule about another version is about this one, too, unless it is to match exactly.
	exact := ptr.Deref(match, admissionregistrationv1.Equivalent) == admissionregistrationv1.Exact
	return writes && has(r.APIGroups, v.group) && (!exact || has(r.APIVersions, v.version)) &&
		(only == admissionregistrationv1.AllScopes || only == scope) && slices.ContainsFunc(r.Resources, v.is)
}

// is reports whether the resource or one of its subresources is meant by an entry of a rule.
func (v *vital) is(entry string) bool {
	resource, subresource, _ := strings.Cut(entry, "/")
	if resource != "*" && resource != v.resource {
		return false
	}
	return subresource == "" || subresource == "*" || slices.Contains(v.subresources, subresource)
}
