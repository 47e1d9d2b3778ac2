package mapperpool

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/untrusted"
)

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// says starts a server that answers each path with a text.
func says(t *testing.T, answer func(w http.ResponseWriter, path string)) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// ask makes a mapper ask for discovery.
func ask(t *testing.T, pool *Pool, config *rest.Config) (*Mapper, error) {
	t.Helper()
	m := pool.Mapper(t.Context(), config, http.DefaultClient, nil)
	return m, m.Refresh(t.Context())
}

// groupsOf is a document of aggregated discovery.
func groupsOf(groups, kinds int, name string) []byte {
	document := apidiscovery.APIGroupDiscoveryList{}
	for i := range groups {
		var all []string
		for j := range kinds {
			all = append(all, fmt.Sprintf("%s%d", name, j))
		}
		document.Items = append(document.Items, group(fmt.Sprintf("g%d.example.com", i), false, all...))
	}
	raw, _ := json.Marshal(document)
	return raw
}

func TestHostileDiscovery(t *testing.T) {
	without := func(begin string, again string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			_, err := w.Write([]byte(begin))
			for piece := bytes.Repeat([]byte(again), 1000); err == nil; {
				_, err = w.Write(piece)
			}
		}
	}
	text := func(raw []byte) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = w.Write(raw) }
	}
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		what   string
	}{
		"empty groups":      {without(`{"items":[`, `{},`), "elements"},
		"empty resources":   {without(`{"items":[{"versions":[{"resources":[`, `{},`), "elements"},
		"spaces":            {without(`{`, "    "), "bytes"},
		"a long name":       {text(groupsOf(1, 1, strings.Repeat("a", 300))), "bytes in a name"},
		"a very long name":  {without(`{"items":[{"metadata":{"name":"`, "aaaa"), "bytes"},
		"a nested document": {without(`{"a":`, "["), "levels of nesting"},
		"many kinds":        {text(groupsOf(1, maxKinds+1, "K")), "resources"},
		"many groups":       {text(groupsOf(maxVersions+1, 1, "K")), "groups"},
		"many versions": {
			text([]byte(`{"items":[{"versions":` + many(maxVersions+1, `{}`) + `}]}`)), "versions of groups",
		},
		"gzip of empty groups": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			zip := gzip.NewWriter(w)
			without(`{"items":[`, `{},`)(zipped{w, zip})
		}, "elements"},
	} {
		for _, path := range []string{"/api", "/apis"} {
			t.Run(name+" at "+path, func(t *testing.T) {
				g := NewWithT(t)
				pool := New(Options{})
				_, err := ask(t, pool, says(t, func(w http.ResponseWriter, at string) {
					w.Header().Set("Content-Type", aggregated)
					if at == path {
						c.answer(w)
					} else {
						_, _ = w.Write([]byte(`{}`))
					}
				}))
				g.Expect(err).To(MatchError(untrusted.ErrExceeded))
				g.Expect(err).To(MatchError(ContainSubstring(c.what)))
				g.Expect(pool.Len()).To(BeZero(), "nothing of it is kept")
			})
		}
	}
}

// zipped writes an answer that is compressed.
type zipped struct {
	http.ResponseWriter
	zip *gzip.Writer
}

func (z zipped) Write(p []byte) (int, error) { return z.zip.Write(p) }

func TestHostileUnaggregatedDiscovery(t *testing.T) {
	groups := func(n int) []byte {
		var list metav1.APIGroupList
		for i := range n {
			list.Groups = append(list.Groups, metav1.APIGroup{
				Name:     fmt.Sprintf("g%d", i),
				Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: fmt.Sprintf("g%d/v1", i), Version: "v1"}},
			})
		}
		raw, _ := json.Marshal(list)
		return raw
	}
	oneOf := func(versions int) []byte {
		return []byte(`{"groups":[{"name":"g","versions":` + many(versions, `{}`) + `}]}`)
	}
	empty := []byte(`{"groups":[` + strings.Repeat("{},", maxElements) + `{}]}`)
	emptyResources := []byte(`{"resources":` + many(maxKinds+1, `{}`) + `}`)
	subresources := []byte(`{"resources":` + many(1000, `{"name":"a/b"}`) + `}`)
	longName := []byte(`{"resources":[{"name":"` + strings.Repeat("a", 600) + `"}]}`)
	large := []byte(`{"resources":[{"name":"a","kind":"` + strings.Repeat("a", 200<<10) + `"}]}`)
	for name, c := range map[string]struct {
		groups   []byte
		resource []byte
		what     string
		requests int32
	}{
		"more groups than there may be":   {groups(maxVersions + 1), nil, "groups", 4},
		"more versions than there may be": {oneOf(maxVersions + 1), nil, "versions of groups", 4},
		"empty groups":                    {empty, nil, "elements", 4},
		"empty resources":                 {groups(100), emptyResources, "resources", 104},
		"subresources":                    {groups(100), subresources, "resources and subresources", 104},
		"answers that are large together": {groups(100), large, "", 104},
		"a long name":                     {groups(1), longName, "bytes in a name", 5},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			pool := New(Options{})
			var requests atomic.Int32
			_, err := ask(t, pool, says(t, func(w http.ResponseWriter, at string) {
				requests.Add(1)
				w.Header().Set("Content-Type", "application/json")
				switch at {
				case "/api":
					_, _ = w.Write([]byte(`{"versions":[]}`))
				case "/apis":
					_, _ = w.Write(c.groups)
				default:
					_, _ = w.Write(c.resource)
				}
			}))
			g.Expect(err).To(MatchError(untrusted.ErrExceeded))
			g.Expect(err).To(MatchError(ContainSubstring(c.what)))
			g.Expect(requests.Load()).To(BeNumerically("<=", c.requests))
			g.Expect(pool.Len()).To(BeZero())
		})
	}
}

func TestLargeHonestDiscovery(t *testing.T) {
	g := NewWithT(t)
	pool := New(Options{})
	document := groupsOf(1000, 3, "Kind")
	m, err := ask(t, pool, says(t, func(w http.ResponseWriter, at string) {
		w.Header().Set("Content-Type", aggregated)
		if at == "/apis" {
			_, _ = w.Write(document)
		} else {
			_, _ = w.Write([]byte(`{}`))
		}
	}))
	g.Expect(err).NotTo(HaveOccurred())
	mapping, err := m.RESTMapping(schema.GroupKind{Group: "g999.example.com", Kind: "Kind2"}, "v1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(mapping.Resource.Resource).To(Equal("kind2s"))
}

// A target whose discovery changes at each request owns one entry of the pool, and evicts no entry of others.
func TestDiscoveryThatAlwaysChanges(t *testing.T) {
	g := NewWithT(t)
	pool := New(Options{Size: 3})
	honest := newServer(t, "Widget")
	ctx, end := context.WithCancel(t.Context())
	first := pool.Mapper(ctx, &rest.Config{Host: honest.URL}, http.DefaultClient, nil)
	g.Expect(first.Refresh(t.Context())).To(Succeed())

	var requests atomic.Int32
	hostile, err := ask(t, pool, says(t, func(w http.ResponseWriter, at string) {
		w.Header().Set("Content-Type", aggregated)
		raw, _ := json.Marshal(apidiscovery.APIGroupDiscoveryList{Items: []apidiscovery.APIGroupDiscovery{
			group("example.com", false, fmt.Sprintf("Kind%d", requests.Add(1))),
		}})
		_, _ = w.Write(raw)
	}))
	g.Expect(err).NotTo(HaveOccurred())
	for range 10 {
		hostile.Reset()
		g.Expect(hostile.Refresh(t.Context())).To(Succeed())
		g.Expect(pool.Len()).To(Equal(2))
	}
	_, known := pool.entries.Peek(first.entry.digests)
	g.Expect(known).To(BeTrue(), "that of the honest target is found by others")

	seeded := pool.Mapper(t.Context(), &rest.Config{Host: honest.URL}, http.DefaultClient, first)
	end()
	g.Eventually(func() bool { first.mu.Lock(); defer first.mu.Unlock(); return first.ended }).Should(BeTrue())
	g.Expect(pool.Len()).To(Equal(2), "another mapper has it")
	g.Expect(seeded.Refresh(t.Context())).To(Succeed())
}

// The error of a target about a group that it cannot describe is not shown to other targets.
func TestFaultsAreNotShared(t *testing.T) {
	g := NewWithT(t)
	pool := New(Options{})
	_, err := ask(t, pool, says(t, func(w http.ResponseWriter, at string) {
		w.Header().Set("Content-Type", "application/json")
		switch at {
		case "/api":
			_, _ = w.Write([]byte(`{"versions":["v1"]}`))
		case "/apis":
			_, _ = w.Write([]byte(`{"groups":[{"name":"a","versions":[{"groupVersion":"a/v1","version":"v1"}]}]}`))
		case "/api/v1":
			_, _ = w.Write([]byte(`{"resources":[{"name":"pods","kind":"Pod","namespaced":true}]}`))
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pool.Len()).To(BeZero())
}

// FuzzDiscovery lets targets answer with arbitrary documents.
func FuzzDiscovery(f *testing.F) {
	f.Add(groupsOf(2, 2, "Kind"), false)
	f.Add([]byte(`{"items":[{"versions":[{"resources":[{},{"responseKind":null,"subresources":[{},null]}]}]}]}`), false)
	f.Add([]byte(`{"items":[null,{"metadata":null,"versions":[null,{"resources":[null]}]}]}`), false)
	f.Add([]byte(`{"groups":[{}],"versions":[""],"resources":[{"name":"/"}]}`), true)
	f.Fuzz(func(t *testing.T, document []byte, legacy bool) {
		client := &http.Client{Transport: answering(func(*http.Request) *http.Response {
			recorder := httptest.NewRecorder()
			recorder.Header().Set("Content-Type", aggregated)
			if legacy {
				recorder.Header().Set("Content-Type", "application/json")
			}
			_, _ = recorder.Write(document)
			return recorder.Result()
		})}
		m := New(Options{}).Mapper(t.Context(), &rest.Config{Host: "https://target"}, client, nil)
		if m.Refresh(t.Context()) == nil {
			_, _ = m.RESTMapping(schema.GroupKind{Group: "g0.example.com", Kind: "Kind0"})
		}
	})
}

type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }
