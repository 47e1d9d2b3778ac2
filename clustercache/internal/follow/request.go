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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"github.com/trellis-hub/trellis/clustercache/internal/answers"
	"github.com/trellis-hub/trellis/clustercache/internal/envelope"
)

const (
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
	mediaJSON     = "application/json"

	asMetadata     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asMetadataList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

	// maxError bounds what is read of an answer that is none, maxShown what is shown of it, defaultMaxPage what is
	// read of a page.
	maxError       = 64 << 10
	maxShown       = 2 << 10
	defaultMaxPage = 64 << 20
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
	return apierrors.NewGenericServerResponse(response.StatusCode, verb, c.Resource.GroupResource(), "", c.shown(string(raw)), seconds, true)
}

// said is the error that a server tells of.
func (c *Collection) said(status metav1.Status) error {
	status.Message = c.shown(status.Message)
	if status.Details != nil {
		status.Details.Causes = nil // they repeat the message
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
func (f *Follower) page(ctx context.Context, q url.Values) (version, next string, err error) {
	response, err := f.collection.get(ctx, "list", acceptList, q)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = response.Body.Close() }()
	most := f.collection.MaxPage
	raw, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	switch {
	case err != nil:
		return "", "", fmt.Errorf("reading the answer: %w", err)
	case int64(len(raw)) > most:
		return "", "", fmt.Errorf("%w: it has more than %d bytes", errPageTooLarge, most)
	}
	page, items, err := decodeList(raw, f.collection.MetadataOnly)
	if err != nil {
		return "", "", fmt.Errorf("the answer is no list: %w", err)
	}
	for _, item := range items {
		f.sink.Set(item)
	}
	return page.ResourceVersion, page.Continue, nil
}

// checkList tells whether a document is a list. Anything in between may answer with a document that is none, and no list is
// as empty as that.
func checkList(kind string, page metav1.ListMeta) error {
	switch {
	case !strings.HasSuffix(kind, "List"):
		return fmt.Errorf("it is of kind %.40q", kind)
	case page.ResourceVersion == "":
		return errors.New("it has no version")
	}
	return nil
}

func decodeList(raw []byte, metadataOnly bool) (page metav1.ListMeta, items []client.Object, err error) {
	if metadataOnly {
		list := metav1.PartialObjectMetadataList{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &list); err != nil {
			return page, nil, err
		}
		for i := range list.Items {
			items = append(items, &list.Items[i])
		}
		return list.ListMeta, items, checkList(list.Kind, list.ListMeta)
	}
	list := struct {
		APIVersion      string `json:"apiVersion"`
		Kind            string `json:"kind"`
		metav1.ListMeta `json:"metadata"`
		Items           []map[string]any `json:"items"`
	}{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &list); err != nil {
		return page, nil, err
	}
	for _, item := range list.Items {
		object := &unstructured.Unstructured{Object: item}
		if object.GetKind() == "" { // API servers leave it out of the items of lists
			object.SetAPIVersion(list.APIVersion)
			object.SetKind(strings.TrimSuffix(list.Kind, "List"))
		}
		items = append(items, object)
	}
	return list.ListMeta, items, checkList(list.Kind, list.ListMeta)
}
