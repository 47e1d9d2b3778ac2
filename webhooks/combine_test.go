package webhooks_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/webhooks"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// anyPod is a pod that some webhooks change and others do not.
func anyPod(r *rand.Rand) string {
	some := func(odds int, of ...string) (picked string) {
		for _, one := range of {
			if r.IntN(odds) == 0 {
				picked += one + ", "
			}
		}
		return picked
	}
	return fmt.Sprintf(`{metadata: {generateName: a-, labels: {%s}, ownerReferences: [%s]},
		spec: {containers: [%s], volumes: [{name: v, secret: {secretName: %s}}], %s}}`,
		some(8, `static-pod: "true"`, "app: gardener-resource-manager", "app.kubernetes.io/name: trellis",
			"seccompprofile.resources.gardener.cloud/skip: x", "projected-token-mount.resources.gardener.cloud/skip: x",
			"system-components-config.resources.gardener.cloud/skip: x",
			"topology-spread-constraints.resources.gardener.cloud/skip: x")+
			some(2, "resources.gardener.cloud/managed-by: gardener", "pod-template-hash: abc"),
		some(3, "{apiVersion: apps/v1, kind: DaemonSet, name: a, uid: b, controller: true}"),
		containers(1+r.IntN(3)), []string{"generic-token-kubeconfig", "another"}[r.IntN(2)],
		some(2, "serviceAccountName: a", "schedulerName: default-scheduler", "securityContext: {runAsNonRoot: true}",
			"topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]",
			"tolerations: [{key: x, operator: Exists}]", "automountServiceAccountToken: false"))
}

// selectedByAll is a pod for which webhooks of each scope are called.
const selectedByAll = `{metadata: {generateName: a-, labels: {resources.gardener.cloud/managed-by: gardener}},
	spec: {serviceAccountName: a, containers: [{name: a, image: a}]}}`

// side is an API server's view of webhooks: they are called for the pods with a label of its own.
type side struct {
	*handlers
	label string
}

const sideLabel = "side"

// create returns a pod as it is after the webhooks, and which were called.
func (s side) create(g Gomega, client kubernetes.Interface, object string) (created *corev1.Pod, calls []string) {
	pod := &corev1.Pod{}
	g.Expect(yaml.Unmarshal([]byte(object), pod)).To(Succeed())
	metav1.SetMetaDataLabel(&pod.ObjectMeta, sideLabel, s.label)
	s.calls()
	pod, err := client.CoreV1().Pods(s.target.Namespace).Create(s.t.Context(), pod,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	g.Expect(err).NotTo(HaveOccurred(), object)
	delete(pod.Labels, sideLabel)
	pod.ObjectMeta = metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}
	return pod, s.calls()
}

// HUB-22: a real API server creates pods with a call for each webhook, and with combined ones. The pods are the same,
// and combining never adds a call.
func TestHUB22_OneCallDoesWhatSeveralDo(t *testing.T) {
	g := NewWithT(t)
	config := controlplane.StartForTest(t, controlplane.Options{}).RESTConfig()
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	for scope, namespace := range map[hubv1alpha1.WebhookScope]string{
		hubv1alpha1.WebhookScopeTarget:  metav1.NamespaceSystem,
		hubv1alpha1.WebhookScopeRuntime: "shoot--a",
	} {
		t.Run(string(scope), func(t *testing.T) {
			g := NewWithT(t)
			target := ofSamples(t)
			target.Namespace, target.Settings.Registration.Scope = namespace, &scope
			for i := range target.State.Accounts {
				target.State.Accounts[i].Namespace = namespace
			}
			prefix := strings.ToLower(string(scope))
			separate := side{&handlers{t: t, target: target, webhooks: webhooks.All(nil)}, prefix + "-separate"}
			combined := side{&handlers{t: t, target: target,
				webhooks: admission.Combined(webhooks.All(nil), &target.Settings)}, prefix + "-combined"}
			_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: target.Labels},
			}, metav1.CreateOptions{})
			g.Expect(err).To(Or(BeNil(), Satisfy(apierrors.IsAlreadyExists)))
			r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // so that failures can be repeated
			for _, side := range []side{separate, combined} {
				side.register(client, side.label, admission.Is(sideLabel, side.label)...)
				g.Eventually(func(g Gomega) { // an API server takes a while to know of a configuration
					_, calls := side.create(g, client, selectedByAll)
					g.Expect(calls).NotTo(BeEmpty())
				}).Should(Succeed())
			}
			made, saved := 0, 0
			for range 100 {
				pod := anyPod(r)
				want, calls := separate.create(g, client, pod)
				got, fewer := combined.create(g, client, pod)
				g.Expect(got).To(Equal(want), pod)
				g.Expect(len(fewer)).To(BeNumerically("<=", len(calls)), "%v and %v of %s", calls, fewer, pod)
				made, saved = made+len(calls), saved+len(calls)-len(fewer)
			}
			t.Logf("%d calls, %d less if combined", made, saved)
			g.Expect(saved).To(BeNumerically(">", 10))
		})
	}
}

// HUB-22: failures that are ignored leave out as much of one call as of several, also while settings are others than
// those that were registered.
func TestFailuresOfOneCall(t *testing.T) {
	broken := errors.New("broken")
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // so that failures can be repeated
	path := "target." + strings.Join(members(t), ".")
	left := 0
	for range 500 {
		g := NewWithT(t)
		pod := "{apiVersion: v1, kind: Pod, " + anyPod(random)[1:]
		target := ofSamples(t)
		target.Namespace = metav1.NamespaceSystem
		target.Settings.Registration.Scope = ptr.To(hubv1alpha1.WebhookScopeTarget)
		target.State.Accounts[0].Namespace = metav1.NamespaceSystem
		target.State.ErrOf = map[string]error{}
		for _, resource := range []string{"serviceaccounts", "nodes"} {
			if random.IntN(2) == 0 {
				target.State.ErrOf[resource] = broken
			}
		}
		if random.IntN(2) == 0 {
			target.Settings.SeccompProfile = nil
		}
		want := pod
		failed := 0
		for _, w := range webhooks.All(nil) {
			if !w.Combines || !w.Enabled(&target.Settings) {
				continue
			}
			answer := target.Send(t, w, want)
			want = string(answer.Object)
			if answer.Err != nil {
				failed++
			}
		}
		// From here on, the scope is another than the one that is registered.
		target.Settings.Registration = &hubv1alpha1.WebhookRegistration{Scope: ptr.To(hubv1alpha1.WebhookScopeRuntime)}
		w, is := admission.CombinedAt(path, webhooks.All(nil))
		g.Expect(is).To(BeTrue())
		request := target.Request(t, pod)
		request.Ignored = true
		answer, err := w.Handler.Handle(t.Context(), request)
		got := request.Object.Raw
		if err == nil && len(answer.Patch) > 0 {
			patch, err := jsonpatch.DecodePatch(answer.Patch)
			g.Expect(err).NotTo(HaveOccurred())
			got, err = patch.Apply(got)
			g.Expect(err).NotTo(HaveOccurred())
		}
		if err == nil {
			g.Expect(answer.Ignored).To(HaveLen(failed))
			left += failed
		}
		g.Expect(got).To(MatchJSON(want), pod)
	}
	NewWithT(t).Expect(left).To(BeNumerically(">", 20), "or the test shows nothing")
}

// members are the paths of all webhooks that can be combined. To remove one of them has API servers of targets call a
// path that no replica knows, until the configuration is written again.
func members(t *testing.T) (paths []string) {
	t.Helper()
	for _, w := range webhooks.All(nil) {
		if w.Combines {
			paths = append(paths, w.Path)
		}
	}
	NewWithT(t).Expect(paths).To(Equal([]string{"mount-projected-service-account-token", "seccomp-profile",
		"system-components-config", "pod-topology-spread-constraints"}))
	return paths
}

// HUB-22: entries are combined that API servers call for the same namespaces, and treat in the same way. They are where
// their first member was.
func TestCombinedEntries(t *testing.T) {
	g := NewWithT(t)
	settings := all(t, hubv1alpha1.WebhookScopeTarget)
	paths := func(webhooks []admission.Webhook) (paths []string) {
		for _, w := range webhooks {
			if w.Enabled(settings) {
				paths = append(paths, w.Path)
			}
		}
		return paths
	}
	const combined = "target.mount-projected-service-account-token.seccomp-profile.system-components-config." +
		"pod-topology-spread-constraints"
	before := paths(webhooks.All(nil))
	g.Expect(before).To(ContainElements(admission.PathsIn(combined)))
	after := []string{combined}
	for _, path := range before {
		if !slices.Contains(admission.PathsIn(combined), path) {
			after = append(after, path)
		}
	}
	g.Expect(paths(admission.Combined(webhooks.All(nil), settings))).To(Equal(after))

	for _, w := range admission.Combined(webhooks.All(nil), settings) {
		at, is := admission.CombinedAt(w.Path, webhooks.All(nil))
		g.Expect(is).To(Equal(w.Path == combined))
		if !is {
			continue
		}
		g.Expect(at.Entries(settings)).To(Equal(w.Entries(settings)), "the server finds what was registered")
		g.Expect(w.Entries(settings)).To(HaveLen(1))
		e := w.Entries(settings)[0]
		g.Expect(e.Name).To(Equal("combined-projected-token-mount"))
		g.Expect(e.FailurePolicy).To(Equal(admissionregistrationv1.Fail))
		g.Expect(e.NamespaceSelector).To(Equal(admission.Selector(admission.Namespaces(settings))))
		g.Expect(e.ObjectSelector).To(Equal(admission.Selector(admission.NotStatic())))
		g.Expect(e.MatchConditions).To(ConsistOf(HaveField("Name", "any")))
	}

	t.Log("Another failure policy")
	settings.SeccompProfile.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
	now := paths(admission.Combined(webhooks.All(nil), settings))
	g.Expect(now).To(ContainElements("seccomp-profile", strings.Replace(combined, "seccomp-profile.", "", 1)))
	g.Expect(now).To(HaveLen(len(after) + 1))
}

func FuzzCombined(f *testing.F) {
	c := ofSamples(f)
	for _, w := range mutating(f, c) {
		if len(admission.PathsIn(w.Path)) > 1 {
			c.Fuzz(f, w, podOf(2))
			return
		}
	}
	f.Fatal("none is combined")
}
