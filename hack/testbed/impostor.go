package testbed

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Impostor is an API server that claims to be another cluster. It knows the kinds of the west, has no objects, and
// refuses to write any.
type Impostor struct {
	// Kubeconfig leads to it. Intruder has the address and the certificates of the real cluster, and a token that is
	// not accepted.
	Kubeconfig, Intruder []byte

	server    *httptest.Server
	stop      func()
	claims    atomic.Value // types.UID
	discovery http.Handler
}

// StartImpostor starts an impostor of the cluster with a configuration. It claims to be the cluster "impostor" at
// first.
func StartImpostor(config *rest.Config) (*Impostor, error) {
	genuine, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of the impostor: %w", err)
	}
	i := &Impostor{discovery: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, config.Host+r.URL.RequestURI(), nil)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		req.Header.Set("Accept", r.Header.Get("Accept"))
		resp, err := genuine.Do(req)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})}
	i.claims.Store(types.UID("impostor"))
	i.server = httptest.NewUnstartedServer(i)
	i.server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients may disconnect at any time
	i.stop = Serve(i.server)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw})
	if i.Kubeconfig, err = TokenKubeconfig(i.server.URL, ca); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("certificates of the real cluster: %w", err)
	}
	i.Intruder, err = TokenKubeconfig(config.Host, config.CAData)
	return i, err
}

// Claim makes it claim from now on that it is the cluster with a UID.
func (i *Impostor) Claim(uid types.UID) { i.claims.Store(uid) }

// Stop ends it.
func (i *Impostor) Stop() { i.stop() }

// TokenKubeconfig is a kubeconfig for a server, with a token that no real API server takes.
func TokenKubeconfig(server string, ca []byte) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "hostile"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	return clientcmd.Write(*config)
}

// ServeHTTP answers as an API server with empty lists.
func (i *Impostor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	say := func(code int, body string, args ...any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, body, args...)
	}
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/version":
		say(http.StatusOK, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
	case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
		say(http.StatusCreated, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1",`+
			`"status":{"userInfo":{"username":"hostile"}}}`)
	case r.URL.Path == "/api/v1/namespaces/"+metav1.NamespaceSystem:
		say(http.StatusOK, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",`+
			`"metadata":{"name":%q,"uid":%q,"resourceVersion":"1"}}`,
			metav1.NamespaceSystem, i.claims.Load())
	case r.Method != http.MethodGet:
		say(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure",`+
			`"reason":"Forbidden","message":"no","code":403}`)
	case r.URL.Query().Get("watch") != "":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case len(segments) <= 2 && segments[0] == "api", len(segments) <= 3 && segments[0] == "apis",
		segments[0] == "openapi":
		i.discovery.ServeHTTP(w, r)
	case slices.Contains([]int{3, 5}, len(segments)) && segments[0] == "api",
		slices.Contains([]int{4, 6}, len(segments)) && segments[0] == "apis":
		say(http.StatusOK, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1",`+
			`"metadata":{"resourceVersion":"1"},"items":[]}`)
	default:
		say(http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure",`+
			`"reason":"NotFound","message":"not found","code":404}`)
	}
}
