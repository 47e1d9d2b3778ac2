package webhookregistration

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// HUB-8: which connections are kept when a registration is deleted.
func TestConnectionsThatAreStillNeeded(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(hubv1alpha1.AddToScheme(scheme)).To(Succeed())
	key := types.NamespacedName{Namespace: "a", Name: "b"}
	registered := func(status metav1.ConditionStatus) *hubv1alpha1.TargetCluster {
		return &hubv1alpha1.TargetCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Status: hubv1alpha1.TargetClusterStatus{Conditions: []metav1.Condition{
				{Type: hubv1alpha1.ConditionWebhooksRegistered, Status: status},
			}},
		}
	}
	without, paused := registered(metav1.ConditionTrue), registered(metav1.ConditionTrue)
	without.Status.Conditions[0].Type = hubv1alpha1.ConditionReady
	paused.Spec.Paused = true
	on, off := registered(metav1.ConditionTrue), registered(metav1.ConditionFalse)
	for name, test := range map[string]struct {
		target *hubv1alpha1.TargetCluster // nil: there is none
		state  clustercache.State
		fails  bool
		needed bool
		known  bool // to be attached
	}{
		"webhooks":                          {on, clustercache.StateConnected, false, true, false},
		"webhooks that could not be called": {off, clustercache.StateDraining, false, true, false},
		"a target that may come back":       {on, clustercache.StateDisconnected, false, true, false},
		"no webhooks":                       {without, clustercache.StateConnected, false, false, false},
		"a paused target":                   {paused, clustercache.StateConnected, false, false, false},
		"a refused one":                     {on, clustercache.StateRefused, false, false, false},
		"one that sleeps":                   {on, clustercache.StateHibernated, false, false, false},
		"no TargetCluster":                  {nil, clustercache.StateConnected, false, false, false},
		"no TargetCluster, with webhooks":   {nil, clustercache.StateConnected, false, true, true},
		"a new TargetCluster":               {without, clustercache.StateDraining, false, true, true},
		"one that is paused since":          {paused, clustercache.StateDraining, false, false, true},
		"the source does not answer":        {nil, clustercache.StateConnected, true, true, false},
	} {
		builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
				options ...client.GetOption,
			) error {
				if test.fails {
					return errors.New("not synced")
				}
				return c.Get(ctx, key, object)
			},
		})
		if test.target != nil {
			builder.WithObjects(test.target)
		}
		status := clustercache.Status{Cluster: key, State: test.state}
		attached := &Attached{}
		if test.known {
			attached.add(key)
		}
		g.Expect(attached.StillNeeded(builder.Build(), status)).To(Equal(test.needed), name)
	}
}
