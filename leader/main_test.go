package leader_test

import (
	"context"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/leader"
)

func TestMain(m *testing.M) {
	klog.SetOutput(nothing{})
	klog.LogToStderr(false)
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	goleak.VerifyTestMain(m)
}

type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }

// source is a cluster with the Lease.
type source struct {
	*WithT
	t      *testing.T
	config *rest.Config
	client kubernetes.Interface
}

func newSource(t *testing.T) *source {
	t.Helper()
	s := &source{WithT: NewWithT(t), t: t}
	fleet, err := fleetsim.Start(t.Context(), fleetsim.Options{Targets: 1})
	s.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(fleet.Stop)
	s.config, err = clientcmd.RESTConfigFromKubeConfig(fleet.Targets()[0].Kubeconfig())
	s.Expect(err).NotTo(HaveOccurred())
	s.config.QPS = -1
	http, err := rest.HTTPClientFor(s.config)
	s.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(http.CloseIdleConnections)
	s.client, err = kubernetes.NewForConfigAndClient(s.config, http)
	s.Expect(err).NotTo(HaveOccurred())
	return s
}

// replica is a running election, with the begins and ends of its terms.
type replica struct {
	*leader.Election
	began, ended chan struct{}      // a term
	end          context.CancelFunc // begins the end
	stop         func()             // ends it, and waits for that
}

// start starts a replica whose client-go would look at the Lease once in five minutes only.
func (s *source) start(name string, change func(*leader.Options)) *replica {
	s.t.Helper()
	r := &replica{began: make(chan struct{}, 100), ended: make(chan struct{}, 100)}
	o := leader.Options{
		Source: s.config, Identity: name,
		Config: configv1alpha1.LeaderElection{
			ResourceLock: "leases", ResourceNamespace: "default", ResourceName: "hub",
			LeaseDuration: minutes(60), RenewDeadline: minutes(20), RetryPeriod: minutes(5),
		},
		Term: func(ctx context.Context) error {
			r.began <- struct{}{}
			<-ctx.Done()
			r.ended <- struct{}{}
			return nil
		},
	}
	if change != nil {
		change(&o)
	}
	r.Election = leader.New(o)
	var ctx context.Context
	ctx, r.end = context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	var once sync.Once // which a test that fails may leave, unlike sync.OnceFunc
	r.stop = func() {
		s.t.Helper()
		r.end()
		once.Do(func() { s.Eventually(done).Should(Receive(BeNil())) })
	}
	s.t.Cleanup(r.stop)
	return r
}

var deleteNow = metav1.DeleteOptions{}

func minutes(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Minute} }

// lease returns the Lease.
func (s *source) lease() *coordinationv1.Lease {
	s.t.Helper()
	lease, err := s.client.CoordinationV1().Leases("default").Get(s.t.Context(), "hub", metav1.GetOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	return lease
}

// holder returns the holder of the Lease, empty if it was given back. expectRenewed waits until the Lease has been
// renewed for the first time of a term. The next renewal comes minutes later.
func (s *source) expectRenewed() {
	s.t.Helper()
	s.Eventually(func() bool {
		l := s.lease().Spec
		return l.RenewTime.After(l.AcquireTime.Time)
	}).Should(BeTrue())
}

func (s *source) holder() string {
	s.t.Helper()
	if h := s.lease().Spec.HolderIdentity; h != nil {
		return *h
	}
	return ""
}

// take has another client renew the Lease, by force if need be.
func (s *source) take(seconds int32) {
	s.t.Helper()
	leases := s.client.CoordinationV1().Leases("default")
	s.Eventually(func() error {
		lease, err := leases.Get(s.t.Context(), "hub", metav1.GetOptions{})
		if err != nil {
			lease, err = leases.Create(s.t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "hub"}}, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = new("another-client"), &seconds,
			new(metav1.NowMicro())
		_, err = leases.Update(s.t.Context(), lease, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}
