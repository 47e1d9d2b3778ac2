package assignment_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/fake"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
)

// The victim uses its cluster by its own registration; another namespace has what the case says.
func TestSayIn(t *testing.T) {
	victims := clustercache.ClusterKey{Namespace: "victim", Name: "a"}
	garden := clustercache.ClusterKey{Namespace: "garden", Name: "virtual"}
	other := clustercache.ClusterKey{Namespace: "other", Name: "a"}
	const (
		connected, lost     = clustercache.StateConnected, clustercache.StateDisconnected
		connecting, refused = clustercache.StateConnecting, clustercache.StateRefused
	)
	registered := func(server clustercache.ServerID, uid types.UID, state clustercache.State) []clustercache.Status {
		return []clustercache.Status{{Cluster: other, Server: server, UID: uid, State: state}}
	}
	denied := registered("api", "", lost)
	denied[0].Reason = clustercache.ReasonUnauthorized
	gardens, seeds := map[string]string{"garden": "true"}, map[string]string{"seed": "true"}
	for name, tc := range map[string]struct {
		others  []clustercache.Status
		labels  map[string]string // of the other namespace
		through clustercache.ClusterKey
		began   time.Duration // how long ago the term began
		want    assignment.Access
	}{
		"no registration":                         {want: assignment.NoAccess},
		"another server with the UID":             {others: registered("evil", "uid", connected), want: assignment.NoAccess},
		"a server that cannot be identified":      {others: registered("", "uid", connected), want: assignment.NoAccess},
		"the same server":                         {others: registered("api", "uid", connected), want: assignment.HasAccess},
		"the same server, lost now":               {others: registered("api", "uid", lost), want: assignment.HasAccess},
		"the same address, never connected":       {others: registered("api", "", lost), began: time.Hour, want: assignment.NoAccess},
		"the same address, at a start":            {others: registered("api", "", connecting), want: assignment.AccessUnknown},
		"the same address, lost at a start":       {others: registered("api", "", lost), want: assignment.AccessUnknown},
		"the same address, denied at a start":     {others: denied, want: assignment.NoAccess},
		"another address, at a start":             {others: registered("evil", "", connecting), want: assignment.NoAccess},
		"a refused registration, at a start":      {others: registered("api", "", refused), want: assignment.NoAccess},
		"an operator's class with another target": {labels: gardens, want: assignment.NoAccess},
		"an operator's class with this target":    {labels: gardens, through: garden, want: assignment.HasAccess},
		"no class with this target":               {through: garden, want: assignment.NoAccess},
		"a class whose target is this cluster":    {labels: seeds, want: assignment.HasAccess},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			clock := clocktesting.NewFakePassiveClock(time.Now())
			clusters := fake.New(nil)
			for _, st := range append(tc.others,
				clustercache.Status{Cluster: victims, State: connected, UID: "uid", Server: "api"},
				clustercache.Status{Cluster: garden, State: connected, UID: "garden", Server: "garden"},
				clustercache.Status{Cluster: assignment.SourceTarget, State: connected, UID: "uid", Server: "inside"}) {
				clusters.SetStatus(st)
			}
			claims := &assignment.Assigner{
				Classes: map[string]*assignment.Class{}, Clusters: clusters, Clock: clock,
				Began: func() time.Time { return clock.Now().Add(-tc.began) },
				Reader: fakeclient.NewClientBuilder().WithObjects(
					&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: tc.labels}}).Build(),
			}
			for name, target := range map[string]configv1alpha1.ClassTarget{
				"":       {Type: configv1alpha1.TargetNamespace},
				"garden": {Type: configv1alpha1.TargetRegistration, Namespace: "garden", Name: "virtual"},
				"seed":   {Type: configv1alpha1.TargetSource},
			} {
				config := configv1alpha1.Class{Name: name, Target: target}
				if target.Type != configv1alpha1.TargetNamespace {
					config.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{name: "true"}}
				}
				class, err := assignment.NewClass(config, "")
				g.Expect(err).NotTo(HaveOccurred())
				claims.Classes[name] = class
			}
			through := victims
			if tc.through != (clustercache.ClusterKey{}) {
				through = tc.through
			}
			st, _ := clusters.GetStatus(through)
			g.Expect(claims.AccessTo(context.Background(), "other", st.UID, through)).To(Equal(tc.want))
		})
	}
}

// In the beginning it is not known which cluster the operator's target is.
func TestAccessToAClusterThatMayBeTheOperatorsTarget(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	clusters := fake.New(nil)
	victims := clustercache.ClusterKey{Namespace: "victim", Name: "a"}
	clusters.SetStatus(clustercache.Status{Cluster: victims, State: clustercache.StateConnected, UID: "uid",
		Server: "api"})
	clusters.SetStatus(clustercache.Status{Cluster: assignment.SourceTarget, State: clustercache.StateConnecting})
	class, err := assignment.NewClass(configv1alpha1.Class{
		Name: "seed", Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetSource},
		NamespaceSelector: &metav1.LabelSelector{},
	}, "")
	g.Expect(err).NotTo(HaveOccurred())
	began := clock.Now()
	claims := &assignment.Assigner{
		Classes: map[string]*assignment.Class{"seed": class}, Clusters: clusters, Clock: clock,
		Began: func() time.Time { return began },
		Reader: fakeclient.NewClientBuilder().WithObjects(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}).Build(),
	}
	access := func() assignment.Access { return claims.AccessTo(context.Background(), "other", "uid", victims) }
	g.Expect(access()).To(Equal(assignment.AccessUnknown))
	clock.SetTime(began.Add(time.Hour))
	g.Expect(access()).To(Equal(assignment.NoAccess))
}
