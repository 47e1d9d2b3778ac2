package apiserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/fleetsim/storage"
)

// format is how the client wants its answer.
type format struct {
	yaml         bool
	protobuf     bool // for metadata alone
	metadataOnly bool // as PartialObjectMetadata
}

func (f format) contentType() string {
	switch {
	case f.yaml:
		return "application/yaml"
	case f.protobuf:
		return protobuf
	}
	return "application/json"
}

// media types as kube-apiserver lists them, though it is the only one that can answer with all of an object in protobuf.
const mediaTypes = "application/json, application/yaml, application/vnd.kubernetes.protobuf"

func notAcceptable(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable, Message: message,
	}}
}

// serverError is the answer of kube-apiserver's router, which knows nothing of resources.
func serverError(code int, message string) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
}

// negotiate reads the Accept header: the first form that the server knows wins, in the client's order of preference.
func (c *call) negotiate() error {
	header := c.r.Header.Get("Accept")
	if header == "" {
		return nil
	}
	routed := !c.builtIn() // the router looks first, at types alone
	for _, clause := range goautoneg.ParseAccept(header) {
		json := clause.Type == "application" && (clause.SubType == "json" || clause.SubType == "*") || clause.Type == "*" && clause.SubType == "*"
		yaml := clause.Type == "application" && clause.SubType == "yaml"
		kind := clause.Params["as"]
		messages := clause.Type == "application" && clause.SubType == "vnd.kubernetes.protobuf" && kind == "PartialObjectMetadata"
		if !json && !yaml && !messages {
			continue
		}
		routed = true
		f := format{yaml: yaml, protobuf: messages}
		if kind != "" {
			known := clause.Params["g"] == metav1.GroupName && (clause.Params["v"] == "v1" || clause.Params["v"] == "v1beta1")
			if !known || kind != "PartialObjectMetadata" && kind != "PartialObjectMetadataList" {
				continue // a Table, for which clients know to do without
			}
			f.metadataOnly = true
			if c.verb == "list" && kind == "PartialObjectMetadata" {
				return notAcceptable(fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (%s)", c.goType("List")))
			}
			if c.verb != "list" && c.verb != "deletecollection" && kind == "PartialObjectMetadataList" {
				return notAcceptable(fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (%s)", c.goType("")))
			}
		}
		c.as = f
		return nil
	}
	if !routed {
		message := "406: Not Acceptable\n\nAvailable representations: " + mediaTypes
		if c.verb == "list" || c.verb == "watch" {
			message += ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
		}
		return serverError(http.StatusNotAcceptable, message)
	}
	return notAcceptable("only the following media types are accepted: " + mediaTypes)
}

// builtIn reports whether the resource is not a custom one.
func (c *call) builtIn() bool {
	return !c.resource.Custom()
}

// goType is how kube-apiserver calls the type of the object in Go.
func (c *call) goType(suffix string) string {
	if !c.builtIn() {
		return "*unstructured.Unstructured" + suffix
	}
	group, _, _ := strings.Cut(cmp.Or(c.resource.GVR.Group, "core"), ".")
	return "*" + group + "." + c.resource.Kind + suffix
}

// mediaType checks that the body is of a form that is known. Protobuf is known for built-in kinds, as typed clients write it and
// know no other way; custom resources have none.
func (c *call) mediaType() error {
	kind, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	known := "application/json, application/yaml"
	if c.builtIn() {
		known += ", " + protobuf
	}
	switch kind = strings.TrimSpace(kind); kind {
	case "", "*/*", "application/json", "application/yaml":
		return nil
	case protobuf:
		if c.builtIn() {
			return nil
		}
	}
	return unsupportedMediaType("the body of the request was in an unknown format - accepted media types include: " + known)
}

func unsupportedMediaType(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: message,
	}}
}

// item is how an object is written when it is the answer, or part of an event.
func (c *call) item() storage.As {
	if c.as.metadataOnly {
		return storage.As{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata", MetadataOnly: true}
	}
	return storage.As{APIVersion: c.resource.GVR.GroupVersion().String(), Kind: c.resource.Kind}
}

// buffers for answers; those of lists that were very long are not kept.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func withBuffer(fn func(b []byte) []byte) {
	p, _ := buffers.Get().(*[]byte)
	b := fn((*p)[:0])
	if cap(b) > 1<<20 {
		return
	}
	*p = b
	buffers.Put(p)
}

// sendObject answers with an object.
func (c *call) sendObject(code int, o *storage.Object) {
	withBuffer(func(b []byte) []byte {
		if c.as.protobuf {
			b = append(b, protobufOf(metadataOf(o, c.item()))...)
			c.sendAs(code, c.as, b)
			return b
		}
		b = o.AppendJSON(b, c.item())
		c.send(code, b)
		return b
	})
}

// sendValue answers with something that is no stored object.
func (c *call) sendValue(code int, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("apiserver: an answer cannot be encoded: %v", err)) // they are all API types
	}
	c.send(code, b)
}

// send answers with JSON, or the YAML of it.
func (c *call) send(code int, b []byte) {
	as := format{yaml: c.as.yaml}
	if as.yaml {
		if text, err := yaml.JSONToYAML(b); err == nil {
			b = text
		}
	}
	c.sendAs(code, as, b)
}

// sendAs answers with what is in a form already.
func (c *call) sendAs(code int, as format, b []byte) {
	c.w.Header().Set("Content-Type", as.contentType())
	c.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	control := http.NewResponseController(c.w)
	_ = control.SetWriteDeadline(time.Now().Add(c.o.WriteTimeout)) // not every connection can; net/http ends it with the answer
	c.w.WriteHeader(code)
	_, _ = c.w.Write(b) // if the client has gone, there is no one to report it to
}

// fail answers with a Status.
func (c *call) fail(err error) {
	status := apierrors.NewInternalError(err).ErrStatus
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	c.sendValue(int(status.Code), status)
}

// warn adds Warning headers.
func (c *call) warn(warnings []string) {
	for _, text := range warnings {
		if header, err := utilnet.NewWarningHeader(299, "-", text); err == nil {
			c.w.Header().Add("Warning", header)
		}
	}
}
