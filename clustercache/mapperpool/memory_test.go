package mapperpool

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/untrusted"
)

// mayAllocate bounds what a refresh allocates in all, the test server included, and so what is in memory at any time.
// Without the bounds on items it was 60 MiB to 1 GiB for most of these answers.
const mayAllocate = instrumented * 32 << 20

func allocated(do func()) uint64 {
	total := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := total()
	do()
	return total() - before
}

// refreshed asks a server for discovery, and checks what that allocates.
func refreshed(t *testing.T, answer func(w http.ResponseWriter, path string)) (*Mapper, error) {
	t.Helper()
	m := New(Options{Timeout: time.Minute}).Mapper(t.Context(), says(t, answer), http.DefaultClient, nil)
	var err error
	used := allocated(func() { err = m.Refresh(t.Context()) })
	t.Logf("%.1f MiB", float64(used)/(1<<20))
	NewWithT(t).Expect(used).To(BeNumerically("<", uint64(mayAllocate)))
	return m, err
}

// many is a list of equal things in JSON.
func many(n int, thing string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(thing+",", n), ",") + "]"
}

func TestAggregatedDiscoveryTakesLittleMemory(t *testing.T) {
	refused := MatchError(untrusted.ErrExceeded)
	a := func(n int) string { return strings.Repeat("a", n) }
	kind := `"responseKind":{"kind":"A"}`
	var resources []string
	for i := range 1000 {
		resources = append(resources, fmt.Sprintf(`{"resource":"a%d","responseKind":{"kind":"A%d"}}`, i, i))
	}
	kinds := `{"metadata":{"name":"g"},"versions":[{"version":"v1","resources":[` + strings.Join(resources, ",") + `]}]}`
	for name, c := range map[string]struct {
		items string
		want  gomegatypes.GomegaMatcher
	}{
		"empty groups":    {many(65_000, `{}`), refused},
		"empty versions":  {many(1, `{"versions":`+many(65_000, `{}`)+`}`), refused},
		"empty resources": {many(1, `{"versions":[{"resources":`+many(65_000, `{}`)+`}]}`), Succeed()},
		"empty subresources": {
			many(1, `{"versions":[{"resources":[{"subresources":`+many(65_000, `{}`)+`}]}]}`), Succeed(),
		},
		"kinds without a name": {
			many(1, `{"versions":[{"resources":`+many(30_000, `{`+kind+`}`)+`}]}`), refused,
		},
		"metadata that is not needed": {many(1, `{"metadata":{"managedFields":`+many(65_000, `{}`)+`}}`), Succeed()},
		"a long name of a group": {
			many(1, `{"metadata":{"name":"`+a(100<<10)+`"},"versions":`+many(1000, `{}`)+`}`), refused,
		},
		"a long name of a resource": {many(1, `{"versions":[{"resources":[{"resource":"`+a(100<<10)+`",
			"subresources":`+many(1000, `{`+kind+`}`)+`}]}]}`), refused},
		"a version named in many groups": {
			`[` + kinds + strings.Repeat(`,{"metadata":{"name":"g"},"versions":[{"version":"v1"}]}`, 300) + `,` + kinds + `]`,
			Succeed(),
		},
		"a version named many times": {
			`[` + strings.Replace(kinds, `[`, `[`+strings.Repeat(`{"version":"v1"},`, 300), 1) + `]`, Succeed(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := refreshed(t, func(w http.ResponseWriter, at string) {
				w.Header().Set("Content-Type", aggregated)
				items := c.items
				if at == "/api" && strings.Contains(items, `"v1"`) {
					items = "null" // its kinds would count twice
				}
				_, _ = fmt.Fprintf(w, `{"items":%s}`, items)
			})
			NewWithT(t).Expect(err).To(c.want)
		})
	}
}

// namesVersions answers /apis with groups of one version each.
func namesVersions(n int) string {
	groups := make([]string, n)
	for i := range groups {
		groups[i] = fmt.Sprintf(`{"name":"g%d","versions":[{"groupVersion":"g%d/v1","version":"v1"}]}`, i, i)
	}
	return `{"groups":[` + strings.Join(groups, ",") + `]}`
}

// The answers that are read at the same time share what may be read of all. The server sends the header of each, and no
// body before it has as many requests as there can be at once.
func TestAnswersThatAreReadAtOnceTakeLittleMemory(t *testing.T) {
	for name, body := range map[string]string{
		"empty resources": `{"resources":` + many(65_000, `{}`) + `}`,
		"subresources":    `{"resources":` + many(40_000, `{"name":"/"}`) + `}`,
		"elements":        `{"others":` + many(65_000, `{}`) + `}`,
		"a long text":     `{"others":"` + strings.Repeat("a", 4<<20-100) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var requests atomic.Int32
			all := make(chan struct{})
			_, err := refreshed(t, func(w http.ResponseWriter, at string) {
				w.Header().Set("Content-Type", "application/json")
				switch at {
				case "/api":
					_, _ = w.Write([]byte(`{"versions":[]}`))
				case "/apis":
					_, _ = w.Write([]byte(namesVersions(versionsAtOnce)))
				default:
					_ = http.NewResponseController(w).Flush()
					if requests.Add(1) == versionsAtOnce {
						close(all)
					}
					<-all
					_, _ = io.WriteString(w, body) // without a copy
				}
			})
			g.Expect(requests.Load()).To(BeEquivalentTo(versionsAtOnce), "they are asked for at the same time")
			g.Expect(err).To(MatchError(untrusted.ErrExceeded))
		})
	}
}

func TestUnaggregatedDiscoveryTakesLittleMemory(t *testing.T) {
	kinds := `{"resources":` + many(1000, `{"name":"a","kind":"A"}`) + `}`
	escaped := strings.Repeat("<", untrusted.MaxName) // six times as long in JSON that Go writes
	large := `{"resources":` + many(maxKinds, fmt.Sprintf(`{"name":%q,"kind":%q,"group":%q,"singularName":%q}`,
		escaped, escaped, escaped, escaped)) + `}`
	for name, c := range map[string]struct {
		core, groups, resources string
		want                    gomegatypes.GomegaMatcher
	}{
		"empty versions of a group": {
			`{}`, `{"groups":[{"versions":` + many(65_000, `{}`) + `}]}`, `{}`, MatchError(untrusted.ErrExceeded),
		},
		"core versions": {`{"versions":` + many(120_000, `""`) + `}`, `{}`, `{}`, MatchError(untrusted.ErrExceeded)},
		"a version named many times": {
			`{}`, `{"groups":` + many(300, `{"name":"g","versions":[{"version":"v1"},{"version":"v1"}]}`) + `}`,
			kinds, Succeed(),
		},
		"names that are long in JSON": {`{}`, namesVersions(1), large, Succeed()},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var requests atomic.Int32
			_, err := refreshed(t, func(w http.ResponseWriter, at string) {
				w.Header().Set("Content-Type", "application/json")
				switch at {
				case "/api":
					_, _ = io.WriteString(w, c.core)
				case "/apis":
					_, _ = io.WriteString(w, c.groups)
				default:
					requests.Add(1)
					_, _ = io.WriteString(w, c.resources)
				}
			})
			g.Expect(err).To(c.want)
			g.Expect(requests.Load()).To(BeNumerically("<=", 1), "a version is asked for once")
		})
	}
}

// Half an answer, or two, are no answer: of a version that is described so, nothing is known.
func TestAnswersThatAreNoDocument(t *testing.T) {
	for name, document := range map[string]string{
		"empty":               ``,
		"half":                `{"resources":[{"name":"as","kind":"A"}`,
		"half of a resource":  `{"resources":[{"name":"as","ki`,
		"two":                 `{"resources":[{"name":"as","kind":"A"}]}{}`,
		"text after it":       `{"resources":[{"name":"as","kind":"A"}]}]`,
		"a list":              `[]`,
		"no list":             `{"resources":{"name":"as","kind":"A"}}`,
		"a long number":       strings.Repeat("9", 1000),
		"a number for a name": `{"resources":[{"name":1,"kind":"A"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m, err := ask(t, New(Options{}), says(t, func(w http.ResponseWriter, at string) {
				w.Header().Set("Content-Type", "application/json")
				switch at {
				case "/api":
					_, _ = w.Write([]byte(`{"versions":null}`))
				case "/apis":
					_, _ = w.Write([]byte(namesVersions(1)))
				default:
					_, _ = w.Write([]byte(document))
				}
			}))
			g.Expect(err).NotTo(HaveOccurred(), "other groups are known")
			_, err = m.RESTMapping(schema.GroupKind{Group: "g0", Kind: "A"})
			g.Expect(err).To(MatchError(ContainSubstring("discovery")))
			g.Expect(len(err.Error())).To(BeNumerically("<", 500))

			_, err = ask(t, New(Options{}), says(t, func(w http.ResponseWriter, _ string) {
				w.Header().Set("Content-Type", aggregated)
				_, _ = w.Write([]byte(strings.ReplaceAll(document, "resources", "items")))
			}))
			if name != "a number for a name" { // groups have none there
				g.Expect(err).To(HaveOccurred())
			}
		})
	}
}

// A group is counted before it is kept.
func TestGroupsAreCountedWhileTheyAreDecoded(t *testing.T) {
	g := NewWithT(t)
	c, left := newContent(), newBudget()
	_, err := decode(strings.NewReader(`{"items":`+many(65_000, `{}`)+`}`), left, func(w walker) error {
		return c.readDocument(w, left)
	})
	g.Expect(err).To(MatchError(&untrusted.ExceededError{What: "groups", Most: maxVersions}))
	g.Expect(c.groups).To(HaveLen(maxVersions))
}

// Spaces are read once, however few of them come at a time: else this would take hours.
func TestSpacesAreReadOnce(t *testing.T) {
	g := NewWithT(t)
	text := `{` + strings.Repeat(" ", 1<<20) + `}`
	_, err := decode(iotest.OneByteReader(strings.NewReader(text)), newBudget(), func(w walker) error {
		return w.object(func(string) error { return nil })
	})
	g.Expect(err).NotTo(HaveOccurred())
}

// What is read of aggregated discovery, whatever the order and whatever else is written.
func TestAggregatedDiscoveryIsReadInAnyOrder(t *testing.T) {
	g := NewWithT(t)
	kind := func(name string) string {
		return fmt.Sprintf(`"responseKind":{"group":"g","version":"v1","kind":%q}`, name)
	}
	m, err := ask(t, New(Options{}), says(t, func(w http.ResponseWriter, at string) {
		w.Header().Set("Content-Type", aggregated)
		if at == "/api" {
			_, _ = w.Write([]byte(`{"metadata":{},"items":null}` + "\n"))
			return
		}
		_, _ = w.Write([]byte(`{"items":[{"versions":[
			{"freshness":"Stale","version":"v0","resources":[{"resource":"as",` + kind("A") + `}]},
			{"resources":[
				{"subresources":[{"subresource":"status",` + kind("A") + `}],"scope":"Namespaced","verbs":["get"],
				 ` + kind("A") + `,"resource":"as","singularResource":"a"},
				{"resource":"bs","scope":"Cluster",` + kind("B") + `},
				{"resource":"cs","responseKind":null,"subresources":[{"subresource":"x",` + kind("C") + `}]}
			 ],"freshness":"Current","version":"v1"},
			{"version":"v2","resources":null}
		 ],"metadata":{"creationTimestamp":null,"name":"g"}}],"kind":"APIGroupDiscoveryList"}`))
	}))
	g.Expect(err).NotTo(HaveOccurred())
	for name, want := range map[string]string{"A": "namespace as", "B": "root bs"} {
		mapping, err := m.RESTMapping(schema.GroupKind{Group: "g", Kind: name})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(mapping.GroupVersionKind).To(Equal(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: name}))
		g.Expect(fmt.Sprint(mapping.Scope.Name(), " ", mapping.Resource.Resource)).To(Equal(want))
	}
	_, err = m.RESTMapping(schema.GroupKind{Group: "g", Kind: "C"})
	g.Expect(err).To(MatchError(ContainSubstring("stale GroupVersion discovery: g/v0")), "v0 may have it")
	singular, err := m.ResourceSingularizer("as")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(singular).To(Equal("a"))
}

// The two parts of aggregated discovery are bounded together as well.
func TestPartsOfDiscoveryAreBoundedTogether(t *testing.T) {
	g := NewWithT(t)
	_, err := ask(t, New(Options{}), says(t, func(w http.ResponseWriter, at string) {
		w.Header().Set("Content-Type", aggregated)
		group := "of" + strings.TrimPrefix(at, "/")
		_, _ = w.Write(bytes.ReplaceAll(groupsOf(1, maxKinds/2+1, "Kind"), []byte("g0"), []byte(group)))
	}))
	g.Expect(err).To(MatchError(&untrusted.ExceededError{What: "resources", Most: maxKinds}))
}

// Digests differ if documents differ, whatever the names.
func TestDigestsOfUnaggregatedDiscovery(t *testing.T) {
	of := func(change func(*content)) string {
		c := newContent()
		version := metav1.GroupVersionForDiscovery{GroupVersion: "g/v1", Version: "v1"}
		c.groups = []*metav1.APIGroup{{Name: "g", Versions: []metav1.GroupVersionForDiscovery{version}}}
		c.resources[schema.GroupVersion{Group: "g", Version: "v1"}] = &metav1.APIResourceList{
			APIResources: []metav1.APIResource{{Name: "as", Kind: "A"}},
		}
		change(c)
		digest, err := c.digest()
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return digest
	}
	g := NewWithT(t)
	same := of(func(*content) {})
	g.Expect(of(func(*content) {})).To(Equal(same))
	v1 := schema.GroupVersion{Group: "g", Version: "v1"}
	for name, change := range map[string]func(*content){
		"group":    func(c *content) { c.groups[0].PreferredVersion.Version = "v1" },
		"resource": func(c *content) { c.resources[v1].APIResources[0].Namespaced = true },
		"another resource": func(c *content) {
			c.resources[v1].APIResources = append(c.resources[v1].APIResources, metav1.APIResource{})
		},
	} {
		g.Expect(of(change)).NotTo(Equal(same), name)
	}
}

// Equal targets that connect together build one mapper. Those of other targets do not wait for it.
func TestBuildingOneMapperDelaysNoOther(t *testing.T) {
	g := NewWithT(t)
	p := New(Options{})
	began, end := make(chan struct{}), make(chan struct{})
	var builds atomic.Int32
	slow := func() (*entry, error) {
		if builds.Add(1) == 1 {
			close(began)
		}
		<-end
		return &entry{}, nil
	}
	var equal [5]*entry
	var all sync.WaitGroup
	for i := range equal {
		all.Go(func() { equal[i], _ = p.get(documents{core: "slow"}, slow) })
	}
	<-began
	other := make(chan *entry, 1)
	go func() {
		found, _ := p.get(documents{core: "other"}, func() (*entry, error) { return &entry{}, nil })
		other <- found
	}()
	g.Eventually(other, 2*time.Minute).Should(Receive(Not(BeNil())))
	close(end)
	all.Wait()
	g.Expect(builds.Load()).To(BeEquivalentTo(1))
	for _, found := range equal {
		g.Expect(found).To(BeIdenticalTo(equal[0]))
	}
	g.Expect(equal[0].digests).To(Equal(documents{core: "slow"}))
	_, err := p.get(documents{core: "broken"}, func() (*entry, error) { return nil, untrusted.ErrExceeded })
	g.Expect(err).To(MatchError(untrusted.ErrExceeded))
	g.Expect(p.Len()).To(Equal(2), "nothing is kept of what cannot be built")
}
