package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Handler puts the faults of requests in front of a server.
func (s *Switch) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		a := &answer{ResponseWriter: w, faults: s, incoming: r, number: s.requests.Add(1)}
		if err := s.detain(r.Context(), a); err != nil {
			s.answered(a, 0, 0, began)
			panic(http.ErrAbortHandler) // the client has left, or the server ends
		}
		for _, f := range s.state.Load().faults {
			switch {
			case f.Kind == Reset && f.After == 0 && a.struckBy(f):
				f.struck.Add(1)
				s.answered(a, 0, 0, began)
				reset(r.Context())
			case f.Kind == Status && a.struckBy(f):
				f.struck.Add(1)
				sent := s.refuse(w, a.request(), f)
				s.answered(a, f.Code, sent, began)
				return
			case f.Kind == GoAway && a.struckBy(f):
				f.struck.Add(1)
				w.Header().Set("Connection", "close") // net/http makes a GOAWAY of it
			}
		}
		defer a.finish()
		next.ServeHTTP(a, r)
	})
}

// answered reports a request that does not reach the server to Options.Answered.
func (s *Switch) answered(a *answer, code int, sent int64, began time.Time) {
	if s.options.Answered != nil {
		s.options.Answered(Answer{Request: a.incoming, Verb: a.request().name(), Resource: a.request().resource, Code: code, Sent: sent, Took: time.Since(began)})
	}
}

// detain holds up the request for as long as faults of latency and hangs want.
func (s *Switch) detain(ctx context.Context, a *answer) error {
	for _, f := range s.state.Load().faults {
		if f.Kind == Latency && a.struckBy(f) {
			f.struck.Add(1)
			if err := s.pause(ctx, f, s.delay(f, a.number)); err != nil {
				return err
			}
		}
	}
	// When a hang is cleared or replaced, another one may be there.
	for hangs := true; hangs; {
		hangs = false
		for _, f := range s.state.Load().faults {
			if f.Kind == Hang && a.struckBy(f) {
				hangs = true
				f.struck.Add(1)
				if err := s.pause(ctx, f, -1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// refuse answers as a real server, or what is in front of it, does with this code, and returns the size of the body.
func (s *Switch) refuse(w http.ResponseWriter, r *request, f *active) int64 {
	retry := int(math.Ceil(f.RetryAfter.Seconds()))
	if retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retry))
	}
	body := []byte("Too many requests, please try again later.\n") // as API priority and fairness says it
	contentType := "text/plain; charset=utf-8"
	if f.Code != http.StatusTooManyRequests {
		contentType = "application/json"
		var err error
		if body, err = json.Marshal(statusOf(r, f.Code, retry)); err != nil {
			panic(fmt.Sprintf("a Status cannot be written: %v", err))
		}
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.Code)
	n, _ := w.Write(body) // the client may have left, which is no error
	return int64(n)
}

func statusOf(r *request, code, retry int) metav1.Status {
	resource, _, _ := strings.Cut(r.resource, "/")
	name, group, _ := strings.Cut(resource, ".")
	var status *apierrors.StatusError
	switch code {
	case http.StatusUnauthorized:
		status = apierrors.NewUnauthorized("Unauthorized")
	case http.StatusGone:
		status = apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
	case http.StatusForbidden:
		message := fmt.Errorf("a fault of the simulator forbids it")
		status = apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: name}, "", message)
	default:
		status = apierrors.NewGenericServerResponse(code, r.verb, schema.GroupResource{Group: group, Resource: name}, "", "a fault of the simulator", retry, true)
	}
	body := status.Status()
	body.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return body
}
