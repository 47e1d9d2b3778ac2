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
	base := with(func(*kubeconfig.Config) {})
	type config = *kubeconfig.Config
	static := access{static: &rest.Config{
		Host: base.kubeconfig.Server, TLSClientConfig: rest.TLSClientConfig{CAData: certificate("a")},
	}}
	for name, tc := range map[string]struct {
		access access
		same   bool
	}{
		"the default port":           {with(func(c config) { c.Server = "https://API.example.com:443/" }), true},
		"another credential":         {with(func(c config) { c.Token, c.Username = "", "u" }), true},
		"other white space":          {with(func(c config) { c.CA = append([]byte("\n# us\n"), c.CA...) }), true},
		"a static configuration":     {static, true},
		"another port":               {with(func(c config) { c.Server += ":6443" }), false},
		"another path":               {with(func(c config) { c.Server += "/b" }), false},
		"another name of the server": {with(func(c config) { c.ServerName = "evil" }), false},
		"another CA":                 {with(func(c config) { c.CA = certificate("b") }), false},
		"one more CA":                {with(func(c config) { c.CA = append(c.CA, certificate("b")...) }), false},
		"the CA of the system":       {with(func(c config) { c.CA = nil }), false},
		"a proxy":                    {with(func(c config) { c.ProxyURL = "http://proxy" }), false},
		"a part in another place":    {with(func(c config) { c.Server, c.ServerName = "https://a", "pi" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(tc.access.server()).NotTo(BeEmpty())
			if tc.same {
				g.Expect(tc.access.server()).To(Equal(base.server()))
			} else {
				g.Expect(tc.access.server()).NotTo(Equal(base.server()))
			}
		})
	}
}

func TestEscapedPathIsAnotherPath(t *testing.T) {
	g := NewWithT(t)
	g.Expect(serverID("https://api/a%2Fb", "", nil, "")).NotTo(Equal(serverID("https://api/a/b", "", nil, "")))
}

func TestServerThatDoesNotAuthenticateItselfHasNoID(t *testing.T) {
	insecure, absent := rest.TLSClientConfig{Insecure: true}, rest.TLSClientConfig{CAFile: "/does/not/exist"}
	for name, a := range map[string]access{
		"none":              {},
		"insecure":          {static: &rest.Config{Host: "https://api", TLSClientConfig: insecure}},
		"clear text":        {static: &rest.Config{Host: "http://api"}},
		"no address":        {static: &rest.Config{Host: "api"}},
		"files that are no": {static: &rest.Config{Host: "https://api", TLSClientConfig: absent}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(a.server()).To(BeEmpty()) })
	}
}
