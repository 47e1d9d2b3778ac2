package fleetsim_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
)

func TestCallsComePastFaultsAndNetwork(t *testing.T) {
	g := NewWithT(t)
	fleet, err := fleetsim.Start(t.Context(), fleetsim.Options{Targets: 1})
	g.Expect(err).NotTo(HaveOccurred())
	defer fleet.Stop()
	target := fleet.Targets()[0]
	_, err = target.Faults().Set(fault.Fault{Kind: fault.Status, Code: 503})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(target.Stop()).To(Succeed())

	const path = "/api/v1/namespaces/default/configmaps"
	_, err = target.Call(t.Context(), fleetsim.Call{
		Method: http.MethodPost, Path: path, ContentType: "application/json", UserAgent: "another-client",
		Body: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"key":"value"}}`),
	})
	g.Expect(err).NotTo(HaveOccurred())
	body, err := target.Call(t.Context(), fleetsim.Call{Method: http.MethodGet, Path: path + "/a"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(body)).To(ContainSubstring(`"key":"value"`))

	_, err = target.Call(t.Context(), fleetsim.Call{Method: http.MethodGet, Path: path + "/b"})
	var answer *fleetsim.CallError
	g.Expect(err).To(BeAssignableToTypeOf(answer))
	g.Expect(err).To(MatchError(ContainSubstring(`configmaps "b" not found`)))
	g.Expect(err).To(HaveField("Code", http.StatusNotFound))

	history := target.Journal().History().Changes
	g.Expect(history).To(HaveLen(1))
	g.Expect(history[0].UserAgent).To(Equal("another-client"), "the journal knows whose it was")
}
