package clustercache

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
)

func TestListFollowsRegistrationsOfEachNamespace(t *testing.T) {
	h := start(t, Options{})
	names := func(namespace string) []string {
		out := []string{}
		for _, status := range h.cache.List(namespace) {
			out = append(out, status.Cluster.String())
		}
		return out
	}
	for _, key := range []ClusterKey{{Namespace: "garden", Name: "b"}, {Namespace: "garden", Name: "a"}, {Namespace: "shoot", Name: "a"}} {
		h.secrets.set(registrationSecret(key, []byte("no kubeconfig")))
		h.expectState(key, StateRefused)
	}
	h.Expect(names("")).To(HaveExactElements("garden/a", "garden/b", "shoot/a"))
	h.Expect(names("garden")).To(HaveExactElements("garden/a", "garden/b"))
	h.Expect(names("shoot")).To(HaveExactElements("shoot/a"))

	h.unregister(ClusterKey{Namespace: "garden", Name: "a"})
	h.unregister(ClusterKey{Namespace: "shoot", Name: "a"})
	h.Eventually(func() []string { return names("garden") }).Should(HaveExactElements("garden/b"))
	h.Eventually(func() []string { return names("shoot") }).Should(BeEmpty())
	h.Eventually(func() int {
		h.cache.mu.RLock()
		defer h.cache.mu.RUnlock()
		return len(h.cache.byNamespace)
	}).Should(Equal(1), "nothing is kept of a namespace without registrations")

	h.register("a", []byte("no kubeconfig"))
	h.Eventually(func() []string { return names("garden") }).Should(HaveExactElements("garden/a", "garden/b"))
}

// BenchmarkList asks for the one target of a namespace among a thousand. It is asked for at every event.
func BenchmarkList(b *testing.B) {
	h := start(b, Options{})
	for i := range 1000 {
		h.secrets.set(registrationSecret(ClusterKey{Namespace: fmt.Sprint("shoot-", i), Name: "a"}, nil))
	}
	h.Eventually(func() int { return len(h.cache.List("")) }).Should(Equal(1000))
	b.ReportAllocs()
	for b.Loop() {
		if len(h.cache.List("shoot-500")) != 1 {
			b.Fatal("the target is gone")
		}
	}
}
