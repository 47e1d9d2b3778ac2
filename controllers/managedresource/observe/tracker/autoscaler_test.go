package tracker_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

const (
	deployments = "Deployment.v1.apps"
	autoscalers = "HorizontalPodAutoscaler.autoscaling scaleTargetRef"
)

var workload = inventory.Key{Group: "apps", Kind: "Deployment", Namespace: "default", Name: "d"}

func workloadRef(apiVersion string) resourcesv1alpha1.ObjectReference {
	r := ref("Deployment", "default", "d")
	r.APIVersion = apiVersion
	return r
}

func autoscaler(name, apiVersion, kind, target string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
		"metadata": map[string]any{"namespace": "default", "name": name, "uid": name},
		"spec":     map[string]any{"scaleTargetRef": map[string]any{"apiVersion": apiVersion, "kind": kind, "name": target}, "maxReplicas": int64(5)},
	}}
}

func liveWorkload(version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"namespace": "default", "name": "d", "uid": "uid", "resourceVersion": version, "generation": int64(1)},
	}}
}

// scalable has one Deployment tracked and accepted without fields of other writers, and the autoscalers' watch synced
// and empty.
func scalable(t *testing.T) (*WithT, *setup) {
	g, s := NewWithT(t), newSetup()
	g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{workloadRef("apps/v1")}, tracker.Exact{})).To(Succeed())
	for _, w := range s.watchNames() {
		s.clusters.Sync(cluster, w, true)
	}
	s.Accept(mr1, workload, tracker.Accepted{UID: "uid", ResourceVersion: "10", State: ownership.Observe(liveWorkload("10"), "trellis")})
	s.clusters.Put(cluster, deployments, liveWorkload("10"))
	g.Expect(s.Judge(mr1).Synced).To(BeTrue())
	s.causes()
	return g, s
}

func TestAutoscalersAreWatchedWhileTheyMatter(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	track := func(refs ...resourcesv1alpha1.ObjectReference) []string {
		g.Expect(s.Track(t.Context(), mr1, cluster, refs, tracker.Exact{})).To(Succeed())
		return s.watchNames()
	}
	preserving, ignored := workloadRef("apps/v1"), workloadRef("apps/v1")
	preserving.Annotations = map[string]string{resourcesv1alpha1.PreserveReplicasAnnotation: "true"}
	ignored.Annotations = map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
	truthy := workloadRef("apps/v1")
	truthy.Annotations = map[string]string{resourcesv1alpha1.PreserveReplicasAnnotation: "1"}
	set := ref("StatefulSet", "default", "s")
	set.APIVersion = "apps/v1"
	daemons := ref("DaemonSet", "default", "s")
	daemons.APIVersion = "apps/v1"

	g.Expect(track(ref("ConfigMap", "default", "a"), daemons)).NotTo(ContainElement(autoscalers))
	g.Expect(track(workloadRef("apps/v1"))).To(ContainElement(autoscalers))
	g.Expect(track(preserving)).NotTo(ContainElement(autoscalers), "its replicas are not compared")
	g.Expect(track(truthy)).To(ContainElement(autoscalers), "the annotation is compared exactly")
	g.Expect(track(ignored)).NotTo(ContainElement(autoscalers))
	g.Expect(track(set)).To(ContainElement(autoscalers))
	g.Expect(track(workloadRef("extensions/v1beta1"))).To(ContainElement(autoscalers))
	w := s.clusters.Watches(cluster)[autoscalers]
	g.Expect(w.LabelSelector).To(BeNil(), "autoscalers are seldom ours")
	g.Expect(w.Namespace).To(BeEmpty())
	g.Expect(track()).To(BeEmpty())
	_, synced := s.Autoscaled(cluster, workload)
	g.Expect(synced).To(BeFalse())
}

func TestW16_AutoscaledObjects(t *testing.T) {
	for name, test := range map[string]struct {
		apiVersion, kind, target string
		yes                      bool
	}{
		"aimed at":                         {"apps/v1", "Deployment", "d", true},
		"aimed at in another version":      {"apps/v1beta2", "Deployment", "d", true},
		"aimed at under its old name":      {"extensions/v1beta1", "Deployment", "d", true},
		"another kind":                     {"apps/v1", "StatefulSet", "d", false},
		"another name":                     {"apps/v1", "Deployment", "e", false},
		"another group":                    {"example.org/v1", "Deployment", "d", false},
		"no group":                         {"", "Deployment", "d", false},
		"W16 an API version that is none":  {"a/b/c/d", "Deployment", "d", false},
		"W16 a broken one, of another one": {"a/b/c/d", "Deployment", "e", false},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := scalable(t)
			s.clusters.Put(cluster, autoscalers, autoscaler("broken", "//", "Deployment", "d"))
			s.clusters.Put(cluster, autoscalers, autoscaler("hpa", test.apiVersion, test.kind, test.target))
			yes, synced := s.Autoscaled(cluster, workload)
			g.Expect(synced).To(BeTrue())
			g.Expect(yes).To(Equal(test.yes))
			old := workload
			old.Group = "extensions"
			yes, _ = s.Autoscaled(cluster, old)
			g.Expect(yes).To(Equal(test.yes))
			elsewhere := workload
			elsewhere.Namespace = "other"
			yes, _ = s.Autoscaled(cluster, elsewhere)
			g.Expect(yes).To(BeFalse(), "an autoscaler acts in its own namespace")
		})
	}
}

func TestAutoscalerThatAppearsDoesNotNotify(t *testing.T) {
	g, s := scalable(t)
	s.clusters.Put(cluster, autoscalers, autoscaler("hpa", "apps/v1", "Deployment", "d"))
	g.Expect(s.causes()).To(BeEmpty())
	v := s.Judge(mr1)
	g.Expect(v.Drifted).To(BeEmpty())
	g.Expect(v.Unseen).To(BeZero())
	states, _ := s.AcceptedStates(mr1)
	g.Expect(states[workload].Autoscaled).To(BeTrue(), "but it is remembered")
}

func TestAutoscalerThatLeavesIsDrift(t *testing.T) {
	for name, leave := range map[string]func(s *setup){
		"deleted": func(s *setup) {
			s.clusters.Delete(cluster, autoscalers, types.NamespacedName{Namespace: "default", Name: "hpa"})
		},
		"aimed elsewhere": func(s *setup) { s.clusters.Put(cluster, autoscalers, autoscaler("hpa", "apps/v1", "Deployment", "e")) },
		"broken":          func(s *setup) { s.clusters.Put(cluster, autoscalers, autoscaler("hpa", "//", "Deployment", "d")) },
	} {
		t.Run(name, func(t *testing.T) {
			g, s := scalable(t)
			s.clusters.Put(cluster, autoscalers, autoscaler("hpa", "extensions/v1beta1", "Deployment", "d"))
			s.Judge(mr1)
			s.causes()
			leave(s)
			g.Expect(s.causes()).To(ConsistOf(tracker.CauseDrift))
			g.Expect(s.Judge(mr1).Drifted).To(ConsistOf(workload))
			s.Accept(mr1, workload, tracker.Accepted{UID: "uid", ResourceVersion: "10", State: ownership.Observe(liveWorkload("10"), "trellis")})
			g.Expect(s.Judge(mr1).Drifted).To(BeEmpty())
		})
	}
}

func TestOneOfTwoAutoscalersLeaves(t *testing.T) {
	g, s := scalable(t)
	s.clusters.Put(cluster, autoscalers, autoscaler("one", "apps/v1", "Deployment", "d"))
	s.clusters.Put(cluster, autoscalers, autoscaler("two", "apps/v1", "Deployment", "d"))
	s.Judge(mr1)
	s.clusters.Delete(cluster, autoscalers, types.NamespacedName{Namespace: "default", Name: "one"})
	g.Expect(s.Judge(mr1).Drifted).To(BeEmpty())
}

// The target answered that there is an autoscaler that the watch does not show: the watch is late, or the autoscaler is
// gone.
func TestAutoscalerThatTheWatchDoesNotShow(t *testing.T) {
	g, s := scalable(t)
	s.Accept(mr1, workload, tracker.Accepted{UID: "uid", ResourceVersion: "10", State: ownership.Observe(liveWorkload("10"), "trellis"), Autoscaled: true})
	v := s.Judge(mr1)
	g.Expect(v.Drifted).To(BeEmpty())
	g.Expect(v.Unseen).To(Equal(1), "it has to be judged again")
	s.clusters.Put(cluster, autoscalers, autoscaler("hpa", "apps/v1", "Deployment", "d"))
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth), "that is what was waited for")
	g.Expect(s.Judge(mr1).Unseen).To(BeZero())

	s.clusters.Delete(cluster, autoscalers, types.NamespacedName{Namespace: "default", Name: "hpa"})
	s.Accept(mr1, workload, tracker.Accepted{UID: "uid", ResourceVersion: "10", State: ownership.Observe(liveWorkload("10"), "trellis"), Autoscaled: true})
	g.Expect(s.Judge(mr1).Drifted).To(BeEmpty())
	s.clock.Step(tracker.UnseenGrace)
	g.Expect(s.Judge(mr1).Drifted).To(ConsistOf(workload))
}

func TestUnsyncedAutoscalers(t *testing.T) {
	g, s := scalable(t)
	s.clusters.Put(cluster, autoscalers, autoscaler("hpa", "apps/v1", "Deployment", "d"))
	s.Judge(mr1)
	s.clusters.Fail(cluster, autoscalers, errors.New("forbidden"))
	v := s.Judge(mr1)
	g.Expect(v.AutoscalersUnknown).To(BeTrue())
	g.Expect(v.Drifted).To(BeEmpty(), "nothing is concluded")
	g.Expect(v.Failed).To(HaveKeyWithValue(autoscalers, MatchError("forbidden")))
	_, synced := s.Autoscaled(cluster, workload)
	g.Expect(synced).To(BeFalse())
	s.causes()
	s.clusters.Sync(cluster, autoscalers, true)
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth))
	g.Expect(s.Judge(mr1).AutoscalersUnknown).To(BeFalse())

	s.clusters.Delete(cluster, autoscalers, types.NamespacedName{Namespace: "default", Name: "hpa"})
	s.clusters.Fail(cluster, autoscalers, &meta.NoKindMatchError{GroupKind: tracker.AutoscalerKind.GroupKind()})
	yes, synced := s.Autoscaled(cluster, workload)
	g.Expect(synced).To(BeTrue(), "a target that does not know autoscalers has none")
	g.Expect(yes).To(BeFalse())
	g.Expect(s.Judge(mr1).AutoscalersUnknown).To(BeFalse())
}

// A restart compares fingerprints: it must notice that an autoscaler went while the hub was down, and may ignore one
// that came.
func TestRestartComparesAutoscalers(t *testing.T) {
	g := NewWithT(t)
	states := func(autoscaled bool) map[inventory.Key]tracker.Accepted {
		return map[inventory.Key]tracker.Accepted{workload: {UID: "uid", State: ownership.State{Own: 1}, Autoscaled: autoscaled}}
	}
	g.Expect(tracker.Fingerprint(states(true))).NotTo(Equal(tracker.Fingerprint(states(false))))
	came := states(true)
	g.Expect(tracker.Fingerprint(tracker.WithoutAutoscalers(came))).To(Equal(tracker.Fingerprint(states(false))))
	g.Expect(came).To(Equal(states(true)), "the original stays")

	_, s := scalable(t)
	s.clusters.Put(cluster, autoscalers, autoscaler("hpa", "apps/v1", "Deployment", "d"))
	restarted := newSetup()
	g.Expect(restarted.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{workloadRef("apps/v1")}, tracker.Exact{})).To(Succeed())
	restarted.clusters.Sync(cluster, deployments, true)
	restarted.clusters.Put(cluster, deployments, liveWorkload("10"))
	g.Expect(restarted.Judge(mr1).AutoscalersUnknown).To(BeTrue())
	restarted.clusters.Put(cluster, autoscalers, autoscaler("hpa", "apps/v1", "Deployment", "d"))
	restarted.clusters.Sync(cluster, autoscalers, true)
	g.Expect(restarted.Judge(mr1).Observed[workload].Autoscaled).To(BeTrue())
}
