package settings

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
)

const configuration = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection: {leaderElect: false}
sourceIdentity: {serviceAccount: {namespace: trellis, name: trellis-source}}
classes:
- {name: "", target: {type: Namespace}, controllers: {garbageCollector: {enabled: true, syncPeriod: 12h}}}
- {name: other, target: {type: Namespace}, controllers: {csrApprover: {concurrentSyncs: 7}}}
- {name: plan, target: {type: Namespace}, dryRun: true}
- {name: plain, target: {type: Source}, namespaceSelector: {}}
- {name: seed, target: {type: Source}, namespaceSelector: {}, controllers: {garbageCollector: {enabled: true}}}
- name: virtual
  target: {type: Registration, namespace: garden, name: virtual}
  namespaceSelector: {}
  controllers: {tokenRequestor: {enabled: true}}
`

// memory answers like those of the source with one TargetCluster.
type memory struct {
	cache.Cache
	tc *hubv1alpha1.TargetCluster
}

func (m memory) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	tc, is := obj.(*hubv1alpha1.TargetCluster)
	if !is || m.tc == nil || client.ObjectKeyFromObject(m.tc) != key {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	*tc = *m.tc
	return nil
}

func garbageCollector(enabled bool, period time.Duration) *hubv1alpha1.GarbageCollectorController {
	return &hubv1alpha1.GarbageCollectorController{
		Enabled: ptr.To(enabled), SyncPeriod: &metav1.Duration{Duration: period},
	}
}

// with adds a CSR approver.
func with(c hubv1alpha1.TargetControllers, approver *hubv1alpha1.CSRApproverController) hubv1alpha1.TargetControllers {
	c.CSRApprover = approver
	return c
}

func TestControllersOfATarget(t *testing.T) {
	config, err := configv1alpha1.Load([]byte(configuration))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	shoot := clustercache.ClusterKey{Namespace: "shoot", Name: "a"}
	collect := func(period time.Duration) hubv1alpha1.TargetControllers {
		return hubv1alpha1.TargetControllers{GarbageCollector: garbageCollector(true, period)}
	}
	none := hubv1alpha1.TargetControllers{}
	for name, test := range map[string]struct {
		target clustercache.ClusterKey
		class  string
		own    *hubv1alpha1.TargetClusterSpec
		want   hubv1alpha1.TargetControllers
		faults string
		// collects says whether the objects of ManagedResources are left to the collector.
		collects bool
	}{
		"as its class has it":         {shoot, "", nil, collect(12 * time.Hour), "", true},
		"the other name of the class": {shoot, "resources", nil, collect(12 * time.Hour), "", true},
		"another class":               {shoot, "other", nil, none, "", false},
		"an unknown class": {shoot, "unknown", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{GarbageCollector: garbageCollector(true, time.Hour)},
		}, none, "", false},
		"a class that writes nothing": {shoot, "plan", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{GarbageCollector: garbageCollector(true, time.Hour)},
		}, none, "", false},
		"one field of its own": {shoot, "", &hubv1alpha1.TargetClusterSpec{Controllers: &hubv1alpha1.TargetControllers{
			GarbageCollector: &hubv1alpha1.GarbageCollectorController{SyncPeriod: &metav1.Duration{Duration: time.Minute}},
		}}, collect(time.Minute), "", true},
		"off for this one": {shoot, "", &hubv1alpha1.TargetClusterSpec{Controllers: &hubv1alpha1.TargetControllers{
			GarbageCollector: &hubv1alpha1.GarbageCollectorController{Enabled: ptr.To(false)},
		}}, none, "", false},
		"on for this one, with the default": {shoot, "other", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{
				GarbageCollector: &hubv1alpha1.GarbageCollectorController{Enabled: ptr.To(true)},
			},
		}, collect(time.Hour), "", true},
		"on for this one, with a field of the class": {shoot, "other", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{
				CSRApprover: &hubv1alpha1.CSRApproverController{Enabled: ptr.To(true), MachineNamespace: ptr.To("shoot")},
			},
		}, hubv1alpha1.TargetControllers{CSRApprover: &hubv1alpha1.CSRApproverController{
			Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](7), MachineNamespace: ptr.To("shoot"),
		}}, "", false},
		"a fault switches one controller off": {shoot, "", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{
				CSRApprover: &hubv1alpha1.CSRApproverController{Enabled: ptr.To(true), MachineNamespace: ptr.To("shoot--b")},
			},
		}, collect(12 * time.Hour), `spec.controllers.csrApprover.machineNamespace: Invalid value: "shoot--b"`, true},
		"GC-7 a period that is too short": {shoot, "", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{
				GarbageCollector: &hubv1alpha1.GarbageCollectorController{SyncPeriod: &metav1.Duration{Duration: time.Second}},
			},
		}, none, `spec.controllers.garbageCollector.syncPeriod: Invalid value: "1s": must be at least 15s`, true},
		"STALE-10 pods of the source are for the class to say": {shoot, "other", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{StalePods: &hubv1alpha1.StalePodsController{
				Enabled: ptr.To(true), Namespaces: []string{"a"}, HomeNamespace: ptr.To(true),
			}},
		}, hubv1alpha1.TargetControllers{StalePods: &hubv1alpha1.StalePodsController{
			Enabled: ptr.To(true), SyncPeriod: &metav1.Duration{Duration: time.Minute}, Namespaces: []string{"a"},
		}}, "", false},
		"paused": {shoot, "", &hubv1alpha1.TargetClusterSpec{Paused: true}, none, "", true},
		"the source has the class that says something": {clustercache.ClusterKey{Name: "source"}, "", nil,
			collect(time.Hour), "", true},
		"the class that names the target": {clustercache.ClusterKey{Namespace: "garden", Name: "virtual"}, "", nil,
			hubv1alpha1.TargetControllers{TokenRequestor: &hubv1alpha1.TokenRequestorController{
				Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](5), Class: ptr.To("shoot"),
			}}, "", false},
		"CSR-20 requests are worked on one by one": {shoot, "", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{CSRApprover: &hubv1alpha1.CSRApproverController{Enabled: ptr.To(true)}},
		}, with(collect(12*time.Hour), &hubv1alpha1.CSRApproverController{
			Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](1),
		}), "", true},
		"CSR-20 none at all": {shoot, "", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{
				CSRApprover: &hubv1alpha1.CSRApproverController{Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](0)},
			},
		}, collect(12 * time.Hour), "spec.controllers.csrApprover.concurrentSyncs: Invalid value: 0", true},
		"Machines of a namespace, and no check of Machines": {shoot, "", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{CSRApprover: &hubv1alpha1.CSRApproverController{
				Enabled: ptr.To(true), WithoutMachines: ptr.To(true), MachineNamespace: ptr.To("shoot"),
			}},
		}, collect(12 * time.Hour), "spec.controllers.csrApprover.machineNamespace: Invalid value: \"shoot\"", true},
		"a user whom Machines identify, and no check of Machines": {shoot, "", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{CSRApprover: &hubv1alpha1.CSRApproverController{
				Enabled: ptr.To(true), WithoutMachines: ptr.To(true), MigrationUser: ptr.To(true),
			}},
		}, collect(12 * time.Hour), "spec.controllers.csrApprover.migrationUser: Invalid value: true", true},
		"TR-28 tokens of another class": {shoot, "other", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{
				TokenRequestor: &hubv1alpha1.TokenRequestorController{Enabled: ptr.To(true), Class: ptr.To("garden")},
			},
		}, hubv1alpha1.TargetControllers{TokenRequestor: &hubv1alpha1.TokenRequestorController{
			Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](5), Class: ptr.To("garden"),
		}}, "", false},
		"NODE-24 a least delay above the greatest one": {shoot, "other", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{
				NodeAgentReconciliationDelay: &hubv1alpha1.NodeAgentReconciliationDelayController{
					Enabled: ptr.To(true), MinDelay: &metav1.Duration{Duration: time.Hour},
				},
				NodeCriticalComponents: &hubv1alpha1.NodeCriticalComponentsController{Enabled: ptr.To(true)},
			},
		}, hubv1alpha1.TargetControllers{NodeCriticalComponents: &hubv1alpha1.NodeCriticalComponentsController{
			Enabled: ptr.To(true), ConcurrentSyncs: ptr.To[int32](5), Backoff: &metav1.Duration{Duration: 10 * time.Second},
		}}, `spec.controllers.nodeAgentReconciliationDelay.maxDelay: Invalid value: "5m0s"`, false},
		"ServiceAccounts that cannot be": {shoot, "other", &hubv1alpha1.TargetClusterSpec{
			Controllers: &hubv1alpha1.TargetControllers{TokenRequestor: &hubv1alpha1.TokenRequestorController{
				Enabled: ptr.To(true), DeniedServiceAccounts: []string{"kube-system", "kube-system/*"},
			}},
		}, none, `spec.controllers.tokenRequestor.deniedServiceAccounts[1]: Invalid value: "kube-system/*"`, false},
		"another registration there": {clustercache.ClusterKey{Namespace: "garden", Name: "else"}, "other", nil, none, "",
			false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m := memory{}
			if test.own != nil {
				meta := metav1.ObjectMeta{Namespace: test.target.Namespace, Name: test.target.Name}
				m.tc = &hubv1alpha1.TargetCluster{ObjectMeta: meta, Spec: *test.own}
			}
			before := m.tc.DeepCopy()
			s := New(m, config, nil)
			status := clustercache.Status{Cluster: test.target, Labels: map[string]string{hubv1alpha1.ClassLabel: test.class}}
			g.Expect(s.Controllers(status)).To(Equal(test.want))
			if requestor := test.want.TokenRequestor; requestor != nil {
				g.Expect(requestor.TokenAudiences()).To(Equal(map[string][]string{"shoot": {"gardener"}}[*requestor.Class]))
			}
			g.Expect(s.CollectsGarbage(status)).To(Equal(test.collects))
			faults := s.Faults(status)
			if test.faults == "" {
				g.Expect(faults).To(BeEmpty())
			} else {
				g.Expect(faults.ToAggregate()).To(MatchError(ContainSubstring(test.faults)))
			}
			g.Expect(m.tc).To(Equal(before), "what the informer has is not changed")
		})
	}
	again, err := configv1alpha1.Load([]byte(configuration))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(config).To(Equal(again), "the configuration is not changed")
}

// List implements cache.Cache.
func (m memory) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if all, is := list.(*hubv1alpha1.TargetClusterList); is && m.tc != nil {
		all.Items = append(all.Items, *m.tc)
	}
	return nil
}

func TestMC4_ControllersOfARegistrationThatHoldsItsCluster(t *testing.T) {
	g := NewWithT(t)
	config, err := configv1alpha1.Load([]byte(configuration))
	g.Expect(err).NotTo(HaveOccurred())
	first := clustercache.ClusterKey{Namespace: "shoot", Name: "a"}
	m := memory{tc: &hubv1alpha1.TargetCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: first.Name},
		Status:     hubv1alpha1.TargetClusterStatus{ClusterUID: "u"},
	}}
	s := New(m, config, identity.NewHolders(m, clustercache.ClusterKey{}))
	enabled := func(key clustercache.ClusterKey, uid types.UID) []string {
		controllers := s.Controllers(clustercache.Status{Cluster: key, UID: uid})
		return controllers.Enabled()
	}
	g.Expect(enabled(first, "u")).NotTo(BeEmpty())
	g.Expect(enabled(first, "v")).To(BeEmpty(), "it is another cluster, which its TargetCluster does not show yet")
	second := clustercache.ClusterKey{Namespace: "other", Name: "b"}
	g.Expect(enabled(second, "u")).To(BeEmpty(), "it has no TargetCluster")
	g.Expect(enabled(clustercache.ClusterKey{Name: "source"}, "u")).NotTo(BeEmpty())
}

func TestMC4_TheSourceIsHeldIfItHasControllers(t *testing.T) {
	g := NewWithT(t)
	config, err := configv1alpha1.Load([]byte(configuration))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(InSource(config)).To(BeTrue())
	config.Classes = slices.DeleteFunc(config.Classes, func(c configv1alpha1.Class) bool { return c.Name == "seed" })
	g.Expect(InSource(config)).To(BeFalse(), "another class of the source has none")
}
