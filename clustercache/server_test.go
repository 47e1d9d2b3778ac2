package clustercache

import (
	"encoding/pem"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
)

func TestServerID(t *testing.T) {
	certificate := func(content string) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(content)})
	}
	with := func(change func(*kubeconfig.Config)) access {
		c := &kubeconfig.Config{Server: "https://api.example.com", CA: certificate("a"), Token: "t"}
		change(c)
		return access{kubeconfig: c}
	}
	base := with(func(*kubeconfig.Config) {}).server()
	for name, tc := range map[string]struct {
		access access
		same   bool
	}{
		"the default port":   {with(func(c *kubeconfig.Config) { c.Server = "https://API.example.com:443/" }), true},
		"another credential": {with(func(c *kubeconfig.Config) { c.Token, c.Username = "", "u" }), true},
		"other white space": {with(func(c *kubeconfig.Config) {
			c.CA = append([]byte("\n# us\n"),
				c.CA...)
		}), true},
		"a static configuration": {access{static: &rest.Config{Host: "https://api.example.com",
			TLSClientConfig: rest.TLSClientConfig{CAData: certificate("a")}}}, true},
		"another port":               {with(func(c *kubeconfig.Config) { c.Server += ":6443" }), false},
		"another path":               {with(func(c *kubeconfig.Config) { c.Server += "/b" }), false},
		"another name of the server": {with(func(c *kubeconfig.Config) { c.ServerName = "evil" }), false},
		"another CA":                 {with(func(c *kubeconfig.Config) { c.CA = certificate("b") }), false},
		"one more CA": {with(func(c *kubeconfig.Config) {
			c.CA = append(c.CA,
				certificate("b")...)
		}), false},
		"the CA of the system": {with(func(c *kubeconfig.Config) { c.CA = nil }), false},
		"a proxy":              {with(func(c *kubeconfig.Config) { c.ProxyURL = "http://proxy" }), false},
		"a name that is a part of all": {with(func(c *kubeconfig.Config) {
			c.Server, c.ServerName = "https://api",
				".example.com"
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(tc.access.server()).NotTo(BeEmpty())
			g.Expect(tc.access.server() == base).To(Equal(tc.same))
		})
	}
}

func TestServerThatDoesNotAuthenticateItselfHasNoID(t *testing.T) {
	for name, a := range map[string]access{
		"none": {},
		"insecure": {static: &rest.Config{Host: "https://api",
			TLSClientConfig: rest.TLSClientConfig{Insecure: true}}},
		"clear text": {static: &rest.Config{Host: "http://api"}},
		"no address": {static: &rest.Config{Host: "api"}},
		"files that are no": {static: &rest.Config{Host: "https://api",
			TLSClientConfig: rest.TLSClientConfig{CAFile: "/does/not/exist"}}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(a.server()).To(BeEmpty()) })
	}
}
