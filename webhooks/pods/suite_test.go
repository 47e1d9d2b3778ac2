package pods_test

import (
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// pod is one in YAML, with some metadata and a spec, both without braces.
func pod(metadata, spec string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {%s}, spec: {%s}}", metadata, spec)
}

// changed expects that a webhook makes one object of another one.
func changed(t testing.TB, c reviews.Target, w admission.Webhook, object, want string) {
	t.Helper()
	g := NewWithT(t)
	answer := c.Send(t, w, object)
	g.Expect(answer.Called).To(BeTrue())
	g.Expect(answer.Err).NotTo(HaveOccurred())
	g.Expect(answer.Denied).To(BeNil())
	g.Expect(answer.Object).To(MatchYAML(want), string(answer.Patch))
}

// unchanged expects that a webhook leaves an object as it is.
func unchanged(t testing.TB, c reviews.Target, w admission.Webhook, object string) {
	t.Helper()
	g := NewWithT(t)
	answer := c.Send(t, w, object)
	g.Expect(answer.Err).NotTo(HaveOccurred())
	g.Expect(answer.Denied).To(BeNil())
	g.Expect(answer.Patch).To(BeEmpty())
}

func refused(t testing.TB, answer reviews.Answer, code int32, message string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(answer.Err).NotTo(HaveOccurred())
	g.Expect(answer.Patch).To(BeEmpty())
	g.Expect(answer.Denied).NotTo(BeNil())
	g.Expect(answer.Denied.Code).To(Equal(code))
	g.Expect(answer.Denied.Message).To(ContainSubstring(message))
}

// value is what an object has at a path.
func value(t testing.TB, object []byte, path ...any) any {
	t.Helper()
	g := NewWithT(t)
	var tree any
	g.Expect(json.Unmarshal(object, &tree)).To(Succeed())
	for _, step := range path {
		switch step := step.(type) {
		case string:
			of, is := tree.(map[string]any)
			g.Expect(is).To(BeTrue(), "%v is no object", tree)
			tree = of[step]
		case int:
			of, is := tree.([]any)
			g.Expect(is && step < len(of)).To(BeTrue(), "%v has no element %d", tree, step)
			tree = of[step]
		}
	}
	return tree
}
