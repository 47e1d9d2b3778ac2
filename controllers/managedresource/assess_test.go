package managedresource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	clustersfake "github.com/trellis-hub/trellis/clustercache/fake"
	"github.com/trellis-hub/trellis/controllers/internal/pacing"
	"github.com/trellis-hub/trellis/controllers/managedresource/objects"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/notes"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/view"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/store"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// judging is a reconciler with one ManagedResource that is applied: a ConfigMap and a Deployment, accepted at version
// 10. Its health was not assessed yet, and no watch has listed anything.
type judging struct {
	*WithT
	*reconciler
	t             *testing.T
	ctx           context.Context
	clusters      *clustersfake.Cache
	clock         *clocktesting.FakeClock
	server        client.Client
	pace          *pacing.Pacer // of writes about targets that are away
	writes        int
	notifications int // of the tracker
	work          *scope
}

const (
	uid          = "uid-of-target" // as the fake gives it
	appliedInput = "input"         // what was applied

	messageChecksPending = "The content changed; its checks are pending."
)

func judged(t *testing.T) *judging {
	t.Helper()
	j := &judging{WithT: NewWithT(t), t: t, ctx: t.Context(), clusters: clustersfake.New(nil), clock: clocktesting.NewFakeClock(time.Unix(1e9, 0))}
	mr := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "mr", Generation: 1, Annotations: map[string]string{hubv1alpha1.TargetUIDAnnotation: uid}},
		Status: resourcesv1alpha1.ManagedResourceStatus{ObservedGeneration: 1, Resources: []resourcesv1alpha1.ObjectReference{
			{ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "c", Name: "d"}},
			{ObjectReference: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "c", Name: "d"}},
		}},
	}
	mr.Status.Conditions = resourcesv1alpha1.SetCondition(j.clock.Now(), nil, resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue, resourcesv1alpha1.ReasonApplySucceeded, "All.")
	cluster := clustercache.ClusterKey{Namespace: "a", Name: "target"}
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name}}
	scheme := runtime.NewScheme()
	j.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
	j.Expect(hubv1alpha1.AddToScheme(scheme)).To(Succeed())
	j.server = fake.NewClientBuilder().WithScheme(scheme).WithObjects(mr, tc).WithStatusSubresource(mr).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			j.writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	j.Expect(j.server.Get(j.ctx, client.ObjectKeyFromObject(mr), mr)).To(Succeed())
	j.clusters.Add(cluster, clustersfake.Target{})
	j.work = &scope{
		Subject: run.Subject{
			Name: client.ObjectKeyFromObject(mr), Target: cluster, MR: mr, State: &run.State{}, Clock: j.clock,
		},

		syncPeriod: time.Hour,
	}
	j.pace = pacing.New(status.OutagesPerSecond)
	source := store.New(j.server, j.server, func(*resourcesv1alpha1.ManagedResource) {})
	j.reconciler = &reconciler{
		store: source, targets: &objects.Targets{Clusters: j.clusters, Reader: j.server},
		status: status.NewWriter(source, j.clock, j.pace),
		clock:  j.clock, syncPeriod: time.Hour, drifts: run.NewLatencies(), changes: run.NewLatencies(),
		warnings: notes.New(notes.Options{
			Clock: j.clock, Logger: logr.Discard(), Client: j.clusters.GetUncachedClient, Notify: func(types.NamespacedName) {},
		}),
		tracker: tracker.New(tracker.Options{
			Clusters: j.clusters, FieldManager: hubv1alpha1.FieldManager, Selector: labels.Everything(), Clock: j.clock,
			Notify: func(types.NamespacedName, tracker.Cause) { j.notifications++ },
		}),
	}
	j.assessor = &status.Assessor{
		Targets: j.targets, Viewer: &view.Viewer{Tracker: j.tracker, Warnings: j.warnings},
	}
	j.health = &health{tracker: j.tracker, targets: j.targets, status: j.status, assessor: j.assessor}
	j.notes = &status.AppliedWriter{Store: source, Tracker: j.tracker}
	j.track(mr.Status.Resources...)
	for _, live := range []*unstructured.Unstructured{j.configMap("10"), j.deployment("10", "True")} {
		j.accept(live)
	}
	return j
}

func (j *judging) track(refs ...resourcesv1alpha1.ObjectReference) {
	j.Expect(j.tracker.Track(j.ctx, j.work.Name, j.work.Target, refs, tracker.Exact{})).To(Succeed())
}

func (j *judging) accept(live *unstructured.Unstructured) {
	j.tracker.Accept(j.work.Name, inventory.KeyOfObject(live), tracker.Accepted{
		UID: live.GetUID(), ResourceVersion: live.GetResourceVersion(), State: ownership.Observe(live, hubv1alpha1.FieldManager),
	})
}

func live(text string, args ...any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(fmt.Appendf(nil, text, args...)); err != nil {
		panic(err) // a faulty test
	}
	return obj
}

func (j *judging) configMap(version string) *unstructured.Unstructured {
	return live(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"c","name":"d","uid":"u","resourceVersion":%q}}`, version)
}

// deployment is one with no pods, which is available or not, and says something.
func (j *judging) deployment(version, available string, says ...string) *unstructured.Unstructured {
	return live(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"c","name":"d","uid":"u","resourceVersion":%q,"generation":1},
"spec":{"replicas":0,"selector":{"matchLabels":{"app":"d"}}},"status":{"observedGeneration":1,"conditions":[
{"type":"Available","status":%q,"reason":"R","message":%q},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`, version, available, strings.Join(says, " "))
}

// shown has the watches list all as it was accepted.
func (j *judging) shown() {
	j.clusters.Put(j.work.Target, "ConfigMap.v1", j.configMap("10"))
	j.clusters.Put(j.work.Target, "Deployment.v1.apps", j.deployment("10", "True"))
	for name := range j.clusters.Watches(j.work.Target) {
		j.clusters.Sync(j.work.Target, name, true)
	}
}

// judge begins a run: it takes the state of the target and what the watches show.
func (j *judging) judge() {
	j.work.targetStatus, _ = j.clusters.GetStatus(j.work.Target)
	j.work.seen.Compared = j.tracker.Judge(j.work.Name)
}

// setApplied writes the condition ResourcesApplied alone.
func (j *judging) setApplied(value resourcesv1alpha1.ConditionStatus, reason, message string) error {
	return j.status.Write(j.ctx, &j.work.Subject, func(d *status.Draft) {
		d.Say(resourcesv1alpha1.ConditionResourcesApplied, value, reason, message)
	})
}

// look judges and returns the pause until the next look.
func (j *judging) look() time.Duration {
	j.t.Helper()
	j.judge()
	result, err := j.health.evaluate(j.ctx, j.work)
	j.Expect(err).NotTo(HaveOccurred())
	return result.RequeueAfter
}

// read is what the server has.
func (j *judging) read() *resourcesv1alpha1.ManagedResource {
	j.t.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	j.Expect(j.server.Get(j.ctx, j.work.Name, mr)).To(Succeed())
	return mr
}

// says is a condition as the server has it: status, reason and message; empty if it is not there.
func (j *judging) says(t resourcesv1alpha1.ConditionType) string {
	j.t.Helper()
	c := resourcesv1alpha1.GetCondition(j.read().Status.Conditions, t)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

const (
	wellHealth  = "True ResourcesHealthy: All resources are healthy."
	wellRollout = "False ResourcesRolledOut: All resources have been fully rolled out."
)

// Each of these states leaves something unseen. Whether all was well before or not, it is not said that all is well;
// where the rest is to be seen at any moment, what was said before stays.
func TestNothingIsClaimedThatWasNotSeen(t *testing.T) {
	const kept = "kept"
	hide := func(j *judging, names ...string) {
		for _, name := range names {
			j.clusters.Sync(j.work.Target, name, false)
		}
	}
	annotate := func(j *judging, key, value string) {
		tc := &hubv1alpha1.TargetCluster{}
		j.Expect(j.server.Get(j.ctx, j.work.Target, tc)).To(Succeed())
		metav1.SetMetaDataAnnotation(&tc.ObjectMeta, key, value)
		j.Expect(j.server.Update(j.ctx, tc)).To(Succeed())
	}
	applied := func(status resourcesv1alpha1.ConditionStatus, reason string) func(*judging) {
		return func(j *judging) {
			j.clusters.Put(j.work.Target, "Deployment.v1.apps", j.deployment("11", "False"))
			j.Expect(j.setApplied(status, reason, "x")).To(Succeed())
		}
	}
	const notListed, notShown = "ConfigMap: the target has not listed its objects yet.", "Deployment.apps c/d is not shown yet as it was written last."
	for name, test := range map[string]struct {
		happens         func(j *judging)
		health, rollout string
		later           time.Duration // after which it is
	}{
		"a kind is not listed, as after a new connection": {
			happens: func(j *judging) { hide(j, "ConfigMap.v1") }, health: kept, rollout: kept,
		},
		"no kind is listed": {
			happens: func(j *judging) { hide(j, "ConfigMap.v1", "Deployment.v1.apps", tracker.PodWatch) }, health: kept, rollout: kept,
		},
		"a kind is not listed for long": {
			happens: func(j *judging) { hide(j, "ConfigMap.v1") }, later: status.SyncGrace,
			health: "Unknown ChecksPending: " + notListed, rollout: "Unknown ChecksPending: " + notListed,
		},
		"a kind may not be watched": {
			happens: func(j *judging) { j.clusters.Fail(j.work.Target, "ConfigMap.v1", errors.New("forbidden")) },
			health:  "False HealthCheckError: ConfigMap.v1 cannot be watched: forbidden", rollout: "Unknown HealthCheckError: ConfigMap.v1 cannot be watched: forbidden",
		},
		"pods are not listed": {
			happens: func(j *judging) { hide(j, tracker.PodWatch) }, health: wellHealth, rollout: kept,
		},
		"pods are not listed for long": {
			happens: func(j *judging) { hide(j, tracker.PodWatch) }, later: status.SyncGrace,
			health: wellHealth, rollout: "Unknown ChecksPending: The pods are not listed yet.",
		},
		"pods may not be watched": {
			happens: func(j *judging) { j.clusters.Fail(j.work.Target, tracker.PodWatch, errors.New("forbidden")) },
			health:  wellHealth, rollout: "Unknown HealthCheckError: Pod cannot be watched: forbidden",
		},
		"H5 a kind is not served any more, a moment after it was": {
			happens: func(j *judging) {
				j.clusters.Fail(j.work.Target, "ConfigMap.v1", &meta.NoKindMatchError{
					GroupKind: schema.GroupKind{Kind: "ConfigMap"},
				})
			},
			health: kept, rollout: kept,
		},
		"H5 a kind is not served any more": {
			happens: func(j *judging) {
				j.clusters.Fail(j.work.Target, "ConfigMap.v1", &meta.NoKindMatchError{
					GroupKind: schema.GroupKind{Kind: "ConfigMap"}, SearchedVersions: []string{"v1"},
				})
			},
			later:  status.SyncGrace,
			health: `False ConfigMapMissing: ConfigMap c/d does not exist: no matches for kind "ConfigMap" in version "v1"`, rollout: wellRollout,
		},
		"a write is not shown yet": {
			happens: func(j *judging) { j.accept(j.deployment("12", "True")) }, health: kept, rollout: kept,
		},
		"a write is not shown for long": {
			happens: func(j *judging) { j.accept(j.deployment("12", "True")) }, later: tracker.UnseenGrace,
			health: "Unknown ChecksPending: " + notShown, rollout: "Unknown ChecksPending: " + notShown,
		},
		"an older state is shown": {
			happens: func(j *judging) {
				j.accept(j.deployment("12", "True"))
				j.clusters.Put(j.work.Target, "Deployment.v1.apps", j.deployment("11", "True"))
			},
			later: tracker.UnseenGrace, health: "Unknown ChecksPending: " + notShown, rollout: "Unknown ChecksPending: " + notShown,
		},
		"nothing is tracked": {
			happens: func(j *judging) { j.tracker.Forget(j.work.Name) }, health: kept, rollout: kept,
		},
		"nothing is accepted, as after a restart": {
			happens: func(j *judging) {
				j.tracker.Forget(j.work.Name)
				j.track(j.work.MR.Status.Resources...)
				j.shown()
			},
			health: kept, rollout: kept,
		},
		"an object is not tracked": {
			happens: func(j *judging) { j.track(j.work.MR.Status.Resources[0]) }, later: time.Second,
			health: kept, rollout: kept,
		},
		"an object is being deleted": {
			happens: func(j *judging) {
				going := j.configMap("11")
				going.SetDeletionTimestamp(new(metav1.Now()))
				j.clusters.Put(j.work.Target, "ConfigMap.v1", going)
			},
			health: wellHealth, rollout: "True ConfigMapProgressing: ConfigMap c/d is progressing: it is being deleted",
		},
		"H14 an object that is skipped is being deleted": {
			happens: func(j *judging) {
				going := j.configMap("11")
				going.SetDeletionTimestamp(new(metav1.Now()))
				going.SetAnnotations(map[string]string{resourcesv1alpha1.SkipHealthCheckAnnotation: "true"})
				j.clusters.Put(j.work.Target, "ConfigMap.v1", going)
			},
			health: wellHealth, rollout: wellRollout,
		},
		"H3 it is being applied": {happens: applied(resourcesv1alpha1.ConditionProgressing, resourcesv1alpha1.ReasonApplyProgressing), health: kept, rollout: kept},
		"H3 it failed":           {happens: applied(resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonApplyFailed), health: kept, rollout: kept},
		"H3 the condition is missing": {
			happens: func(j *judging) {
				j.Expect(j.status.Write(j.ctx, &j.work.Subject, func(d *status.Draft) {
					d.Conditions = d.Conditions[1:]
				})).To(Succeed())
			},
			health: kept, rollout: kept,
		},
		"the target is not connected": {
			happens: func(j *judging) {
				j.clusters.SetStatus(clustercache.Status{
					Cluster: j.work.Target, State: clustercache.StateDisconnected, Reason: clustercache.ReasonUnreachable, UID: uid,
				})
			},
			health: "Unknown TargetUnreachable: The target cluster a/target is not reachable since 0001-01-01T00:00:00Z: Unreachable", rollout: "Unknown TargetUnreachable: The target cluster a/target is not reachable since 0001-01-01T00:00:00Z: Unreachable",
		},
		"the target may be back in a moment": {
			happens: func(j *judging) {
				j.clusters.SetStatus(clustercache.Status{
					Cluster: j.work.Target, State: clustercache.StateDisconnected, Reason: clustercache.ReasonUnreachable, UID: uid,
					InGrace: true,
				})
			},
			health: kept, rollout: kept,
		},
		"the target is not dialled yet": {
			happens: func(j *judging) {
				j.clusters.SetState(j.work.Target, clustercache.StateConnecting, "", "")
			},
			health: kept, rollout: kept,
		},
		"the target is another cluster": {
			happens: func(j *judging) {
				status, _ := j.clusters.GetStatus(j.work.Target)
				status.UID = "other"
				j.clusters.SetStatus(status)
			},
			health: kept, rollout: kept,
		},
		"pods may not be watched, but do not matter": {
			happens: func(j *judging) {
				j.clusters.Fail(j.work.Target, tracker.PodWatch, errors.New("forbidden"))
				skipped := j.deployment("11", "False")
				skipped.SetAnnotations(map[string]string{resourcesv1alpha1.SkipHealthCheckAnnotation: "true"})
				j.clusters.Put(j.work.Target, "Deployment.v1.apps", skipped)
			},
			health: wellHealth, rollout: wellRollout,
		},
		"the target is asleep": {
			happens: func(j *judging) {
				annotate(j, hubv1alpha1.HibernatedAnnotation, "true")
				j.clusters.SetState(j.work.Target, clustercache.StateDisconnected, clustercache.ReasonUnreachable, "")
			},
			health: kept, rollout: kept,
		},
		"the target is no longer hibernated, and not dialled yet": {
			happens: func(j *judging) {
				j.clusters.SetState(j.work.Target, clustercache.StateHibernated, clustercache.ReasonHibernated, "")
			},
			health: kept, rollout: kept,
		},
		"the target falls asleep": {
			happens: func(j *judging) {
				annotate(j, hubv1alpha1.HibernatedAnnotation, "true")
				j.clusters.Put(j.work.Target, "Deployment.v1.apps", j.deployment("11", "False"))
			},
			health: kept, rollout: kept,
		},
	} {
		for before, well := range map[string]bool{"all was well": true, "not assessed before": false} {
			t.Run(name+"/"+before, func(t *testing.T) {
				j := judged(t)
				j.shown()
				health, rollout := "Unknown ChecksPending: "+messageChecksPending, "Unknown ChecksPending: "+messageChecksPending
				if well {
					j.look()
					health, rollout = wellHealth, wellRollout
				} else {
					j.Expect(j.status.Write(j.ctx, &j.work.Subject, func(d *status.Draft) {
						d.UnknownHealth(resourcesv1alpha1.ReasonChecksPending, messageChecksPending)
					})).To(Succeed())
				}
				j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(health))
				j.Expect(j.says(resourcesv1alpha1.ConditionResourcesProgressing)).To(Equal(rollout))

				j.clock.Step(2 * run.DebounceText) // no write is too soon after the last
				test.happens(j)
				wait := j.look()
				if test.later > 0 && test.rollout != kept {
					j.Expect(wait).To(BeNumerically("<=", test.later+time.Second), "the next look is due when it takes too long")
				}
				j.clock.Step(test.later)
				j.look()
				if test.health != kept {
					health = test.health
				}
				if test.rollout != kept {
					rollout = test.rollout
				}
				j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(health))
				j.Expect(j.says(resourcesv1alpha1.ConditionResourcesProgressing)).To(Equal(rollout))
				if ready := j.says(resourcesv1alpha1.ConditionReady); health != wellHealth || rollout != wellRollout {
					j.Expect(ready).NotTo(HavePrefix("True"))
				}
				writes := j.writes
				j.clock.Step(time.Hour)
				j.look()
				j.look()
				if test.rollout != kept {
					j.Expect(j.writes).To(Equal(writes), "the same state is not written again")
				}
			})
		}
	}
}

// A run that lost its target does not know what it wrote, so what the watches show may be from before.
func TestRunThatLostItsTargetJudgesNothing(t *testing.T) {
	j := judged(t)
	j.shown()
	_, err := j.health.concludeLost(j.ctx, j.work, j.work.MR.Status.Resources)
	j.Expect(err).NotTo(HaveOccurred())
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(BeEmpty())
	j.clusters.SetState(j.work.Target, clustercache.StateDisconnected, clustercache.ReasonUnreachable, "")
	_, err = j.health.concludeLost(j.ctx, j.work, j.work.MR.Status.Resources)
	j.Expect(err).NotTo(HaveOccurred())
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(HavePrefix("Unknown TargetUnreachable"))
}

// What was reported while the target did not answer ends when it answers again, although nothing is judged then.
func TestSilenceEndsForWhatIsNotApplied(t *testing.T) {
	j := judged(t)
	j.shown()
	j.clusters.SetState(j.work.Target, clustercache.StateDisconnected, clustercache.ReasonUnreachable, "")
	j.look()
	j.Expect(j.setApplied(resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonApplyFailed, "x")).To(Succeed())
	j.Expect(j.says(resourcesv1alpha1.ConditionReady)).To(HavePrefix("Unknown TargetUnreachable"))
	j.clusters.SetState(j.work.Target, clustercache.StateConnected, clustercache.ReasonConnected, "")
	j.look()
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(HavePrefix("Unknown ChecksPending"))
	j.Expect(j.says(resourcesv1alpha1.ConditionReady)).To(HavePrefix("False ApplyFailed"))
}

// After a restart the warnings of a Service are not known. They are waited for rather than written away and written
// again.
func TestWarningsAreNotLostToARestart(t *testing.T) {
	j := judged(t)
	service := live(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"c","name":"d","uid":"u","resourceVersion":"10"},"spec":{"type":"LoadBalancer"}}`)
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "c", Name: "d"}
	resources := &j.work.MR.Status.Resources
	*resources = append(*resources, resourcesv1alpha1.ObjectReference{ObjectReference: ref})
	j.track(j.work.MR.Status.Resources...)
	j.accept(service)
	j.clusters.Put(j.work.Target, "Service.v1", service)
	j.shown()
	before := "Service c/d is unhealthy: the load balancer has no ingress yet\n  Last warning events:\n  - cloud, ..."
	j.Expect(j.status.Write(j.ctx, &j.work.Subject, func(d *status.Draft) {
		d.Say(resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionFalse, "ServiceUnhealthy", before)
		d.Say(resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionFalse,
			resourcesv1alpha1.ReasonResourcesRolledOut, "All resources have been fully rolled out.")
	})).To(Succeed())
	writes := j.writes
	j.clock.Step(time.Minute)
	j.Expect(j.look()).To(Equal(notes.Deadline))
	j.Expect(j.writes).To(Equal(writes))
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(HaveSuffix(before))

	j.Expect(j.status.Write(j.ctx, &j.work.Subject, func(d *status.Draft) {
		d.Say(resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionTrue,
			resourcesv1alpha1.ReasonResourcesHealthy, "x")
	})).To(Succeed())
	j.look()
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(HavePrefix("False ServiceUnhealthy"), "what turns is not held back")

	j.clock.Step(time.Minute)
	service.Object["spec"] = map[string]any{}
	service.SetResourceVersion("11")
	j.clusters.Put(j.work.Target, "Service.v1", service)
	j.look()
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(wellHealth))
}

func TestNothingIsSaidOfNothingBeforeItIsTracked(t *testing.T) {
	j := judged(t)
	j.work.MR.Status.Resources = nil
	j.tracker.Forget(j.work.Name)
	j.look()
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(BeEmpty())
	j.track()
	j.clock.Step(run.DebounceStatus)
	j.look()
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesHealthy)).To(Equal(wellHealth))
	j.Expect(j.says(resourcesv1alpha1.ConditionResourcesProgressing)).To(Equal(wellRollout))
}

// A run looks at the watches more than once. Drift that only the last look shows, because they caught up in between,
// was not reported to anything that would come back for it.
func TestDriftThatOnlyTheLastLookShowsIsDueAtOnce(t *testing.T) {
	edited := func(j *judging) *unstructured.Unstructured {
		o := j.configMap("11")
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "other-client", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:a":{}}}`),
		}})
		return o
	}
	for name, test := range map[string]struct {
		happens func(j *judging)
		due     time.Duration
	}{
		"an edit": {happens: func(j *judging) { j.clusters.Put(j.work.Target, "ConfigMap.v1", edited(j)) }, due: busyRetry},
		"a deletion": {happens: func(j *judging) {
			j.clusters.Delete(j.work.Target, "ConfigMap.v1", types.NamespacedName{Namespace: "c", Name: "d"})
		}, due: busyRetry},
		"an edit, while another kind is not listed": {
			happens: func(j *judging) {
				j.clusters.Put(j.work.Target, "ConfigMap.v1", edited(j))
				j.clusters.Sync(j.work.Target, "Deployment.v1.apps", false)
			}, due: busyRetry,
		},
		"an edit that has to wait its turn": {
			happens: func(j *judging) {
				key := inventory.KeyOfObject(j.configMap("10"))
				for j.work.State.MayCorrect(key, j.clock.Now()) == 0 {
					j.work.State.Corrected(key, j.clock.Now())
				}
				j.clusters.Put(j.work.Target, "ConfigMap.v1", edited(j))
			}, due: run.DriftFirst,
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := judged(t)
			j.shown()
			j.Expect(j.look()).To(BeNumerically(">", 50*time.Minute))
			test.happens(j)
			j.Expect(j.look()).To(Equal(test.due))
		})
	}
}

// While a correction is under way, nothing is reported of the ManagedResource. One that fails comes back for what
// happened meanwhile, and leaves what it failed at to the pause after failures.
func TestCorrectionThatFailsComesBackForTheRest(t *testing.T) {
	deployment := func(j *judging) inventory.Key { return inventory.KeyOfObject(j.deployment("10", "True")) }
	for name, test := range map[string]struct {
		meanwhile func(j *judging)
		wait      time.Duration // for the turn of an object that drifted before
		due       time.Duration
	}{
		"nothing else":   {meanwhile: func(*judging) {}, due: run.RetryFirst},
		"another's turn": {meanwhile: func(*judging) {}, wait: run.RetryFirst / 4, due: run.RetryFirst / 4},
		"another goes": {meanwhile: func(j *judging) {
			j.clusters.Delete(j.work.Target, "ConfigMap.v1", types.NamespacedName{Namespace: "c", Name: "d"})
		}, due: busyRetry},
		"the same drifts": {meanwhile: func(j *judging) {
			j.clusters.Delete(j.work.Target, "Deployment.v1.apps", types.NamespacedName{Namespace: "c", Name: "d"})
		}, due: run.RetryFirst},
	} {
		t.Run(name, func(t *testing.T) {
			j := judged(t)
			j.metrics = telemetry.NewMetrics(prometheus.NewRegistry(), false)
			j.events = telemetry.NewRecorder(events.NewFakeRecorder(10), j.clock, j.metrics)
			j.work.Class = &assignment.Class{}
			j.shown()
			j.look()
			notified := j.notifications
			j.tracker.Begin(j.work.Name, deployment(j))
			test.meanwhile(j)
			j.tracker.End(j.work.Name)
			j.Expect(j.notifications).To(Equal(notified), "nothing is notified")

			refused := apply.Outcome{Key: deployment(j), Err: apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "d", errors.New("no"))}
			j.work.input, j.work.wait = appliedInput, test.wait
			result, err := j.concludeCorrection(j.ctx, j.work, []telemetry.Drift{{}}, []apply.Outcome{refused})
			j.Expect(err).NotTo(HaveOccurred())
			j.Expect(result.RequeueAfter).To(Equal(test.due))
			j.Expect(j.says(resourcesv1alpha1.ConditionResourcesApplied)).To(HavePrefix("False ApplyFailed"))
		})
	}
}
