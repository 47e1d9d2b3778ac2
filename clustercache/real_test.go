package clustercache

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/controlplane"
)

var (
	sharedOnce sync.Once
	shared     *controlplane.ControlPlane
	sharedErr  error
)

// realCluster returns a control plane that all tests of the package share.
func realCluster(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	sharedOnce.Do(func() {
		shared, sharedErr = controlplane.Start(context.Background(), controlplane.Options{Name: "clustercache"})
	})
	if sharedErr != nil {
		t.Fatal(sharedErr)
	}
	return shared
}

func TestMain(m *testing.M) {
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
		h.Expect(h.cache.Watch(ctx, key, Watcher{Name: name, Kind: configMapKind, Namespace: namespace, MetadataOnly: metadataOnly, Handler: r})).To(Succeed())
		h.Eventually(r.syncs).Should(Equal(1))
		h.Expect(r.names()).To(ContainElement("one"))
		extra := "extra-" + name
		h.Expect(c.Create(ctx, configMap(namespace, extra))).To(Succeed())
		h.Eventually(r.names).Should(ContainElement(extra))
		_, found, synced := h.cache.Lookup(key, name, types.NamespacedName{Namespace: namespace, Name: extra})
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
