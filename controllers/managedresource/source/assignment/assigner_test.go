package assignment

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/fake"
)

const (
	own     = resourcesv1alpha1.FinalizerBase
	foreign = resourcesv1alpha1.FinalizerBase + "-test"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// claims of the classes "" (by namespace), seed (the source) and garden (registration garden/virtual), for namespaces:
//
//	one   with the registration one/a
//	two   with the registrations two/a and two/b, and two/s for class garden
//	seed  selected for seed and garden
//	empty with nothing
func claims(t *testing.T, objects ...client.Object) *Assigner {
	t.Helper()
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	g.Expect(hubv1alpha1.AddToScheme(scheme)).To(Succeed())
	for _, name := range []string{"one", "two", "seed", "empty"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kind": name}}})
	}
	clusters := fake.New(nil)
	for _, st := range []clustercache.Status{
		{Cluster: types.NamespacedName{Namespace: "one", Name: "a"}, UID: "uid-a"},
		{Cluster: types.NamespacedName{Namespace: "two", Name: "a"}, UID: "uid-a"},
		{Cluster: types.NamespacedName{Namespace: "two", Name: "b"}, UID: "uid-b"},
		{Cluster: types.NamespacedName{Namespace: "two", Name: "gone"}, State: clustercache.StateDraining, UID: "uid-gone"},
		{Cluster: types.NamespacedName{Namespace: "two", Name: "s"}, Labels: map[string]string{hubv1alpha1.ClassLabel: "other"}},
		{Cluster: types.NamespacedName{Namespace: "garden", Name: "virtual"}, UID: "uid-virtual"},
		{Cluster: SourceTarget, UID: "uid-source"},
	} {
		if st.State == "" {
			st.State = clustercache.StateConnected
		}
		clusters.SetStatus(st)
	}
	c := &Assigner{
		Classes: map[string]*Class{}, Clusters: clusters, Clock: clocktesting.NewFakePassiveClock(now),
		Reader: fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
	}
	selected := &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "seed"}}
	for _, config := range []configv1alpha1.Class{
		{Name: "", Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace}},
		{Name: "seed", Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetSource}, NamespaceSelector: selected},
		{Name: "garden", Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetRegistration, Namespace: "garden", Name: "virtual"}, NamespaceSelector: selected},
	} {
		class, err := NewClass(config, "")
		g.Expect(err).NotTo(HaveOccurred())
		c.Classes[class.Name] = class
	}
	return c
}

type mrOption func(mr *resourcesv1alpha1.ManagedResource)

func class(name string) mrOption {
	return func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = &name }
}

func finalizers(names ...string) mrOption {
	return func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers = names }
}

func picks(name string) mrOption {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: name}
	}
}

// marked is for a ManagedResource that has objects of ours.
func marked(mr *resourcesv1alpha1.ManagedResource) {
	mr.Annotations = map[string]string{hubv1alpha1.TargetUIDAnnotation: "uid-a"}
}

func managedResource(namespace string, options ...mrOption) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mr"}}
	for _, o := range options {
		o(mr)
	}
	return mr
}

func TestMR34_Responsibility(t *testing.T) {
	tests := map[string]struct {
		mr      *resourcesv1alpha1.ManagedResource
		ours    bool
		class   string
		leaving bool
		await   string
	}{
		"our class, no finalizer":     {mr: managedResource("one"), ours: true},
		"our class by its other name": {mr: managedResource("one", class("resources")), ours: true},
		"our class, our finalizer":    {mr: managedResource("one", finalizers(own), marked), ours: true},
		"our class, another finalizer": {mr: managedResource("one", finalizers("example.org/some")),
			ours: true},
		"our class, foreign finalizer":                  {mr: managedResource("one", finalizers(foreign)), ours: true, await: foreign},
		"our class, ours before the foreign one":        {mr: managedResource("one", finalizers(own, foreign), marked), ours: true, await: foreign},
		"our class, the foreign one first":              {mr: managedResource("one", finalizers(foreign, own), marked), ours: true, await: foreign},
		"foreign class, no finalizer":                   {mr: managedResource("one", class("test"))},
		"foreign class, foreign finalizer":              {mr: managedResource("one", class("test"), finalizers(foreign))},
		"foreign class, our finalizer and mark":         {mr: managedResource("one", class("test"), finalizers(own), marked), ours: true, leaving: true},
		"foreign class, both finalizers and our mark":   {mr: managedResource("one", class("test"), finalizers(foreign, own), marked), ours: true, leaving: true},
		"foreign class, our finalizer, without a mark":  {mr: managedResource("one", class("test"), finalizers(own))},
		"class \"*\" is no class of ours":               {mr: managedResource("one", class("*"))},
		"from one class of ours to another":             {mr: managedResource("seed", class("seed"), finalizers(own), marked), ours: true, leaving: true},
		"another class of ours":                         {mr: managedResource("seed", class("seed")), ours: true, class: "seed"},
		"another class of ours, its finalizer":          {mr: managedResource("seed", class("seed"), finalizers(own+"-seed"), marked), ours: true, class: "seed"},
		"another class of ours, a finalizer of GRM":     {mr: managedResource("seed", class("seed"), finalizers(own)), ours: true, class: "seed", await: own},
		"another class of ours, namespace not selected": {mr: managedResource("one", class("seed"))},
		"the same again, but it has objects of ours":    {mr: managedResource("one", class("seed"), finalizers(own+"-seed"), marked), ours: true, class: "seed"},
		"a namespace without a registration":            {mr: managedResource("empty")},
		"the same, with a finalizer of GRM":             {mr: managedResource("empty", finalizers(own))},
		"the same, but it has objects of ours":          {mr: managedResource("empty", finalizers(own), marked), ours: true},
		"a namespace that does not exist (any more)":    {mr: managedResource("nowhere", class("seed"))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := claims(t)
			d, err := c.Decide(context.Background(), test.mr)
			g.Expect(err).NotTo(HaveOccurred())
			if !test.ours {
				g.Expect(d).To(Equal(Decision{}))
				return
			}
			g.Expect(d.Class).To(BeIdenticalTo(c.Classes[test.class]))
			g.Expect(d.Leaving).To(Equal(test.leaving))
			g.Expect(d.AwaitFinalizer).To(Equal(test.await))
		})
	}
}

// BUG-9: what is done must not depend on the order in which finalizers stand, or maps are walked. The class whose
// target has the objects comes first; the others have nothing to clean, and let go in their turn.
func TestBUG9_SeveralClassesOfOurs(t *testing.T) {
	const seed, garden = own + "-seed", own + "-garden"
	bound := func(uid string) mrOption {
		return func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Annotations = map[string]string{hubv1alpha1.TargetUIDAnnotation: uid}
		}
	}
	tests := map[string]struct {
		class, uid string
		finalizers []string
		leaves     string // a class, or - for none
		await      string
	}{
		"objects of the first":              {uid: "uid-source", finalizers: []string{seed, garden}, leaves: "seed"},
		"objects of the second":             {uid: "uid-virtual", finalizers: []string{seed, garden}, leaves: "garden"},
		"objects of no class":               {uid: "uid-gone", finalizers: []string{seed, garden}, leaves: "seed"},
		"objects of no class, other order":  {uid: "uid-gone", finalizers: []string{garden, seed}, leaves: "garden"},
		"to a third class":                  {class: "test", uid: "uid-virtual", finalizers: []string{seed, garden, own}, leaves: "garden"},
		"the objects are where they belong": {class: "seed", uid: "uid-source", finalizers: []string{garden, seed}, leaves: "-", await: garden},
		"the objects are to be moved":       {class: "seed", uid: "uid-virtual", finalizers: []string{seed, garden}, leaves: "garden"},
		"one is left":                       {uid: "uid-virtual", finalizers: []string{seed}, leaves: "seed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := claims(t)
			for range 20 { // maps are walked in another order each time
				d, err := c.Decide(context.Background(), managedResource("seed", class(test.class), finalizers(test.finalizers...), bound(test.uid)))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(d.AwaitFinalizer).To(Equal(test.await))
				g.Expect(d.Leaving).To(Equal(test.leaves != "-"))
				if d.Leaving {
					g.Expect(d.Class.Name).To(Equal(test.leaves))
				}
			}
		})
	}
}

func TestTarget(t *testing.T) {
	key := func(namespace, name string) clustercache.ClusterKey {
		return clustercache.ClusterKey{Namespace: namespace, Name: name}
	}
	tests := map[string]struct {
		mr     *resourcesv1alpha1.ManagedResource
		target clustercache.ClusterKey
		reason string
		says   []string
	}{
		"the only one":                                {mr: managedResource("one"), target: key("one", "a")},
		"the only one, picked":                        {mr: managedResource("one", picks("a")), target: key("one", "a")},
		"another one, picked":                         {mr: managedResource("one", picks("b")), reason: resourcesv1alpha1.ReasonTargetNotFound, says: []string{`"b"`, "b-kubeconfig"}},
		"two, neither draining nor foreign":           {mr: managedResource("two"), reason: resourcesv1alpha1.ReasonTargetAmbiguous, says: []string{": a, b.", hubv1alpha1.ClusterNameLabel}},
		"two, one picked":                             {mr: managedResource("two", picks("b")), target: key("two", "b")},
		"one of another class, picked":                {mr: managedResource("two", picks("s")), reason: resourcesv1alpha1.ReasonTargetNotFound},
		"one that is going, picked":                   {mr: managedResource("two", picks("gone")), reason: resourcesv1alpha1.ReasonTargetNotFound},
		"one of another namespace, picked":            {mr: managedResource("one", picks("virtual")), reason: resourcesv1alpha1.ReasonTargetNotFound},
		"none any more":                               {mr: managedResource("empty", marked), reason: resourcesv1alpha1.ReasonTargetNotFound, says: []string{"empty"}},
		"the source":                                  {mr: managedResource("seed", class("seed")), target: SourceTarget},
		"the source, whatever is picked":              {mr: managedResource("seed", class("seed"), picks("b")), target: SourceTarget},
		"the source, not selected any more":           {mr: managedResource("one", class("seed"), marked), reason: resourcesv1alpha1.ReasonTargetNotFound, says: []string{"not selected"}},
		"a fixed registration":                        {mr: managedResource("seed", class("garden"), picks("b")), target: key("garden", "virtual")},
		"a fixed registration, not selected any more": {mr: managedResource("one", class("garden"), marked), reason: resourcesv1alpha1.ReasonTargetNotFound, says: []string{"garden/virtual"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d, err := claims(t).Decide(context.Background(), test.mr)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(d.HasTarget).To(Equal(test.reason == ""))
			g.Expect(d.Target).To(Equal(test.target))
			g.Expect(d.Reason).To(Equal(test.reason))
			for _, text := range test.says {
				g.Expect(d.Message).To(ContainSubstring(text))
			}
		})
	}
}

func TestFindUID(t *testing.T) {
	known := &hubv1alpha1.TargetCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "two", Name: "s"}, Status: hubv1alpha1.TargetClusterStatus{ClusterUID: "uid-s"},
	}
	tests := map[string]struct {
		class, namespace string
		uid              types.UID
		found            string
	}{
		"in the namespace":                      {namespace: "two", uid: "uid-b", found: "b"},
		"one that is going":                     {namespace: "two", uid: "uid-gone", found: "gone"},
		"one that was not connected yet":        {namespace: "two", uid: "uid-s", found: "s"},
		"in another namespace":                  {namespace: "one", uid: "uid-b"},
		"the source is none of a namespace":     {namespace: "one", uid: "uid-source"},
		"the source":                            {class: "seed", namespace: "seed", uid: "uid-source", found: "source"},
		"the source, from elsewhere":            {class: "seed", namespace: "one", uid: "uid-source"},
		"the source, formerly another cluster":  {class: "seed", namespace: "seed", uid: "uid-other"},
		"a fixed registration":                  {class: "garden", namespace: "seed", uid: "uid-virtual", found: "virtual"},
		"a fixed registration, from elsewhere":  {class: "garden", namespace: "garden", uid: "uid-virtual"},
		"a fixed registration, another cluster": {class: "garden", namespace: "seed", uid: "uid-a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := claims(t, known)
			key, found, err := c.FindUID(context.Background(), c.Classes[test.class], test.namespace, test.uid)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(Equal(test.found != ""))
			if found {
				g.Expect(key.Name).To(Equal(test.found))
			}
		})
	}
}

// A registration may lead to another cluster by now than the one that is known of it. Its objects are not lost because
// of that.
func TestFindUIDOfARegistrationThatWasNotFollowedYet(t *testing.T) {
	one := types.NamespacedName{Namespace: "empty", Name: "r"}
	confirmed := map[string]string{hubv1alpha1.ConfirmIdentityAnnotation: "uid-new"}
	before := &hubv1alpha1.TargetCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: one.Namespace, Name: one.Name}, Status: hubv1alpha1.TargetClusterStatus{ClusterUID: "uid-old"},
	}
	for name, test := range map[string]struct {
		status clustercache.Status
		found  bool
	}{
		"not dialled since the start": {clustercache.Status{Annotations: confirmed}, true},
		"the old connection goes on":  {clustercache.Status{Annotations: confirmed, UID: "uid-old", PendingSecretResourceVersion: "2"}, true},
		"it leads elsewhere":          {clustercache.Status{Annotations: confirmed, UID: "uid-old"}, false},
		"it was not confirmed":        {clustercache.Status{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := claims(t, before)
			clusters, ok := c.Clusters.(*fake.Cache)
			g.Expect(ok).To(BeTrue())
			test.status.Cluster, test.status.State = one, clustercache.StateDisconnected
			clusters.SetStatus(test.status)
			_, found, err := c.FindUID(context.Background(), c.Classes[""], one.Namespace, "uid-new")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(Equal(test.found))
		})
	}
}

// A namespace that is not selected any longer has its objects in the fixed target still.
func TestFixedTargetMayBeTheClusterOfADeselectedNamespace(t *testing.T) {
	virtual := types.NamespacedName{Namespace: "garden", Name: "virtual"}
	before := func(uid types.UID) client.Object {
		return &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "virtual"}, Status: hubv1alpha1.TargetClusterStatus{ClusterUID: uid}}
	}
	for name, test := range map[string]struct {
		class   string
		status  *clustercache.Status
		objects []client.Object
		may     bool
	}{
		"it is":                                   {class: "garden", status: &clustercache.Status{Cluster: virtual, UID: "uid"}, may: true},
		"it is another one":                       {class: "garden", status: &clustercache.Status{Cluster: virtual, UID: "other"}},
		"it was before the restart":               {class: "garden", status: &clustercache.Status{Cluster: virtual}, objects: []client.Object{before("uid")}, may: true},
		"it was another one before the restart":   {class: "garden", status: &clustercache.Status{Cluster: virtual}, objects: []client.Object{before("other")}},
		"it was never connected":                  {class: "garden", status: &clustercache.Status{Cluster: virtual}, may: true},
		"it is not registered":                    {class: "garden"},
		"the source, which is not connected yet":  {class: "seed", status: &clustercache.Status{Cluster: SourceTarget}, may: true},
		"the source, which is another cluster":    {class: "seed", status: &clustercache.Status{Cluster: SourceTarget, UID: "other"}},
		"the class has its targets in namespaces": {class: "", status: &clustercache.Status{Cluster: SourceTarget}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := claims(t, test.objects...)
			clusters := fake.New(nil)
			if test.status != nil {
				clusters.SetStatus(*test.status)
			}
			c.Clusters = clusters
			may, err := c.FixedMayBe(context.Background(), c.Classes[test.class], "uid")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(may).To(Equal(test.may))
		})
	}
}

func TestMR37_Origin(t *testing.T) {
	mr := types.NamespacedName{Namespace: "ns", Name: "mr"}
	for name, test := range map[string]struct {
		config    configv1alpha1.Class
		clusterID string
		origin    string
	}{
		"without a cluster ID": {origin: "ns/mr"},
		"with that of the hub": {clusterID: "hub", origin: "hub:ns/mr"},
		"with one of its own":  {config: configv1alpha1.Class{ClusterID: ptr.To("class")}, clusterID: "hub", origin: "class:ns/mr"},
		"with none on purpose": {config: configv1alpha1.Class{ClusterID: ptr.To("")}, clusterID: "hub", origin: "ns/mr"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			class, err := NewClass(test.config, test.clusterID)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(class.Origin(mr)).To(Equal(test.origin))
		})
	}
}

func TestClass(t *testing.T) {
	g := NewWithT(t)
	for name, finalizer := range map[string]string{"": own, "resources": own, "seed": own + "-seed"} {
		class, err := NewClass(configv1alpha1.Class{Name: name}, "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(class.Finalizer).To(Equal(finalizer))
		g.Expect(class.Selector).To(BeNil())
	}
	_, err := NewClass(configv1alpha1.Class{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Odd"}}}}, "")
	g.Expect(err).To(MatchError(ContainSubstring("namespaceSelector")))
}
