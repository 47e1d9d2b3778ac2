package kubeconfig

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// secretToken must never be seen in a message.
const secretToken = "very-secret-token"

// encode builds a kubeconfig with a token, changed by mutate.
func encode(t testing.TB, mutate func(*api.Config, *api.Cluster, *api.AuthInfo)) []byte {
	t.Helper()
	cluster, user := &api.Cluster{Server: "https://target:6443"}, &api.AuthInfo{Token: secretToken}
	config := &api.Config{
		Clusters: map[string]*api.Cluster{"c": cluster}, AuthInfos: map[string]*api.AuthInfo{"u": user},
		Contexts: map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}
	if mutate != nil {
		mutate(config, cluster, user)
	}
	raw, err := clientcmd.Write(*config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return raw
}

func keyPair(t testing.TB, notAfter time.Time) (certificate, key []byte) {
	t.Helper()
	g := NewWithT(t)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	g.Expect(err).NotTo(HaveOccurred())
	encoded, err := x509.MarshalECPrivateKey(private)
	g.Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func TestWhatIsRefused(t *testing.T) {
	certificate, _ := keyPair(t, time.Now().Add(time.Hour))
	_, otherKey := keyPair(t, time.Now().Add(time.Hour))
	type mutation = func(*api.Config, *api.Cluster, *api.AuthInfo)
	for name, test := range map[string]struct {
		mutate mutation
		reason Reason
		says   string
	}{
		"exec": {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) {
			u.Exec = &api.ExecConfig{Command: "id", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode}
		}, ReasonRefused, "exec"},
		"auth provider": {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) {
			u.AuthProvider = &api.AuthProviderConfig{Name: "oidc"}
		}, ReasonRefused, "auth-provider"},
		"token file":         {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.TokenFile = "/var/run/token" }, ReasonRefused, "tokenFile"},
		"certificate file":   {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.ClientCertificate = "/c" }, ReasonRefused, "client-certificate path"},
		"key file":           {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.ClientKey = "/k" }, ReasonRefused, "client-key path"},
		"CA file":            {func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) { c.CertificateAuthority = "/ca" }, ReasonRefused, "certificate-authority path"},
		"impersonated user":  {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.Impersonate = "admin" }, ReasonRefused, "impersonates"},
		"impersonated group": {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.ImpersonateGroups = []string{"system:masters"} }, ReasonRefused, "impersonates"},
		"impersonated extra": {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) {
			u.ImpersonateUserExtra = map[string][]string{"a": {"b"}}
		}, ReasonRefused, "impersonates"},
		"impersonated UID": {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.ImpersonateUID = "1" }, ReasonRefused, "impersonates"},
		"insecure":         {func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) { c.InsecureSkipTLSVerify = true }, ReasonRefused, "insecure-skip-tls-verify"},
		"proxy":            {func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) { c.ProxyURL = "http://proxy:" }, ReasonRefused, "proxy-url"},
		"http":             {func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) { c.Server = "http://target" }, ReasonRefused, "https"},
		"no server":        {func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) { c.Server = "" }, ReasonInvalid, "no server"},
		"no host":          {func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) { c.Server = "target:6443" }, ReasonInvalid, "https://host:port"},
		"password in server": {func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) {
			c.Server = "https://a:" + secretToken + "@target"
		}, ReasonInvalid, "https://host:port"},
		"no context":         {func(c *api.Config, _ *api.Cluster, _ *api.AuthInfo) { c.CurrentContext = "" }, ReasonInvalid, "current-context"},
		"unknown context":    {func(c *api.Config, _ *api.Cluster, _ *api.AuthInfo) { c.CurrentContext = "y" }, ReasonInvalid, "does not exist"},
		"unknown cluster":    {func(c *api.Config, _ *api.Cluster, _ *api.AuthInfo) { delete(c.Clusters, "c") }, ReasonInvalid, "cluster"},
		"unknown user":       {func(c *api.Config, _ *api.Cluster, _ *api.AuthInfo) { delete(c.AuthInfos, "u") }, ReasonInvalid, "user"},
		"no credential":      {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.Token = "" }, ReasonInvalid, "no credential"},
		"blank token":        {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.Token = "\n" }, ReasonInvalid, "no credential"},
		"token of two lines": {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.Token = secretToken + "\n" + secretToken }, ReasonInvalid, "characters"},
		"bad CA":             {func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) { c.CertificateAuthorityData = []byte("x") }, ReasonInvalid, "PEM certificate"},
		"certificate alone":  {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.ClientCertificateData = certificate }, ReasonInvalid, "key pair"},
		"key of another": {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) {
			u.ClientCertificateData, u.ClientKeyData = certificate, otherKey
		}, ReasonInvalid, "key pair"},
		"token and password": {func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.Username, u.Password = "a", "b" }, ReasonInvalid, "both"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := Parse(encode(t, test.mutate), Policy{})
			var fault *FaultError
			g.Expect(errors.As(err, &fault)).To(BeTrue(), "%v", err)
			g.Expect(fault.Reason).To(Equal(test.reason))
			g.Expect(fault.Message).To(ContainSubstring(test.says))
			g.Expect(fault.Message).NotTo(ContainSubstring(secretToken))
		})
	}
}

func TestGarbageIsNotQuoted(t *testing.T) {
	for _, content := range []string{secretToken, "{" + secretToken, "a: b: " + secretToken, "\x00\xff", "kind: Pod\ntoken: " + secretToken, "[]", "users: " + secretToken} {
		g := NewWithT(t)
		_, err := Parse([]byte(content), Policy{})
		var fault *FaultError
		g.Expect(errors.As(err, &fault)).To(BeTrue(), "%q: %v", content, err)
		g.Expect(fault.Message).NotTo(ContainSubstring(secretToken))
	}
}

// A file that exists and could be read makes sure that it is the refusal that keeps it from being read.
func TestNothingIsReadFromDisk(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "token")
	g.Expect(os.WriteFile(file, []byte(secretToken), 0o600)).To(Succeed())
	config, err := Parse(encode(t, func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.Token, u.TokenFile = "", file }), Policy{})
	g.Expect(config).To(BeNil())
	g.Expect(err).To(HaveOccurred())
}

func TestUnusedEntriesDoNotMatter(t *testing.T) {
	g := NewWithT(t)
	_, err := Parse(encode(t, func(c *api.Config, _ *api.Cluster, _ *api.AuthInfo) {
		c.AuthInfos["unused"] = &api.AuthInfo{TokenFile: "/x"}
	}), Policy{})
	g.Expect(err).NotTo(HaveOccurred())
}

func TestAllowedProxy(t *testing.T) {
	g := NewWithT(t)
	config, err := Parse(encode(t, func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) { c.ProxyURL = "http://proxy:3128" }), Policy{AllowedProxyURLs: []string{"http://proxy:3128"}})
	g.Expect(err).NotTo(HaveOccurred())
	proxy, err := config.REST().Proxy(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(proxy.Host).To(Equal("proxy:3128"))
}

func TestExpiryIsThatOfTheFirstCredential(t *testing.T) {
	g := NewWithT(t)
	soon, late := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(2*time.Hour).Truncate(time.Second)
	jwt := func(end time.Time) string {
		return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, end.Unix())) + ".c2ln"
	}
	certificate, key := keyPair(t, late)
	parse := func(token string, withCertificate bool) *Config {
		config, err := Parse(encode(t, func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) {
			u.Token = token
			if withCertificate {
				u.ClientCertificateData, u.ClientKeyData = certificate, key
			}
		}), Policy{})
		g.Expect(err).NotTo(HaveOccurred())
		return config
	}
	g.Expect(parse("opaque", false).Expiry).To(BeZero())
	g.Expect(parse("a.b.c", false).Expiry).To(BeZero())
	g.Expect(parse(jwt(soon), false).Expiry).To(BeTemporally("==", soon))
	g.Expect(parse("", true).Expiry).To(BeTemporally("==", late))
	g.Expect(parse(jwt(soon), true).Expiry).To(BeTemporally("==", soon))
	g.Expect(parse("opaque", true).Expiry).To(BeTemporally("==", late))

	g.Expect(parse(jwt(soon), false).Issued).To(BeZero())
	g.Expect(parse("", true).Issued).To(BeTemporally("~", time.Now().Add(-time.Hour), time.Minute))
	now := time.Now().Truncate(time.Second)
	token := "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iat":%d,"exp":%d}`, now.Unix(), soon.Unix())) + ".c2ln"
	g.Expect(parse(token, true).Issued).To(BeTemporally("==", now), "of the one that ends first")
}

func TestWhatIsComparedAndWhatIsShown(t *testing.T) {
	g := NewWithT(t)
	parse := func(mutate func(*api.Config, *api.Cluster, *api.AuthInfo)) *Config {
		config, err := Parse(encode(t, mutate), Policy{})
		g.Expect(err).NotTo(HaveOccurred())
		return config
	}
	base := parse(nil)
	token := parse(func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.Token = "other" })
	server := parse(func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://other" })
	basic := parse(func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.Token, u.Username, u.Password = "", "a", "b" })
	renamed := parse(func(c *api.Config, _ *api.Cluster, _ *api.AuthInfo) { c.Contexts["x"].Namespace = "other" })
	g.Expect(base.Equal(renamed)).To(BeTrue())
	g.Expect(base.Equal(token)).To(BeFalse())
	g.Expect(base.EqualButToken(token)).To(BeTrue())
	g.Expect(base.EqualButToken(server)).To(BeFalse())
	g.Expect(base.EqualButToken(basic)).To(BeFalse())
	g.Expect(fmt.Sprintf("%v %+v %#v %s", base, base, base, base)).NotTo(ContainSubstring(secretToken))
	g.Expect(base.REST().BearerToken).To(BeEmpty())
}

func TestRegistrationSecrets(t *testing.T) {
	g := NewWithT(t)
	secret := func(name, label string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{ClusterNameLabel: label}}, Data: data}
	}
	g.Expect(IsRegistration(secret("a-kubeconfig", "a", nil))).To(BeTrue())
	g.Expect(IsRegistration(secret("a-b-kubeconfig", "a-b", nil))).To(BeTrue())
	g.Expect(IsRegistration(secret("a-kubeconfig", "b", nil))).To(BeFalse())
	g.Expect(IsRegistration(secret("a-ca", "a", nil))).To(BeFalse())
	g.Expect(IsRegistration(secret("-kubeconfig", "", nil))).To(BeFalse())
	for name, target := range map[string]string{"a-kubeconfig": "a", "a-b-kubeconfig": "a-b", "kubeconfig": "", "-kubeconfig": "", "a-ca": "", "a": ""} {
		key, ok := TargetOf(types.NamespacedName{Namespace: "ns", Name: name})
		g.Expect(ok).To(Equal(target != ""), name)
		g.Expect(key.Name).To(Equal(target), name)
	}

	good := encode(t, nil)
	for _, key := range []string{"value", "kubeconfig"} {
		_, err := FromSecret(secret("a-kubeconfig", "a", map[string][]byte{key: good}), Policy{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	_, err := FromSecret(secret("a-kubeconfig", "a", map[string][]byte{"value": []byte(" \n"), "kubeconfig": good}), Policy{})
	g.Expect(err).NotTo(HaveOccurred(), "an empty value is as good as none")
	_, err = FromSecret(secret("a-kubeconfig", "a", map[string][]byte{"value": []byte("garbage"), "kubeconfig": good}), Policy{})
	g.Expect(err).To(HaveOccurred(), "value comes first")
	_, err = FromSecret(secret("a-kubeconfig", "a", map[string][]byte{"other": good}), Policy{})
	var fault *FaultError
	g.Expect(errors.As(err, &fault)).To(BeTrue())
	g.Expect(fault.Reason).To(Equal(ReasonSecretInvalid))
}

func FuzzParse(f *testing.F) {
	f.Add(encode(f, nil))
	f.Add([]byte("apiVersion: v1\nkind: Config\n"))
	f.Add([]byte(minimal))
	f.Add([]byte(minimal + "a: &a {x: y}\nb: {<<: *a}\nc: !!binary aGk=\n---\nd: 1\n"))
	f.Add([]byte(`{"kind":"Config","a":[{},{"a":null,"b":1e5}],"a":"\u0026a"}`))
	certificate, key := keyPair(f, time.Now().Add(time.Hour))
	f.Add(encode(f, func(_ *api.Config, c *api.Cluster, u *api.AuthInfo) {
		c.CertificateAuthorityData, u.ClientCertificateData, u.ClientKeyData = certificate, certificate, key
	}))
	f.Fuzz(func(t *testing.T, content []byte) {
		if plain, err := toJSON(content); err == nil {
			if len(content) > MaxBytes || !json.Valid(plain) || len(plain) > 8*MaxBytes {
				t.Fatalf("%d bytes became %d", len(content), len(plain))
			}
			if again, err := toJSON(plain); len(plain) <= MaxBytes && (err != nil || !bytes.Equal(again, plain)) {
				t.Fatalf("%s, then %s: %v", plain, again, err)
			}
		}
		config, err := Parse(content, Policy{})
		var fault *FaultError
		if (config == nil) == (err == nil) || err != nil && !errors.As(err, &fault) {
			t.Fatalf("%v, %v", config, err)
		}
		if config != nil && !strings.HasPrefix(strings.ToLower(config.Server), "https://") {
			t.Fatalf("server %q", config.Server)
		}
	})
}

func TestWhatATokenSaysOfItself(t *testing.T) {
	token := func(claims string) string {
		return "x." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"
	}
	for name, c := range map[string]struct {
		token   string
		is      bool
		claims  Claims
		account types.NamespacedName
	}{
		"opaque":    {"opaque", false, Claims{}, types.NamespacedName{}},
		"no claims": {"a.b!.c", false, Claims{}, types.NamespacedName{}},
		"no JSON":   {token("x"), false, Claims{}, types.NamespacedName{}},
		"too long":  {token(`{"sub":"` + strings.Repeat("x", 32<<10) + `"}`), false, Claims{}, types.NamespacedName{}},
		"empty":     {token("{}"), true, Claims{}, types.NamespacedName{}},
		"a service account": {token(`{"iat":1000,"exp":2000,"sub":"system:serviceaccount:a:b"}`), true,
			Claims{time.Unix(1000, 0), time.Unix(2000, 0), "system:serviceaccount:a:b"},
			types.NamespacedName{Namespace: "a", Name: "b"}},
		"another user": {token(`{"sub":"system:node:a:b"}`), true, Claims{Subject: "system:node:a:b"}, types.NamespacedName{}},
		"half of an account": {token(`{"sub":"system:serviceaccount:a"}`), true,
			Claims{Subject: "system:serviceaccount:a"}, types.NamespacedName{}},
		"no text":     {token(`{"sub":[1]}`), true, Claims{}, types.NamespacedName{}},
		"implausible": {token(`{"iat":3000,"exp":2000}`), true, Claims{Expiry: time.Unix(2000, 0)}, types.NamespacedName{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			claims, is := ClaimsOf(c.token)
			g.Expect(is).To(Equal(c.is))
			g.Expect(claims).To(Equal(c.claims))
			g.Expect((&Config{Token: c.token}).ServiceAccount()).To(Equal(c.account))
		})
	}
}
