package clustercache

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/hack/controlplane"
)

var (
	sharedOnce sync.Once
	shared     *controlplane.ControlPlane
	errShared  error
)

// realCluster returns a control plane that all tests of the package share.
func realCluster(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	sharedOnce.Do(func() {
		shared, errShared = controlplane.Start(context.Background(), controlplane.Options{Name: "clustercache"})
	})
	if errShared != nil {
		t.Fatal(errShared)
	}
	return shared
}

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	code := m.Run()
	if shared != nil {
		shared.Stop()
	}
	os.Exit(code)
}

// realNamespace creates a namespace of the test's own and returns a client for it. Call it after start, so that its
// sockets are closed before goroutines are counted.
func realNamespace(t testing.TB, cp *controlplane.ControlPlane) (client.Client, string) {
	t.Helper()
	g := NewWithT(t)
	httpClient, err := rest.HTTPClientFor(cp.RESTConfig())
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(httpClient.Transport) })
	c, err := client.New(cp.RESTConfig(), client.Options{HTTPClient: httpClient})
	g.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	g.Expect(c.Create(context.Background(), namespace)).To(Succeed())
	return c, namespace.Name
}

func configMap(namespace, name string, data ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{}}
	for i, d := range data {
		cm.Data[fmt.Sprint(i)] = d
	}
	return cm
}

var configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

func TestRealClusterIsConnectedAndWatched(t *testing.T) {
	cp := realCluster(t)
	h := start(t, Options{})
	ctx := context.Background()
	c, namespace := realNamespace(t, cp)
	h.Expect(c.Create(ctx, configMap(namespace, "one", "a"))).To(Succeed())

	key := h.register("real", cp.Kubeconfig())
	status := h.expectState(key, StateConnected)
	h.Expect(status.KubernetesVersion).To(HavePrefix("v1."))
	h.Expect(status.CredentialExpiry).NotTo(BeZero())
	kubeSystem := &corev1.Namespace{}
	h.Expect(c.Get(ctx, client.ObjectKey{Name: "kube-system"}, kubeSystem)).To(Succeed())
	h.Expect(status.UID).To(Equal(kubeSystem.UID))

	for _, metadataOnly := range []bool{true, false} {
		r := newRecorder()
		name := fmt.Sprintf("cm-%t", metadataOnly)
		h.watch(key, Watcher{Name: name, Kind: configMapKind, Namespace: namespace, MetadataOnly: metadataOnly, Handler: r})
		h.Eventually(r.syncs).Should(Equal(1))
		h.Expect(r.names()).To(ContainElement("one"))
		extra := "extra-" + name
		h.Expect(c.Create(ctx, configMap(namespace, extra))).To(Succeed())
		h.Eventually(r.names).Should(ContainElement(extra))
		_, found, synced := h.lookup(key, name, types.NamespacedName{Namespace: namespace, Name: extra})
		h.Expect(found).To(BeTrue())
		h.Expect(synced).To(BeTrue())
		h.Expect(c.Delete(ctx, configMap(namespace, extra))).To(Succeed())
		h.Eventually(r.names).ShouldNot(ContainElement(extra))
		h.Expect(r.faults).To(BeEmpty())
		h.Expect(r.errs).To(BeEmpty())
	}

	target, err := h.cache.GetClient(ctx, key)
	h.Expect(err).NotTo(HaveOccurred())
	read := &corev1.ConfigMap{}
	h.Expect(target.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "one"}, read)).To(Succeed())
	h.Expect(read.Data).To(HaveKeyWithValue("0", "a"))
	h.Expect(target.Create(ctx, configMap(namespace, "two"))).To(Succeed())
}

// A real API server tags its discovery with a hash of it, so a target like one that is known need not send it once
// more.
func TestRealDiscoveryIsSentOnce(t *testing.T) {
	cp := realCluster(t)
	var answers sync.Map // cluster and path -> status
	h := start(t, Options{WrapTransport: func(cluster ClusterKey, next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err == nil && (r.URL.Path == "/api" || r.URL.Path == "/apis") {
				answers.Store(cluster.Name+r.URL.Path, answer.StatusCode)
			}
			return answer, err
		})
	}})
	for _, name := range []string{"first", "second"} {
		key := h.register(name, cp.Kubeconfig())
		h.expectState(key, StateConnected)
		mapper, err := h.cache.GetRESTMapper(t.Context(), key)
		h.Expect(err).NotTo(HaveOccurred())
		_, err = mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
		h.Expect(err).NotTo(HaveOccurred())
	}
	for key, status := range map[string]int{"first/api": 200, "first/apis": 200, "second/api": 304, "second/apis": 304} {
		got, asked := answers.Load(key)
		h.Expect(asked).To(BeTrue(), key)
		h.Expect(got).To(Equal(status), key)
	}
}

// roundTrip is a transport that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// grant gives a user of the shared control plane rights of its own.
func grant(t testing.TB, c client.Client, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	g := NewWithT(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	g.Expect(client.IgnoreAlreadyExists(c.Create(context.Background(), role))).To(Succeed())
	g.Expect(c.Update(context.Background(), role)).To(Succeed())
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}, {Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: user}}}
	g.Expect(client.IgnoreAlreadyExists(c.Create(context.Background(), binding))).To(Succeed())
}

var (
	mayIdentify = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}, ResourceNames: []string{"kube-system"}}
	mayWatch    = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create", "delete"}}
)

func TestRealClusterReportsTheMissingRight(t *testing.T) {
	cp := realCluster(t)
	h := start(t, patiently())
	c, namespace := realNamespace(t, cp)
	user := "poor-" + namespace
	content, err := cp.ClientCertKubeconfig(user, nil, 0)
	h.Expect(err).NotTo(HaveOccurred())
	key := h.register("poor", content)
	status := h.expectState(key, StateDisconnected)
	h.Expect(status.Reason).To(Equal(ReasonForbidden))
	h.Expect(status.Message).To(And(ContainSubstring(fmt.Sprintf("user %q", user)), ContainSubstring("kube-system")))
	grant(t, c, user, mayIdentify)
	h.expectState(key, StateConnected)
}

func TestRealClusterRefusesExpiredCredentials(t *testing.T) {
	cp := realCluster(t)
	h := start(t, patiently())
	certificate, err := cp.ClientCertKubeconfig("hub", nil, -time.Minute)
	h.Expect(err).NotTo(HaveOccurred())
	token, err := cp.ServiceAccountKubeconfig(context.Background(), "default", "expired-hub", -time.Minute)
	h.Expect(err).NotTo(HaveOccurred())
	for name, content := range map[string][]byte{"certificate": certificate, "token": token} {
		status := h.expectState(h.register(name, content), StateDisconnected)
		h.Expect(status.Reason).To(Equal(ReasonUnauthorized), "%+v", status)
	}
}

func TestRealTokenRotationKeepsWatches(t *testing.T) {
	cp := realCluster(t)
	h := start(t, patiently())
	ctx := context.Background()
	c, namespace := realNamespace(t, cp)
	grant(t, c, "rotated-hub", mayIdentify, mayWatch)
	kubeconfig := func() []byte {
		content, err := cp.ServiceAccountKubeconfig(ctx, "default", "rotated-hub", time.Hour)
		h.Expect(err).NotTo(HaveOccurred())
		return content
	}
	key := h.register("rotated", kubeconfig())
	h.expectState(key, StateConnected)
	r := newRecorder()
	h.watch(key, Watcher{Name: "cm", Kind: configMapKind, Namespace: namespace, MetadataOnly: true, Handler: r})
	h.Eventually(r.syncs).Should(Equal(1))
	target, err := h.cache.GetUncachedClient(ctx, key)
	h.Expect(err).NotTo(HaveOccurred())
	for i := range 5 {
		time.Sleep(time.Second) // tokens issued within a second are equal
		before := h.status(key).CredentialExpiry
		h.register("rotated", kubeconfig())
		h.expectEvent(key, EventRotated)
		h.Expect(h.status(key).CredentialExpiry.After(before)).To(BeTrue())
		h.Expect(target.Create(ctx, configMap(namespace, fmt.Sprint("cm-", i)))).To(Succeed())
	}
	h.Eventually(r.names).Should(ContainElements("cm-0", "cm-4"))
	h.Expect(r.syncs()).To(Equal(1))
	h.Expect(h.status(key).Connection).To(BeEquivalentTo(1))
}

func TestRealCertificateRotationMissesNothing(t *testing.T) {
	cp := realCluster(t)
	h := start(t, patiently())
	ctx := context.Background()
	c, namespace := realNamespace(t, cp)
	grant(t, c, "cert-hub", mayIdentify, mayWatch)
	kubeconfig := func() []byte {
		content, err := cp.ClientCertKubeconfig("cert-hub", nil, time.Hour)
		h.Expect(err).NotTo(HaveOccurred())
		return content
	}
	key := h.register("cert", kubeconfig())
	h.expectState(key, StateConnected)
	r := newRecorder()
	h.watch(key, Watcher{Name: "cm", Kind: configMapKind, Namespace: namespace, MetadataOnly: true, Handler: r})
	h.Eventually(r.syncs).Should(Equal(1))
	stop := make(chan struct{})
	var group errgroup.Group
	group.Go(func() error {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return nil
			default:
			}
			if err := c.Create(ctx, configMap(namespace, fmt.Sprint("cm-", i))); err != nil {
				return err
			}
			if i == 0 {
				continue
			}
			// Each changes once, and then goes or stays as it is: what is missed shows in the end.
			before := configMap(namespace, fmt.Sprint("cm-", i-1))
			if err := c.Patch(ctx, before, client.RawPatch(types.MergePatchType, []byte(`{"data":{"changed":"yes"}}`))); err != nil {
				return err
			}
			if i%2 == 1 {
				if err := c.Delete(ctx, before); err != nil {
					return err
				}
			}
		}
	})
	for range 3 {
		h.register("cert", kubeconfig())
		h.expectEvent(key, EventRotated)
	}
	close(stop)
	h.Expect(group.Wait()).To(Succeed())
	h.Expect(h.status(key).Connection).To(BeEquivalentTo(4))
	list := &corev1.ConfigMapList{}
	h.Expect(c.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	versions := map[string]string{}
	for _, cm := range list.Items {
		versions[cm.Name] = cm.ResourceVersion
	}
	h.Eventually(r.versions).Should(Equal(versions))
	h.Expect(r.faultsNow()).To(BeEmpty())
}

func TestRealCRDThatAppearsLater(t *testing.T) {
	cp := realCluster(t)
	h := start(t, Options{})
	ctx := context.Background()
	c, namespace := realNamespace(t, cp)
	key := h.register("crd", cp.Kubeconfig())
	h.expectState(key, StateConnected)
	kind := schema.GroupVersionKind{Group: namespace + ".example.com", Version: "v1", Kind: "Gadget"}
	r := newRecorder()
	h.watch(key, Watcher{Name: "gadgets", Kind: kind, MetadataOnly: true, Handler: r})
	h.Eventually(r.errors).Should(BeNumerically(">", 0))
	mapper, err := h.cache.GetRESTMapper(ctx, key)
	h.Expect(err).NotTo(HaveOccurred())
	_, err = mapper.RESTMapping(kind.GroupKind())
	h.Expect(meta.IsNoMatchError(err)).To(BeTrue())

	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "gadgets." + kind.Group},
		"spec": map[string]any{"group": kind.Group, "scope": "Namespaced", "names": map[string]any{"plural": "gadgets", "kind": kind.Kind},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}}},
	}}
	h.Expect(c.Create(ctx, crd.DeepCopy())).To(Succeed())
	began := time.Now()
	h.Eventually(func() error {
		meta.MaybeResetRESTMapper(mapper)
		_, err := mapper.RESTMapping(kind.GroupKind())
		return err
	}).Should(Succeed())
	t.Logf("the kind was known after %s", time.Since(began).Round(time.Millisecond))
	gadget := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": namespace, "name": "one"}}}
	gadget.SetGroupVersionKind(kind)
	target, err := h.cache.GetClient(ctx, key)
	h.Expect(err).NotTo(HaveOccurred())
	h.Eventually(func() error { return target.Create(ctx, gadget.DeepCopy()) }).Should(Succeed())
	h.Eventually(r.names).Should(ConsistOf("one"))

	// The kind goes with its objects, and comes back.
	h.Expect(c.Delete(ctx, crd.DeepCopy())).To(Succeed())
	h.Eventually(r.names).Should(BeEmpty())
	h.Eventually(func() error { return c.Create(ctx, crd.DeepCopy()) }).Should(Succeed())
	h.Eventually(func() error { return target.Create(ctx, gadget.DeepCopy()) }).WithTimeout(2 * patience).Should(Succeed())
	h.Eventually(r.names).WithTimeout(2 * patience).Should(ConsistOf("one"))
	h.Expect(r.faults).To(BeEmpty())
}

func TestRealAPIServerGoesAwayAndComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	var lists atomic.Int32
	h := start(t, Options{
		WrapTransport: func(_ ClusterKey, next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Has("sendInitialEvents") {
					lists.Add(1)
				}
				return next.RoundTrip(r)
			})
		},
		Grace: GraceOptions{Disconnect: time.Hour},
	})
	cp := controlplane.StartForTest(t, controlplane.Options{})
	ctx := context.Background()
	key := h.register("real", cp.Kubeconfig())
	h.expectState(key, StateConnected)
	admin, namespace := realNamespace(t, cp)
	r := newRecorder()
	h.watch(key, Watcher{Name: "cm", Kind: configMapKind, Namespace: namespace, MetadataOnly: true, Handler: r})
	h.Eventually(r.syncs).Should(Equal(1))

	cp.KillAPIServer()
	began := time.Now()
	h.expectState(key, StateDisconnected)
	t.Logf("killed: noticed after %s", time.Since(began).Round(time.Millisecond))
	h.Expect(cp.StartAPIServer(ctx)).To(Succeed())
	began = time.Now()
	h.expectState(key, StateConnected)
	h.Eventually(r.syncs).Should(BeNumerically(">=", 2))
	t.Logf("back: in use after %s", time.Since(began).Round(time.Millisecond))

	listed := lists.Load()
	h.Expect(listed).To(BeNumerically(">=", 1), "this is how a list is recognised")
	h.Expect(cp.Freeze()).To(Succeed())
	began = time.Now()
	h.expectState(key, StateDisconnected)
	t.Logf("frozen: noticed after %s", time.Since(began).Round(time.Millisecond))
	h.Expect(cp.Thaw()).To(Succeed())
	began = time.Now()
	h.expectState(key, StateConnected)
	h.Expect(admin.Create(ctx, configMap(namespace, "thawed"))).To(Succeed())
	h.Eventually(r.names).Should(ContainElement("thawed"))
	h.Expect(lists.Load()).To(Equal(listed), "it went on where it was")
	t.Logf("thawed: in use after %s", time.Since(began).Round(time.Millisecond))
	h.Expect(r.faultsNow()).To(BeEmpty())
}
