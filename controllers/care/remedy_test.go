package care

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
)

func response(code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)),
	}
}

// remedies are settings with the remediator.
var remedies = &Settings{SyncPeriod: often, Remediate: true}

// now returns a configuration as it is.
func now[T client.Object](b *bench, in *twins.Target, object T) T {
	b.t.Helper()
	b.Expect(in.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}

// isWarned waits until a configuration was changed.
func (b *bench) isWarned(in *twins.Target, object client.Object) {
	b.t.Helper()
	b.Eventually(func() string { return now(b, in, object).GetAnnotations()["gardener.cloud/warning"] }).
		ShouldNot(BeEmpty())
}

func TestCARE20_NothingIsChangedByDefault(t *testing.T) {
	b := newBench(t)
	before := b.validating(shared.B, "problem", nil)
	b.start(Options{})
	b.looks(shared.B)
	b.Expect(writes(shared.B)).To(BeEmpty())
	b.Expect(now(b, shared.B, before.DeepCopy())).To(Equal(now(b, shared.B, before)))
}

func TestCARE21_TimeoutsAreShortened(t *testing.T) {
	b := newBench(t)
	b.set(shared.B, remedies)
	c := b.mutating(shared.B, "slow",
		admissionregistrationv1.MutatingWebhook{
			Name: "nodes.example.org", FailurePolicy: ptr.To(admissionregistrationv1.Ignore), TimeoutSeconds: ptr.To[int32](30),
			Rules: []admissionregistrationv1.RuleWithOperations{rule("", "v1", "nodes")},
		},
		admissionregistrationv1.MutatingWebhook{
			Name: "leases.example.org", FailurePolicy: ptr.To(admissionregistrationv1.Ignore), TimeoutSeconds: ptr.To[int32](5),
			Rules: []admissionregistrationv1.RuleWithOperations{rule("coordination.k8s.io", "v1", "leases")},
		},
		admissionregistrationv1.MutatingWebhook{
			Name: "jobs.example.org", FailurePolicy: ptr.To(admissionregistrationv1.Ignore), TimeoutSeconds: ptr.To[int32](30),
			Rules: []admissionregistrationv1.RuleWithOperations{rule("batch", "v1", "jobs")},
		})
	want := c.DeepCopy().Webhooks
	want[0].TimeoutSeconds, want[1].TimeoutSeconds = ptr.To[int32](15), ptr.To[int32](3)
	b.start(Options{})
	b.isWarned(shared.B, c)
	b.Expect(now(b, shared.B, c).Webhooks).To(Equal(want), "nothing else is changed")
}

func TestCARE22_WhatFailsIsExcludedOrIgnored(t *testing.T) {
	b := newBench(t)
	b.set(shared.B, remedies)
	old := notIn("team", "a")
	pods := b.validating(shared.B, "pods", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		c.Webhooks[0].NamespaceSelector = old.DeepCopy()
		c.Annotations = map[string]string{"other": "stays"}
	})
	nodes := b.validating(shared.B, "nodes", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		c.Webhooks[0].Rules = []admissionregistrationv1.RuleWithOperations{rule("", "v1", "nodes")}
	})
	b.start(Options{})
	b.isWarned(shared.B, pods)
	b.isWarned(shared.B, nodes)

	got := now(b, shared.B, pods)
	b.Expect(got.Webhooks[0].FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Fail)), "it goes on elsewhere")
	b.Expect(got.Webhooks[0].NamespaceSelector.MatchExpressions).To(Equal(append(old.MatchExpressions,
		notIn("kubernetes.io/metadata.name", "kube-system").MatchExpressions...)))
	b.Expect(got.Annotations).To(HaveKeyWithValue("other", "stays"))
	got = now(b, shared.B, nodes)
	b.Expect(got.Webhooks[0].FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Ignore)))
	b.Expect(got.Webhooks[0].NamespaceSelector.MatchExpressions).To(BeEmpty())
	b.Eventually(b.constraint(shared.B, webhooks)).Should(isGood)

	t.Log("nothing is left to do")
	shared.Reset()
	b.looks(shared.B)
	b.Expect(writes(shared.B)).To(BeEmpty())
}

func TestCARE23_ChangesAreSaid(t *testing.T) {
	b := newBench(t)
	b.set(shared.B, remedies)
	c := b.validating(shared.B, "problem", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		c.Webhooks[0].TimeoutSeconds = ptr.To[int32](30)
		c.Webhooks[0].Rules = append(c.Webhooks[0].Rules, rule("", "v1", "nodes"))
	})
	b.start(Options{})
	b.isWarned(shared.B, c)
	b.Expect(c.Annotations["gardener.cloud/warning"]).To(And(
		HavePrefix("ATTENTION"),
		ContainSubstring("\n- webhook problem.example.org: timeoutSeconds was set to 15"),
		ContainSubstring("\n- webhook problem.example.org: failurePolicy was set to Ignore"),
		ContainSubstring("\n- webhook problem.example.org: namespaceSelector was extended with "+
			"kubernetes.io/metadata.name notin (kube-system)")))
	b.Eventually(b.events.Events).Should(Receive(And(
		HavePrefix("Warning WebhooksRemedied changed ValidatingWebhookConfiguration problem: webhook problem.example.org"),
		ContainSubstring("failurePolicy was set to Ignore"))))
}

func TestCARE24_WhatIsManagedIsNotChanged(t *testing.T) {
	b := newBench(t)
	b.set(shared.B, remedies)
	for i, label := range []string{
		"remediation.webhook.shoot.gardener.cloud/exclude=true", "resources.gardener.cloud/managed-by=gardener",
		"resources.gardener.cloud/managed-by=other",
	} {
		b.validating(shared.B, fmt.Sprintf("exempt-%d", i), func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			key, value, _ := strings.Cut(label, "=")
			c.Labels = map[string]string{key: value}
		})
	}
	b.start(Options{})
	b.Eventually(b.constraint(shared.B, webhooks)).Should(HaveField("Message", And(
		ContainSubstring("exempt-2"), Not(ContainSubstring("exempt-0")), Not(ContainSubstring("exempt-1")))))
	b.looks(shared.B)
	b.Expect(writes(shared.B)).To(BeEmpty())
}

func TestCARE25_OnlyWhatWasReadIsChanged(t *testing.T) {
	b := newBench(t)
	b.set(shared.B, remedies)
	c := b.validating(shared.B, "problem", nil)
	meddled := false
	shared.Intercept(t, func(key clustercache.ClusterKey, r *http.Request) *http.Response {
		if key == shared.B.Key && r.Method == http.MethodPatch && !meddled {
			meddled = true
			change := client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"remediation.webhook.shoot.gardener.cloud/exclude":"true"}}}`))
			b.Expect(shared.B.Client.Patch(context.Background(), c.DeepCopy(), change)).To(Succeed())
		}
		return nil
	})
	b.start(Options{})
	b.Eventually(func() []twins.Call { return writes(shared.B) }).ShouldNot(BeEmpty())
	b.looks(shared.B)
	got := now(b, shared.B, c)
	b.Expect(got.Webhooks[0].NamespaceSelector.MatchExpressions).To(BeEmpty())
	b.Expect(got.Annotations).NotTo(HaveKey("gardener.cloud/warning"))
}

func TestCARE26_WhatIsChangedBackIsChangedLessOften(t *testing.T) {
	g := NewWithT(t)
	m := &memory{attempts: map[types.UID]attempts{}}
	at := time.Now()
	var pauses []time.Duration
	for range 8 {
		g.Expect(m.mayChange("a", at)).To(BeTrue())
		m.changed("a", at)
		g.Expect(m.mayChange("a", at)).To(BeFalse())
		pauses = append(pauses, m.attempts["a"].next.Sub(at))
		at = m.attempts["a"].next
	}
	const minute = time.Minute
	g.Expect(pauses).To(Equal([]time.Duration{
		2 * minute, 4 * minute, 8 * minute, 16 * minute, 32 * minute, 64 * minute, 120 * minute, 120 * minute,
	}))
	g.Expect(m.mayChange("b", at)).To(BeTrue(), "others are not affected")
	m.changed("a", at.Add(5*time.Hour))
	g.Expect(m.attempts["a"].n).To(Equal(1), "after a long time without, it begins anew")
	for i := range 2 * maxAttempts {
		m.changed(types.UID(fmt.Sprint(i)), at)
	}
	g.Expect(len(m.attempts)).To(BeNumerically("<=", maxAttempts))
}

func TestCARE26_WhatIsChangedBackIsReported(t *testing.T) {
	b := newBench(t)
	b.set(shared.B, remedies)
	c := b.validating(shared.B, "problem", nil)
	b.start(Options{})
	b.isWarned(shared.B, c)
	c.Webhooks[0].NamespaceSelector = nil
	b.Expect(shared.B.Client.Update(t.Context(), c)).To(Succeed())
	b.Eventually(b.constraint(shared.B, webhooks)).Should(HaveField("Status", metav1.ConditionFalse))
	shared.Reset()
	b.looks(shared.B)
	b.Expect(writes(shared.B)).To(BeEmpty())
}

func TestCARE27_FewAreChangedAtATime(t *testing.T) {
	b := newBench(t)
	b.set(shared.B, remedies)
	var all []*admissionregistrationv1.ValidatingWebhookConfiguration
	for i := range 5 {
		all = append(all, b.validating(shared.B, fmt.Sprintf("problem-%d", i), nil))
	}
	b.start(Options{maxRemedies: 2, pageSize: 2})
	for _, c := range all {
		b.isWarned(shared.B, c)
	}
	b.Eventually(b.constraint(shared.B, webhooks)).Should(isGood)
}

func TestCARE27_LargeSelectorsAreNotWritten(t *testing.T) {
	g := NewWithT(t)
	var teams []string
	for i := range maxPatch / len("team-") {
		teams = append(teams, fmt.Sprintf("team-%d", i))
	}
	h := hook{
		name:              "h",
		rules:             []admissionregistrationv1.RuleWithOperations{rule("", "v1", "pods")},
		namespaceSelector: notIn("team", teams...),
	}
	r, changes := remedyFor(h, judge(h, system))
	g.Expect(patchOf(metav1.ObjectMeta{Name: "c"}, []remedy{r}, changes)).To(BeNil())
	r.NamespaceSelector = nil
	g.Expect(patchOf(metav1.ObjectMeta{Name: "c"}, []remedy{r}, changes)).NotTo(BeNil())
}

func TestCARE28_MissingRightsToChangeAreReported(t *testing.T) {
	b := newBench(t)
	b.set(shared.B, remedies)
	c := b.validating(shared.B, "problem", nil)
	shared.Intercept(t, func(key clustercache.ClusterKey, r *http.Request) *http.Response {
		if key == shared.B.Key && r.Method == http.MethodPatch {
			return answer(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		return nil
	})
	b.start(Options{})
	b.Eventually(b.events.Events).Should(Receive(
		HavePrefix("Warning CareFailed changing ValidatingWebhookConfiguration problem")))
	b.Eventually(b.constraint(shared.B, webhooks)).Should(HaveField("Status", metav1.ConditionFalse))
	b.Expect(now(b, shared.B, c).Annotations).NotTo(HaveKey("gardener.cloud/warning"))
}
