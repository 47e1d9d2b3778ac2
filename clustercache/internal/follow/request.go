package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache/internal/answers"
	"github.com/trellis-hub/trellis/clustercache/internal/envelope"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
	mediaJSON     = "application/json"

	asMetadata     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asMetadataList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

	// maxError bounds what is read of an answer that is none, maxShown what is shown of it, defaultMaxPage what is read of
	// a page, and maxMeta the metadata of the list in it.
	maxError       = 64 << 10
	maxShown       = 2 << 10
	defaultMaxPage = 64 << 20
	maxMeta        = 2 * maxToken
)

// errPageTooLarge says that a page was not read to its end.
var errPageTooLarge = errors.New("a page of the list is too large")

// What is asked for, for metadata. Whole objects come as JSON.
const (
	acceptObject = mediaProtobuf + asMetadata + "," + mediaJSON + asMetadata + "," + mediaJSON
	acceptList   = mediaJSON + asMetadataList + "," + mediaJSON
)

// get asks for the collection. The answer is 200, and its body is to be closed.
func (c *Collection) get(ctx context.Context, verb, accept string, q url.Values) (*http.Response, error) {
	if c.LabelSelector != "" {
		q.Set("labelSelector", c.LabelSelector)
	}
	if c.FieldSelector != "" {
		q.Set("fieldSelector", c.FieldSelector)
	}
	path := []string{"apis", c.Resource.Group, c.Resource.Version}
	if c.Resource.Group == "" {
		path = []string{"api", c.Resource.Version}
	}
	if c.Namespace != "" {
		path = append(path, "namespaces", c.Namespace)
	}
	address := c.Server.JoinPath(append(path, c.Resource.Resource)...)
	address.RawQuery = q.Encode()
	request, err := http.NewRequestWithContext(answers.Counted(ctx), http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("address of %s: %w", c.Resource.Resource, err)
	}
	if !c.MetadataOnly {
		accept = mediaJSON
	}
	request.Header.Set("Accept", accept)
	response, err := c.Client.Do(request)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what was asked for
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	return nil, c.refusal(verb, response)
}

// refusal is the error in an answer that is none.
func (c *Collection) refusal(verb string, response *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxError))
	if err != nil {
		return fmt.Errorf("reading the answer %s: %w", response.Status, err)
	}
	var status metav1.Status
	switch {
	case envelope.Is(raw):
		err = envelope.Open(raw, "", &status)
	default:
		err = json.Unmarshal(raw, &status)
	}
	if err == nil && status.Status == metav1.StatusFailure {
		return c.said(status)
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // it may be absent, or a date
	return apierrors.NewGenericServerResponse(
		response.StatusCode, verb, c.Resource.GroupResource(), "", c.shown(string(raw)), seconds, true)
}

// said returns the error in a Status of a server.
func (c *Collection) said(status metav1.Status) error {
	status.Message = c.shown(status.Message)
	status.ListMeta = metav1.ListMeta{}
	status.Reason = metav1.StatusReason(untrusted.Token(string(status.Reason)))
	if d := status.Details; d != nil {
		status.Details = &metav1.StatusDetails{ // the causes repeat the message
			Name: untrusted.Name(d.Name), Group: untrusted.Name(d.Group), Kind: untrusted.Token(d.Kind),
			UID: types.UID(untrusted.Token(string(d.UID))), RetryAfterSeconds: d.RetryAfterSeconds,
		}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// shown is what is shown of a server's text: not all of it, for it may be anything, and no credential.
func (c *Collection) shown(text string) string {
	if c.Redact != nil {
		text = c.Redact(text)
	}
	text = strings.TrimSpace(text)
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "..."
	}
	return text
}

// page hands a page of a list to the sink, and returns its version, and what to ask the next page with.
func (f *Follower) page(ctx context.Context, limit int, token string) (version, next string, err error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if token != "" {
		q.Set("continue", token)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	response, err := f.collection.get(ctx, "list", acceptList, q)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = response.Body.Close() }()
	response.Body = struct {
		io.Reader
		io.Closer
	}{untrusted.NewReader(response.Body, untrusted.Bounds{Bytes: f.collection.MaxPage}), response.Body}
	p := page{frames: newFrames(ctx, cancel, response, &f.collection), collection: &f.collection, sink: f.sink}
	p.protobuf = false // it was not asked for
	defer p.close()
	if err := p.read(); err != nil {
		return "", "", err
	}
	_, _ = io.CopyN(io.Discard, response.Body, maxSpaces) // to its end, so that the connection can be reused
	return p.meta.ResourceVersion, p.meta.Continue, p.check(limit)
}
