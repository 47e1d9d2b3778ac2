package webhookregistration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/deletionprotection"
	"github.com/trellis-hub/trellis/webhooks/pods"
	"github.com/trellis-hub/trellis/webhooks/routes"
)

// replaceable are webhooks some of which policies can replace.
func replaceable() []admission.Webhook {
	return []admission.Webhook{
		pods.TokenMount(), pods.SeccompProfile(), pods.ServiceHost(),
		deletionprotection.Webhook(deletionprotection.NewLister(shared.Clusters)),
	}
}

// policies are the names of policies and bindings of hubs in a target, without what is different for each hub.
func (b *bench) policies(in *twins.Target) (names []string) {
	b.t.Helper()
	for _, kind := range policyKinds {
		for _, list := range kind.lists() {
			labelled := client.MatchingLabels{hubv1alpha1.WebhooksLabel: "true"}
			b.Expect(in.Client.List(b.ctx, list, labelled)).To(Succeed())
			items, err := meta.ExtractList(list)
			b.Expect(err).NotTo(HaveOccurred())
			for _, item := range items {
				object, is := item.(client.Object)
				b.Expect(is).To(BeTrue())
				kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1.")
				_, name, _ := strings.Cut(strings.TrimPrefix(object.GetName(), "trellis-"), "-")
				names = append(names, kind+" "+name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// called are the paths of the mutating webhooks that a target calls: those of combined ones, and of their members.
func (b *bench) called(in *twins.Target) (paths []string) {
	b.t.Helper()
	configurations := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	b.Expect(in.Client.List(b.ctx, configurations, client.HasLabels{hubv1alpha1.WebhooksLabel})).To(Succeed())
	for _, configuration := range configurations.Items {
		for i := range configuration.Webhooks {
			config := &configuration.Webhooks[i].ClientConfig
			called, err := url.Parse(ptr.Deref(config.URL, ""))
			b.Expect(err).NotTo(HaveOccurred())
			paths = append(append(paths, routes.WebhookOf(called.Path)), pathsOf(config)...)
		}
	}
	return paths
}

// pod is what a pod of kube-system becomes: the host of the API server that it gets, and its seccomp profile.
func pod(ctx context.Context, c client.Client, labels map[string]string) (string, error) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", GenerateName: "test-", Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if err := c.Create(ctx, p, client.DryRunAll); err != nil {
		return "", err
	}
	text := ""
	for _, v := range p.Spec.Containers[0].Env {
		text += v.Value
	}
	if s := p.Spec.SecurityContext; s != nil && s.SeccompProfile != nil {
		text += " " + string(s.SeccompProfile.Type)
	}
	return text, nil
}

// becomes waits until a pod becomes something.
func (b *bench) becomes(in *twins.Target, want string, labels map[string]string) {
	b.t.Helper()
	user := b.user(in)
	b.Eventually(func() (string, error) { return pod(b.ctx, user, labels) }).Should(Equal(want))
}

const threeReplaced = "{kubernetesServiceHost: {enabled: true, host: api.b}, seccompProfile: {enabled: true}, " +
	"crdDeletionProtection: {enabled: true}}"

// POL-7, HUB-27: where the target serves policies, they do what webhooks would, without a hub that it can reach.
func TestPoliciesInThePlaceOfWebhooks(t *testing.T) {
	b := newBench(t, nil)
	b.others = replaceable()
	crd := b.infrastructures(shared.B)
	b.Expect(b.listener.Close()).To(Succeed(), "no webhook can be called")
	b.setYAML(shared.B, threeReplaced)
	b.start(nil)
	b.Eventually(b.condition(shared.B)).Should(Equal(registered))
	message := b.targetCluster(shared.B).Status.Conditions[0].Message
	b.Expect(message).To(ContainSubstring(
		"replace the webhooks seccomp-profile, kubernetes-service-host, crd-deletion-protection"))
	b.Expect(message).NotTo(ContainSubstring("calls the hub"))
	b.Eventually(b.events.Events).Should(Receive(Equal("Normal WebhooksRegistered " + message)))
	mutating, validating := b.names(shared.B)
	b.Expect(append(mutating, validating...)).To(BeEmpty(), "there is nothing to be called")
	all := []string{
		"MutatingAdmissionPolicy kubernetes-service-host", "MutatingAdmissionPolicy seccomp-profile",
		"MutatingAdmissionPolicyBinding kubernetes-service-host", "MutatingAdmissionPolicyBinding seccomp-profile",
		"ValidatingAdmissionPolicy cr-deletion-protection", "ValidatingAdmissionPolicy crd-deletion-protection",
		"ValidatingAdmissionPolicyBinding cr-deletion-protection",
		"ValidatingAdmissionPolicyBinding crd-deletion-protection",
	}
	b.Expect(b.policies(shared.B)).To(Equal(all))
	b.becomes(shared.B, "api.b RuntimeDefault", nil)
	b.Expect(pod(b.ctx, shared.B.Client, nil)).To(Equal("api.b RuntimeDefault"), "also those of the hub")
	excluded := map[string]string{hubv1alpha1.WebhooksExcludeLabel: ""}
	b.Expect(pod(b.ctx, b.user(shared.B), excluded)).To(BeEmpty(), "HUB-11")
	user := b.stranger(shared.B)
	b.Eventually(func() error { return user.Delete(b.ctx, crd, client.DryRunAll) }).Should(
		MatchError(ContainSubstring("annotation to delete")))

	t.Log("Policies follow the settings")
	b.setYAML(shared.B, strings.Replace(threeReplaced, "api.b", "api.new", 1))
	b.becomes(shared.B, "api.new RuntimeDefault", nil)

	t.Log("A webhook that is switched off loses its policies, all others keep theirs")
	b.setYAML(shared.B, "{kubernetesServiceHost: {enabled: true, host: api.new}}")
	b.becomes(shared.B, "api.new", nil)
	b.Expect(b.policies(shared.B)).To(Equal([]string{all[0], all[2]}))

	b.switchOff(shared.B)
	b.Eventually(b.condition(shared.B)).Should(BeEmpty())
	b.Expect(b.policies(shared.B)).To(BeEmpty())
	b.becomes(shared.B, "", nil)
}

// POL-9, HUB-9: what others change in policies is undone, and what is in order is not written.
func TestDriftOfPolicies(t *testing.T) {
	b := newBench(t, nil)
	b.others = replaceable()
	b.setYAML(shared.B, threeReplaced)
	b.start(nil)
	b.Eventually(b.condition(shared.B)).Should(Equal(registered))
	want := b.policies(shared.B)
	b.Expect(want).To(HaveLen(8))
	policy := func() *admissionregistrationv1.MutatingAdmissionPolicy {
		list := &admissionregistrationv1.MutatingAdmissionPolicyList{}
		b.Expect(shared.B.Client.List(b.ctx, list)).To(Succeed())
		for i := range list.Items {
			if strings.HasSuffix(list.Items[i].Name, "-seccomp-profile") {
				return &list.Items[i]
			}
		}
		return nil
	}
	before := policy().DeepCopy()
	for name, harm := range map[string]func() error{
		"a policy is deleted": func() error { return shared.B.Client.Delete(b.ctx, policy()) },
		"a policy is edited": func() error {
			edited := policy()
			edited.Spec.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
			edited.Spec.Mutations[0].JSONPatch.Expression = `[JSONPatch{op: "test", path: "/kind", value: "Pod"}]`
			return shared.B.Client.Update(b.ctx, edited)
		},
		"a policy is unlabelled": func() error {
			edited := policy()
			edited.Labels = nil
			return shared.B.Client.Update(b.ctx, edited)
		},
		"all bindings are deleted": func() error {
			return shared.B.Client.DeleteAllOf(b.ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{})
		},
	} {
		b.Expect(harm()).To(Succeed(), name)
		b.Eventually(func() []string { return b.policies(shared.B) }).Should(Equal(want), name)
		b.Eventually(func() admissionregistrationv1.MutatingAdmissionPolicySpec {
			if p := policy(); p != nil {
				return p.Spec
			}
			return admissionregistrationv1.MutatingAdmissionPolicySpec{}
		}).Should(Equal(before.Spec), name)
	}
	reads := func() int {
		return len(shared.Calls(shared.B.Key, func(c twins.Call) bool {
			return c.Method == http.MethodGet && strings.HasSuffix(c.Path, "/mutatingadmissionpolicies") &&
				!strings.Contains(c.Query, "watch=")
		}))
	}
	writes := func() int {
		return len(shared.Calls(shared.B.Key, func(c twins.Call) bool {
			return c.Method != http.MethodGet && strings.Contains(c.Path, "admissionpolic")
		}))
	}
	count := reads()
	b.Eventually(reads).Should(BeNumerically(">", count+1))
	written := writes()
	count = reads()
	b.Eventually(reads).Should(BeNumerically(">", count+3))
	b.Expect(writes()).To(Equal(written))
}

// POL-8: what is new is in use before what it replaces is deleted, so that no object is left out while the mode
// changes. HUB-22: it is the same for one that is combined with others.
func TestModesUnderLoad(t *testing.T) {
	for name, others := range map[string]string{
		"alone": "", "combined": ", projectedTokenMount: {enabled: true}, registration: {combinePods: true}",
	} {
		t.Run(name, func(t *testing.T) { changeModesUnderLoad(t, others) })
	}
}

func changeModesUnderLoad(t *testing.T, others string) {
	t.Helper()
	b := newBench(t, nil)
	b.others = replaceable()
	b.serve(b.listener)
	mode := func(mode hubv1alpha1.WebhookMode) {
		b.setYAML(shared.B, fmt.Sprintf("{seccompProfile: {enabled: true, mode: %s}%s}", mode, others))
	}
	webhooksOnly := func() bool {
		return slices.Contains(b.called(shared.B), "seccomp-profile") && len(b.policies(shared.B)) == 0
	}
	policiesOnly := func() bool {
		return !slices.Contains(b.called(shared.B), "seccomp-profile") && len(b.policies(shared.B)) == 2
	}
	mode(hubv1alpha1.WebhookModeWebhook)
	b.start(nil)
	b.Eventually(b.condition(shared.B)).Should(Equal(registered))
	b.Expect(webhooksOnly()).To(BeTrue())
	if others != "" {
		b.Expect(b.called(shared.B)).To(ContainElement("target.mount-projected-service-account-token.seccomp-profile"))
	}
	const want = " RuntimeDefault"
	b.becomes(shared.B, want, nil)

	ctx, cancel := context.WithCancel(b.ctx)
	var work sync.WaitGroup
	var mu sync.Mutex
	var faults []string
	user := b.user(shared.B)
	work.Go(func() {
		for ctx.Err() == nil {
			got, err := pod(b.ctx, user, nil)
			if err != nil || got != want {
				mu.Lock()
				faults = append(faults, fmt.Sprintf("%s %v", got, err))
				mu.Unlock()
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	defer func() {
		cancel()
		work.Wait()
		b.Expect(faults).To(BeEmpty())
	}()
	mode(hubv1alpha1.WebhookModePolicy)
	b.Eventually(policiesOnly).Should(BeTrue())
	mode(hubv1alpha1.WebhookModeWebhook)
	b.Eventually(webhooksOnly).Should(BeTrue())
	mode(hubv1alpha1.WebhookModeAuto)
	b.Eventually(policiesOnly).Should(BeTrue())
}

// POL-7: a hub that may not look after policies calls instead, and reports where the settings demand a policy.
func TestAHubWithoutRightsToPolicies(t *testing.T) {
	b := newBench(t, nil)
	b.others = replaceable()
	b.serve(b.listener)
	shared.Intercept(t, func(key clustercache.ClusterKey, r *http.Request) *http.Response {
		if key != shared.B.Key || !strings.Contains(r.URL.Path, "admissionpolic") {
			return nil
		}
		return &http.Response{
			StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)),
		}
	})
	b.setYAML(shared.B, "{kubernetesServiceHost: {enabled: true, host: api.b}, seccompProfile: {enabled: true}}")
	b.start(nil)
	b.Eventually(b.condition(shared.B)).Should(Equal(registered))
	b.becomes(shared.B, "api.b RuntimeDefault", nil)
	b.setYAML(shared.B,
		"{kubernetesServiceHost: {enabled: true, host: api.b}, seccompProfile: {enabled: true, mode: Policy}}")
	b.Eventually(b.condition(shared.B)).Should(Equal("False PoliciesNotServed"))
	b.Expect(b.targetCluster(shared.B).Status.Conditions[0].Message).To(ContainSubstring(
		"seccomp-profile: the hub may not look after MutatingAdmissionPolicy in the target"))
	b.becomes(shared.B, "api.b", nil)
	b.switchOff(shared.B)
	b.Eventually(b.condition(shared.B)).Should(BeEmpty())
}

// POL-7: a target of an older version serves policies that validate, but none that mutate.
func TestTargetsThatServeNoPolicies(t *testing.T) {
	g := NewWithT(t)
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{validatingPolicies.policy, validatingPolicies.binding} {
		mapper.Add(admissionregistrationv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	served, err := readPolicies(t.Context(), fake.NewClientBuilder().WithRESTMapper(mapper).Build(), "trellis-a")
	g.Expect(err).NotTo(HaveOccurred())
	r := &reconciler{Options: Options{Webhooks: []admission.Webhook{
		pods.TokenMount(), pods.SeccompProfile(), pods.ServiceHost(), deletionprotection.Webhook(nil),
	}}}
	settings := reviews.Webhooks(t, "{projectedTokenMount: {enabled: true}, seccompProfile: {enabled: true}, "+
		"kubernetesServiceHost: {enabled: true, host: a, mode: Policy}, "+
		"crdDeletionProtection: {enabled: true, mode: Policy}}")
	p := r.plan("trellis-a", &settings, served)
	g.Expect(names(p.calls)).To(Equal("projected-token-mount, seccomp-profile"))
	g.Expect(names(p.replaced)).To(Equal("crd-deletion-protection"))
	g.Expect(p.policies).To(HaveLen(4))
	condition := p.condition("trellis-a")
	g.Expect(condition.Reason).To(Equal(hubv1alpha1.ReasonPoliciesNotServed))
	g.Expect(condition.Message).To(HaveSuffix("webhooks whose mode is Policy are not registered: " +
		"kubernetes-service-host: the target does not serve MutatingAdmissionPolicy in admissionregistration.k8s.io/v1"))
}
