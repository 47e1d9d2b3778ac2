package state_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	a, b = clustercache.ClusterKey{Namespace: "one", Name: "a"}, clustercache.ClusterKey{Namespace: "two", Name: "b"}
	name = types.NamespacedName{Namespace: "kube-system", Name: "x"}
)

// clusters are targets that can be away, and whose calls are counted.
type clusters struct {
	clients map[clustercache.ClusterKey]client.WithWatch
	away    atomic.Bool
	calls   atomic.Int64
	hangs   chan struct{} // if it is set, calls of A hang until it is closed
}

func (c *clusters) GetUncachedClient(_ context.Context, key clustercache.ClusterKey) (client.Client, error) {
	if c.away.Load() {
		return nil, clustercache.ErrClusterNotConnected
	}
	return interceptor.NewClient(c.clients[key], interceptor.Funcs{
		Get: func(
			ctx context.Context, inner client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption,
		) error {
			c.calls.Add(1)
			if c.hangs != nil {
				select {
				case <-c.hangs:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return inner.Get(ctx, key, obj, o...)
		},
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			c.calls.Add(1)
			return inner.List(ctx, list, o...)
		},
	}), nil
}

func objects(value string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{"of": value}}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}}},
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"of": value}},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: value}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name.Namespace, Annotations: map[string]string{"of": value},
		}},
		&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: "n", Labels: map[string]string{"of": value}, Annotations: map[string]string{"x": "y"},
			},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: value}}, PodCIDR: "10.0.0.0/8"},
		},
		&autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: meta, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3},
		},
	}
}

type bench struct {
	*WithT
	ctx   context.Context
	clock *testingclock.FakePassiveClock
	*clusters
	cache *state.Cache
}

func newBench(t *testing.T) *bench {
	x := &bench{WithT: NewWithT(t), ctx: t.Context(), clock: testingclock.NewFakePassiveClock(time.Now())}
	x.clusters = &clusters{clients: map[clustercache.ClusterKey]client.WithWatch{
		a: fake.NewClientBuilder().WithObjects(objects("a")...).Build(),
		b: fake.NewClientBuilder().WithObjects(objects("b")...).Build(),
	}}
	x.cache = state.New(x.clusters, x.clock)
	return x
}

func (x *bench) after(d time.Duration) { x.clock.SetTime(x.clock.Now().Add(d)) }

// Each one is read from the target that is asked about, and cut down.
func TestWhatIsRead(t *testing.T) {
	x := newBench(t)
	for key, value := range map[clustercache.ClusterKey]string{a: "a", b: "b"} {
		s := x.cache.Of(key, "uid")
		account, err := s.ServiceAccount(x.ctx, name)
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(account.Labels).To(HaveKeyWithValue("of", value))
		x.Expect(account.ImagePullSecrets).To(BeEmpty())
		config, err := s.ConfigMap(x.ctx, name)
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(config.Data).To(HaveKeyWithValue("of", value))
		service, err := s.Service(x.ctx, name)
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(service.Spec.ClusterIP).To(Equal(value))
		namespace, err := s.Namespace(x.ctx, name.Namespace)
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(namespace.Annotations).To(HaveKeyWithValue("of", value))
		nodes, stale, err := s.Nodes(x.ctx)
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(stale).To(BeFalse())
		x.Expect(nodes).To(ConsistOf(corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"of": value}},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: value}}},
		}))
		scalers, err := s.HorizontalPodAutoscalers(x.ctx, name.Namespace)
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(scalers).To(ConsistOf(HaveField("Spec.MaxReplicas", int32(3))))
		x.Expect(s.HorizontalPodAutoscalers(x.ctx, "default")).To(BeEmpty())
	}
}

func TestForHowLongItIsUsed(t *testing.T) {
	x := newBench(t)
	s := x.cache.Of(a, "uid")
	for range 3 {
		x.Expect(s.ServiceAccount(x.ctx, name)).NotTo(BeNil())
	}
	x.Expect(x.calls.Load()).To(BeEquivalentTo(1))
	x.after(6 * time.Second)
	x.Expect(s.ServiceAccount(x.ctx, name)).NotTo(BeNil())
	x.Expect(x.calls.Load()).To(BeEquivalentTo(2))
	x.Expect(x.cache.Of(a, "another").ServiceAccount(x.ctx, name)).NotTo(BeNil())
	x.Expect(x.calls.Load()).To(BeEquivalentTo(3))
}

// HUB-17, PTM-14: that something does not exist is found out each time.
func TestWhatDoesNotExist(t *testing.T) {
	x := newBench(t)
	s := x.cache.Of(a, "uid")
	other := types.NamespacedName{Namespace: name.Namespace, Name: "other"}
	_, err := s.ServiceAccount(x.ctx, other)
	x.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	x.Expect(errors.Is(err, admission.ErrUnknown)).To(BeFalse())
	x.Expect(x.clients[a].Create(x.ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: other.Namespace, Name: other.Name},
	})).To(Succeed())
	x.Expect(s.ServiceAccount(x.ctx, other)).NotTo(BeNil())
}

// HUB-18, HUB-19: what was known last is used for a while.
func TestATargetThatIsAway(t *testing.T) {
	x := newBench(t)
	s := x.cache.Of(a, "uid")
	x.Expect(s.ServiceAccount(x.ctx, name)).NotTo(BeNil())
	x.Expect(s.Namespace(x.ctx, name.Namespace)).NotTo(BeNil())
	_, _, err := s.Nodes(x.ctx)
	x.Expect(err).NotTo(HaveOccurred())
	x.away.Store(true)
	x.after(9 * time.Minute)
	_, err = s.ServiceAccount(x.ctx, name)
	x.Expect(err).To(MatchError(admission.ErrUnknown))
	x.Expect(err).To(MatchError(clustercache.ErrClusterNotConnected))
	x.Expect(s.Namespace(x.ctx, name.Namespace)).NotTo(BeNil(), "HUB-19: the last known one")
	nodes, stale, err := s.Nodes(x.ctx)
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(stale).To(BeTrue(), "HUB-18")
	x.Expect(nodes).To(HaveLen(1))
	x.after(2 * time.Minute)
	_, _, err = s.Nodes(x.ctx)
	x.Expect(err).To(MatchError(admission.ErrUnknown), "they are too old")
	_, err = s.Namespace(x.ctx, name.Namespace)
	x.Expect(err).To(MatchError(admission.ErrUnknown))
}

// HUB-15: a target that hangs delays its own requests, by a second at most.
func TestATargetThatHangs(t *testing.T) {
	x := newBench(t)
	x.hangs = make(chan struct{})
	s := x.cache.Of(a, "uid")
	ctx, cancel := context.WithCancel(x.ctx)
	var work sync.WaitGroup
	failed := make(chan error, 10)
	for range 10 {
		work.Go(func() {
			_, err := s.ServiceAccount(ctx, name)
			failed <- err
		})
	}
	x.Eventually(x.calls.Load).Should(BeEquivalentTo(1), "they share a call")
	cancel()
	work.Wait()
	for range 10 {
		x.Expect(<-failed).To(MatchError(context.Canceled))
	}
	_, err := s.ServiceAccount(x.ctx, name)
	x.Expect(err).To(MatchError(admission.ErrUnknown))
	close(x.hangs)
	x.Eventually(func() error { _, err := s.ServiceAccount(x.ctx, name); return err }).Should(Succeed())
}

// A target cannot have the hub keep as much as it likes.
func TestWhatIsLarge(t *testing.T) {
	x := newBench(t)
	large := types.NamespacedName{Namespace: name.Namespace, Name: "large"}
	x.Expect(x.clients[a].Create(x.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: large.Namespace, Name: large.Name},
		Data:       map[string]string{"x": strings.Repeat("x", 17<<10)},
	})).To(Succeed())
	s := x.cache.Of(a, "uid")
	for range 2 {
		x.Expect(s.ConfigMap(x.ctx, large)).NotTo(BeNil())
	}
	x.Expect(x.calls.Load()).To(BeEquivalentTo(2), "it is read each time")
	x.Expect(x.clients[a].Create(x.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "huge", Labels: map[string]string{"x": strings.Repeat("x", 3<<20)}},
	})).To(Succeed())
	_, _, err := s.Nodes(x.ctx)
	x.Expect(err).To(MatchError(admission.ErrUnknown))
}
