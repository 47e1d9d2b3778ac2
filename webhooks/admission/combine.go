package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// separator separates the parts of the path of a combined webhook. No path of a single webhook has it.
const separator = "."

// combinedPrefix begins the names of combined webhooks.
const combinedPrefix = "combined-"

// combination is a webhook of pods that does the work of several, its members, in their order. Each of them gets the
// pod as the one before has left it, if it is enabled and the object selector of its entry matches.
type combination struct {
	// scope is the one that the entry was registered for: while it changes, object selectors are still those that an
	// API server would evaluate for separate entries.
	scope   hubv1alpha1.WebhookScope
	members []Webhook
}

// podMutation is the handler of webhooks that can be combined.
type podMutation = mutation[corev1.Pod, *corev1.Pod]

func scopeOf(settings *hubv1alpha1.TargetWebhooks) hubv1alpha1.WebhookScope {
	if IsRuntime(settings) {
		return hubv1alpha1.WebhookScopeRuntime
	}
	return hubv1alpha1.WebhookScopeTarget
}

// webhook returns the combination as one webhook. Its path lists the members: it says what was registered, and not what
// the settings have become since.
func (c *combination) webhook() Webhook {
	parts := []string{strings.ToLower(string(c.scope))}
	for i := range c.members {
		parts = append(parts, c.members[i].Path)
	}
	return Webhook{
		Name: combinedPrefix + c.members[0].Name,
		Path: strings.Join(parts, separator),
		Settings: func(settings *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			for i := range c.members {
				if c.members[i].Enabled(settings) {
					return c.members[i].Settings(settings)
				}
			}
			return nil
		},
		Registration: func(settings *hubv1alpha1.TargetWebhooks) []Entry {
			return []Entry{combinedEntry(c.members, settings)}
		},
		Handler: podMutation(c.mutate),
	}
}

// mutate has each member change the pod. The first that refuses the pod or fails ends it, unless API servers ignore
// failures: then those that fail are left out, as if they had been called separately. A panic always ends it, because
// nobody knows what has been changed until then. Nor does one continue if all fail: API servers then learn of it.
func (c *combination) mutate(ctx context.Context, request *Request, pod *corev1.Pod) (response Response, err error) {
	registered := request.Settings
	registered.Registration = &hubv1alpha1.WebhookRegistration{Scope: &c.scope}
	var messages, failed []string
	done := false
	for i := range c.members {
		member := &c.members[i]
		if !member.Enabled(&request.Settings) {
			continue
		}
		if selected, err := member.selects(&registered, pod.Labels); err != nil {
			return response, &MemberError{member.Name, err}
		} else if !selected {
			continue
		}
		own, err := member.mutatePod(ctx, request, pod)
		if err != nil {
			err = &MemberError{member.Name, err}
			if !request.Ignored || ends(err) {
				return response, err
			}
			response.Ignored, failed = append(response.Ignored, err), append(failed, member.Name)
			continue
		}
		done = true
		response.Warnings = append(response.Warnings, own.Warnings...)
		if own.Message != "" {
			messages = append(messages, own.Message)
		}
	}
	if len(failed) > 0 && !done {
		return Response{}, errors.Join(response.Ignored...)
	}
	if len(failed) > 0 {
		response.Warnings = append(response.Warnings, "webhooks that failed were left out: "+strings.Join(failed, ", "))
	}
	response.Message = strings.Join(messages, "; ")
	return response, nil
}

// ends reports whether an error of a member ends the call whatever the failure policy is.
func ends(err error) bool {
	var refused *RefusedError
	var panicked *PanicError
	return errors.As(err, &refused) || errors.As(err, &panicked)
}

// mutatePod does the work of a member.
func (w *Webhook) mutatePod(ctx context.Context, request *Request, pod *corev1.Pod) (response Response, err error) {
	defer Recovered(&err)
	mutate, is := w.Handler.(podMutation)
	if !is {
		return Response{}, fmt.Errorf("a %T cannot be combined with others", w.Handler)
	}
	return mutate(ctx, request, pod)
}

// selects reports whether the object selector of a member matches labels.
func (w *Webhook) selects(settings *hubv1alpha1.TargetWebhooks, of map[string]string) (bool, error) {
	selector, err := metav1.LabelSelectorAsSelector(&w.Registration(settings)[0].ObjectSelector)
	if err != nil {
		return false, fmt.Errorf("reading its object selector: %w", err)
	}
	return selector.Matches(labels.Set(of)), nil
}

// CombinedAt returns the combined webhook of a path; false: it is none. Its members are some of the webhooks that can
// be combined, each once. They are called in the order of the list, whatever the path says.
func CombinedAt(path string, webhooks []Webhook) (combined Webhook, is bool) {
	parts := strings.SplitN(path, separator, len(webhooks)+2)
	c := &combination{}
	for _, scope := range []hubv1alpha1.WebhookScope{hubv1alpha1.WebhookScopeTarget, hubv1alpha1.WebhookScopeRuntime} {
		if strings.ToLower(string(scope)) == parts[0] {
			c.scope = scope
		}
	}
	for i := range webhooks {
		if webhooks[i].Combines && slices.Contains(parts[1:], webhooks[i].Path) {
			c.members = append(c.members, webhooks[i])
		}
	}
	if c.scope == "" || len(c.members) < 2 || len(c.members) != len(parts)-1 {
		return Webhook{}, false
	}
	return c.webhook(), true
}

// PathsIn returns the paths of the webhooks that a call of a path is for: of the members if it is combined.
func PathsIn(path string) []string {
	if parts := strings.Split(path, separator); len(parts) > 1 {
		return parts[1:]
	}
	return []string{path}
}

// Combined returns webhooks with those combined that can be, and that have the same namespace selector and the same
// failure policy. A combined webhook is where its first member was: no webhook of pods depends on what another changes.
func Combined(webhooks []Webhook, settings *hubv1alpha1.TargetWebhooks) (all []Webhook) {
	var groups [][]Webhook
	for _, webhook := range webhooks {
		i := slices.IndexFunc(groups, func(members []Webhook) bool {
			first := &members[0]
			return first.Combines && first.Enabled(settings) && webhook.Combines && webhook.Enabled(settings) &&
				first.Entries(settings)[0].calledWith(webhook.Entries(settings)[0])
		})
		if i < 0 {
			groups = append(groups, []Webhook{webhook})
			continue
		}
		groups[i] = append(groups[i], webhook)
	}
	for _, members := range groups {
		if len(members) == 1 {
			all = append(all, members[0])
			continue
		}
		combined := &combination{scopeOf(settings), members}
		all = append(all, combined.webhook())
	}
	return all
}

// calledWith reports whether API servers call two webhooks that can be combined for the same namespaces, and treat them
// in the same way. All else that they differ in is which pods they select.
func (e Entry) calledWith(other Entry) bool {
	return e.FailurePolicy == other.FailurePolicy &&
		equality.Semantic.DeepEqual(e.NamespaceSelector, other.NamespaceSelector)
}

// combinedEntry selects what the entries of some webhooks do: requirements on labels that not all of them have become a
// part of its condition.
func combinedEntry(members []Webhook, settings *hubv1alpha1.TargetWebhooks) (combined Entry) {
	var entries []Entry
	for i := range members {
		if members[i].Enabled(settings) {
			entries = append(entries, members[i].Entries(settings)[0])
		}
	}
	combined = entries[0]
	combined.Name, combined.MatchConditions = combinedPrefix+members[0].Name, nil
	required := combined.ObjectSelector.MatchExpressions
	for i := range entries {
		required = slices.DeleteFunc(slices.Clone(required), func(r Requirement) bool {
			return !entries[i].requires(r)
		})
	}
	combined.ObjectSelector = Selector(required)

	var cases []string
	for i := range entries {
		var all []string
		for _, r := range entries[i].ObjectSelector.MatchExpressions {
			if !combined.requires(r) {
				all = append(all, expression(r))
			}
		}
		for _, condition := range entries[i].MatchConditions {
			all = append(all, "("+condition.Expression+")")
		}
		if len(all) == 0 {
			return combined // for this one every call is needed
		}
		cases = append(cases, strings.Join(all, " && "))
	}
	combined.MatchConditions = []admissionregistrationv1.MatchCondition{{
		Name: "any", Expression: strings.Join(cases, " || "),
	}}
	return combined
}

// requires reports whether an entry has a requirement on the labels of objects. Webhooks have nothing but expressions.
func (e Entry) requires(requirement Requirement) bool {
	return slices.ContainsFunc(e.ObjectSelector.MatchExpressions, func(own Requirement) bool {
		return equality.Semantic.DeepEqual(own, requirement)
	})
}

// expression is a requirement on the labels of an object in CEL. Keys and values of labels need no escapes.
func expression(r Requirement) string {
	has := fmt.Sprintf("(has(object.metadata.labels) && %q in object.metadata.labels)", r.Key)
	in := fmt.Sprintf("(%s && object.metadata.labels[%q] in [%s])", has, r.Key, quoted(r.Values))
	switch r.Operator {
	case metav1.LabelSelectorOpIn:
		return in
	case metav1.LabelSelectorOpNotIn:
		return "!" + in
	case metav1.LabelSelectorOpExists:
		return has
	case metav1.LabelSelectorOpDoesNotExist:
		return "!" + has
	}
	panic("no such operator: " + string(r.Operator)) // the webhooks have these only
}

func quoted(values []string) string {
	var all []string
	for _, value := range values {
		all = append(all, strconv.Quote(value))
	}
	return strings.Join(all, ", ")
}
