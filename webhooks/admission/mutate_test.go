package admission_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trellis-hub/trellis/webhooks/admission"
)

func request(operation admissionv1.Operation, object string) *admission.Request {
	return &admission.Request{AdmissionRequest: &admissionv1.AdmissionRequest{
		Operation: operation, Object: runtime.RawExtension{Raw: []byte(object)},
	}}
}

func TestMutate(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[],"future":{"x":1}}}`
	failed := errors.New("failed")
	for name, test := range map[string]struct {
		operation admissionv1.Operation
		object    string
		mutate    func(*corev1.Pod) error
		want      string
		denied    int32
		err       error
		uncalled  bool
	}{
		"CMN-4 a deletion":   {operation: admissionv1.Delete, object: pod, uncalled: true},
		"CMN-4 a connection": {operation: admissionv1.Connect, object: pod, uncalled: true},
		"CMN-5 no JSON":      {operation: admissionv1.Create, object: `{`, denied: 400, uncalled: true},
		"CMN-5 nothing":      {operation: admissionv1.Create, denied: 400, uncalled: true},
		"CMN-5 another type": {operation: admissionv1.Create, object: `{"spec":[]}`, denied: 400, uncalled: true},
		"CMN-5 a list":       {operation: admissionv1.Create, object: `[]`, denied: 400, uncalled: true},
		"CMN-5 too deep": {operation: admissionv1.Create, object: strings.Repeat(`{"a":`, 20_000), denied: 400,
			uncalled: true},
		"CMN-5 too deep, unseen": {operation: admissionv1.Create, object: `{"future":` + strings.Repeat("[", 20_000),
			denied: 400, uncalled: true},
		"CMN-9 as it was": {operation: admissionv1.Create, object: pod, mutate: func(*corev1.Pod) error { return nil }},
		"CMN-9 empty is nothing": {operation: admissionv1.Update, object: pod, mutate: func(p *corev1.Pod) error {
			p.Spec.Tolerations, p.Labels = []corev1.Toleration{}, map[string]string{}
			return nil
		}},
		"CMN-10 changed": {operation: admissionv1.Update, object: pod, mutate: func(p *corev1.Pod) error {
			p.Spec.NodeName = "n"
			return nil
		}, want: `[{"op":"add","path":"/spec/nodeName","value":"n"}]`},
		"CMN-7 refused": {operation: admissionv1.Create, object: pod, mutate: func(p *corev1.Pod) error {
			p.Spec.NodeName = "n"
			return fmt.Errorf("so: %w", admission.Refuse("no"))
		}, denied: 403},
		"an error": {operation: admissionv1.Create, object: pod, mutate: func(p *corev1.Pod) error {
			p.Spec.NodeName = "n"
			return failed
		}, err: failed},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			called := false
			handler := admission.Mutate(admission.Quietly(func(_ context.Context, _ *admission.Request, p *corev1.Pod) error {
				called = true
				return test.mutate(p)
			}))
			r := request(test.operation, test.object)
			response, err := handler.Handle(t.Context(), r)
			g.Expect(called).To(Equal(!test.uncalled))
			g.Expect(string(r.Object.Raw)).To(Equal(test.object), "what was sent is left as it is")
			if test.err != nil {
				g.Expect(err).To(MatchError(test.err))
				g.Expect(response.Patch).To(BeEmpty())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(response.Patch)).To(Equal(test.want))
			if test.denied == 0 {
				g.Expect(response.Denied).To(BeNil())
				return
			}
			g.Expect(response.Denied.Code).To(Equal(test.denied))
			g.Expect(response.Denied.Message).NotTo(BeEmpty())
		})
	}
}
