package testbed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

// HubNamespace is where the hub's own identity and Lease live.
const HubNamespace = "trellis"

// Scheme knows everything that tests handle as typed objects.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, resourcesv1alpha1.AddToScheme, hubv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // the types are compiled in
		}
	}
	return scheme
}

// Cluster is a control plane with a client of its administrator.
type Cluster struct {
	*controlplane.ControlPlane
	// Name is that of the control plane.
	Name   string
	Client client.WithWatch
}

// StartCluster starts a control plane.
func StartCluster(ctx context.Context, o controlplane.Options) (*Cluster, error) {
	cp, err := controlplane.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(cp.RESTConfig(), client.Options{Scheme: Scheme()})
	if err != nil {
		cp.Stop()
		return nil, fmt.Errorf("client for control plane %s: %w", o.Name, err)
	}
	return &Cluster{ControlPlane: cp, Name: o.Name, Client: c}, nil
}

// InstallSource makes a cluster a source: CRDs, the hub's namespace, and its two identities with what the chart
// grants and refuses them.
func InstallSource(ctx context.Context, c client.Client) error {
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: HubNamespace}}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the hub's namespace: %w", err)
	}
	for _, crd := range chart.CRDs() {
		if err := c.Create(ctx, crd); err != nil {
			return fmt.Errorf("installing CRD %s: %w", crd.Name, err)
		}
	}
	for _, object := range slices.Concat(
		chart.HubIdentity(HubNamespace), chart.SourceIdentity(HubNamespace), chart.SecretWrites(HubNamespace),
	) {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("installing %T %s: %w", object, object.GetName(), err)
		}
	}
	deadline := time.Now().Add(3 * time.Minute)
	for _, list := range []client.ObjectList{&resourcesv1alpha1.ManagedResourceList{}, &hubv1alpha1.TargetClusterList{}} {
		for {
			err := c.List(ctx, list)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("waiting for the CRDs: %w", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

// Registration is a kubeconfig Secret in the Cluster API layout.
func Registration(namespace, name string, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-kubeconfig", Labels: map[string]string{hubv1alpha1.ClusterNameLabel: name},
		},
		Type: "cluster.x-k8s.io/secret",
		Data: map[string][]byte{"value": kubeconfig},
	}
}

// Content is a Secret with manifests under a key.
func Content(namespace, name, key string, manifests ...string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{key: []byte(strings.Join(manifests, "\n---\n"))},
	}
}

// Brotli compresses a value as producers do.
func Brotli(value []byte) []byte {
	var b strings.Builder
	w := brotli.NewWriter(&b)
	if _, err := w.Write(value); err != nil {
		panic(err) // writing to memory
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return []byte(b.String())
}

// ManagedResource refers to Secrets.
func ManagedResource(namespace, name string, secrets ...string) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{}},
	}
	for _, s := range secrets {
		mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: s})
	}
	return mr
}

// ConfigMap is the manifest of a ConfigMap with one key.
func ConfigMap(namespace, name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q},"data":{"key":%q}}`, namespace, name, value)
}

// AwaitInstances waits until the instances of a definition can be listed. Before that an API server fails to delete
// them with their definition, and may try again only when its informers resync, minutes later.
func AwaitInstances(t testing.TB, c *Cluster, name string) {
	t.Helper()
	NewWithT(t).Eventually(func() error {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Client.Get(t.Context(), client.ObjectKey{Name: name}, crd); err != nil {
			return err
		}
		instances := &unstructured.UnstructuredList{}
		instances.SetAPIVersion(crd.Spec.Group + "/" + crd.Spec.Versions[0].Name)
		instances.SetKind(crd.Spec.Names.Kind + "List")
		return c.Client.List(t.Context(), instances)
	}).Should(Succeed())
}

var counter atomic.Int64

// Namespace creates a namespace with a unique name in all the clusters.
func Namespace(t testing.TB, labels map[string]string, clusters ...*Cluster) string {
	t.Helper()
	g := NewWithT(t)
	name := fmt.Sprintf("test-%04d", counter.Add(1))
	for _, c := range clusters {
		g.Expect(c.Client.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})).To(Succeed())
	}
	return name
}

// Rewrite returns a kubeconfig with changes.
func Rewrite(kubeconfig []byte, change func(config *KubeConfig)) []byte {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		panic(err) // made by package controlplane
	}
	change(config)
	out, err := clientcmd.Write(*config)
	if err != nil {
		panic(err)
	}
	return out
}
