package testbed

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/hack/controlplane"
)

// Alias is an API server that has another UID than the cluster behind it, so that targets with one control plane are
// different clusters. In all else it is the same one. It passes tokens on, and no certificates of clients.
type Alias struct {
	server *httptest.Server
	stop   func()
	ca     []byte
}

// StartAlias starts an alias of the cluster with a configuration.
func StartAlias(config *rest.Config, uid types.UID) (*Alias, error) {
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
	transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}
	silent := log.New(io.Discard, "", 0) // clients may disconnect at any time
	a := &Alias{server: httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(backend) },
		Transport:     controlplane.WithUID(transport, func(string) string { return string(uid) }),
		FlushInterval: -1, // watches
		ErrorLog:      silent,
	})}
	a.server.Config.ErrorLog = silent
	a.server.EnableHTTP2 = true
	a.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	a.stop = Serve(a.server)
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
func (a *Alias) Stop() { a.stop() }
