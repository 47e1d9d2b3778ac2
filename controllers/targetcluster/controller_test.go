package targetcluster_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/clustercache"
	fakeclusters "github.com/trellis-hub/trellis/clustercache/fake"
	"github.com/trellis-hub/trellis/controllers/internal/targetfacts"
	. "github.com/trellis-hub/trellis/controllers/targetcluster"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
	"github.com/trellis-hub/trellis/controllers/targetcluster/members"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

const (
	soon  = time.Minute
	often = 20 * time.Millisecond
	// threshold is how long a failure has to last. One is reported after five seconds.
	threshold = 15 * time.Second
	// aWhile is how long nothing has to happen for a test to believe that nothing happens.
	aWhile = 700 * time.Millisecond
)

func TestMain(m *testing.M) {
	// This belongs to the logging of client-go and lives as long as the process.
	controlplane.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// TestController runs against a real API server as the source and a fake clustercache. Its parts share the server,
// since starting one takes seconds; each has a namespace and a controller of its own.
func TestController(t *testing.T) {
	cp := controlplane.StartForTest(t, controlplane.Options{})
	source := newSource(t, cp)
	for name, test := range map[string]func(*testing.T, *hub){
		"shows a target through its life":                       testLife,
		"writes nothing while nothing happens":                  testSteady,
		"reports a target that went back in time":               testRewinds,
		"looks at ManagedResources when it is notified of some": testSettled,
		"leaves a TargetCluster alone that was made in advance": testMadeInAdvance,
		"deletes no memory before it is sure":                   testNotSure,
		"keeps the memory while ManagedResources need it":       testInUse,
		"keeps the memory while webhooks are registered":        testWebhooksLeftBehind,
		"guards the identity":                                   testIdentity,
		"shows two registrations of one cluster on both":        testDuplicates,
		"names no registrations of other namespaces":            testDuplicatesElsewhere,
		"MC-4 takes a forged UID for the later claim":           testForgedDuplicate,
		"lets a hibernated target sleep":                        testHibernated,
		"sums up its ManagedResources":                          testComponents,
		"leaves nothing behind at the end of a term":            testTerms,
	} {
		t.Run(name, func(t *testing.T) { test(t, newHub(t, source)) })
	}
}

func testLife(t *testing.T, h *hub) {
	g := NewWithT(t)
	key := h.key("a")
	h.register(g, key)
	h.clusters.SetStatus(clustercache.Status{Cluster: key, State: clustercache.StateConnecting, SecretName: "a-kubeconfig"})
	h.eventually(g, key, SatisfyAll(
		haveCondition("Ready", "Unknown", "Connecting"), haveCondition("Connected", "Unknown", "Connecting"),
		HaveField("Status.SecretName", "a-kubeconfig"),
	))

	expiry := time.Now().Add(48 * time.Hour).Truncate(time.Second)
	connected := clustercache.Status{
		Cluster: key, State: clustercache.StateConnected, Reason: clustercache.ReasonConnected, SecretName: "a-kubeconfig",
		UID: h.uid("a"), KubernetesVersion: "v1.36.3", RoundTrip: 31 * time.Millisecond, CredentialExpiry: expiry,
	}
	h.clusters.SetStatus(connected)
	h.eventually(g, key, SatisfyAll(
		haveCondition("Ready", "True", "Ready"), haveCondition("Connected", "True", "Connected"),
		haveCondition("CredentialsValid", "True", "CredentialsAccepted"), haveCondition("APIServerAvailable", "True", "HealthzRequestSucceeded"),
		HaveField("Status.ClusterUID", h.uid("a")), HaveField("Status.KubernetesVersion", "v1.36.3"),
		HaveField("Status.RoundTripMilliseconds", int64(50)), HaveField("Status.CredentialExpiry.Unix()", expiry.Unix()),
		Not(haveConditionType("EveryNodeReady")),
	))
	h.expectEvent(g, "Normal Ready")

	g.Eventually(func() any { return h.clusters.Watches(key) }, soon, often).Should(HaveLen(1))
	for name := range h.clusters.Watches(key) {
		h.clusters.Put(key, name, readyNode(t, "n1"))
		h.clusters.Sync(key, name, true)
	}
	h.eventually(g, key, SatisfyAll(
		haveCondition("EveryNodeReady", "True", "EveryNodeReady"), HaveField("Status.NodeCounts", Equal(&hubv1alpha1.NodeCounts{Total: 1, Ready: 1})),
		HaveField("Status.CloudType", "kwok"),
	))

	h.setFacts(targetfacts.Facts{DriftLastHour: 7})
	h.clusters.Emit(key, clustercache.EventProbed)
	h.eventually(g, key, HaveField("Status.DriftLastHour", int64(7)))

	h.clusters.SetState(key, clustercache.StateDisconnected, clustercache.ReasonUnreachable, "dial tcp: connection refused")
	h.eventually(g, key, SatisfyAll(
		haveCondition("Ready", "False", "Unreachable"), haveCondition("Connected", "False", "Unreachable"),
		haveCondition("EveryNodeReady", "Unknown", "NotProbed"), HaveField("Status.KubernetesVersion", "v1.36.3"),
	))
	h.expectEvent(g, "Warning Unreachable dial tcp: connection refused")

	h.clusters.SetStatus(connected)
	h.eventually(g, key, haveCondition("Ready", "True", "Ready"))
	h.change(g, key, func(tc *hubv1alpha1.TargetCluster) { tc.Spec.Paused = true })
	h.eventually(g, key, SatisfyAll(haveCondition("Ready", "False", "Paused"), HaveField("Status.ObservedGeneration", int64(2))))

	h.setFacts(targetfacts.Facts{})
	h.unregister(g, key)
	h.clusters.SetState(key, clustercache.StateDraining, clustercache.ReasonRegistrationGone, "")
	h.eventually(g, key, haveCondition("Ready", "False", "RegistrationGone"))
	h.clusters.Remove(key)
	h.eventuallyGone(g, key)
}

func testSteady(t *testing.T, h *hub) {
	g := NewWithT(t)
	key := h.key("a")
	h.register(g, key)
	h.connect(key, h.uid("a"))
	h.eventually(g, key, SatisfyAll(haveCondition("Ready", "True", "Ready"), HaveField("Labels", HaveKeyWithValue(hubv1alpha1.StatusLabel, "healthy"))))
	before := h.get(g, key).ResourceVersion

	deadline := time.Now().Add(aWhile)
	for i := 0; time.Now().Before(deadline); i++ {
		status, _ := h.clusters.GetStatus(key)
		status.RoundTrip = time.Duration(1+i%400) * time.Millisecond
		h.clusters.SetStatus(status)
		time.Sleep(often)
	}
	g.Expect(h.get(g, key).ResourceVersion).To(Equal(before))

	t.Log("a target that stays down for changing reasons")
	h.clusters.SetState(key, clustercache.StateDisconnected, clustercache.ReasonUnreachable, "attempt 0")
	h.eventually(g, key, SatisfyAll(haveCondition("Ready", "False", "Unreachable"), HaveField("Labels", HaveKeyWithValue(hubv1alpha1.StatusLabel, "unhealthy"))))
	before = h.get(g, key).ResourceVersion
	for i := range 20 {
		h.clusters.SetState(key, clustercache.StateDisconnected, clustercache.ReasonUnreachable, fmt.Sprintf("attempt %d", i))
		time.Sleep(often)
	}
	g.Expect(h.get(g, key).ResourceVersion).To(Equal(before))
}

func testSettled(t *testing.T, h *hub) {
	g := NewWithT(t)
	key := h.key("a")
	h.register(g, key)
	h.connect(key, h.uid("a"))
	h.createMR(g, "mr", "", nil)
	h.setMR(g, "mr", h.uid("a"), resourcesv1alpha1.ConditionTrue, "fine")
	h.setFacts(targetfacts.Facts{DriftLastHour: 7})
	h.eventually(g, key, SatisfyAll(haveCondition("SystemComponentsHealthy", "True", "ManagedResourcesHealthy"), HaveField("Status.DriftLastHour", int64(7)),
		HaveField("Labels", HaveKeyWithValue(hubv1alpha1.StatusLabel, "healthy"))))
	time.Sleep(aWhile) // what is under way

	t.Log("nothing but time passes")
	looks, lists := h.looks.Load(), h.lists.in(h.namespace)
	g.Eventually(func() int64 {
		if now := h.lists.in(h.namespace); now != lists { // something was still under way
			looks, lists = h.looks.Load(), now
		}
		return h.looks.Load() - looks
	}, soon, often).Should(BeNumerically(">=", 20), "looks in a row for which no ManagedResources are listed")

	t.Log("changes without an event")
	h.setFacts(targetfacts.Facts{})
	h.eventually(g, key, HaveField("Status.DriftLastHour", int64(0)))
	h.setElsewhere(true)
	h.eventually(g, key, haveCondition("Ready", "False", "ManagedElsewhere"))
	h.setElsewhere(false)
	h.eventually(g, key, haveCondition("Ready", "True", "Ready"))

	t.Log("changes with an event")
	h.setMR(g, "mr", h.uid("a"), resourcesv1alpha1.ConditionFalse, "broken")
	h.eventually(g, key, haveCondition("SystemComponentsHealthy", "True", "ManagedResourcesFailing"))
	h.setMR(g, "mr", h.uid("a"), resourcesv1alpha1.ConditionTrue, "fine")
	h.eventually(g, key, haveCondition("SystemComponentsHealthy", "True", "ManagedResourcesHealthy"))

	t.Log("a credential that ends soon in a moment")
	status, _ := h.clusters.GetStatus(key)
	status.CredentialExpiry = time.Now().Add(time.Hour + 8*time.Second)
	h.clusters.SetStatus(status)
	h.clusters.Emit(key, clustercache.EventProbed)
	h.eventually(g, key, SatisfyAll(
		HaveField("Status.CredentialExpiry.Unix()", status.CredentialExpiry.Unix()), haveCondition("CredentialsValid", "True", "CredentialsAccepted"),
	))
	h.eventually(g, key, haveCondition("CredentialsValid", "True", "CredentialsExpireSoon"))
}

func testMadeInAdvance(t *testing.T, h *hub) {
	g := NewWithT(t)
	key := h.key("a")
	g.Expect(h.client.Create(t.Context(), &hubv1alpha1.TargetCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       hubv1alpha1.TargetClusterSpec{Paused: true},
	})).To(Succeed())
	g.Consistently(func() error { return h.client.Get(t.Context(), key, &hubv1alpha1.TargetCluster{}) }, aWhile, often).Should(Succeed())

	h.register(g, key)
	h.connect(key, h.uid("a"))
	h.eventually(g, key, haveCondition("Ready", "False", "Paused"))
}

func testNotSure(t *testing.T, h *hub) {
	g := NewWithT(t)
	key := h.key("a")
	h.register(g, key)
	h.connect(key, h.uid("a"))
	h.eventually(g, key, HaveField("Status.ClusterUID", h.uid("a")))

	t.Log("a clustercache that does not know the registration yet")
	h.clusters.Remove(key)
	g.Consistently(func() types.UID { return h.get(g, key).Status.ClusterUID }, aWhile, often).Should(Equal(h.uid("a")))

	t.Log("a Secret that is no registration any more")
	h.unregister(g, key)
	h.clusters.Emit(key, clustercache.EventGone)
	h.eventuallyGone(g, key)
}

func testInUse(t *testing.T, h *hub) {
	g := NewWithT(t)
	key := h.key("a")
	h.register(g, key)
	h.connect(key, h.uid("a"))
	h.eventually(g, key, HaveField("Status.ClusterUID", h.uid("a")))

	h.setInUse(true)
	h.unregister(g, key)
	h.clusters.Remove(key)
	h.eventually(g, key, SatisfyAll(haveCondition("Ready", "False", "RegistrationGone"), HaveField("Status.ClusterUID", h.uid("a"))))

	h.setInUse(false)
	h.clusters.Emit(key, clustercache.EventGone)
	h.eventuallyGone(g, key)
}

func testWebhooksLeftBehind(t *testing.T, h *hub) {
	g := NewWithT(t)
	key := h.key("a")
	h.register(g, key)
	h.connect(key, h.uid("a"))
	h.eventually(g, key, HaveField("Status.ClusterUID", h.uid("a")))
	set := func(conditions ...metav1.Condition) {
		g.Eventually(func() error {
			tc := &hubv1alpha1.TargetCluster{}
			if err := h.client.Get(t.Context(), key, tc); err != nil {
				return err
			}
			meta.RemoveStatusCondition(&tc.Status.Conditions, hubv1alpha1.ConditionWebhooksRegistered)
			for _, c := range conditions {
				meta.SetStatusCondition(&tc.Status.Conditions, c)
			}
			return h.client.Status().Update(t.Context(), tc)
		}).Should(Succeed())
	}
	set(metav1.Condition{Type: hubv1alpha1.ConditionWebhooksRegistered, Status: metav1.ConditionTrue, Reason: "a"})
	h.eventually(g, key, haveCondition(hubv1alpha1.ConditionWebhooksRegistered, "True", "a"))
	h.unregister(g, key)
	h.clusters.Remove(key)
	h.eventually(g, key, SatisfyAll(haveCondition("Ready", "False", "RegistrationGone"),
		haveCondition(hubv1alpha1.ConditionWebhooksRegistered, "True", "a")))
	set()
	h.eventuallyGone(g, key)
}

func testRewinds(t *testing.T, h *hub) {
	g := NewWithT(t)
	key := h.key("a")
	h.register(g, key)
	h.connect(key, h.uid("a"))
	h.eventually(g, key, haveCondition("Ready", "True", "Ready"))
	status, _ := h.clusters.GetStatus(key)
	status.Rewinds = 1
	h.clusters.SetStatus(status)
	h.clusters.Emit(key, clustercache.EventRewound)
	h.expectEvent(g, "Warning WentBackInTime")
}

func testIdentity(t *testing.T, h *hub) {
	g := NewWithT(t)
	key := h.key("a")
	h.register(g, key)
	h.connect(key, h.uid("a"))
	h.eventually(g, key, HaveField("Status.ClusterUID", h.uid("a")))

	h.connect(key, h.uid("b"))
	h.eventually(g, key, SatisfyAll(haveCondition("Ready", "False", "IdentityChanged"), HaveField("Status.ClusterUID", h.uid("a"))))
	h.expectEvent(g, "Warning IdentityChanged")

	status, _ := h.clusters.GetStatus(key)
	status.Annotations = map[string]string{hubv1alpha1.ConfirmIdentityAnnotation: string(h.uid("b"))}
	h.clusters.SetStatus(status)
	h.eventually(g, key, SatisfyAll(haveCondition("Ready", "True", "Ready"), HaveField("Status.ClusterUID", h.uid("b"))))
	h.expectEvent(g, "Normal IdentityConfirmed")
}

func testDuplicates(t *testing.T, h *hub) {
	g := NewWithT(t)
	a, b := h.key("a"), h.key("b")
	for _, key := range []clustercache.ClusterKey{b, a} {
		h.register(g, key)
		h.connect(key, h.uid("same"))
		h.eventually(g, key, HaveField("Status.ClusterUIDSince", Not(BeNil())))
	}
	h.eventually(g, a, SatisfyAll(haveCondition("Ready", "True", "DuplicateRegistration"),
		haveMessage("Ready", b.String()), haveCondition("DuplicateRegistration", "True", "DuplicateRegistration"),
		haveMessage("DuplicateRegistration", "but for "+b.String())))
	h.eventually(g, b, SatisfyAll(haveCondition("Ready", "True", "DuplicateRegistration"),
		haveMessage("Ready", a.String()), Not(haveCondition("DuplicateRegistration", "True", "DuplicateRegistration"))))
	h.expectEvent(g, "Warning DuplicateRegistration")
	first := h.get(g, b).Status.ClusterUIDSince

	t.Log("another term")
	h.stopTerm()
	h.startTerm(t)
	h.change(g, b, func(tc *hubv1alpha1.TargetCluster) { tc.Spec.Paused = true })
	h.eventually(g, b, haveCondition("Ready", "False", "Paused"))
	h.eventually(g, a, haveCondition("DuplicateRegistration", "True", "DuplicateRegistration"))
	g.Expect(h.get(g, b).Status.ClusterUIDSince).To(Equal(first))

	t.Log("the first one goes")
	h.unregister(g, b)
	h.clusters.Remove(b)
	h.eventually(g, a, SatisfyAll(haveCondition("Ready", "True", "Ready"),
		Not(haveCondition("DuplicateRegistration", "True", "DuplicateRegistration"))))
}

// A registration that takes another UID is the last one to have it, whenever it was registered.
func testForgedDuplicate(t *testing.T, h *hub) {
	g := NewWithT(t)
	forger, genuine := h.key("a"), h.key("b")
	for key, uid := range map[clustercache.ClusterKey]string{forger: "its own", genuine: "genuine"} {
		h.register(g, key)
		h.connect(key, h.uid(uid))
		h.eventually(g, key, haveCondition("Ready", "True", "Ready"))
	}
	status, _ := h.clusters.GetStatus(forger)
	status.UID = h.uid("genuine")
	status.Annotations = map[string]string{hubv1alpha1.ConfirmIdentityAnnotation: string(status.UID)}
	h.clusters.SetStatus(status)
	h.clusters.Emit(forger, clustercache.EventConnected)
	h.eventually(g, forger, SatisfyAll(HaveField("Status.ClusterUID", h.uid("genuine")),
		haveCondition("DuplicateRegistration", "True", "DuplicateRegistration")))
	g.Expect(h.get(g, genuine)).NotTo(haveCondition("DuplicateRegistration", "True", "DuplicateRegistration"))
	g.Expect(h.get(g, forger).Status.ClusterUIDSince.After(h.get(g, genuine).Status.ClusterUIDSince.Time)).To(BeTrue())
}

// A server that claims the UID of another namespace's cluster is not mentioned there, and learns only why nothing works
// for it; one that is the same is not named.
func testDuplicatesElsewhere(t *testing.T, h *hub) {
	g := NewWithT(t)
	a, stranger, twin := h.key("a"), h.key("stranger"), h.key("twin")
	for _, key := range []*clustercache.ClusterKey{&stranger, &twin} {
		key.Namespace += "-" + key.Name
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}
		g.Expect(h.client.Create(t.Context(), namespace)).To(Succeed())
	}
	connect := func(key clustercache.ClusterKey, server clustercache.ServerID) {
		h.register(g, key)
		h.connect(key, h.uid("same"))
		status, _ := h.clusters.GetStatus(key)
		status.Server = server
		h.clusters.SetStatus(status)
		h.clusters.Emit(key, clustercache.EventConnected)
	}
	connect(a, "api")
	h.eventually(g, a, SatisfyAll(haveCondition("Ready", "True", "Ready"),
		HaveField("Status.ClusterUIDSince", Not(BeNil()))))
	connect(stranger, "evil") // later: the first claimant of a UID holds it
	isDuplicate := SatisfyAll(haveCondition("DuplicateRegistration", "True", "DuplicateRegistration"),
		haveMessage("DuplicateRegistration", "one in another namespace"),
		Not(haveMessage("DuplicateRegistration", a.String())))
	h.eventually(g, stranger, SatisfyAll(isDuplicate, HaveField("Status.ClusterUID", h.uid("same"))))
	g.Expect(h.get(g, a)).To(haveCondition("Ready", "True", "Ready"))
	connect(twin, "api")
	for _, key := range []clustercache.ClusterKey{a, twin} {
		h.eventually(g, key, SatisfyAll(haveCondition("Ready", "True", "DuplicateRegistration"),
			haveMessage("Ready", "in another namespace"), Not(haveMessage("Ready", "twin")),
			Not(haveMessage("Ready", a.String()))))
	}
	h.eventually(g, twin, isDuplicate)
	h.eventually(g, stranger, isDuplicate)
}

func testHibernated(t *testing.T, h *hub) {
	g := NewWithT(t)
	key := h.key("a")
	h.register(g, key)
	h.connect(key, h.uid("a"))
	h.eventually(g, key, haveCondition("Ready", "True", "Ready"))

	h.change(g, key, func(tc *hubv1alpha1.TargetCluster) {
		tc.Annotations = map[string]string{hubv1alpha1.HibernatedAnnotation: "true"}
	})
	h.waitForCache(g, key)
	h.clusters.SetState(key, clustercache.StateDisconnected, clustercache.ReasonUnreachable, "asleep")
	g.Consistently(func() *hubv1alpha1.TargetCluster { return h.get(g, key) }, aWhile, often).Should(haveCondition("Ready", "True", "Ready"))

	h.change(g, key, func(tc *hubv1alpha1.TargetCluster) { tc.Annotations = nil })
	h.eventually(g, key, haveCondition("Ready", "False", "Unreachable"))
}

func testTerms(t *testing.T, h *hub) {
	g := NewWithT(t)
	key := h.key("a")
	h.register(g, key)
	h.connect(key, h.uid("a"))
	h.eventually(g, key, haveCondition("Ready", "True", "Ready"))
	watches := func() any { return h.clusters.Watches(key) }
	g.Eventually(watches, soon, often).Should(HaveLen(1))

	h.stopTerm()
	g.Expect(h.clusters.Watches(key)).To(BeEmpty())
	h.clusters.SetState(key, clustercache.StateDisconnected, clustercache.ReasonUnreachable, "")
	g.Consistently(func() *hubv1alpha1.TargetCluster { return h.get(g, key) }, aWhile, often).Should(haveCondition("Ready", "True", "Ready"))

	h.startTerm(t)
	h.eventually(g, key, haveCondition("Ready", "False", "Unreachable"))
	h.connect(key, h.uid("a"))
	g.Eventually(watches, soon, often).Should(HaveLen(1))
}

// source is the source cluster with its informers.
type source struct {
	client client.Client
	cache  ctrlcache.Cache
	// The index can be made once for a cache, so all hubs share the targets. Each has those of its namespace.
	clusters *fakeclusters.Cache
	members  *members.Index
	holders  *identity.Holders
	lists    *lists
}

var classes = []configv1alpha1.Class{
	{Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace}},
	{Name: "seed", Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetSource}, NamespaceSelector: &metav1.LabelSelector{}},
}

func newSource(t testing.TB, cp *controlplane.ControlPlane) *source {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, hubv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme} {
		g.Expect(add(scheme)).To(Succeed())
	}
	c, err := client.New(cp.RESTConfig(), client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	for _, crd := range chart.CRDs() {
		g.Expect(c.Create(t.Context(), crd)).To(Succeed())
	}
	g.Eventually(func() error { return c.List(t.Context(), &hubv1alpha1.TargetClusterList{}) }, soon, often).Should(Succeed())
	g.Eventually(func() error { return c.List(t.Context(), &resourcesv1alpha1.ManagedResourceList{}) }, soon, often).Should(Succeed())

	informers, err := ctrlcache.New(cp.RESTConfig(), ctrlcache.Options{
		Scheme: scheme, ByObject: map[client.Object]ctrlcache.ByObject{&corev1.Secret{}: clustercache.SecretCacheOptions()},
	})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- informers.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	clusters := fakeclusters.New(nil)
	lists := &lists{Cache: informers, found: map[string]int{}}
	index, err := members.New(lists, clusters, classes, clock.RealClock{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(index.Register(t.Context())).To(Succeed())
	holders := identity.NewHolders(informers, clustercache.ClusterKey{})
	g.Expect(holders.Register(t.Context())).To(Succeed())
	return &source{client: c, cache: informers, clusters: clusters, members: index, holders: holders, lists: lists}
}

// lists counts those of ManagedResources.
type lists struct {
	ctrlcache.Cache

	mu    sync.Mutex
	found map[string]int // by namespace
}

func (l *lists) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	l.mu.Lock()
	l.found[o.Namespace]++
	l.mu.Unlock()
	return l.Cache.List(ctx, list, opts...)
}

func (l *lists) in(namespace string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found[namespace]
}

// hub is a controller in a namespace of its own.
type hub struct {
	*source
	events    *events.FakeRecorder
	namespace string
	stopTerm  func()
	changes   []func(*Options)

	looks atomic.Int64

	mu        sync.Mutex
	facts     targetfacts.Facts
	inUse     bool
	elsewhere bool
}

func newHub(t testing.TB, source *source, changes ...func(*Options)) *hub {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shoot-"}}
	if err := source.client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	h := &hub{source: source, events: events.NewFakeRecorder(1000), namespace: namespace.Name, changes: changes}
	h.startTerm(t)
	t.Cleanup(func() { h.stopTerm() })
	return h
}

func (h *hub) startTerm(t testing.TB) {
	options := Options{
		Client:     h.client,
		Live:       h.client,
		Cache:      h.cache,
		Clusters:   h.clusters,
		Guard:      identity.NewGuard(h.cache),
		Holders:    h.holders,
		Events:     h.events,
		Members:    h.members,
		Thresholds: map[string]time.Duration{"SystemComponentsHealthy": threshold},
		SyncPeriod: 200 * time.Millisecond,
		Facts:      h.publish(),
	}
	for _, change := range h.changes {
		change(&options)
	}
	controller, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- controller.Start(ctx) }()
	h.stopTerm = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (h *hub) key(name string) clustercache.ClusterKey {
	return clustercache.ClusterKey{Namespace: h.namespace, Name: name}
}

// uid returns the UID of a cluster that no other part of the test knows.
func (h *hub) uid(cluster string) types.UID {
	return types.UID(h.namespace + "-" + cluster)
}

func (h *hub) register(g *WithT, key clustercache.ClusterKey) {
	g.Expect(h.client.Create(context.Background(), registration(key, nil))).To(Succeed())
}

func (h *hub) unregister(g *WithT, key clustercache.ClusterKey) {
	g.Expect(h.client.Delete(context.Background(), registration(key, nil))).To(Succeed())
}

func (h *hub) connect(key clustercache.ClusterKey, uid types.UID) {
	h.clusters.SetStatus(clustercache.Status{
		Cluster: key, State: clustercache.StateConnected, Reason: clustercache.ReasonConnected, SecretName: key.Name + "-kubeconfig",
		UID: uid, KubernetesVersion: "v1.36.3", RoundTrip: 10 * time.Millisecond,
	})
}

func (h *hub) get(g *WithT, key clustercache.ClusterKey) *hubv1alpha1.TargetCluster {
	tc := &hubv1alpha1.TargetCluster{}
	g.Expect(h.client.Get(context.Background(), key, tc)).To(Succeed())
	return tc
}

func (h *hub) change(g *WithT, key clustercache.ClusterKey, change func(*hubv1alpha1.TargetCluster)) {
	tc := h.get(g, key)
	base := tc.DeepCopy()
	change(tc)
	g.Expect(h.client.Patch(context.Background(), tc, client.MergeFrom(base))).To(Succeed())
}

// waitForCache returns when the informers know the present version.
func (h *hub) waitForCache(g *WithT, key clustercache.ClusterKey) {
	g.Eventually(func(g Gomega) {
		tc, now := &hubv1alpha1.TargetCluster{}, &hubv1alpha1.TargetCluster{}
		g.Expect(h.client.Get(context.Background(), key, now)).To(Succeed())
		g.Expect(h.cache.Get(context.Background(), key, tc)).To(Succeed())
		g.Expect(tc.ResourceVersion).To(Equal(now.ResourceVersion)) // it may have been written meanwhile
	}, soon, often).Should(Succeed())
}

func (h *hub) eventually(g *WithT, key clustercache.ClusterKey, matcher gomegatypes.GomegaMatcher) {
	g.Eventually(func() (*hubv1alpha1.TargetCluster, error) {
		tc := &hubv1alpha1.TargetCluster{}
		return tc, h.client.Get(context.Background(), key, tc)
	}, soon, often).Should(matcher)
}

func (h *hub) eventuallyGone(g *WithT, key clustercache.ClusterKey) {
	g.Eventually(func() error { return h.client.Get(context.Background(), key, &hubv1alpha1.TargetCluster{}) }, soon, often).
		Should(MatchError(ContainSubstring("not found")))
}

func (h *hub) expectEvent(g *WithT, text string) {
	g.Eventually(h.events.Events, soon, often).Should(Receive(HavePrefix(text)), text)
}

// publish has the hub know what the controller of ManagedResources would.
func (h *hub) publish() *targetfacts.Term {
	term := &targetfacts.Term{}
	term.Publish(h)
	return term
}

// Facts implements targetfacts.Publisher.
func (h *hub) Facts(clustercache.ClusterKey) targetfacts.Facts {
	h.looks.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.facts
}

// WorksIn implements targetfacts.Publisher.
func (h *hub) WorksIn(clustercache.ClusterKey) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inUse
}

// ManagedElsewhere implements targetfacts.Publisher.
func (h *hub) ManagedElsewhere(namespace string) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return "another manager", h.elsewhere && namespace == h.namespace
}

// onLook knows nothing, and is called for each look at a target.
type onLook func()

func (f onLook) term() *targetfacts.Term {
	term := &targetfacts.Term{}
	term.Publish(f)
	return term
}

// Facts implements targetfacts.Publisher.
func (f onLook) Facts(clustercache.ClusterKey) targetfacts.Facts {
	f()
	return targetfacts.Facts{}
}

// WorksIn implements targetfacts.Publisher.
func (onLook) WorksIn(clustercache.ClusterKey) bool { return false }

// ManagedElsewhere implements targetfacts.Publisher.
func (onLook) ManagedElsewhere(string) (string, bool) { return "", false }

func (h *hub) setFacts(facts targetfacts.Facts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts = facts
}

func (h *hub) setElsewhere(elsewhere bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.elsewhere = elsewhere
}

func (h *hub) setInUse(inUse bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inUse = inUse
}

func registration(key clustercache.ClusterKey, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name + "-kubeconfig", Labels: map[string]string{hubv1alpha1.ClusterNameLabel: key.Name},
		},
		Type: "cluster.x-k8s.io/secret",
		Data: map[string][]byte{"value": kubeconfig},
	}
}

func readyNode(t *testing.T, name string) *unstructured.Unstructured {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: "kwok://" + name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(node)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

func haveConditionType(conditionType string) gomegatypes.GomegaMatcher {
	return WithTransform(func(tc *hubv1alpha1.TargetCluster) *metav1.Condition {
		return meta.FindStatusCondition(tc.Status.Conditions, conditionType)
	}, Not(BeNil()))
}

func haveCondition(conditionType, status, reason string) gomegatypes.GomegaMatcher {
	return WithTransform(func(tc *hubv1alpha1.TargetCluster) string {
		condition := meta.FindStatusCondition(tc.Status.Conditions, conditionType)
		if condition == nil {
			return "none"
		}
		return string(condition.Status) + "/" + condition.Reason
	}, Equal(status+"/"+reason))
}

func haveMessage(conditionType, part string) gomegatypes.GomegaMatcher {
	return WithTransform(func(tc *hubv1alpha1.TargetCluster) string {
		return meta.FindStatusCondition(tc.Status.Conditions, conditionType).Message
	}, ContainSubstring(part))
}
