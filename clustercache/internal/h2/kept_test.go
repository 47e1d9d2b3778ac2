package h2

import (
	"io"
	"net/http"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
)

// A server fills the answers of many requests that are not read. Answers beyond the bound are reset, and the others can
// be read.
func TestAnswersThatNobodyReads(t *testing.T) {
	const requests = 2 * keptLimit / streamWindow
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, _ = w.Write(make([]byte, streamWindow-1))
		} else if n, err := strconv.Atoi(r.URL.Query().Get("n")); err == nil {
			_, _ = w.Write(make([]byte, n))
		}
	}, Options{})
	var bodies []io.ReadCloser
	for range requests {
		response, err := s.pool.RoundTrip(s.request(t.Context(), http.MethodGet, "/large", nil))
		s.Expect(err).NotTo(HaveOccurred())
		bodies = append(bodies, response.Body)
	}
	c := s.connection()
	kept := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.kept
	}
	s.Eventually(func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.streams)
	}).Should(BeZero(), "all are complete, or reset")
	s.Expect(kept()).To(BeNumerically("<=", keptLimit+requests*keptAnyway))
	small, err := s.pool.RoundTrip(s.request(t.Context(), http.MethodGet, "/small?n=1000", nil))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(io.ReadAll(small.Body)).To(HaveLen(1000), "probes do not suffer from what others leave unread")
	complete := 0
	for _, body := range bodies {
		all, err := io.ReadAll(body)
		if err == nil {
			complete++
			s.Expect(all).To(HaveLen(streamWindow - 1))
		} else {
			s.Expect(err).To(MatchError(errKept))
		}
	}
	s.Expect(complete).To(And(BeNumerically(">", 0), BeNumerically("<=", keptLimit/(streamWindow-1))))
	s.Expect(kept()).To(BeZero())

	response, err := s.pool.RoundTrip(s.request(t.Context(), http.MethodGet, "/large", nil))
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(kept).Should(BeNumerically(">", 0))
	s.Expect(response.Body.Close()).To(Succeed())
	s.Eventually(kept).Should(BeZero(), "what is closed is not kept")
}
