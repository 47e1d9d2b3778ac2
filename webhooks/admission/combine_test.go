package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

var errBroken = errors.New("broken")

// member is a webhook that is on and selects pods by their labels.
func member(name string, mutate podMutation, requirements ...Requirement) Webhook {
	return Webhook{
		Name: name, Path: "path-of-" + name, Combines: true, Handler: mutate,
		Settings: func(*hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			return &hubv1alpha1.Webhook{Enabled: ptr.To(true)}
		},
		Registration: One(func(*hubv1alpha1.TargetWebhooks) Entry {
			return Entry{ObjectSelector: Selector(requirements)}
		}),
	}
}

// adds adds a label whose value is the labels that the pod had.
func adds(label string) podMutation {
	return func(_ context.Context, _ *Request, pod *corev1.Pod) (Response, error) {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, label, fmt.Sprint(pod.Labels))
		return Response{Message: "added " + label, Warnings: []string{"w-" + label}}, nil
	}
}

func fails(err error) podMutation {
	return func(context.Context, *Request, *corev1.Pod) (Response, error) {
		return Response{Warnings: []string{"w-of-failure"}}, err
	}
}

// panics changes the pod before it panics.
func panics(_ context.Context, _ *Request, pod *corev1.Pod) (Response, error) {
	pod.Spec.NodeName = "half"
	panic("with a secret")
}

func says(message string) podMutation {
	return func(context.Context, *Request, *corev1.Pod) (Response, error) { return Response{Message: message}, nil }
}

func exists(label string) Requirement {
	return Requirement{Key: label, Operator: metav1.LabelSelectorOpExists}
}

// HUB-22: what one call for several webhooks answers.
func TestWhatOneCallAnswers(t *testing.T) {
	const object = `{"metadata":{"labels":{"x":"y"}},"spec":{"unknown":1}}`
	add := func(operations ...string) []byte {
		var all []string
		for i := 0; i < len(operations); i += 2 {
			all = append(all, fmt.Sprintf(`{"op":"add","path":"/metadata/labels/%s","value":%q}`,
				operations[i], operations[i+1]))
		}
		return []byte("[" + strings.Join(all, ",") + "]")
	}
	off := member("off", fails(errBroken))
	off.Settings = func(*hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook { return nil }
	for name, test := range map[string]struct {
		members []Webhook
		ignored bool
		want    Response
		failed  []string
		err     OmegaMatcher
	}{
		"nothing is changed": {members: []Webhook{member("a", says("")), member("b", says(""))}},
		"each gets what the one before has made": {
			members: []Webhook{member("a", adds("a")), member("b", adds("b"))},
			want: Response{
				Message: "added a; added b", Warnings: []string{"w-a", "w-b"},
				Patch: add("a", "map[x:y]", "b", "map[a:map[x:y] x:y]"),
			}},
		"one that does not select the pod": {
			members: []Webhook{member("a", fails(errBroken), Is("x", "z")...), member("b", says("m"), Is("x", "y")...)},
			want:    Response{Message: "m"}},
		"one that selects it by what another has added": {
			members: []Webhook{member("a", adds("a")), member("b", says("m"), exists("a"))},
			want:    Response{Message: "added a; m", Warnings: []string{"w-a"}, Patch: add("a", "map[x:y]")}},
		"one that is off": {members: []Webhook{off, member("b", says("m"))}, want: Response{Message: "m"}},
		"one refuses the pod": {
			members: []Webhook{member("a", adds("a")), member("b", fails(Refuse("no"))), member("c", fails(errBroken))},
			want: Response{Warnings: []string{"w-a"}, Denied: &metav1.Status{
				Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: "webhook b: no",
			}}},
		"one fails": {members: []Webhook{member("a", adds("a")), member("b", fails(errBroken))},
			err: And(MatchError("webhook b: broken"), MatchError(errBroken))},
		"one fails, and failures are ignored": {
			members: []Webhook{
				member("a", adds("a")), member("b", fails(errBroken)), member("c", adds("c"), Is("x", "y")...),
			},
			ignored: true, failed: []string{"webhook b: broken"},
			want: Response{
				Message: "added a; added c", Warnings: []string{"w-a", "w-c", "webhooks that failed were left out: b"},
				Patch: add("a", "map[x:y]", "c", "map[a:map[x:y] x:y]"),
			}},
		"one refuses the pod, and failures are ignored": {
			members: []Webhook{member("b", fails(Refuse("no"))), member("c", says("m"))}, ignored: true,
			want: Response{Denied: &metav1.Status{
				Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: "webhook b: no",
			}}},
		"all fail, and failures are ignored": {
			members: []Webhook{
				member("a", fails(errBroken)), member("b", fails(ErrUnknown)), member("c", says("m"), exists("c")),
			},
			ignored: true,
			err:     And(MatchError(errBroken), MatchError(ErrUnknown), MatchError(ContainSubstring("webhook b: "))),
		},
		"one panics": {
			members: []Webhook{member("a", adds("a")), member("b", panics)},
			err:     MatchError("webhook b: the webhook panicked"),
		},
		"one panics, and failures are ignored": {
			members: []Webhook{member("a", adds("a")), member("b", panics), member("c", says("m"))},
			ignored: true, err: MatchError("webhook b: the webhook panicked"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			request := &Request{Ignored: test.ignored, AdmissionRequest: &admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)},
			}}
			combined := &combination{hubv1alpha1.WebhookScopeTarget, test.members}
			response, err := combined.webhook().Handler.Handle(t.Context(), request)
			if test.err != nil {
				g.Expect(err).To(test.err)
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			var failed []string
			for _, err := range response.Ignored {
				failed = append(failed, err.Error())
			}
			g.Expect(failed).To(Equal(test.failed))
			response.Ignored = nil
			g.Expect(response).To(Equal(test.want), string(response.Patch))
			g.Expect(string(request.Object.Raw)).To(Equal(object), "the request is as it was")
		})
	}
}

// HUB-22: a call says with which scope it was registered. It counts for selectors while the settings change.
func TestSelectorsAreThoseThatAreRegistered(t *testing.T) {
	g := NewWithT(t)
	managed := func(name string) Webhook {
		webhook := member(name, says(name))
		webhook.Registration = One(func(settings *hubv1alpha1.TargetWebhooks) Entry {
			return Entry{ObjectSelector: Selector(Managed(settings))}
		})
		return webhook
	}
	request := &Request{AdmissionRequest: &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte("{}")},
	}}
	webhooks := []Webhook{managed("a"), managed("b")}
	for _, scope := range []hubv1alpha1.WebhookScope{hubv1alpha1.WebhookScopeTarget, hubv1alpha1.WebhookScopeRuntime} {
		request.Settings.Registration = &hubv1alpha1.WebhookRegistration{Scope: ptr.To(scope)}
		for path, want := range map[string]string{
			"target.path-of-a.path-of-b": "", "runtime.path-of-a.path-of-b": "a; b",
		} {
			combined, is := CombinedAt(path, webhooks)
			g.Expect(is).To(BeTrue())
			g.Expect(combined.Path).To(Equal(path))
			response, err := combined.Handler.Handle(t.Context(), request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Message).To(Equal(want), "%s, settings %s", path, scope)
		}
	}
}

// HUB-22: a target can ask for webhooks that can be combined only. The order is that of the hub.
func TestPathsOfCombinedWebhooks(t *testing.T) {
	other := member("other", nil)
	other.Combines = false
	webhooks := []Webhook{member("a", says("")), other, member("b", says("")), member("c", says(""))}
	for path, want := range map[string]bool{
		"target.path-of-a.path-of-b":                     true,
		"target.path-of-a.path-of-c":                     true,
		"runtime.path-of-a.path-of-b.path-of-c":          true,
		"target.path-of-b.path-of-a":                     true,
		"target.path-of-a.path-of-a":                     false,
		"target.path-of-a.path-of-b.path-of-b":           false,
		"target.path-of-a":                               false,
		"target.path-of-a.path-of-other":                 false,
		"target.path-of-other.path-of-b.path-of-c":       false,
		"path-of-a.path-of-b":                            false,
		"other.path-of-a.path-of-b":                      false,
		"Target.path-of-a.path-of-b":                     false,
		"target":                                         false,
		"target.":                                        false,
		"":                                               false,
		"target.path-of-a.path-of-b.":                    false,
		"target..path-of-a.path-of-b":                    false,
		"target.path-of-a.path-of-b.path-of-c.x.x.x.x.x": false,
	} {
		t.Run(path, func(t *testing.T) {
			g := NewWithT(t)
			combined, is := CombinedAt(path, webhooks)
			g.Expect(is).To(Equal(want))
			if is {
				g.Expect(PathsIn(combined.Path)).To(ConsistOf(PathsIn(path)))
				g.Expect(slices.IsSorted(PathsIn(combined.Path))).To(BeTrue())
				g.Expect(PathsIn(path)).To(Equal(strings.Split(path, ".")[1:]))
			}
		})
	}
	NewWithT(t).Expect(PathsIn("path-of-a")).To(Equal([]string{"path-of-a"}))
}
