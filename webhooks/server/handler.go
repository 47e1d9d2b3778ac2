package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/metrics"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/routes"
)

// ReadyPath is the last part of the path by which a target can be asked whether its calls would be served. A GET is
// answered by 200.
const ReadyPath = "ready"

// ReachedPath is the last part of the path of a webhook that refuses everything with ReachedMessage. The hub has API
// servers call it to see whether they can.
const (
	ReachedPath    = "reached"
	ReachedMessage = "the hub was reached"
)

// detachedWarning goes with answers to clusters that are no longer registered.
const detachedWarning = "the hub that these webhooks are of no longer looks after this cluster: delete its " +
	"webhook configurations, see its documentation on removing webhooks by hand"

// call is one request whose route is genuine.
type call struct {
	routes.Route
	server    *Server
	name      string // of the webhook, for metrics
	certified bool   // a client certificate proves who calls
	began     time.Time
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.ending.Load() {
		// The caller opens its next connection to another replica. net/http makes a GOAWAY of it for HTTP/2. If
		// the connection were closed later, while it is idle, another request might be on its way, and would be lost.
		w.Header().Set("Connection", "close")
	}
	claimed, ok := routes.Parse(r.URL.Path)
	if !ok {
		s.refuse(w, "", resultForged, http.StatusNotFound, "no such path")
		return
	}
	caller, ok := s.caller(r)
	route, genuine := claimed.Genuine(s.Keys()...)
	if !genuine {
		route, genuine = claimed.Proven(caller)
	}
	if !ok || !genuine || !s.agrees(r, route, caller) {
		s.refuse(w, "", resultForged, http.StatusForbidden, "this path was not made for this caller")
		return
	}
	if route.Webhook == ReadyPath && r.Method == http.MethodGet {
		s.answerReady(w, route)
		return
	}
	c := &call{Route: route, server: s, certified: caller != "", began: s.Clock.Now()}
	webhook, extra := s.webhook(route.Webhook), s.Extras[route.Webhook]
	switch {
	case route.Webhook == ReachedPath:
		c.name = ReachedPath
	case webhook != nil:
		c.name = webhook.Name
	case extra != nil:
		c.name = route.Webhook
	default:
		s.refuse(w, "", resultMalformed, http.StatusNotFound, "no such webhook")
		return
	}
	if r.Method != http.MethodPost {
		s.refuse(w, c.name, resultMalformed, http.StatusMethodNotAllowed, "it takes a POST")
		return
	}
	size := r.ContentLength
	if size < 0 || size > MaxBody {
		size = MaxBody
	}
	release, why := s.limits.admit(route.Target, size, c.began)
	switch why {
	case tooMany:
		w.Header().Set("Retry-After", "1")
		s.refuse(w, c.name, resultTooMany, http.StatusTooManyRequests, string(why))
		return
	case overloaded:
		w.Header().Set("Retry-After", "1")
		s.refuse(w, c.name, resultOverload, http.StatusServiceUnavailable, string(why))
		return
	}
	defer release()
	timeout := s.timeout(r)
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	// A body that comes slowly must not keep its place for longer. Tests have writers that cannot do it.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
	r = r.WithContext(ctx)
	switch {
	case webhook != nil:
		c.review(w, r, webhook)
	case extra != nil:
		c.extra(w, r, extra)
	default:
		c.reached(w, r)
	}
}

// webhook returns what a path is that of: one webhook, or several that are called at once (HUB-22). Nil: none.
func (s *Server) webhook(path string) *admission.Webhook {
	if one := s.webhooks[path]; one != nil {
		return one
	}
	if combined, is := admission.CombinedAt(path, s.Webhooks); is {
		return &combined
	}
	return nil
}

// reached answers that the hub was reached.
func (c *call) reached(w http.ResponseWriter, r *http.Request) {
	review, status, err := decode(r)
	if err != nil {
		c.malformed(w, review, status, err)
		return
	}
	c.answer(w, review, resultDenied, denied(&metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: ReachedMessage,
	}))
}

// agrees reports whether what else is known of the caller agrees with the route: which cluster it has proven to be, if
// any, and the name of the host.
func (s *Server) agrees(r *http.Request, route routes.Route, caller types.UID) bool {
	if caller != "" && caller != route.UID {
		return false
	}
	if r.TLS == nil {
		return true
	}
	if s.ServerName != nil && r.TLS.ServerName != "" {
		return strings.EqualFold(r.TLS.ServerName, s.ServerName(route.Target, route.UID))
	}
	return true
}

// answerReady says whether calls of the route would be served.
func (s *Server) answerReady(w http.ResponseWriter, route routes.Route) {
	target, registered := s.Find(route.Target)
	if !registered || target.UID != route.UID {
		http.Error(w, "this cluster is not registered", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// timeout is how long a request may take: what the API server waits, less a tenth.
func (s *Server) timeout(r *http.Request) time.Duration {
	timeout := s.Limits.Timeout
	if own, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && own > 0 {
		timeout = min(timeout, own-own/10)
	}
	return timeout
}

// refuse answers by an HTTP status, so that the failure policy decides.
func (s *Server) refuse(w http.ResponseWriter, webhook, result string, status int, why string) {
	s.Metrics.count(webhook, result)
	http.Error(w, why, status)
}

// fail does the same for a call; the reason is one of the hub's own.
func (c *call) fail(w http.ResponseWriter, result string, status int, why string) {
	c.server.refuse(w, c.name, result, status, why)
}

// found is the target of a call, and whether its calls are to be worked on.
func (c *call) found() (target Target, attached bool) {
	target, registered := c.server.Find(c.Target)
	return target, registered && target.UID == c.UID
}

// review answers an AdmissionReview.
func (c *call) review(w http.ResponseWriter, r *http.Request, webhook *admission.Webhook) {
	review, status, err := decode(r)
	if err != nil {
		c.malformed(w, review, status, err)
		return
	}
	target, attached := c.found()
	switch {
	case !attached:
		c.answer(w, review, resultDetached,
			&admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{detachedWarning}})
		return
	case !webhook.Enabled(&target.Settings):
		c.answer(w, review, resultOff, &admissionv1.AdmissionResponse{Allowed: true})
		return
	}
	response, err := c.handle(r.Context(), review, webhook, target.Settings)
	if err != nil {
		c.failed(w, review, err)
		return
	}
	answered, result := answerOf(response)
	for _, err := range response.Ignored {
		c.log(err, "request", string(review.Request.UID))
		c.server.Metrics.count(c.of(err), resultFailed)
	}
	c.answer(w, review, result, answered)
}

// handle calls the handler.
func (c *call) handle(
	ctx context.Context, review *admissionv1.AdmissionReview, webhook *admission.Webhook,
	settings hubv1alpha1.TargetWebhooks,
) (response admission.Response, err error) {
	began := c.server.Clock.Now()
	defer func() { c.server.Metrics.took(c.name, c.server.Clock.Since(began).Seconds()) }()
	defer admission.Recovered(&err)
	return webhook.Handler.Handle(ctx, &admission.Request{ //nolint:wrapcheck // the caller maps it
		Target: c.Target, Settings: settings, State: c.server.State(c.Target, c.UID), Ignored: c.Ignored,
		AdmissionRequest: review.Request,
	})
}

// failed answers a request whose handler failed.
func (c *call) failed(w http.ResponseWriter, review *admissionv1.AdmissionReview, err error) {
	result, panics := resultFailed, (*admission.PanicError)(nil)
	if errors.As(err, &panics) {
		result = resultPanic
	}
	c.name = c.of(err)
	c.log(err, "request", string(review.Request.UID))
	switch {
	case errors.Is(err, admission.ErrUnknown):
		c.fail(w, result, http.StatusServiceUnavailable, err.Error())
	case c.Ignored:
		c.fail(w, result, http.StatusInternalServerError, err.Error())
	default:
		c.answer(w, review, result, denied(statusOf(err, panics != nil)))
	}
}

// of is the name of the webhook that an error is of: that of a member if several are combined.
func (c *call) of(err error) string {
	var member *admission.MemberError
	if errors.As(err, &member) {
		return member.Webhook
	}
	return c.name
}

// log logs that a webhook failed, with further keys and values.
func (c *call) log(err error, further ...any) {
	if !c.server.limits.mayLog(c.Target, c.server.Clock.Now()) {
		return
	}
	keys := append([]any{"target", metrics.TargetName(c.Target), "webhook", c.of(err)}, further...)
	var panics *admission.PanicError
	if errors.As(err, &panics) {
		keys = append(keys, "panic", fmt.Sprint(panics.Value), "stack", string(panics.Stack))
	}
	c.server.Logger.Error(err, "A webhook failed", keys...)
}

// malformed answers a request that is none. What is known of its UID is repeated.
func (c *call) malformed(w http.ResponseWriter, review *admissionv1.AdmissionReview, status int32, err error) {
	if c.Ignored {
		c.fail(w, resultMalformed, int(status), err.Error())
		return
	}
	c.answer(w, review, resultMalformed, denied(&metav1.Status{
		Status: metav1.StatusFailure, Code: status, Reason: reasonOf(status), Message: err.Error(),
	}))
}

// answer sends an AdmissionReview.
func (c *call) answer(
	w http.ResponseWriter, review *admissionv1.AdmissionReview, result string, response *admissionv1.AdmissionResponse,
) {
	c.server.Metrics.count(c.name, result)
	if err := encode(w, review, response); err != nil {
		c.server.Logger.V(1).Info("Cannot send an answer",
			"target", metrics.TargetName(c.Target), "webhook", c.name, "error", err.Error())
	}
}

// extra answers a request that is no AdmissionReview.
func (c *call) extra(w http.ResponseWriter, r *http.Request, extra Extra) {
	target, attached := c.found()
	if !attached {
		c.fail(w, resultDetached, http.StatusNotFound, "this cluster is not registered")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
	if err := c.serve(w, r, extra, target.Settings); err != nil {
		c.log(err)
		c.fail(w, resultPanic, http.StatusInternalServerError, err.Error())
		return
	}
	c.server.Metrics.count(c.name, resultExtra)
}

// serve calls what answers. An error is that it panicked.
func (c *call) serve(
	w http.ResponseWriter, r *http.Request, extra Extra, settings hubv1alpha1.TargetWebhooks,
) (err error) {
	defer admission.Recovered(&err)
	extra.ServeTarget(w, r, Caller{Target: c.Target, Settings: settings, Certified: c.certified})
	return nil
}
