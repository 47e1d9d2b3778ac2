package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
)

// event of a watch.
type event struct {
	kind, name, version string
	doc                 map[string]any
}

func (e event) String() string { return e.kind + " " + e.name }

// watch begins a watch and returns its events; the channel is closed when it ends.
func (s *simulator) watch(t *testing.T, path string, headers ...string) <-chan event {
	t.Helper()
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+path, nil)
	g.Expect(err).NotTo(HaveOccurred())
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	events, done := make(chan event, 1000), make(chan struct{})
	go func() {
		defer close(done)
		defer close(events)
		defer func() { _ = response.Body.Close() }()
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var doc struct {
				Type   string
				Object map[string]any
			}
			if json.Unmarshal(lines.Bytes(), &doc) != nil {
				return
			}
			e := event{kind: doc.Type, doc: doc.Object}
			metadata, _ := doc.Object["metadata"].(map[string]any)
			e.name, _ = metadata["name"].(string)
			e.version, _ = metadata["resourceVersion"].(string)
			events <- e
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return events
}

// next returns the next n events as text.
func next(g *WithT, events <-chan event, n int) []string {
	var list []string
	for range n {
		var e event
		g.Eventually(events, patience).Should(Receive(&e), "after %v", list)
		list = append(list, e.String())
	}
	return list
}

func TestAWatchIsAboutItsSelection(t *testing.T) {
	labelled := func(name, value string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, labels: {app: %s}}}", name, value)
	}
	for name, c := range map[string]struct {
		query  string
		events []string
	}{
		"everything": {"", []string{"ADDED a", "MODIFIED a", "ADDED b", "MODIFIED a", "DELETED a", "ADDED end"}},
		"a label":    {"&labelSelector=app%3Dweb", []string{"ADDED a", "DELETED a", "ADDED a", "DELETED a", "ADDED end"}},
		"a name":     {"&fieldSelector=metadata.name%3Da", []string{"ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := start(t, apiserver.Options{})
			events := s.watch(t, cms+"?watch=1&resourceVersion="+s.send(g, "GET", cms, "").at("metadata", "resourceVersion").(string)+c.query) //nolint:errcheck // it is one
			g.Expect(s.send(g, "POST", cms, labelled("a", "web")).code).To(Equal(http.StatusCreated))
			g.Expect(s.send(g, "PUT", cms+"/a", labelled("a", "db")).code).To(Equal(http.StatusOK))
			g.Expect(s.send(g, "POST", cms, labelled("b", "db")).code).To(Equal(http.StatusCreated))
			g.Expect(s.send(g, "POST", "/api/v1/namespaces/kube-system/configmaps", labelled("elsewhere", "web")).code).To(Equal(http.StatusCreated))
			g.Expect(s.send(g, "PUT", cms+"/a", labelled("a", "web")).code).To(Equal(http.StatusOK))
			g.Expect(s.send(g, "DELETE", cms+"/a", "").code).To(Equal(http.StatusOK))
			g.Expect(s.send(g, "POST", cms, labelled("end", "web")).code).To(Equal(http.StatusCreated))
			g.Expect(next(g, events, len(c.events))).To(Equal(c.events))
		})
	}
}

func TestADeletedEventHasTheVersionOfTheDeletion(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{})
	created := s.send(g, "POST", cms, configMap("a", "data: {a: b}"))
	events := s.watch(t, cms+"?watch=1&resourceVersion="+created.at("metadata", "resourceVersion").(string)) //nolint:errcheck // it is one
	g.Expect(s.send(g, "DELETE", cms+"/a", "").code).To(Equal(http.StatusOK))
	var e event
	g.Eventually(events, patience).Should(Receive(&e))
	g.Expect(e.String()).To(Equal("DELETED a"))
	g.Expect(e.doc).To(HaveKeyWithValue("data", map[string]any{"a": "b"}))
	g.Expect(e.version).To(Equal(s.send(g, "GET", cms, "").at("metadata", "resourceVersion")))
}

func TestAStreamedListEndsWithABookmark(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{})
	for i := range 150 {
		g.Expect(s.send(g, "POST", cms, configMap(fmt.Sprintf("x-%03d", i), "")).code).To(Equal(http.StatusCreated))
	}
	const streaming = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	events := s.watch(t, cms+streaming, "Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	for i := range 150 {
		var e event
		g.Eventually(events, patience).Should(Receive(&e))
		g.Expect(e.String()).To(Equal(fmt.Sprintf("ADDED x-%03d", i)))
		g.Expect(e.doc).To(HaveKeyWithValue("kind", "PartialObjectMetadata"))
	}
	var e event
	g.Eventually(events, patience).Should(Receive(&e))
	g.Expect(e.kind).To(Equal("BOOKMARK"))
	g.Expect(e.doc["metadata"]).To(HaveKeyWithValue("annotations", map[string]any{metav1.InitialEventsAnnotationKey: "true"}))
	g.Expect(e.version).To(Equal(s.send(g, "GET", cms, "").at("metadata", "resourceVersion")))
}

func TestBookmarksComeNowAndThen(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{BookmarkInterval: 20 * time.Millisecond})
	with := s.watch(t, cms+"?watch=1&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	without := s.watch(t, cms+"?watch=1&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
	var first, later event
	g.Eventually(with, patience).Should(Receive(&first))
	g.Expect(first.kind).To(Equal("BOOKMARK"))
	// Of another namespace: the version advances though the watch has no event.
	created := s.send(g, "POST", "/api/v1/namespaces/kube-system/configmaps", configMap("x", ""))
	g.Eventually(func() string {
		g.Eventually(with, patience).Should(Receive(&later))
		return later.version
	}, patience).Should(Equal(created.at("metadata", "resourceVersion")))
	g.Expect(without).To(BeEmpty())
}

func TestAWatchEnds(t *testing.T) {
	watch := cms + "?watch=1&resourceVersion=0"
	for name, c := range map[string]struct {
		query string
		end   func(*simulator)
		last  string
	}{
		"after its time":                {"&timeoutSeconds=1", func(*simulator) {}, ""},
		"when the server ends all":      {"", func(s *simulator) { s.EndWatches() }, ""},
		"when the server stops":         {"", func(s *simulator) { s.Stop() }, ""},
		"when the server has compacted": {"", func(s *simulator) { s.Compact() }, "ERROR "},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := start(t, apiserver.Options{})
			events := s.watch(t, watch+c.query)
			c.end(s)
			if c.last != "" {
				var e event
				g.Eventually(events, patience).Should(Receive(&e))
				g.Expect(e.String()).To(Equal(c.last))
				g.Expect(e.doc).To(And(HaveKeyWithValue("code", 410.0), HaveKeyWithValue("reason", "Expired")))
			}
			g.Eventually(events, patience).Should(BeClosed())
		})
	}
}

func TestAWatchFromAnExpiredVersionGetsAnError(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{Window: 4})
	for i := range 20 {
		g.Expect(s.send(g, "POST", cms, configMap(fmt.Sprint("x-", i), "")).code).To(Equal(http.StatusCreated))
	}
	events := s.watch(t, cms+"?watch=1&resourceVersion=6")
	var e event
	g.Eventually(events, patience).Should(Receive(&e))
	g.Expect(e.kind).To(Equal("ERROR"))
	g.Expect(e.doc).To(HaveKeyWithValue("code", 410.0))
	g.Eventually(events, patience).Should(BeClosed())
	g.Expect(s.send(g, "GET", cms+"?resourceVersion=6&resourceVersionMatch=Exact", "").status(g).Reason).To(Equal(metav1.StatusReasonExpired))
}

// TestAWatchThatDoesNotReadIsEnded fills the connection of a watch, and the window behind it.
func TestAWatchThatDoesNotReadIsEnded(t *testing.T) {
	g := NewWithT(t)
	s, err := apiserver.New(apiserver.Options{Window: 4})
	g.Expect(err).NotTo(HaveOccurred())
	defer s.Stop()
	ended := make(chan struct{})
	release := make(chan struct{})
	w := &stuckWriter{header: http.Header{}, release: release, stuck: make(chan struct{}, 100)}
	go func() {
		defer close(ended)
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, cms+"?watch=1&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", nil)
		s.ServeHTTP(w, r)
	}()
	create := func(i int) {
		recorded := serve(g, s, http.MethodPost, cms, configMap(fmt.Sprint("x-", i), ""))
		g.Expect(recorded).To(Equal(http.StatusCreated))
	}
	g.Eventually(w.headersSent, patience, shortly).Should(BeTrue())
	create(0)
	g.Eventually(w.stuck, patience).Should(Receive())
	for i := range 20 { // none of these waits for the watch
		create(i + 1)
	}
	g.Consistently(ended, 50*time.Millisecond).ShouldNot(BeClosed())
	close(release)
	g.Eventually(ended, patience).Should(BeClosed())
}

// TestAWatchEndsWithItsConnection has a client that is cut off: its handler must not stay.
func TestAWatchEndsWithItsConnection(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{BookmarkInterval: 10 * time.Millisecond})
	var conn net.Conn
	transport := s.client.Transport.(*http.Transport).Clone() //nolint:errcheck // httptest's is one
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		conn = c
		return c, err
	}
	defer transport.CloseIdleConnections()
	cut := &simulator{Server: s.Server, config: s.config, client: &http.Client{Transport: transport}}
	events := cut.watch(t, cms+"?watch=1&resourceVersion=0&allowWatchBookmarks=true")
	next(g, events, 1)
	g.Expect(conn.Close()).To(Succeed())
	g.Eventually(events, patience).Should(BeClosed())
}
