package cluster

import (
	"context"
	"errors"
	"net/url"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// TestAdmissionThatIsBehindIsAskedAgain: the admission policy hears of a new count a moment after the one who waited for it. In e2e/trellisctl
// with a real policy that moment seldom comes.
func TestAdmissionThatIsBehindIsAskedAgain(t *testing.T) {
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "a-kubeconfig", errors.New("1 ManagedResources need this registration"))
	for name, test := range map[string]struct {
		needed   bool
		refusals int
		lost     bool // the answer to the first deletion that is not refused
		err      error
		asked    int
	}{
		"nobody needs it, and the policy is behind": {refusals: 2, asked: 3},
		"nobody needs it":    {asked: 1},
		"the answer is lost": {refusals: 1, lost: true, asked: 3},
		"it is needed":       {needed: true, refusals: 1, err: refusal, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			registration := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a-kubeconfig", UID: "1"}}
			asked := 0
			c := fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(registration).WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.DeleteOption) error {
					if asked++; asked <= test.refusals {
						return refusal
					}
					err := c.Delete(ctx, obj, options...)
					if test.lost && asked == test.refusals+1 {
						return &url.Error{Op: "Delete", URL: "https://source", Err: syscall.ECONNRESET}
					}
					return err
				},
			}).Build()
			r := &remove{change: change{env: cli.NewEnv(genericiooptions.NewTestIOStreamsDiscard())}}
			err := r.unregister(t.Context(), &cli.Source{Client: c, Namespace: "a"}, registration, test.needed)
			if test.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(test.err))
			}
			g.Expect(asked).To(Equal(test.asked))
		})
	}
}
