package control_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/control"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a fleet of ten targets with its control API.
func start(t *testing.T) (*fleetsim.Fleet, control.Client) {
	t.Helper()
	fleet, err := fleetsim.Start(t.Context(), fleetsim.Options{Targets: 10, Seed: 1})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(fleet.Stop)
	server := httptest.NewServer(control.Handler(fleet))
	t.Cleanup(server.Close)
	return fleet, control.Client{Address: server.URL, HTTP: server.Client()}
}

func named(names ...string) fleetsim.Selection { return fleetsim.Selection{Names: names} }

// get asks a target for a path, with the kubeconfig of now and a connection of its own, and returns the code, 0 if there is none.
func get(t *testing.T, target *fleetsim.Target, path string) int {
	t.Helper()
	g := NewWithT(t)
	config, err := clientcmd.RESTConfigFromKubeConfig(target.Kubeconfig())
	g.Expect(err).NotTo(HaveOccurred())
	tls, err := rest.TLSConfigFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target.Host()+path, nil)
	g.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+config.BearerToken)
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return 0
	}
	g.Expect(response.Body.Close()).To(Succeed())
	return response.StatusCode
}

func TestFaultsAreSetListedAndCleared(t *testing.T) {
	g := NewWithT(t)
	fleet, client := start(t)
	ctx := t.Context()
	g.Expect(client.SetFault(ctx, control.SetFault{Selection: named("target-0002", "*-0010"), Fault: fault.Fault{Kind: fault.Status, Code: 503}})).
		To(Equal([]string{"target-0002", "target-0010"}))
	g.Expect(get(t, fleet.Targets()[1], "/version")).To(Equal(503))
	g.Expect(get(t, fleet.Targets()[0], "/version")).To(Equal(200))
	targets, err := client.Targets(ctx, fleetsim.Selection{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(targets).To(HaveLen(10))
	g.Expect(targets[1].Faults).To(ConsistOf(And(HaveField("ID", "status-1"), HaveField("Code", 503), HaveField("Struck", uint64(1)))))
	g.Expect(targets[2].Faults).To(BeEmpty())
	g.Expect(client.ClearFaults(ctx, control.ClearFaults{Faults: []string{"hang"}})).To(BeEmpty())
	g.Expect(client.ClearFaults(ctx, control.ClearFaults{Faults: []string{"status-1"}, Selection: named("target-0010")})).To(Equal([]string{"target-0010"}))
	g.Expect(client.ClearFaults(ctx, control.ClearFaults{})).To(Equal([]string{"target-0002"}))
	g.Expect(get(t, fleet.Targets()[1], "/version")).To(Equal(200))
}

func TestAPercentageIsAlwaysTheSame(t *testing.T) {
	g := NewWithT(t)
	_, client := start(t)
	names := func(percent float64) (names []string) {
		targets, err := client.Targets(t.Context(), fleetsim.Selection{Percent: percent})
		g.Expect(err).NotTo(HaveOccurred())
		for _, target := range targets {
			names = append(names, target.Name)
		}
		return names
	}
	g.Expect(names(30)).To(HaveLen(3))
	g.Expect(names(30)).To(Equal(names(30)))
	g.Expect(names(50)).To(ContainElements(names(30)))
	g.Expect(names(1)).To(HaveLen(1))
	g.Expect(names(100)).To(HaveLen(10))
	g.Expect(names(100)).To(Equal(slices.Sorted(slices.Values(names(100)))))
	g.Expect(names(30)).NotTo(Equal(names(100)[:3]), "they are drawn by lot")
}

func TestRegistrationsGoIntoNamespaces(t *testing.T) {
	g := NewWithT(t)
	_, client := start(t)
	each, err := client.Secrets(t.Context(), control.GetSecrets{NamespacePrefix: "shoot--x--"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(each.Namespaces).To(HaveLen(10))
	g.Expect(each.Secrets[3].Namespace).To(Equal("shoot--x--target-0004"))
	one, err := client.Secrets(t.Context(), control.GetSecrets{Namespace: "fleet"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(one.Namespaces).To(HaveExactElements(HaveField("Name", "fleet")))
	g.Expect(one.Secrets).To(HaveLen(10))
	_, err = kubeconfig.FromSecret(&one.Secrets[0], kubeconfig.Policy{Addresses: addresses.Any()})
	g.Expect(err).NotTo(HaveOccurred())
}

func TestRotationSkewAndState(t *testing.T) {
	g := NewWithT(t)
	fleet, client := start(t)
	ctx := t.Context()
	target := fleet.Targets()[0]
	for _, what := range []string{control.RotateToken, control.RotateServingCertificate, control.RotateCA} {
		g.Expect(client.Rotate(ctx, control.Rotate{What: what, Revoke: true})).To(HaveLen(10), what)
		g.Expect(get(t, target, "/api")).To(Equal(200), what)
	}
	_, err := client.Rotate(ctx, control.Rotate{What: control.RotateClientCertificate})
	g.Expect(err).To(MatchError(ContainSubstring("10 of 10 targets failed, the first one: rotating the client certificate of target-0001")))
	g.Expect(client.Rotate(ctx, control.Rotate{Selection: named("target-0001"), What: control.RotateToken, Lifetime: metav1.Duration{Duration: time.Hour}})).To(HaveLen(1))
	g.Expect(client.Skew(ctx, control.Skew{Selection: named("target-0001"), By: metav1.Duration{Duration: 2 * time.Hour}})).To(HaveLen(1))
	g.Expect(get(t, target, "/api")).To(Equal(401))

	before := target.UID()
	for _, c := range []struct {
		what  string
		state fleetsim.State
	}{
		{control.Stop, fleetsim.Stopped}, {control.Start, fleetsim.Running}, {control.Hibernate, fleetsim.Hibernated}, {control.Start, fleetsim.Running},
		{control.Replace, fleetsim.Running}, {control.Revoke, fleetsim.Running}, {control.Compact, fleetsim.Running},
		{control.EndWatches, fleetsim.Running}, {control.ResetConnections, fleetsim.Running},
	} {
		g.Expect(client.Do(ctx, control.Do{Selection: named("target-0001"), What: c.what})).To(Equal([]string{"target-0001"}), c.what)
		g.Expect(target.State()).To(Equal(c.state), c.what)
	}
	g.Expect(target.UID()).NotTo(Equal(before))
}

// backups is a CustomResourceDefinition.
func backups() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "backups.demo.example.org"},
		"spec": map[string]any{
			"group": "demo.example.org", "scope": "Namespaced",
			"names": map[string]any{"kind": "Backup", "plural": "backups", "singular": "backup", "listKind": "BackupList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

func TestCRDsAndDiscovery(t *testing.T) {
	g := NewWithT(t)
	fleet, client := start(t)
	ctx := t.Context()
	target := fleet.Targets()[0]
	crd := backups()
	const path = "/apis/demo.example.org/v1/backups"
	code := func() int { return get(t, target, path) }
	g.Expect(client.SetCRD(ctx, control.SetCRD{CRD: crd})).To(HaveLen(10))
	g.Eventually(code, 30*time.Second).Should(Equal(200))
	g.Expect(client.SetCRD(ctx, control.SetCRD{Remove: crd.GetName()})).To(HaveLen(10))
	g.Eventually(code, 30*time.Second).Should(Equal(404))

	g.Expect(get(t, target, "/apis/apps/v1")).To(Equal(200))
	g.Expect(client.FailDiscovery(ctx, control.FailDiscovery{GroupVersions: []string{"apps/v1"}})).To(HaveLen(10))
	g.Expect(get(t, target, "/apis/apps/v1")).To(Equal(503))
	g.Expect(client.FailDiscovery(ctx, control.FailDiscovery{})).To(HaveLen(10))
	g.Expect(get(t, target, "/apis/apps/v1")).To(Equal(200))
}

func TestJournalAndStats(t *testing.T) {
	g := NewWithT(t)
	fleet, client := start(t)
	ctx := t.Context()
	g.Expect(get(t, fleet.Targets()[0], "/api/v1/namespaces/default")).To(Equal(200))
	g.Expect(get(t, fleet.Targets()[1], "/api/v1/namespaces/default")).To(Equal(200))
	all, err := client.Journal(ctx, control.GetJournal{Programs: []string{"trellis"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Counts.Sum().Requests).To(Equal(int64(2)))
	g.Expect(all.Verdicts).To(HaveLen(5))
	one, err := client.Journal(ctx, control.GetJournal{Target: "target-0001"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(one.Counts.Sum().Requests).To(Equal(int64(1)))
	g.Expect(client.ResetJournal(ctx)).To(Succeed())
	all, err = client.Journal(ctx, control.GetJournal{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Counts).To(BeEmpty())

	s, err := client.Stats(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Targets).To(Equal(10))
	g.Expect(s.Objects).To(BeNumerically(">=", 40))
	for _, n := range []int64{int64(s.Goroutines), s.HeapBytes, s.MaxRSSBytes, int64(s.CPU.Duration)} {
		g.Expect(n).To(BeNumerically(">", 0))
	}
}

// writer writes to a target on a connection of its own, with the user agent of the hub. Each write changes the labels of one object.
func writer(t *testing.T, target *fleetsim.Target) (write func(value string)) {
	t.Helper()
	g := NewWithT(t)
	config, err := clientcmd.RESTConfigFromKubeConfig(target.Kubeconfig())
	g.Expect(err).NotTo(HaveOccurred())
	config.QPS, config.UserAgent, config.ContentType = -1, "trellis", runtime.ContentTypeJSON
	config.Dial = (&net.Dialer{}).DialContext // a transport of its own
	httpClient, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(httpClient.Transport) })
	set, err := kubernetes.NewForConfigAndClient(config, httpClient)
	g.Expect(err).NotTo(HaveOccurred())
	return func(value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"labels":{"value":%q}}}`, value)
		_, err := set.CoreV1().Namespaces().Patch(t.Context(), "default", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
}

func TestReplicasAreToldByTheirConnections(t *testing.T) {
	const check = "written by two at a time"
	found := func(g Gomega, client control.Client) []journal.Finding {
		j, err := client.Journal(t.Context(), control.GetJournal{Programs: []string{"trellis"}})
		g.Expect(err).NotTo(HaveOccurred())
		i := slices.IndexFunc(j.Verdicts, func(v journal.Verdict) bool { return v.Check == check })
		g.Expect(i).To(BeNumerically(">=", 0))
		g.Expect(j.Verdicts[i].Judged).To(Equal(3))
		return j.Verdicts[i].Findings
	}
	t.Run("two in turns", func(t *testing.T) {
		g := NewWithT(t)
		fleet, client := start(t)
		one := writer(t, fleet.Targets()[0])
		two := writer(t, fleet.Targets()[0])
		one("a")
		two("b")
		one("a")
		g.Expect(found(g, client)).To(ConsistOf(HaveField("What", MatchRegexp(`written by trellis from 127\.0\.0\.1:\d+ and trellis from 127\.0\.0\.1:\d+ in turns`))))
	})
	t.Run("one that connects anew", func(t *testing.T) {
		g := NewWithT(t)
		fleet, client := start(t)
		before, after := writer(t, fleet.Targets()[0]), writer(t, fleet.Targets()[0])
		before("a")
		before("b")
		after("a")
		g.Expect(found(g, client)).To(BeEmpty())
		connections := map[string]bool{}
		for _, c := range fleet.Targets()[0].Journal().History().Changes {
			connections[c.Connection] = true
		}
		g.Expect(connections).To(HaveLen(2))
	})
	t.Run("the simulator itself and a client", func(t *testing.T) {
		g := NewWithT(t)
		fleet, _ := start(t)
		write := writer(t, fleet.Targets()[0])
		write("a")
		g.Expect(fleet.Targets()[0].AddCRD(t.Context(), backups())).To(Succeed())
		write("b")
		g.Expect(journal.TwoAtATime(time.Minute, journal.ByConnection(nil), fleet.Journal().Histories()...).Err()).To(Succeed())
	})
}

func TestBadInputIsRefusedWithAReason(t *testing.T) {
	_, client := start(t)
	for _, c := range []struct {
		name, path, body string
		code             int
		says             string
	}{
		{"no JSON", "/set-fault", "x", 400, "the body of /set-fault is no JSON object as it takes: invalid character 'x'"},
		{"misspelt field", "/set-fault", `{"fault":{"kind":"hang","sahre":0.5}}`, 400, `unknown field \"sahre\"`},
		{"something behind it", "/targets", `{}{}`, 400, "there is something behind the object"},
		{"unknown kind", "/set-fault", `{"fault":{"kind":"hung"}}`, 400, `kind \"hung\" is unknown: it is one of [blackhole`},
		{"unknown target", "/targets", `{"names":["target-1"]}`, 400, `there is no target \"target-1\"`},
		{"a glob of nothing", "/do", `{"names":["x-*"],"what":"stop"}`, 400, `there is no target \"x-*\"`},
		{"too many percent", "/targets", `{"percent":101}`, 400, "101 percent of the targets: it must be between 0 and 100"},
		{"unknown action", "/do", `{"what":"explode"}`, 400, `\"explode\" cannot be done: what can is [compact end-watches`},
		{"unknown rotation", "/rotate", `{"what":"tyres"}`, 400, `\"tyres\" cannot be rotated: what can is [ca client-certificate`},
		{"no duration", "/skew", `{"by":"soon"}`, 400, "invalid duration"},
		{"no namespace", "/secrets", `{}`, 400, "one of namespace and namespacePrefix is required"},
		{"two namespaces", "/secrets", `{"namespace":"a","namespacePrefix":"b"}`, 400, "one of namespace and namespacePrefix is required"},
		{"no name of a namespace", "/secrets", `{"namespace":"A"}`, 400, `\"A\" is no name of a namespace`},
		{"no CRD", "/set-crd", `{}`, 400, "one of crd and remove is required"},
		{"another kind", "/set-crd", `{"crd":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}}`, 400, `of kind \"ConfigMap\"`},
		{"no group version", "/fail-discovery", `{"groupVersions":["a/b/c"]}`, 400, `\"a/b/c\" is no group version such as apps/v1`},
		{"a group version that is not served", "/fail-discovery", `{"groupVersions":["apps/v1","nope/v1"]}`, 400, "target-0001 does not serve nope/v1"},
		{"no fault to clear", "/clear-faults", `{"faults":["status-1"]}`, 400, `\"status-1\" is neither the ID of a fault nor a kind: kinds are [blackhole`},
		{"journal of nobody", "/journal", `{"target":"x"}`, 400, `there is no target \"x\"`},
		{"unknown call", "/explode", `{}`, 404, `there is no call \"/explode\"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			response, err := client.HTTP.Post(client.Address+c.path, "application/json", strings.NewReader(c.body))
			g.Expect(err).NotTo(HaveOccurred())
			content, err := io.ReadAll(response.Body)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
			g.Expect(response.StatusCode).To(Equal(c.code))
			g.Expect(string(content)).To(And(HavePrefix(`{"error":`), ContainSubstring(c.says)))
		})
	}
}

func TestOnlyPostsThatNoBrowserSentAreCalls(t *testing.T) {
	g := NewWithT(t)
	_, client := start(t)
	for _, c := range []struct {
		method, origin string
		code           int
	}{{http.MethodGet, "", 405}, {http.MethodPost, "https://example.org", 403}, {http.MethodPost, "", 200}} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, client.Address+"/stats", strings.NewReader("{}"))
		g.Expect(err).NotTo(HaveOccurred())
		if c.origin != "" {
			request.Header.Set("Origin", c.origin)
		}
		response, err := client.HTTP.Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(c.code))
	}
}
