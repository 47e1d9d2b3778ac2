package kubeconfig

import (
	"bytes"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
)

// Config is the harmless content of a kubeconfig's current context.
type Config struct {
	// Server is the https address of the API server.
	Server string
	// ServerName is the name that the server's certificate must bear, if it is not that of Server.
	ServerName string
	// CA holds the PEM certificates that the server's certificate is verified with; empty means those of the system.
	CA []byte
	// ProxyURL is one of Policy.AllowedProxyURLs, or empty.
	ProxyURL string
	// DisableCompression turns off gzip.
	DisableCompression bool

	// ClientCertificate and ClientKey are a PEM key pair, or empty.
	ClientCertificate, ClientKey []byte
	// Token is a bearer token, or empty.
	Token string
	// Username and Password are those of basic authentication, or empty.
	Username, Password string

	// Expiry is when the first of the credentials ends; zero if none of them says when it ends.
	Expiry time.Time
	// Issued is since when that credential is valid; zero if it does not say so.
	Issued time.Time
}

// Equal reports whether two configs are the same.
func (c *Config) Equal(o *Config) bool {
	return c.EqualButToken(o) && c.Token == o.Token
}

// EqualButToken reports whether two configs differ in nothing but the value of the bearer token, so that an open
// connection can continue with the new one.
func (c *Config) EqualButToken(o *Config) bool {
	return c.Server == o.Server && c.ServerName == o.ServerName && bytes.Equal(c.CA, o.CA) &&
		c.ProxyURL == o.ProxyURL && c.DisableCompression == o.DisableCompression &&
		bytes.Equal(c.ClientCertificate, o.ClientCertificate) && bytes.Equal(c.ClientKey, o.ClientKey) &&
		c.Username == o.Username && c.Password == o.Password && (c.Token == "") == (o.Token == "")
}

// REST returns the configuration without the bearer token, which is left to the caller so that it can change it on an
// open connection.
func (c *Config) REST() *rest.Config {
	config := &rest.Config{
		Host:               c.Server,
		Username:           c.Username,
		Password:           c.Password,
		DisableCompression: c.DisableCompression,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: c.ServerName,
			CAData:     c.CA,
			CertData:   c.ClientCertificate,
			KeyData:    c.ClientKey,
		},
	}
	if proxy, err := url.Parse(c.ProxyURL); c.ProxyURL != "" && err == nil {
		config.Proxy = http.ProxyURL(proxy)
	}
	return config
}

// String keeps credentials out of logs.
func (c *Config) String() string { return "kubeconfig for " + c.Server }

// GoString keeps credentials out of logs.
func (c *Config) GoString() string { return c.String() }
