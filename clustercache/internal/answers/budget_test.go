package answers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// largeAnswer is larger than what is medium.
var largeAnswer = answer{body: append(append([]byte(`["`), bytes.Repeat([]byte("a"), 2<<20)...), `"]`...)}

// begin sends a request whose answer the caller reads.
func begin(ctx context.Context, t *testing.T, via *Transport) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, via.Base.String()+configMap, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	response, err := via.RoundTrip(request)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestLargeAnswersWaitForEachOther(t *testing.T) {
	g := NewWithT(t)
	via := serve(t, true, largeAnswer)
	first := begin(t.Context(), t, via)
	_, err := io.ReadFull(first.Body, make([]byte, 3<<19))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(via.Budget.Held()).To(BeEquivalentTo(2), "a medium seat and a large one")

	read := make(chan error, 1)
	second := begin(t.Context(), t, via)
	go func() {
		_, err := io.ReadAll(second.Body)
		read <- err
	}()
	g.Eventually(via.Budget.Waiting).Should(Equal(1))
	g.Consistently(read, "100ms").ShouldNot(Receive())

	_, err = io.ReadAll(first.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(read).Should(Receive(BeNil()))
	g.Expect(via.Budget.Held()).To(BeZero())
}

func TestClosedAnswersGiveTheirSeatsBack(t *testing.T) {
	g := NewWithT(t)
	via := serve(t, true, largeAnswer)
	first := begin(t.Context(), t, via)
	_, err := io.ReadFull(first.Body, make([]byte, 3<<19))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first.Body.Close()).To(Succeed())
	g.Expect(via.Budget.Held()).To(BeZero())
}

func TestWaitingEndsWithTheAnswer(t *testing.T) {
	g := NewWithT(t)
	via := serve(t, true, largeAnswer)
	first := begin(t.Context(), t, via)
	_, err := io.ReadFull(first.Body, make([]byte, 3<<19))
	g.Expect(err).NotTo(HaveOccurred())
	second := begin(t.Context(), t, via)
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(second.Body)
		read <- err
	}()
	g.Eventually(via.Budget.Waiting).Should(Equal(1))
	g.Expect(second.Body.Close()).To(Succeed())
	g.Eventually(read).Should(Receive(HaveOccurred()))
	g.Expect(via.Budget.Waiting()).To(BeZero())
	g.Expect(first.Body.Close()).To(Succeed())
	g.Eventually(via.Budget.Held).Should(BeZero())
}

func TestWaitingEndsWithTheRequest(t *testing.T) {
	g := NewWithT(t)
	via := serve(t, true, largeAnswer)
	first := begin(t.Context(), t, via)
	_, err := io.ReadFull(first.Body, make([]byte, 3<<19))
	g.Expect(err).NotTo(HaveOccurred())

	ctx, cancel := context.WithCancel(t.Context())
	paused := make(chan struct{})
	second := begin(WithPause(ctx, func(wait func() error) error {
		select {
		case <-paused:
		default:
			close(paused)
		}
		return wait()
	}), t, via)
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(second.Body)
		read <- err
	}()
	g.Eventually(via.Budget.Waiting).Should(Equal(1))
	g.Expect(paused).To(BeClosed(), "the deadline does not run")
	cancel()
	g.Eventually(read).Should(Receive(MatchError(context.Canceled)))
	g.Expect(via.Budget.Waiting()).To(BeZero())
	g.Eventually(via.Budget.Held).Should(BeEquivalentTo(2), "those of the first")
}

func TestTargetsDoNotWaitForThoseOfOtherNamespaces(t *testing.T) {
	g := NewWithT(t)
	hostile := serve(t, true, largeAnswer)
	budget := hostile.Budget
	for _, name := range []string{"a", "b", "c", "d"} {
		hostile.Owner = types.NamespacedName{Namespace: "hostile", Name: name}
		via := *hostile
		response := begin(t.Context(), t, &via)
		go func() {
			_, _ = io.ReadFull(response.Body, make([]byte, 3<<19)) // and no more
		}()
	}
	g.Eventually(budget.Waiting).Should(Equal(2))
	honest := serve(t, true, largeAnswer)
	honest.Budget, honest.Owner = budget, types.NamespacedName{Namespace: "honest", Name: "target"}
	_, _, err := ask(t.Context(), honest, http.MethodGet, configMap, nil)
	g.Expect(err).NotTo(HaveOccurred())
}

func TestScopesKeepSeatsUntilTheyAreDone(t *testing.T) {
	g := NewWithT(t)
	via := serve(t, true, largeAnswer)
	ctx, done := Scope(t.Context())
	for range 2 { // the second answer of the same work waits for nothing
		_, _, err := ask(ctx, via, http.MethodGet, configMap, nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(via.Budget.Held()).To(BeEquivalentTo(2))
	}
	within, doneWithin := Scope(ctx)
	_, _, err := ask(within, via, http.MethodGet, configMap, nil)
	g.Expect(err).NotTo(HaveOccurred())
	doneWithin()
	g.Expect(via.Budget.Held()).To(BeEquivalentTo(2), "the outer scope goes on")
	done()
	g.Expect(via.Budget.Held()).To(BeZero())
	_, _, err = ask(ctx, via, http.MethodGet, configMap, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(via.Budget.Held()).To(BeZero(), "after its end the answer has seats of its own")
}

func BenchmarkBody(b *testing.B) {
	data := strings.Repeat("b", 2000)
	object := fmt.Appendf(nil, `{"kind":"ConfigMap","metadata":{"name":"one","labels":{}},"data":{"a":%q}}`, data)
	base := &url.URL{Scheme: "https", Host: "target"}
	next := func(*http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {mediaJSON}}
		body := io.NopCloser(bytes.NewReader(object))
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: body}, nil
	}
	via := &Transport{Base: base, Budget: NewBudget(), Next: roundTripper(next)}
	request, err := http.NewRequest(http.MethodGet, base.String()+configMap, nil)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Accept", mediaJSON)
	b.ReportAllocs()
	b.SetBytes(int64(len(object)))
	for b.Loop() {
		response, err := via.RoundTrip(request)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			b.Fatal(err)
		}
	}
}

type roundTripper func(request *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
