package members_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	fakeclusters "github.com/trellis-hub/trellis/clustercache/fake"
	. "github.com/trellis-hub/trellis/controllers/targetcluster/members"
)

var classes = []configv1alpha1.Class{
	{Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace}},
	{Name: "second", Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace}},
	{Name: "planned", Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace}, DryRun: true},
	{
		Name: "seed", Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetSource},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"shoot": "true"}},
	},
	{
		Name: "garden", Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetRegistration, Namespace: "garden", Name: "virtual"},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"garden": "true"}},
	},
}

// informers are a fake client that is made with the indexes it is asked for.
type informers struct {
	client.Client
	scheme  *runtime.Scheme
	objects []client.Object
	indexes map[string]client.IndexerFunc
}

func (i *informers) IndexField(_ context.Context, obj client.Object, field string, keys client.IndexerFunc) error {
	if i.indexes == nil {
		i.indexes = map[string]client.IndexerFunc{}
	}
	i.indexes[field] = keys
	builder := fake.NewClientBuilder().WithScheme(i.scheme).WithObjects(i.objects...)
	for field, keys := range i.indexes {
		builder.WithIndex(obj, field, keys)
	}
	i.Client = builder.Build()
	return nil
}

// newIndex knows a lone target in each of the namespaces lone and garden, and four in the namespace group, of which two
// serve the classes of their names.
func newIndex(g Gomega, mrs ...client.Object) (index *Index, clusters *fakeclusters.Cache) {
	index = newIndexOver(g, func(c clustercache.ClusterCache) clustercache.ClusterCache {
		clusters, _ = c.(*fakeclusters.Cache)
		return c
	}, mrs...)
	return index, clusters
}

// newIndexOver asks what wrap makes of the targets.
func newIndexOver(g Gomega, wrap func(clustercache.ClusterCache) clustercache.ClusterCache, mrs ...client.Object) *Index {
	namespace := func(name string, labels map[string]string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	source := &informers{scheme: newScheme(g), objects: append(mrs,
		namespace("lone", map[string]string{"shoot": "true", "garden": "true"}),
		namespace("group", map[string]string{"shoot": "true"}),
		namespace("garden", nil), namespace("outside", nil),
	)}
	clusters := fakeclusters.New(nil)
	for _, status := range []clustercache.Status{
		{Cluster: target("lone/a")}, {Cluster: target("garden/virtual")},
		{Cluster: target("group/a")}, {Cluster: target("group/b")},
		{Cluster: target("group/second"), Labels: map[string]string{hubv1alpha1.ClassLabel: "second"}},
		{Cluster: target("group/planned"), Labels: map[string]string{hubv1alpha1.ClassLabel: "planned"}},
	} {
		status.State, status.UID = clustercache.StateConnected, uidOf(status.Cluster)
		clusters.SetStatus(status)
	}
	index, err := New(source, wrap(clusters), classes, clock.RealClock{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(index.Register(context.Background())).To(Succeed())
	return index
}

func newScheme(g Gomega) *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, hubv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme,
	} {
		g.Expect(add(scheme)).To(Succeed())
	}
	return scheme
}

func target(name string) clustercache.ClusterKey {
	var key clustercache.ClusterKey
	for i := range name {
		if name[i] == '/' {
			key.Namespace, key.Name = name[:i], name[i+1:]
		}
	}
	return key
}

func uidOf(key clustercache.ClusterKey) types.UID { return types.UID("uid-of-" + key.String()) }

type change = func(*resourcesv1alpha1.ManagedResource)

func mr(namespace string, changes ...change) *resourcesv1alpha1.ManagedResource {
	out := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mr"}}
	for _, set := range changes {
		set(out)
	}
	return out
}

func class(name string) change {
	return func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = &name }
}

func picks(name string) change {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: name}
	}
}

func appliedTo(uid types.UID) change {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Annotations = map[string]string{hubv1alpha1.TargetUIDAnnotation: string(uid)}
	}
}

func TestWhoseAManagedResourceIs(t *testing.T) {
	const source = types.UID("uid-of-source")
	// Those in brackets are targets for which it is applied to the source cluster.
	tests := map[string]struct {
		mr   *resourcesv1alpha1.ManagedResource
		want []string
	}{
		"new, in a namespace with one target":          {mr("lone"), []string{"lone/a"}},
		"by the other name of its class":               {mr("lone", class("resources")), []string{"lone/a"}},
		"new, in a namespace with several":             {mr("group"), nil},
		"new, and picks one":                           {mr("group", picks("b")), []string{"group/b"}},
		"new, and picks one that serves another class": {mr("group", picks("second")), nil},
		"new, of a class that one of several serves":   {mr("group", class("second")), []string{"group/second"}},
		"new, in a namespace without a target":         {mr("outside"), nil},
		"of a class of another controller":             {mr("lone", class("foreign")), nil},
		"of a dry run":                                 {mr("group", class("planned")), nil},
		"of what was no dry run before": {mr("group", class("planned"), appliedTo("uid-of-group/planned")),
			[]string{"group/planned"}},
		"applied": {mr("group", appliedTo("uid-of-group/a")), []string{"group/a"}},
		"applied, and picks another one now": {mr("group", appliedTo("uid-of-group/a"), picks("b")),
			[]string{"group/a"}},
		"applied, and of a class of another controller now": {mr("lone", appliedTo("uid-of-lone/a"),
			class("foreign")), []string{"lone/a"}},
		"applied to an unknown cluster":                            {mr("lone", appliedTo("what")), nil},
		"applied to a cluster that is registered in another place": {mr("outside", appliedTo("uid-of-lone/a")), nil},
		"for the source, in a namespace with one target":           {mr("lone", class("seed")), []string{"(lone/a)"}},
		"for the source, applied": {mr("lone", class("seed"), appliedTo(source)),
			[]string{"(lone/a)"}},
		"for the source, in a namespace with several": {mr("group", class("seed")), nil},
		"for the source, and picks one": {mr("group", class("seed"), picks("b")),
			[]string{"(group/b)"}},
		"for the source, in a namespace that is not selected": {mr("garden", class("seed")), nil},
		"for a fixed target":                                        {mr("lone", class("garden")), []string{"garden/virtual"}},
		"for a fixed target, applied":                               {mr("lone", class("garden"), appliedTo("uid-of-garden/virtual")), []string{"garden/virtual"}},
		"for a fixed target, still applied to another one":          {mr("lone", class("garden"), appliedTo("uid-of-lone/a")), nil},
		"for a fixed target, from a namespace that is not selected": {mr("group", class("garden")), nil},
		"says that it is in a fixed target, and is not selected": {mr("group", class("garden"),
			appliedTo("uid-of-garden/virtual")), nil},
		"applied to a fixed target of its namespace": {mr("garden", class("garden"),
			appliedTo("uid-of-garden/virtual")), []string{"garden/virtual"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			index, clusters := newIndex(g, test.mr)
			var got []string
			for _, status := range clusters.List("") {
				found, err := index.Of(context.Background(), status.Cluster, status.UID, nil, false)
				g.Expect(err).NotTo(HaveOccurred())
				for _, m := range found {
					name := status.Cluster.String()
					if m.OnSource {
						name = "(" + name + ")"
					}
					got = append(got, name)
				}
			}
			g.Expect(got).To(Equal(test.want))

			// The targets that it belongs to are notified of its changes.
			byUID := func(uid types.UID) []clustercache.ClusterKey {
				var keys []clustercache.ClusterKey
				for _, status := range clusters.List("") {
					if status.UID == uid {
						keys = append(keys, status.Cluster)
					}
				}
				return keys
			}
			concerned := index.Concerned(nil, test.mr, byUID)
			if strings.Contains(name, "not selected") {
				g.Expect(concerned).NotTo(ContainElement(HaveField("Namespace", Not(Equal(test.mr.Namespace)))))
			}
			for _, name := range test.want {
				if name[0] == '(' {
					name = name[1 : len(name)-1]
				}
				g.Expect(concerned).To(ContainElement(target(name)))
			}
		})
	}
}

// counting counts how often all registrations of a namespace are listed, of which there may be a thousand.
type counting struct {
	clustercache.ClusterCache
	lists *int
}

func (c counting) List(namespace string) []clustercache.Status {
	*c.lists++
	return c.ClusterCache.List(namespace)
}

func TestRegistrationsAreListedOnceForAllManagedResources(t *testing.T) {
	g := NewWithT(t)
	var mrs []client.Object
	for i := range 10 {
		for _, of := range []change{class("seed"), class("second"), class("")} {
			one := mr("group", of)
			one.Name = fmt.Sprint("mr-", len(mrs), "-", i)
			mrs = append(mrs, one)
		}
	}
	lists := 0
	index := newIndexOver(g, func(c clustercache.ClusterCache) clustercache.ClusterCache { return counting{c, &lists} }, mrs...)
	_, err := index.Of(context.Background(), target("group/a"), "", nil, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lists).To(Equal(1))

	lists = 0
	after := mr("group", class("seed"))
	after.Generation++
	index.Concerned(mr("group", class("seed")), after, nil)
	g.Expect(lists).To(Equal(1))

	lists = 0
	_, err = index.Of(context.Background(), target("lone/a"), "uid-of-lone/a", nil, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lists).To(BeZero(), "they are not needed")
}

func TestWhoseAManagedResourceIsOfARegistrationThatIsThereTwice(t *testing.T) {
	const uid = "uid-of-group/a"
	tests := map[string]struct {
		mr   *resourcesv1alpha1.ManagedResource
		want []string
	}{
		"of the class of one":         {mr("group", appliedTo(uid), class("second")), []string{"group/second"}},
		"of the default class":        {mr("group", appliedTo(uid)), []string{"group/a", "group/b"}},
		"which picks one":             {mr("group", appliedTo(uid), picks("b")), []string{"group/b"}},
		"which picks another cluster": {mr("group", appliedTo(uid), class("second"), picks("c")), []string{"group/second"}},
		"of a class that none serves": {mr("group", appliedTo(uid), class("planned")),
			[]string{"group/a", "group/b", "group/second"}},
	}
	same := []clustercache.ClusterKey{target("group/a"), target("group/b"), target("group/second"), target("lone/a")}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			index, _ := newIndex(g, test.mr)
			var got []string
			for _, key := range same {
				others := slices.DeleteFunc(slices.Clone(same), func(other clustercache.ClusterKey) bool { return other == key })
				found, err := index.Of(context.Background(), key, uid, others, false)
				g.Expect(err).NotTo(HaveOccurred())
				for range found {
					got = append(got, key.String())
				}
			}
			g.Expect(got).To(Equal(test.want))
		})
	}
}

func TestBesideAnotherManagerOnlyWhatWasAppliedCounts(t *testing.T) {
	g := NewWithT(t)
	applied := mr("lone", appliedTo("uid-of-lone/a"))
	applied.Name = "applied"
	seed := mr("lone", class("seed"))
	seed.Name = "seed"
	index, _ := newIndex(g, mr("lone"), applied, seed)
	found, err := index.Of(context.Background(), target("lone/a"), "uid-of-lone/a", nil, true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(HaveExactElements(HaveField("Name", "applied")))
}

func TestTargetWithAnUnknownUIDHasWhatIsNew(t *testing.T) {
	g := NewWithT(t)
	index, _ := newIndex(g, mr("lone"))
	found, err := index.Of(context.Background(), target("lone/a"), "", nil, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(HaveLen(1))
}

func TestChangesThatConcernATarget(t *testing.T) {
	condition := func(t resourcesv1alpha1.ConditionType, status resourcesv1alpha1.ConditionStatus, reason, message string) change {
		return func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Status.Conditions = resourcesv1alpha1.SetCondition(mr.CreationTimestamp.Time, mr.Status.Conditions, t, status, reason, message)
		}
	}
	tests := map[string]struct {
		change    change
		concerned bool
	}{
		"nothing":            {func(*resourcesv1alpha1.ManagedResource) {}, false},
		"another message":    {condition("ResourcesHealthy", "True", "R", "other"), false},
		"another annotation": {func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations["x"] = "y" }, false},
		"not applied":        {condition("ResourcesApplied", "False", "R", ""), true},
		"not healthy":        {condition("ResourcesHealthy", "False", "R", ""), true},
		"another reason":     {condition("ResourcesHealthy", "True", "S", ""), true},
		"progressing":        {condition("ResourcesProgressing", "True", "R", ""), true},
		"ready":              {condition("Ready", "True", "R", ""), true},
		"another generation": {func(mr *resourcesv1alpha1.ManagedResource) { mr.Generation++ }, true},
		"being deleted":      {func(mr *resourcesv1alpha1.ManagedResource) { mr.DeletionTimestamp = &metav1.Time{} }, true},
		"ignored": {func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Annotations[resourcesv1alpha1.IgnoreAnnotation] = "true"
		}, true},
		"another type":  {func(mr *resourcesv1alpha1.ManagedResource) { mr.Labels[hubv1alpha1.CareConditionTypeLabel] = "X" }, true},
		"another class": {class("second"), true},
		"one object more": {func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Status.Resources = make([]resourcesv1alpha1.ObjectReference, 1)
		}, true},
		"applied to a target": {func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations[hubv1alpha1.TargetUIDAnnotation] = "uid" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := mr("lone", condition("ResourcesHealthy", "True", "R", "m"), picks("a"))
			before.Annotations = map[string]string{}
			after := before.DeepCopy()
			test.change(after)
			index, _ := newIndex(g)
			concerned := index.Concerned(before, after, func(types.UID) []clustercache.ClusterKey { return []clustercache.ClusterKey{target("lone/a")} })
			g.Expect(slices.Contains(concerned, target("lone/a"))).To(Equal(test.concerned))
		})
	}
}

func TestMoveConcernsBothTargets(t *testing.T) {
	g := NewWithT(t)
	index, _ := newIndex(g)
	g.Expect(index.Concerned(mr("group", picks("a")), mr("group", picks("b")), nil)).To(
		ConsistOf(target("group/a"), target("group/b")))
	g.Expect(index.Concerned(mr("group", picks("a")), nil, nil)).To(ConsistOf(target("group/a")))
}

func TestSelectorThatIsNone(t *testing.T) {
	g := NewWithT(t)
	bad := configv1alpha1.Class{Name: "a", NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "what"}}}}
	_, err := New(&informers{}, fakeclusters.New(nil), []configv1alpha1.Class{bad}, clock.RealClock{})
	g.Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("class %q", "a"))))
}
