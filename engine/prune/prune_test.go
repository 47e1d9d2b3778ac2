package prune_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const origin = "garden/mr"

var (
	cluster *testbed.Cluster
	access  prune.Target
	policy  = prune.Policy{Origin: origin, FieldManager: "trellis", Parallel: 4}
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if testing.Short() {
		return m.Run()
	}
	SetDefaultEventuallyTimeout(2 * time.Minute)
	var err error
	if cluster, err = testbed.StartCluster(context.Background(), controlplane.Options{Name: "prune"}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer cluster.Stop()
	config := cluster.RESTConfig()
	http, err1 := rest.HTTPClientFor(config)
	mapper, err2 := apiutil.NewDynamicRESTMapper(config, http)
	md, err3 := metadata.NewForConfig(config)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	deletes, err := prune.NewDeletes(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	access = prune.Target{Metadata: md, Deletes: deletes, Client: cluster.Client, Mapper: mapper}
	return m.Run()
}

func configMap(g *WithT, ns, name string, change func(*corev1.ConfigMap)) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: map[string]string{resourcesv1alpha1.OriginAnnotation: origin}}, Data: map[string]string{"key": "1"}}
	if change != nil {
		change(cm)
	}
	g.Expect(cluster.Client.Create(context.Background(), cm, client.FieldOwner("trellis"))).To(Succeed())
	return cm
}

func entry(cm *corev1.ConfigMap, uid types.UID) resourcesv1alpha1.ObjectReference {
	ref := resourcesv1alpha1.ObjectReference{}
	ref.APIVersion, ref.Kind, ref.Namespace, ref.Name, ref.UID = "v1", "ConfigMap", cm.Namespace, cm.Name, uid
	return ref
}

func exists(g *WithT, cm *corev1.ConfigMap) bool {
	err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(cm), &corev1.ConfigMap{})
	g.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return !apierrors.IsNotFound(err)
}

func TestWhatIsDeleted(t *testing.T) {
	other := types.UID("11111111-1111-1111-1111-111111111111")
	annotate := func(key, value string) func(*corev1.ConfigMap) {
		return func(cm *corev1.ConfigMap) { cm.Annotations[key] = value }
	}
	noOrigin := func(cm *corev1.ConfigMap) { cm.Annotations = nil }
	same := func(cm *corev1.ConfigMap) types.UID { return cm.UID }
	unknown := func(*corev1.ConfigMap) types.UID { return "" }
	stranger := func(*corev1.ConfigMap) types.UID { return other }

	for name, c := range map[string]struct {
		live   func(*corev1.ConfigMap)
		uid    func(*corev1.ConfigMap) types.UID
		policy func(*prune.Policy)
		entry  map[string]string
		want   prune.Result
	}{
		"our object":                                      {nil, same, nil, nil, prune.Gone},
		"our object whose origin was taken off":           {noOrigin, same, nil, nil, prune.Gone},
		"our object, created before a crash":              {nil, unknown, nil, nil, prune.Gone},
		"our object, created again before a crash":        {nil, stranger, nil, nil, prune.Gone},
		"BUG6 an object that another origin claims":       {annotate(resourcesv1alpha1.OriginAnnotation, "garden/other"), same, nil, nil, prune.Kept},
		"a stranger with the name":                        {noOrigin, stranger, nil, nil, prune.Kept},
		"a stranger before anything was applied":          {noOrigin, unknown, nil, nil, prune.Kept},
		"a keep-object":                                   {annotate(resourcesv1alpha1.KeepObjectAnnotation, "true"), same, nil, nil, prune.Kept},
		"X5 an object that another ManagedResource lists": {nil, same, func(p *prune.Policy) { p.ListedByOther = func(inventory.Key) bool { return true } }, nil, prune.Kept},
		"an ignored object, created before a crash":       {noOrigin, unknown, nil, map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}, prune.Gone},
		"a garbage-collectable object, collector elsewhere": {func(cm *corev1.ConfigMap) {
			cm.Labels = map[string]string{resourcesv1alpha1.GarbageCollectableReferenceLabel: "true"}
		}, same, nil, nil, prune.Gone},
		"a garbage-collectable object": {func(cm *corev1.ConfigMap) {
			cm.Labels = map[string]string{resourcesv1alpha1.GarbageCollectableReferenceLabel: "true"}
		}, same,
			func(p *prune.Policy) { p.KeepGarbageCollectable = true }, nil, prune.Kept},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cm := configMap(g, testbed.Namespace(t, nil, cluster), "a", c.live)
			p := policy
			if c.policy != nil {
				c.policy(&p)
			}
			ref := entry(cm, c.uid(cm))
			ref.Annotations = c.entry
			out := prune.Objects(t.Context(), access, []resourcesv1alpha1.ObjectReference{ref}, p)
			g.Expect(out).To(HaveLen(1))
			g.Expect(out[0].Err).NotTo(HaveOccurred())
			g.Expect(out[0].Result).To(Equal(c.want), out[0].Reason)
			g.Expect(exists(g, cm)).To(Equal(c.want == prune.Kept))
		})
	}
}

func TestUnknownKindIsGone(t *testing.T) {
	g := NewWithT(t)
	ref := resourcesv1alpha1.ObjectReference{}
	ref.APIVersion, ref.Kind, ref.Namespace, ref.Name = "no.example.com/v1", "Thing", "default", "a"
	g.Expect(prune.Objects(t.Context(), access, []resourcesv1alpha1.ObjectReference{ref}, policy)[0].Result).To(Equal(prune.Gone))
}

func TestPendingUntilFinalizersAreGone(t *testing.T) {
	g := NewWithT(t)
	cm := configMap(g, testbed.Namespace(t, nil, cluster), "a",
		func(cm *corev1.ConfigMap) { cm.Finalizers = []string{"example.com/hold"} })
	refs := []resourcesv1alpha1.ObjectReference{entry(cm, cm.UID)}
	for range 2 {
		out := prune.Objects(t.Context(), access, refs, policy)[0]
		g.Expect(out.Result).To(Equal(prune.Pending))
		g.Expect(out.Reason).To(ContainSubstring("example.com/hold"))
	}
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cm), cm)).To(Succeed())
	cm.Finalizers = nil
	g.Expect(cluster.Client.Update(t.Context(), cm)).To(Succeed())
	g.Expect(prune.Objects(t.Context(), access, refs, policy)[0].Result).To(Equal(prune.Gone))
}

func TestNamespacesWaitForTheirContent(t *testing.T) {
	g := NewWithT(t)
	name := testbed.Namespace(t, nil, cluster)
	ns := &corev1.Namespace{}
	g.Expect(cluster.Client.Get(t.Context(), types.NamespacedName{Name: name}, ns)).To(Succeed())
	ns.Annotations = map[string]string{resourcesv1alpha1.OriginAnnotation: origin}
	g.Expect(cluster.Client.Update(t.Context(), ns)).To(Succeed())
	cm := configMap(g, name, "a", func(cm *corev1.ConfigMap) { cm.Finalizers = []string{"example.com/hold"} })
	nsRef := resourcesv1alpha1.ObjectReference{}
	nsRef.APIVersion, nsRef.Kind, nsRef.Name, nsRef.UID = "v1", "Namespace", name, ns.UID

	out := prune.Objects(t.Context(), access, []resourcesv1alpha1.ObjectReference{nsRef, entry(cm, cm.UID)}, policy)
	for _, o := range out {
		g.Expect(o.Result).To(Equal(prune.Pending))
	}
	g.Expect(cluster.Client.Get(t.Context(), types.NamespacedName{Name: name}, ns)).To(Succeed())
	g.Expect(ns.DeletionTimestamp).To(BeNil(), "its content is not gone yet")
}

func TestRelease(t *testing.T) {
	g := NewWithT(t)
	namespace := testbed.Namespace(t, nil, cluster)
	ours := configMap(g, namespace, "ours", func(cm *corev1.ConfigMap) { cm.Annotations["keep"] = "me" })
	theirs := configMap(g, namespace, "theirs", func(cm *corev1.ConfigMap) { cm.Annotations[resourcesv1alpha1.OriginAnnotation] = "garden/other" })
	for _, cm := range []*corev1.ConfigMap{ours, theirs} {
		g.Expect(prune.NewReleaser(access, origin, "trellis").Release(t.Context(), entry(cm, cm.UID))).To(Succeed())
		g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cm), cm)).To(Succeed())
	}
	g.Expect(ours.Annotations).To(Equal(map[string]string{"keep": "me"}))
	g.Expect(theirs.Annotations).To(HaveKeyWithValue(resourcesv1alpha1.OriginAnnotation, "garden/other"))
	gone := entry(ours, "")
	gone.Name = "never"
	g.Expect(prune.NewReleaser(access, origin, "trellis").Release(t.Context(), gone)).To(Succeed())
}
