package connection

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
	with := func(change func(*kubeconfig.Config)) Access {
		c := &kubeconfig.Config{Server: "https://api.example.com", CA: certificate("a"), Token: "t"}
		change(c)
		return Access{Kubeconfig: c}
	}
	base := with(func(*kubeconfig.Config) {})
	type config = *kubeconfig.Config
	static := Access{Static: &rest.Config{
		Host: base.Kubeconfig.Server, TLSClientConfig: rest.TLSClientConfig{CAData: certificate("a")},
	}}
	for name, tc := range map[string]struct {
		access Access
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
			g.Expect(tc.access.ServerID()).NotTo(BeEmpty())
			if tc.same {
				g.Expect(tc.access.ServerID()).To(Equal(base.ServerID()))
			} else {
				g.Expect(tc.access.ServerID()).NotTo(Equal(base.ServerID()))
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
	for name, a := range map[string]Access{
		"none":              {},
		"insecure":          {Static: &rest.Config{Host: "https://api", TLSClientConfig: insecure}},
		"clear text":        {Static: &rest.Config{Host: "http://api"}},
		"no address":        {Static: &rest.Config{Host: "api"}},
		"files that are no": {Static: &rest.Config{Host: "https://api", TLSClientConfig: absent}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(a.ServerID()).To(BeEmpty()) })
	}
}
