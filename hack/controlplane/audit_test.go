package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gstruct"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAuditEntriesHaveClientAndRequest(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	cp := StartForTest(t, Options{Audit: true})
	config := cp.RESTConfig()
	config.UserAgent = "audited"
	client := newClient(t, config)

	_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "some"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = client.CoreV1().ServiceAccounts("default").Get(ctx, "missing", metav1.GetOptions{})
	g.Expect(err).To(HaveOccurred())
	watch, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	mine := func() ([]AuditEntry, error) {
		entries, err := cp.AuditEntries()
		var mine []AuditEntry
		for _, entry := range entries {
			if entry.UserAgent == "audited" {
				mine = append(mine, entry)
			}
		}
		return mine, err
	}
	expected := HaveExactElements(
		gstruct.MatchFields(gstruct.IgnoreExtras, gstruct.Fields{
			"Verb": Equal("create"), "Resource": Equal("configmaps"), "Namespace": Equal("default"), "Name": Equal("some"),
			"Code": Equal(201), "Username": Equal(adminUser), "Time": Not(BeZero()),
		}),
		gstruct.MatchFields(gstruct.IgnoreExtras, gstruct.Fields{
			"Verb": Equal("get"), "Resource": Equal("serviceaccounts"), "Name": Equal("missing"), "Code": Equal(404),
		}),
		gstruct.MatchFields(gstruct.IgnoreExtras, gstruct.Fields{
			"Verb": Equal("watch"), "Resource": Equal("configmaps"), "RequestURI": ContainSubstring("watch=true"), "Code": Equal(200),
		}),
	)
	g.Eventually(mine).Should(expected)
	watch.Stop()
	g.Consistently(mine, "500ms").Should(expected, "the end of a watch is no second request")

	cp.StopAPIServer()
	g.Expect(cp.StartAPIServer(ctx)).To(Succeed())
	g.Expect(mine()).To(expected, "what was before a restart is still known")
}

func TestAuditEntriesNeedAudit(t *testing.T) {
	_, err := (&ControlPlane{}).AuditEntries()
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("Options.Audit")))
}

func TestParseAudit(t *testing.T) {
	g := NewWithT(t)
	const log = `{"auditID":"1","stage":"ResponseComplete","verb":"get","requestURI":"/version","responseStatus":{"code":200}}
{"auditID":"2","stage":"ResponseStarted","verb":"watch","requestURI":"/api/v1/pods?watch=true","responseStatus":{"code":200}}

{"auditID":"2","stage":"ResponseComplete","verb":"watch","requestURI":"/api/v1/pods?watch=true","responseStatus":{"code":200}}
{"auditID":"3","stage":"ResponseComplete","verb":"patch","objectRef":{"resource":"deployments","apiGroup":"apps","subresource":"scale","name":"a"}}
{"auditID":"4","stage":"Respo`
	const rest = `nseComplete","verb":"list","requestURI":"/api/v1/nodes","responseStatus":{"code":200}}
{"auditID":"2","stage":"ResponseComplete","verb":"watch","requestURI":"/api/v1/pods?watch=true","responseStatus":{"code":200}}
`
	path := filepath.Join(t.TempDir(), "audit.log")
	g.Expect(os.WriteFile(path, []byte(log), 0o600)).To(Succeed())
	a := &audit{}
	expected := []AuditEntry{
		{Verb: "get", RequestURI: "/version", Code: 200},
		{Verb: "watch", RequestURI: "/api/v1/pods?watch=true", Code: 200},
		{Verb: "patch", APIGroup: "apps", Resource: "deployments", Subresource: "scale", Name: "a"},
	}
	first, err := a.read(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first).To(Equal(expected))
	first[0].Verb = "changed by its reader"

	g.Expect(os.WriteFile(path, []byte(log+rest), 0o600)).To(Succeed())
	g.Expect(a.read(path)).To(Equal(append(expected, AuditEntry{Verb: "list", RequestURI: "/api/v1/nodes", Code: 200})))

	g.Expect((&audit{}).parse(strings.NewReader("{\n"))).NotTo(Succeed())
}
