package managedresource_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// Lists are applied, kept and pruned item by item, whatever kind of list they are in.
func TestListsAreAppliedAsTheirItems(t *testing.T) {
	t.Parallel()
	p := registered(t)
	untyped := func(name, value string) string {
		return `{"metadata":{"namespace":"` + p.ns + `","name":"` + name + `"},"data":{"key":"` + value + `"}}`
	}
	list := func(kind string, items ...string) string {
		return `{"apiVersion":"v1","kind":"` + kind + `","items":[` + strings.Join(items, ",") + `]}`
	}
	p.content("content",
		list("List", testbed.ConfigMap(p.ns, "one", "1"), list("ConfigMapList", untyped("two", "2"))),
		list("ConfigMapList", untyped("three", "3"), untyped("four", "4")))
	p.mr("mr", "content")
	mr := p.awaitReady("mr")
	p.Expect(mr.Status.Resources).To(HaveLen(4))
	for name, value := range map[string]string{"one": "1", "two": "2", "three": "3", "four": "4"} {
		p.awaitValue(name, value)
	}

	p.content("content", list("List", testbed.ConfigMap(p.ns, "one", "5")), list("ConfigMapList", untyped("four", "6")))
	p.awaitAbsent(p.configMap("two"))
	p.awaitAbsent(p.configMap("three"))
	p.awaitValue("one", "5")
	p.awaitValue("four", "6")

	// An item that cannot be read deletes nothing.
	p.content("content", list("List", testbed.ConfigMap(p.ns, "one", "7"), "7"))
	p.await("mr", has(applied, no, "DecodingFailed", "item 2 of document 1 of key objects.yaml in Secret "+p.ns+"/content"))
	p.awaitValue("one", "7")
	p.fence()
	p.awaitValue("four", "6")
}
