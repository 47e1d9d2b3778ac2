package tracker_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

const (
	podsWatch = "Pod.v1"
	things    = "Thing.v1.example.com"
	health    = tracker.CauseHealth
	drift     = tracker.CauseDrift
)

// parsed is a live object; text may say what it likes beside its name and version.
func parsed(t testing.TB, apiVersion, kind, name, version, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(text), &obj.Object)).To(Succeed())
	if obj.Object == nil {
		obj.Object = map[string]any{}
	}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace("default")
	obj.SetName(name)
	obj.SetUID(types.UID("uid-" + name))
	obj.SetResourceVersion(version)
	obj.SetGeneration(2)
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{managed("trellis", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:x":{}}}`)})
	return obj
}

// live has one object of a kind tracked, accepted and seen, with nothing wrong with it.
type live struct {
	*WithT
	*setup
	t                       testing.TB
	apiVersion, kind, watch string
	key                     inventory.Key
	version                 int
}

func newLive(t testing.TB, apiVersion, kind, watch, fine string) *live {
	r := ref(kind, "default", "a")
	r.APIVersion = apiVersion
	l := &live{WithT: NewWithT(t), setup: newSetup(), t: t, apiVersion: apiVersion, kind: kind, watch: watch, key: inventory.KeyOf(r), version: 10}
	l.Expect(l.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{r}, tracker.Exact{})).To(Succeed())
	l.clusters.Sync(cluster, watch, true)
	obj := parsed(t, apiVersion, kind, "a", "10", fine)
	l.Accept(mr1, l.key, tracker.Accepted{UID: obj.GetUID(), ResourceVersion: "10", State: ownership.Observe(obj, "trellis")})
	l.clusters.Put(cluster, watch, obj)
	l.causes()
	return l
}

// becomes lets the watch show the object in another state.
func (l *live) becomes(text string) {
	l.version++
	l.clusters.Put(cluster, l.watch, parsed(l.t, l.apiVersion, l.kind, "a", fmt.Sprint(l.version), text))
}

const (
	available = `
spec: {replicas: 1, selector: {matchLabels: {app: a}}}
status:
  observedGeneration: 2
  conditions: [{type: Available, status: 'True'}, {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]`
	rolling = `
spec: {replicas: 1, selector: {matchLabels: {app: a}}}
status:
  observedGeneration: 2
  conditions: [{type: Available, status: 'True'}, {type: Progressing, status: 'True', reason: ReplicaSetUpdated}]`
	down = `
spec: {replicas: 1, selector: {matchLabels: {app: a}}}
status:
  observedGeneration: 2
  conditions: [{type: Available, status: 'False'}, {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]`
	skipped = "\nmetadata: {annotations: {resources.gardener.cloud/skip-health-check: 'true'}}"
)

// H-15 and H-17: a change of an object notifies if it changes what is reported of it, and only then.
func TestH15_H17_EventsOfAnObject(t *testing.T) {
	for name, test := range map[string]struct {
		kind   [3]string // apiVersion, kind, watch
		states []string  // after one in which nothing is wrong
		causes []tracker.Cause
	}{
		"no change":                  {states: []string{available}},
		"a change that says nothing": {states: []string{available + "\n  replicas: 1\n  updatedReplicas: 1"}},
		"becomes unhealthy":          {states: []string{down}, causes: []tracker.Cause{health}},
		"stays unhealthy":            {states: []string{down, down, down}, causes: []tracker.Cause{health}},
		"and well again":             {states: []string{down, available}, causes: []tracker.Cause{health, health}},
		"rolls out":                  {states: []string{rolling}, causes: []tracker.Cause{health}},
		"goes on rolling out":        {states: []string{rolling, rolling}, causes: []tracker.Cause{health}},
		"becomes unhealthy for another reason": {
			states: []string{down, strings.Replace(down, "'False'", "Unknown", 1)}, causes: []tracker.Cause{health, health},
		},
		"scaled by others": {states: []string{strings.Replace(available, "replicas: 1", "replicas: 2", 1)},
			causes: []tracker.Cause{health}},
		"skipped and unhealthy": {states: []string{available + skipped, down + skipped, rolling + skipped},
			causes: []tracker.Cause{health}},
		"custom resource becomes unready": {
			kind:   [3]string{"example.com/v1", "Thing", things},
			states: []string{"status: {conditions: [{type: Ready, status: 'False'}]}", "status: {conditions: [{type: Ready, status: 'False'}]}"},
			causes: []tracker.Cause{health},
		},
		"custom resource says that it is well": {
			kind:   [3]string{"example.com/v1", "Thing", things},
			states: []string{"status: {observedGeneration: 2}", "status: {observedGeneration: 2, more: 1}"},
		},
		"a kind without criteria": {
			kind:   [3]string{"v1", "ConfigMap", watch},
			states: []string{"status: {conditions: [{type: Ready, status: 'False'}]}"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := test.kind
			if kind[0] == "" {
				kind = [3]string{"apps/v1", "Deployment", deployments}
			}
			fine := ""
			if kind[1] == "Deployment" {
				fine = available
			}
			l := newLive(t, kind[0], kind[1], kind[2], fine)
			for _, state := range test.states {
				l.becomes(state)
			}
			if len(test.causes) == 0 {
				l.Expect(l.causes()).To(BeEmpty())
				return
			}
			l.Expect(l.causes()).To(Equal(test.causes))
		})
	}

	t.Run("what an ignored Deployment reports of its pods", func(t *testing.T) {
		l := newLive(t, "apps/v1", "Deployment", deployments, available)
		r := ref("Deployment", "default", "a")
		r.APIVersion, r.Annotations = "apps/v1", map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
		l.Expect(l.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{r}, tracker.Exact{})).To(Succeed())
		l.watch = deployments + " default/a"
		l.clusters.Sync(cluster, l.watch, true)
		l.becomes(available)
		l.AcceptObserved(mr1, l.Judge(mr1).Observed)
		l.causes()
		l.Expect(l.Judge(mr1).PodsUnknown).To(BeFalse(), "none are waited for")
		l.becomes(available + "\n  replicas: 1\n  updatedReplicas: 1")
		l.Expect(l.causes()).To(Equal([]tracker.Cause{health}))
		l.becomes(available + "\n  replicas: 1\n  updatedReplicas: 1\n  readyReplicas: 1")
		l.Expect(l.causes()).To(BeEmpty())
	})
	t.Run("deleted and created again", func(t *testing.T) {
		l := newLive(t, "apps/v1", "Deployment", deployments, available)
		l.clusters.Delete(cluster, l.watch, l.key.NamespacedName())
		l.Expect(l.causes()).To(Equal([]tracker.Cause{drift}))
		l.Expect(l.Judge(mr1).Missing).To(ConsistOf(l.key))
		l.version++
		again := parsed(t, "apps/v1", "Deployment", "a", "11", available)
		again.SetUID("another")
		l.clusters.Put(cluster, l.watch, again)
		l.Expect(l.causes()).To(Equal([]tracker.Cause{drift}), "it is another object")
	})
	t.Run("what happens before the last write is shown", func(t *testing.T) {
		l := newLive(t, "apps/v1", "Deployment", deployments, available)
		obj := parsed(t, "apps/v1", "Deployment", "a", "20", available)
		l.Accept(mr1, l.key, tracker.Accepted{UID: obj.GetUID(), ResourceVersion: "20", State: ownership.Observe(obj, "trellis")})
		l.becomes(down)
		l.Expect(l.causes()).To(BeEmpty())
		l.version = 19
		l.becomes(down)
		l.Expect(l.causes()).To(Equal([]tracker.Cause{health}), "the write was shown, and what came of it")
	})
	t.Run("what happens while another object is not shown", func(t *testing.T) {
		l := newLive(t, "apps/v1", "Deployment", deployments, available)
		r := ref("Deployment", "default", "a")
		r.APIVersion = "apps/v1"
		l.Expect(l.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{r, ref("ConfigMap", "default", "a")}, tracker.Exact{})).To(Succeed())
		l.clusters.Sync(cluster, watch, true)
		l.Accept(mr1, key, accepted("20"))
		l.causes()
		l.becomes(rolling)
		l.Expect(l.causes()).To(BeEmpty(), "the rest will come")
		l.becomes(down)
		l.Expect(l.causes()).To(Equal([]tracker.Cause{health}))
	})
}

// H-16: the inventory says which ManagedResource an object belongs to. The annotation with its origin does not count.
func TestH16_OriginIsNotBelieved(t *testing.T) {
	for name, origin := range map[string]string{
		"none": "", "malformed": "a", "of another cluster": "other:shoot/two", "of another ManagedResource": "shoot/two",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t, "apps/v1", "Deployment", deployments, available)
			l.Expect(l.Track(t.Context(), mr2, cluster, []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "b")}, tracker.Exact{})).To(Succeed())
			notified := l.names()
			obj := parsed(t, "apps/v1", "Deployment", "a", "11", down)
			obj.SetAnnotations(map[string]string{resourcesv1alpha1.OriginAnnotation: origin})
			l.clusters.Put(cluster, deployments, obj)
			l.Expect(notified()).To(ConsistOf(mr1), "it lists the object")
			stranger := parsed(t, "apps/v1", "Deployment", "b", "12", down)
			stranger.SetAnnotations(map[string]string{resourcesv1alpha1.OriginAnnotation: "shoot/one"})
			l.clusters.Put(cluster, deployments, stranger)
			l.Expect(notified()).To(BeEmpty(), "no ManagedResource lists the other one")
		})
	}
}

// H-18: pods belong to the workloads that select them, whatever owns them.
func TestH18_EventsOfPods(t *testing.T) {
	const (
		labels   = "metadata: {labels: {app: a}}\n"
		ready    = labels + "status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}"
		pulling  = labels + "status: {phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ErrImagePull, message: not found}}}]}"
		waits    = labels + "status: {phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ImagePullBackOff, message: 'Back-off pulling image \"x\": ErrImagePull: not found'}}}]}"
		finished = labels + "status: {phase: Succeeded}"
		ending   = "metadata: {labels: {app: a}, deletionTimestamp: '2026-01-01T00:00:00Z'}\nstatus: {phase: Running, conditions: [{type: Ready, status: 'True'}]}"
		more     = "\n  terminatingReplicas: 1"
		others   = "metadata: {labels: {app: b}}\nstatus: {phase: Pending}"
	)
	one := []tracker.Cause{health}
	for name, test := range map[string]struct {
		deployment string
		pods       []string // states of one pod; "" is that it is gone
		namespace  string
		causes     []tracker.Cause
	}{
		"appears":                               {available, []string{ready}, "default", one},
		"changes nothing":                       {available, []string{ready, ready}, "default", one},
		"goes":                                  {available, []string{ready, ""}, "default", []tracker.Cause{health, health}},
		"does not count any more":               {available, []string{ready, finished}, "default", []tracker.Cause{health, health}},
		"of something else":                     {available, []string{others, ""}, "default", nil},
		"in another namespace":                  {available, []string{ready, ""}, "other", nil},
		"does not start, of a healthy workload": {available, []string{ready, pulling}, "default", one},
		"appears, of a workload that rolls out": {rolling, []string{ready}, "default", nil},
		"does not start, of one that rolls out": {rolling, []string{ready, pulling}, "default", one},
		"does not start, of an unhealthy one":   {down, []string{pulling}, "default", one},
		"and still does not":                    {down, []string{pulling, waits, pulling, waits}, "default", one},
		"starts after all":                      {down, []string{pulling, ready}, "default", []tracker.Cause{health, health}},
		"is being deleted":                      {available, []string{ready, ending}, "default", one},
		"is the one that was missing":           {available + more, []string{ready, ending}, "default", []tracker.Cause{health, health}},
		"takes the label off":                   {available, []string{ready, others}, "default", []tracker.Cause{health, health}},
		"does not start, of a skipped workload": {down + skipped, []string{pulling, ""}, "default", nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t, "apps/v1", "Deployment", deployments, available)
			l.becomes(test.deployment)
			l.clusters.Sync(cluster, podsWatch, true)
			l.causes()
			for i, state := range test.pods {
				if state == "" {
					l.clusters.Delete(cluster, podsWatch, types.NamespacedName{Namespace: test.namespace, Name: "p"})
					continue
				}
				pod := parsed(t, "v1", "Pod", "p", fmt.Sprint(100+i), state)
				pod.SetNamespace(test.namespace)
				l.clusters.Put(cluster, podsWatch, pod)
			}
			if test.causes == nil {
				l.Expect(l.causes()).To(BeEmpty())
				return
			}
			l.Expect(l.causes()).To(Equal(test.causes))
		})
	}

	t.Run("while its workload is written", func(t *testing.T) {
		l := newLive(t, "apps/v1", "Deployment", deployments, available)
		l.Begin(mr1)
		l.clusters.Put(cluster, podsWatch, parsed(t, "v1", "Pod", "p", "100", ready))
		l.Expect(l.causes()).To(BeEmpty())
	})
	t.Run("of a Deployment that is left alone once it exists", func(t *testing.T) {
		g, s := NewWithT(t), newSetup()
		ignored := ref("Deployment", "default", "a")
		ignored.APIVersion = "apps/v1"
		ignored.Annotations = map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
		g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{ignored}, tracker.Exact{})).To(Succeed())
		s.clusters.Put(cluster, deployments+" default/a", parsed(t, "apps/v1", "Deployment", "a", "10", available))
		s.causes()
		s.clusters.Put(cluster, podsWatch, parsed(t, "v1", "Pod", "p", "100", ready))
		g.Expect(s.causes()).To(ConsistOf(health))
	})
	for _, kind := range []string{"StatefulSet", "DaemonSet"} {
		t.Run("of a "+kind, func(t *testing.T) {
			l := newLive(t, "apps/v1", kind, kind+".v1.apps", "spec: {replicas: 0, selector: {matchLabels: {app: a}}}\nstatus: {observedGeneration: 2}")
			l.clusters.Put(cluster, podsWatch, parsed(t, "v1", "Pod", "p", "100", pulling))
			l.Expect(l.causes()).To(BeEmpty(), "it is healthy all the same")
			l.Expect(l.Judge(mr1).PodsUnknown).To(BeFalse(), "pods explain it, but do not decide")
			l.becomes("spec: {replicas: 1, selector: {matchLabels: {app: a}}}\nstatus: {observedGeneration: 1}")
			l.Expect(l.causes()).To(ConsistOf(health))
			l.clusters.Delete(cluster, podsWatch, types.NamespacedName{Namespace: "default", Name: "p"})
			l.Expect(l.causes()).To(ConsistOf(health))
		})
	}
}

// A pod that the hub wrote is compared like everything else; other fields of a pod that it did not write are ignored.
func TestDriftOfPods(t *testing.T) {
	foreign := managed("kubectl", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:y":{}}}`)
	for name, test := range map[string]struct {
		fields  []metav1.ManagedFieldsEntry
		changed []metav1.ManagedFieldsEntry
		drift   bool
	}{
		"its own, touched": {
			[]metav1.ManagedFieldsEntry{managed("trellis", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:x":{}}}`)},
			[]metav1.ManagedFieldsEntry{managed("trellis", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:x":{}}}`), foreign}, true,
		},
		"its own, taken away": {
			[]metav1.ManagedFieldsEntry{managed("trellis", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:x":{}}}`)},
			[]metav1.ManagedFieldsEntry{foreign}, true,
		},
		"without managed fields": {nil, nil, false},
		"of another writer": {
			[]metav1.ManagedFieldsEntry{foreign},
			[]metav1.ManagedFieldsEntry{foreign, managed("other", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:z":{}}}`)}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), newSetup()
			r := ref("Pod", "default", "a")
			g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{r}, tracker.Exact{})).To(Succeed())
			s.clusters.Sync(cluster, podsWatch, true)
			pod := parsed(t, "v1", "Pod", "a", "10", "status: {phase: Running}")
			pod.SetManagedFields(test.fields)
			s.Accept(mr1, inventory.KeyOf(r), tracker.Accepted{UID: pod.GetUID(), ResourceVersion: "10", State: ownership.Observe(pod, "trellis")})
			s.clusters.Put(cluster, podsWatch, pod)
			g.Expect(s.Judge(mr1).Drifted).To(BeEmpty())
			pod = pod.DeepCopy()
			pod.SetResourceVersion("11")
			pod.SetManagedFields(test.changed)
			s.clusters.Put(cluster, podsWatch, pod)
			g.Expect(s.Judge(mr1).Drifted).To(HaveLen(map[bool]int{true: 1}[test.drift]))
		})
	}
}

func TestPodsByNamespace(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	deployment := ref("Deployment", "default", "a")
	deployment.APIVersion = "apps/v1"
	g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{deployment}, tracker.Exact{})).To(Succeed())
	_, synced := s.Pods(cluster)
	g.Expect(synced).To(BeFalse())
	s.clusters.Sync(cluster, podsWatch, true)
	for i, namespace := range []string{"default", "default", "other"} {
		pod := parsed(t, "v1", "Pod", fmt.Sprint("p", i), "100", "status: {phase: Running}")
		pod.SetNamespace(namespace)
		s.clusters.Put(cluster, podsWatch, pod)
	}
	pods, synced := s.Pods(cluster)
	g.Expect(synced).To(BeTrue())
	names := func(namespace string) (names []string) {
		for pod := range pods.Of(namespace, labels.Everything()) {
			names = append(names, pod.Name)
		}
		return names
	}
	g.Expect(names("default")).To(ConsistOf("p0", "p1"))
	g.Expect(names("other")).To(ConsistOf("p2"))
	g.Expect(names("third")).To(BeEmpty())
	for range pods.Of("default", labels.Everything()) {
		break // must not continue
	}
}

// A workload goes over those pods alone that may be its own, and over none too few.
func TestPodsOfASelector(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	deployment := ref("Deployment", "default", "a")
	deployment.APIVersion = "apps/v1"
	g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{deployment}, tracker.Exact{})).To(Succeed())
	s.clusters.Sync(cluster, podsWatch, true)
	for name, with := range map[string]string{
		"a1": "{part-of: all, app: a}", "a2": "{part-of: all, app: a, tier: x}", "b": "{part-of: all, app: b}", "empty": "{app: ''}", "none": "{}",
	} {
		s.clusters.Put(cluster, podsWatch, parsed(t, "v1", "Pod", name, "100", "metadata: {labels: "+with+"}\nstatus: {phase: Running}"))
	}
	pods, _ := s.Pods(cluster)
	for selector, want := range map[string][]string{
		"app=a":               {"a1", "a2"},
		"app==b":              {"b"},
		"app in (b)":          {"b"},
		"app=":                {"empty"},
		"app=c":               {},
		"app=a,part-of=all":   {"a1", "a2"},
		"part-of=all,tier=x":  {"a2"},
		"app=a,tier!=x":       {"a1", "a2"},
		"app in (a,b)":        {"a1", "a2", "b", "empty", "none"},
		"!app":                {"a1", "a2", "b", "empty", "none"},
		"app notin (a)":       {"a1", "a2", "b", "empty", "none"},
		"part-of,app=a,app=b": {"b"},
	} {
		parsed, err := labels.Parse(selector)
		g.Expect(err).NotTo(HaveOccurred())
		var got []string
		for range 2 { // the second time from what the first one found
			got = nil
			for pod := range pods.Of("default", parsed) {
				got = append(got, pod.Name)
			}
		}
		g.Expect(got).To(ConsistOf(want), selector)
	}
	for pod := range pods.Of("default", labels.Nothing()) {
		g.Expect(labels.Nothing().Matches(&pod.Labels)).To(BeFalse())
	}
}

// A kind in two versions has two watches; an event counts only for ManagedResources that list that version.
func TestTwoVersionsOfAKind(t *testing.T) {
	const old = "Thing.v1beta1.example.com"
	l := newLive(t, "example.com/v1", "Thing", things, "")
	older := ref("Thing", "default", "b")
	older.APIVersion = "example.com/v1beta1"
	newer := ref("Thing", "default", "a")
	newer.APIVersion = "example.com/v1"
	keyB := inventory.KeyOf(older)
	l.Expect(l.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{newer, older}, tracker.Exact{})).To(Succeed())
	l.Expect(l.watchNames()).To(Equal([]string{things, old}))
	l.Expect(l.WatchOf(mr1, keyB)).To(Equal(old))
	l.Expect(l.WatchOf(mr1, l.key)).To(Equal(things))
	l.Expect(l.WatchOf(mr2, l.key)).To(BeEmpty())
	l.Expect(l.Judge(mr1).Synced).To(BeFalse())

	l.clusters.Sync(cluster, old, true)
	b := parsed(t, "example.com/v1beta1", "Thing", "b", "10", "")
	l.Accept(mr1, keyB, tracker.Accepted{UID: b.GetUID(), ResourceVersion: "10", State: ownership.Observe(b, "trellis")})
	// Both watches show both objects, each in its version.
	for _, name := range []string{"a", "b"} {
		l.clusters.Put(cluster, things, parsed(t, "example.com/v1", "Thing", name, "10", ""))
		l.clusters.Put(cluster, old, parsed(t, "example.com/v1beta1", "Thing", name, "10", ""))
	}
	v := l.Judge(mr1)
	l.Expect(v.Synced).To(BeTrue())
	l.Expect(v.Observed).To(HaveLen(2))
	l.Expect(v.Drifted).To(BeEmpty())
	l.causes()

	unready := func(version, name string) *unstructured.Unstructured {
		return parsed(t, version, "Thing", name, "11", "status: {conditions: [{type: Ready, status: 'False'}]}")
	}
	l.clusters.Put(cluster, old, unready("example.com/v1beta1", "a"))
	l.Expect(l.causes()).To(BeEmpty(), "the other watch will show it")
	l.clusters.Delete(cluster, old, l.key.NamespacedName())
	l.Expect(l.causes()).To(BeEmpty())
	l.Expect(l.Judge(mr1).Missing).To(BeEmpty())
	l.clusters.Put(cluster, old, unready("example.com/v1beta1", "b"))
	l.Expect(l.causes()).To(ConsistOf(health))
	l.clusters.Put(cluster, things, unready("example.com/v1", "a"))
	l.Expect(l.causes()).To(ConsistOf(health))

	// The old version is no longer served: that does not affect ManagedResources that no longer list it.
	moved := newer
	moved.Name = "b"
	l.Expect(l.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{newer, moved}, tracker.Exact{})).To(Succeed())
	l.Expect(l.watchNames()).To(Equal([]string{things}))
	obs, found, synced := l.Observed(mr1, keyB)
	l.Expect(found && synced).To(BeTrue())
	l.Expect(obs.UID).To(Equal(b.GetUID()))
}

// What is kept of an object is small, however large the object is.
func TestNothingOfAnObjectIsKept(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	r := ref("Thing", "default", "a")
	r.APIVersion = "example.com/v1"
	g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{r}, tracker.Exact{})).To(Succeed())
	const count, size = 32, 1 << 20
	before := heap()
	for i := range count {
		obj := parsed(t, "example.com/v1", "Thing", fmt.Sprint(i), "10", "")
		obj.Object["spec"] = strings.Repeat("x", size/2)
		g.Expect(unstructured.SetNestedSlice(obj.Object, []any{
			map[string]any{"type": "Ready", "status": "False", "message": strings.Repeat("x", size/2)},
		}, "status", "conditions")).To(Succeed())
		s.clusters.Put(cluster, things, obj)
	}
	g.Expect(heap() - before).To(BeNumerically("<", count*size/8))
	runtime.KeepAlive(s)
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// names returns a function that returns which ManagedResources were notified since its last call.
func (s *setup) names() func() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notified = nil
	return func() []types.NamespacedName {
		s.mu.Lock()
		defer s.mu.Unlock()
		names := s.notified
		s.notified = nil
		return names
	}
}
