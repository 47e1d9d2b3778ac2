package cluster

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// hasty is a clock on which every pause is over at once.
type hasty struct{ *clocktesting.FakeClock }

func (c *hasty) After(d time.Duration) <-chan time.Time {
	over := c.FakeClock.After(d)
	c.Step(d)
	return over
}

// TestAdmissionThatIsBehindIsAskedAgain: the admission policy hears of a new count a moment after the one who waited
// for it. In e2e/trellisctl with a real policy that moment seldom comes.
func TestAdmissionThatIsBehindIsAskedAgain(t *testing.T) {
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "a-kubeconfig", errors.New("ValidatingAdmissionPolicy 'trellis-registration' with binding 'trellis-registration' denied request: 1 ManagedResources need this registration"))
	rbac := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "a-kubeconfig", errors.New(`User "a" cannot delete resource "secrets"`))
	for name, test := range map[string]struct {
		needed   bool
		refusals int
		with     error // the policy's refusal, if nil
		lost     bool  // the answer to the first deletion that is not refused
		err      error
		asked    int
	}{
		"nobody needs it, and the policy is behind": {refusals: 2, asked: 3},
		"nobody needs it":             {asked: 1},
		"the answer is lost":          {refusals: 1, lost: true, asked: 3},
		"the policy goes on refusing": {refusals: 1000, err: refusal, asked: 22},
		"it is needed":                {needed: true, refusals: 1, err: refusal, asked: 1},
		"the user may not":            {refusals: 1, with: rbac, err: rbac, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			registration := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a-kubeconfig", UID: "1"}}
			asked := 0
			c := fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(registration).WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.DeleteOption) error {
					if asked++; asked <= test.refusals {
						return cmp.Or(test.with, error(refusal))
					}
					err := c.Delete(ctx, obj, options...)
					if test.lost && asked == test.refusals+1 {
						return &url.Error{Op: "Delete", URL: "https://source", Err: syscall.ECONNRESET}
					}
					return err
				},
			}).Build()
			env := cli.NewEnv(genericiooptions.NewTestIOStreamsDiscard())
			env.Clock = &hasty{FakeClock: clocktesting.NewFakeClock(time.Now())}
			r := &remove{change: change{env: env}}
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
