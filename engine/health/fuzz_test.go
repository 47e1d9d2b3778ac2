package health

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// FuzzCheck checks arbitrary objects: nothing panics, messages are bounded, and the results do not contradict each
// other.
func FuzzCheck(f *testing.F) {
	for gk := range kinds {
		for _, rest := range []string{
			`"spec":"text","status":"text"`,
			`"spec":[1],"status":{"conditions":"text"}`,
			`"metadata":{"generation":"text","annotations":[1],"labels":3},"spec":{"replicas":"text","selector":1,"updateStrategy":1},"status":{"conditions":[1,{"type":2},{"status":1}],"observedGeneration":[],"loadBalancer":1}`,
			`"metadata":{"generation":2},"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"In"}]}},"status":{"conditions":[{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}],"observedGeneration":2}`,
			`"status":{"phase":"Pending","initContainerStatuses":[null,{"state":{"waiting":3}}],"containerStatuses":[{"name":1,"restartCount":"x","state":{"terminated":[]},"lastState":{"terminated":{"exitCode":1.5}}},{"state":{"waiting":{"reason":"RunContainerError"}}}]}`,
			`"status":{"observedGeneration":"9223372036854775808","conditions":[{"type":"Ready","status":"Unknown","observedGeneration":-1},{"type":"Stalled","status":"True"},{"type":"Reconciling","status":"True"}]}`,
		} {
			f.Add([]byte(`{"apiVersion":"` + gk.WithVersion("v1").GroupVersion().String() + `","kind":"` + gk.Kind + `",` + rest + `}`))
			f.Add([]byte(`{"apiVersion":"example.com/v1","kind":"Thing",` + rest + `}`))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		g := NewWithT(t)
		live := &unstructured.Unstructured{}
		if live.UnmarshalJSON(text) != nil || live.IsList() {
			return
		}
		result, progress, kept := Check(live), Progress(live), PodOf(live)
		for _, problem := range []Problem{result.Problem, progress.Problem, kept.Problem} {
			g.Expect(isSound(problem)).To(BeTrue())
			g.Expect(len(problem.Message)).To(BeNumerically("<=", maxMessage))
			g.Expect(!utf8.Valid(text) || utf8.ValidString(problem.Message)).To(BeTrue())
		}
		g.Expect(result.Healthy).To(Equal(result.Problem == Problem{}))
		g.Expect(progress.Progressing).To(Equal(progress.Problem != Problem{}))
		if progress.CountPods {
			g.Expect(progress.Selector).NotTo(BeNil())
		}
		pods := slices.Values([]*Pod{&kept, &kept, {}})
		PodsRolledOut(progress, pods)
		Explain(progress.Selector, pods, Fine)
		Explain(labels.Everything(), pods, Fine)
	})
}

// FuzzWaitingContainer has a container wait for whatever reason, with a message that must not be shown but for some
// reasons.
func FuzzWaitingContainer(f *testing.F) {
	const secret = "topsecretword"
	for _, reason := range []string{"PostStartHookError", "PreStartHookError", "ContainerCreating", "CrashLoopBackOff", "ErrImagePull ", ""} {
		f.Add(reason, "Exec lifecycle hook failed: ", int64(0))
		f.Add(reason, "", int64(3))
	}
	f.Fuzz(func(t *testing.T, reason, before string, restarts int64) {
		if slices.Contains(runtimeReasons, reason) || reason == reasonPull || strings.Contains(reason, secret) {
			return
		}
		pod := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"phase": "Pending",
			"containerStatuses": []any{map[string]any{
				"name": "c", "restartCount": restarts,
				"state":     map[string]any{"waiting": map[string]any{"reason": reason, "message": before + secret}},
				"lastState": map[string]any{"terminated": map[string]any{"exitCode": int64(1), "reason": "Error", "message": secret}},
			}},
		}}}
		g := NewWithT(t)
		g.Expect(PodOf(pod).Problem.Message).To(And(HavePrefix("container c "), Not(ContainSubstring(secret))))
	})
}
