package registrations

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// byHub reports whether the hub wrote it.
var byHub = journal.ByUserAgent("trellis")

// place is a namespace of one test, with simulated targets of its own.
type place struct {
	*WithT
	t       *testing.T
	ctx     context.Context
	name    string
	targets []*fleetsim.Target
}

// seeds makes each test's clusters others than those of the rest.
var seeds atomic.Int64

func newPlace(t *testing.T, targets int) *place {
	t.Helper()
	t.Parallel()
	p := &place{WithT: NewWithT(t), t: t, ctx: context.Background(), name: testbed.Namespace(t, nil, source)}
	fleet, err := fleetsim.Start(p.ctx, fleetsim.Options{Targets: targets, Prefix: p.name + "-", Seed: seeds.Add(1)})
	p.Expect(err).NotTo(HaveOccurred())
	p.targets = fleet.Targets()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the hub:\n%s", hub.Log.About(p.name))
		}
		fleet.Stop()
	})
	return p
}

func (p *place) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: p.name, Name: name}
}

// registration is the Secret by which a target is registered under a name.
func (p *place) registration(name string, target *fleetsim.Target) *corev1.Secret {
	return testbed.Registration(p.name, name, target.Kubeconfig())
}

func (p *place) register(name string, target *fleetsim.Target) {
	p.t.Helper()
	p.Expect(source.Client.Create(p.ctx, p.registration(name, target))).To(Succeed())
}

// rewrite writes what is the target's kubeconfig now.
func (p *place) rewrite(name string, target *fleetsim.Target) {
	p.t.Helper()
	p.Expect(source.Client.Update(p.ctx, p.registration(name, target))).To(Succeed())
}

// annotate annotates an object; a value of null takes the annotation off.
func (p *place) annotate(object client.Object, key, value string) {
	p.t.Helper()
	if value != "null" {
		value = fmt.Sprintf("%q", value)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, key, value)
	p.Expect(source.Client.Patch(p.ctx, object, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// unregister deletes the Secret, as who means it.
func (p *place) unregister(name string) {
	p.t.Helper()
	secret := testbed.Registration(p.name, name, nil)
	p.annotate(secret, hubv1alpha1.ConfirmDeletionAnnotation, "true")
	p.Expect(source.Client.Delete(p.ctx, secret)).To(Succeed())
}

// manage creates a ManagedResource with ConfigMaps of the same value, named after it and numbered.
func (p *place) manage(name, value string, objects int) {
	p.t.Helper()
	p.Expect(source.Client.Create(p.ctx, p.content(name, value, objects))).To(Succeed())
	p.Expect(source.Client.Create(p.ctx, testbed.ManagedResource(p.name, name, name))).To(Succeed())
}

func (p *place) content(name, value string, objects int) *corev1.Secret {
	var manifests []string
	for i := range objects {
		manifests = append(manifests, testbed.ConfigMap("default", fmt.Sprintf("%s-%d", name, i), value))
	}
	return testbed.Content(p.name, name, "objects.yaml", manifests...)
}

// value is that of a ConfigMap in a target, empty if there is none.
func (p *place) value(target *fleetsim.Target, name string) string {
	p.t.Helper()
	for _, object := range target.Server().Objects(corev1.SchemeGroupVersion.WithResource("configmaps")) {
		if object.GetNamespace() == "default" && object.GetName() == name {
			value, _, err := unstructured.NestedString(object.Object, "data", "key")
			p.Expect(err).NotTo(HaveOccurred())
			return value
		}
	}
	return ""
}

// managed counts the objects in a target that belong to ManagedResources.
func (p *place) managed(target *fleetsim.Target) int {
	n := 0
	for _, object := range target.Server().Objects(corev1.SchemeGroupVersion.WithResource("configmaps")) {
		if object.GetLabels()[resourcesv1alpha1.ManagedByLabel] != "" {
			n++
		}
	}
	return n
}

// edit changes a ConfigMap in a target from inside.
func (p *place) edit(target *fleetsim.Target, name, value string) {
	p.t.Helper()
	_, err := target.Call(p.ctx, fleetsim.Call{
		Method: http.MethodPatch, Path: "/api/v1/namespaces/default/configmaps/" + name, UserAgent: "another-client",
		ContentType: "application/merge-patch+json", Body: fmt.Appendf(nil, `{"data":{"key":%q}}`, value),
	})
	p.Expect(err).NotTo(HaveOccurred())
}

// expectCare insists that a ConfigMap of a target is kept in order.
func (p *place) expectCare(target *fleetsim.Target, name, value string) {
	p.t.Helper()
	p.edit(target, name, "edited")
	p.Eventually(func() string { return p.value(target, name) }).Should(Equal(value), name)
}

// writes are what the hub wrote to a target, as text. Those of its connection, reviews, are none.
func (p *place) writes(target *fleetsim.Target, verbs ...string) []string {
	found := []string{}
	for _, c := range target.Journal().History().Changes {
		if byHub(c) && (len(verbs) == 0 || strings.Contains(strings.Join(verbs, " "), c.Verb)) {
			found = append(found, c.Verb+" "+c.Object())
		}
	}
	return found
}

// changes are the writes of the hub to a target since a time that changed something, as text.
func (p *place) changes(target *fleetsim.Target, since time.Time) []string {
	found := []string{}
	for _, c := range target.Journal().History().Changes {
		if byHub(c) && c.Time.After(since) && c.Before != c.After {
			found = append(found, c.Verb+" "+c.Object())
		}
	}
	return found
}

// target returns a TargetCluster, an empty one if there is none.
func (p *place) target(name string) *hubv1alpha1.TargetCluster {
	p.t.Helper()
	tc := &hubv1alpha1.TargetCluster{}
	p.Expect(client.IgnoreNotFound(source.Client.Get(p.ctx, p.key(name), tc))).To(Succeed())
	return tc
}

// condition returns one of a TargetCluster as "status/reason: message".
func (p *place) condition(name, conditionType string) string {
	p.t.Helper()
	c := meta.FindStatusCondition(p.target(name).Status.Conditions, conditionType)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
}

// eventually waits for a condition of a TargetCluster, given as "status/reason".
func (p *place) eventually(name, conditionType, want string) {
	p.t.Helper()
	p.Eventually(func() string { return p.condition(name, conditionType) }).Should(HavePrefix(want+":"), func() string {
		return fmt.Sprintf("%s of %s: %+v", conditionType, name, p.target(name).Status)
	})
}

// ofMR returns a condition of a ManagedResource as "status/reason: message".
func (p *place) ofMR(name string, conditionType resourcesv1alpha1.ConditionType) string {
	p.t.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	p.Expect(client.IgnoreNotFound(source.Client.Get(p.ctx, p.key(name), mr))).To(Succeed())
	c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, conditionType)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
}

// eventuallyMR waits for a condition of a ManagedResource, given as "status/reason".
func (p *place) eventuallyMR(name string, conditionType resourcesv1alpha1.ConditionType, want string) {
	p.t.Helper()
	p.Eventually(func() string { return p.ofMR(name, conditionType) }).Should(HavePrefix(want+":"), func() string {
		return fmt.Sprintf("%s of %s", conditionType, name)
	})
}

// eventuallyReady waits until ManagedResources are ready.
func (p *place) eventuallyReady(names ...string) {
	p.t.Helper()
	for _, name := range names {
		p.eventuallyMR(name, resourcesv1alpha1.ConditionReady, "True/Ready")
	}
}

// deleteMR asks for the deletion of a ManagedResource.
func (p *place) deleteMR(name string) {
	p.t.Helper()
	p.Expect(source.Client.Delete(p.ctx, testbed.ManagedResource(p.name, name))).To(Succeed())
}

// eventuallyGone waits until an object of the source does not exist any longer.
func (p *place) eventuallyGone(object client.Object) {
	p.t.Helper()
	p.Eventually(func() bool {
		return apierrors.IsNotFound(source.Client.Get(p.ctx, client.ObjectKeyFromObject(object), object))
	}).Should(BeTrue(), func() string { return fmt.Sprintf("%T %s: %+v", object, object.GetName(), object) })
}

// events are the notes of those with a reason about an object of the namespace.
func (p *place) events(name, reason string) []string {
	p.t.Helper()
	list := &corev1.EventList{}
	p.Expect(source.Client.List(p.ctx, list, client.InNamespace(p.name))).To(Succeed())
	found := []string{}
	for _, e := range list.Items {
		if e.InvolvedObject.Name == name && e.Reason == reason {
			found = append(found, e.Message)
		}
	}
	return found
}

// eventuallyEvent waits for an event about an object of the namespace.
func (p *place) eventuallyEvent(name, reason, text string) {
	p.t.Helper()
	p.Eventually(func() []string { return p.events(name, reason) }).Should(ContainElement(ContainSubstring(text)))
}

func targetCluster(p *place, name string) *hubv1alpha1.TargetCluster {
	return &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: name}}
}
