package managedresource_test

import (
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// Content that changes again and again, objects that others edit meanwhile, and a status that changes with both:
// nothing is written on the strength of a state that is not the latest, so no write is made in vain.
func TestBUG13_W18_WritesDoNotConflict(t *testing.T) {
	t.Parallel()
	p := registered(t)
	const objects = 5
	content := func(value string) {
		var documents []string
		for i := range objects {
			documents = append(documents, testbed.ConfigMap(p.ns, fmt.Sprint("object-", i), value))
		}
		p.content("content", append(documents, p.deploymentManifest("app", "{}"))...)
	}
	content("0")
	p.mr("mr", "content")
	for round := range 20 {
		content(fmt.Sprint(round))
		if round%5 != 4 {
			continue
		}
		p.awaitValue("object-0", fmt.Sprint(round))
		for i := range objects {
			cm := p.configMap(fmt.Sprint("object-", i))
			p.edit(target, cm, func() { cm.Data = map[string]string{"key": "by hand"} })
		}
	}
	for i := range objects {
		p.awaitValue(fmt.Sprint("object-", i), "19")
	}
	p.awaitApplied("mr")
	p.fence()

	conflict := func(e controlplane.AuditEntry) bool { return p.inNamespace(e) && e.Code == http.StatusConflict }
	p.Expect(p.requests(target, conflict)).To(BeEmpty())
	p.Expect(p.requests(source, func(e controlplane.AuditEntry) bool { return conflict(e) && e.Resource == "managedresources" })).To(BeEmpty())
}
