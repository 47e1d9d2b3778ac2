package connection

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
)

func TestGroupsOfPaths(t *testing.T) {
	g := NewWithT(t)
	for path, group := range map[string]string{
		"/api/v1/namespaces/a/configmaps/b":       "",
		"/api/v1/nodes":                           "",
		"/apis/apps/v1/namespaces/a/deployments":  "apps",
		"/apis/example.com/v1/gadgets/one/status": "example.com",
	} {
		found, ok := groupOf(path)
		g.Expect(ok).To(BeTrue(), path)
		g.Expect(found).To(Equal(group), path)
	}
	for _, path := range []string{"", "/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/version",
		"/openapi/v3/apis/apps/v1/x"} {
		_, ok := groupOf(path)
		g.Expect(ok).To(BeFalse(), path)
	}
}

func TestAnswersAboutAddresses(t *testing.T) {
	g := NewWithT(t)
	answer := func(code int, kind string) *http.Response {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {kind}}}
	}
	g.Expect(isUnserved(answer(404, "text/plain; charset=utf-8"))).To(BeTrue())
	g.Expect(isUnserved(answer(405, "application/json"))).To(BeTrue())
	g.Expect(isUnserved(answer(404, "application/json"))).To(BeFalse())
	g.Expect(isUnserved(answer(404, "application/vnd.kubernetes.protobuf"))).To(BeFalse())
	g.Expect(isUnserved(answer(503, "text/plain"))).To(BeFalse())
}
