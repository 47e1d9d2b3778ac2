package admission

import (
	"context"
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// member is a webhook that is on and selects objects by their labels.
func member(name string, handler HandlerFunc, requirements ...Requirement) Webhook {
	return Webhook{
		Name: name, Path: "path-of-" + name, Handler: handler,
		Settings: func(*hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			return &hubv1alpha1.Webhook{Enabled: ptr.To(true)}
		},
		Registration: One(func(*hubv1alpha1.TargetWebhooks) Entry { return Entry{ObjectSelector: Selector(requirements)} }),
	}
}

// adds is a handler that adds a label whose value is the object that it was given.
func adds(label string) HandlerFunc {
	return func(_ context.Context, r *Request) (Response, error) {
		patch := fmt.Sprintf(`[{"op":"add","path":"/metadata/labels/%s","value":%q}]`, label, r.Object.Raw)
		return Response{Patch: []byte(patch), Message: "added " + label, Warnings: []string{"w-" + label}}, nil
	}
}

func gives(response Response, err error) HandlerFunc {
	return func(context.Context, *Request) (Response, error) { return response, err }
}

func TestWhatOneCallAnswers(t *testing.T) {
	const object = `{"metadata":{"labels":{"x":"y"}}}`
	broken := errors.New("broken")
	denied := &metav1.Status{Message: "no"}
	off := member("off", gives(Response{}, broken))
	off.Settings = func(*hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook { return nil }
	for name, test := range map[string]struct {
		members []Webhook
		want    Response
		err     OmegaMatcher
	}{
		"nothing is changed": {[]Webhook{member("a", gives(Response{}, nil)), member("b", gives(Response{}, nil))},
			Response{}, BeNil()},
		"each gets what the one before has made": {[]Webhook{member("a", adds("a")), member("b", adds("b"))}, Response{
			Message: "added a; added b", Warnings: []string{"w-a", "w-b"},
			Patch: []byte(`[{"op":"add","path":"/metadata/labels/a","value":"{\"metadata\":{\"labels\":{\"x\":\"y\"}}}"},` +
				`{"op":"add","path":"/metadata/labels/b","value":"{\"metadata\":{\"labels\":{` +
				`\"a\":\"{\\\"metadata\\\":{\\\"labels\\\":{\\\"x\\\":\\\"y\\\"}}}\",\"x\":\"y\"}}}"}]`)}, BeNil()},
		"one that does not select the object": {[]Webhook{
			member("a", gives(Response{}, broken), Is("x", "z")...), member("b", gives(Response{Message: "m"}, nil), Is("x", "y")...),
		}, Response{Message: "m"}, BeNil()},
		"one that selects it by what another has added": {[]Webhook{
			member("a", gives(Response{Patch: []byte(`[{"op":"add","path":"/metadata/labels/l","value":"1"}]`)}, nil)),
			member("b", gives(Response{Message: "m"}, nil), Is("l", "1")...),
		}, Response{Message: "m", Patch: []byte(`[{"op":"add","path":"/metadata/labels/l","value":"1"}]`)}, BeNil()},
		"one that is off": {[]Webhook{off, member("b", gives(Response{Message: "m"}, nil))}, Response{Message: "m"}, BeNil()},
		"one refuses the object": {[]Webhook{
			member("a", adds("a")), member("b", gives(Response{Denied: denied}, nil)), member("c", gives(Response{}, broken)),
		}, Response{Denied: denied}, BeNil()},
		"one fails": {[]Webhook{member("a", adds("a")), member("b", gives(Response{}, broken))},
			Response{}, And(MatchError("webhook b: broken"), MatchError(broken))},
		"a patch that does not fit": {
			[]Webhook{member("a", gives(Response{Patch: []byte(`[{"op":"remove","path":"/spec"}]`)}, nil)),
				member("b", gives(Response{}, nil))},
			Response{}, MatchError(ContainSubstring("applying the patch"))},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			request := &Request{AdmissionRequest: &admissionv1.AdmissionRequest{
				Object: runtime.RawExtension{Raw: []byte(object)},
			}}
			response, err := Combine(test.members...).Handler.Handle(t.Context(), request)
			g.Expect(err).To(test.err)
			g.Expect(response).To(Equal(test.want))
			g.Expect(string(request.Object.Raw)).To(Equal(object), "the request is as it was")
		})
	}
}
