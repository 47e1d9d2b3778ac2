package answers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-hub/trellis/semaphore"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	mediaJSON     = "application/json"
	mediaProtobuf = "application/vnd.kubernetes.protobuf"

	// maxDepth bounds how deeply answers are nested. The schema of a CustomResourceDefinition has two levels for each
	// one of the resources that it describes.
	maxDepth = 500
	// maxItems bounds the objects of a page. Clients ask for 500.
	maxItems = 10_000
	// maxPage bounds the pages that are decoded item by item while they are read.
	maxPage = 64 << 20
	// maxVersion bounds the answer to /version.
	maxVersion = 64 << 10
	// maxDiscovery bounds a document of discovery. A cluster with 1,000 CustomResourceDefinitions has up to 2 MiB.
	maxDiscovery = 4 << 20
	// maxHeaders bounds the header fields of an answer, and maxKept is up to how many are all kept.
	maxHeaders, maxKept = 1000, 50
)

// MaxHeader bounds the header of an answer, over HTTP/1.1 and HTTP/2: net/http has one setting for both, and the lists
// of HTTP/2 are counted with 32 bytes for each field. One byte of it is up to forty in memory.
const MaxHeader = 96 << 10

// headersExceeded are parts of the errors of net/http for a longer header, over HTTP/1.1 and HTTP/2. It exports neither
// an error nor a type for them. A test with real servers finds out if a version of Go changes the texts.
var headersExceeded = []string{"server response headers exceeded", "response header list larger than advertised limit"}

// isHeadersExceeded reports whether a request failed because the header of its answer is longer than MaxHeader.
func isHeadersExceeded(err error) bool {
	return slices.ContainsFunc(headersExceeded, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// EncodingError is the error for an answer in an encoding that was not asked for, whose elements cannot be counted.
type EncodingError struct{ Header, Value string }

// Error implements error.
func (e *EncodingError) Error() string {
	return fmt.Sprintf("its %s is %q, which was not asked for", e.Header, untrusted.Token(e.Value))
}

// Transport bounds the answers of one target.
type Transport struct {
	// Next sends the requests. It removes the compression that it asks for itself.
	Next http.RoundTripper
	// Base is the address of the server.
	Base *url.URL
	// Budget is shared by all targets, Owner is the target.
	Budget *Budget
	Owner  semaphore.Owner
}

type countedKey struct{}

// Counted marks the requests of a client that itself counts the elements of messages in Protocol Buffers, of events and
// of the items of lists, before it decodes them one by one: it gets the encodings that it asks for, and lists and
// events as they come.
func Counted(ctx context.Context) context.Context { return context.WithValue(ctx, countedKey{}, true) }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	counted := request.Context().Value(countedKey{}) != nil
	if !counted {
		request = askForJSON(request)
	}
	response, err := t.Next.RoundTrip(request)
	switch {
	case err == nil:
	case isHeadersExceeded(err):
		return nil, t.errorOf(request, &untrusted.ExceededError{What: "bytes of headers", Most: MaxHeader})
	default:
		return nil, err //nolint:wrapcheck // it says what went wrong
	}
	response.Request = request // for Pause
	if err := boundHeaders(response); err != nil {
		return nil, t.refuse(request, response, err)
	}
	if response.StatusCode < http.StatusOK || response.StatusCode > http.StatusPartialContent {
		boundError(response)
		return response, nil
	}
	if response.Body == nil || response.Body == http.NoBody || response.StatusCode == http.StatusNoContent {
		return response, nil
	}
	protobuf, err := encodingOf(response, counted)
	if err != nil {
		return nil, t.refuse(request, response, err)
	}
	bounds := t.bounds(request)
	free := bounds.Stream
	switch {
	case bounds.Stream && counted:
		return response, nil
	case bounds.Items > 0 && counted:
		bounds, free = untrusted.Bounds{Bytes: maxPage}, true
	case protobuf:
		bounds = untrusted.Bounds{Bytes: bounds.Bytes}
	}
	response.Body = &body{
		ReadCloser: response.Body, reader: untrusted.NewReader(response.Body, bounds), free: free,
		seats: newSeats(), transport: t, request: request,
	}
	return response, nil
}

// refuse closes an answer and returns the error in its place.
func (t *Transport) refuse(request *http.Request, response *http.Response, err error) error {
	_ = response.Body.Close()
	return t.errorOf(request, err)
}

func (t *Transport) errorOf(request *http.Request, err error) error {
	return &Error{Method: request.Method, Path: request.URL.Path, Err: err}
}

// Error is the error for an answer that the hub does not accept. The target did answer, and the connection works.
type Error struct {
	Method, Path string
	Err          error // an *untrusted.ExceededError or an *EncodingError
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("the answer to %s %s is not accepted: %v", e.Method, e.Path, e.Err)
}

// Unwrap returns what is wrong with the answer.
func (e *Error) Unwrap() error { return e.Err }

// IsRefused reports whether an error is about an answer that was not accepted.
func IsRefused(err error) bool {
	var refused *Error
	return errors.As(err, &refused)
}

// askForJSON returns a request that accepts JSON alone.
func askForJSON(request *http.Request) *http.Request {
	accept := request.Header.Get("Accept")
	if accept == mediaJSON {
		return request
	}
	var only []string
	for media := range strings.SplitSeq(accept, ",") {
		kind, _, _ := strings.Cut(media, ";")
		if strings.TrimSpace(kind) == mediaJSON {
			only = append(only, strings.TrimSpace(media))
		}
	}
	if len(only) == 0 {
		only = []string{mediaJSON}
	}
	clone := *request
	clone.Header = request.Header.Clone()
	if clone.Header == nil {
		clone.Header = http.Header{}
	}
	clone.Header.Set("Accept", strings.Join(only, ","))
	return &clone
}

// encodingOf reports whether an answer is in Protocol Buffers. It is an error if the encoding was not asked for.
func encodingOf(response *http.Response, counted bool) (protobuf bool, err error) {
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return false, &EncodingError{"Content-Encoding", encoding}
	}
	value := response.Header.Get("Content-Type")
	if value == mediaJSON {
		return false, nil
	}
	kind, _, err := mime.ParseMediaType(value)
	switch {
	case err == nil && kind == mediaJSON:
		return false, nil
	case err == nil && kind == mediaProtobuf && counted:
		return true, nil
	}
	return false, &EncodingError{"Content-Type", value}
}

// bounds are those of the answer to a request.
func (t *Transport) bounds(request *http.Request) untrusted.Bounds {
	b := untrusted.Bounds{Bytes: large.bytes, Elements: large.elements, Depth: maxDepth}
	path := strings.Trim(strings.TrimPrefix(request.URL.Path, strings.TrimSuffix(t.Base.Path, "/")), "/")
	parts := strings.Count(path, "/") + 1
	switch {
	case request.Method != http.MethodGet:
	case path == "version":
		b.Bytes, b.Elements = maxVersion, small.elements
	case isDiscovery(path, parts):
		b.Bytes = maxDiscovery
	case isWatch(request):
		b.Stream = true
	case request.URL.Query().Has("limit") || isCollection(path, parts):
		b.Items = maxItems
	}
	return b
}

// isDiscovery reports whether a path is one of discovery: /api, /api/v1, /apis, /apis/group, /apis/group/v1.
func isDiscovery(path string, parts int) bool {
	switch first, _, _ := strings.Cut(path, "/"); first {
	case "api":
		return parts <= 2
	case "apis":
		return parts <= 3
	}
	return false
}

// isCollection reports whether a path is that of all objects of a resource, in a namespace or everywhere.
func isCollection(path string, parts int) bool {
	root := 2 // of /api/v1
	switch first, _, _ := strings.Cut(path, "/"); first {
	case "api":
	case "apis":
		root = 3
	default:
		return false
	}
	all := strings.Split(path, "/")
	return parts == root+1 || parts == root+3 && all[root] == "namespaces"
}

func isWatch(request *http.Request) bool {
	if !strings.Contains(request.URL.RawQuery, "watch") {
		return false
	}
	watch, err := strconv.ParseBool(request.URL.Query().Get("watch"))
	return err == nil && watch
}

// body counts what is read of an answer, and waits for a seat when the answer turns out to be large.
type body struct {
	io.ReadCloser

	reader    *untrusted.Reader
	free      bool // needs no seat
	class     int
	seats     *seats // of this answer alone
	transport *Transport
	request   *http.Request
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.reader.Read(p)
	if errors.Is(err, untrusted.ErrExceeded) {
		b.release()
		return 0, b.transport.errorOf(b.request, err)
	}
	if grown := b.grown(); grown != nil {
		b.release()
		return 0, grown
	}
	if err != nil {
		b.release()
	}
	return n, err //nolint:wrapcheck // a reader is transparent
}

// grown acquires a seat if the answer has grown beyond its class.
func (b *body) grown() error {
	if b.free {
		return nil
	}
	bytes, elements := b.reader.Counted()
	class := b.class
	for class < len(classes)-1 && (bytes > classes[class].bytes || elements > classes[class].elements) {
		class++
	}
	if class == b.class {
		return nil
	}
	ctx := b.request.Context()
	held, scoped := seatsOf(ctx)
	if !scoped {
		held = b.seats
	}
	err := Pause(ctx, func() error { return held.take(ctx, b.transport.Budget, b.transport.Owner, class) })
	if err != nil {
		return fmt.Errorf("the answer to %s %s: %w", b.request.Method, b.request.URL.Path, err)
	}
	b.class = class
	return nil
}

func (b *body) release() { b.seats.release() }

// Close implements io.Closer.
func (b *body) Close() error {
	b.release()
	return b.ReadCloser.Close() //nolint:wrapcheck // it says what went wrong
}
