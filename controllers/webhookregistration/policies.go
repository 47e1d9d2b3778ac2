package webhookregistration

import (
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/policies"
)

// maxPolicies is how many objects of a kind are looked at that have the label of the hub's.
const maxPolicies = 500

// policyKind is a kind of policies with that of their bindings.
type policyKind struct {
	policy, binding string
	// lists are new lists of both. What is deleted is deleted in this order.
	lists func() []client.ObjectList
}

var (
	mutatingPolicies = policyKind{
		policy: "MutatingAdmissionPolicy", binding: "MutatingAdmissionPolicyBinding",
		lists: func() []client.ObjectList {
			return []client.ObjectList{
				&admissionregistrationv1.MutatingAdmissionPolicyBindingList{},
				&admissionregistrationv1.MutatingAdmissionPolicyList{},
			}
		},
	}
	validatingPolicies = policyKind{
		policy: "ValidatingAdmissionPolicy", binding: "ValidatingAdmissionPolicyBinding",
		lists: func() []client.ObjectList {
			return []client.ObjectList{
				&admissionregistrationv1.ValidatingAdmissionPolicyBindingList{},
				&admissionregistrationv1.ValidatingAdmissionPolicyList{},
			}
		},
	}
	policyKinds = []policyKind{mutatingPolicies, validatingPolicies}
)

// watchPolicies has drift of policies noticed, where there may be any.
func (r *reconciler) watchPolicies(builder *multicluster.Builder, selector labels.Selector) {
	for _, kind := range policyKinds {
		for _, name := range []string{kind.policy, kind.binding} {
			builder.Watches(&multicluster.Objects{
				Kind: admissionregistrationv1.SchemeGroupVersion.WithKind(name), MetadataOnly: true,
				LabelSelector: selector, Optional: true, When: func(status clustercache.Status) bool {
					settings := r.Settings(status)
					return r.mayHavePolicies(&settings)
				},
			}, wholeTarget)
		}
	}
}

// mayHavePolicies reports whether settings have some webhooks replaced by policies in a target that serves them.
func (r *reconciler) mayHavePolicies(settings *hubv1alpha1.TargetWebhooks) bool {
	for i := range r.Webhooks {
		if r.registers(i, settings) && policies.WayOf(r.Webhooks[i], settings, true) == policies.Policy {
			return true
		}
	}
	return false
}

// registers reports whether a webhook is switched on and has something to be registered.
func (r *reconciler) registers(i int, settings *hubv1alpha1.TargetWebhooks) bool {
	return r.Webhooks[i].Enabled(settings) && r.Webhooks[i].Registration != nil
}

// servedPolicies are the policies that a target serves, and those of the hub that are there.
type servedPolicies struct {
	// unserved says of each kind that cannot be used why. Keys are the names of policies.
	unserved map[string]string
	// live are those of this registration, in the order in which they can be deleted.
	live []client.Object
}

// readPolicies reads what there is under the name of a registration. A kind that the hub may not list is one that it
// cannot use.
func readPolicies(ctx context.Context, target client.Client, name string) (*servedPolicies, error) {
	s := &servedPolicies{unserved: map[string]string{}}
	for _, kind := range policyKinds {
		switch served, err := serves(target.RESTMapper(), kind); {
		case err != nil:
			return nil, err
		case !served:
			s.unserved[kind.policy] = notServed(kind)
			continue
		}
		for _, list := range kind.lists() {
			labelled := client.MatchingLabels{hubv1alpha1.WebhooksLabel: "true"}
			switch err := target.List(ctx, list, labelled, client.Limit(maxPolicies)); {
			case apierrors.IsForbidden(err):
				s.unserved[kind.policy] = "the hub may not look after " + kind.policy + " in the target"
				continue
			case apierrors.IsNotFound(err): // what the mapper knows is of a version before
				s.unserved[kind.policy] = notServed(kind)
				continue
			case err != nil:
				return nil, fmt.Errorf("reading the policies in the place of webhooks: %w", err)
			}
			if err := meta.EachListItem(list, func(item runtime.Object) error {
				if object, is := item.(client.Object); is && strings.HasPrefix(object.GetName(), name+"-") {
					s.live = append(s.live, object)
				}
				return nil
			}); err != nil {
				return nil, fmt.Errorf("reading the policies in the place of webhooks: %w", err)
			}
		}
	}
	return s, nil
}

func notServed(kind policyKind) string {
	return "the target does not serve " + kind.policy + " in " + admissionregistrationv1.SchemeGroupVersion.String()
}

func serves(mapper meta.RESTMapper, kind policyKind) (bool, error) {
	for _, name := range []string{kind.policy, kind.binding} {
		group := schema.GroupKind{Group: admissionregistrationv1.GroupName, Kind: name}
		_, err := mapper.RESTMapping(group, admissionregistrationv1.SchemeGroupVersion.Version)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("finding out which policies the target serves: %w", err)
		}
	}
	return true, nil
}

// find returns a live object of the type and name of another one; nil if there is none.
func (s *servedPolicies) find(like client.Object) client.Object {
	for _, object := range s.live {
		if identity(object) == identity(like) {
			return object
		}
	}
	return nil
}

// identity distinguishes policies and bindings, which are of types of their own.
func identity(object client.Object) string { return fmt.Sprintf("%T %s", object, object.GetName()) }

// plan is how the webhooks of a target get into its API server.
type plan struct {
	// calls are those that are called, and replaced those that policies are in the place of.
	calls, replaced []admission.Webhook
	// policies are these policies, each before its binding.
	policies []client.Object
	// missing says what cannot be done as the settings demand.
	missing []string
}

// plan makes it.
func (r *reconciler) plan(name string, settings *hubv1alpha1.TargetWebhooks, served *servedPolicies) *plan {
	p := &plan{}
	for i := range r.Webhooks {
		if !r.registers(i, settings) {
			continue
		}
		webhook := r.Webhooks[i]
		kind := mutatingPolicies
		if webhook.Validating {
			kind = validatingPolicies
		}
		reason, unserved := served.unserved[kind.policy]
		switch policies.WayOf(webhook, settings, !unserved) {
		case policies.Call:
			p.calls = append(p.calls, webhook)
		case policies.Policy:
			p.replaced = append(p.replaced, webhook)
			p.policies = append(p.policies, policies.Of(name+"-", webhook, settings)...)
		case policies.Missing:
			p.missing = append(p.missing, webhook.Name+": "+reason)
		case policies.Off:
		}
	}
	return p
}

// writePolicies brings the policies of a plan in line, and returns whether there was anything to be written.
func writePolicies(
	ctx context.Context, target client.Client, p *plan, live *servedPolicies, like metav1.ObjectMeta,
) (written bool, err error) {
	for _, object := range p.policies {
		object.SetLabels(like.Labels)
		object.SetAnnotations(like.Annotations)
		wrote, err := writePolicy(ctx, target, object, live.find(object))
		if err != nil {
			return written, err
		}
		written = written || wrote
	}
	return written, nil
}

func writePolicy(ctx context.Context, target client.Client, desired, live client.Object) (bool, error) {
	switch desired := desired.(type) {
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return putPolicy(ctx, target, desired, &admissionregistrationv1.MutatingAdmissionPolicy{}, live,
			func(into *admissionregistrationv1.MutatingAdmissionPolicy) bool {
				return take(&into.Spec, desired.Spec)
			})
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return putPolicy(ctx, target, desired, &admissionregistrationv1.MutatingAdmissionPolicyBinding{}, live,
			func(into *admissionregistrationv1.MutatingAdmissionPolicyBinding) bool {
				return take(&into.Spec, desired.Spec)
			})
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return putPolicy(ctx, target, desired, &admissionregistrationv1.ValidatingAdmissionPolicy{}, live,
			func(into *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
				return take(&into.Spec, desired.Spec)
			})
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return putPolicy(ctx, target, desired, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, live,
			func(into *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
				return take(&into.Spec, desired.Spec)
			})
	}
	return false, fmt.Errorf("a %T is no policy", desired)
}

// putPolicy is put for an object that was read already, unless known is nil.
func putPolicy[T client.Object](
	ctx context.Context, target client.Client, desired, empty T, known client.Object, take func(T) bool,
) (bool, error) {
	if live, is := known.(T); is {
		return change(ctx, target, desired, live, take)
	}
	return put(ctx, target, desired, empty, take)
}

// take sets what is desired, and returns whether that was so already.
func take[S any](live *S, desired S) (same bool) {
	same = equality.Semantic.DeepEqual(*live, desired)
	*live = desired
	return same
}

// obsolete are live objects that are not in a plan: those in whose place the hub is to be called, and others.
func (p *plan) obsolete(
	name string, settings *hubv1alpha1.TargetWebhooks, live *servedPolicies,
) (called, others []client.Object) {
	wanted, calls := sets.New[string](), sets.New[string]()
	for _, object := range p.policies {
		wanted.Insert(identity(object))
	}
	for _, webhook := range p.calls {
		for _, entry := range webhook.Entries(settings) {
			calls.Insert(name + "-" + entry.Name)
		}
	}
	for _, object := range live.live {
		switch {
		case wanted.Has(identity(object)):
		case calls.Has(object.GetName()):
			called = append(called, object)
		default:
			others = append(others, object)
		}
	}
	return called, others
}

// removePolicies deletes policies and bindings.
func removePolicies(ctx context.Context, target client.Client, objects []client.Object) error {
	for _, object := range objects {
		uid := object.GetUID()
		err := target.Delete(ctx, object, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the policy %s: %w", object.GetName(), err)
		}
	}
	return nil
}
