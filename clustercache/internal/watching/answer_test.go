package watching

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A definite answer is reported at once, and ends the wait for a first list. Whatever may be different a moment later
// is not.
func TestIsAnswer(t *testing.T) {
	resource := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	status := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "list", resource, "", "", 0, true)
	}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"forbidden":                         {apierrors.NewForbidden(resource, "", errors.New("no")), true},
		"unauthorized":                      {apierrors.NewUnauthorized("no"), true},
		"not found":                         {apierrors.NewNotFound(resource, ""), true},
		"method not allowed":                {status(http.StatusMethodNotAllowed), true},
		"a bad request":                     {apierrors.NewBadRequest("no"), true},
		"an unknown kind":                   {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Widget"}}, true},
		"an unknown kind, wrapped":          {fmt.Errorf("cannot watch: %w", &meta.NoKindMatchError{}), true},
		"forbidden, wrapped":                {fmt.Errorf("cannot watch: %w", apierrors.NewForbidden(resource, "", errors.New("no"))), true},
		"429 by the server":                 {apierrors.NewTooManyRequests("busy", 1), false},
		"429 by something else":             {status(http.StatusTooManyRequests), false},
		"500":                               {apierrors.NewInternalError(errors.New("storage")), false},
		"500 by something else":             {status(http.StatusInternalServerError), false},
		"503":                               {apierrors.NewServiceUnavailable("starting"), false},
		"503 by something else":             {status(http.StatusServiceUnavailable), false},
		"504 by the server":                 {apierrors.NewServerTimeout(resource, "list", 1), false},
		"504 by something else":             {status(http.StatusGatewayTimeout), false},
		"a timeout":                         {apierrors.NewTimeoutError("slow", 1), false},
		"503, wrapped":                      {fmt.Errorf("cannot watch: %w", apierrors.NewServiceUnavailable("starting")), false},
		"a call that failed on the way":     {&url.Error{Op: "Get", URL: "https://x", Err: io.ErrUnexpectedEOF}, false},
		"a list that makes no progress":     {ErrStalled, false},
		"the end of the connection":         {context.Canceled, false},
		"the time limit of a call":          {context.DeadlineExceeded, false},
		"an end of the connection, by name": {errors.New("connection refused"), false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(IsAnswer(c.err)).To(Equal(c.want))
		})
	}
}
