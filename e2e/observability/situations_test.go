//go:build observability

package observability

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/testbed"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

// seen are the alerts that fired and were over again.
var (
	seenMu sync.Mutex
	seen   = map[string]bool{}
)

// expectFiring waits until an alert fires. One that names a target also says in which namespace it is registered.
func expectFiring(t *testing.T, alert string, labels map[string]string) {
	t.Helper()
	if namespace, _, ok := strings.Cut(labels["target"], "/"); ok {
		labels = maps.Clone(labels)
		labels["namespace"] = namespace
	}
	query := fmt.Sprintf(`ALERTS{alertstate="firing",alertname=%q,%s}`, alert, selector(labels))
	began := time.Now()
	NewWithT(t).Eventually(func(g Gomega) { g.Expect(samples(g, query)).NotTo(BeZero()) }).Should(Succeed(), "%s does not fire", alert)
	t.Logf("%s fires after %s", alert, time.Since(began).Round(time.Second))
}

// expectOver waits until an alert no longer fires.
func expectOver(t *testing.T, alert string, labels map[string]string) {
	t.Helper()
	query := fmt.Sprintf(`ALERTS{alertname=%q,%s}`, alert, selector(labels))
	began := time.Now()
	NewWithT(t).Eventually(func(g Gomega) { g.Expect(samples(g, query)).To(BeZero()) }).Should(Succeed(), "%s does not end", alert)
	t.Logf("%s is over after %s", alert, time.Since(began).Round(time.Second))
	seenMu.Lock()
	defer seenMu.Unlock()
	seen[alert] = true
}

func samples(g Gomega, query string) int {
	answer, _, err := monitoring.API.Query(context.Background(), query, time.Now())
	g.Expect(err).NotTo(HaveOccurred(), query)
	return len(vector(answer))
}

func vector(answer model.Value) model.Vector {
	samples, _ := answer.(model.Vector)
	return samples
}

// meanwhile does something again and again until the test is over or the function that it returns is called.
func meanwhile(t *testing.T, every time.Duration, do func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			do()
			select {
			case <-ctx.Done():
			case <-time.After(every):
			}
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// TestSituations are about single targets and ManagedResources. They do not disturb each other, so they run at once.
func TestSituations(t *testing.T) {
	// The others, so that one that is down is not many.
	for i := range 4 {
		calm := newTarget(t, fmt.Sprintf("calm-%d", i), long)
		calm.apply(t, "calm", calm.configMaps("calm", 5)...)
	}
	ctx := context.Background()
	situations := map[string]func(t *testing.T, alert string){
		"TrellisTargetDown": func(t *testing.T, alert string) {
			to := newTarget(t, "down", long)
			labels := map[string]string{"target": to.label()}
			up := `sum(trellis_target_up{target="` + to.label() + `"})` // or it does not count as a target yet
			NewWithT(t).Eventually(func(g Gomega) { g.Expect(value(g, up)).To(Equal(2.0)) }).Should(Succeed())
			to.way.set(true)
			expectFiring(t, alert, labels)
			to.way.set(false)
			expectOver(t, alert, labels)
		},
		// Each replica has one connection.
		"TrellisTargetNeverConnected": func(t *testing.T, alert string) {
			to := prepareTarget(t, "never")
			labels := map[string]string{"target": to.label()}
			to.way.set(true)
			to.create(t, to.access(t, "first", long))
			expectFiring(t, alert, labels)
			NewWithT(t).Expect(samples(NewWithT(t), fmt.Sprintf(`target:trellis_target_up:max{%s}`, selector(labels)))).
				To(BeZero(), "it does not count as a target")
			to.way.set(false)
			expectOver(t, alert, labels)
		},
		"TrellisWithoutTarget": func(t *testing.T, alert string) {
			to := newTarget(t, "unregistered", long)
			labels := map[string]string{"class": "resources"}
			to.apply(t, "left", to.configMaps("left", 1)...)
			// The hub leaves alone what it never applied, in a namespace without a registration.
			NewWithT(t).Eventually(func() error { _, err := to.live("left-0"); return err }).Should(Succeed())
			registration := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: to.namespace, Name: to.name + "-kubeconfig"}}
			NewWithT(t).Expect(source.Client.Delete(ctx, registration)).To(Succeed())
			expectFiring(t, alert, labels)
			to.create(t, to.access(t, "second", long))
			expectOver(t, alert, labels)
		},
		"TrellisTargetPartlyReachable": func(t *testing.T, alert string) {
			to := newTarget(t, "halved", long)
			labels := map[string]string{"target": to.label()}
			up := `sum(trellis_target_up{target="` + to.label() + `"})`
			NewWithT(t).Eventually(func(g Gomega) { g.Expect(value(g, up)).To(Equal(2.0)) }).Should(Succeed())
			to.way.narrow()
			expectFiring(t, alert, labels)
			to.way.set(false)
			expectOver(t, alert, labels)
		},
		"TrellisTargetFlapping": func(t *testing.T, alert string) {
			to := newTarget(t, "flapping", long)
			labels := map[string]string{"target": to.label()}
			up := `max(trellis_target_up{target="` + to.label() + `"})`
			// It flaps until the alert fires: on a busy machine, fewer flaps fit into the time that the rule looks at.
			firing := fmt.Sprintf(`ALERTS{alertstate="firing",alertname=%q,%s}`, alert, selector(labels))
			g := NewWithT(t)
			for flaps := 0; flaps < 30 && samples(g, firing) == 0; flaps++ {
				to.way.set(true)
				g.Eventually(func(g Gomega) { g.Expect(value(g, up)).To(Equal(0.0)) }).Should(Succeed())
				to.way.set(false)
				g.Eventually(func(g Gomega) { g.Expect(value(g, up)).To(Equal(1.0)) }).Should(Succeed())
			}
			expectFiring(t, alert, labels)
			expectOver(t, alert, labels)
		},
		// The leader may write its Lease, and not that of the heartbeat.
		"TrellisHeartbeatStale": func(t *testing.T, alert string) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.HubNamespace, Name: "trellis" +
				heartbeat.NameSuffix}}
			allow := deny(t, source, lease, admissionregistrationv1.Update, func() error {
				return source.Client.Patch(ctx, lease, client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"labels":{"tried":"yes"}}}`)), client.DryRunAll)
			})
			expectFiring(t, alert, nil)
			allow()
			expectOver(t, alert, nil)
		},
		"TrellisCredentialExpiring": func(t *testing.T, alert string) {
			to := newTarget(t, "expiring", 48*time.Hour)
			labels := map[string]string{"target": to.label()}
			expectFiring(t, alert, labels)
			to.register(t, to.access(t, "second", long))
			expectOver(t, alert, labels)
		},
		"TrellisCredentialExpiresNow": func(t *testing.T, alert string) {
			to := newTarget(t, "expired", 20*time.Minute)
			labels := map[string]string{"target": to.label()}
			expectFiring(t, alert, labels)
			to.register(t, to.access(t, "second", long))
			expectOver(t, alert, labels)
		},
		"TrellisRegistrationRefused": func(t *testing.T, alert string) {
			to := prepareTarget(t, "refused")
			good := to.access(t, "first", long)
			to.create(t, testbed.Rewrite(good, func(config *testbed.KubeConfig) {
				for _, user := range config.AuthInfos {
					user.Token, user.Exec = "", &api.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "true", InteractiveMode: "Never"}
				}
			}))
			labels := map[string]string{"target": to.label()}
			expectFiring(t, alert, labels)
			to.register(t, good)
			expectOver(t, alert, labels)
		},
		"TrellisNotApplied": func(t *testing.T, alert string) {
			to, _ := alone(t, "broken")
			labels := map[string]string{"target": to.label()}
			to.applyAs(t, "broken", "broken", "apiVersion: v1\nkind: [")
			expectFiring(t, alert, labels)
			to.remove(t, "broken")
			expectOver(t, alert, labels)
		},
		"TrellisApplyFailing": func(t *testing.T, alert string) {
			to := newTarget(t, "invalid", long)
			labels := map[string]string{"target": to.label()}
			var manifests []string
			for i := range 12 {
				manifests = append(manifests, testbed.ConfigMap(to.namespace, fmt.Sprintf("Not_A_Name-%d", i), "x"))
			}
			to.apply(t, "invalid", manifests...)
			expectFiring(t, alert, labels)
			to.remove(t, "invalid")
			expectOver(t, alert, labels)
		},
		// The target refuses a change, and continues to serve.
		"TrellisChangeNotRolledOut": func(t *testing.T, alert string) {
			to := newTarget(t, "behind", long)
			labels := map[string]string{"target": to.label()}
			g := NewWithT(t)
			to.apply(t, "behind", to.configMaps("behind", 1)...)
			g.Eventually(func() error { _, err := to.live("behind-0"); return err }).Should(Succeed())
			all := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: to.namespace}}
			allow := deny(t, home, all, admissionregistrationv1.Update, func() error {
				object, err := to.live("behind-0")
				if err != nil {
					return err
				}
				object.Data["key"] = "tried"
				return home.Client.Update(ctx, object, client.DryRunAll)
			})
			to.change(t, "behind", testbed.ConfigMap(to.namespace, "behind-0", "better"))
			expectFiring(t, alert, labels)
			lag := fmt.Sprintf(`max(trellis_target_revision_lag_seconds{%s})`, selector(labels))
			g.Eventually(func(g Gomega) { g.Expect(value(g, lag)).To(BeNumerically(">", 60)) }).Should(Succeed())
			allow()
			// The next try may be minutes away.
			to.change(t, "behind", testbed.ConfigMap(to.namespace, "behind-0", "best"))
			expectOver(t, alert, labels)
		},
		"TrellisTargetNotReady": func(t *testing.T, alert string) {
			to := newTarget(t, "unready", long)
			labels := map[string]string{"target": to.label()}
			// No controller rolls anything out in this cluster.
			to.apply(t, "unready", fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":"web"},"spec":{`+
				`"replicas":0,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web"}]}}}}`, to.namespace))
			expectFiring(t, alert, labels)
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: to.namespace, Name: "web"}}
			available := client.RawPatch(client.Merge.Type(), []byte(`{"status":{"observedGeneration":1,`+
				`"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`))
			NewWithT(t).Expect(home.Client.Status().Patch(ctx, deployment, available)).To(Succeed())
			expectOver(t, alert, labels)
		},
		"TrellisDriftRateHigh": func(t *testing.T, alert string) {
			to := newTarget(t, "drifting", long)
			labels := map[string]string{"target": to.label()}
			const count = 60
			to.apply(t, "drifting", to.configMaps("drifting", count)...)
			i := 0
			stop := meanwhile(t, 100*time.Millisecond, func() {
				to.disturb(fmt.Sprintf("drifting-%d", i%count))
				i++
			})
			expectFiring(t, alert, labels)
			stop()
			expectOver(t, alert, labels)
		},
		"TrellisContested": func(t *testing.T, alert string) {
			to, _ := alone(t, "contested")
			labels := map[string]string{"target": to.label()}
			to.applyAs(t, "contested", "contested", to.configMaps("contested", 1)...)
			stop := meanwhile(t, 200*time.Millisecond, func() { to.disturb("contested-0") })
			expectFiring(t, alert, labels)
			stop()
			to.remove(t, "contested") // otherwise it takes ten minutes to be over
			expectOver(t, alert, labels)
		},
		"TrellisPruneBlocked": func(t *testing.T, alert string) {
			to, _ := alone(t, "kept")
			labels := map[string]string{"target": to.label()}
			g := NewWithT(t)
			to.applyAs(t, "kept", "kept", to.configMaps("kept", 1)...)
			finalizers := func(list string) {
				object, err := to.live("kept-0")
				g.Expect(err).NotTo(HaveOccurred())
				patch := client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"finalizers":`+list+`}}`))
				g.Expect(home.Client.Patch(ctx, object, patch)).To(Succeed())
			}
			g.Eventually(func() error { _, err := to.live("kept-0"); return err }).Should(Succeed())
			finalizers(`["example.org/keep"]`)
			to.remove(t, "kept")
			expectFiring(t, alert, labels)
			finalizers(`null`)
			expectOver(t, alert, labels)
		},
		"TrellisPruneFailing": func(t *testing.T, alert string) {
			to := newTarget(t, "guarded", long)
			labels := map[string]string{"target": to.label()}
			g := NewWithT(t)
			to.apply(t, "guarded", to.configMaps("guarded", 3)...)
			g.Eventually(func() error { _, err := to.live("guarded-2"); return err }).Should(Succeed())
			all := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: to.namespace}}
			allow := deny(t, home, all, admissionregistrationv1.Delete, func() error {
				first := all.DeepCopy()
				first.Name = "guarded-0"
				return home.Client.Delete(ctx, first, client.DryRunAll)
			})
			to.remove(t, "guarded")
			expectFiring(t, alert, labels)
			allow()
			expectOver(t, alert, labels)
		},
		"TrellisTargetThrottled": func(t *testing.T, alert string) {
			to := newTarget(t, "throttled", long)
			labels := map[string]string{"target": to.label()}
			to.limit(t, 1)
			to.apply(t, "throttled", to.configMaps("throttled", 300)...)
			expectFiring(t, alert, labels)
			to.limit(t, 0)
			expectOver(t, alert, labels)
		},
		"TrellisRotationFailing": func(t *testing.T, alert string) {
			to := newTarget(t, "misled", long)
			labels := map[string]string{"target": to.label()}
			good := to.access(t, "second", long)
			to.register(t, testbed.Rewrite(good, func(config *testbed.KubeConfig) {
				for _, user := range config.AuthInfos {
					user.Token = "unknown"
				}
			}))
			expectFiring(t, alert, labels)
			to.register(t, good)
			expectOver(t, alert, labels)
		},
		"TrellisWatchesUnsynced": func(t *testing.T, alert string) {
			to := newTarget(t, "blind", long)
			labels := map[string]string{"target": to.label()}
			narrow, widen := to.narrowAccess(t)
			to.register(t, narrow)
			to.apply(t, "blind", to.configMaps("blind", 1)...)
			expectFiring(t, alert, labels)
			widen()
			expectOver(t, alert, labels)
		},
		// Far more slow targets than a class can begin with in half a minute, of which one at a time may compute.
		"TrellisQueueWait": func(t *testing.T, alert string) {
			labels := map[string]string{"class": "slow"}
			slow := make([]*target, 50)
			for i := range slow {
				slow[i] = newTarget(t, fmt.Sprintf("slow-%d", i), long)
				slow[i].serve(t, "slow")
				slow[i].limit(t, 1)
			}
			for _, to := range slow {
				to.applyAs(t, "slow", "slow", to.configMaps("slow", 200)...)
			}
			expectFiring(t, alert, labels)
			for _, to := range slow {
				to.limit(t, 0)
			}
			expectOver(t, alert, labels)
		},
		// A ManagedResource takes long, and another one of the same target waits for it. For other targets there are workers.
		"TrellisTargetBacklog": func(t *testing.T, alert string) {
			to, _ := alone(t, "piled")
			labels := map[string]string{"target": to.label()}
			to.limit(t, 1)
			to.applyAs(t, "piled", "first", to.configMaps("first", 200)...) // three minutes and a half
			g := NewWithT(t)
			busy := `max(trellis_queue_longest_run_seconds{class="piled"})`
			g.Eventually(func(g Gomega) { g.Expect(value(g, busy)).To(BeNumerically(">", 2)) }).Should(Succeed())
			to.applyAs(t, "piled", "second", to.configMaps("second", 1)...)
			expectFiring(t, alert, labels)
			expectFiring(t, "TrellisReconcileStuck", labels)
			g.Expect(samples(g, `ALERTS{alertname="TrellisQueueWait",class="piled"}`)).To(BeZero(),
				"no ManagedResource waits for a worker")
			to.limit(t, 0)
			expectOver(t, alert, labels)
			g.Eventually(logs).Should(MatchRegexp(`A run took long.*"managedResource": "shoot--piled/first"`))
			expectOver(t, "TrellisReconcileStuck", labels)
		},
		// Many things to do for one target that takes a request a second.
		"TrellisPropagationSlow": func(t *testing.T, alert string) {
			to := newTarget(t, "crawling", long)
			to.serve(t, "crawling")
			labels := map[string]string{"class": "crawling"}
			const count = 100
			name := func(i int) string { return fmt.Sprintf("crawling-%d", i) }
			for i := range count {
				to.applyAs(t, "crawling", name(i), testbed.ConfigMap(to.namespace, name(i), "well"))
			}
			g := NewWithT(t)
			for i := range count {
				g.Eventually(func() error { _, err := to.live(name(i)); return err }).Should(Succeed())
			}
			to.limit(t, 1)
			for i := range count {
				to.disturb(name(i))
			}
			expectFiring(t, "TrellisDriftSlow", labels)
			expectOver(t, "TrellisDriftSlow", labels)
			for i := range count {
				to.change(t, name(i), testbed.ConfigMap(to.namespace, name(i), "better"))
			}
			expectFiring(t, alert, labels)
			to.limit(t, 0)
			expectOver(t, alert, labels)
		},
	}
	maps.Copy(situations, controllerSituations)
	maps.Copy(situations, webhookSituations)
	for alert, situation := range situations {
		t.Run(alert, func(t *testing.T) {
			t.Parallel()
			situation(t, alert)
		})
	}
}

// logs are those of all replicas.
func logs() (all string, err error) {
	for _, h := range []*testbed.Process{hub, standby} {
		content, err := os.ReadFile(h.LogFile)
		if err != nil {
			return "", err
		}
		all += string(content)
	}
	return all, nil
}

// deny has a cluster refuse an operation on an object, or on all of its kind in its namespace if it has no name, until
// it is allowed again. try is such an operation; it must change nothing.
func deny(t *testing.T, c *testbed.Cluster, object client.Object, operation admissionregistrationv1.OperationType,
	try func() error) (allow func()) {
	t.Helper()
	g, ctx := NewWithT(t), context.Background()
	kind, err := c.Client.GroupVersionKindFor(object)
	g.Expect(err).NotTo(HaveOccurred())
	mapping, err := c.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	g.Expect(err).NotTo(HaveOccurred())
	resource := mapping.Resource
	var names []string
	if object.GetName() != "" {
		names = []string{object.GetName()}
	}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "keep-" + object.GetNamespace()},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": object.GetNamespace()}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{ResourceNames: names, RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{operation},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{resource.Group}, APIVersions: []string{resource.Version}, Resources: []string{resource.Resource}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "keep it"}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	g.Expect(c.Client.Create(ctx, policy)).To(Succeed())
	g.Expect(c.Client.Create(ctx, binding)).To(Succeed())
	g.Eventually(try).Should(MatchError(ContainSubstring("keep it")), "the policy comes into force")
	return func() { g.Expect(c.Client.Delete(ctx, binding)).To(Succeed()) }
}
