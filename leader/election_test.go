package leader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/leader"
)

// TestSuccessorBeginsWhenTheLeaseIsGivenBack would wait for five minutes if it left the looking to client-go.
func TestSuccessorBeginsWhenTheLeaseIsGivenBack(t *testing.T) {
	s := newSource(t)
	first := s.start("first", nil)
	s.Eventually(first.began).Should(Receive())
	second := s.start("second", nil)
	s.Consistently(second.began, time.Second).ShouldNot(Receive())
	s.Expect(second.Leading()).To(BeFalse())
	first.stop()
	s.Eventually(second.began).Should(Receive())
	s.Expect(s.holder()).To(Equal("second"))
	second.stop()
	s.Expect(s.holder()).To(BeEmpty())
}

func TestLeaseIsGivenBackAfterTheTerm(t *testing.T) {
	s := newSource(t)
	ended := make(chan struct{})
	r := s.start("first", func(o *leader.Options) {
		o.Term = func(ctx context.Context) error {
			<-ctx.Done()
			<-ended
			return nil
		}
	})
	s.Eventually(r.Leading).Should(BeTrue())
	r.end()
	s.Consistently(s.holder, time.Second).Should(Equal("first"))
	close(ended)
	s.Eventually(s.holder).Should(BeEmpty())
}

func TestLeaseThatIsGoneIsTaken(t *testing.T) {
	s := newSource(t)
	s.take(3600)
	r := s.start("first", nil)
	s.Consistently(r.began, time.Second).ShouldNot(Receive())
	s.Expect(s.client.CoordinationV1().Leases("default").Delete(t.Context(), "hub", deleteNow)).To(Succeed())
	s.Eventually(r.began).Should(Receive())
}

func TestLeaseThatRanOutIsTakenAndNoneThatIsRenewed(t *testing.T) {
	s := newSource(t)
	s.take(10)
	r := s.start("first", nil)
	for range 60 { // for longer than it lasts
		s.take(10)
		s.Consistently(r.began, 200*time.Millisecond).ShouldNot(Receive())
	}
	s.Eventually(r.began).Should(Receive(), "no replica renews it any longer")
	s.Expect(s.holder()).To(Equal("first"))
	s.Expect(s.lease().Spec.LeaseDurationSeconds).To(Equal(ptr.To(int32(3600))))
}

// TestTermEndsWhenAnotherReplicaHoldsTheLease does not wait for the renewal deadline, which is minutes away.
func TestTermEndsWhenAnotherReplicaHoldsTheLease(t *testing.T) {
	s := newSource(t)
	r := s.start("first", func(o *leader.Options) { o.Config.RetryPeriod.Duration = 300 * time.Millisecond })
	s.Eventually(r.began).Should(Receive())
	s.take(3600)
	s.Eventually(r.ended).Should(Receive())
	s.Eventually(r.Leading).Should(BeFalse())
	s.Consistently(s.holder, time.Second).Should(Equal("another-client"))
	s.Expect(s.client.CoordinationV1().Leases("default").Delete(t.Context(), "hub", deleteNow)).To(Succeed())
	s.Eventually(r.began).Should(Receive(), "it contends again")
}

// TestLeaseOfTheSuccessorIsNotGivenBack has a leader end that has not noticed yet that it was replaced.
func TestLeaseOfTheSuccessorIsNotGivenBack(t *testing.T) {
	s := newSource(t)
	r := s.start("first", nil)
	s.Eventually(r.began).Should(Receive())
	s.take(3600)
	r.stop()
	s.Expect(s.holder()).To(Equal("another-client"))
}

func TestTermThatFailsIsBegunAgain(t *testing.T) {
	s := newSource(t)
	terms := make(chan struct{}, 10)
	s.start("first", func(o *leader.Options) {
		o.Config.RetryPeriod.Duration = 300 * time.Millisecond
		o.Term = func(context.Context) error {
			terms <- struct{}{}
			return errors.New("no")
		}
	})
	for range 3 {
		s.Eventually(terms).Should(Receive())
	}
}

func TestWithoutElectionThereIsOneTerm(t *testing.T) {
	s := newSource(t)
	r := s.start("first", func(o *leader.Options) { o.Config.LeaderElect = ptr.To(false) })
	s.Eventually(r.began).Should(Receive())
	s.Expect(r.Leading()).To(BeTrue())
	r.stop()
	s.Expect(r.Leading()).To(BeFalse())
	_, err := s.client.CoordinationV1().Leases("default").Get(t.Context(), "hub", metav1.GetOptions{})
	s.Expect(err).To(HaveOccurred())
}
