package nodeagentauthorizer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/untrusted"
)

// request is one of a node agent.
type request struct {
	attributes *authorizationv1.ResourceAttributes
	user, name string
	settings   Settings

	source client.Reader
	target client.Reader
}

// rule is what agents may do with a resource.
type rule struct {
	verbs, subresources []string
	// decide looks at the object. Nil: all may be done.
	decide func(r *request, ctx context.Context) (Decision, error)
}

// resource is one by its group.
type resource struct{ group, name string }

var rules = map[resource]rule{
	{"certificates.k8s.io", "certificatesigningrequests"}: {
		verbs: []string{"get", "create"}, decide: (*request).certificateRequest,
	},
	{"", "events"}:              {verbs: []string{"create", "patch"}},
	{"events.k8s.io", "events"}: {verbs: []string{"create", "patch"}},
	{"coordination.k8s.io", "leases"}: {
		verbs: []string{"get", "list", "watch", "create", "update"}, decide: (*request).lease,
	},
	{"", "nodes"}: {
		verbs: []string{"get", "list", "watch", "patch",
			"update"}, subresources: []string{"status"}, decide: (*request).ofNode,
	},
	{"", "pods"}:    {verbs: []string{"get", "list", "watch", "delete"}, decide: (*request).pod},
	{"", "secrets"}: {verbs: []string{"get", "list", "watch"}, decide: (*request).secret},
}

func (r *request) decide(ctx context.Context) (Decision, error) {
	a := r.attributes
	rule, known := rules[resource{a.Group, a.Resource}]
	if !known {
		return deny("node agents may not access %s", untrusted.Name(a.Resource))
	}
	if !slices.Contains(rule.verbs, a.Verb) {
		return deny("only the verbs %s are allowed for %s", strings.Join(rule.verbs, ", "), a.Resource)
	}
	if a.Subresource != "" && !slices.Contains(rule.subresources, a.Subresource) {
		return deny("only the subresources %v are allowed for %s", rule.subresources, a.Resource)
	}
	if rule.decide == nil {
		return allow, nil
	}
	return rule.decide(r, ctx)
}

func (r *request) certificateRequest(ctx context.Context) (Decision, error) {
	if r.attributes.Verb == "create" {
		return allow, nil
	}
	if r.attributes.Name == "" {
		return deny("the name of a certificate signing request is missing")
	}
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := r.read(ctx, r.target, client.ObjectKey{Name: r.attributes.Name}, csr); err != nil {
		return Decision{}, err
	}
	if csr.Spec.Username != r.user {
		return deny("only certificate signing requests of %s are allowed", untrusted.Name(r.user))
	}
	return allow, nil
}

func (r *request) ofNode(ctx context.Context) (Decision, error) {
	if verb := r.attributes.Verb; verb == "list" || verb == "watch" {
		return allow, nil
	}
	node, _, err := r.own(ctx)
	switch {
	case err != nil:
		return Decision{}, err
	case node == nil:
		return r.noNode()
	case node.Name != r.attributes.Name:
		return deny("only node %s is allowed", untrusted.Name(node.Name))
	}
	return allow, nil
}

// noNode is said if the agent's node does not exist, or its machine has none yet.
func (r *request) noNode() (Decision, error) {
	return deny("there is no node for %s", untrusted.Name(r.name))
}

func (r *request) lease(ctx context.Context) (Decision, error) {
	if r.attributes.Namespace != metav1.NamespaceSystem {
		return deny("only leases in the namespace %s are allowed", metav1.NamespaceSystem)
	}
	node, machine, err := r.own(ctx)
	switch {
	case err != nil:
		return Decision{}, err
	case node == nil:
		return r.noNode()
	case r.attributes.Verb == "create":
		return allow, nil
	}
	allowed := []string{"gardener-node-agent-" + node.Name}
	configurations, err := r.configurations(ctx, node, machine)
	if err != nil {
		return Decision{}, err
	}
	for _, c := range configurations {
		allowed = append(allowed, c.Name)
	}
	if !slices.Contains(allowed, r.attributes.Name) {
		return deny("only the leases %s are allowed", names(allowed))
	}
	return allow, nil
}

func (r *request) pod(ctx context.Context) (Decision, error) {
	a := r.attributes
	if verb := a.Verb; verb == "get" || verb == "delete" || a.Name != "" && r.settings.AuthorizeWithSelectors {
		return r.onePod(ctx)
	}
	if !r.settings.AuthorizeWithSelectors {
		return allow, nil
	}
	selected, err := selectedNode(a.FieldSelector)
	switch {
	case err != nil:
		return Decision{}, err
	case selected == "":
		return deny("pods need to be selected by spec.nodeName")
	}
	node, _, err := r.own(ctx)
	switch {
	case err != nil:
		return Decision{}, err
	case node == nil:
		return r.noNode()
	case node.Name != selected:
		return deny("only pods on node %s are allowed", untrusted.Name(node.Name))
	}
	return allow, nil
}

func (r *request) onePod(ctx context.Context) (Decision, error) {
	if r.attributes.Name == "" {
		return deny("the name of a pod is missing")
	}
	node, _, err := r.own(ctx)
	switch {
	case err != nil:
		return Decision{}, err
	case node == nil:
		return r.noNode()
	}
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: r.attributes.Namespace, Name: r.attributes.Name}
	if err := r.read(ctx, r.target, key, pod); err != nil {
		return Decision{}, err
	}
	if pod.Spec.NodeName != node.Name {
		return deny("only pods on node %s are allowed", untrusted.Name(node.Name))
	}
	return allow, nil
}

// maxRequirements bounds selectors, and maxSelector their text.
const maxRequirements, maxSelector = 20, 4096

// selectedNode is the only one whose pods are selected; empty if pods of others may be, too.
func selectedNode(s *authorizationv1.FieldSelectorAttributes) (string, error) {
	const field = "spec.nodeName"
	if s == nil {
		return "", nil
	}
	if len(s.Requirements) > maxRequirements || len(s.RawSelector) > maxSelector {
		return "", fmt.Errorf("the field selector has more than %d requirements or %d bytes", maxRequirements,
			maxSelector)
	}
	for _, requirement := range s.Requirements {
		if requirement.Key == field && requirement.Operator == metav1.FieldSelectorOpIn &&
			len(requirement.Values) == 1 {
			return requirement.Values[0], nil
		}
	}
	if s.RawSelector == "" {
		return "", nil
	}
	selector, err := fields.ParseSelector(s.RawSelector)
	if err != nil {
		return "", fmt.Errorf("read the field selector: %w", err)
	}
	node, _ := selector.RequiresExactMatch(field)
	return node, nil
}

// read reads an object, with a deadline.
func (r *request) read(ctx context.Context, from client.Reader, key client.ObjectKey, into client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := from.Get(ctx, key, into); err != nil {
		return fmt.Errorf("read %T: %w", into, err)
	}
	return nil
}

// names are those of a message.
func names(all []string) string {
	var bounded []string
	for _, name := range all[:min(len(all), 20)] {
		bounded = append(bounded, untrusted.Name(name))
	}
	return strings.Join(bounded, ", ")
}
