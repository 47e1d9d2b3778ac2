//go:build observability

package observability

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// The tests below run one after the other, after those of single targets: each concerns everything.

func TestTheFleetGoesDown(t *testing.T) {
	var targets []*target
	for _, name := range []string{"north", "east", "south", "west"} {
		targets = append(targets, newTarget(t, name, long))
	}
	for _, to := range targets[:3] {
		to.way.set(true)
	}
	expectFiring(t, "TrellisManyTargetsDown", nil)
	labels := map[string]string{"target": targets[0].label()}
	expectFiring(t, "TrellisTargetDown", labels)
	NewWithT(t).Eventually(func(g Gomega) {
		muted, err := monitoring.Muted(context.Background())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(muted).To(ContainElement("TrellisTargetDown"))
		g.Expect(muted).NotTo(ContainElement("TrellisManyTargetsDown"))
	}).Should(Succeed(), "many down mute each down")
	for _, to := range targets {
		to.way.set(false)
	}
	expectOver(t, "TrellisTargetDown", labels)
	expectOver(t, "TrellisManyTargetsDown", nil)
}

// A target that sleeps is away on purpose. Another one, which is away at the same time, shows that alerts work.
func TestNoAlertFiresForAHibernatedTarget(t *testing.T) {
	g, ctx := NewWithT(t), context.Background()
	asleep, witness := newTarget(t, "asleep", long), newTarget(t, "witness", long)
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: asleep.namespace, Name: asleep.name}}
	annotate := func(value string) {
		patch := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, hubv1alpha1.HibernatedAnnotation, value))
		g.Expect(source.Client.Patch(ctx, tc, patch)).To(Succeed())
	}
	annotate(`"true"`)
	up := fmt.Sprintf(`trellis_target_up{%s}`, selector(map[string]string{"target": asleep.label()}))
	g.Eventually(func(g Gomega) { g.Expect(samples(g, up)).To(BeZero()) }).Should(Succeed())
	asleep.way.set(true)
	witness.way.set(true)
	expectFiring(t, "TrellisTargetDown", map[string]string{"target": witness.label()})
	g.Expect(samples(g, fmt.Sprintf(`ALERTS{%s}`, selector(map[string]string{"target": asleep.label()})))).To(BeZero())
	asleep.way.set(false)
	witness.way.set(false)
	annotate("null")
	g.Eventually(func(g Gomega) { g.Expect(value(g, "max("+up+")")).To(Equal(1.0)) }).Should(Succeed())
	expectOver(t, "TrellisTargetDown", map[string]string{"target": witness.label()})
}

func TestTheSourceGoesAway(t *testing.T) {
	source.KillAPIServer()
	expectFiring(t, "TrellisSourceFailing", nil)
	expectFiring(t, "TrellisNoLeader", nil)
	NewWithT(t).Expect(source.StartAPIServer(context.Background())).To(Succeed())
	expectOver(t, "TrellisNoLeader", nil)
	expectOver(t, "TrellisSourceFailing", nil)
}

func TestTheConfigurationIsChanged(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(filepath.Dir(hub.LogFile), "config.yaml")
	good, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	write := func(content []byte) { g.Expect(os.WriteFile(file, content, 0o600)).To(Succeed()) }
	write(append([]byte("nonsense: true\n"), good...))
	expectFiring(t, "TrellisConfigInvalid", nil)
	write(bytes.Replace(good, []byte("concurrentSyncs: 1"), []byte("concurrentSyncs: 2"), 1))
	expectOver(t, "TrellisConfigInvalid", nil)
	expectFiring(t, "TrellisConfigRestartNeeded", nil)
	write(good)
	expectOver(t, "TrellisConfigRestartNeeded", nil)
}

// A replica that looks for its Lease somewhere else knows nothing of the leader.
func TestAnotherHubLeads(t *testing.T) {
	g, ctx := NewWithT(t), context.Background()
	g.Expect(source.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})).To(Succeed())
	admin := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: testbed.HubNamespace,
			Name: chart.ServiceAccount}},
	}
	g.Expect(source.Client.Create(ctx, admin)).To(Succeed())
	t.Cleanup(func() { _ = source.Client.Delete(context.Background(), admin) })
	other, err := startHub(ctx, strings.Replace(config, "resourceNamespace: trellis", "resourceNamespace: elsewhere", 1))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(other.Kill)
	g.Expect(monitoring.Watch(hub, standby, other)).To(Succeed())
	expectFiring(t, "TrellisSeveralLeaders", nil)
	other.Kill()
	g.Expect(monitoring.Watch(hub, standby)).To(Succeed())
	expectOver(t, "TrellisSeveralLeaders", nil)
}

func TestTheHubGoesAway(t *testing.T) {
	g, ctx := NewWithT(t), context.Background()
	standby.Kill()
	expectFiring(t, "TrellisReplicaDown", nil)
	hub.Kill()
	expectFiring(t, "TrellisHubDown", nil)
	var err error
	hub, err = startReplica(ctx, 0)
	g.Expect(err).NotTo(HaveOccurred())
	standby, err = startReplica(ctx, 1)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(monitoring.Watch(hub, standby)).To(Succeed())
	expectOver(t, "TrellisHubDown", nil)
	expectOver(t, "TrellisReplicaDown", nil)
}
