package identity_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/targetcluster/identity"
)

var source = clustercache.ClusterKey{Name: "source"}

// informers are those of the source, with what a client has.
type informers struct {
	cache.Cache
	builder *fake.ClientBuilder
	client  client.Client
	broken  error
}

func newInformers() *informers {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{hubv1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // they are well known
		}
	}
	return &informers{builder: fake.NewClientBuilder().WithScheme(scheme)}
}

func (i *informers) IndexField(_ context.Context, obj client.Object, field string, of client.IndexerFunc) error {
	if i.broken == nil {
		i.client = i.builder.WithIndex(obj, field, of).Build()
	}
	return i.broken
}

func (i *informers) Get(ctx context.Context, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	if i.broken != nil {
		return i.broken
	}
	return i.client.Get(ctx, key, obj, o...)
}

func (i *informers) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if i.broken != nil {
		return i.broken
	}
	return i.client.List(ctx, list, o...)
}

// at is a time of the test.
func at(seconds int) time.Time { return time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC) }

// claims is a TargetCluster that exists since a second of the test and claims a cluster, since another second unless
// that is negative.
func claims(namespace, name string, uid types.UID, created, since int) *hubv1alpha1.TargetCluster {
	tc := &hubv1alpha1.TargetCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(at(created))},
		Status:     hubv1alpha1.TargetClusterStatus{ClusterUID: uid},
	}
	if since >= 0 {
		time := metav1.NewMicroTime(at(since))
		tc.Status.ClusterUIDSince = &time
	}
	return tc
}

// gone is one whose registration is gone.
func gone(tc *hubv1alpha1.TargetCluster) *hubv1alpha1.TargetCluster {
	tc.Status.Conditions = []metav1.Condition{{
		Type: hubv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: hubv1alpha1.ReasonRegistrationGone,
	}}
	return tc
}

func TestMC4_WhoHoldsACluster(t *testing.T) {
	for name, test := range map[string]struct {
		registered []client.Object
		source     types.UID
		want       clustercache.ClusterKey
	}{
		"none":                 {nil, "s", clustercache.ClusterKey{}},
		"one that is not this": {[]client.Object{claims("a", "a", "v", 0, 0)}, "s", clustercache.ClusterKey{}},
		"the only one": {
			[]client.Object{claims("a", "a", "u", 0, 0)}, "s", clustercache.ClusterKey{Namespace: "a", Name: "a"},
		},
		"the first one": {
			[]client.Object{claims("a", "a", "u", 0, 9), claims("b", "b", "u", 5, 8)}, "s",
			clustercache.ClusterKey{Namespace: "b", Name: "b"},
		},
		"one of the same namespace": {
			[]client.Object{claims("a", "a", "u", 0, 9), claims("a", "b", "u", 5, 8)}, "s",
			clustercache.ClusterKey{Namespace: "a", Name: "b"},
		},
		"one without a time of its claim counts since it exists": {
			[]client.Object{claims("a", "a", "u", 0, 4), claims("b", "b", "u", 3, -1)}, "s",
			clustercache.ClusterKey{Namespace: "b", Name: "b"},
		},
		"the first of several without a time": {
			[]client.Object{claims("a", "a", "u", 4, -1), claims("b", "b", "u", 3, -1)}, "s",
			clustercache.ClusterKey{Namespace: "b", Name: "b"},
		},
		"at the same time, the first by namespace": {
			[]client.Object{claims("b", "a", "u", 0, 1), claims("a", "b", "u", 0, 1)}, "s",
			clustercache.ClusterKey{Namespace: "a", Name: "b"},
		},
		"at the same time, the first by name": {
			[]client.Object{claims("a", "b", "u", 0, 1), claims("a", "a", "u", 0, 1)}, "s",
			clustercache.ClusterKey{Namespace: "a", Name: "a"},
		},
		"the next one, if the registration of the first is gone": {
			[]client.Object{gone(claims("a", "a", "u", 0, 1)), claims("b", "b", "u", 0, 2)}, "s",
			clustercache.ClusterKey{Namespace: "b", Name: "b"},
		},
		"none, if all are gone": {
			[]client.Object{gone(claims("a", "a", "u", 0, 1))}, "s", clustercache.ClusterKey{},
		},
		"the source before all others": {[]client.Object{claims("a", "a", "u", 0, 1)}, "u", source},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			i := newInformers()
			system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: test.source}}
			i.builder.WithObjects(append(test.registered, system)...)
			h := NewHolders(i, source)
			g.Expect(h.Register(t.Context())).To(Succeed())
			holder, held := h.Of("u")
			g.Expect(holder).To(Equal(test.want))
			g.Expect(held).To(Equal(test.want != clustercache.ClusterKey{}))
			for _, obj := range test.registered {
				tc, _ := obj.(*hubv1alpha1.TargetCluster)
				key := client.ObjectKeyFromObject(tc)
				of := clustercache.Status{Cluster: key, UID: tc.Status.ClusterUID}
				g.Expect(h.Holds(of, tc)).To(Equal(key == test.want || tc.Status.ClusterUID != "u"), "%s", key)
			}
			g.Expect(h.Holds(clustercache.Status{Cluster: source, UID: test.source}, nil)).To(BeTrue(), "the source")
		})
	}
}

func TestMC4_ARegistrationWaitsUntilItIsKnownWhichClusterItIs(t *testing.T) {
	g := NewWithT(t)
	i := newInformers()
	known := claims("a", "a", "u", 0, 1)
	i.builder.WithObjects(known)
	h := NewHolders(i, clustercache.ClusterKey{})
	g.Expect(h.Register(t.Context())).To(Succeed())
	key := client.ObjectKeyFromObject(known)
	g.Expect(h.Holds(clustercache.Status{Cluster: key}, known)).To(BeTrue(), "it was not connected yet")
	g.Expect(h.Holds(clustercache.Status{Cluster: key, UID: "u"}, known)).To(BeTrue())
	g.Expect(h.Holds(clustercache.Status{Cluster: key, UID: "v"}, known)).To(BeFalse(), "it is another one now")
	g.Expect(h.Holds(clustercache.Status{Cluster: key, UID: "u"}, nil)).To(BeFalse(), "there is no TargetCluster")
	g.Expect(h.Holds(clustercache.Status{Cluster: key, UID: "w"}, claims("a", "a", "", 0, -1))).To(BeFalse())

	i.broken = errors.New("the informer is not there")
	g.Expect(h.Holds(clustercache.Status{Cluster: key, UID: "u"}, known)).To(BeFalse(), "nothing is known")
	g.Expect(NewHolders(i, source).Register(t.Context())).To(MatchError(i.broken))
	_, held := NewHolders(i, source).Of("u")
	g.Expect(held).To(BeFalse(), "the source is not known")
	var all *Holders
	g.Expect(all.Holds(clustercache.Status{Cluster: key, UID: "u"}, nil)).To(BeTrue())
}

// Whatever registrations do, and whatever clocks say: the holder of a cluster stays it until it goes or becomes another
// cluster, and while there are registrations of a cluster there is one.
func TestMC4_NoRegistrationDisplacesTheHolder(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			g, random := NewWithT(t), rand.New(rand.NewPCG(seed, 0))
			i := newInformers()
			i.builder.WithStatusSubresource(&hubv1alpha1.TargetCluster{})
			h := NewHolders(i, clustercache.ClusterKey{})
			g.Expect(h.Register(t.Context())).To(Succeed())
			uids := []types.UID{"u", "v"}
			holders := map[types.UID]clustercache.ClusterKey{}
			for range 60 {
				key := clustercache.ClusterKey{
					Namespace: fmt.Sprint("ns-", random.IntN(3)), Name: fmt.Sprint("name-", random.IntN(2)),
				}
				gives := types.UID("") // what the registration gives up in this step
				tc := claims(key.Namespace, key.Name, "", 0, -1)
				if err := i.client.Get(t.Context(), key, tc); client.IgnoreNotFound(err) != nil {
					g.Expect(err).NotTo(HaveOccurred())
				} else if err != nil {
					g.Expect(i.client.Create(t.Context(), tc)).To(Succeed())
				}
				before := ClaimOf(tc)
				switch random.IntN(5) {
				case 0:
					gives = before.UID
					g.Expect(i.client.Delete(t.Context(), tc)).To(Succeed())
				case 1:
					gives = before.UID
					gone(tc)
					g.Expect(i.client.Status().Update(t.Context(), tc)).To(Succeed())
				default:
					uid := uids[random.IntN(len(uids))]
					if before.UID != uid {
						gives = before.UID
					}
					if before.UID != uid || before.Released {
						// The clock of the replica that leads, which may be behind.
						since := h.After(uid, at(random.IntN(60)))
						tc.Status.ClusterUID, tc.Status.ClusterUIDSince = uid, &since
					}
					tc.Status.Conditions = nil
					g.Expect(i.client.Status().Update(t.Context(), tc)).To(Succeed())
				}
				for _, uid := range uids {
					holder, held := h.Of(uid)
					if former, was := holders[uid]; was && (former != key || gives != uid) {
						g.Expect(holder).To(Equal(former), "of %s, when %s changed", uid, key)
					}
					claimed := false
					for _, same := range h.Claimants(uid) {
						other := &hubv1alpha1.TargetCluster{}
						g.Expect(i.client.Get(t.Context(), same, other)).To(Succeed())
						claimed = claimed || !ClaimOf(other).Released
					}
					g.Expect(held).To(Equal(claimed))
					if delete(holders, uid); held {
						holders[uid] = holder
					}
				}
			}
		})
	}
}
