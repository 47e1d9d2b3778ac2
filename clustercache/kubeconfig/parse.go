package kubeconfig

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/trellis-hub/trellis/addresses"
)

// Policy says what the operator allows beyond the safe set.
type Policy struct {
	// AllowedProxyURLs are the values that proxy-url may have.
	AllowedProxyURLs []string
	// Addresses says which servers are refused because of their literal address. The zero value refuses loopback and other
	// special ones. The addresses of names are checked by the dialler.
	Addresses addresses.Policy
}

// Lengths of single fields, in bytes.
const (
	maxToken  = 16 << 10 // it is sent with each request
	maxServer = 2 << 10
	maxName   = 253 // a name of the DNS
	maxBasic  = 1 << 10
)

// Parse reads a kubeconfig. The error is always a *FaultError. What it costs is bounded by MaxBytes, whatever the
// content.
func Parse(content []byte, policy Policy) (*Config, error) {
	parsed, err := Load(content)
	if err != nil {
		return nil, err
	}
	cluster, user, err := current(parsed)
	if err != nil {
		return nil, err
	}
	if err := refuse(cluster, user, policy); err != nil {
		return nil, err
	}
	config := &Config{
		Server:             cluster.Server,
		ServerName:         cluster.TLSServerName,
		CA:                 cluster.CertificateAuthorityData,
		ProxyURL:           cluster.ProxyURL,
		DisableCompression: cluster.DisableCompression,
		ClientCertificate:  user.ClientCertificateData,
		ClientKey:          user.ClientKeyData,
		Token:              strings.TrimSpace(user.Token),
		Username:           user.Username,
		Password:           user.Password,
	}
	if err := config.validate(policy); err != nil {
		return nil, err
	}
	return config, nil
}

// Load decodes a kubeconfig and judges nothing in it. It is for callers that change a kubeconfig and do not connect
// with it. The error is always a *FaultError. What it costs is bounded by MaxBytes, whatever the content.
func Load(content []byte) (*api.Config, error) {
	plain, err := toJSON(content)
	if err != nil {
		return nil, err
	}
	parsed, err := clientcmd.Load(plain)
	if err != nil {
		return nil, errNoKubeconfig()
	}
	return parsed, nil
}

// current returns the cluster and the user of the current context.
func current(config *api.Config) (*api.Cluster, *api.AuthInfo, error) {
	if config.CurrentContext == "" {
		return nil, nil, invalid("the kubeconfig has no current-context")
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil, nil, invalid("the context that current-context names does not exist")
	}
	cluster := config.Clusters[context.Cluster]
	if cluster == nil {
		return nil, nil, invalid("the cluster that the current context names does not exist")
	}
	user := config.AuthInfos[context.AuthInfo]
	if user == nil {
		return nil, nil, invalid("the user that the current context names does not exist")
	}
	return cluster, user, nil
}

// refuse finds what would run code in the hub, read its files, or lend its identity.
func refuse(cluster *api.Cluster, user *api.AuthInfo, policy Policy) error {
	impersonates := user.Impersonate != "" || user.ImpersonateUID != "" ||
		len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0
	switch {
	case user.Exec != nil:
		return refused("the user has an exec plug-in: the hub runs no commands; use a token or a client certificate")
	case user.AuthProvider != nil:
		return refused("the user has an auth-provider: use a token or a client certificate")
	case user.TokenFile != "":
		return refused("the user has a tokenFile: the hub reads no files; put the token into token")
	case user.ClientCertificate != "":
		return refused("the user has a client-certificate path: the hub reads no files; use client-certificate-data")
	case user.ClientKey != "":
		return refused("the user has a client-key path: the hub reads no files; use client-key-data")
	case cluster.CertificateAuthority != "":
		return refused("the cluster has a certificate-authority path: the hub reads no files; use certificate-authority-data")
	case impersonates:
		return refused("the user impersonates another one (act-as): give the hub a credential of its own")
	case cluster.InsecureSkipTLSVerify:
		return refused("the cluster has insecure-skip-tls-verify: give certificate-authority-data instead")
	case cluster.ProxyURL != "" && !slices.Contains(policy.AllowedProxyURLs, cluster.ProxyURL):
		return refused("the cluster has a proxy-url that is not among those the operator of the hub allows")
	}
	return nil
}

// validate finds what is missing or malformed and computes Expiry and Issued.
func (c *Config) validate(policy Policy) error {
	if c.Server == "" {
		return invalid("the cluster has no server")
	}
	if len(c.Server) > maxServer {
		return invalid("the server of the cluster has more than %d bytes", maxServer)
	}
	server, err := url.Parse(c.Server)
	if err != nil || server.Host == "" || server.User != nil {
		return invalid("the server of the cluster is no address of the form https://host:port")
	}
	if server.Scheme != "https" {
		return refused("the server of the cluster is not an https address: credentials are never sent in clear text")
	}
	if strings.ContainsFunc(server.Hostname(), func(r rune) bool { return r >= 0x80 }) {
		return invalid("the server of the cluster has a host name with characters beyond ASCII: write it in its " +
			"xn-- form")
	}
	if err := policy.Addresses.CheckHost(server.Hostname()); err != nil {
		return &FaultError{Reason: ReasonRefused, Err: err, Message: "the server of the cluster is a loopback, " +
			"link-local, unspecified or multicast address, or a name of one, in no network that the operator of " +
			"the hub allows (clusterCache.allowedNetworks)"}
	}
	if _, err := url.Parse(c.ProxyURL); err != nil {
		return invalid("the proxy-url of the cluster is no address")
	}
	if err := c.judgeLengths(); err != nil {
		return err
	}
	if err := judgeCertificates("certificate-authority-data", c.CA, maxAuthorities); err != nil {
		return err
	}
	if len(c.CA) > 0 && !x509.NewCertPool().AppendCertsFromPEM(c.CA) {
		return invalid("certificate-authority-data holds no PEM certificate")
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return invalid("the token has characters that no token may have")
	}
	if c.Username != "" && c.Token != "" {
		return invalid("the user has both a token and a username: only one of them can be sent")
	}
	if c.Token == "" && c.Username == "" && len(c.ClientCertificate) == 0 && len(c.ClientKey) == 0 {
		return invalid("the user has no credential: neither a token nor a client certificate")
	}
	c.Issued, c.Expiry = tokenValidity(c.Token)
	if len(c.ClientCertificate) == 0 && len(c.ClientKey) == 0 {
		return nil
	}
	if err := judgeCertificates("client-certificate-data", c.ClientCertificate, maxChain); err != nil {
		return err
	}
	if err := judgePrivateKeys(c.ClientKey); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(c.ClientCertificate, c.ClientKey)
	if err != nil {
		return invalid("client-certificate-data and client-key-data are no PEM key pair that fits together")
	}
	if c.Expiry.IsZero() || pair.Leaf.NotAfter.Before(c.Expiry) {
		c.Issued, c.Expiry = pair.Leaf.NotBefore, pair.Leaf.NotAfter
	}
	return nil
}

// judgeLengths refuses texts that are longer than legitimate ones.
func (c *Config) judgeLengths() error {
	for _, field := range []struct {
		name, text string
		most       int
	}{
		{"tls-server-name of the cluster", c.ServerName, maxName},
		{"token of the user", c.Token, maxToken},
		{"username of the user", c.Username, maxBasic},
		{"password of the user", c.Password, maxBasic},
	} {
		if len(field.text) > field.most {
			return invalid("the %s has more than %d bytes", field.name, field.most)
		}
	}
	return nil
}

// tokenValidity reads the beginning and the end of a JSON web token without verifying it; zero if the token is
// none or has no such claim.
func tokenValidity(token string) (issued, end time.Time) {
	claims, ok := ClaimsOf(token)
	if !ok || claims.Expiry.IsZero() {
		return time.Time{}, time.Time{}
	}
	return claims.Issued, claims.Expiry
}

// Claims are the unverified claims of a token. Zero: the token has no such claim.
type Claims struct {
	Issued, Expiry time.Time
	Subject        string
}

// ClaimsOf reads the claims of a JSON web token without verifying it; false if the token is none.
func ClaimsOf(token string) (Claims, bool) {
	if len(token) > maxToken {
		return Claims{}, false
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Claims{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Claims{}, false
	}
	var claims struct {
		Issued  float64 `json:"iat"`
		Expiry  float64 `json:"exp"`
		Subject any     `json:"sub"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return Claims{}, false
	}
	plausible := func(seconds float64) bool { return seconds > 0 && seconds <= 1<<40 }
	var out Claims
	if plausible(claims.Expiry) {
		out.Expiry = time.Unix(int64(claims.Expiry), 0)
	}
	if plausible(claims.Issued) && (out.Expiry.IsZero() || claims.Issued < claims.Expiry) {
		out.Issued = time.Unix(int64(claims.Issued), 0)
	}
	out.Subject, _ = claims.Subject.(string)
	return out, true
}

// serviceAccountPrefix begins the names of users that are service accounts.
const serviceAccountPrefix = "system:serviceaccount:"

// ServiceAccount returns the service account of the token of a kubeconfig, as its claims say, unverified; zero if the
// token is another user's.
func (c *Config) ServiceAccount() types.NamespacedName {
	claims, _ := ClaimsOf(c.Token)
	rest, is := strings.CutPrefix(claims.Subject, serviceAccountPrefix)
	namespace, name, parts := strings.Cut(rest, ":")
	if !is || !parts || len(namespace) > maxName || len(name) > maxName {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}
