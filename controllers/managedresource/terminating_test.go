package managedresource_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// An object that another client deletes, and that a finalizer holds, cannot be corrected. When it is gone, the event
// has it created again.
func TestTerminatingObjectIsLeftAloneAndCreatedAgain(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "two", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	one := p.configMap("one")
	p.edit(target, one, func() { one.Finalizers = []string{blocker} })
	p.fence()
	p.Expect(target.Client.Delete(p.ctx, one)).To(Succeed())
	p.fence()

	const edits = 8
	looks := func() int {
		return len(p.requests(source, p.looks("secrets", "content"))) + len(p.requests(target, p.looks("configmaps", "one")))
	}
	before := looks()
	for i := range edits {
		p.edit(target, one, func() { one.Data["key"] = fmt.Sprint("by hand ", i) })
		p.fence()
	}
	p.Expect(looks()-before).To(BeNumerically("<", edits/2), "looks at what cannot be mended")
	p.awaitValue("one", fmt.Sprint("by hand ", edits-1))

	// The others are kept right meanwhile.
	two := p.configMap("two")
	p.edit(target, two, func() { two.Data["key"] = "by hand" })
	p.awaitValue("two", "1")
	uid := read(p, one).UID
	p.Expect(one.DeletionTimestamp).NotTo(BeNil())

	p.unblock(one)
	p.awaitValue("one", "1")
	p.awaitReady("mr")
	p.Expect(read(p, p.configMap("one")).UID).NotTo(Equal(uid))
}

// Objects that go one by one bring a run each. The next look, which is all there is for an object that the watches do
// not show, is not put off by that.
func TestDeletionLooksAgainSoonAlthoughManyObjectsWentOneByOne(t *testing.T) {
	t.Parallel()
	p := registered(t)
	const objects = 12
	var documents []string
	for i := range objects {
		documents = append(documents, p.blocked(fmt.Sprint("blocked-", i)))
	}
	p.content("content", documents...)
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.deleteMR("mr")
	for i := range objects - 1 {
		cm := p.configMap(fmt.Sprint("blocked-", i))
		p.Eventually(func() *metav1.Time { return read(p, cm).DeletionTimestamp }).ShouldNot(BeNil())
		p.unblock(cm)
		p.Eventually(func() int { return len(p.get("mr").Status.Resources) }).Should(Equal(objects - 1 - i))
	}
	last := p.configMap(fmt.Sprint("blocked-", objects-1))
	p.edit(target, read(p, last), func() { last.Labels = nil })
	p.fence()
	p.unblock(last)
	p.awaitGone("mr")
}
