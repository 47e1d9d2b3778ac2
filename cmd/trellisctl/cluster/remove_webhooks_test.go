package cluster

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// TestTheAccountStaysUntilWebhooksAreGone: the hub deletes its configurations of webhooks with it.
func TestTheAccountStaysUntilWebhooksAreGone(t *testing.T) {
	for name, test := range map[string]struct {
		reasons []string // of the condition when it is read, one after the other; empty: there is none
		fault   string   // empty: none
	}{
		"none":        {reasons: []string{""}},
		"deleted":     {reasons: []string{"WebhooksRegistered", "WebhooksRegistered", ""}},
		"left behind": {reasons: []string{"WebhooksRegistered", "WebhooksLeftBehind"}},
		"never":       {reasons: []string{"WebhooksRegistered"}, fault: "the service account stays in the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			of := func(reason string) *hubv1alpha1.TargetCluster {
				tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a"}}
				if reason != "" {
					tc.Status.Conditions = []metav1.Condition{{Type: "WebhooksRegistered", Reason: reason}}
				}
				return tc
			}
			reads := 0
			c := fake.NewClientBuilder().WithScheme(cli.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, object client.Object,
					_ ...client.GetOption,
				) error {
					tc, is := object.(*hubv1alpha1.TargetCluster)
					g.Expect(is).To(BeTrue())
					of(test.reasons[min(reads, len(test.reasons)-1)]).DeepCopyInto(tc)
					reads++
					return nil
				},
			}).Build()
			streams, _, _, _ := genericiooptions.NewTestIOStreams()
			env := cli.NewEnv(streams)
			env.Clock = &hasty{FakeClock: clocktesting.NewFakeClock(time.Now())}
			r := &remove{change: change{env: env, wait: true, timeout: time.Minute}}
			err := r.awaitWebhooks(t.Context(), &cli.Source{WithWatch: c, Namespace: "a"}, of(test.reasons[0]))
			if test.fault != "" {
				g.Expect(err).To(MatchError(ContainSubstring(test.fault)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(reads).To(BeNumerically(">=", len(test.reasons)-1))
		})
	}
}
