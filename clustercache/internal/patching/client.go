package patching

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	kjson "sigs.k8s.io/json"

	"github.com/trellis-hub/trellis/clustercache/internal/answers"
	"github.com/trellis-hub/trellis/clustercache/internal/envelope"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
	accept        = mediaProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

	// maxAnswer bounds what is read of an answer. API servers accept objects of 3 MiB at most, and metadata is a part of
	// one, also where they answer with all of it.
	maxAnswer = 4 << 20
	// maxShown bounds what is shown of an answer that is none, as client-go does.
	maxShown = 2 << 10
	// keptBuffer is the largest buffer that is kept for other answers.
	keptBuffer = 64 << 10
)

// Client sends patches itself, and leaves everything else to a client of client-go.
type Client struct {
	metadata.Interface

	http *http.Client
	base url.URL
}

// New returns a client for the server at an address, in place of one of client-go that uses the same HTTP client.
func New(rest metadata.Interface, client *http.Client, base *url.URL) *Client {
	c := &Client{Interface: rest, http: client, base: *base}
	c.base.Path = strings.TrimSuffix(base.Path, "/")
	return c
}

// Resource implements metadata.Interface.
func (c *Client) Resource(r schema.GroupVersionResource) metadata.Getter {
	all := c.Interface.Resource(r)
	return &getter{resource: resource{ResourceInterface: all, client: c, of: r}, all: all}
}

// getter is a resource in all namespaces, or in none.
type getter struct {
	resource

	all metadata.Getter
}

// Namespace implements metadata.Getter.
func (g *getter) Namespace(namespace string) metadata.ResourceInterface {
	return &resource{ResourceInterface: g.all.Namespace(namespace), client: g.client, of: g.of, namespace: namespace}
}

// resource is a resource in a namespace.
type resource struct {
	metadata.ResourceInterface

	client    *Client
	of        schema.GroupVersionResource
	namespace string
}

// Get implements metadata.ResourceInterface.
func (r *resource) Get(
	ctx context.Context, name string, options metav1.GetOptions, subresources ...string,
) (*metav1.PartialObjectMetadata, error) {
	ctx, done := answers.Scope(ctx)
	defer done()
	//nolint:wrapcheck // as it is without this package
	return r.ResourceInterface.Get(ctx, name, options, subresources...)
}

// List implements metadata.ResourceInterface.
func (r *resource) List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	ctx, done := answers.Scope(ctx)
	defer done()
	return r.ResourceInterface.List(ctx, options) //nolint:wrapcheck // as it is without this package
}

// Patch implements metadata.ResourceInterface.
func (r *resource) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*metav1.PartialObjectMetadata, error) {
	ctx, done := answers.Scope(ctx)
	defer done()
	if isPlain(r.namespace) && isPlain(name) && name != "" && len(subresources) == 0 && len(options.DryRun) == 0 && options.FieldValidation == "" {
		answer, err := r.patch(ctx, name, kind, data, options)
		var busy *busyError
		if !errors.As(err, &busy) {
			return answer, err
		}
		if err := busy.wait(ctx); err != nil {
			return nil, err
		}
	}
	return r.ResourceInterface.Patch(ctx, name, kind, data, options, subresources...) //nolint:wrapcheck // as it is without this package
}

// isPlain tells of a name whether it means itself in an address.
func isPlain(name string) bool {
	return name != "." && name != ".." && !strings.ContainsAny(name, "/%")
}

// busyError says that the server names a time when to try again.
type busyError struct{ after time.Duration }

func (e *busyError) Error() string { return fmt.Sprintf("the server is busy for %s", e.after) }

// wait waits until then, or for the end of ctx.
func (e *busyError) wait(ctx context.Context) error {
	timer := time.NewTimer(e.after)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w, and the request ended: %w", e, context.Cause(ctx))
	}
}

func (r *resource) patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions) (*metav1.PartialObjectMetadata, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(answers.Counted(ctx), http.MethodPatch, "", bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	request.URL = r.address(name, options)
	request.Host = request.URL.Host
	request.Header["Accept"], request.Header["Content-Type"] = []string{accept}, []string{string(kind)}
	response, err := r.client.http.Do(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what was asked for
	}
	defer func() { _ = response.Body.Close() }()

	text, _ := buffers.Get().(*bytes.Buffer)
	defer release(text)
	if _, err := text.ReadFrom(io.LimitReader(response.Body, maxAnswer+1)); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	switch {
	case text.Len() > maxAnswer:
		exceeded := &untrusted.ExceededError{What: "bytes", Most: maxAnswer}
		return nil, &answers.Error{Method: request.Method, Path: request.URL.Path, Err: exceeded}
	case response.StatusCode >= http.StatusOK && response.StatusCode <= http.StatusPartialContent:
		return decode(mediaType(response), text.Bytes())
	default:
		return nil, refusal(response, text.Bytes())
	}
}

// address is where an object is.
func (r *resource) address(name string, options metav1.PatchOptions) *url.URL {
	u := r.client.base
	if r.of.Group == "" {
		u.Path += "/api/" + r.of.Version
	} else {
		u.Path += "/apis/" + r.of.Group + "/" + r.of.Version
	}
	if r.namespace != "" {
		u.Path += "/namespaces/" + r.namespace
	}
	u.Path += "/" + r.of.Resource + "/" + name
	if options.FieldManager != "" {
		u.RawQuery = "fieldManager=" + url.QueryEscape(options.FieldManager)
	}
	if options.Force != nil {
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += "force=" + strconv.FormatBool(*options.Force)
	}
	return &u
}

// buffers are what answers are read into.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func release(buffer *bytes.Buffer) {
	if buffer.Cap() <= keptBuffer {
		buffer.Reset()
		buffers.Put(buffer)
	}
}

func mediaType(response *http.Response) string {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // what it is not is JSON
	return kind
}

// decode reads the metadata of an object, or of one that came as a whole.
func decode(kind string, text []byte) (*metav1.PartialObjectMetadata, error) {
	object := &metav1.PartialObjectMetadata{}
	if kind == mediaProtobuf {
		if err := envelope.Open(text, "PartialObjectMetadata", object); err != nil {
			return nil, fmt.Errorf("reading the answer: %w", err)
		}
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(text, object); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	object.TypeMeta = metav1.TypeMeta{}
	if object.UID == "" && object.Name == "" && object.GenerateName == "" && object.CreationTimestamp.IsZero() {
		return nil, errors.New("the answer is not an object")
	}
	return object, nil
}

// refusal is the error that an answer tells of, a busyError if the request may be sent again.
func refusal(response *http.Response, text []byte) error {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err == nil && (response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= http.StatusInternalServerError) {
		return &busyError{after: time.Duration(max(0, seconds)) * time.Second}
	}
	var status metav1.Status
	kind := mediaType(response)
	if kind == mediaProtobuf {
		err = envelope.Open(text, "Status", &status)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(text, &status)
	}
	if err == nil && status.Status == metav1.StatusFailure {
		status.TypeMeta = metav1.TypeMeta{}
		return &apierrors.StatusError{ErrStatus: status}
	}
	message := "unknown"
	if strings.HasPrefix(kind, "text/") || response.Header.Get("Content-Type") == "" {
		message = strings.TrimSpace(string(text[:min(len(text), maxShown)]))
	}
	return apierrors.NewGenericServerResponse(response.StatusCode, http.MethodPatch, schema.GroupResource{}, "", message, seconds, true)
}
