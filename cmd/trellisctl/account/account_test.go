package account

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// TestAccountThatIsUsedAgainIsKept: a registration that begins to use a service account while another one is about to
// delete it does not lose it. The rest is tested with real clusters, in e2e/trellisctl, where that moment cannot be
// met.
func TestAccountThatIsUsedAgainIsKept(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	used := func(by string) *Account {
		return &Account{ObjectKey: client.ObjectKey{Namespace: "kube-system", Name: "trellis"}, Role: ClusterAdmin,
			User: User{Key: UserPrefix + by, Text: by}}
	}
	came := false
	c := fake.NewClientBuilder().WithScheme(cli.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.DeleteOption) error {
			if _, is := obj.(*corev1.ServiceAccount); is && !came {
				came = true
				if err := used("second").Create(ctx, c); err != nil {
					return err
				}
			}
			return c.Delete(ctx, obj, options...)
		},
	}).Build()
	exists := func() error { return c.Get(ctx, used("").ObjectKey, &corev1.ServiceAccount{}) }

	g.Expect(used("first").Create(ctx, c)).To(Succeed())
	stays, deleted, err := used("first").Remove(ctx, c)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stays).To(Equal("others use it: second"))
	g.Expect(deleted).To(BeEmpty())
	g.Expect(exists()).To(Succeed())

	stays, deleted, err = used("second").Remove(ctx, c)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stays).To(BeEmpty())
	g.Expect(deleted).To(HaveLen(2))
	g.Expect(exists()).NotTo(Succeed())

	stays, deleted, err = used("second").Remove(ctx, c)
	g.Expect(err).NotTo(HaveOccurred(), "what is gone is gone")
	g.Expect(stays).To(BeEmpty())
	g.Expect(deleted).To(BeEmpty())

	stranger := used("third")
	g.Expect(used("fourth").Create(ctx, c)).To(Succeed())
	stays, deleted, err = stranger.Remove(ctx, c)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stays).To(ContainSubstring("other users are not known"))
	g.Expect(deleted).To(BeEmpty())
	g.Expect(exists()).To(Succeed())
}
