package transport

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestRequestsAreCountedByVerb(t *testing.T) {
	for name, c := range map[string]struct {
		method, contentType string
		watch               bool
		want                string
	}{
		"get":               {method: http.MethodGet, want: "GET"},
		"watch":             {method: http.MethodGet, watch: true, want: "WATCH"},
		"merge patch":       {method: http.MethodPatch, contentType: "application/merge-patch+json", want: "PATCH"},
		"apply":             {method: http.MethodPatch, contentType: "application/apply-patch+yaml", want: "APPLY"},
		"apply in CBOR":     {method: http.MethodPatch, contentType: "application/apply-patch+cbor", want: "APPLY"},
		"apply, parameters": {method: http.MethodPatch, contentType: "application/apply-patch+yaml; charset=utf-8", want: "APPLY"},
		"delete":            {method: http.MethodDelete, want: "DELETE"},
		"another":           {method: "BREW", want: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			request := &http.Request{Method: c.method, Header: http.Header{"Content-Type": {c.contentType}}}
			NewWithT(t).Expect(verbOf(request, c.watch).String()).To(Equal(c.want))
		})
	}
}

func TestAnswersAreCountedByCode(t *testing.T) {
	g := NewWithT(t)
	total := &Total{}
	timed := 0
	total.Answered = func(Verb, time.Duration) { timed++ }
	m := NewMeter(total)
	for _, code := range []int{200, 200, 404, 409, 500, NoAnswer, 299, 10000, -5} {
		m.answered(VerbGet, code, time.Millisecond)
	}
	m.answered(VerbWatch, 200, time.Millisecond)
	counts := map[string]map[int]uint64{}
	total.Each(func(v Verb, code int, n uint64) {
		if counts[v.String()] == nil {
			counts[v.String()] = map[int]uint64{}
		}
		counts[v.String()][code] = n
	})
	g.Expect(counts).To(Equal(map[string]map[int]uint64{
		"GET":   {200: 2, 404: 1, 409: 1, 500: 1, NoAnswer: 1, -1: 3}, // codes without a meaning are one
		"WATCH": {200: 1},
	}))
	succeeded, failed := m.Requests()
	g.Expect([]uint64{succeeded, failed}).To(Equal([]uint64{6, 4}), "that an object is absent or another is no failure of the target")
	g.Expect(timed).To(Equal(8), "neither watches nor what was not answered")
}

func BenchmarkMeter(b *testing.B) {
	m := NewMeter(&Total{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.answered(VerbApply, 200, time.Millisecond)
		}
	})
}
