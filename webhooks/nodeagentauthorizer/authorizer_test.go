package nodeagentauthorizer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks/nodeagentauthorizer"
)

const (
	home  = "shoot--foo--a"
	label = "worker.gardener.cloud/gardener-node-agent-secret-name"
)

var target = clustercache.ClusterKey{Namespace: home, Name: "a"}

type clients struct{ client.Client }

func (c clients) GetUncachedClient(_ context.Context, key clustercache.ClusterKey) (client.Client, error) {
	if key != target {
		return nil, clustercache.ErrClusterUnknown
	}
	return c.Client, nil
}

// machine is one whose node and configuration are named; empty: it has none.
func machine(name, node, configuration string) client.Object {
	m := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
		"metadata": map[string]any{"namespace": home, "name": name},
		"spec":     map[string]any{"nodeTemplate": map[string]any{"metadata": map[string]any{}}},
	}}
	if node != "" {
		m.SetLabels(map[string]string{"node": node})
	}
	if configuration != "" {
		_ = unstructured.SetNestedField(m.Object, configuration, "spec", "nodeTemplate", "metadata", "labels",
			label) // there is the path
	}
	return m
}

// node has the labels that an agent may write itself.
func node(name, configuration, host string) client.Object {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if configuration != "" {
		n.Labels[label] = configuration
	}
	if host != "" {
		n.Labels[corev1.LabelHostname] = host
	}
	return n
}

func secret(name, content string, pool bool) client.Object {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	if content != "" {
		s.Data = map[string][]byte{"osc.yaml": []byte(content)}
	}
	if pool {
		s.Labels = map[string]string{"worker.gardener.cloud/pool": "p"}
	}
	return s
}

const configuration = `
spec:
  files:
  - {path: /a, content: {secretRef: {name: ref-all, dataKey: k}}}
  - {path: /b, hostName: host-1, content: {secretRef: {name: ref-1, dataKey: k}}}
  - {path: /c, content: {secretRef: {name: "", dataKey: k}}}
status:
  extensionFiles:
  - {path: /d, hostName: host-2, content: {secretRef: {name: ref-2, dataKey: k}}}
`

func pod(name, node string) client.Object {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
}

func csr(name, user string) client.Object {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{Username: user},
	}
}

func authorizer() *nodeagentauthorizer.Authorizer {
	source := fake.NewClientBuilder().WithObjects(
		machine("m1", "node-1", "osc-a"), machine("joining", "", "osc-a"), machine("lost", "node-gone", "osc-a"),
		machine("unlabelled", "node-3", ""), machine("hostless", "node-4", "osc-a"), machine("broken", "node-1",
			"osc-broken"),
	).Build()
	objects := fake.NewClientBuilder().WithObjects(
		node("node-1", "osc-a", "host-1"), node("node-2", "osc-b", "host-2"), node("node-3", "bar",
			"host-3"), node("node-4", "osc-a", ""),
		secret("osc-a", configuration, true), secret("osc-b", "", true), secret("osc-broken", "{",
			true), secret("bar", "", false),
		pod("own", "node-1"), pod("foreign", "node-2"),
		csr("own", nodeagentauthorizer.UserPrefix+"m1"), csr("foreign", nodeagentauthorizer.UserPrefix+"m2"),
	).Build()
	return &nodeagentauthorizer.Authorizer{Source: source, Targets: clients{objects}}
}

// caller has Machines, or else agents are named after nodes.
func caller(machines bool) nodeagentauthorizer.Caller {
	c := nodeagentauthorizer.Caller{Target: target, Authenticated: true}
	if machines {
		c.Settings.MachineNamespace = home
	}
	return c
}

// spec is a request of an agent: "verb resource.group/subresource namespace/name".
func spec(agent, request string) *authorizationv1.SubjectAccessReviewSpec {
	words := strings.Split(request, " ")
	a := &authorizationv1.ResourceAttributes{Verb: words[0]}
	var what string
	what, a.Subresource, _ = strings.Cut(words[1], "/")
	a.Resource, a.Group, _ = strings.Cut(what, ".")
	if len(words) > 2 {
		a.Namespace, a.Name, _ = strings.Cut(words[2], "/")
	}
	return &authorizationv1.SubjectAccessReviewSpec{
		User: nodeagentauthorizer.UserPrefix + agent, Groups: []string{nodeagentauthorizer.Group},
		ResourceAttributes: a,
	}
}

type outcome string

const (
	allowed outcome = "allowed"
	refused outcome = "denied"
	failed  outcome = "failed"
	none    outcome = "no opinion"
)

func outcomeOf(t testing.TB, d nodeagentauthorizer.Decision, err error) outcome {
	t.Helper()
	g := NewWithT(t)
	g.Expect(d.Allowed && d.Denied).To(BeFalse())
	switch {
	case err != nil:
		g.Expect(d.Denied).To(BeTrue(), "what fails is denied")
		return failed
	case d.Allowed:
		return allowed
	case d.Denied:
		g.Expect(d.Reason).NotTo(BeEmpty())
		return refused
	}
	g.Expect(d.Reason).To(BeEmpty())
	return none
}

func decide(t testing.TB, c nodeagentauthorizer.Caller, s *authorizationv1.SubjectAccessReviewSpec) outcome {
	t.Helper()
	d, err := authorizer().Authorize(t.Context(), c, s)
	return outcomeOf(t, d, err)
}

// NAA-1, NAA-2, NAA-3
func TestNAA_Users(t *testing.T) {
	const request = "get nodes /node-1"
	for name, test := range map[string]struct {
		change func(*authorizationv1.SubjectAccessReviewSpec)
		want   outcome
	}{
		"an agent": {func(*authorizationv1.SubjectAccessReviewSpec) {}, allowed},
		"NAA-1 another prefix": {func(s *authorizationv1.SubjectAccessReviewSpec) { s.User = "system:node:m1" },
			none},
		"NAA-2 without the group": {func(s *authorizationv1.SubjectAccessReviewSpec) { s.Groups = []string{"x"} },
			none},
		"NAA-3 without a name": {func(s *authorizationv1.SubjectAccessReviewSpec) {
			s.User = nodeagentauthorizer.UserPrefix
		}, refused},
		"a name that is a path": {func(s *authorizationv1.SubjectAccessReviewSpec) { s.User += "/status" }, refused},
		"no resource": {func(s *authorizationv1.SubjectAccessReviewSpec) {
			s.ResourceAttributes, s.NonResourceAttributes = nil, &authorizationv1.NonResourceAttributes{Path: "/"}
		}, refused},
		"another resource": {func(s *authorizationv1.SubjectAccessReviewSpec) {
			s.ResourceAttributes.Resource = "configmaps"
		}, refused},
		"another group": {func(s *authorizationv1.SubjectAccessReviewSpec) { s.ResourceAttributes.Group = "x" },
			refused},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec("m1", request)
			test.change(s)
			NewWithT(t).Expect(decide(t, caller(true), s)).To(Equal(test.want))
		})
	}
}

// NAA-4, NAA-5, NAA-6, NAA-7, NAA-8, NAA-9, NAA-10, NAA-11, NAA-12, NAA-13, NAA-15, NAA-16
func TestNAA_Rules(t *testing.T) {
	const csrs, leases = "certificatesigningrequests.certificates.k8s.io", "leases.coordination.k8s.io"
	tests := []struct {
		name, agent, request string
		want                 outcome
	}{
		{"NAA-4 create a CSR", "m1", "create " + csrs, allowed},
		{"NAA-5 get an own CSR", "m1", "get " + csrs + " /own", allowed},
		{"NAA-6 get a foreign CSR", "m1", "get " + csrs + " /foreign", refused},
		{"NAA-6 get a CSR without a name", "m1", "get " + csrs, refused},
		{"NAA-6 get a CSR that does not exist", "m1", "get " + csrs + " /gone", failed},
		{"NAA-7 subresource of a CSR", "m1", "get " + csrs + "/status /own", refused},
		{"NAA-9 create a lease", "m1", "create " + leases + " kube-system/any", allowed},
		{"NAA-9 create a lease elsewhere", "m1", "create " + leases + " n/any", refused},
		{"NAA-9 create a lease without a node", "joining", "create " + leases + " kube-system/any", refused},
		{"NAA-9 get a lease without a node", "lost", "get " + leases + " kube-system/gardener-node-agent-node-gone",
			refused},
		{"NAA-9 get the own lease", "m1", "get " + leases + " kube-system/gardener-node-agent-node-1", allowed},
		{"NAA-9 update the own lease", "m1", "update " + leases + " kube-system/gardener-node-agent-node-1", allowed},
		{"NAA-9 watch the own lease", "m1", "watch " + leases + " kube-system/gardener-node-agent-node-1", allowed},
		{"NAA-9 list leases", "m1", "list " + leases + " kube-system/", refused},
		{"NAA-9 get a foreign lease", "m1", "get " + leases + " kube-system/gardener-node-agent-node-2", refused},
		{"NAA-9 the lease of the pool", "m1", "update " + leases + " kube-system/osc-a", allowed},
		{"NAA-9 patch the own lease", "m1", "patch " + leases + " kube-system/gardener-node-agent-node-1", refused},
		{"NAA-9 the machine does not exist", "gone", "get " + leases + " kube-system/x", failed},
		{"NAA-10 list nodes", "m1", "list nodes", allowed},
		{"NAA-10 watch nodes without a node", "joining", "watch nodes", allowed},
		{"NAA-10 get the own node", "m1", "get nodes /node-1", allowed},
		{"NAA-10 patch the own node", "m1", "patch nodes /node-1", allowed},
		{"NAA-10 update the status of the own node", "m1", "update nodes/status /node-1", allowed},
		{"NAA-10 get a foreign node", "m1", "get nodes /node-2", refused},
		{"NAA-10 proxy of the own node", "m1", "get nodes/proxy /node-1", refused},
		{"NAA-10 create a node", "m1", "create nodes /node-1", refused},
		{"NAA-10 delete the own node", "m1", "delete nodes /node-1", refused},
		{"NAA-11 fixed secret", "m1", "get secrets kube-system/gardener-valitail", allowed},
		{"NAA-11 own configuration", "m1", "watch secrets kube-system/osc-a", allowed},
		{"NAA-11 own configuration without a node", "joining", "get secrets kube-system/osc-a", allowed},
		{"NAA-11 configuration of another machine", "m1", "get secrets kube-system/osc-b", refused},
		{"NAA-11 another namespace", "m1", "get secrets n/osc-a", refused},
		{"NAA-11 all secrets of a namespace", "m1", "list secrets kube-system/", refused},
		{"NAA-11 all secrets", "m1", "list secrets", refused},
		{"NAA-11 write", "m1", "update secrets kube-system/osc-a", refused},
		{"NAA-11 label of the own node", "unlabelled", "get secrets kube-system/bar", refused},
		{"NAA-12 reference", "m1", "get secrets kube-system/ref-all", allowed},
		{"NAA-12 reference of the own host", "m1", "get secrets kube-system/ref-1", allowed},
		{"NAA-12 reference of another host", "m1", "get secrets kube-system/ref-2", refused},
		{"NAA-12 host that is not known", "hostless", "get secrets kube-system/ref-2", allowed},
		{"NAA-12 configuration that cannot be decoded", "broken", "get secrets kube-system/ref-1", failed},
		{"NAA-13 get an own pod", "m1", "get pods n/own", allowed},
		{"NAA-13 delete an own pod", "m1", "delete pods n/own", allowed},
		{"NAA-13 get a foreign pod", "m1", "get pods n/foreign", refused},
		{"NAA-13 list pods", "m1", "list pods", allowed},
		{"NAA-13 create a pod", "m1", "create pods n/own", refused},
		{"NAA-13 evict an own pod", "m1", "create pods/eviction n/own", refused},
		{"NAA-13 the machine does not exist", "gone", "get pods n/own", failed},
		{"NAA-13 the machine has no node", "joining", "get pods n/own", refused},
		{"NAA-13 the pod does not exist", "m1", "get pods n/gone", failed},
		{"NAA-15 a machine without a label and all secrets", "unlabelled", "list secrets kube-system/", refused},
		{"NAA-16 lease named by the own node", "unlabelled", "update " + leases + " kube-system/bar", refused},
	}
	for _, verb := range []string{"update", "patch", "delete", "deletecollection", "list", "watch"} {
		tests = append(tests, struct {
			name, agent, request string
			want                 outcome
		}{"NAA-7 " + verb + " a CSR", "m1", verb + " " + csrs + " /own", refused})
	}
	for _, verb := range []string{"create", "patch", "get", "list", "watch", "update", "delete", "deletecollection"} {
		want := refused
		if verb == "create" || verb == "patch" {
			want = allowed
		}
		for _, events := range []string{"events", "events.events.k8s.io"} {
			tests = append(tests, struct {
				name, agent, request string
				want                 outcome
			}{"NAA-8 " + verb + " " + events, "m1", verb + " " + events + " n/x", want})
		}
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(decide(t, caller(true), spec(test.agent, test.request))).To(Equal(test.want))
		})
	}
}

// NAA-12, NAA-16
func TestNAA_WithoutMachines(t *testing.T) {
	const leases = "leases.coordination.k8s.io"
	for _, test := range []struct {
		name, agent, request string
		want                 outcome
	}{
		{"own node", "node-1", "get nodes /node-1", allowed},
		{"foreign node", "node-1", "get nodes /node-2", refused},
		{"own configuration", "node-1", "get secrets kube-system/osc-a", allowed},
		{"foreign configuration", "node-1", "get secrets kube-system/osc-b", refused},
		{"NAA-12 reference", "node-1", "get secrets kube-system/ref-1", allowed},
		{"NAA-12 reference of another host", "node-1", "get secrets kube-system/ref-2", refused},
		{"NAA-12 host that is not known", "node-4", "get secrets kube-system/ref-2", allowed},
		{"NAA-12 bootstrap, configuration", "new", "get secrets kube-system/osc-b", allowed},
		{"NAA-12 bootstrap, no configuration", "new", "get secrets kube-system/bar", failed}, // one of them is broken
		{"NAA-11 the label names no configuration", "node-3", "get secrets kube-system/bar", refused},
		{"NAA-16 the label names no configuration", "node-3", "update " + leases + " kube-system/bar", refused},
		{"NAA-16 the label names a configuration", "node-1", "update " + leases + " kube-system/osc-a", allowed},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(decide(t, caller(false), spec(test.agent, test.request))).To(Equal(test.want))
		})
	}
}

func TestNAA13_ListsOfPodsWithSelectors(t *testing.T) {
	c := caller(true)
	c.Settings.AuthorizeWithSelectors = true
	requirement := func(key, operator string, values ...string) *authorizationv1.FieldSelectorAttributes {
		return &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
			{Key: key, Operator: metav1.FieldSelectorOperator(operator), Values: values},
		}}
	}
	for name, test := range map[string]struct {
		request  string
		selector *authorizationv1.FieldSelectorAttributes
		want     outcome
	}{
		"own node": {"list pods", requirement("spec.nodeName", "In", "node-1"), allowed},
		"own node, as text": {"watch pods n/",
			&authorizationv1.FieldSelectorAttributes{RawSelector: "spec.nodeName=node-1"}, allowed},
		"foreign node":      {"list pods", requirement("spec.nodeName", "In", "node-2"), refused},
		"two nodes":         {"list pods", requirement("spec.nodeName", "In", "node-1", "node-2"), refused},
		"not a node":        {"list pods", requirement("spec.nodeName", "NotIn", "node-2"), refused},
		"another field":     {"list pods", requirement("metadata.name", "In", "x"), refused},
		"no selector":       {"list pods", nil, refused},
		"no valid selector": {"list pods", &authorizationv1.FieldSelectorAttributes{RawSelector: "x!y"}, failed},
		"too large": {"list pods",
			&authorizationv1.FieldSelectorAttributes{RawSelector: strings.Repeat("x", 5000)}, failed},
		"an own pod by name":    {"list pods n/own", nil, allowed},
		"a foreign pod by name": {"watch pods n/foreign", nil, refused},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec("m1", test.request)
			s.ResourceAttributes.FieldSelector = test.selector
			NewWithT(t).Expect(decide(t, c, s)).To(Equal(test.want))
		})
	}
}

func TestReasonsNameWhatIsAllowed(t *testing.T) {
	for request, text := range map[string]string{
		"update secrets kube-system/osc-a":             "get, list, watch",
		"get secrets kube-system/osc-b":                "osc-a",
		"get nodes /node-2":                            "node-1",
		"get nodes/proxy /node-1":                      "status",
		"get leases.coordination.k8s.io kube-system/x": "gardener-node-agent-node-1",
	} {
		d, err := authorizer().Authorize(t.Context(), caller(true), spec("m1", request))
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(d.Reason).To(ContainSubstring(text))
	}
}

func TestOtherTargets(t *testing.T) {
	g := NewWithT(t)
	c := caller(true)
	c.Settings.MachineNamespace = "shoot--foo--b"
	g.Expect(decide(t, c, spec("m1", "get nodes /node-1"))).To(Equal(failed))
	c = caller(true)
	c.Target.Name = "b"
	g.Expect(decide(t, c, spec("m1", "get nodes /node-1"))).To(Equal(failed))
}

func reviewOf(t testing.TB, version string, s *authorizationv1.SubjectAccessReviewSpec) []byte {
	t.Helper()
	content, err := json.Marshal(s)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	text := string(content)
	if version == "v1beta1" {
		text = strings.Replace(text, `"groups"`, `"group"`, 1)
	}
	return []byte(fmt.Sprintf(
		`{"apiVersion":"authorization.k8s.io/%s","kind":"SubjectAccessReview","metadata":{},"spec":%s}`, version, text))
}

// answer is a review that came back.
type answer struct {
	metav1.TypeMeta `json:",inline"`
	Status          authorizationv1.SubjectAccessReviewStatus `json:"status"`
}

func review(t testing.TB, a *nodeagentauthorizer.Authorizer, contentType string, body []byte) answer {
	t.Helper()
	g := NewWithT(t)
	status, reply := a.Review(t.Context(), caller(true), contentType, body)
	g.Expect(status).To(Equal(http.StatusOK))
	out := answer{}
	g.Expect(json.Unmarshal(reply, &out)).To(Succeed())
	return out
}

func TestNAA14_Reviews(t *testing.T) {
	g := NewWithT(t)
	for _, version := range []string{"v1", "v1beta1"} {
		out := review(t, authorizer(), "application/json", reviewOf(t, version, spec("m1", "get nodes /node-1")))
		g.Expect(out.APIVersion).To(Equal("authorization.k8s.io/" + version))
		g.Expect(out.Kind).To(Equal("SubjectAccessReview"))
		g.Expect(out.Status).To(Equal(authorizationv1.SubjectAccessReviewStatus{Allowed: true}))
	}
	good := reviewOf(t, "v1", spec("m1", "get nodes /node-1"))
	for name, test := range map[string]struct{ contentType, body, prefix string }{
		"no body":         {"application/json", "", "422 "},
		"no content type": {"", string(good), "400 "},
		"other content":   {"text/plain", string(good), "400 "},
		"no JSON":         {"application/json", "x", "400 "},
		"another kind":    {"application/json", `{"apiVersion":"authorization.k8s.io/v1","kind":"Pod"}`, "400 "},
		"another version": {"application/json",
			`{"apiVersion":"authorization.k8s.io/v2","kind":"SubjectAccessReview"}`, "400 "},
		"deep": {"application/json", strings.Repeat("[", 1000), "400 "},
	} {
		t.Run(name, func(t *testing.T) {
			out := review(t, authorizer(), test.contentType, []byte(test.body))
			NewWithT(t).Expect(out.Status.EvaluationError).To(HavePrefix(test.prefix))
			NewWithT(t).Expect(out.Status.Allowed).To(BeFalse())
		})
	}
}

// What fails while an agent is being looked at is denied.
func TestNAA14_Failures(t *testing.T) {
	for name, get := range map[string]func(ctx context.Context) error{
		"an error": func(context.Context) error { return errors.New("x") },
		"a panic":  func(context.Context) error { panic("x") },
		"a read that hangs": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := authorizer()
			a.Targets = clients{fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Get: func(
				ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption,
			) error {
				return get(ctx)
			}}).Build()}
			out := review(t, a, "application/json", reviewOf(t, "v1", spec("m1", "get nodes /node-1")))
			g := NewWithT(t)
			g.Expect(out.Status.EvaluationError).To(HavePrefix("500 "))
			g.Expect(out.Status.Denied).To(BeTrue())
			g.Expect(out.Status.Allowed).To(BeFalse())
		})
	}
}

func TestNAA17_OnlyAuthenticatedCallersGetAnswers(t *testing.T) {
	g := NewWithT(t)
	c := caller(true)
	c.Authenticated = false
	status, reply := authorizer().Review(t.Context(), c, "application/json",
		reviewOf(t, "v1", spec("m1", "get nodes /node-1")))
	g.Expect(status).To(Equal(http.StatusForbidden))
	g.Expect(string(reply)).NotTo(ContainSubstring("allowed"))
	d, err := authorizer().Authorize(t.Context(), c, spec("m1", "get nodes /node-1"))
	g.Expect(err).To(MatchError(nodeagentauthorizer.ErrNotAuthenticated))
	g.Expect(d).To(BeZero())
}

func TestCMN11_NoOpinionWhileItIsOff(t *testing.T) {
	g := NewWithT(t)
	c := caller(true)
	c.Settings.Off = true
	g.Expect(authorizer().Authorize(t.Context(), c, spec("m1", "get nodes /node-1"))).To(BeZero())
	c.Authenticated = false
	_, err := authorizer().Authorize(t.Context(), c, spec("m1", "get nodes /node-1"))
	g.Expect(err).To(MatchError(nodeagentauthorizer.ErrNotAuthenticated))
}

func FuzzReview(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{` +
		`"user":"gardener.cloud:node-agent:machine:m1","groups":["gardener.cloud:node-agents"],` +
		`"resourceAttributes":{"verb":"get","resource":"secrets","namespace":"kube-system","name":"osc-a"}}}`))
	a := authorizer()
	f.Fuzz(func(t *testing.T, body []byte) {
		out := review(t, a, "application/json", body)
		NewWithT(t).Expect(out.Status.Allowed && out.Status.Denied).To(BeFalse())
	})
}

func BenchmarkAuthorize(b *testing.B) {
	a := authorizer()
	s := spec("m1", "get secrets kube-system/osc-a")
	for b.Loop() {
		if d, err := a.Authorize(b.Context(), caller(true), s); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}

// HUB-25: where the hub must not read Secrets, only requests are denied that depend on what is in one.
func TestWithoutRightsToReadSecrets(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("the hub has no right to do that"))
	a := authorizer()
	known := a.Targets.(clients).Client.(client.WithWatch) //nolint:errcheck,forcetypeassert // what the test made
	a.Targets = clients{interceptor.NewClient(known, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if _, is := o.(*corev1.Secret); is {
				return forbidden
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return forbidden
		},
	})}
	for request, machines := range map[string]bool{
		"get secrets kube-system/ref-all": true, "get secrets kube-system/osc-b": false,
	} {
		agent := map[bool]string{true: "m1", false: "node-1"}[machines]
		d, err := a.Authorize(t.Context(), caller(machines), spec(agent, request))
		g := NewWithT(t)
		g.Expect(outcomeOf(t, d, err)).To(Equal(failed), request)
		g.Expect(err).To(MatchError(ContainSubstring("the hub has no right to do that")))
	}
	for _, request := range []string{
		"get secrets kube-system/gardener-valitail", "get secrets kube-system/osc-a", "get nodes /node-1",
		"get pods n/own", "create events n/a",
	} {
		d, err := a.Authorize(t.Context(), caller(true), spec("m1", request))
		NewWithT(t).Expect(outcomeOf(t, d, err)).To(Equal(allowed), request)
	}
}
