//go:build observability

package observability

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// newCluster registers a target that has an identity of its own, unlike all others. Controllers work for one
// registration of a cluster only (MC-4), and a control plane for each would be too much.
func newCluster(t *testing.T, name string) *target {
	t.Helper()
	to := prepareTarget(t, name)
	to.disguise(t)
	to.create(t, to.access(t, "first", long))
	to.awaitConnected(t)
	return to
}

// disguise puts a proxy into the way, in whose answers kube-system has another UID. A UID has the same length in all
// encodings.
func (to *target) disguise(t *testing.T) {
	t.Helper()
	g, ctx := NewWithT(t), context.Background()
	system := &corev1.Namespace{}
	g.Expect(home.Client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system)).To(Succeed())
	known, own := []byte(system.UID), []byte(uuid.NewUUID())
	backend, err := url.Parse(home.Host())
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := home.ServiceAccountKubeconfig(ctx, metav1.NamespaceSystem, "default", long)
	g.Expect(err).NotTo(HaveOccurred())
	authorities := x509.NewCertPool()
	testbed.Rewrite(kubeconfig, func(config *testbed.KubeConfig) {
		for _, c := range config.Clusters {
			authorities.AppendCertsFromPEM(c.CertificateAuthorityData)
		}
	})

	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(backend)
			r.Out.Host = ""
			if isSystem(r.Out.URL.Path) {
				r.Out.Header.Del("Accept-Encoding") // so that it comes in the clear
			}
		},
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		},
		FlushInterval: -1,
		ModifyResponse: func(response *http.Response) error {
			if !isSystem(response.Request.URL.Path) {
				return nil
			}
			content, err := io.ReadAll(response.Body)
			if err != nil {
				return err //nolint:wrapcheck // it is logged
			}
			response.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(content, known, own)))
			response.Header.Set("Content-Length", strconv.Itoa(len(content)))
			return nil
		},
	})
	server.EnableHTTP2 = true
	server.StartTLS()
	to.authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	to.way.stop()
	to.way, err = startProxy(strings.TrimPrefix(server.URL, "https://"))
	g.Expect(err).NotTo(HaveOccurred())
	keep(to.way)
	waysMu.Lock()
	defer waysMu.Unlock()
	disguises = append(disguises, server)
}

// isSystem tells whether the namespace is asked for that identifies a cluster.
func isSystem(path string) bool { return path == "/api/v1/namespaces/"+metav1.NamespaceSystem }

// lead is a kubeconfig that leads through the way.
func (to *target) lead(kubeconfig []byte) []byte {
	return testbed.Rewrite(kubeconfig, func(config *testbed.KubeConfig) {
		for _, c := range config.Clusters {
			c.Server = "https://" + to.way.listener.Addr().String()
			if to.authority != nil {
				c.CertificateAuthorityData = to.authority
			}
		}
	})
}
