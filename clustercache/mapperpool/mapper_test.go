package mapperpool

import (
	"context"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

// server serves discovery.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	kinds  []string // of the group example.com
	stale  bool
	legacy bool
	noTags bool
	tag    func() string // instead of that of a kube-apiserver
	status int
	hang   bool
	// meanwhile is called while a request is answered, nil for nothing.
	meanwhile func()
	requests  int
	sent      int // documents that were not answered 304
}

func newServer(t *testing.T, kinds ...string) *server {
	s := &server{kinds: kinds}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) set(change func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *server) counts() (requests, sent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.sent
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	hang := s.hang
	s.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meanwhile != nil {
		s.meanwhile()
	}
	if s.status != 0 {
		w.WriteHeader(s.status)
		return
	}
	if s.legacy {
		s.serveLegacy(w, r)
		return
	}
	document := &apidiscovery.APIGroupDiscoveryList{}
	if r.URL.Path == "/api" {
		document.Items = []apidiscovery.APIGroupDiscovery{group("", false, "Pod")}
	} else {
		document.Items = []apidiscovery.APIGroupDiscovery{group("example.com", s.stale, s.kinds...)}
	}
	raw, _ := json.Marshal(document)
	tag := fmt.Sprintf("\"%X\"", sha512.Sum512(raw)) // without the kind, as in k8s.io/apiserver
	if s.tag != nil {
		tag = s.tag()
	}
	document.APIVersion, document.Kind = "apidiscovery.k8s.io/v2", "APIGroupDiscoveryList"
	raw, _ = json.Marshal(document)
	if !s.noTags {
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	s.sent++
	w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	_, _ = w.Write(raw)
}

func group(name string, stale bool, kinds ...string) apidiscovery.APIGroupDiscovery {
	version := apidiscovery.APIVersionDiscovery{Version: "v1", Freshness: apidiscovery.DiscoveryFreshnessCurrent}
	if stale {
		version.Freshness = apidiscovery.DiscoveryFreshnessStale
	} else {
		for _, kind := range kinds {
			version.Resources = append(version.Resources, apidiscovery.APIResourceDiscovery{
				Resource: strings.ToLower(kind) + "s", Scope: apidiscovery.ScopeNamespace, Verbs: []string{"get"},
				ResponseKind: &metav1.GroupVersionKind{Group: name, Version: "v1", Kind: kind},
			})
		}
	}
	return apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}, Versions: []apidiscovery.APIVersionDiscovery{version}}
}

func (s *server) serveLegacy(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	version := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/v1", Version: "v1"}
	resources := &metav1.APIResourceList{GroupVersion: "example.com/v1"}
	for _, kind := range s.kinds {
		resources.APIResources = append(resources.APIResources, metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true, Verbs: []string{"get"}})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"/api":    &metav1.APIVersions{Versions: []string{"v1"}},
		"/api/v1": &metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: []string{"get"}}}},
		"/apis": &metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "example.com", PreferredVersion: version,
			Versions: []metav1.GroupVersionForDiscovery{version}}}},
		"/apis/example.com/v1": resources,
	}[r.URL.Path])
}

func mapperOf(p *Pool, s *server) *Mapper {
	return p.Mapper(context.Background(), &rest.Config{Host: s.URL}, s.Client(), nil)
}

func kind(name string) schema.GroupKind { return schema.GroupKind{Group: "example.com", Kind: name} }

func TestTargetsWithEqualDiscoveryShareOneMapper(t *testing.T) {
	g := NewWithT(t)
	p := New(Options{})
	first := newServer(t, "Foo")
	for i := range 20 {
		s := newServer(t, "Foo")
		if i == 0 {
			s = first
		}
		mapping, err := mapperOf(p, s).RESTMapping(kind("Foo"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(mapping.Resource.Resource).To(Equal("foos"))
		if i > 0 {
			_, sent := s.counts()
			g.Expect(sent).To(BeZero(), "it never downloads what is known")
		}
	}
	g.Expect(p.Len()).To(Equal(1))

	other := newServer(t, "Foo", "Bar")
	_, err := mapperOf(p, other).RESTMapping(kind("Bar"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Len()).To(Equal(2))
}

// What a target says by its ETags is its own affair.
func TestTagsOfATargetConcernNoOther(t *testing.T) {
	g := NewWithT(t)
	p := New(Options{})
	constant := func(s *server) { s.tag = func() string { return `"1"` } }
	foo, bar := newServer(t, "Foo"), newServer(t, "Bar")
	foo.set(constant)
	bar.set(constant)
	for s, name := range map[*server]string{foo: "Foo", bar: "Bar"} {
		m := mapperOf(p, s)
		_, err := m.RESTMapping(kind(name))
		g.Expect(err).NotTo(HaveOccurred())
		_, sent := s.counts()
		m.Reset()
		_, err = m.RESTMapping(kind(name))
		g.Expect(err).NotTo(HaveOccurred())
		_, again := s.counts()
		g.Expect(again).To(Equal(sent), "its tag holds for itself")
	}

	var n atomic.Int64
	before := p.Len()
	var shared *entry
	for range 20 {
		s := newServer(t, "Foo", "Baz")
		s.set(func(s *server) { s.tag = func() string { return fmt.Sprintf("%q", fmt.Sprint(n.Add(1))) } })
		m := mapperOf(p, s)
		for range 3 {
			m.Reset()
			_, err := m.RESTMapping(kind("Baz"))
			g.Expect(err).NotTo(HaveOccurred())
		}
		if shared == nil {
			shared = m.entry
		}
		g.Expect(m.entry).To(BeIdenticalTo(shared))
	}
	g.Expect(p.Len()).To(Equal(before + 1))
}

// The hash of a document leaves out its kind and API version, and nothing else: other content of a target must not be
// shared with other targets.
func TestOnlyTheKindOfADocumentIsNoPartOfIt(t *testing.T) {
	g := NewWithT(t)
	rest := `"metadata":{},"items":[]}`
	usual := digestOf([]byte(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2",` + rest + "\n"))
	g.Expect(usual).To(Equal(fmt.Sprintf("\"%X\"", sha512.Sum512([]byte("{"+rest)))))
	g.Expect(digestOf([]byte(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2beta1",` + rest))).To(Equal(usual))
	g.Expect(digestOf([]byte(`{"kind":"APIGroupDiscoveryList","items":[{}],` + rest))).NotTo(Equal(usual))
}

func TestPoolIsBounded(t *testing.T) {
	g := NewWithT(t)
	p := New(Options{Size: 3})
	var mappers []*Mapper
	for i := range 10 {
		m := mapperOf(p, newServer(t, fmt.Sprint("Kind", i)))
		g.Expect(m.Refresh(context.Background())).To(Succeed())
		mappers = append(mappers, m)
	}
	g.Expect(p.Len()).To(Equal(3))
	_, err := mappers[0].RESTMapping(kind("Kind0"))
	g.Expect(err).NotTo(HaveOccurred(), "a mapper in use keeps what it has")
}

func TestUnknownKindsRefreshAtABoundedRate(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p := New(Options{Clock: clock, MinRefresh: 2 * time.Second})
	s := newServer(t, "Foo")
	m := mapperOf(p, s)
	for range 100 {
		_, err := m.RESTMapping(kind("Bar"))
		g.Expect(meta.IsNoMatchError(err)).To(BeTrue())
	}
	requests, _ := s.counts()
	g.Expect(requests).To(Equal(2), "one refresh")

	s.set(func(s *server) { s.kinds = append(s.kinds, "Bar") })
	_, err := m.RESTMapping(kind("Bar"))
	g.Expect(meta.IsNoMatchError(err)).To(BeTrue())
	clock.SetTime(clock.Now().Add(3 * time.Second))
	_, err = m.RESTMapping(kind("Bar"))
	g.Expect(err).NotTo(HaveOccurred())

	s.set(func(s *server) { s.kinds = append(s.kinds, "Baz") })
	m.Reset()
	_, err = m.RESTMapping(kind("Baz"))
	g.Expect(err).NotTo(HaveOccurred(), "Reset does not wait")
	s.set(func(s *server) { s.kinds = []string{"Foo"} })
	m.Reset()
	_, err = m.RESTMapping(kind("Baz"))
	g.Expect(meta.IsNoMatchError(err)).To(BeTrue(), "nor does it keep what is gone")
}

func TestGroupWhoseServerIsDownIsNotAnUnknownKind(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t, "Foo")
	s.stale = true
	m := mapperOf(New(Options{}), s)
	_, err := m.RESTMapping(kind("Foo"))
	var broken *discovery.ErrGroupDiscoveryFailed
	g.Expect(meta.IsNoMatchError(err)).To(BeFalse())
	g.Expect(err).To(BeAssignableToTypeOf(broken))
	_, err = m.RESTMapping(schema.GroupKind{Kind: "Pod"})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = m.RESTMapping(schema.GroupKind{Group: "other.com", Kind: "Foo"})
	g.Expect(meta.IsNoMatchError(err)).To(BeTrue())
}

func TestFailingDiscovery(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s := newServer(t, "Foo")
	m := mapperOf(New(Options{Clock: clock}), s)
	s.set(func(s *server) { s.status = http.StatusServiceUnavailable })
	_, err := m.RESTMapping(kind("Foo"))
	g.Expect(err).To(MatchError(ContainSubstring("discovery")))
	g.Expect(meta.IsNoMatchError(err)).To(BeFalse())
	s.set(func(s *server) { s.status = 0 })
	_, err = m.RESTMapping(kind("Foo"))
	g.Expect(err).NotTo(HaveOccurred())

	s.set(func(s *server) { s.status = http.StatusServiceUnavailable })
	clock.SetTime(clock.Now().Add(time.Minute))
	_, err = m.RESTMapping(kind("Bar"))
	g.Expect(meta.IsNoMatchError(err)).To(BeFalse(), "it is not known whether it exists")
	_, err = m.RESTMapping(kind("Foo"))
	g.Expect(err).NotTo(HaveOccurred(), "what is known stays known")
}

func TestHangingDiscoveryIsAskedOnceAndGivenUp(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t, "Foo")
	s.hang = true
	m := mapperOf(New(Options{Timeout: 200 * time.Millisecond}), s)
	began := time.Now()
	var group errgroup.Group
	for range 20 {
		group.Go(func() error {
			if _, err := m.RESTMapping(kind("Foo")); err == nil {
				return fmt.Errorf("no error")
			}
			return nil
		})
	}
	g.Expect(group.Wait()).To(Succeed())
	g.Expect(time.Since(began)).To(BeNumerically("<", 5*time.Second))
	requests, _ := s.counts()
	g.Expect(requests).To(BeNumerically("<", 20))
}

func TestMapperEndsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t, "Foo")
	s.hang = true
	reason := fmt.Errorf("the target is gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	m := New(Options{}).Mapper(ctx, &rest.Config{Host: s.URL}, s.Client(), nil)
	time.AfterFunc(50*time.Millisecond, func() { cancel(reason) })
	_, err := m.RESTMapping(kind("Foo"))
	g.Expect(err).To(HaveOccurred())
	_, err = m.RESTMapping(kind("Foo"))
	g.Expect(err).To(MatchError(reason))
}

func TestServersWithoutAggregatedDiscoveryOrTags(t *testing.T) {
	for name, prepare := range map[string]func(*server){
		"unaggregated": func(s *server) { s.legacy = true },
		"without tags": func(s *server) { s.noTags = true },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := New(Options{})
			for range 3 {
				s := newServer(t, "Foo")
				prepare(s)
				m := mapperOf(p, s)
				mapping, err := m.RESTMapping(kind("Foo"), "v1")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(mapping.Resource).To(Equal(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}))
				_, err = m.RESTMapping(schema.GroupKind{Kind: "Pod"})
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(p.Len()).To(Equal(1))
		})
	}
}

func TestSeedIsUsedUntilItIsOutdated(t *testing.T) {
	g := NewWithT(t)
	p := New(Options{})
	s := newServer(t, "Foo")
	first := mapperOf(p, s)
	g.Expect(first.Refresh(context.Background())).To(Succeed())
	_, sent := s.counts()
	second := p.Mapper(context.Background(), &rest.Config{Host: s.URL}, s.Client(), first)
	_, err := second.RESTMapping(kind("Foo"))
	g.Expect(err).NotTo(HaveOccurred())
	_, again := s.counts()
	g.Expect(again).To(Equal(sent))
}

func TestAllQuestions(t *testing.T) {
	g := NewWithT(t)
	m := mapperOf(New(Options{}), newServer(t, "Foo"))
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}
	k, err := m.KindFor(resource)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(k.Kind).To(Equal("Foo"))
	ks, err := m.KindsFor(resource)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ks).To(HaveLen(1))
	r, err := m.ResourceFor(resource)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r).To(Equal(resource))
	rs, err := m.ResourcesFor(resource)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rs).To(HaveLen(1))
	mappings, err := m.RESTMappings(kind("Foo"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(mappings).To(HaveLen(1))
	_, err = m.ResourceSingularizer("foos")
	g.Expect(err).NotTo(HaveOccurred())
}
