package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/routes"
	"github.com/trellis-hub/trellis/webhooks/server"
)

// denies is a handler that denies with the name of the target.
func denies(_ context.Context, r *admission.Request) (admission.Response, error) {
	return admission.Response{Patch: []byte(r.Target.String())}, nil
}

func isFor(target clustercache.ClusterKey) OmegaMatcher {
	return And(HaveField("Status", 200), HaveField("AdmissionReview.Response.Patch", BeEquivalentTo(target.String())))
}

func TestWhoseCallItIs(t *testing.T) {
	b := newBench(t, nil)
	b.does(denies)
	b.Expect(b.post(path(keyA, "uid-a", false), review("v1", "{}"))).To(isFor(keyA))
	b.Expect(b.post(path(keyB, "uid-b", false), review("v1", "{}"))).To(isFor(keyB))
	// HUB-6: what a caller says of himself is nothing.
	b.Expect(b.post(path(keyB, "uid-b", false), review("v1", "{}"), func(r *http.Request) {
		r.Header.Set("X-Forwarded-For", "10.0.0.1")
		r.Host = "a.example.org"
	})).To(isFor(keyB))
	unknown := clustercache.ClusterKey{Namespace: "three", Name: "c"}
	forged := func(path string) string { return strings.Replace(path, ".", ".x", 1) }
	for name, test := range map[string]struct {
		path   string
		status int
	}{
		"HUB-3 a wrong code":                 {forged(fails), 403},
		"HUB-3 a wrong code, not registered": {forged(path(unknown, "uid-c", false)), 403},
		"a code of another target":           {strings.Replace(fails, "/one/a/", "/two/b/", 1), 403},
		"a code of another cluster":          {strings.Replace(fails, "uid-a", "uid-b", 1), 403},
		"a code by another key": {
			routes.Route{Target: keyA, UID: "uid-a", Webhook: "test"}.Path([]byte("other")), 403,
		},
		"no path of the hub":                   {"/", 404},
		"a path as of other programs":          {"/webhooks/test", 404},
		"CMN-11 a webhook that does not exist": {routes.Route{Target: keyA, UID: "uid-a", Webhook: "none"}.Path(key), 404},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(b.post(test.path, review("v1", "{}"))).To(HaveField("Status", test.status))
		})
	}
	put := func(r *http.Request) { r.Method = http.MethodPut }
	b.Expect(b.post(fails, review("v1", "{}"), put)).To(HaveField("Status", 405))
}

// HUB-22: a path can be that of several webhooks of pods, each of which is called. Which they may be, package admission
// tests.
func TestPathsOfSeveralWebhooks(t *testing.T) {
	var called, failing atomic.Int64
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, "default")
	registry := prometheus.NewRegistry()
	taken, err := server.NewMetrics(registry)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	b := newBench(t, func(o *server.Options) {
		o.Metrics = taken
		for i, name := range []string{"first", "second"} {
			of := o.Webhooks[0]
			of.Name, of.Path, of.Combines = name, name, true
			of.Registration = admission.One(func(*hubv1alpha1.TargetWebhooks) admission.Entry {
				return admission.Entry{}
			})
			of.Handler = admission.Mutate(func(_ context.Context, _ *admission.Request, pod *corev1.Pod) (
				admission.Response, error) {
				called.Add(1)
				if failing.Load() == int64(i+1) {
					return admission.Response{}, fmt.Errorf("reading: %w", missing)
				}
				metav1.SetMetaDataLabel(&pod.ObjectMeta, name, "")
				return admission.Response{}, nil
			})
			o.Webhooks = append(o.Webhooks, of)
		}
	})
	post := func(webhook string, ignored bool) answer {
		called.Store(0)
		path := routes.Route{Target: keyA, UID: "uid-a", Webhook: webhook, Ignored: ignored}.Path(key)
		return b.post(path, review("v1", `{"metadata":{"labels":{}}}`))
	}
	const both = "target.first.second"
	for webhook, want := range map[string]struct {
		status int
		called int64
	}{
		both: {200, 2}, "runtime.second.first": {200, 2}, "first": {200, 1},
		"target.test.first": {404, 0}, "target.first." + strings.Repeat("a.", 100): {404, 0},
	} {
		b.Expect(post(webhook, false)).To(HaveField("Status", want.status), webhook)
		b.Expect(called.Load()).To(Equal(want.called), webhook)
	}

	failing.Store(1)
	b.Expect(post(both, false)).To(refuses(404, "webhook first: "+missing.Error()))
	b.Expect(called.Load()).To(BeEquivalentTo(1))
	b.Expect(post(both, true)).To(HaveField("AdmissionReview.Response", And(
		HaveField("Allowed", true),
		HaveField("Patch", BeEquivalentTo(`[{"op":"add","path":"/metadata/labels","value":{"second":""}}]`)),
		HaveField("Warnings", ConsistOf("webhooks that failed were left out: first")))), "the other is not left out")
	b.Expect(called.Load()).To(BeEquivalentTo(2))
	b.Expect(testutil.GatherAndCompare(registry, strings.NewReader(helpOfRequests+`
# TYPE trellis_webhook_requests_total counter
trellis_webhook_requests_total{result="failed",webhook="first"} 2
trellis_webhook_requests_total{result="malformed",webhook=""} 2
trellis_webhook_requests_total{result="patched",webhook="combined-first"} 3
trellis_webhook_requests_total{result="patched",webhook="first"} 1
`), "trellis_webhook_requests_total")).To(Succeed())

	o := b.options
	o.Webhooks = []admission.Webhook{{Name: "dotted", Path: "a.b"}}
	_, err = server.New(o)
	b.Expect(err).To(MatchError(ContainSubstring("dotted")))
}

// HUB-2: where each target has a name of a host of its own, path and name have to agree.
func TestNamesOfHosts(t *testing.T) {
	name := func(target clustercache.ClusterKey, _ types.UID) string { return target.Name + ".example.org" }
	b := newBench(t, func(o *server.Options) {
		certificate, _ := newCertificate(NewWithT(t), "hub.example.org", "a.example.org", "b.example.org")
		o.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil }
		o.ServerName = name
	})
	b.does(denies)
	certificate, _ := b.options.Certificate(nil)
	b.roots.AddCert(certificate.Leaf)
	as := func(name string) *http.Client { return b.newClient(&tls.Config{ServerName: name}) }
	for host, status := range map[string]int{
		"a.example.org": 200, "A.example.org": 200, "b.example.org": 403, "hub.example.org": 403,
	} {
		a, err := b.try(as(host), fails, review("v1", "{}"))
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(a.Status).To(Equal(status), host)
	}
}

// HUB-5: a certificate of one cluster is none of another.
func TestClientCertificates(t *testing.T) {
	g := NewWithT(t)
	ofA, authority := newCertificate(g, "uid-a")
	clients := x509.NewCertPool()
	clients.AddCert(authority)
	authorities := &atomic.Pointer[x509.CertPool]{}
	authorities.Store(clients)
	b := newBench(t, func(o *server.Options) {
		o.Clients = authorities.Load
		o.Extras = map[string]server.Extra{"extra": extra{}}
	})
	b.does(denies)
	with := b.newClient(&tls.Config{Certificates: []tls.Certificate{*ofA}})
	pathTo := func(target clustercache.ClusterKey, uid types.UID) string {
		return routes.Route{Target: target, UID: uid, Webhook: "extra"}.Path(key)
	}
	for name, test := range map[string]struct {
		client *http.Client
		path   string
		want   OmegaMatcher
	}{
		"its own":           {with, fails, isFor(keyA)},
		"another one's":     {with, path(keyB, "uid-b", false), HaveField("Status", 403)},
		"without":           {b.client, fails, isFor(keyA)},
		"proven, elsewhere": {with, pathTo(keyA, "uid-a"), HaveField("Body", ContainSubstring("one/a true"))},
		"unproven":          {b.client, pathTo(keyB, "uid-b"), HaveField("Body", ContainSubstring("two/b false"))},
		"not registered":    {b.client, pathTo(keyB, "uid-c"), HaveField("Status", 404)},
		"without a code":    {with, "/one/a/uid-a/extra", HaveField("Body", ContainSubstring("one/a true"))},
		"of another one":    {with, "/two/b/uid-b/extra", HaveField("Status", 403)},
		"a wrong code":      {with, "/one/a/uid-a.x/extra", HaveField("Status", 403)},
		"nothing at all":    {b.client, "/one/a/uid-a/extra", HaveField("Status", 403)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a, err := b.try(test.client, test.path, review("v1", "{}"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(a).To(test.want)
		})
	}
	// A connection does not outlive the authority of its certificate.
	_, another := newCertificate(g, "uid-a")
	others := x509.NewCertPool()
	others.AddCert(another)
	for _, pool := range []*x509.CertPool{others, nil} {
		authorities.Store(pool)
		b.Expect(b.try(with, "/one/a/uid-a/extra", review("v1", "{}"))).To(HaveField("Status", 403))
		b.Expect(b.try(b.client, fails, review("v1", "{}"))).To(isFor(keyA))
	}
	b.Expect(b.post(pathTo(keyA, "uid-a"), "panic")).To(HaveField("Status", 500))
	b.Expect(b.post(pathTo(keyA, "uid-a"), "")).To(HaveField("Status", 202))
}
