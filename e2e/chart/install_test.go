package chart

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/helm"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// previous is the chart that users upgrade from.
const previous = "testdata/trellis-0.1.0.tgz"

// takeOver is needed for an installation into another namespace than before: the CRD that was kept belongs to the old
// release.
const takeOver = "--take-ownership"

// newNamespace creates a namespace that enforces the restricted standard of pod security.
func newNamespace(ctx context.Context, g *WithT, name string) {
	g.Expect(source.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})).To(Succeed())
}

// uninstall takes a release away, and waits for it.
func uninstall(t *testing.T, cli helm.CLI, namespace string) {
	t.Helper()
	_, err := cli.Run(context.WithoutCancel(t.Context()), "", "uninstall", "trellis", "--namespace", namespace, "--wait", "--ignore-not-found")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// TestServerAcceptsEveryObject sends each object of several renderings to the API server as a dry run.
func TestServerAcceptsEveryObject(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	cli := helm.ForTest(t)
	newNamespace(ctx, g, "dry")
	newNamespace(ctx, g, "dry-other")
	for name, values := range map[string]string{
		"defaults": ``,
		"everything that needs no CRD of others": `
image: {digest: "sha256:0123456789012345678901234567890123456789012345678901234567890123", pullSecrets: [{name: s}]}
config:
  classes:
  - {name: a, target: {type: Source}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: dry}}}
  - {name: b, target: {type: Registration, namespace: dry, name: r}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: dry-other}}}
networkPolicy: {metricsFrom: [{namespaceSelector: {}}]}
nodeSelector: {a: b}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {}}
env: [{name: a, value: b}]
extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: mine, namespace: "{{ .Release.Namespace }}"}}]`,
	} {
		out, err := cli.Run(ctx, values, "template", "trellis", cli.Chart(), "--namespace", "dry", "--set", "crds.managedResources=Always")
		g.Expect(err).NotTo(HaveOccurred())
		objects := 0
		for document := range strings.SplitSeq(out, "\n---\n") {
			obj := &unstructured.Unstructured{}
			g.Expect(yaml.Unmarshal([]byte(document), &obj.Object)).To(Succeed())
			if len(obj.Object) == 0 {
				continue
			}
			objects++
			g.Expect(source.Client.Create(ctx, obj, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))).
				To(Succeed(), "%s: %s %s", name, obj.GetKind(), obj.GetName())
		}
		g.Expect(objects).To(BeNumerically(">", 15))
	}
}

// TestInstallationWithoutAnyValue installs the chart with default values, and expects ready pods.
func TestInstallationWithoutAnyValue(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	cli := helm.ForTest(t).WithCluster(t, source.Kubeconfig())
	newNamespace(ctx, g, "plain")
	_, err := cli.Run(ctx, "", "install", "trellis", cli.Chart(), "--namespace", "plain", takeOver, "--wait", "--timeout", "4m")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { uninstall(t, cli, "plain") })

	crd := &apiextensionsv1.CustomResourceDefinition{}
	g.Expect(source.Client.Get(ctx, types.NamespacedName{Name: "managedresources.resources.gardener.cloud"}, crd)).To(Succeed(), "it was absent")
	g.Expect(crd.Annotations).To(HaveKeyWithValue("helm.sh/resource-policy", "keep"))
	// What it installed itself, it continues to upgrade.
	g.Expect(cli.Run(ctx, "", "upgrade", "trellis", cli.Chart(), "--namespace", "plain", "--dry-run=server")).To(ContainSubstring("\n  name: " + crd.Name + "\n"))
	deployment := &appsv1.Deployment{}
	g.Expect(source.Client.Get(ctx, types.NamespacedName{Namespace: "plain", Name: "trellis"}, deployment)).To(Succeed())
	g.Expect(deployment.Status.AvailableReplicas).To(BeEquivalentTo(2))
	pods := &corev1.PodList{}
	g.Expect(source.Client.List(ctx, pods, client.InNamespace("plain"))).To(Succeed())
	g.Expect(pods.Items).To(HaveLen(2))
	g.Expect(pods.Items[0].Spec.NodeName).NotTo(Equal(pods.Items[1].Spec.NodeName), "spread over nodes")
	g.Expect(*pods.Items[0].Spec.Priority).To(BeZero(), "that of no class")

	// What is in the ConfigMap is a configuration, for the program that would read it.
	config := &corev1.ConfigMap{}
	g.Expect(source.Client.Get(ctx, types.NamespacedName{Namespace: "plain", Name: "trellis"}, config)).To(Succeed())
	check := exec.CommandContext(ctx, binary, "--check", "--config", "/dev/stdin") //nolint:gosec // built here
	check.Stdin = strings.NewReader(config.Data["config.yaml"])
	out, err := check.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), "%s", out)
}

func TestInstallationWithoutItsPriorityClassIsRefused(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	cli := helm.ForTest(t).WithCluster(t, source.Kubeconfig())
	_, err := cli.Run(ctx, "{priorityClassName: missing}", "install", "trellis", cli.Chart(), "--namespace", "default")
	g.Expect(err).To(MatchError(ContainSubstring(`this cluster has no PriorityClass "missing"`)))
	g.Expect(source.Client.Get(ctx, types.NamespacedName{Namespace: "default", Name: "trellis"}, &appsv1.Deployment{})).To(MatchError(apierrors.IsNotFound, "not found"))
}

// TestHubFitsIntoItsImage: "make image" refuses 60 MiB, but takes too long for each check. What else is in an image has
// less than 2 MiB.
func TestHubFitsIntoItsImage(t *testing.T) {
	g := NewWithT(t)
	file, err := os.Stat(binary)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(file.Size()).To(BeNumerically("<", 58<<20))
}

// TestUpgradeAndReinstallation follows an installation from the chart before this one, through an upgrade, a rollback
// and another upgrade, to its end and beyond, and looks whether anything in a target was touched that need not be.
func TestUpgradeAndReinstallation(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	const namespace, shoot = "hub", "shoot--up"
	cli := helm.ForTest(t).WithCluster(t, source.Kubeconfig())
	newNamespace(ctx, g, namespace)
	for _, c := range []*testbed.Cluster{source, target} {
		g.Expect(c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shoot}})).To(Succeed())
	}
	// The chart before.
	config := local(t) + ", " + onThisMachine
	_, err := cli.Run(ctx, "{image: {repository: r}, config: {"+config+"}}", "install", "trellis", previous, "--namespace", namespace, takeOver)
	g.Expect(err).NotTo(HaveOccurred())
	// A seed has a CRD of ManagedResources, with a field of another writer that must stay.
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "managedresources.resources.gardener.cloud"}}
	g.Expect(source.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
	crd.Annotations = map[string]string{"gardener": "was here"}
	g.Expect(source.Client.Update(ctx, crd)).To(Succeed())
	asItWas := crd.DeepCopy()

	register(ctx, g, shoot, "up")
	manifests := []string{testbed.ConfigMap(shoot, "a", "1"), testbed.ConfigMap(shoot, "b", "2"),
		`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"` + shoot + `","name":"c"},"spec":{"ports":[{"port":80}]}}`}
	g.Expect(source.Client.Create(ctx, testbed.Content(shoot, "content", "objects.yaml", manifests...))).To(Succeed())
	mr := testbed.ManagedResource(shoot, "mr", "content")
	g.Expect(source.Client.Create(ctx, mr)).To(Succeed())
	before := startHub(t, namespace)
	ready := func(g Gomega) {
		g.Expect(source.Client.Get(ctx, client.ObjectKeyFromObject(mr), mr)).To(Succeed())
		g.Expect(mr.Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("Ready")), HaveField("Status", BeEquivalentTo("True")))))
	}
	g.Eventually(ready).Should(Succeed())
	before.stop(g)
	untouched := inventory(ctx, g, shoot)
	g.Expect(untouched).To(HaveLen(3))
	applied := mr.DeepCopy()

	// The upgrade keeps the values and says nothing new but where these processes listen.
	config = local(t) + ", " + onThisMachine
	upgrade := documented(t, cli, namespace, "helm", "upgrade")
	_, err = cli.Run(ctx, "{config: {"+config+"}}", upgrade...)
	g.Expect(err).NotTo(HaveOccurred())
	kubectl(t, documented(t, cli, namespace, "kubectl", "rollout")...)
	after := startHub(t, namespace)
	expectWork(ctx, g, shoot)
	g.Eventually(ready).Should(Succeed())
	g.Expect(inventory(ctx, g, shoot)).To(Equal(untouched), "by the upgrade")
	g.Expect(mr.UID).To(Equal(applied.UID))
	g.Expect(mr.Finalizers).To(Equal(applied.Finalizers))
	after.stop(g)

	// A rollback to the chart before. An older program cannot be tested, as there is no release: this one runs with the
	// older configuration, rights and CRD.
	_, err = cli.Run(ctx, "", documented(t, cli, namespace, "helm", "rollback")...)
	g.Expect(err).NotTo(HaveOccurred())
	back := startHub(t, namespace)
	expectWork(ctx, g, shoot)
	g.Eventually(ready).Should(Succeed())
	g.Expect(inventory(ctx, g, shoot)).To(Equal(untouched), "by the rollback")
	g.Expect(mr.UID).To(Equal(applied.UID))
	up := types.NamespacedName{Namespace: shoot, Name: "up"}
	g.Expect(source.Client.Get(ctx, up, &hubv1alpha1.TargetCluster{})).To(Succeed())
	back.stop(g)
	history, err := cli.Run(ctx, "", documented(t, cli, namespace, "helm", "history")...)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(history).To(ContainSubstring("Rollback to 1"))

	// And forward again.
	config = local(t) + ", " + onThisMachine
	_, err = cli.Run(ctx, "{config: {"+config+"}}", upgrade...)
	g.Expect(err).NotTo(HaveOccurred())
	forward := startHub(t, namespace)
	expectWork(ctx, g, shoot)
	g.Expect(inventory(ctx, g, shoot)).To(Equal(untouched), "by the second upgrade")
	forward.stop(g)

	// Without the chart, everything that users created stays, and so do applied objects.
	_, err = cli.Run(ctx, "", append(documented(t, cli, namespace, "helm", "uninstall"), "--wait")...)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(source.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "trellis"}, &appsv1.Deployment{})).To(MatchError(apierrors.IsNotFound, "not found"))
	for _, name := range []string{"managedresources.resources.gardener.cloud", "targetclusters.hub.gardener.cloud"} {
		kept := &apiextensionsv1.CustomResourceDefinition{}
		g.Expect(source.Client.Get(ctx, types.NamespacedName{Name: name}, kept)).To(Succeed())
		g.Expect(kept.DeletionTimestamp).To(BeNil())
	}
	g.Expect(source.Client.Get(ctx, client.ObjectKeyFromObject(mr), mr)).To(Succeed())
	g.Expect(mr.DeletionTimestamp).To(BeNil())
	g.Expect(source.Client.Get(ctx, types.NamespacedName{Namespace: shoot, Name: "up"}, &hubv1alpha1.TargetCluster{})).To(Succeed())
	g.Expect(inventory(ctx, g, shoot)).To(Equal(untouched), "by the uninstallation")

	// Installed again, it continues.
	config = local(t) + ", " + onThisMachine
	_, err = cli.Run(ctx, "{config: {"+config+"}}", "install", "trellis", cli.Chart(), "--namespace", namespace)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { uninstall(t, cli, namespace) })
	again := startHub(t, namespace)
	expectWork(ctx, g, shoot)
	g.Expect(inventory(ctx, g, shoot)).To(Equal(untouched), "by the second installation")
	g.Expect(again.served).To(MatchRegexp(`(?m)^trellis_build_info\{commit="0123abc",date="2026-03-01T12:00:00Z",go_version="go[^"]+",version="v1\.2\.3"\} 1$`))
	g.Expect(source.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
	g.Expect(crd.Annotations).To(Equal(asItWas.Annotations), "the CRD of ManagedResources is not the chart's")
	g.Expect(crd.Generation).To(Equal(asItWas.Generation))
	g.Expect(source.Client.Delete(ctx, mr)).To(Succeed())
	g.Eventually(func() map[string]string { return inventory(ctx, g, shoot) }).Should(BeEmpty())
	g.Eventually(func() error { return source.Client.Get(ctx, client.ObjectKeyFromObject(mr), mr) }).Should(MatchError(apierrors.IsNotFound, "not found"))
}

// TestRightsOfListedNamespaces installs a hub whose classes list their namespaces: it works there, and cannot look
// elsewhere.
func TestRightsOfListedNamespaces(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	const namespace, garden, other = "narrow", "garden", "not-listed"
	cli := helm.ForTest(t).WithCluster(t, source.Kubeconfig())
	newNamespace(ctx, g, namespace)
	for _, name := range []string{garden, other} {
		g.Expect(source.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	g.Expect(target.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: garden}})).To(Succeed())
	server := local(t)
	_, err := cli.Run(ctx, `
sourceIdentity: {rules: [{apiGroups: ["", events.k8s.io], resources: [configmaps, events], verbs: ["*"]}, {apiGroups: [""], resources: [namespaces, nodes], verbs: [get, list, watch]}]}
config:
  `+server+`
  `+onThisMachine+`
  classes:
  - {name: seed, target: {type: Source}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: garden}}}
  - {name: virtual, target: {type: Registration, namespace: garden, name: virtual}, namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [garden]}]}}
`, "install", "trellis", cli.Chart(), "--namespace", namespace, takeOver)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { uninstall(t, cli, namespace) })

	as := accountClient(ctx, g, namespace)
	g.Expect(as.List(ctx, &corev1.SecretList{}, client.InNamespace(garden))).To(Succeed())
	for _, where := range []client.ListOption{client.InNamespace(other), client.InNamespace("")} {
		g.Expect(as.List(ctx, &corev1.SecretList{}, where)).To(MatchError(apierrors.IsForbidden, "forbidden"))
	}

	startHub(t, namespace)
	register(ctx, g, garden, "virtual")
	for class, cluster := range map[string]*testbed.Cluster{"seed": source, "virtual": target} {
		g.Expect(source.Client.Create(ctx, testbed.Content(
			garden, class, "objects.yaml", testbed.ConfigMap(garden, class+"-applied", "1")))).To(Succeed())
		mr := testbed.ManagedResource(garden, class, class)
		mr.Spec.Class = &class
		g.Expect(source.Client.Create(ctx, mr)).To(Succeed())
		key := types.NamespacedName{Namespace: garden, Name: class + "-applied"}
		g.Eventually(func() error { return cluster.Client.Get(ctx, key, &corev1.ConfigMap{}) }).Should(Succeed(), "class %s", class)
		// A change of the Secret is seen, so it is watched.
		content := testbed.Content(garden, class, "objects.yaml", testbed.ConfigMap(garden, class+"-applied", "2"))
		g.Expect(source.Client.Patch(ctx, content, client.MergeFrom(&corev1.Secret{ObjectMeta: content.ObjectMeta}))).To(Succeed())
		live := &corev1.ConfigMap{}
		g.Eventually(func() (string, error) { err := cluster.Client.Get(ctx, key, live); return live.Data["key"], err }).Should(Equal("2"), "class %s", class)
		g.Expect(source.Client.Delete(ctx, mr)).To(Succeed())
		g.Eventually(func() error { return cluster.Client.Get(ctx, key, live) }).Should(MatchError(apierrors.IsNotFound, "not found"))
		g.Eventually(func() error { return source.Client.Get(ctx, client.ObjectKeyFromObject(mr), mr) }).Should(MatchError(apierrors.IsNotFound, "not found"))
	}
}

// accountClient is a client with the rights of the chart's ServiceAccount.
func accountClient(ctx context.Context, g *WithT, namespace string) client.Client {
	kubeconfig, err := source.ServiceAccountKubeconfig(ctx, namespace, "trellis", time.Hour)
	g.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(config, client.Options{Scheme: testbed.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	return c
}

// expectWork shows that a hub leads and watches the target: drift is corrected, and a new ManagedResource is applied
// and deleted.
func expectWork(ctx context.Context, g *WithT, namespace string) {
	key := types.NamespacedName{Namespace: namespace, Name: "probe"}
	g.Expect(source.Client.Create(ctx, testbed.Content(
		namespace, "probe", "objects.yaml", testbed.ConfigMap(namespace, "probe", "right")))).To(Succeed())
	mr := testbed.ManagedResource(namespace, "probe", "probe")
	g.Expect(source.Client.Create(ctx, mr)).To(Succeed())
	live := &corev1.ConfigMap{}
	value := func() (string, error) { err := target.Client.Get(ctx, key, live); return live.Data["key"], err }
	g.Eventually(value).Should(Equal("right"))
	g.Eventually(func(g Gomega) {
		g.Expect(source.Client.Get(ctx, client.ObjectKeyFromObject(mr), mr)).To(Succeed())
		g.Expect(applied(mr)).To(BeTrue())
	}).Should(Succeed())
	live.Data["key"] = "wrong"
	g.Expect(target.Client.Update(ctx, live)).To(Succeed())
	g.Eventually(value).Should(Equal("right"), "drift")
	g.Expect(source.Client.Delete(ctx, mr)).To(Succeed())
	g.Eventually(func() error { return target.Client.Get(ctx, key, live) }).Should(MatchError(apierrors.IsNotFound, "not found"))
	g.Eventually(func() error { return source.Client.Get(ctx, client.ObjectKeyFromObject(mr), mr) }).Should(MatchError(apierrors.IsNotFound, "not found"))
	g.Expect(source.Client.Delete(ctx, testbed.Content(namespace, "probe", "objects.yaml"))).To(Succeed())
}

func applied(mr *resourcesv1alpha1.ManagedResource) bool {
	for _, condition := range mr.Status.Conditions {
		if condition.Type == resourcesv1alpha1.ConditionResourcesApplied {
			return condition.Status == resourcesv1alpha1.ConditionTrue
		}
	}
	return false
}

// inventory is what is managed in a namespace of the target: UID and resourceVersion of each object by kind and name.
func inventory(ctx context.Context, g *WithT, namespace string) map[string]string {
	found := map[string]string{}
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.ServiceList{}} {
		g.Expect(target.Client.List(ctx, list, client.InNamespace(namespace), client.HasLabels{"resources.gardener.cloud/managed-by"})).To(Succeed())
		switch list := list.(type) {
		case *corev1.ConfigMapList:
			for _, o := range list.Items {
				found["ConfigMap/"+o.Name] = string(o.UID) + "@" + o.ResourceVersion
			}
		case *corev1.ServiceList:
			for _, o := range list.Items {
				found["Service/"+o.Name] = string(o.UID) + "@" + o.ResourceVersion
			}
		}
	}
	return found
}
