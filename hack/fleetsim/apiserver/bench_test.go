package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
)

// many is a snapshot of 300 ConfigMaps of 2.5 KB.
func many(t testing.TB) *apiserver.Snapshot {
	t.Helper()
	var list []*unstructured.Unstructured
	for i := range 300 {
		list = append(list, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": fmt.Sprintf("x-%03d", i), "labels": map[string]any{"app": "web"}},
			"data": map[string]any{"text": strings.Repeat("content ", 312), "number": fmt.Sprint(i)},
		}})
	}
	snapshot, err := apiserver.Prepare(list, "hub", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func loaded(t testing.TB, snapshot *apiserver.Snapshot) *apiserver.Server {
	t.Helper()
	s, err := apiserver.New(apiserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Load(snapshot, 1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func BenchmarkLoad(b *testing.B) {
	snapshot := many(b)
	b.ReportAllocs()
	for b.Loop() {
		s, err := apiserver.New(apiserver.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Load(snapshot, 1); err != nil {
			b.Fatal(err)
		}
		s.Stop()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/300, "ns/object")
}

func BenchmarkRequests(b *testing.B) {
	partial := "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	patch := "application/apply-patch+yaml"
	for _, c := range []struct{ name, method, path, body, accept, contentType string }{
		{"get", http.MethodGet, cms + "/x-007", "", "", ""},
		{"list of 300", http.MethodGet, cms, "", "", ""},
		{"list of 300, metadata", http.MethodGet, cms, "", partial, ""},
		{"list of 300, selected", http.MethodGet, cms + "?labelSelector=app%3Dweb", "", "", ""},
		{"apply, unchanged", http.MethodPatch, cms + "/x-007?fieldManager=hub&force=true", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x-007","labels":{"app":"web"}},"data":{"text":"` + strings.Repeat("content ", 312) + `","number":"7"}}`, "", patch},
		{"apply, changed", http.MethodPatch, cms + "/x-007?fieldManager=hub&force=true", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x-007","labels":{"app":"web"}},"data":{"text":"%d ` + strings.Repeat("content ", 312) + `"}}`, "", patch},
		{"merge patch", http.MethodPatch, cms + "/x-007", `{"data":{"at":"%d"}}`, "", "application/merge-patch+json"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := loaded(b, many(b))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				body := c.body
				if strings.Contains(body, "%d") {
					body = fmt.Sprintf(body, i)
				}
				r := httptest.NewRequest(c.method, c.path, strings.NewReader(body))
				r.Header.Set("Accept", c.accept)
				if c.accept == "" {
					r.Header.Del("Accept")
				}
				r.Header.Set("Content-Type", c.contentType)
				w := &discard{header: http.Header{}}
				if s.ServeHTTP(w, r); w.code != http.StatusOK {
					b.Fatalf("answered %d", w.code)
				}
			}
		})
	}
}

// discard counts what would be sent.
type discard struct {
	header http.Header
	code   int
	events func(n int)
}

func (d *discard) Header() http.Header  { return d.header }
func (d *discard) WriteHeader(code int) { d.code = code }
func (d *discard) Flush()               {}
func (d *discard) Write(b []byte) (int, error) {
	if d.events != nil {
		d.events(bytes.Count(b, []byte("\n")))
	}
	return len(b), nil
}

func BenchmarkWatchFanOut(b *testing.B) {
	for _, watches := range []int{1, 12, 100} {
		b.Run(fmt.Sprint(watches), func(b *testing.B) {
			s := loaded(b, many(b))
			var seen sync.WaitGroup
			ctx, cancel := context.WithCancel(context.Background())
			var handlers, ready sync.WaitGroup
			for range watches {
				ready.Add(1)
				handlers.Go(func() {
					r := httptest.NewRequestWithContext(ctx, http.MethodGet, cms+"?watch=1&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", nil)
					began := 301
					s.ServeHTTP(&discard{header: http.Header{}, events: func(n int) {
						if began > 0 {
							if began -= n; began == 0 {
								ready.Done()
							}
							return
						}
						seen.Add(-n)
					}}, r)
				})
			}
			ready.Wait()
			i := 0
			for b.Loop() {
				i++
				seen.Add(watches)
				r := httptest.NewRequest(http.MethodPatch, cms+"/x-007", strings.NewReader(fmt.Sprintf(`{"data":{"at":"%d"}}`, i)))
				r.Header.Set("Content-Type", "application/merge-patch+json")
				s.ServeHTTP(&discard{header: http.Header{}}, r)
				seen.Wait()
			}
			cancel()
			handlers.Wait()
		})
	}
}

// TestAnIdleWatchIsCheap holds many watches over one connection and weighs what they need at both ends.
func TestAnIdleWatchIsCheap(t *testing.T) {
	const watches, limit = 240, 64 << 10
	g := NewWithT(t)
	s := start(t, apiserver.Options{})
	g.Expect(s.Load(many(t), 1)).To(Succeed())
	weigh := func() (bytes int64, goroutines int) {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapInuse + stats.StackInuse), runtime.NumGoroutine()
	}
	g.Expect(s.send(g, "GET", cms, "").code).To(Equal(http.StatusOK)) // the connection is there
	before, goroutines := weigh()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range watches {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+"/api/v1/namespaces?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", nil)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := s.client.Do(r)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		lines := bufio.NewReaderSize(response.Body, 16)
		for range 5 {
			_, err := readLine(lines)
			g.Expect(err).NotTo(HaveOccurred())
		}
	}
	after, more := weigh()
	t.Logf("%d bytes and %.2f goroutines an idle watch, with its client", (after-before)/watches, float64(more-goroutines)/watches)
	g.Expect((after - before) / watches).To(BeNumerically("<", limit))
	g.Expect(more - goroutines).To(BeNumerically("<=", 3*watches))
}

func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err != bufio.ErrBufferFull { //nolint:errorlint // as documented
			return line, err
		}
	}
}
