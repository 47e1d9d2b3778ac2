package state_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// Lists count as what they take, so that a target with many of them has the first ones read again.
func TestBytesOfATargetAreBounded(t *testing.T) {
	x := newBench(t)
	const namespaces, size = 30, 300 << 10 // 9 MiB, of which 4 are kept
	for i := range namespaces {
		x.Expect(x.clients[a].Create(x.ctx, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprint("n", i), Name: "large", Labels: map[string]string{"x": strings.Repeat("x", size)},
		}})).To(Succeed())
	}
	s := x.cache.Of(a, "uid")
	for i := range namespaces {
		x.Expect(s.HorizontalPodAutoscalers(x.ctx, fmt.Sprint("n", i))).To(HaveLen(1))
		x.Expect(x.cache.Bytes()).To(And(BeNumerically(">=", min(i+1, 12)*size), BeNumerically("<=", 4<<20)))
	}
	x.Expect(x.calls.Load()).To(BeEquivalentTo(namespaces))
	x.Expect(s.HorizontalPodAutoscalers(x.ctx, fmt.Sprint("n", namespaces-1))).To(HaveLen(1))
	x.Expect(x.calls.Load()).To(BeEquivalentTo(namespaces), "what was asked for last is kept")
	x.Expect(s.HorizontalPodAutoscalers(x.ctx, "n0")).To(HaveLen(1))
	x.Expect(x.calls.Load()).To(BeEquivalentTo(namespaces+1), "what was asked for first is read again")
	x.cache.Of(a, "another")
	x.Expect(x.cache.Bytes()).To(BeZero())
	x.Expect(s.HorizontalPodAutoscalers(x.ctx, "n0")).To(HaveLen(1))
	x.Expect(x.cache.Bytes()).To(BeZero(), "nothing is kept of a target that is forgotten")
}

// Of all targets together, those are forgotten that have not asked for longest.
func TestBytesOfAllTargetsAreBounded(t *testing.T) {
	x := newBench(t)
	const size = 600 << 10
	x.cache.Bound(1 << 20)
	for _, key := range []clustercache.ClusterKey{a, b} {
		x.Expect(x.clients[key].Create(x.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "large", Labels: map[string]string{"x": strings.Repeat("x", size)},
		}})).To(Succeed())
		nodes, _, err := x.cache.Of(key, "uid").Nodes(x.ctx)
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(nodes).To(HaveLen(2))
		x.Expect(x.cache.Bytes()).To(And(BeNumerically(">", size), BeNumerically("<", 1<<20)))
	}
	x.away.Store(true)
	_, _, err := x.cache.Of(a, "uid").Nodes(x.ctx)
	x.Expect(err).To(MatchError(admission.ErrUnknown), "nothing is kept of it")
	nodes, _, err := x.cache.Of(b, "uid").Nodes(x.ctx)
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(nodes).To(HaveLen(2))
	x.cache.Bound(size / 2)
	x.away.Store(false)
	nodes, _, err = x.cache.Of(a, "uid").Nodes(x.ctx)
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(nodes).To(HaveLen(2), "what cannot be kept is read")
	x.Expect(x.cache.Bytes()).To(BeNumerically(">", size), "of another target")
}
