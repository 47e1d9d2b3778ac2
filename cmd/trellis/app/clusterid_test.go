package app_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// identify gives the source the ConfigMap cluster-identity with this data, or none if data is nil.
func (e *env) identify(data map[string]string) {
	e.t.Helper()
	identity := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-identity"}, Data: data}
	if data != nil {
		e.Expect(source.Client.Create(e.ctx, identity)).To(Succeed())
	}
	e.t.Cleanup(func() { e.Expect(client.IgnoreNotFound(source.Client.Delete(e.ctx, identity))).To(Succeed()) })
}

// origin is that of the ConfigMap in the target.
func (e *env) origin() string {
	e.t.Helper()
	cm := &corev1.ConfigMap{}
	e.Expect(target.Client.Get(e.ctx, types.NamespacedName{Namespace: e.name, Name: "one"}, cm)).To(Succeed())
	return cm.Annotations[resourcesv1alpha1.OriginAnnotation]
}

// withClusterID configures a cluster ID for all classes.
func withClusterID(id string) func(*configv1alpha1.HubConfiguration) {
	return func(c *configv1alpha1.HubConfiguration) {
		for i := range c.Classes {
			c.Classes[i].ClusterID = &id
		}
	}
}

func TestMR38_ClusterIdentity(t *testing.T) {
	known, empty := map[string]string{"cluster-identity": "seed-a"}, map[string]string{"other": "seed-a"}
	for name, test := range map[string]struct {
		clusterID string
		identity  map[string]string
		prefix    string
	}{
		"none":                         {"", known, ""},
		"a literal one":                {"mine", known, "mine:"},
		"default, which is known":      {configv1alpha1.ClusterIDDefault, known, "seed-a:"},
		"default, without a key":       {configv1alpha1.ClusterIDDefault, empty, ""},
		"default, without a ConfigMap": {configv1alpha1.ClusterIDDefault, nil, ""},
		"that of the cluster":          {configv1alpha1.ClusterIDFromCluster, known, "seed-a:"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.identify(test.identity)
			hub := e.startHub(withClusterID(test.clusterID))
			e.eventuallyReady()
			e.Expect(e.origin()).To(Equal(test.prefix + e.name + "/mr"))
			e.stop(hub)
		})
	}
}

// Without the identity that it is to write into origins, a hub touches nothing. It continues when there is one.
func TestMR38_ClusterWithoutIdentity(t *testing.T) {
	for name, identity := range map[string]map[string]string{"no ConfigMap": nil, "no key": {"other": "seed-a"}} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.identify(identity)
			asked := e.requests()
			hub := e.startHub(withClusterID(configv1alpha1.ClusterIDFromCluster))
			e.Eventually(func() string { return hub.Log.About("cluster-identity") }).Should(ContainSubstring("A term of leadership failed"))
			e.Expect(asked()).To(BeEmpty())

			known := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-identity"}, Data: map[string]string{"cluster-identity": "seed-a"}}
			e.Expect(client.IgnoreNotFound(source.Client.Delete(e.ctx, known.DeepCopy()))).To(Succeed())
			e.Expect(source.Client.Create(e.ctx, known)).To(Succeed())
			e.eventuallyReady()
			e.Expect(e.origin()).To(Equal("seed-a:" + e.name + "/mr"))
			e.stop(hub)
		})
	}
}
