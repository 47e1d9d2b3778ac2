package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// CombinedSeparator separates the paths of webhooks that are called at once. No path of a webhook has it.
const CombinedSeparator = "."

// combinedPrefix begins the names of combined webhooks.
const combinedPrefix = "combined-"

// Combine returns a webhook that does the work of several that change objects, in their order, in one call. Each of them
// gets the object as the one before has left it, if it is enabled and the object selector of one of its entries matches.
// If one fails or refuses the object, the whole call does.
func Combine(members ...Webhook) Webhook {
	paths := make([]string, len(members))
	for i := range members {
		paths[i] = members[i].Path
	}
	return Webhook{
		Name: combinedPrefix + members[0].Name,
		Path: strings.Join(paths, CombinedSeparator),
		Settings: func(settings *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			for i := range members {
				if members[i].Enabled(settings) {
					return members[i].Settings(settings)
				}
			}
			return nil
		},
		Registration: func(settings *hubv1alpha1.TargetWebhooks) []Entry {
			return []Entry{combinedEntry(members, settings)}
		},
		Handler: HandlerFunc(func(ctx context.Context, request *Request) (Response, error) {
			return combined(ctx, members, request)
		}),
	}
}

func combined(ctx context.Context, members []Webhook, request *Request) (response Response, err error) {
	review := *request.AdmissionRequest
	current := *request
	current.AdmissionRequest = &review
	var pending []byte // the patch of the member before, which is not applied if no other follows
	var operations []json.RawMessage
	var messages []string
	for i := range members {
		member := &members[i]
		if !member.Enabled(&request.Settings) {
			continue
		}
		if pending != nil {
			if review.Object.Raw, err = patched(review.Object.Raw, pending); err != nil {
				return Response{}, err
			}
			pending = nil
		}
		selected, err := member.selects(&request.Settings, review.Object.Raw)
		if err != nil {
			return Response{}, fmt.Errorf("webhook %s: %w", member.Name, err)
		}
		if !selected {
			continue
		}
		answer, err := member.Handler.Handle(ctx, &current)
		if err != nil {
			return Response{}, fmt.Errorf("webhook %s: %w", member.Name, err)
		}
		if answer.Denied != nil {
			return answer, nil
		}
		response.Warnings = append(response.Warnings, answer.Warnings...)
		if answer.Message != "" {
			messages = append(messages, answer.Message)
		}
		if len(answer.Patch) == 0 {
			continue
		}
		pending = answer.Patch
		var own []json.RawMessage
		if err := json.Unmarshal(pending, &own); err != nil {
			return Response{}, fmt.Errorf("webhook %s: decoding its patch: %w", member.Name, err)
		}
		operations = append(operations, own...)
	}
	response.Message = strings.Join(messages, "; ")
	if len(operations) > 0 {
		if response.Patch, err = json.Marshal(operations); err != nil {
			return Response{}, fmt.Errorf("encoding the patch: %w", err)
		}
	}
	return response, nil
}

// patched is a document after a patch.
func patched(document, patch []byte) ([]byte, error) {
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, fmt.Errorf("decoding the patch of a webhook: %w", err)
	}
	if document, err = decoded.Apply(document); err != nil {
		return nil, fmt.Errorf("applying the patch of a webhook: %w", err)
	}
	return document, nil
}

// selects reports whether the object selector of one of the entries matches.
func (w *Webhook) selects(settings *hubv1alpha1.TargetWebhooks, object []byte) (bool, error) {
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &meta); err != nil {
		return false, fmt.Errorf("decoding the labels of the object: %w", err)
	}
	for _, entry := range w.Entries(settings) {
		selector, err := metav1.LabelSelectorAsSelector(&entry.ObjectSelector)
		if err != nil {
			return false, fmt.Errorf("reading its object selector: %w", err)
		}
		if selector.Matches(labels.Set(meta.Labels)) {
			return true, nil
		}
	}
	return false, nil
}

// Combined returns webhooks with those of pods combined that have one entry each, with the same namespace selector and
// the same failure policy. A combined webhook is where its first member was.
func Combined(webhooks []Webhook, settings *hubv1alpha1.TargetWebhooks) (all []Webhook) {
	var groups [][]Webhook
	var entries []Entry // of the first member of each group; the zero value if nothing is combined with it
	for _, webhook := range webhooks {
		entry := combinable(webhook, settings)
		i := slices.IndexFunc(entries, func(first Entry) bool { return first.Rules != nil && first.calledWith(entry) })
		if i < 0 {
			groups, entries = append(groups, []Webhook{webhook}), append(entries, entry)
			continue
		}
		groups[i] = append(groups[i], webhook)
	}
	for _, members := range groups {
		if len(members) == 1 {
			all = append(all, members[0])
			continue
		}
		all = append(all, Combine(members...))
	}
	return all
}

// combinable is the only entry of a webhook that has pods sent that are created. The zero value: it is none.
func combinable(webhook Webhook, settings *hubv1alpha1.TargetWebhooks) Entry {
	if webhook.Validating || !webhook.Enabled(settings) {
		return Entry{}
	}
	entries := webhook.Entries(settings)
	if len(entries) != 1 || !equality.Semantic.DeepEqual(entries[0].Rules, []admissionregistrationv1.RuleWithOperations{
		Rule("", "v1", "pods", admissionregistrationv1.Create),
	}) {
		return Entry{}
	}
	return entries[0]
}

// calledWith reports whether two entries differ only in which objects of a namespace they select.
func (e Entry) calledWith(other Entry) bool {
	return e.FailurePolicy == other.FailurePolicy && e.MatchPolicy == other.MatchPolicy &&
		equality.Semantic.DeepEqual(e.Rules, other.Rules) &&
		equality.Semantic.DeepEqual(e.NamespaceSelector, other.NamespaceSelector)
}

// combinedEntry selects what the entries of some webhooks do: requirements on labels that not all of them have become a
// part of its condition. It waits for as long as the most patient of them.
func combinedEntry(members []Webhook, settings *hubv1alpha1.TargetWebhooks) (combined Entry) {
	var entries []Entry
	for i := range members {
		if members[i].Enabled(settings) {
			entries = append(entries, members[i].Entries(settings)...)
		}
	}
	combined = entries[0]
	combined.Name, combined.MatchConditions = combinedPrefix+members[0].Name, nil
	required := combined.ObjectSelector.MatchExpressions
	for i := range entries {
		combined.TimeoutSeconds = max(combined.TimeoutSeconds, entries[i].TimeoutSeconds)
		required = slices.DeleteFunc(slices.Clone(required), func(r Requirement) bool { return !entries[i].requires(r) })
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
