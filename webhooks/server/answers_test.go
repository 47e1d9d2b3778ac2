package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/server"
)

func returns(response admission.Response, err error) admission.HandlerFunc {
	return func(context.Context, *admission.Request) (admission.Response, error) { return response, err }
}

// HUB-31: an internal error under the policy Ignore is a status of HTTP.
func TestAnswers(t *testing.T) {
	b := newBench(t, nil)
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, "default")
	panics := func(context.Context, *admission.Request) (admission.Response, error) { panic("with a secret") }
	for name, test := range map[string]struct {
		does admission.HandlerFunc
		// fails is the answer if the policy is Fail, ignores is that for Ignore.
		fails, ignores OmegaMatcher
	}{
		"CMN-9 an object that is as it should be": {returns(admission.Response{}, nil), allows, allows},
		"a patch": {
			returns(admission.Response{Patch: []byte(`[]`), Warnings: []string{"w"}}, nil),
			HaveField("AdmissionReview.Response", And(HaveField("Allowed", true), HaveField("Patch", BeEquivalentTo("[]")),
				HaveField("PatchType", HaveValue(BeEquivalentTo("JSONPatch"))), HaveField("Warnings", []string{"w"}))), nil,
		},
		"a refusal is none of the hub": {
			returns(admission.Response{Denied: &metav1.Status{Code: 418, Message: "no"}}, nil),
			refuses(418, "no"), refuses(418, "no"),
		},
		"CMN-6 an error of an API": {
			returns(admission.Response{}, fmt.Errorf("reading: %w", missing)),
			And(refuses(404, missing.Error()), HaveField("AdmissionReview.Response.Result.Reason", metav1.StatusReasonNotFound)),
			HaveField("Status", 500),
		},
		"CMN-7 another error": {
			returns(admission.Response{}, errors.New("broken")), refuses(403, "broken"),
			And(HaveField("Status", 500), HaveField("Body", ContainSubstring("broken"))),
		},
		"CMN-8, HUB-31 a panic": {
			panics,
			And(refuses(500, "panicked"), HaveField("Body", Not(ContainSubstring("secret")))),
			And(HaveField("Status", 500), HaveField("Body", Not(ContainSubstring("secret")))),
		},
		"state that is not known": {
			returns(admission.Response{}, fmt.Errorf("nodes: %w", admission.ErrUnknown)),
			HaveField("Status", 503), HaveField("Status", 503),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b.does(test.does)
			if test.ignores == nil {
				test.ignores = test.fails
			}
			g.Expect(b.post(fails, review("v1", "{}"))).To(test.fails)
			g.Expect(b.post(ignores, review("v1", "{}"))).To(test.ignores)
			b.calls()
			g.Expect(b.post(fails, review("v1", "{}"))).To(allows, "the next one")
		})
	}
}

func TestBodies(t *testing.T) {
	b := newBench(t, nil)
	calls := b.calls()
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	many := "[" + strings.Repeat("1,", 500_000) + "1]"
	of := func(contentType string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Content-Type", contentType) }
	}
	chunked := func(r *http.Request) { r.ContentLength = -1 }
	for name, test := range map[string]struct {
		body   string
		code   int32
		change func(*http.Request)
	}{
		"CMN-1 YAML":                  {review("v1", "{}"), 400, of("application/yaml")},
		"CMN-1 JSON with a parameter": {review("v1", "{}"), 400, of("application/json; charset=utf-8")},
		"CMN-2 none":                  {"", 400, nil},
		"CMN-2 too large":             {review("v1", `"`+strings.Repeat("x", server.MaxBody)+`"`), 413, nil},
		"CMN-2 too large, bit by bit": {review("v1", `"`+strings.Repeat("x", server.MaxBody)+`"`), 413, chunked},
		"nested too deeply":           {review("v1", deep), 413, nil},
		"too many values":             {review("v1", many), 413, nil},
		"no JSON":                     {"nonsense", 400, nil},
		"half of it":                  {review("v1", "{}")[:50], 400, nil},
		"an array":                    {"[]", 400, nil},
		"without a request":           {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, 400, nil},
		"another kind": {
			strings.Replace(review("v1", "{}"), "AdmissionReview", "TokenReview", 1), 400, nil,
		},
		"another version": {review("v2", "{}"), 400, nil},
		"a request that is no request": {
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":1}`, 400, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var change []func(*http.Request)
			if test.change != nil {
				change = append(change, test.change)
			}
			g.Expect(b.post(fails, test.body, change...)).To(refuses(test.code, ""))
			g.Expect(b.post(ignores, test.body, change...)).To(HaveField("Status", int(test.code)))
			g.Expect(calls()).To(BeZero())
		})
	}
}

func TestVersionsOfReviews(t *testing.T) {
	b := newBench(t, nil)
	for _, version := range []string{"v1", "v1beta1"} {
		t.Run("CMN-3 "+version, func(t *testing.T) {
			g := NewWithT(t)
			a := b.post(fails, review(version, "{}"))
			g.Expect(a).To(allows)
			g.Expect(a.APIVersion).To(Equal("admission.k8s.io/" + version))
			g.Expect(a.Kind).To(Equal("AdmissionReview"))
			g.Expect(a.Response.UID).To(BeEquivalentTo("u-1"))
		})
	}
}

func TestCallsThatShouldNotCome(t *testing.T) {
	b := newBench(t, nil)
	calls := b.calls()
	b.Expect(b.post(fails, review("v1", "{}"))).To(allows)
	b.Expect(calls()).To(Equal(1))

	off := b.targets[keyA]
	off.Settings.SeccompProfile = nil
	b.mu.Lock()
	b.targets[keyA] = off
	b.mu.Unlock()
	a := b.post(fails, review("v1", "{}"))
	b.Expect(a).To(allows, "CMN-11: its entry is gone in a moment")
	b.Expect(a.Response.Warnings).To(BeEmpty())

	for name, gone := range map[string]func(){
		"another cluster": func() { b.targets[keyA] = server.Target{UID: "uid-c", Settings: b.targets[keyB].Settings} },
		"none":            func() { delete(b.targets, keyA) },
	} {
		b.mu.Lock()
		gone()
		b.mu.Unlock()
		for _, path := range []string{fails, ignores} {
			a := b.post(path, review("v1", "{}"))
			b.Expect(a).To(allows, name)
			b.Expect(a.Response.Warnings).To(ConsistOf(ContainSubstring("no longer looks after this cluster")), name)
		}
	}
	b.Expect(calls()).To(Equal(1))
}

func TestDeadlines(t *testing.T) {
	b := newBench(t, nil)
	left := make(chan time.Duration, 1)
	b.does(func(ctx context.Context, _ *admission.Request) (admission.Response, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return admission.Response{}, nil
	})
	for query, most := range map[string]time.Duration{
		"":              10 * time.Second,
		"?timeout=3s":   2700 * time.Millisecond, // HUB-4
		"?timeout=30s":  10 * time.Second,
		"?timeout=-1s":  10 * time.Second,
		"?timeout=soon": 10 * time.Second,
	} {
		b.Expect(b.post(fails+query, review("v1", "{}"))).To(allows)
		b.Expect(left).To(Receive(And(BeNumerically("<=", most), BeNumerically(">", most-2*time.Second))), query)
	}
	b.does(func(ctx context.Context, _ *admission.Request) (admission.Response, error) {
		<-ctx.Done()
		return admission.Response{}, ctx.Err()
	})
	b.Expect(b.post(ignores+"?timeout=10ms", review("v1", "{}"))).To(HaveField("Status", 500))
}
