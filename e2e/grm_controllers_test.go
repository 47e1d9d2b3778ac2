//go:build grm

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/app"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// grmControllers are the controllers of a resource manager that are taken over, for one namespace.
func (s *space) grmControllers() []string {
	return []string{
		"tokenRequestor: {enabled: true}",
		fmt.Sprintf("csrApprover: {enabled: true, machineNamespace: %q}", s.name),
		fmt.Sprintf("networkPolicy: {enabled: true, namespaceSelectors: [{matchLabels: {kubernetes.io/metadata.name: %q}}]}",
			s.name),
	}
}

// convert runs "trellisctl config convert" on the configuration of a resource manager.
func (s *space) convert(file string, into any, args ...string) {
	s.t.Helper()
	kubeconfig := filepath.Join(s.t.TempDir(), "kubeconfig")
	s.Expect(os.WriteFile(kubeconfig, source.Kubeconfig(), 0o600)).To(Succeed())
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	line := append([]string{"--kubeconfig", kubeconfig, "-n", s.name, "config", "convert", "-f", file}, args...)
	code := app.Run(s.ctx, cli.NewEnv(streams), app.Name, line)
	s.Expect(code).To(Equal(cli.ExitOK), "%s", errOut)
	s.t.Logf("$ trellisctl config convert %v\n%s", args, out)
	s.Expect(yaml.UnmarshalStrict(out.Bytes(), into)).To(Succeed())
}

// switchOn applies what a TargetCluster has to say of its controllers, as "kubectl apply --server-side" does.
func (s *space) switchOn(m *grm) {
	s.t.Helper()
	tc := &unstructured.Unstructured{}
	s.convert(m.config, &tc.Object, "--target-cluster", "target")
	apply := client.ApplyConfigurationFromUnstructured(tc)
	s.Expect(source.Client.Apply(s.ctx, apply, client.FieldOwner("kubectl"))).To(Succeed())
}

// installMachines gives the source the definition of Machines, which a seed has.
func (s *space) installMachines() {
	s.t.Helper()
	crd := &unstructured.Unstructured{}
	s.Expect(yaml.Unmarshal([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machines.machine.sapcloud.io}
spec:
  group: machine.sapcloud.io
  names: {kind: Machine, listKind: MachineList, plural: machines, singular: machine}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`), &crd.Object)).To(Succeed())
	if err := source.Client.Create(s.ctx, crd); !apierrors.IsAlreadyExists(err) {
		s.Expect(err).NotTo(HaveOccurred())
	}
	machine := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
		"metadata": map[string]any{"namespace": s.name, "name": "machine-0", "labels": map[string]any{"node": "node-0"}},
	}}
	s.Eventually(func() error { return source.Client.Create(s.ctx, machine) }).Should(
		Succeed(), "once Machines are served")
	s.t.Cleanup(func() { s.Expect(client.IgnoreNotFound(source.Client.Delete(s.ctx, machine))).To(Succeed()) })

	// The resource manager reads the Node from a cache and denies a request for other addresses permanently: so the
	// Node has them before there is a resource manager.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
	addresses := client.RawPatch(types.MergePatchType, []byte(`{"status":{"addresses":[
		{"type":"InternalIP","address":"10.0.0.1"},{"type":"Hostname","address":"node-0"}]}}`))
	s.Expect(west.Client.Status().Patch(s.ctx, node, addresses)).To(Succeed())
}

// work is what the controllers have to do once: a Secret that wants a token, a request for a certificate of the kubelet
// of node-0, and a Service with callers.
type work struct {
	s    *space
	name string
}

// ask makes work.
func (s *space) ask(name string) work {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.name, Name: name, Labels: map[string]string{
			"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "shoot",
		},
		Annotations: map[string]string{
			"serviceaccount.resources.gardener.cloud/name": name, "serviceaccount.resources.gardener.cloud/namespace": s.name,
		},
	}}
	s.Expect(source.Client.Create(s.ctx, secret)).To(Succeed())

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{
			{Name: "http", Port: 80}, {Name: "more", Port: 8080},
		},
	}}
	s.Expect(west.Client.Create(s.ctx, service)).To(Succeed())

	w := work{s, name}
	kubelet, err := client.New(s.kubelet(), client.Options{Scheme: testbed.Scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(kubelet.Create(s.ctx, w.request())).To(Succeed())
	s.t.Cleanup(func() {
		request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: w.requestName()}}
		s.Expect(client.IgnoreNotFound(west.Client.Delete(s.ctx, request))).To(Succeed())
	})
	return w
}

// kubelet is the access of node-0 to west.
func (s *space) kubelet() *rest.Config {
	config := west.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:node-0",
		Groups: []string{"system:nodes", "system:masters"}}
	return config
}

func (w work) requestName() string { return w.s.name + "-" + w.name }

// request is one for a certificate with the addresses of node-0.
func (w work) request() *certificatesv1.CertificateSigningRequest {
	w.s.t.Helper()
	node := &corev1.Node{}
	w.s.Expect(west.Client.Get(w.s.ctx, types.NamespacedName{Name: "node-0"}, node)).To(Succeed())
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:node-0",
		Organization: []string{"system:nodes"}}}
	for _, address := range node.Status.Addresses {
		if ip := net.ParseIP(address.Address); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, address.Address)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.s.Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	w.s.Expect(err).NotTo(HaveOccurred())
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: w.requestName()},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
}

// done is what came of work: everything that must not be done again.
type done struct {
	token, renewal                      string
	secret, serviceAccount, certificate string // their versions
	conditions                          []certificatesv1.CertificateSigningRequestCondition
	policies                            map[string]string // versions by names
	specs                               map[string]networkingv1.NetworkPolicySpec
}

// look returns what there is so far, and whether that is all.
func (w work) look() (d done, all bool) {
	w.s.t.Helper()
	secret, account := &corev1.Secret{}, &corev1.ServiceAccount{}
	w.s.Expect(source.Client.Get(w.s.ctx, w.s.key(w.name), secret)).To(Succeed())
	w.s.Expect(client.IgnoreNotFound(west.Client.Get(w.s.ctx, w.s.key(w.name), account))).To(Succeed())
	d.token, d.secret, d.serviceAccount = string(secret.Data["token"]), secret.ResourceVersion, account.ResourceVersion
	d.renewal = secret.Annotations["serviceaccount.resources.gardener.cloud/token-renew-timestamp"]

	request := &certificatesv1.CertificateSigningRequest{}
	w.s.Expect(west.Client.Get(w.s.ctx, types.NamespacedName{Name: w.requestName()}, request)).To(Succeed())
	d.certificate, d.conditions = request.ResourceVersion, request.Status.Conditions

	policies := &networkingv1.NetworkPolicyList{}
	w.s.Expect(west.Client.List(w.s.ctx, policies, client.InNamespace(w.s.name),
		client.MatchingLabels{"networking.resources.gardener.cloud/service-name": w.name})).To(Succeed())
	d.policies, d.specs = map[string]string{}, map[string]networkingv1.NetworkPolicySpec{}
	for i := range policies.Items {
		d.policies[policies.Items[i].Name], d.specs[policies.Items[i].Name] = policies.Items[i].ResourceVersion,
			policies.Items[i].Spec
	}
	return d, d.token != "" && d.renewal != "" && len(request.Status.Certificate) > 0 && len(d.policies) == 4
}

// eventuallyDone waits until all of it is done. The certificate is issued by the controller manager of west, once the
// request is approved.
func (w work) eventuallyDone() (d done) {
	w.s.t.Helper()
	w.s.Eventually(func() (all bool) { d, all = w.look(); return all }, 2*patience).Should(
		BeTrue(), func() string { return fmt.Sprintf("%+v", d) })
	w.s.Expect(d.conditions).To(HaveLen(1))
	w.s.Expect(d.conditions[0].Type).To(Equal(certificatesv1.CertificateApproved))
	return d
}

// once expects that nothing of it is done again: at the moment, and for a while.
func (w work) once(before done) {
	w.s.t.Helper()
	now := func() done { d, _ := w.look(); return d }
	w.s.Expect(now()).To(Equal(before))
	w.s.Consistently(now, 3*time.Second, time.Second).Should(Equal(before))
}

// onceButForDescriptions is once for the resource manager, which words the descriptions of policies differently and
// writes policies for that. What they allow stays.
func (w work) onceButForDescriptions(before done) {
	w.s.t.Helper()
	before.policies = nil
	now := func() done { d, _ := w.look(); d.policies = nil; return d }
	w.s.Expect(now()).To(Equal(before))
	w.s.Consistently(now, 3*time.Second, time.Second).Should(Equal(before))
}

// touch changes an annotation of an object, so that controllers that watch it reconcile it again.
func (s *space) touch(cluster *testbed.Cluster, object client.Object) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"e2e.example.com/touched":%q}}}`, time.Now().Format(
		time.RFC3339Nano))
	s.Expect(cluster.Client.Patch(s.ctx, object, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// reviews are the requests of hubs to west that ask whether a token is good.
func reviews(entries []request) int {
	return len(entries) - len(without(entries, func(e request) bool { return e.Resource == "tokenreviews" }))
}

// The whole page "Replace the resource manager of a shoot, all of it": nothing that the resource manager did is done
// again by the hub, nor by the resource manager when it gets the shoot back.
func TestGRMControllersAreTakenOver(t *testing.T) {
	s := newSpace(t, nil)
	s.manageShoot()
	s.installMachines()
	m := s.startGRM(resourcesv1alpha1.DefaultClassName, grmLease, west, s.grmControllers()...)
	first := s.ask("first")
	before := first.eventuallyDone()
	s.eventuallyGood(shoot...)

	// The hub is on standby: it has the rights, and its controllers are off.
	standby := &configv1alpha1.HubConfiguration{}
	s.convert(m.config, standby, "--standby")
	s.Expect(standby.Classes).To(HaveLen(1))
	s.Expect(standby.Classes[0].Controllers.Enabled()).To(BeEmpty())
	s.Expect(standby.Classes[0].Controllers.TokenRequestor).NotTo(BeNil())
	asked := listen(s.WithT, west)
	s.register("target", west)
	testbed.StartHubForTest(t, source, testbed.HubOptions{Config: func(c *configv1alpha1.HubConfiguration) {
		c.Classes[0].Controllers = standby.Classes[0].Controllers
		c.Controllers.TargetCluster.SyncPeriod.Duration = 5 * time.Second
	}})
	s.Eventually(func() string { return s.targetCondition("target") }).Should(Equal("False/ManagedElsewhere"))
	s.Consistently(func() []string {
		return texts(without(asked(), func(e request) bool { return !isWrite(e) }))
	}, 3*time.Second, time.Second).Should(BeEmpty(), "on standby")

	// The hand-over.
	m.stop(s)
	s.switchOn(m)
	s.eventuallyReady(shoot...)
	s.Eventually(func() string { return s.targetCondition("target") }).Should(HavePrefix("True/"))
	second := s.ask("second")
	second.eventuallyDone()
	first.once(before)

	// Looked at once more, it is found to be in order.
	reviewed := reviews(asked())
	s.touch(source, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: first.name}})
	s.touch(west, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: first.name}})
	s.touch(west, &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: first.requestName()}})
	s.Eventually(func() int { return reviews(asked()) }).Should(
		BeNumerically(">", reviewed), "the hub asks whether the token is good")
	touched, _ := first.look()
	s.Expect(touched.token).To(Equal(before.token))
	s.Expect(touched.renewal).To(Equal(before.renewal))
	s.Expect(touched.serviceAccount).To(Equal(before.serviceAccount))
	s.Expect(touched.conditions).To(Equal(before.conditions))
	s.Expect(touched.policies).To(Equal(before.policies))
	s.Expect(texts(without(asked(), func(e request) bool { return !isWrite(e) || !mentions(e, first) }))).To(BeEmpty())

	// The hub makes the same policies.
	for name := range before.policies {
		s.Expect(west.Client.Delete(s.ctx,
			&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}})).To(Succeed())
	}
	s.Eventually(func() map[string]networkingv1.NetworkPolicySpec { d, _ := first.look(); return d.specs }).Should(
		Equal(before.specs))

	// And back: everything is switched off, then the resource manager gets it.
	ours, theirs := second.eventuallyDone(), first.eventuallyDone()
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "target"}}
	s.Expect(source.Client.Patch(s.ctx, tc, client.RawPatch(
		types.MergePatchType, []byte(`{"spec":{"paused":true,"controllers":null}}`)))).To(Succeed())
	s.Eventually(func() string { return s.targetCondition("target") }).Should(Equal("False/Paused"))
	s.startGRM(resourcesv1alpha1.DefaultClassName, grmLease, west, s.grmControllers()...)
	s.ask("third").eventuallyDone()
	second.onceButForDescriptions(ours)
	first.onceButForDescriptions(theirs)
}

// mentions reports whether a request is about something of this work.
func mentions(e request, w work) bool {
	return slices.Contains([]string{w.name, w.requestName()}, e.Name) || strings.Contains(e.RequestURI, "-"+w.name+"-")
}

// Even two at once do it once: who forgets to stop the resource manager gets no second token and no second policy.
func TestGRMAndTheHubDoTheSameWork(t *testing.T) {
	s := newSpace(t, nil)
	s.takeTheirDefinition()
	s.installMachines()
	m := s.startGRM(resourcesv1alpha1.DefaultClassName, grmLease, west, s.grmControllers()...)
	first := s.ask("first")
	before := first.eventuallyDone()
	s.register("target", west)
	s.startHub()
	s.Eventually(func() types.UID { return s.target("target").UID }).ShouldNot(BeEmpty())
	s.switchOn(m)
	s.Eventually(func() int64 { return s.target("target").Status.ObservedGeneration }).Should(BeNumerically(">=", 2))
	second := s.ask("second")
	after := second.eventuallyDone()
	s.touch(source, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: first.name}})
	s.Consistently(func() string { d, _ := first.look(); return d.token }, 3*time.Second, time.Second).Should(
		Equal(before.token))
	m.stop(s)
	third := s.ask("third")
	third.eventuallyDone()
	d, _ := first.look()
	s.Expect(d.conditions).To(Equal(before.conditions))
	s.Expect(d.policies).To(Equal(before.policies))
	d, _ = second.look()
	s.Expect(d.conditions).To(HaveLen(1))
	s.Expect(d.specs).To(Equal(after.specs))
}

// The example of a configuration that comes with a resource manager has every setting.
func TestGRMsExampleIsConverted(t *testing.T) {
	s := &space{WithT: NewWithT(t), t: t, ctx: t.Context(), name: "shoot--foo--bar"}
	example := filepath.Join(filepath.Dir(grmBinary(s)), "example.yaml")
	seed := &configv1alpha1.HubConfiguration{}
	s.convert(example, seed)
	s.Expect(seed.Classes[0].Target.Type).To(Equal(configv1alpha1.TargetSource))

	content, err := os.ReadFile(example)
	s.Expect(err).NotTo(HaveOccurred())
	ofShoot := filepath.Join(t.TempDir(), "shoot.yaml")
	s.Expect(os.WriteFile(ofShoot, append(content, "\ntargetClientConnection: {kubeconfig: /kubeconfig}\n"...), 0o600)).To(
		Succeed())
	shoots, tc := &configv1alpha1.HubConfiguration{}, &hubv1alpha1.TargetCluster{}
	s.convert(ofShoot, shoots)
	s.convert(ofShoot, tc, "--target-cluster", "target")
	s.Expect(shoots.Classes[0].Controllers.Enabled()).To(
		ConsistOf("garbageCollector", "csrApprover", "tokenRequestor", "networkPolicy",
			"nodeCriticalComponents", "nodeAgentReconciliationDelay", "nodeHighAvailability"))
	s.Expect(tc.Spec.Controllers.Enabled()).To(ConsistOf(shoots.Classes[0].Controllers.Enabled()))
}
