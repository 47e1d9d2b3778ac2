package webhooks_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks"
)

var update = flag.Bool("update", false, "write the golden files")

// everything switches all webhooks on.
const everything = `{
projectedTokenMount: {enabled: true}, highAvailabilityConfig: {enabled: true}, podSchedulerName: {enabled: true},
seccompProfile: {enabled: true}, kubernetesServiceHost: {enabled: true, host: api.example},
podKubeAPIServerLoadBalancing: {enabled: true, virtualGarden: true}, systemComponentsConfig: {enabled: true},
podTopologySpreadConstraints: {enabled: true}, vpaInPlaceUpdates: {enabled: true}, endpointSliceHints: {enabled: true},
tokenInvalidator: {enabled: true}, crdDeletionProtection: {enabled: true}, extensionValidation: {enabled: true},
nodeAgentAuthorizer: {enabled: true}}`

// all are settings by which all webhooks are on, for a scope.
func all(t testing.TB, scope hubv1alpha1.WebhookScope) *hubv1alpha1.TargetWebhooks {
	t.Helper()
	settings := reviews.Webhooks(t, everything)
	settings.Registration.Scope = &scope
	return &settings
}

// registered is an entry as the golden files have it.
type registered struct {
	Name, Path                        string
	Rules                             []admissionregistrationv1.RuleWithOperations
	FailurePolicy                     admissionregistrationv1.FailurePolicyType
	MatchPolicy                       admissionregistrationv1.MatchPolicyType
	TimeoutSeconds                    int32
	NamespaceSelector, ObjectSelector []string
	MatchConditions                   []admissionregistrationv1.MatchCondition
}

func entries(t testing.TB, settings *hubv1alpha1.TargetWebhooks, validating bool) (list []registered) {
	t.Helper()
	for _, w := range webhooks.All(nil) {
		if w.Validating != validating {
			continue
		}
		for _, e := range w.Entries(settings) {
			list = append(list, registered{
				e.Name, w.Path, e.Rules, e.FailurePolicy, e.MatchPolicy, e.TimeoutSeconds,
				requirements(t, e.NamespaceSelector), requirements(t, e.ObjectSelector), e.MatchConditions,
			})
		}
	}
	return list
}

// requirements are those of a selector, one a line.
func requirements(t testing.TB, selector metav1.LabelSelector) []string {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(&selector)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	all, _ := s.Requirements()
	var lines []string
	for _, r := range all {
		lines = append(lines, r.String())
	}
	return lines
}

func TestCMN12_Registration(t *testing.T) {
	for _, scope := range []hubv1alpha1.WebhookScope{hubv1alpha1.WebhookScopeTarget, hubv1alpha1.WebhookScopeRuntime} {
		t.Run(string(scope), func(t *testing.T) {
			golden(t, strings.ToLower(string(scope)), entries(t, all(t, scope), false))
			golden(t, "validating", entries(t, all(t, scope), true)) // the same for both
		})
	}
}

// golden compares entries with those of a file in testdata.
func golden(t *testing.T, name string, entries []registered) {
	t.Helper()
	g := NewWithT(t)
	got, err := yaml.Marshal(entries)
	g.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join("testdata", name+".yaml")
	if *update {
		g.Expect(os.WriteFile(file, got, 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(got)).To(Equal(string(want)), "run the test with -update if this is meant")
}

func TestCMN13_Order(t *testing.T) {
	g := NewWithT(t)
	var names []string
	for _, e := range entries(t, all(t, hubv1alpha1.WebhookScopeTarget), false) {
		names = append(names, e.Name)
	}
	g.Expect(names).To(Equal([]string{
		"projected-token-mount", "high-availability-config", "pod-scheduler-name", "seccomp-profile",
		"kubernetes-service-host",
		"pod-kube-apiserver-load-balancing", "pod-virtual-garden-kube-apiserver-load-balancing", "system-components-config",
		"pod-topology-spread-constraints", "vpa-in-place-updates", "endpoint-slice-hints", "token-invalidator",
	}))
	names = nil
	for _, e := range entries(t, all(t, hubv1alpha1.WebhookScopeTarget), true) {
		names = append(names, e.Name)
	}
	g.Expect(names[:2]).To(Equal([]string{"crd-deletion-protection", "cr-deletion-protection"}))
	g.Expect(names[2:]).To(And(HaveLen(12), HaveEach(HavePrefix("validation.extensions."))))
	var paths []string
	for _, w := range webhooks.All(nil) {
		paths = append(paths, w.Path)
	}
	slices.Sort(paths)
	g.Expect(slices.Compact(paths)).To(HaveLen(len(webhooks.All(nil))), "each has a path of its own")
}

func TestCMN14_StaticPods(t *testing.T) {
	g := NewWithT(t)
	pods := 0
	for _, e := range entries(t, all(t, hubv1alpha1.WebhookScopeTarget), false) {
		ofPods := slices.Contains(e.Rules[0].Resources, "pods")
		if ofPods {
			pods++
		}
		g.Expect(slices.Contains(e.ObjectSelector, "static-pod notin (true)")).To(Equal(ofPods), e.Name)
	}
	g.Expect(pods).To(Equal(8), "seven, one of which has two entries")
}

func TestCMN11_WebhooksThatAreOff(t *testing.T) {
	g := NewWithT(t)
	for _, w := range webhooks.All(nil) {
		g.Expect(w.Enabled(&hubv1alpha1.TargetWebhooks{})).To(BeFalse(), w.Name)
		g.Expect(w.Enabled(all(t, hubv1alpha1.WebhookScopeTarget))).To(BeTrue(), w.Name)
	}
}

// CMN-16: a target switches off what its class has switched on, as one without nodes does.
func TestCMN16_WhatATargetSwitchesOffIsOff(t *testing.T) {
	g := NewWithT(t)
	off := reviews.Webhooks(t, strings.ReplaceAll(everything, "enabled: true", "enabled: false"))
	merged := all(t, hubv1alpha1.WebhookScopeTarget).Merge(&off)
	merged.SetDefaults(hubv1alpha1.WebhookScopeTarget)
	for _, w := range webhooks.All(nil) {
		g.Expect(w.Enabled(&merged)).To(BeFalse(), w.Name)
	}
}

func TestFailurePolicyAndTimeoutOfSettings(t *testing.T) {
	g := NewWithT(t)
	settings := all(t, hubv1alpha1.WebhookScopeTarget)
	settings.SeccompProfile.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
	settings.KubernetesServiceHost.FailurePolicy = ptr.To(admissionregistrationv1.Fail)
	settings.Registration.TimeoutSeconds = ptr.To[int32](5)
	for _, e := range slices.Concat(entries(t, settings, false), entries(t, settings, true)) {
		ignored := e.Name == "seccomp-profile" || e.Name == "pod-scheduler-name"
		if ignored {
			g.Expect(e.FailurePolicy).To(Equal(admissionregistrationv1.Ignore), e.Name)
		} else {
			g.Expect(e.FailurePolicy).NotTo(Equal(admissionregistrationv1.Ignore), e.Name)
		}
		want := int32(5)
		if e.Name == "kubernetes-service-host" {
			want = 2
		}
		g.Expect(e.TimeoutSeconds).To(Equal(want), e.Name)
	}
}

// TestConditionsAreWithinTheLimits of the API: 64 an entry, with names of their own.
func TestConditionsAreWithinTheLimits(t *testing.T) {
	g := NewWithT(t)
	for _, e := range entries(t, all(t, hubv1alpha1.WebhookScopeTarget), false) {
		names := map[string]bool{}
		for _, c := range e.MatchConditions {
			g.Expect(c.Name).To(MatchRegexp("^[a-z-]+$"))
			names[c.Name] = true
		}
		g.Expect(names).To(HaveLen(len(e.MatchConditions)))
		g.Expect(len(names)).To(BeNumerically("<", 60), "the registration adds some")
	}
}
