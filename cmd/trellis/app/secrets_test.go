package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// canary is what no log, event, metric, status or debug page may hold.
const canary = "c4n4ry-d0-n0t-t3ll"

// No log, event, metric, status or debug page has content of Secrets, at the highest verbosity and for all errors:
// neither tokens of kubeconfigs, good and bad, nor the content of the Secrets that the hub applies.
func TestSecretsAreNotDisclosed(t *testing.T) {
	e := newEnv(t)
	kubeconfig, err := target.ServiceAccountKubeconfig(e.ctx, "default", "canary", time.Hour)
	e.Expect(err).NotTo(HaveOccurred())
	parsed, err := clientcmd.Load(kubeconfig)
	e.Expect(err).NotTo(HaveOccurred())
	token := ""
	for _, user := range parsed.AuthInfos {
		token = user.Token
	}
	e.Expect(token).NotTo(BeEmpty())
	with := func(change func(user string) string) []byte { return []byte(change(string(kubeconfig))) }
	for name, content := range map[string][]byte{
		"token":    kubeconfig, // may do nothing, and is connected or not
		"badtoken": with(func(k string) string { return strings.ReplaceAll(k, token, canary) }),
		"exec": with(func(k string) string {
			return strings.ReplaceAll(k, "token: "+token, "exec: {apiVersion: client.authentication.k8s.io/v1, command: "+canary+", interactiveMode: Never}")
		}),
		"garbage": []byte("apiVersion: v1\nkind: Config\nusers: [" + canary + "\n" + canary),
	} {
		e.Expect(source.Client.Create(e.ctx, testbed.Registration(e.name, name, content))).To(Succeed())
	}
	secret := func(name, data string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s}, %s}`, name, e.name, data)
	}
	for name, content := range map[string]string{
		"good":    secret("good", "stringData: {key: "+canary+"}"),
		"notyaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: notyaml}\nstringData: [key: " + canary + "\n  x: {" + canary,
		"list":    secret("list", "stringData: ["+canary+"]"),
		"base64":  secret("base64", "data: {key: '"+canary+"!'}"),
		"badkey":  secret("badkey", "stringData: {'k e y': "+canary+"}"),
		"unknown": secret("unknown", "stringData: {key: "+canary+"}, unknown: {field: "+canary+"}"),
		"noname":  "{apiVersion: v1, kind: Secret, stringData: {key: " + canary + "}}",
		"text":    canary,
	} {
		mr := testbed.ManagedResource(e.name, name, name)
		mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: "target"}
		e.Expect(source.Client.Create(e.ctx, testbed.Content(e.name, name, "objects.yaml", content))).To(Succeed())
		e.Expect(source.Client.Create(e.ctx, mr)).To(Succeed())
		t.Cleanup(func() {
			_ = source.Client.Patch(e.ctx, mr, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
			_ = source.Client.Delete(e.ctx, mr)
		})
	}
	e.pickTarget()

	probes, port := e.freePort(), e.freePort()
	config := validConfig + fmt.Sprintf("logLevel: debug\nserver:\n  enableDebugHandlers: true\n  healthProbes: {bindAddress: 127.0.0.1, port: %d}\n  metrics: {bindAddress: 127.0.0.1, port: %d}\n", probes, port)
	cmd, stdout, stderr := e.startProcess(t, config)

	e.expectWork()
	live := &corev1.Secret{ObjectMeta: objectMeta(e.name, "good")}
	content := func() string {
		e.Expect(client.IgnoreNotFound(target.Client.Get(e.ctx, client.ObjectKeyFromObject(live), live))).To(Succeed())
		return string(live.Data["key"])
	}
	e.Eventually(content).Should(Equal(canary))
	drift := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"stringData":{"key":"other-%s","more":%q}}`, canary, canary))
	e.Expect(target.Client.Patch(e.ctx, live, drift, client.FieldOwner("another-client"))).To(Succeed())
	e.Eventually(content).Should(Equal(canary))
	failed := func(name string) func() string {
		return func() string {
			mr := &resourcesv1alpha1.ManagedResource{}
			e.Expect(source.Client.Get(e.ctx, types.NamespacedName{Namespace: e.name, Name: name}, mr)).To(Succeed())
			if c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied); c != nil {
				return string(c.Status)
			}
			return ""
		}
	}
	for _, name := range []string{"notyaml", "list", "base64", "badkey", "noname", "text"} {
		e.Eventually(failed(name)).Should(Equal("False"), name)
	}
	for _, name := range []string{"badtoken", "exec", "garbage"} {
		e.Eventually(func() string {
			_, page := e.get(port, debugTargets+"?format=json")
			return page
		}).Should(MatchRegexp(`"target": "%s/%s",\s+"state": "(Refused|Disconnected)"`, e.name, name))
	}

	said := map[string]string{}
	for _, path := range []string{"/metrics", debugTargets, debugTargets + "?format=json"} {
		_, said[path] = e.get(port, path)
	}
	events := &eventsv1.EventList{}
	e.Eventually(func() int {
		e.Expect(source.Client.List(e.ctx, events, client.InNamespace(e.name))).To(Succeed())
		return len(events.Items)
	}).Should(BeNumerically(">=", 8))
	resources, targets := &resourcesv1alpha1.ManagedResourceList{}, &hubv1alpha1.TargetClusterList{}
	e.Expect(source.Client.List(e.ctx, resources, client.InNamespace(e.name))).To(Succeed())
	e.Expect(source.Client.List(e.ctx, targets, client.InNamespace(e.name))).To(Succeed())
	for name, list := range map[string]any{"events": events, "ManagedResources": resources, "TargetClusters": targets} {
		text, err := json.Marshal(list)
		e.Expect(err).NotTo(HaveOccurred())
		said[name] = string(text)
	}
	e.Expect(cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
	e.Expect(cmd.Wait()).To(Succeed())
	said["stdout"], said["stderr"] = stdout.String(), stderr.String()
	e.Expect(said["stderr"]).To(And(ContainSubstring(`"level":"debug"`), ContainSubstring("Corrected drift")), "it says a lot")
	for where, text := range said {
		for _, word := range []string{canary, token, "YzRuNHJ5LWQwLW4wdC10M2xs"} {
			i := strings.Index(text, word)
			e.Expect(i).To(Equal(-1), "%s discloses: %s", where, around(text, i))
		}
	}
}

// around is the text at a place.
func around(text string, i int) string {
	if i < 0 {
		return ""
	}
	return text[max(0, i-300):min(len(text), i+100)]
}
