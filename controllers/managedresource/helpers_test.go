package managedresource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gcustom"
	gomegatypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const (
	applied     = resourcesv1alpha1.ConditionResourcesApplied
	healthy     = resourcesv1alpha1.ConditionResourcesHealthy
	progressing = resourcesv1alpha1.ConditionResourcesProgressing
	ready       = resourcesv1alpha1.ConditionReady

	yes     = resourcesv1alpha1.ConditionTrue
	no      = resourcesv1alpha1.ConditionFalse
	unknown = resourcesv1alpha1.ConditionUnknown
	ongoing = resourcesv1alpha1.ConditionProgressing

	// blocker is a finalizer that only the test removes.
	blocker = "test.trellis/blocker"
	// marker stands in everything that must stay secret.
	marker = "s3cr3t-of-the-user"
	// manifests is the key under which tests put the content of a Secret.
	manifests = "objects.yaml"
)

// place is where a test works: a namespace of its own, in the source and in the target.
type place struct {
	*WithT
	t      *testing.T
	ctx    context.Context
	ns     string
	source *testbed.Cluster
}

// unregistered returns a place without a registration.
func unregistered(t *testing.T, labels map[string]string) place {
	t.Helper()
	ns := testbed.Namespace(t, labels, source, target)
	p := place{WithT: NewWithT(t), t: t, ctx: context.Background(), ns: ns, source: source}
	t.Cleanup(p.abandon)
	return p
}

// apart returns a place with a source of its own, in which no hub runs yet.
func apart(t *testing.T, labels map[string]string) place {
	t.Helper()
	g := NewWithT(t)
	own, err := testbed.StartCluster(t.Context(), controlplane.Options{Name: "source"})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(own.Stop)
	g.Expect(testbed.InstallSource(t.Context(), own.Client)).To(Succeed())
	return place{WithT: g, t: t, ctx: context.Background(), ns: testbed.Namespace(t, labels, own, target), source: own}
}

// run starts a hub on the source of a place, which stop ends.
func (p place) run(o testbed.HubOptions) (stop func()) {
	p.t.Helper()
	h, err := testbed.StartHub(p.ctx, p.source, o)
	p.Expect(err).NotTo(HaveOccurred())
	return func() { h.Stop(); p.Expect(h.Err()).NotTo(HaveOccurred()) }
}

// abandon leaves nothing of a place for the hub to work on, whatever state it is in. All places register the same
// cluster, and each TargetCluster names the others.
func (p place) abandon() {
	unblocked := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, mr := range p.all() {
		p.Expect(client.IgnoreNotFound(p.source.Client.Patch(p.ctx, &mr, unblocked))).To(Succeed())
	}
	for _, obj := range []client.Object{&resourcesv1alpha1.ManagedResource{}, &corev1.Secret{}} {
		p.Expect(p.source.Client.DeleteAllOf(p.ctx, obj, client.InNamespace(p.ns))).To(Succeed())
	}
	for _, mr := range p.all() { // the hub may have put its finalizer back on
		p.Expect(client.IgnoreNotFound(p.source.Client.Patch(p.ctx, &mr, unblocked))).To(Succeed())
	}
}

// registered returns a place in which the target is registered as "a".
func registered(t *testing.T) place {
	t.Helper()
	p := unregistered(t, nil)
	p.register("a", target.Kubeconfig())
	return p
}

// inSource creates objects in the source.
func (p place) inSource(objects ...client.Object) {
	p.t.Helper()
	for _, o := range objects {
		p.Expect(p.source.Client.Create(p.ctx, o)).To(Succeed())
	}
}

// inTarget creates objects in the target.
func (p place) inTarget(objects ...client.Object) {
	p.t.Helper()
	for _, o := range objects {
		p.Expect(target.Client.Create(p.ctx, o)).To(Succeed())
	}
}

// secret writes a Secret of the source, new or not.
func (p place) secret(name, key string, value []byte) {
	p.t.Helper()
	p.secretData(name, map[string][]byte{key: value})
}

func (p place) secretData(name string, data map[string][]byte) {
	p.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name}, Data: data}
	err := p.source.Client.Create(p.ctx, s)
	if apierrors.IsAlreadyExists(err) {
		p.edit(p.source, s, func() { s.Data = data })
		return
	}
	p.Expect(err).NotTo(HaveOccurred())
}

// content writes manifests into a Secret.
func (p place) content(name string, documents ...string) {
	p.t.Helper()
	p.secret(name, manifests, []byte(strings.Join(documents, "\n---\n")))
}

// mr creates a ManagedResource.
func (p place) mr(name string, secrets ...string) *resourcesv1alpha1.ManagedResource {
	p.t.Helper()
	mr := testbed.ManagedResource(p.ns, name, secrets...)
	p.inSource(mr)
	return mr
}

// edit reads an object, changes it and writes it back, until there is no conflict with another writer.
func (p place) edit(c *testbed.Cluster, obj client.Object, change func()) {
	p.t.Helper()
	p.Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := c.Client.Get(p.ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change()
		return c.Client.Update(p.ctx, obj, client.FieldOwner("other-client"))
	})).To(Succeed())
}

// editMR changes a ManagedResource.
func (p place) editMR(name string, change func(mr *resourcesv1alpha1.ManagedResource)) {
	p.t.Helper()
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name}}
	p.edit(p.source, mr, func() { change(mr) })
}

// operation sets the operation annotation.
func (p place) operation(name, value string) {
	p.t.Helper()
	p.annotateMR(name, resourcesv1alpha1.OperationAnnotation, value)
}

func (p place) annotateMR(name, key, value string) {
	p.t.Helper()
	p.editMR(name, func(mr *resourcesv1alpha1.ManagedResource) { metav1.SetMetaDataAnnotation(&mr.ObjectMeta, key, value) })
}

// get reads a ManagedResource.
func (p place) get(name string) *resourcesv1alpha1.ManagedResource {
	p.t.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	p.Expect(p.source.Client.Get(p.ctx, types.NamespacedName{Namespace: p.ns, Name: name}, mr)).To(Succeed())
	return mr
}

// await waits until a ManagedResource is as the matchers say, and returns it.
func (p place) await(name string, matchers ...gomegatypes.GomegaMatcher) *resourcesv1alpha1.ManagedResource {
	p.t.Helper()
	var mr *resourcesv1alpha1.ManagedResource
	p.Eventually(func(g Gomega) {
		mr = &resourcesv1alpha1.ManagedResource{}
		g.Expect(p.source.Client.Get(p.ctx, types.NamespacedName{Namespace: p.ns, Name: name}, mr)).To(Succeed())
		g.Expect(mr).To(SatisfyAll(matchers...))
	}).Should(Succeed(), func() string { return "log of the hub about it:\n" + hub.Log.About(p.ns) })
	return mr
}

// awaitReady waits until the present generation is applied, healthy and rolled out.
func (p place) awaitReady(name string) *resourcesv1alpha1.ManagedResource {
	p.t.Helper()
	return p.await(name, has(ready, yes, "Ready"), has(applied, yes, resourcesv1alpha1.ReasonApplySucceeded), observed())
}

// awaitApplied waits until the present generation is applied; without a controller manager, workloads never get
// healthy.
func (p place) awaitApplied(name string) *resourcesv1alpha1.ManagedResource {
	p.t.Helper()
	return p.await(name, has(applied, yes, resourcesv1alpha1.ReasonApplySucceeded), observed())
}

// awaitGone waits until a ManagedResource is gone.
func (p place) awaitGone(name string) {
	p.t.Helper()
	p.Eventually(func() error {
		key := types.NamespacedName{Namespace: p.ns, Name: name}
		return p.source.Client.Get(p.ctx, key, &resourcesv1alpha1.ManagedResource{})
	}).Should(Satisfy(apierrors.IsNotFound), func() string { return hub.Log.About(p.ns) })
}

func (p place) deleteMR(name string) {
	p.t.Helper()
	p.Expect(p.source.Client.Delete(p.ctx, testbed.ManagedResource(p.ns, name))).To(Succeed())
}

// has matches a ManagedResource by one of its conditions. An empty reason matches any; texts are parts of the message.
func has(t resourcesv1alpha1.ConditionType, status resourcesv1alpha1.ConditionStatus, reason string, texts ...string) gomegatypes.GomegaMatcher {
	return gcustom.MakeMatcher(func(mr *resourcesv1alpha1.ManagedResource) (bool, error) {
		c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, t)
		if c == nil || c.Status != status || reason != "" && c.Reason != reason {
			return false, nil
		}
		for _, text := range texts {
			if !strings.Contains(c.Message, text) {
				return false, nil
			}
		}
		return true, nil
	}).WithTemplate("Expected {{.Actual.Namespace}}/{{.Actual.Name}} {{.To}} have the condition {{.Data}}. It has:\n{{range .Actual.Status.Conditions}}{{.Type}}={{.Status}}/{{.Reason}}: {{.Message}}\n{{end}}", fmt.Sprint(t, "=", status, "/", reason, " ", texts))
}

// observed matches a ManagedResource whose present generation was dealt with.
func observed() gomegatypes.GomegaMatcher {
	return gcustom.MakeMatcher(func(mr *resourcesv1alpha1.ManagedResource) (bool, error) {
		return mr.Status.ObservedGeneration == mr.Generation, nil
	}).WithTemplate("Expected {{.Actual.Namespace}}/{{.Actual.Name}} {{.To}} have its present generation observed")
}

// checksum matches a ManagedResource whose content is another one than before.
func checksumOtherThan(mr *resourcesv1alpha1.ManagedResource) gomegatypes.GomegaMatcher {
	return WithTransform(func(mr *resourcesv1alpha1.ManagedResource) string {
		if mr.Status.SecretsDataChecksum == nil {
			return ""
		}
		return *mr.Status.SecretsDataChecksum
	}, And(Not(BeEmpty()), Not(Equal(*mr.Status.SecretsDataChecksum))))
}

// fence has another ManagedResource of the namespace applied: no worker hangs, and what happened before is dealt with.
func (p place) fence() {
	p.t.Helper()
	p.fenceThrough("a")
}

// fenceThrough is a fence by another registration.
func (p place) fenceThrough(registration string) {
	p.t.Helper()
	name := fmt.Sprintf("fence-%d", time.Now().UnixNano())
	p.content(name, testbed.ConfigMap(p.ns, name, "fence"))
	mr := testbed.ManagedResource(p.ns, name, name)
	mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: registration}
	p.inSource(mr)
	p.awaitReady(name)
}

// configMap is the name of a ConfigMap in the namespace, to be read.
func (p place) configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name}}
}

func (p place) deployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name}}
}

// read reads an object of the target into itself.
func read[T client.Object](p place, obj T) T {
	p.t.Helper()
	p.Expect(target.Client.Get(p.ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
	return obj
}

// awaitValue waits until a ConfigMap of the target holds a value under "key".
func (p place) awaitValue(name, value string) {
	p.t.Helper()
	p.Eventually(func() (map[string]string, error) {
		cm := p.configMap(name)
		err := target.Client.Get(p.ctx, client.ObjectKeyFromObject(cm), cm)
		return cm.Data, err
	}).Should(HaveKeyWithValue("key", value), func() string { return hub.Log.About(p.ns) })
}

// awaitAbsent waits until an object of the target is gone.
func (p place) awaitAbsent(obj client.Object) {
	p.t.Helper()
	p.Eventually(func() error { return target.Client.Get(p.ctx, client.ObjectKeyFromObject(obj), obj) }).
		Should(Satisfy(apierrors.IsNotFound), func() string { return hub.Log.About(p.ns) })
}

// expectAbsent is for objects that must not be there now.
func (p place) expectAbsent(obj client.Object) {
	p.t.Helper()
	p.Expect(target.Client.Get(p.ctx, client.ObjectKeyFromObject(obj), obj)).To(Satisfy(apierrors.IsNotFound))
}

// unblock takes the test's finalizer off an object of the target.
func (p place) unblock(obj client.Object) {
	p.t.Helper()
	p.Expect(target.Client.Patch(p.ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
}

// blocked is the manifest of a ConfigMap that cannot be deleted before the test allows it.
func (p place) blocked(name string) string {
	return p.configMapWith(name, `{"finalizers":["`+blocker+`"]}`)
}

// configMapWith is the manifest of a ConfigMap with more metadata.
func (p place) configMapWith(name, metadata string) string {
	m := map[string]any{}
	p.Expect(json.Unmarshal([]byte(metadata), &m)).To(Succeed())
	m["namespace"], m["name"] = p.ns, name
	raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": m, "data": map[string]any{"key": "1"}})
	p.Expect(err).NotTo(HaveOccurred())
	return string(raw)
}

// deploymentManifest is a Deployment of one container.
func (p place) deploymentManifest(name, annotations string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":%q,"annotations":%s},
"spec":{"replicas":2,"selector":{"matchLabels":{"app":%q}},
"template":{"metadata":{"labels":{"app":%q}},"spec":{"containers":[{"name":"app","image":"example.org/app:1","env":[{"name":"MODE","value":"calm"}]}]}}}}`,
		p.ns, name, annotations, name, name)
}

// history records every version of a ManagedResource from now on.
type history struct {
	mu   sync.Mutex
	seen []*resourcesv1alpha1.ManagedResource
}

func (p place) history(name string) *history {
	p.t.Helper()
	c, err := client.NewWithWatch(p.source.RESTConfig(), client.Options{Scheme: testbed.Scheme()})
	p.Expect(err).NotTo(HaveOccurred())
	list := &resourcesv1alpha1.ManagedResourceList{}
	options := []client.ListOption{client.InNamespace(p.ns), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)}}
	p.Expect(c.List(p.ctx, list, options...)).To(Succeed())
	w, err := c.Watch(p.ctx, list, append(options, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})...)
	p.Expect(err).NotTo(HaveOccurred())
	h := &history{}
	var done sync.WaitGroup
	done.Go(func() {
		for event := range w.ResultChan() {
			if mr, ok := event.Object.(*resourcesv1alpha1.ManagedResource); ok {
				h.mu.Lock()
				h.seen = append(h.seen, mr)
				h.mu.Unlock()
			}
		}
	})
	p.t.Cleanup(func() { w.Stop(); done.Wait() })
	return h
}

// versions are those seen so far.
func (h *history) versions() []*resourcesv1alpha1.ManagedResource {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*resourcesv1alpha1.ManagedResource(nil), h.seen...)
}

// reset matches a version in which the conditions say that new content came and was not checked yet.
func reset() gomegatypes.GomegaMatcher {
	return SatisfyAll(
		has(healthy, unknown, resourcesv1alpha1.ReasonChecksPending),
		has(progressing, unknown, resourcesv1alpha1.ReasonChecksPending),
		has(applied, ongoing, resourcesv1alpha1.ReasonApplyProgressing))
}

// events are those of the namespace in the source, as "Type Reason: note".
func (p place) events() []string {
	p.t.Helper()
	list := &eventsv1.EventList{}
	p.Expect(p.source.Client.List(p.ctx, list, client.InNamespace(p.ns))).To(Succeed())
	var out []string
	for _, e := range list.Items {
		out = append(out, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note))
	}
	return out
}

// targetCluster reads the TargetCluster of a registration; an empty one if there is none yet.
func (p place) targetCluster(name string) *hubv1alpha1.TargetCluster {
	p.t.Helper()
	tc := &hubv1alpha1.TargetCluster{}
	err := p.source.Client.Get(p.ctx, types.NamespacedName{Namespace: p.ns, Name: name}, tc)
	p.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return tc
}

// awaitTarget waits for a condition of a TargetCluster. texts are parts of its message.
func (p place) awaitTarget(name, condition string, status metav1.ConditionStatus, reason string, texts ...string) {
	p.t.Helper()
	matchers := []gomegatypes.GomegaMatcher{Not(BeNil()), HaveField("Status", status)}
	if reason != "" {
		matchers = append(matchers, HaveField("Reason", reason))
	}
	for _, text := range texts {
		matchers = append(matchers, HaveField("Message", ContainSubstring(text)))
	}
	p.Eventually(func() *metav1.Condition {
		return meta.FindStatusCondition(p.targetCluster(name).Status.Conditions, condition)
	}).Should(SatisfyAll(matchers...), func() string { return hub.Log.About(p.ns) })
}

// requests are those of the hub that an audit log holds and the filter keeps.
func (p place) requests(c *testbed.Cluster, keep func(controlplane.AuditEntry) bool) []string {
	p.t.Helper()
	entries, err := c.AuditEntries()
	p.Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.UserAgent, "trellis") && keep(e) {
			out = append(out, e.String())
		}
	}
	return out
}

// inNamespace keeps what is about the namespace of the test.
func (p place) inNamespace(e controlplane.AuditEntry) bool { return e.Namespace == p.ns }

// writes keeps writes to the namespace of the test; events are none.
func (p place) writes(e controlplane.AuditEntry) bool {
	return e.Namespace == p.ns && e.Verb != "get" && e.Verb != "list" && e.Verb != "watch" && e.Resource != "events"
}

// expectNoLeak looks for the marker wherever the hub could have written it.
func (p place) expectNoLeak() {
	p.t.Helper()
	mrs, tcs := &resourcesv1alpha1.ManagedResourceList{}, &hubv1alpha1.TargetClusterList{}
	p.Expect(p.source.Client.List(p.ctx, mrs, client.InNamespace(p.ns))).To(Succeed())
	p.Expect(p.source.Client.List(p.ctx, tcs, client.InNamespace(p.ns))).To(Succeed())
	for _, list := range []any{mrs, tcs} {
		raw, err := json.Marshal(list)
		p.Expect(err).NotTo(HaveOccurred())
		p.Expect(string(raw)).NotTo(ContainSubstring(marker))
	}
	p.Expect(mrs.Items).NotTo(BeEmpty())
	p.Expect(p.events()).NotTo(ContainElement(ContainSubstring(marker)))
	p.Expect(hub.Log.About(p.ns)).NotTo(BeEmpty(), "the log mentions this namespace, so it would have the marker, too")
	p.Expect(hub.Log.About(marker)).To(BeEmpty())
	p.Expect(clientLog.About(marker)).To(BeEmpty())
}

// at returns the value at a path of names and list positions, nil if there is none. Dots in names are escaped.
func at(value any, path string) any {
	const escaped = "\x00"
	for part := range strings.SplitSeq(strings.ReplaceAll(path, `\.`, escaped), ".") {
		part = strings.ReplaceAll(part, escaped, ".")
		switch v := value.(type) {
		case map[string]any:
			value = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// all are the ManagedResources of the namespace.
func (p place) all() []resourcesv1alpha1.ManagedResource {
	p.t.Helper()
	list := &resourcesv1alpha1.ManagedResourceList{}
	p.Expect(p.source.Client.List(p.ctx, list, client.InNamespace(p.ns))).To(Succeed())
	return list.Items
}
