package managedresource_test

import (
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// A Secret that cannot be applied says why, and does not say what is in it.
func TestValuesOfASecretThatCannotBeAppliedAreNotRevealed(t *testing.T) {
	t.Parallel()
	const pin = "7281940365"
	for name, test := range map[string]struct{ fields, says string }{
		"a number without quotes":           {`"stringData":{"pin":` + pin + `}`, "stringData.pin"},
		"a number in data":                  {`"data":{"pin":` + pin + `}`, "data.pin"},
		"a map instead of a value":          {`"data":{"pw":{"nested":"` + marker + `"}}`, "data.pw"},
		"a value instead of a map":          {`"stringData":"` + marker + `"`, "stringData of the Secret is not a map"},
		"text that should be a truth value": {`"immutable":"` + marker + `"`, "immutable"},
		"text of several lines":             {`"immutable":"first\n` + marker + `"`, "immutable"},
		"credentials that are none":         {`"type":"kubernetes.io/dockerconfigjson","stringData":{".dockerconfigjson":"` + marker + `"}`, "dockerconfigjson"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"s"},%s}`, p.ns, test.fields))
			p.mr("mr", "content")
			p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, test.says), has(ready, no, resourcesv1alpha1.ReasonApplyFailed))
			p.Eventually(p.events).Should(ContainElement(SatisfyAll(HavePrefix("Warning "+resourcesv1alpha1.ReasonApplyFailed+": "), ContainSubstring(test.says))))
			p.fence()
			p.expectNoLeak()
			raw, err := json.Marshal(p.all())
			p.Expect(err).NotTo(HaveOccurred())
			p.Expect(string(raw)).NotTo(ContainSubstring(pin))
			p.Expect(p.events()).NotTo(ContainElement(ContainSubstring(pin)))
			p.Expect(hub.Log.About(pin)).To(BeEmpty())
			p.Expect(clientLog.About(pin)).To(BeEmpty())

			p.content("content", fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"s"},"stringData":{"pin":%q}}`, p.ns, pin))
			p.awaitReady("mr")
		})
	}
}
