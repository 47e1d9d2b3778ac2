package cluster

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"reflect"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// hasty is a clock on which every pause is over at once.
type hasty struct{ *clocktesting.FakeClock }

func (c *hasty) After(d time.Duration) <-chan time.Time {
	over := c.FakeClock.After(d)
	c.Step(d)
	return over
}

// TestWhatNeedsAClusterIsNamed: a ManagedResource counts for the hub as soon as the class of its target is known, which
// is before it has objects, and it may be in another namespace.
func TestWhatNeedsAClusterIsNamed(t *testing.T) {
	mr := func(namespace, name, uid string, objects int) *resourcesv1alpha1.ManagedResource {
		mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if uid != "" {
			mr.Annotations = map[string]string{hubv1alpha1.TargetUIDAnnotation: uid}
		}
		mr.Status.Resources = make([]resourcesv1alpha1.ObjectReference, objects)
		return mr
	}
	labelled := mr("a", "labelled", "", 0)
	labelled.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: "b"}
	strange := mr("a", "strange", "", 0)
	strange.Spec.Class = ptr.To("strange")
	registered := func(namespace, uid, reason string) *hubv1alpha1.TargetCluster {
		tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "own"}}
		tc.Status.ClusterUID = types.UID(uid)
		tc.Status.Conditions = []metav1.Condition{{Type: hubv1alpha1.ConditionReady, Reason: reason}}
		return tc
	}
	failing := func(kind client.ObjectList, err error) interceptor.Funcs {
		return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			all := (&client.ListOptions{}).ApplyOptions(options).Namespace == ""
			if all && reflect.TypeOf(list) == reflect.TypeOf(kind) {
				return err
			}
			return c.List(ctx, list, options...)
		}}
	}
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "any"}, "", errors.New("not allowed"))
	forbidden := failing(&metav1.PartialObjectMetadataList{}, refusal)
	for name, test := range map[string]struct {
		there   []client.Object
		counted int32
		later   *int32 // the count after the next look of the hub; nil: the same
		objects int64
		rights  interceptor.Funcs
		refused string // empty: nothing needs it
		kept    string
		fails   string
	}{
		"none": {},
		"one that has no objects yet": {
			there: []client.Object{mr("a", "addons", "", 0)}, counted: 1,
			refused: "cluster a is still needed by 1 ManagedResource: addons (0 objects). Delete",
			kept:    "cluster a keeps what it has: no objects are known in it, of: addons (0 objects)\n",
		},
		"one that the hub has not counted yet": {
			there:   []client.Object{mr("a", "addons", "uid", 2), mr("a", "other", "other", 3), labelled, strange},
			refused: "needed by 1 ManagedResource: addons (2 objects). Delete",
			kept:    "keeps 2 objects, which no hub reconciles from now on, of: addons",
		},
		"one of another namespace": {
			there: []client.Object{mr("b", "addons", "uid", 2)}, counted: 1, objects: 2,
			refused: "needed by 1 ManagedResource: b/addons. Delete",
			kept:    "keeps 2 objects, which no hub reconciles from now on, of: b/addons\n",
		},
		"none but of a namespace that registers the cluster itself, and the hub counts late": {
			there:   []client.Object{mr("b", "addons", "uid", 2), registered("b", "uid", "Ready")},
			counted: 1, later: ptr.To[int32](0), objects: 2,
		},
		"one of a namespace whose own registration leads elsewhere": {
			there:   []client.Object{mr("b", "addons", "uid", 2), registered("b", "other", "Ready")},
			counted: 1, later: ptr.To[int32](1), objects: 2,
			refused: "needed by 1 ManagedResource: b/addons. Delete",
			kept:    "of: b/addons\n",
		},
		"one of a namespace whose own registration is gone": {
			there: []client.Object{
				mr("b", "addons", "uid", 2), registered("b", "uid", hubv1alpha1.ReasonRegistrationGone),
			},
			counted: 1, objects: 2,
			refused: "needed by 1 ManagedResource: b/addons. Delete",
			kept:    "of: b/addons\n",
		},
		"one that has its target by a class, of a namespace that registers the cluster itself": {
			there:   []client.Object{mr("b", "addons", "uid", 2), registered("b", "uid", "Ready")},
			counted: 1, objects: 2,
			refused: "needed by 1 ManagedResource: 1 of other namespaces, as the hub counts. Delete",
			kept:    "of: 1 of other namespaces, as the hub counts\n",
		},
		"one of another namespace, and the user may not list clusters": {
			there:   []client.Object{mr("b", "addons", "uid", 2)},
			counted: 1, objects: 2, rights: failing(&hubv1alpha1.TargetClusterList{}, refusal),
			refused: "needed by 1 ManagedResource: 1 of other namespaces, as the hub counts. Delete",
			kept:    "of: 1 of other namespaces, as the hub counts\n",
		},
		"one of another namespace, and the list fails": {
			there:   []client.Object{mr("b", "addons", "uid", 2)},
			counted: 1, rights: failing(&metav1.PartialObjectMetadataList{}, errors.New("no quorum")),
			fails: "listing ManagedResources: no quorum",
		},
		"one of a namespace that the user may not list": {
			there: []client.Object{mr("b", "addons", "uid", 2)}, counted: 1, objects: 2, rights: forbidden,
			refused: "needed by 1 ManagedResource: 1 of other namespaces, as the hub counts. Delete",
			kept:    "keeps 2 objects, which no hub reconciles from now on, of: 1 of other namespaces, as the hub counts\n",
		},
		"one here, and one there": {
			there:   []client.Object{mr("a", "addons", "uid", 1), mr("b", "addons", "uid", 2)},
			counted: 2, objects: 3, rights: forbidden,
			refused: "needed by 2 ManagedResources: addons (1 object), and 1 of other namespaces, as the hub counts. Delete",
			kept:    "keeps 3 objects",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a"}}
			tc.Status.ClusterUID, tc.Status.Objects = "uid", test.objects
			tc.Status.ManagedResources = &hubv1alpha1.ManagedResourceCounts{Total: test.counted}
			registration := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a-kubeconfig"}}
			now := tc.DeepCopy()
			now.Status.ManagedResources.Total = ptr.Deref(test.later, test.counted)
			c := fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(append(test.there, now, registration)...).
				WithInterceptorFuncs(test.rights).Build()
			streams, _, _, errOut := genericiooptions.NewTestIOStreams()
			env := cli.NewEnv(streams)
			env.Clock = &hasty{FakeClock: clocktesting.NewFakeClock(time.Now())}
			r := &remove{change: change{env: env, wait: true, timeout: time.Second}}
			source := &cli.Source{WithWatch: c, Namespace: "a"}
			_, n, err := r.needs(t.Context(), source, tc)
			if test.fails != "" {
				g.Expect(err).To(MatchError(test.fails))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			needed, err := r.needed("a", n)
			g.Expect(needed).To(Equal(test.refused != ""))
			if test.refused == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(test.refused)))
			r.confirm = true
			_, err = r.needed("a", n)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(errOut.String()).To(ContainSubstring(test.kept))
		})
	}
}

// TestAdmissionThatIsBehindIsAskedAgain: the admission policy sees a new count a moment later than trellisctl, which
// has waited for it. In e2e/trellisctl with a real policy that moment is seldom met.
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
		"it is not needed, and the policy is behind": {refusals: 2, asked: 3},
		"it is not needed":                           {asked: 1},
		"the answer is lost":                         {refusals: 1, lost: true, asked: 3},
		"the policy goes on refusing":                {refusals: 1000, err: refusal, asked: 22},
		"it is needed":                               {needed: true, refusals: 1, err: refusal, asked: 1},
		"the user may not":                           {refusals: 1, with: rbac, err: rbac, asked: 1},
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
			err := r.unregister(t.Context(), &cli.Source{WithWatch: c, Namespace: "a"}, registration, test.needed)
			if test.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(test.err))
			}
			g.Expect(asked).To(Equal(test.asked))
		})
	}
}
