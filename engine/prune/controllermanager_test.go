package prune_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/prune"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// Where a controller manager runs, what it made and guards goes as well: claims with their protection, pods with their
// StatefulSet, a namespace with what others left in it.
func TestX06_X07_WithAControllerManager(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	g := NewWithT(t)
	managed, err := testbed.StartCluster(t.Context(), controlplane.Options{Name: "managed", ControllerManager: true})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(managed.Stop)
	target := targetOf(g, managed)

	// The helpers work on the cluster of the package.
	shared := cluster
	cluster = managed
	t.Cleanup(func() { cluster = shared })
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed", Annotations: map[string]string{resourcesv1alpha1.OriginAnnotation: origin}}}
	g.Expect(managed.Client.Create(t.Context(), ns)).To(Succeed())
	refs := []resourcesv1alpha1.ObjectReference{
		statefulSet(g, ns.Name, byLabel, "data"),
		reference("v1", "Namespace", "", ns.Name, ns.UID),
	}
	claim := &corev1.PersistentVolumeClaim{}
	g.Eventually(func() error {
		return managed.Client.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: "data-db-0"}, claim)
	}).Should(Succeed())
	g.Expect(managed.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "foreign"}})).To(Succeed())

	p := policy
	p.DeletePersistentVolumeClaims = true
	out := prune.Objects(t.Context(), target, refs, p)
	g.Expect(out).To(HaveEach(SatisfyAll(HaveField("Err", BeNil()), HaveField("Result", prune.Pending))))
	err = managed.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)
	g.Expect(err == nil && claim.DeletionTimestamp != nil || apierrors.IsNotFound(err)).To(BeTrue(), "the claim goes first")
	g.Eventually(func() []prune.Outcome { return prune.Objects(t.Context(), target, refs, p) }).WithTimeout(time.Minute).
		Should(HaveEach(SatisfyAll(HaveField("Err", BeNil()), HaveField("Result", prune.Gone))))
	g.Expect(managed.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)).To(Satisfy(apierrors.IsNotFound))
}

func targetOf(g *WithT, c *testbed.Cluster) prune.Target {
	config := c.RESTConfig()
	http, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	mapper, err := apiutil.NewDynamicRESTMapper(config, http)
	g.Expect(err).NotTo(HaveOccurred())
	md, err := metadata.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	deletes, err := prune.NewDeletes(config)
	g.Expect(err).NotTo(HaveOccurred())
	return prune.Target{Metadata: md, Deletes: deletes, Client: c.Client, Mapper: mapper}
}
