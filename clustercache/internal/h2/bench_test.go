package h2

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
)

// BenchmarkStreams reports what a stream takes that waits after it said something, beside net/http. The server is in the same process and
// part of all figures, by as much for both: the difference is what tells something.
func BenchmarkStreams(b *testing.B) {
	const n = 1000
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), 700)) // as an event of metadata
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: n}
	server.StartTLS()
	defer server.Close()
	for name, client := range clients(server) {
		b.Run(name, func(b *testing.B) {
			warm(b, client, server.URL)
			for b.Loop() {
				var bodies []io.ReadCloser
				before, stacks, goroutines := taken()
				for range n {
					bodies = append(bodies, begin(b, client, server.URL))
				}
				after, moreStacks, more := taken()
				b.ReportMetric(float64(after-before)/n/1024, "heapKiB/stream")
				b.ReportMetric(float64(moreStacks-stacks)/n/1024, "stackKiB/stream")
				b.ReportMetric(float64(more-goroutines)/n, "goroutines/stream")
				for _, body := range bodies {
					_ = body.Close()
				}
			}
		})
	}
}

// BenchmarkRoundTrip is a small request and its answer, beside net/http.
func BenchmarkRoundTrip(b *testing.B) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	content := make([]byte, 2<<10)
	for name, client := range clients(server) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodPatch, server.URL, bytes.NewReader(content))
				if err != nil {
					b.Fatal(err)
				}
				response, err := client.RoundTrip(r)
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, response.Body); err != nil || n != int64(len(content)) {
					b.Fatal(n, err)
				}
				_ = response.Body.Close()
			}
		})
	}
}

// clients are the two that are compared.
func clients(server *httptest.Server) map[string]http.RoundTripper {
	theirs, _ := server.Client().Transport.(*http.Transport)
	opener := &http.Transport{TLSClientConfig: theirs.TLSClientConfig.Clone()}
	opener.TLSClientConfig.NextProtos = nil
	return map[string]http.RoundTripper{"h2": NewPool(opener, Options{}), "net/http": theirs}
}

func begin(b *testing.B, client http.RoundTripper, url string) io.ReadCloser {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	response, err := client.RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(response.Body, make([]byte, 700)); err != nil {
		b.Fatal(err)
	}
	return response.Body
}

// warm has both ends say what they allow.
func warm(b *testing.B, client http.RoundTripper, url string) {
	b.Helper()
	for range 10 {
		_ = begin(b, client, url).Close()
	}
}

// taken is what lives, and how many goroutines there are.
func taken() (heap, stacks, goroutines int) {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc), int(m.StackInuse), runtime.NumGoroutine() //nolint:gosec // far less
}
