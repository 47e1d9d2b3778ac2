package tracker_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/fake"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

var (
	cluster = clustercache.ClusterKey{Namespace: "shoot", Name: "a"}
	mr1     = types.NamespacedName{Namespace: "shoot", Name: "one"}
	mr2     = types.NamespacedName{Namespace: "shoot", Name: "two"}
	key     = inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: "a"}
)

const watch = "ConfigMap.v1"

type setup struct {
	*tracker.Tracker
	clusters *fake.Cache
	clock    *clocktesting.FakeClock

	mu       sync.Mutex
	reported []tracker.Cause
	notified []types.NamespacedName
}

func newSetup() *setup {
	s := &setup{clusters: fake.New(nil), clock: clocktesting.NewFakeClock(time.Unix(1e9, 0))}
	s.clusters.Add(cluster, fake.Target{})
	s.Tracker = tracker.New(tracker.Options{
		Clusters: s.clusters, FieldManager: "trellis", Selector: labels.Everything(), Clock: s.clock,
		Notify: func(mr types.NamespacedName, cause tracker.Cause) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.reported = append(s.reported, cause)
			s.notified = append(s.notified, mr)
		},
	})
	return s
}

// causes returns what was reported since the last call.
func (s *setup) causes() []tracker.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	reported := s.reported
	s.reported = nil
	return reported
}

// watchNames are those of the watches that are declared, sorted.
func (s *setup) watchNames() []string {
	return slices.Sorted(maps.Keys(s.clusters.Watches(cluster)))
}

func ref(kind, namespace, name string) resourcesv1alpha1.ObjectReference {
	r := resourcesv1alpha1.ObjectReference{}
	r.APIVersion, r.Kind, r.Namespace, r.Name = "v1", kind, namespace, name
	return r
}

// configMap is a live object with one field of ours, and one of another client if foreign is set.
func configMap(version, foreign string) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap.v1"})
	obj.Namespace, obj.Name, obj.UID, obj.ResourceVersion = key.Namespace, key.Name, "uid", version
	obj.ManagedFields = []metav1.ManagedFieldsEntry{managed("trellis", metav1.ManagedFieldsOperationApply, `{"f:data":{"f:key":{}}}`)}
	if foreign != "" {
		obj.ManagedFields = append(obj.ManagedFields, managed("kubectl", metav1.ManagedFieldsOperationUpdate, `{"f:data":{"f:`+foreign+`":{}}}`))
	}
	return obj
}

func managed(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	f := &metav1.FieldsV1{}
	f.SetRawBytes([]byte(fields))
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: f}
}

func accepted(version string) tracker.Accepted {
	obj := configMap(version, "")
	return tracker.Accepted{UID: obj.UID, ResourceVersion: version, State: ownership.Observe(obj, "trellis")}
}

// settled has one object tracked, accepted at version 10, and seen.
func settled(t *testing.T) (*WithT, *setup) {
	g, s := NewWithT(t), newSetup()
	g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a")}, tracker.Exact{})).To(Succeed())
	s.clusters.Sync(cluster, watch, true)
	s.Accept(mr1, key, accepted("10"))
	s.clusters.Put(cluster, watch, configMap("10", ""))
	s.causes()
	return g, s
}

func TestOwnWritesDoNotNotify(t *testing.T) {
	g, s := settled(t)
	s.clusters.Put(cluster, watch, configMap("10", ""))
	g.Expect(s.causes()).To(BeEmpty())
	v := s.Judge(mr1)
	g.Expect(v.Synced).To(BeTrue())
	g.Expect(slices.Concat(v.Drifted, v.Missing, v.Unknown)).To(BeEmpty())
	g.Expect(v.Unseen).To(BeZero())
}

func TestForeignFieldIsDrift(t *testing.T) {
	g, s := settled(t)
	s.clusters.Put(cluster, watch, configMap("11", "other"))
	g.Expect(s.causes()).To(ContainElement(tracker.CauseDrift))
	g.Expect(s.Judge(mr1).Drifted).To(ConsistOf(key))
}

func TestLostFieldIsDrift(t *testing.T) {
	g, s := settled(t)
	obj := configMap("11", "")
	obj.ManagedFields = []metav1.ManagedFieldsEntry{managed("trellis", metav1.ManagedFieldsOperationApply, `{"f:data":{}}`)}
	s.clusters.Put(cluster, watch, obj)
	g.Expect(s.Judge(mr1).Drifted).To(ConsistOf(key))
}

func TestStatusWritesAreNoDrift(t *testing.T) {
	g, s := settled(t)
	obj := configMap("11", "")
	status := managed("controller", metav1.ManagedFieldsOperationUpdate, `{"f:status":{"f:x":{}}}`)
	status.Subresource = "status"
	foreignLabel := managed("kubectl", metav1.ManagedFieldsOperationUpdate, `{"f:metadata":{"f:labels":{"f:team":{}}}}`)
	obj.ManagedFields = append(obj.ManagedFields, status, foreignLabel)
	s.clusters.Put(cluster, watch, obj)
	g.Expect(s.causes()).To(BeEmpty())
	g.Expect(s.Judge(mr1).Drifted).To(BeEmpty())
}

func TestEventsOlderThanTheLastWriteDoNotNotify(t *testing.T) {
	g, s := settled(t)
	s.Begin(mr1)
	s.Accept(mr1, key, accepted("20"))
	s.End(mr1)
	s.clusters.Put(cluster, watch, configMap("15", "other"))
	g.Expect(s.causes()).To(BeEmpty())
	v := s.Judge(mr1)
	g.Expect(v.Drifted).To(BeEmpty())
	g.Expect(v.Unseen).To(Equal(1))
	s.clusters.Put(cluster, watch, configMap("20", ""))
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth), "the last write was seen")
	g.Expect(s.Judge(mr1).Unseen).To(BeZero())
}

func TestEventsDuringARunAreJudgedAfterIt(t *testing.T) {
	g, s := settled(t)
	s.Begin(mr1)
	s.clusters.Put(cluster, watch, configMap("11", "other"))
	g.Expect(s.causes()).To(BeEmpty())
	s.End(mr1)
	g.Expect(s.Judge(mr1).Drifted).To(ConsistOf(key))
}

func TestDeletedObjectIsMissing(t *testing.T) {
	g, s := settled(t)
	s.clusters.Delete(cluster, watch, key.NamespacedName())
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseDrift))
	g.Expect(s.Judge(mr1).Missing).To(ConsistOf(key))
}

func TestObjectDeletedDuringARunIsMissingAfterIt(t *testing.T) {
	g, s := settled(t)
	s.Begin(mr1)
	s.Accept(mr1, key, accepted("20"))
	s.clusters.Delete(cluster, watch, key.NamespacedName())
	s.End(mr1)
	g.Expect(s.Judge(mr1).Missing).To(ConsistOf(key))
}

func TestObjectJustCreatedIsNotMissing(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a")}, tracker.Exact{})).To(Succeed())
	s.clusters.Sync(cluster, watch, true)
	s.Accept(mr1, key, accepted("10"))
	v := s.Judge(mr1)
	g.Expect(v.Missing).To(BeEmpty())
	g.Expect(v.Unseen).To(Equal(1))
}

func TestNothingIsConcludedBeforeTheFirstList(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a")}, tracker.Exact{})).To(Succeed())
	v := s.Judge(mr1)
	g.Expect(v.Synced).To(BeFalse())
	g.Expect(v.Missing).To(BeEmpty())

	s.clusters.Fail(cluster, watch, errors.New("forbidden"))
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth))
	g.Expect(s.Judge(mr1).Failed).To(HaveKeyWithValue(watch, MatchError("forbidden")))

	s.clusters.Sync(cluster, watch, true)
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth))
	g.Expect(s.Judge(mr1).Missing).To(ConsistOf(key))
}

// The watch of a kind fails until the kind is served. That an object of it was written shows that it is.
func TestWriteAfterAFailureOfTheWatchIsBelieved(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	refs := []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a")}
	g.Expect(s.Track(t.Context(), mr1, cluster, refs, tracker.Exact{})).To(Succeed())
	s.clusters.Fail(cluster, watch, errors.New("no matches"))
	s.Accept(mr1, key, accepted("10"))
	g.Expect(s.Judge(mr1).Believed).To(BeEmpty(), "it is unknown which was first")
	s.clock.Step(time.Millisecond)
	s.Accept(mr1, key, accepted("10"))
	g.Expect(s.Judge(mr1).Believed).To(ConsistOf(key))
	g.Expect(s.Judge(mr1).Failed).To(HaveKey(watch), "that it fails is said all the same")
	s.clock.Step(time.Millisecond)
	s.clusters.Fail(cluster, watch, errors.New("forbidden"))
	g.Expect(s.Judge(mr1).Believed).To(BeEmpty(), "it failed again")
}

func TestTheLastOfSeveralWatchesNotifies(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	deployment := ref("Deployment", "default", "d")
	deployment.APIVersion = "apps/v1"
	refs := []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a"), ref("Secret", "default", "s"), deployment}
	g.Expect(s.Track(t.Context(), mr1, cluster, refs, tracker.Exact{})).To(Succeed())
	g.Expect(s.Judge(mr1).Synced).To(BeFalse())
	names := s.watchNames()
	g.Expect(names).To(HaveLen(5), "with those of autoscalers and Pods")

	failing := names[0]
	for _, name := range names[1 : len(names)-1] {
		s.clusters.Sync(cluster, name, true)
		g.Expect(s.causes()).To(BeEmpty(), name)
	}
	s.clusters.Sync(cluster, names[len(names)-1], true)
	g.Expect(s.causes()).To(BeEmpty(), "one is missing")
	s.clusters.Fail(cluster, failing, errors.New("forbidden"))
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth))
	g.Expect(s.Judge(mr1).Failed).To(HaveKey(failing))

	s.clusters.Sync(cluster, names[1], false)
	s.clusters.Sync(cluster, names[1], true)
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth), "what fails is not waited for")
	s.clusters.Sync(cluster, failing, true)
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth))
	g.Expect(s.Judge(mr1).Synced).To(BeTrue())
}

func TestRestartComparesFolds(t *testing.T) {
	g, s := settled(t)
	states, complete := s.AcceptedStates(mr1)
	g.Expect(complete).To(BeTrue())
	before := tracker.Fingerprint(states)

	restarted := newSetup()
	g.Expect(restarted.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a")}, tracker.Exact{})).To(Succeed())
	restarted.clusters.Sync(cluster, watch, true)
	restarted.clusters.Put(cluster, watch, configMap("99", ""))
	v := restarted.Judge(mr1)
	g.Expect(v.Unknown).To(ConsistOf(key))
	g.Expect(tracker.Fingerprint(v.Observed)).To(Equal(before))

	restarted.clusters.Put(cluster, watch, configMap("100", "other"))
	g.Expect(tracker.Fingerprint(restarted.Judge(mr1).Observed)).NotTo(Equal(before))
}

func TestW12_WatchesComeAndGoWithNeed(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	ctx := context.Background()
	track := func(mr types.NamespacedName, refs ...resourcesv1alpha1.ObjectReference) {
		g.Expect(s.Track(ctx, mr, cluster, refs, tracker.Exact{})).To(Succeed())
	}
	deployment := ref("Deployment", "default", "d")
	deployment.APIVersion = "apps/v1"
	ignored := ref("Secret", "default", "s")
	ignored.Annotations = map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}

	track(mr1, ref("ConfigMap", "default", "a"), deployment, ignored)
	g.Expect(s.watchNames()).To(Equal([]string{"ConfigMap.v1", "Deployment.v1.apps", autoscalers, "Pod.v1", "Secret.v1 default/s"}))
	track(mr2, ref("ConfigMap", "default", "b"))
	track(mr1)
	g.Expect(s.watchNames()).To(Equal([]string{"ConfigMap.v1"}))
	s.Forget(mr2)
	g.Expect(s.watchNames()).To(BeEmpty())
	g.Expect(s.In(cluster)).To(ConsistOf(mr1))
	s.Close()
	g.Expect(s.In(cluster)).To(BeEmpty())
}

func TestChangedHealthOfADeploymentNotifies(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	deployment := ref("Deployment", "default", "d")
	deployment.APIVersion = "apps/v1"
	k := inventory.KeyOf(deployment)
	g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{deployment}, tracker.Exact{})).To(Succeed())
	s.clusters.Sync(cluster, "Deployment.v1.apps", true)
	live := func(version, available string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"namespace": "default", "name": "d", "uid": "uid", "resourceVersion": version, "generation": int64(1)},
			"spec":     map[string]any{"replicas": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"app": "d"}}},
			"status": map[string]any{"observedGeneration": int64(1), "conditions": []any{
				map[string]any{"type": "Available", "status": available},
				map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
			}},
		}}
	}
	s.Accept(mr1, k, tracker.Accepted{UID: "uid", ResourceVersion: "10", State: ownership.Observe(live("10", "True"), "trellis")})
	s.clusters.Put(cluster, "Deployment.v1.apps", live("10", "True"))
	s.causes()
	s.clusters.Put(cluster, "Deployment.v1.apps", live("11", "True"))
	g.Expect(s.causes()).To(BeEmpty())
	s.clusters.Put(cluster, "Deployment.v1.apps", live("12", "False"))
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth))
	obs, found, synced := s.Observed(mr1, k)
	g.Expect(found && synced).To(BeTrue())
	g.Expect(obs.Judgement.Health.Healthy).To(BeFalse())
}

func BenchmarkUpdate(b *testing.B) {
	s := newSetup()
	if err := s.Track(b.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a")}, tracker.Exact{}); err != nil {
		b.Fatal(err)
	}
	s.clusters.Sync(cluster, watch, true)
	s.Accept(mr1, key, accepted("10"))
	obj := configMap("10", "")
	b.ReportAllocs()
	for b.Loop() {
		s.clusters.Put(cluster, watch, obj)
	}
}

// What one knows without a call, whether or not the watches are relied upon.
func TestSettled(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(s *setup)
		want    bool
	}{
		"all is well":                  {want: true},
		"the watch is not relied upon": {func(s *setup) { s.clusters.Sync(cluster, watch, false) }, true},
		"another client changed it":    {func(s *setup) { s.clusters.Put(cluster, watch, configMap("11", "other")) }, false},
		"it is another one":            {func(s *setup) { o := configMap("11", ""); o.UID = "new"; s.clusters.Put(cluster, watch, o) }, false},
		"it is gone":                   {func(s *setup) { s.clusters.Delete(cluster, watch, key.NamespacedName()) }, false},
		"it goes": {func(s *setup) {
			o := configMap("11", "")
			o.DeletionTimestamp = new(metav1.Now())
			s.clusters.Put(cluster, watch, o)
		}, false},
		"it is worked on":   {func(s *setup) { s.Begin(mr1) }, false},
		"it is not tracked": {func(s *setup) { s.Forget(mr1) }, false},
		"something of it is not known": {func(s *setup) {
			_ = s.Track(context.Background(), mr1, cluster, []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a"), ref("ConfigMap", "default", "b")}, tracker.Exact{})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := settled(t)
			if test.happens != nil {
				test.happens(s)
			}
			g.Expect(s.Settled(mr1)).To(Equal(test.want))
		})
	}
}
