package targetcluster_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/addresses"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/targetcluster"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

const withExec = `
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}}}]
`

// TestWithTheRealClusterCache registers a real cluster, leads its registration to another one, confirms that, and
// removes it. The source cluster plays the other one.
func TestWithTheRealClusterCache(t *testing.T) {
	sourcePlane := controlplane.StartForTest(t, controlplane.Options{Name: "source"})
	targetPlane := controlplane.StartForTest(t, controlplane.Options{Name: "target"})
	g := NewWithT(t)
	ctx := t.Context()
	target, err := client.New(targetPlane.RESTConfig(), client.Options{})
	g.Expect(err).NotTo(HaveOccurred())

	h := &hub{source: newSource(t, sourcePlane), events: events.NewFakeRecorder(1000), namespace: "default"}
	startForReal(t, h, clustercache.Options{})
	key, uid, otherUID := h.key("a"), clusterUID(ctx, g, target), clusterUID(ctx, g, h.client)

	t.Log("a registration")
	secret := registration(key, targetPlane.Kubeconfig())
	g.Expect(h.client.Create(ctx, secret)).To(Succeed())
	h.eventually(g, key, SatisfyAll(
		haveCondition("Ready", "True", "Ready"), haveCondition("APIServerAvailable", "True", "HealthzRequestSucceeded"),
		HaveField("Status.ClusterUID", uid), HaveField("Status.KubernetesVersion", HavePrefix("v1.")),
		HaveField("Status.NodeCounts", Equal(&hubv1alpha1.NodeCounts{})), Not(haveConditionType("EveryNodeReady")),
	))

	t.Log("a node that becomes ready")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "kwok://n"}}
	g.Expect(target.Create(ctx, node)).To(Succeed())
	h.eventually(g, key, SatisfyAll(haveCondition("EveryNodeReady", "False", "NodesUnhealthy"), haveCondition("Ready", "True", "Ready")))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	g.Expect(target.Status().Update(ctx, node)).To(Succeed())
	h.eventually(g, key, SatisfyAll(haveCondition("EveryNodeReady", "True", "EveryNodeReady"), HaveField("Status.CloudType", "kwok")))

	t.Log("another cluster")
	secret.Data["value"] = sourcePlane.Kubeconfig()
	g.Expect(h.client.Update(ctx, secret)).To(Succeed())
	h.eventually(g, key, SatisfyAll(haveCondition("Ready", "False", "IdentityChanged"), HaveField("Status.ClusterUID", uid)))
	secret.Annotations = map[string]string{hubv1alpha1.ConfirmIdentityAnnotation: string(otherUID)}
	g.Expect(h.client.Update(ctx, secret)).To(Succeed())
	h.eventually(g, key, SatisfyAll(haveCondition("Ready", "True", "Ready"), HaveField("Status.ClusterUID", otherUID)))

	t.Log("a kubeconfig that is refused")
	refused := h.key("refused")
	g.Expect(h.client.Create(ctx, registration(refused, []byte(withExec)))).To(Succeed())
	h.eventually(g, refused, SatisfyAll(haveCondition("Ready", "False", "KubeconfigRefused"), haveMessage("Ready", "exec")))
	h.expectEvent(g, "Warning KubeconfigRefused")

	t.Log("removal")
	g.Expect(h.client.Delete(ctx, secret)).To(Succeed())
	h.eventuallyGone(g, key)
	g.Expect(target.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
}

// TestRegistrationQuota registers more than a namespace may have, and makes room.
func TestRegistrationQuota(t *testing.T) {
	plane := controlplane.StartForTest(t, controlplane.Options{Name: "source"})
	g := NewWithT(t)
	ctx := t.Context()
	h := &hub{source: newSource(t, plane), events: events.NewFakeRecorder(1000), namespace: "default"}
	startForReal(t, h, clustercache.Options{MaxRegistrations: 1})

	first, second := registration(h.key("b"), plane.Kubeconfig()), registration(h.key("a"), plane.Kubeconfig())
	g.Expect(h.client.Create(ctx, first)).To(Succeed())
	h.eventually(g, h.key("b"), haveCondition("Ready", "True", "Ready"))
	g.Expect(h.client.Create(ctx, second)).To(Succeed())
	h.eventually(g, h.key("a"), SatisfyAll(haveCondition("Ready", "False", "RegistrationQuotaExceeded"),
		haveMessage("Ready", "more than 1 registrations"), HaveField("Status.ClusterUID", BeEmpty())))
	h.expectEvent(g, "Warning RegistrationQuotaExceeded")
	h.eventually(g, h.key("b"), haveCondition("Ready", "True", "Ready"))

	t.Log("a place")
	g.Expect(h.client.Delete(ctx, first)).To(Succeed())
	h.eventually(g, h.key("a"), haveCondition("Connected", "True", "Connected"))
	h.eventuallyGone(g, h.key("b"))

	t.Log("a Secret that is too large")
	first = registration(h.key("b"), make([]byte, 200<<10))
	g.Expect(h.client.Delete(ctx, second)).To(Succeed())
	h.eventuallyGone(g, h.key("a"))
	g.Expect(h.client.Create(ctx, first)).To(Succeed())
	h.eventually(g, h.key("b"), SatisfyAll(
		haveCondition("Ready", "False", "KubeconfigInvalid"), haveMessage("Ready", "65536 bytes"),
	))
}

// startForReal starts a clustercache and a controller as the hub does.
func startForReal(t *testing.T, h *hub, options clustercache.Options) {
	guard := identity.NewGuard(h.cache)
	options.Secrets, options.VerifyIdentity, options.Probe.Interval = h.cache, guard.Verify, 200*time.Millisecond
	options.Dial.Addresses = addresses.Any()
	clusters, err := clustercache.New(options)
	if err != nil {
		t.Fatal(err)
	}
	controller, err := New(Options{
		Client: h.client, Live: h.client, Cache: h.cache, Clusters: clusters, Guard: guard, Events: h.events,
		SyncPeriod: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- clusters.Start(ctx) }()
	go func() { done <- controller.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

func clusterUID(ctx context.Context, g *WithT, c client.Client) types.UID {
	namespace := &corev1.Namespace{}
	g.Expect(c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace)).To(Succeed())
	return namespace.UID
}
