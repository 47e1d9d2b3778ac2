package routes_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/webhooks/routes"
)

var key, other = []byte(strings.Repeat("k", 32)), []byte(strings.Repeat("o", 32))

func route() Route {
	return Route{
		Target: clustercache.ClusterKey{Namespace: "shoot--a--b", Name: "b"}, UID: "1-2", Webhook: "seccomp-profile",
	}
}

func TestAPathIdentifiesItsTarget(t *testing.T) {
	of := func(change func(*Route)) Route {
		r := route()
		change(&r)
		return r
	}
	for name, want := range map[string]Route{
		"a target":                  route(),
		"the source":                of(func(r *Route) { r.Target = clustercache.ClusterKey{Name: "source"} }),
		"an entry that is ignored":  of(func(r *Route) { r.Ignored = true }),
		"a webhook called ignore":   of(func(r *Route) { r.Webhook = "ignore" }),
		"a target called ignore":    of(func(r *Route) { r.Target.Name = "ignore" }),
		"a target with dots":        of(func(r *Route) { r.Target.Name = "a.b" }),
		"both, and it may be so":    of(func(r *Route) { r.Webhook, r.Ignored = "ignore", true }),
		"without dashes in the UID": of(func(r *Route) { r.UID = "12" }),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			claimed, ok := Parse(want.Path(key))
			g.Expect(ok).To(BeTrue(), want.Path(key))
			found, genuine := claimed.Genuine(other, key)
			g.Expect(genuine).To(BeTrue())
			g.Expect(found).To(Equal(want))
			if want.Webhook != "ignore" {
				g.Expect(WebhookOf("/prefix" + want.Path(key))).To(Equal(want.Webhook))
			}
			_, genuine = claimed.Genuine(other)
			g.Expect(genuine).To(BeFalse())
			_, genuine = claimed.Genuine()
			g.Expect(genuine).To(BeFalse())
		})
	}
}

func TestAPathHoldsForNothingElse(t *testing.T) {
	path := route().Path(key)
	for name, change := range map[string]func(string) string{
		"another target":    func(p string) string { return strings.Replace(p, "/b/", "/c/", 1) },
		"another namespace": func(p string) string { return strings.Replace(p, "shoot--a--b", "shoot--a--c", 1) },
		"another cluster":   func(p string) string { return strings.Replace(p, "1-2", "1-3", 1) },
		"a part moved": func(p string) string {
			return strings.Replace(p, "/shoot--a--b/b/", "/shoot--a--/bb/", 1)
		},
		"the source":               func(p string) string { return strings.Replace(p, "shoot--a--b", "no.namespace", 1) },
		"a code that is shortened": func(p string) string { return p[:strings.LastIndex(p, "/")-1] + "/seccomp-profile" },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			changed := change(path)
			g.Expect(changed).NotTo(Equal(path))
			claimed, ok := Parse(changed)
			g.Expect(ok).To(BeTrue())
			_, genuine := claimed.Genuine(key)
			g.Expect(genuine).To(BeFalse())
		})
	}
}

func TestPathsThatAreNone(t *testing.T) {
	for _, path := range []string{
		"", "/", "/a", "/a/b/c", "/a/b/c.d", "/a/b/c./d", "/a/b//d", "/a//c.d/e", "/a/b/.d/e", "/a/b/c.d/e/f",
		"/a/b/c.d/e/ignore/f", "a/b/c.d/e/", "/a/b/c.d/" + strings.Repeat("e", 2000), "/a/b/c\x00.d/e",
	} {
		_, ok := Parse(path)
		NewWithT(t).Expect(ok).To(BeFalse(), path)
	}
}

func TestNamesOfHosts(t *testing.T) {
	g := NewWithT(t)
	r := route()
	label := Label(r.Target, r.UID)
	g.Expect(label).To(MatchRegexp("^[0-9a-v]{32}$"))
	g.Expect(label).NotTo(ContainSubstring("shoot"))
	g.Expect(Label(r.Target, "another")).NotTo(Equal(label))
}

func FuzzParse(f *testing.F) {
	f.Add(route().Path(key))
	f.Add("/no.namespace/source/1.2/x/ignore")
	f.Fuzz(func(t *testing.T, path string) {
		claimed, ok := Parse(path)
		if !ok {
			return
		}
		if found, genuine := claimed.Genuine(key); genuine && found.Path(key) != path {
			t.Fatalf("%q is taken for %q", path, found.Path(key))
		}
	})
}
