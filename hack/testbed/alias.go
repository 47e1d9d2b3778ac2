package testbed

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Alias is an API server that has another UID than the cluster behind it, so that targets with one control plane are
// different clusters. In all else it is the same one. It passes tokens on, and no certificates of clients.
type Alias struct {
	server *httptest.Server
	ca     []byte
}

// StartAlias starts an alias of the cluster with a configuration. known is the UID of the cluster, and uid that of the
// alias; both have the same length.
func StartAlias(config *rest.Config, known, uid types.UID) (*Alias, error) {
	if len(known) != len(uid) {
		return nil, fmt.Errorf("the UID %s of an alias is not as long as %s", uid, known)
	}
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("certificates of the cluster: %w", err)
	}
	trust, err := rest.TLSConfigFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, fmt.Errorf("certificates of the cluster: %w", err)
	}
	backend, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("address of the cluster: %w", err)
	}
	silent := log.New(io.Discard, "", 0) // clients may disconnect at any time
	a := &Alias{server: httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(backend) },
		Transport:     &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true},
		FlushInterval: -1, // watches
		ErrorLog:      silent,
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Path != "/api/v1/namespaces/"+metav1.NamespaceSystem {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			_ = r.Body.Close()
			r.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(known), []byte(uid))))
			return nil
		},
	})}
	a.server.Config.ErrorLog = silent
	a.server.EnableHTTP2 = true
	a.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	a.server.StartTLS()
	a.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw})
	return a, nil
}

// Address is that of the alias, as host:port.
func (a *Alias) Address() string { return a.server.Listener.Addr().String() }

// Through returns a kubeconfig for the cluster that leads to the alias instead.
func (a *Alias) Through(kubeconfig []byte) []byte {
	return Rewrite(kubeconfig, func(config *KubeConfig) {
		for _, c := range config.Clusters {
			c.Server, c.CertificateAuthorityData = a.server.URL, a.ca
		}
	})
}

// Stop ends the alias with its connections.
func (a *Alias) Stop() {
	a.server.CloseClientConnections()
	a.server.Close()
}
