package nodehighavailability

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/nodemarks"
)

// count is how many objects a complete watch has; -1 if it is not complete.
func count(watched clustercache.Subscription) int {
	n := 0
	if !watched.Range(func(types.NamespacedName, any) bool { n++; return true }) {
		return -1
	}
	return n
}

func TestNODE30_WorkloadsAreSpreadAnewWithTheSecondNode(t *testing.T) {
	b := newBench(t)
	b.webhook(shared.A)
	b.node(shared.A, "n-0")
	d, s := deployment(b.namespace, "d", anyway), statefulSet(b.namespace, "s", anyway)
	shared.A.Create(t, d)
	shared.A.Create(t, s)
	b.start(nil)
	b.settles(shared.A, 1)
	b.Expect(b.patched(shared.A)()).To(BeEmpty())

	second := b.node(shared.A, "n-1")
	b.Eventually(b.spread(shared.A, d)).Should(Equal(strictly))
	b.Eventually(b.spread(shared.A, s)).Should(Equal(strictly))
	b.settles(shared.A, 2)
	b.Expect(b.patched(shared.A)()).To(HaveEach(BeElementOf("d", "s")))

	shared.A.Delete(t, second)
	b.Eventually(b.spread(shared.A, d)).Should(Equal(anyway))
	b.Eventually(b.spread(shared.A, s)).Should(Equal(anyway))
}

func TestNODE30_WorkloadsAreSpreadAgainIfTheSecondNodeWasNotWatched(t *testing.T) {
	b := newBench(t)
	b.webhook(shared.A)
	first := b.node(shared.A, "n-0")
	d := deployment(b.namespace, "d", anyway)
	shared.A.Create(t, d)
	second := b.node(shared.A, "n-1")
	stop := b.start(nil)
	b.Eventually(b.spread(shared.A, d)).Should(Equal(strictly))
	stop()
	shared.A.Delete(t, first)
	shared.A.Delete(t, second)
	b.start(nil)
	b.Eventually(b.spread(shared.A, d)).Should(Equal(anyway))
}

func TestNODE31_WorkloadsWithoutAConstraintAreLeftAlone(t *testing.T) {
	b := newBench(t)
	d, s := deployment(b.namespace, "d"), statefulSet(b.namespace, "s")
	fits := deployment(b.namespace, "fits", strictly, anyway) // the first one counts
	for _, object := range []client.Object{d, s, fits, deployment(b.namespace, "misfits", anyway)} {
		shared.A.Create(t, object)
	}
	b.node(shared.A, "n-0")
	b.node(shared.A, "n-1")
	b.start(func(o *Options) { o.pageSize = 1 })
	b.Eventually(b.patched(shared.A)).Should(ContainElement("misfits"))
	b.settles(shared.A, 2)
	b.Expect(b.patched(shared.A)()).To(HaveEach("misfits"))
	for _, object := range []client.Object{d, s, fits} {
		before := object.GetResourceVersion()
		b.Expect(shared.A.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
		b.Expect(object.GetResourceVersion()).To(Equal(before))
	}
}

func TestNODE32_WhatIsNotConsideredIsLeftAlone(t *testing.T) {
	for name, scopes := range map[string]int{"NODE-32 few namespaces": 100, "NODE-32 many namespaces": 1} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.space(shared.A, b.namespace+"-considered", "true")
			b.space(shared.A, b.namespace+"-false", "false")
			b.space(shared.A, b.namespace+"-unlabelled", "")
			for _, suffix := range []string{"", "-considered", "-false", "-unlabelled"} {
				shared.A.Create(t, deployment(b.namespace+suffix, "d"+suffix, anyway))
				shared.A.Create(t, statefulSet(b.namespace+suffix, "s"+suffix, anyway))
			}
			skipped := deployment(b.namespace, "skipped", anyway)
			skipped.Labels = map[string]string{skipLabel: "false"} // the value does not matter
			shared.A.Create(t, skipped)
			b.node(shared.A, "n-0")
			b.node(shared.A, "n-1")
			b.start(func(o *Options) { o.pageSize, o.maxScopes = 2, scopes })
			want := []string{"d", "s", "d-considered", "s-considered"}
			b.Eventually(b.patched(shared.A)).Should(ContainElements(want))
			b.settles(shared.A, 2)
			b.Expect(b.patched(shared.A)()).To(ConsistOf(want))
		})
	}
}

func TestNODE33_MoreNodesChangeNothing(t *testing.T) {
	b := newBench(t)
	d := deployment(b.namespace, "d", anyway) // and no webhook changes it
	shared.A.Create(t, d)
	b.node(shared.A, "n-0")
	b.node(shared.A, "n-1")
	b.start(nil)
	b.Eventually(b.patched(shared.A)).Should(ContainElement("d"))
	b.settles(shared.A, 2)
	patches := len(b.patched(shared.A)())
	third := b.node(shared.A, "n-2")
	b.settles(shared.A, 3)
	shared.A.Delete(t, third)
	b.settles(shared.A, 2)
	b.Expect(b.patched(shared.A)()).To(HaveLen(patches))
	b.Expect(shared.A.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d)).To(Succeed())
	b.Expect(d.Generation).To(BeEquivalentTo(1), "a patch without content is no change")

}

func TestNodesThatChangeAreNotCounted(t *testing.T) {
	g, marks := NewWithT(t), nodemarks.Marks{}
	g.Expect(changed(types.NamespacedName{Name: "n"}, marks, nodemarks.Marks{Waits: true})).To(BeEmpty())
	g.Expect(changed(types.NamespacedName{Name: "n"}, nil, marks)).To(HaveLen(1))
	g.Expect(changed(types.NamespacedName{Name: "n"}, marks, nil)).To(HaveLen(1))
}

func TestNODE34_FailuresAreTriedAgain(t *testing.T) {
	b := newBench(t)
	b.webhook(shared.A)
	d, s := deployment(b.namespace, "d", anyway), statefulSet(b.namespace, "s", anyway)
	shared.A.Create(t, d)
	shared.A.Create(t, s)
	b.node(shared.A, "n-0")
	b.node(shared.A, "n-1")
	var tried atomic.Int64
	shared.Intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
		if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, b.namespace+"/deployments/d") || tried.Add(1) > 2 {
			return nil
		}
		return &http.Response{
			StatusCode: http.StatusInternalServerError, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil)),
		}
	})
	b.start(nil)
	b.Eventually(b.spread(shared.A, s)).Should(Equal(strictly), "others do not wait")
	b.Eventually(b.spread(shared.A, d)).Should(Equal(strictly))
	b.Expect(tried.Load()).To(BeNumerically(">=", 3))
	b.Expect(b.events.Events).To(BeEmpty())
}

func TestWorkloadThatIsGoneIsNoFailure(t *testing.T) {
	b := newBench(t)
	d := deployment(b.namespace, "d", anyway)
	shared.A.Create(t, d)
	b.node(shared.A, "n-0")
	b.node(shared.A, "n-1")
	shared.Intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
		if r.Method == http.MethodPatch {
			shared.A.Delete(t, d)
		}
		return nil
	})
	b.start(nil)
	b.Eventually(b.patched(shared.A)).ShouldNot(BeEmpty())
	b.settles(shared.A, 2)
	b.Expect(b.events.Events).To(BeEmpty())
	patches := len(b.patched(shared.A)())
	b.settles(shared.A, 2)
	b.Expect(b.patched(shared.A)()).To(HaveLen(patches))
}

func TestNODE42_NodesOfATargetConcernNoOther(t *testing.T) {
	b := newBench(t)
	b.webhook(shared.A)
	b.webhook(shared.B)
	inA, inB := deployment(b.namespace, "d", anyway), deployment(b.namespace, "d", anyway)
	shared.A.Create(t, inA)
	shared.B.Create(t, inB)
	b.node(shared.A, "n-0")
	b.start(nil)
	for _, name := range []string{"n-0", "n-1", "n-2"} {
		b.node(shared.B, name)
	}
	b.Eventually(b.spread(shared.B, inB)).Should(Equal(strictly))
	b.settles(shared.A, 1)
	b.Expect(b.patched(shared.A)()).To(BeEmpty())
	b.Expect(b.spread(shared.A, inA)()).To(Equal(anyway))

	before := len(b.patched(shared.B)())
	b.node(shared.A, "n-1")
	b.Eventually(b.spread(shared.A, inA)).Should(Equal(strictly))
	b.settles(shared.B, 3)
	b.Expect(b.patched(shared.B)()).To(HaveLen(before))
}

// rights are those that the controller needs, but for those on workloads.
var rights = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"list"}},
}

func TestRights(t *testing.T) {
	b := newBench(t)
	b.webhook(shared.B)
	register := func(verbs ...string) clustercache.ClusterKey {
		user := "user-" + rand.String(8)
		key := clustercache.ClusterKey{Namespace: "shoot-" + user, Name: user}
		kubeconfig, err := shared.B.Restricted(t.Context(), user, append(rights, rbacv1.PolicyRule{
			APIGroups: []string{"apps"}, Resources: []string{"deployments", "statefulsets"}, Verbs: verbs,
		})...)
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(shared.Register(t.Context(), key, kubeconfig)).To(Succeed())
		return key
	}
	d := deployment(b.namespace, "d", anyway)
	shared.B.Create(t, d)
	b.node(shared.B, "n-0")
	b.node(shared.B, "n-1")
	stop := b.start(nil, register("list"))
	b.Eventually(b.events.Events).Should(Receive(And(
		HavePrefix("Warning "+reasonFailed), ContainSubstring("patching Deployment "+b.namespace+"/d"))))
	stop()
	b.start(nil, register("list", "patch"))
	b.Eventually(b.spread(shared.B, d)).Should(Equal(strictly))
}

func TestTooManyWorkloadsAreReported(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"a", "b", "c"} {
		shared.A.Create(t, deployment(b.namespace, name, anyway))
	}
	b.node(shared.A, "n-0")
	b.node(shared.A, "n-1")
	b.start(func(o *Options) { o.pageSize, o.maxObjects = 1, 2 }, shared.A.Key)
	b.Eventually(b.events.Events).Should(Receive(ContainSubstring("there are too many: 2 are looked at")))
}

func TestWhatMisfits(t *testing.T) {
	g := NewWithT(t)
	g.Expect(misfits(&corev1.PodSpec{}, true)).To(BeFalse())
	for _, many := range []bool{true, false} {
		d := template("d", anyway)
		g.Expect(misfits(&d.Spec, many)).To(Equal(many))
		d = template("d", strictly)
		g.Expect(misfits(&d.Spec, many)).To(Equal(!many))
	}
}

func TestRequiredOptions(t *testing.T) {
	_, err := New(Options{})
	NewWithT(t).Expect(err).To(MatchError("controller node-high-availability: a required option is missing"))
}
