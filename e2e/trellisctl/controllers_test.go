package trellisctl

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/apis/references"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/explain"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// control says which controllers work in a target.
func (p *place) control(name, controllers string) {
	p.t.Helper()
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metaOf(p.name, name)}
	patch := client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"controllers":{`+controllers+`}}}`))
	p.Expect(source.Client.Patch(p.ctx, tc, patch)).To(Succeed())
}

// why asks why, and returns the answer.
func (p *place) why(args ...string) *explain.Answer {
	p.t.Helper()
	r := p.ctl(append(append([]string{"why"}, args...), "-o", "json")...)
	p.Expect(r.code).To(BeElementOf(cli.ExitOK, cli.ExitFound), r.err)
	answer := &explain.Answer{}
	p.Expect(json.Unmarshal([]byte(r.out), answer)).To(Succeed())
	p.Expect(answer.OK).To(Equal(r.code == cli.ExitOK))
	if !answer.OK {
		p.Expect(answer.Cause).NotTo(BeNil())
	}
	return answer
}

// reason is that of the cause; empty if nothing is wrong.
func (p *place) reason(args ...string) func() string {
	return func() string {
		if answer := p.why(args...); answer.Cause != nil {
			return answer.Cause.Reason
		}
		return ""
	}
}

// detail is one detail of an answer.
func detail(answer *explain.Answer, name string) string {
	for _, d := range answer.Details {
		if d.Name == name {
			return d.Text
		}
	}
	return ""
}

func annotate(p *place, c *testbed.Cluster, obj client.Object, key, value string) {
	p.t.Helper()
	patch := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	p.Expect(c.Client.Patch(p.ctx, obj, patch)).To(Succeed())
}

func TestWhyOfAnAccessSecret(t *testing.T) {
	p := newCluster(t)
	p.register("shoot-a")
	const prefix = "serviceaccount.resources.gardener.cloud/"
	secret := &corev1.Secret{ObjectMeta: metaOf(p.name, "access")}
	secret.Labels = map[string]string{resourcesv1alpha1.PurposeLabel: resourcesv1alpha1.PurposeTokenRequestor}
	secret.Annotations = map[string]string{prefix + "name": "client", prefix + "namespace": p.name}
	p.Expect(source.Client.Create(p.ctx, secret)).To(Succeed())

	off := p.why("access", "access")
	p.Expect(off.Cause.Reason).To(Equal(explain.ReasonSwitchedOff))
	p.Expect(off.Cause.Wished).To(BeTrue())
	p.Expect(off.Cause.Unblock).To(ContainSubstring(`{"spec":{"controllers":{"tokenRequestor":{"enabled":true}}}}`))
	p.Expect(off.Target).To(Equal(p.name + "/shoot-a"))

	p.control("shoot-a", `"tokenRequestor":{"enabled":true,"class":"","deniedServiceAccounts":["kube-system"]}`)
	p.Eventually(p.reason("access", "access")).Should(BeEmpty())
	good := p.succeeds("why", "access", "access")
	p.Expect(good.out).To(And(ContainSubstring("Nothing is wrong with Secret "+p.name+"/access."),
		ContainSubstring(p.name+"/client"), MatchRegexp(`Lifetime: +12h0m0s`), MatchRegexp(`Renewal: +\S+ \(in (9|10)h`),
		MatchRegexp(`Token ends: +\S+ \(in 1[12]h`)))

	annotate(p, source, secret, prefix+"token-expiration-duration", "soon")
	p.Expect(p.reason("access", "access")()).To(Equal("InvalidAnnotation"))
	annotate(p, source, secret, prefix+"token-expiration-duration", "12h")
	annotate(p, source, secret, prefix+"namespace", "kube-system")
	denied := p.why("access", "access")
	p.Expect(denied.Cause.Reason).To(Equal("ServiceAccountDenied"))
	p.Expect(denied.Cause.Message).To(ContainSubstring("denied by the policy"))

	p.Expect(source.Client.Create(p.ctx, &corev1.Secret{ObjectMeta: metaOf(p.name, "plain")})).To(Succeed())
	p.Expect(p.reason("access", "plain")()).To(Equal(explain.ReasonNoAccessSecret))
	p.fails(cli.ExitNotFound, "there is no Secret "+p.name+"/none", "why", "access", "none")
	p.Expect(p.ctl("__complete", "why", "access", "").out).To(Equal("access\n:4\n"))

	// The settings of the class are in the configuration of the hub, which this hub does not have as a ConfigMap.
	p.Expect(detail(denied, "Settings")).To(ContainSubstring("those of the TargetCluster alone"))
	p.Expect(source.Client.Create(p.ctx, &corev1.ConfigMap{ObjectMeta: metaOf(p.name, "config"), Data: map[string]string{
		"config.yaml": "apiVersion: config.hub.gardener.cloud/v1alpha1\nkind: HubConfiguration\n" +
			"leaderElection: {leaderElect: false}\nsourceIdentity: {serviceAccount: {namespace: trellis, name: " +
			"trellis-source}}\n" +
			"classes:\n- name: \"\"\n" +
			"  target: {type: Namespace}\n  controllers: {csrApprover: {enabled: true}}\n",
	}})).To(Succeed())
	p.control("shoot-a", `"tokenRequestor":null`)
	configured := p.why("access", "access", "--hub-namespace", p.name, "--hub-config", "config")
	p.Expect(detail(configured, "Settings")).To(BeEmpty())
	p.Expect(configured.Cause.Reason).To(Equal(explain.ReasonSwitchedOff))

	// What stops all controllers is said first.
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metaOf(p.name, "shoot-a")}
	pause := client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"paused":true}}`))
	p.Expect(source.Client.Patch(p.ctx, tc, pause)).To(Succeed())
	p.Expect(p.reason("access", "access")()).To(Equal(hubv1alpha1.ReasonPaused))
}

func TestWhyOfACertificateSigningRequest(t *testing.T) {
	p := newCluster(t)
	p.register("shoot-a")
	name := p.name
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p.Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
		DNSNames: []string{name},
	}, key)
	p.Expect(err).NotTo(HaveOccurred())
	request := func(name, signer string) {
		p.t.Helper()
		csr := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
				SignerName: signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth},
			},
		}
		p.Expect(target.Client.Create(p.ctx, csr)).To(Succeed())
		t.Cleanup(func() { _ = target.Client.Delete(p.ctx, csr) })
	}
	request(name, certificatesv1.KubeletServingSignerName)
	p.Expect(p.reason("csr", name)()).To(Equal(explain.ReasonSwitchedOff))
	p.control("shoot-a", `"csrApprover":{"enabled":true,"withoutMachines":true}`)
	p.Eventually(p.reason("csr", name)).Should(Equal("RequestDenied"))
	answer := p.why("csr", name)
	p.Expect(answer.Cause.Message).To(ContainSubstring(`does not begin with "system:node:"`))
	p.Expect(answer.Cause.Since).NotTo(BeNil())
	p.Expect(detail(answer, "Now")).To(ContainSubstring("it would be denied"))
	p.Expect(detail(answer, "Decision")).To(HavePrefix("Denied (RequestDenied)"))

	request(name+"-other", "example.org/signer")
	p.Expect(p.reason("csr", name+"-other")()).To(Equal(explain.ReasonLeftToOthers))
	p.fails(cli.ExitNotFound, "there is no CertificateSigningRequest", "why", "csr", name+"-none")
}

func TestWhyOfANode(t *testing.T) {
	p := newCluster(t)
	p.register("shoot-a")
	const critical = "node.gardener.cloud/critical-component"
	labels := map[string]string{critical: "true", "app": p.name}
	d := &appsv1.DaemonSet{ObjectMeta: metaOf(metav1.NamespaceSystem, p.name)}
	d.Labels = labels
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.name}}
	d.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "main", Image: "main"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	p.Expect(target.Client.Create(p.ctx, d)).To(Succeed())
	t.Cleanup(func() { _ = target.Client.Delete(p.ctx, d) })
	node := func(name string, taints ...corev1.Taint) {
		p.t.Helper()
		// It is ready from the beginning: the clusters of other tests are the same one.
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			}}},
		}
		p.Expect(target.Client.Create(p.ctx, n)).To(Succeed())
		t.Cleanup(func() { _ = target.Client.Delete(p.ctx, n) })
	}
	node(p.name, corev1.Taint{
		Key: "node.gardener.cloud/critical-components-not-ready", Effect: corev1.TaintEffectNoSchedule,
	})
	node(p.name + "-calm")
	off := p.why("node", p.name)
	p.Expect(off.Cause.Reason).To(Equal(explain.ReasonSwitchedOff))
	p.Expect(detail(off, "Components")).To(HaveSuffix(": "+p.name), "what is missing is said all the same")

	p.control("shoot-a", `"nodeCriticalComponents":{"enabled":true,"backoff":"1s"}`)
	p.Eventually(p.reason("node", p.name)).Should(Equal("UnscheduledNodeCriticalDaemonSets"))
	p.Eventually(func() []explain.Event { return p.why("node", p.name).Events }).Should(
		ContainElement(HaveField("Reason", "UnscheduledNodeCriticalDaemonSets")), "the events are those of the target")
	calm := p.succeeds("why", "node", p.name+"-calm")
	p.Expect(calm.out).To(ContainSubstring("does not have that of critical components"))
	p.Expect(target.Client.Delete(p.ctx, d)).To(Succeed())
	p.Eventually(p.reason("node", p.name)).Should(BeEmpty())
	p.fails(cli.ExitNotFound, "there is no Node", "why", "node", p.name+"-none")

	// With several targets, one has to be named.
	p.register("shoot-b")
	p.fails(cli.ExitRefused, "name one of them with --target", "why", "node", p.name)
	p.succeeds("why", "node", p.name, "--target", "shoot-a")
}

func TestWhyOfAService(t *testing.T) {
	p := newCluster(t)
	p.register("shoot-a")
	web := &corev1.Service{ObjectMeta: metaOf(p.name, "web")}
	web.Spec = corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}
	p.Expect(target.Client.Create(p.ctx, web)).To(Succeed())
	headless := &corev1.Service{ObjectMeta: metaOf(p.name, "headless")}
	headless.Spec = corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}
	p.Expect(target.Client.Create(p.ctx, headless)).To(Succeed())
	p.Expect(p.reason("service", p.name+"/web")()).To(Equal(explain.ReasonSwitchedOff))
	p.control("shoot-a", fmt.Sprintf(
		`"networkPolicy":{"enabled":true,"namespaceSelectors":[{"matchLabels":{"kubernetes.io/metadata.name":%q}}]}`, p.name))
	p.Eventually(p.reason("service", p.name+"/web")).Should(BeEmpty())
	p.Expect(p.succeeds("why", "svc/"+p.name+"/web").out).To(ContainSubstring(p.name + "/ingress-to-web-tcp-80"))
	p.Expect(p.succeeds("why", "service", p.name+"/headless").out).To(ContainSubstring("it has no selector"))
	annotate(p, target, web, "networking.resources.gardener.cloud/namespace-selectors", "nonsense")
	answer := p.why("service", p.name+"/web")
	p.Expect(answer.Cause.Reason).To(Equal("InvalidNetworkPolicySettings"))
	p.Expect(answer.Cause.Message).To(ContainSubstring("nonsense"))
	p.fails(cli.ExitNotFound, "there is no Service", "why", "service", p.name+"/none")
	p.fails(cli.ExitUsage, "service NAMESPACE/NAME", "why", "service", "web")
}

func TestWhyOfGarbage(t *testing.T) {
	p := newCluster(t)
	p.register("shoot-a")
	labels := map[string]string{references.Label: references.LabelValue}
	for name, labels := range map[string]map[string]string{"plain": nil, "used": labels, "unused": labels} {
		configMap := &corev1.ConfigMap{ObjectMeta: metaOf(p.name, name)}
		configMap.Labels = labels
		p.Expect(target.Client.Create(p.ctx, configMap)).To(Succeed())
	}
	user := &corev1.Pod{ObjectMeta: metaOf(p.name, "user")}
	user.Annotations = map[string]string{references.AnnotationKey(references.KindConfigMap, "used"): "used"}
	user.Spec.Containers = []corev1.Container{{Name: "main", Image: "main"}}
	p.Expect(target.Client.Create(p.ctx, &corev1.ServiceAccount{ObjectMeta: metaOf(p.name, "default")})).To(Succeed())
	p.Expect(target.Client.Create(p.ctx, user)).To(Succeed())

	p.Expect(p.succeeds("why", "configmap", p.name+"/plain").out).To(ContainSubstring("never: it does not have the label"))
	p.Expect(p.succeeds("why", "cm", p.name+"/used").out).To(MatchRegexp(`Used by: +Pod user\n`))
	p.Expect(p.reason("configmap", p.name+"/unused")()).To(Equal(explain.ReasonSwitchedOff))
	p.control("shoot-a", `"garbageCollector":{"enabled":true}`)
	young := p.succeeds("why", "configmap", p.name+"/unused").out
	p.Expect(young).To(And(MatchRegexp(`Used by: +nothing`), MatchRegexp(`Collection: +\S+ \(in [0-9]+m`)))
	p.Expect(target.Client.Create(p.ctx, &corev1.Secret{ObjectMeta: metaOf(p.name, "plain")})).To(Succeed())
	p.Expect(p.succeeds("why", "secret", p.name+"/plain").out).To(ContainSubstring("never"))
	p.fails(cli.ExitNotFound, "there is no Secret", "why", "secret", p.name+"/none")
}
