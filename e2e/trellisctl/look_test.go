package trellisctl

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/inspect"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func metaOf(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func TestStatusAndTreeLookIntoTheTarget(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	file := p.file("manifests.yaml", manifests(p.configMap("a", "1"), p.deployment("web", "web:1")))
	p.succeeds("pack", "-f", file, "--name", "addons", "--apply")
	p.eventually("addons", resourcesv1alpha1.ConditionReady, "False", "DeploymentUnhealthy")

	// There is no controller here, so this test does what one would.
	web := &appsv1.Deployment{}
	p.Expect(target.Client.Get(p.ctx, client.ObjectKey{Namespace: p.name, Name: "web"}, web)).To(Succeed())
	set := &appsv1.ReplicaSet{ObjectMeta: metaOf(p.name, "web-1"), Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](1), Selector: web.Spec.Selector, Template: web.Spec.Template}}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(web, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	p.Expect(target.Client.Create(p.ctx, set)).To(Succeed())
	pod := &corev1.Pod{ObjectMeta: metaOf(p.name, "web-1-x"), Spec: web.Spec.Template.Spec}
	pod.Labels = web.Spec.Template.Labels
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	p.Expect(target.Client.Create(p.ctx, &corev1.ServiceAccount{ObjectMeta: metaOf(p.name, "default")})).To(Succeed())
	p.Expect(target.Client.Create(p.ctx, pod)).To(Succeed())
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}},
	}}}
	p.Expect(target.Client.Status().Update(p.ctx, pod)).To(Succeed())

	r := p.ctl("status", "mr", "addons")
	p.Expect(r.code).To(Equal(cli.ExitFound))
	p.Expect(r.out).To(MatchRegexp(`Deployment.apps ` + p.name + `/web +Unhealthy +\S+ +pod web-1-x: .*ImagePullBackOff`))
	p.Expect(strings.Index(r.out, "/web ")).To(BeNumerically("<", strings.Index(r.out, "ConfigMap ")), "the worst first")
	tree := p.ctl("tree", "mr", "addons")
	p.Expect(tree.out).To(ContainSubstring("Pod web-1-x"))
	report := inspect.Report{}
	p.Expect(json.Unmarshal([]byte(p.ctl("tree", "mr", "addons", "-o", "json").out), &report)).To(Succeed())
	for _, o := range report.Objects {
		if o.Name == "web" {
			p.Expect(o.Children).To(HaveLen(1))
			p.Expect(o.Children[0].Children).To(ConsistOf(HaveField("Health", inspect.Unhealthy)))
		}
	}

	// A user deletes an object of a suspended ManagedResource.
	p.succeeds("suspend", "mr", "addons", "--timeout", "90s")
	p.Expect(target.Client.Delete(p.ctx, &corev1.ConfigMap{ObjectMeta: metaOf(p.name, "a")})).To(Succeed())
	r = p.ctl("status", "mr", "addons", "--not-healthy")
	p.Expect(r.out).To(And(MatchRegexp(`ConfigMap `+p.name+`/a +Missing`), ContainSubstring("It is suspended")))
	p.fails(cli.ExitNotFound, "there is no ManagedResource other", "status", "mr", "other")

	// A target that does not respond: what is known is reported.
	raw := testbed.Rewrite(target.Kubeconfig(), func(c *testbed.KubeConfig) {
		c.Clusters[c.Contexts[c.CurrentContext].Cluster].Server = "https://127.0.0.1:1"
	})
	registration := p.registration("shoot-a")
	registration.Data["value"] = raw
	p.Expect(source.Client.Update(p.ctx, registration)).To(Succeed())
	r = p.fails(cli.ExitUnreachable, "the live objects cannot be seen", "status", "mr", "addons", "--connect-timeout", "2s")
	p.Expect(r.out).To(MatchRegexp(`ConfigMap ` + p.name + `/a +Unknown`))
}

func TestReconcileSuspendResume(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	p.apply("addons", p.configMap("a", "1"))
	r := p.succeeds("reconcile", "mr", "addons", "--timeout", "90s")
	p.Expect(r.out).To(ContainSubstring("managedresource/addons reconciled: Ready"))
	p.Expect(p.mr("addons").Annotations).NotTo(HaveKey(resourcesv1alpha1.OperationAnnotation))

	p.Expect(p.succeeds("suspend", "mr", "addons", "--timeout", "90s").out).To(Equal("managedresource/addons suspended\n"))
	p.fails(cli.ExitRefused, "is suspended", "reconcile", "mr", "addons")
	why := p.ctl("why", "mr", "addons", "-o", "json")
	p.Expect(why.code).To(Equal(cli.ExitFound))
	p.Expect(why.out).To(And(ContainSubstring(`"reason": "ManagedResourceIgnored"`), ContainSubstring(`"wished": true`), ContainSubstring(`"since"`)))
	resumed := &resourcesv1alpha1.ManagedResource{}
	p.Expect(json.Unmarshal([]byte(p.succeeds("resume", "mr", "addons", "--timeout", "90s", "-o", "json").out), resumed)).To(Succeed())
	p.Expect(resumed.Kind).To(Equal("ManagedResource"))
	p.Expect(resumed.Annotations).NotTo(HaveKey(resourcesv1alpha1.IgnoreAnnotation))
	p.eventually("addons", resourcesv1alpha1.ConditionReady, "True", "Ready")
	p.succeeds("why", "mr", "addons")
	p.fails(cli.ExitNotFound, "there is no ManagedResource other", "reconcile", "mr", "other")
}

func TestWhy(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	answer := func(args ...string) string {
		t.Helper()
		r := p.ctl(append([]string{"why"}, args...)...)
		p.Expect(r.code).To(Equal(cli.ExitFound), r.out+r.err)
		return r.out
	}

	// No hub is responsible for the class.
	mr := testbed.ManagedResource(p.name, "strange")
	mr.Spec.Class = ptr.To("strange")
	p.Expect(source.Client.Create(p.ctx, mr)).To(Succeed())
	p.Expect(answer("mr", "strange")).To(And(ContainSubstring("NotClaimed"), ContainSubstring("no registration in namespace "+p.name+" serves class strange (shoot-a serves resources)")))
	p.fails(cli.ExitTimeout, "gave up after 1s: waiting for the hub to begin", "reconcile", "mr", "strange", "--timeout", "1s")

	// What the target refuses, with its event.
	p.Expect(source.Client.Create(p.ctx, testbed.Content(p.name, "bad", "data.yaml",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"does-not-exist","name":"x"}}`))).To(Succeed())
	p.Expect(source.Client.Create(p.ctx, testbed.ManagedResource(p.name, "bad", "bad"))).To(Succeed())
	p.eventually("bad", resourcesv1alpha1.ConditionResourcesApplied, "False", "ApplyFailed")
	p.Expect(answer("mr", "bad")).To(And(ContainSubstring("ApplyFailed"), ContainSubstring(`namespaces "does-not-exist" not found`), ContainSubstring("diff mr bad")))
	p.Eventually(func() string { return p.ctl("events", "mr", "bad").out }).Should(MatchRegexp(`Warning +ApplyFailed +1`))

	// A pause is requested by a user.
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metaOf(p.name, "shoot-a")}
	p.Expect(source.Client.Patch(p.ctx, tc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`)))).To(Succeed())
	p.Expect(answer("cluster", "shoot-a")).To(ContainSubstring("is paused"))
	p.Expect(answer("mr", "bad")).To(ContainSubstring("is paused"))
	p.Expect(source.Client.Patch(p.ctx, tc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":false}}`)))).To(Succeed())

	// A credential that the target does not take any longer.
	expired, err := target.ServiceAccountKubeconfig(p.ctx, p.name, "expired", -time.Hour)
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(source.Client.Create(p.ctx, testbed.Registration(p.name, "shoot-b", expired))).To(Succeed())
	p.Eventually(func() string { return p.ctl("why", "cluster", "shoot-b").out }).Should(And(ContainSubstring("Unauthorized"), ContainSubstring("cluster rotate shoot-b")))

	// A Secret that looks like a registration and is none.
	s := testbed.Registration(p.name, "shoot-c", expired)
	s.Labels = nil
	p.Expect(source.Client.Create(p.ctx, s)).To(Succeed())
	p.Expect(answer("cluster", "shoot-c")).To(ContainSubstring("kubectl -n " + p.name + " label secret shoot-c-kubeconfig"))
	p.fails(cli.ExitNotFound, "there is no cluster shoot-d", "why", "cluster", "shoot-d")

	// No hub works.
	lease := &coordinationv1.Lease{ObjectMeta: metaOf(p.name, "old"), Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour)))}}
	p.Expect(source.Client.Create(p.ctx, lease)).To(Succeed())
	p.Expect(answer("mr", "bad", "--hub-namespace", p.name, "--hub-lease", "old")).To(ContainSubstring("No hub works: the heartbeat " + p.name + "/old was not renewed for 60m"))
}

func TestWhoHasNoRightsAndASourceThatDoesNotAnswer(t *testing.T) {
	p := newPlace(t)
	raw, err := source.ClientCertKubeconfig("unprivileged", nil, time.Hour)
	p.Expect(err).NotTo(HaveOccurred())
	unprivileged := p.file("unprivileged", string(raw))
	p.fails(cli.ExitRefused, "is forbidden", "--kubeconfig", unprivileged, "cluster", "list")
	p.fails(cli.ExitRefused, "is forbidden", "--kubeconfig", unprivileged, "status", "mr", "addons")
	p.fails(cli.ExitRefused, "is forbidden",
		"--kubeconfig", unprivileged, "cluster", "add", "x", "--from-kubeconfig", admin)
	// Who may read the source and not write it creates nothing in the target either.
	raw, err = source.ClientCertKubeconfig("reader", nil, time.Hour)
	p.Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}}}
	p.Expect(source.Client.Create(p.ctx, role)).To(Succeed())
	p.Expect(source.Client.Create(p.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: p.name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.name},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "reader"}}})).To(Succeed())
	reader := p.file("reader", string(raw))
	p.Eventually(func() int { return p.ctl("--kubeconfig", reader, "cluster", "list").code }).Should(Equal(cli.ExitOK))
	p.fails(cli.ExitRefused, `cannot create resource "secrets"`, "--kubeconfig", reader, "cluster", "add", "x", "--from-kubeconfig", admin, "--create-service-account", "--service-account", p.name+"/none")
	p.Expect(apierrors.IsNotFound(target.Client.Get(p.ctx, client.ObjectKey{Namespace: p.name, Name: "none"}, &corev1.ServiceAccount{}))).To(BeTrue())
	dead := p.file("dead", string(testbed.Rewrite(source.Kubeconfig(), func(c *testbed.KubeConfig) {
		c.Clusters[c.Contexts[c.CurrentContext].Cluster].Server = "https://127.0.0.1:1"
	})))
	p.fails(cli.ExitUnreachable, "connection refused", "--kubeconfig", dead, "cluster", "list")
	p.fails(cli.ExitFailed, "does-not-exist", "--context", "does-not-exist", "cluster", "list")

	r := p.ctl("__complete", "why", "mr", "")
	p.Expect(r.out).To(Equal(":4\n"))
	p.Expect(source.Client.Create(p.ctx, testbed.ManagedResource(p.name, "addons"))).To(Succeed())
	p.Expect(p.ctl("__complete", "why", "mr", "").out).To(Equal("addons\n:4\n"))
	p.Expect(p.ctl("__complete", "cluster", "add", "x", "--from-kubeconfig", admin, "--context", "").out).To(MatchRegexp(`^\S+\n:4\n$`))
}

func TestAClusterWithoutAHub(t *testing.T) {
	p := newPlace(t)
	plain := p.file("plain", string(controlplane.StartForTest(t, controlplane.Options{Name: "plain"}).Kubeconfig()))
	for _, command := range []string{"cluster list", "status mr addons", "why mr addons", "events mr addons", "reconcile mr addons"} {
		p.fails(cli.ExitFailed, "Trellis is not installed there", append([]string{"--kubeconfig", plain}, strings.Fields(command)...)...)
	}
}
