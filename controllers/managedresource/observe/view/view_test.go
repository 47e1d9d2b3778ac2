package view_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/fake"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/notes"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/view"
	"github.com/trellis-hub/trellis/engine/inventory"
)

var (
	mr      = types.NamespacedName{Namespace: "a", Name: "mr"}
	cluster = clustercache.ClusterKey{Namespace: "a", Name: "target"}
)

// looking is a viewer of one ManagedResource in a target whose watches the test feeds.
type looking struct {
	*WithT
	*view.Viewer
	clusters *fake.Cache
	refs     []resourcesv1alpha1.ObjectReference
	late     bool
}

func newLooking(t *testing.T, objects ...string) *looking {
	t.Helper()
	l := &looking{WithT: NewWithT(t), clusters: fake.New(nil)}
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	l.clusters.Add(cluster, fake.Target{})
	l.Viewer = &view.Viewer{
		Tracker:  tracker.New(tracker.Options{Clusters: l.clusters, Selector: labels.Everything(), Clock: clock, Notify: func(types.NamespacedName, tracker.Cause) {}}),
		Warnings: notes.New(notes.Options{Client: l.clusters.GetUncachedClient, Notify: func(types.NamespacedName) {}, Clock: clock, Logger: logr.Discard()}),
	}
	for _, text := range objects {
		obj := object(text)
		l.refs = append(l.refs, resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
			APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		}})
	}
	l.Expect(l.Tracker.Track(t.Context(), mr, cluster, l.refs, tracker.Exact{})).To(Succeed())
	return l
}

func object(text string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		panic(err) // a faulty test
	}
	return obj
}

func (l *looking) shows(watch, text string) { l.clusters.Put(cluster, watch, object(text)) }

func (l *looking) synced() {
	for name := range l.clusters.Watches(cluster) {
		l.clusters.Sync(cluster, name, true)
	}
}

func (l *looking) look() *view.View {
	return l.Collect(view.Subject{
		ManagedResource: mr, Cluster: cluster, Resources: l.refs, Comparison: l.Tracker.Judge(mr),
		Late: func(bool) bool { return l.late },
	})
}

// health and rollout are what there is to say.
func (l *looking) health() string {
	c, known := l.look().Healthy()
	return fmt.Sprint(known, " ", c.Status, " ", c.Reason, ": ", c.Message)
}

func (l *looking) rollout() string {
	c, known := l.look().Rollout()
	return fmt.Sprint(known, " ", c.Status, " ", c.Reason, ": ", c.Message)
}

func tree(name string) string {
	return fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"Tree","metadata":{"namespace":"a","name":%q,"uid":"u","resourceVersion":"1"}}`, name)
}

func TestH05_AllObjectsOfAKindThatIsNotServedAreMissing(t *testing.T) {
	l := newLooking(t, tree("one"), tree("two"))
	l.Expect(l.health()).To(HavePrefix("false"), "it is not known yet")
	l.clusters.Fail(cluster, "Tree.v1.example.org", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Tree"}})
	const none = ` does not exist: no matches for kind "Tree"`
	l.Expect(l.health()).To(HavePrefix("true False TreeMissing: Tree.example.org a/one" + none))
	l.Expect(l.health()).To(ContainSubstring("\nTree.example.org a/two" + none))
	l.Expect(l.look().Failed).To(BeEmpty())

	// One that was just applied is of a kind that was just served.
	key := inventory.KeyOf(l.refs[0])
	l.Tracker.Accept(mr, key, tracker.Accepted{UID: "u", ResourceVersion: "1"})
	l.Expect(l.health()).To(HavePrefix("true False TreeMissing: Tree.example.org a/two"+none),
		"what is wrong with others is reported meanwhile")
	l.late = true
	l.Expect(l.health()).To(HavePrefix("true False TreeMissing: Tree.example.org a/one" + none))
}

// The first instance of a definition may be watched before the server serves its kind.
func TestKindThatIsAboutToBeServedIsNoFailure(t *testing.T) {
	l := newLooking(t, tree("one"), `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"one"}}`)
	l.Tracker.Accept(mr, inventory.KeyOf(l.refs[0]), tracker.Accepted{UID: "u", ResourceVersion: "1"})
	l.shows("ConfigMap.v1", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"one","uid":"v","resourceVersion":"1"}}`)
	l.clusters.Sync(cluster, "ConfigMap.v1", true)
	unserved := apierrors.NewGenericServerResponse(http.StatusNotFound, "list", schema.GroupResource{Group: "example.org", Resource: "trees"}, "", "404 page not found", 0, true)
	l.clusters.Fail(cluster, "Tree.v1.example.org", fmt.Errorf("cannot watch: %w", unserved))
	l.Expect(l.health()).To(HavePrefix("false"), "it is about to show")
	_, known := l.look().Rollout()
	l.Expect(known).To(BeFalse())
	l.late = true
	l.Expect(l.health()).To(HavePrefix("true False HealthCheckError: Tree.v1.example.org cannot be watched: "))
}

func TestOtherFailuresOfAWatchSayNothingOfObjects(t *testing.T) {
	l := newLooking(t, tree("one"), `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"one"}}`)
	l.synced()
	l.clusters.Fail(cluster, "Tree.v1.example.org", errors.New("forbidden"))
	l.Expect(l.health()).To(HavePrefix("true False ConfigMapMissing: ConfigMap a/one does not exist.\nTree.v1.example.org cannot be watched: forbidden"))
}

func workload(conditions string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"a","name":"w","uid":"u","resourceVersion":"1","generation":1},
"spec":{"replicas":1,"selector":{"matchLabels":{"app":"w"}}},"status":{"observedGeneration":1,"conditions":[` + conditions + `]}}`
}

const (
	available   = `{"type":"Available","status":"True"}`
	unavailable = `{"type":"Available","status":"False"}`
	done        = `{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}`
	rolls       = `{"type":"Progressing","status":"True","reason":"ReplicaSetUpdated","message":"it rolls"}`
)

func pod(name, app, status string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"a","name":%q,"uid":%q,"resourceVersion":"1","labels":{"app":%q}},"status":%s}`, name, name, app, status)
}

// What a pod waits for goes before what that leads to, in both conditions; a pod that merely starts is not worth a word
// while all goes well.
func TestPodsExplainWorkloads(t *testing.T) {
	const (
		starts = `{"phase":"Pending","containerStatuses":[{"name":"c","state":{"waiting":{"reason":"ContainerCreating"}}}]}`
		stuck  = `{"phase":"Pending","containerStatuses":[{"name":"c","state":{"waiting":{"reason":"CreateContainerConfigError","message":"no such key"}}}]}`
	)
	for name, test := range map[string]struct {
		conditions, pod, app string
		health, rollout      string
	}{
		"it rolls, its pod starts":     {available + "," + rolls, starts, "w", "ResourcesHealthy", "Deployment.apps a/w is progressing: it rolls"},
		"it rolls, its pod is stuck":   {available + "," + rolls, stuck, "w", "ResourcesHealthy", "Deployment.apps a/w is progressing: pod p: .*CreateContainerConfigError.*; it rolls"},
		"it is down, its pod starts":   {unavailable + "," + rolls, starts, "w", "Deployment.apps a/w is unhealthy: pod p: .*; condition Available is False", "Deployment.apps a/w is progressing: pod p: .*; it rolls"},
		"it is down, its pod is stuck": {unavailable + "," + done, stuck, "w", "Deployment.apps a/w is unhealthy: pod p: .*CreateContainerConfigError.*; condition Available is False", ""},
		"another one's pod is stuck":   {unavailable + "," + rolls, stuck, "x", "Deployment.apps a/w is unhealthy: condition Available is False", "Deployment.apps a/w is progressing: it rolls"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLooking(t, workload(test.conditions))
			l.shows("Deployment.v1.apps", workload(test.conditions))
			l.shows(tracker.PodWatch, pod("p", test.app, test.pod))
			l.synced()
			l.Expect(l.health()).To(MatchRegexp(test.health))
			l.Expect(l.rollout()).To(MatchRegexp(test.rollout))
			if test.app == "x" {
				l.Expect(l.health() + l.rollout()).NotTo(ContainSubstring("pod p"))
			}
			if test.pod == starts && test.health == "ResourcesHealthy" {
				l.Expect(l.rollout()).NotTo(ContainSubstring("pod p"))
			}
			if test.health != "ResourcesHealthy" {
				l.clusters.Sync(cluster, tracker.PodWatch, false)
				l.Expect(l.health()).To(MatchRegexp("true False DeploymentUnhealthy: Deployment.apps a/w is unhealthy: condition Available is False"), "pods that are not listed explain nothing")
			}
		})
	}
}

// The pods of an ignored Deployment bear no label of ours, so the watch does not show them, or it shows some of another
// client's: the Deployment is believed.
func TestIgnoredDeploymentIsBelievedAboutItsPods(t *testing.T) {
	const isProgressing = "true True DeploymentProgressing: Deployment.apps a/w is progressing: "
	for status, c := range map[string]struct{ counted, want string }{
		`"replicas":1,"updatedReplicas":1`: {isProgressing + "0 of 1 pods", "true False ResourcesRolledOut: "},
		`"replicas":1,"updatedReplicas":0`: {
			isProgressing + "old pods remain: 0 of 1", isProgressing + "old pods remain: 0 of 1 pods are updated",
		},
	} {
		manifest := strings.Replace(workload(available+","+done), `"observedGeneration"`, status+`,"observedGeneration"`, 1)
		l := newLooking(t, manifest)
		for name := range l.clusters.Watches(cluster) {
			l.clusters.Sync(cluster, name, true)
		}
		l.shows("Deployment.v1.apps", manifest)
		l.Expect(l.rollout()).To(HavePrefix(c.counted), "one that is not ignored")

		l.refs[0].Annotations = map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
		l.Expect(l.Tracker.Track(t.Context(), mr, cluster, l.refs, tracker.Exact{})).To(Succeed())
		l.synced()
		l.shows("Deployment.v1.apps a/w", manifest)
		l.Expect(l.rollout()).To(HavePrefix(c.want))
		l.shows(tracker.PodWatch, pod("old", "w", `{"phase":"Running"}`))
		l.shows(tracker.PodWatch, pod("older", "w", `{"phase":"Running"}`))
		l.Expect(l.rollout()).To(HavePrefix(c.want))
		l.clusters.Sync(cluster, tracker.PodWatch, false)
		l.Expect(l.rollout()).To(HavePrefix(c.want), "whether or not pods are listed")
		l.Expect(l.look().Unjudged).To(BeFalse())
	}
}
