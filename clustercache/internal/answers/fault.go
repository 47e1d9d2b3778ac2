package answers

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/clustercache/internal/envelope"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// maxError bounds what is read of an answer that is an error.
	maxError = 64 << 10
	// maxCauses is how many causes of an error are shown.
	maxCauses = 16
)

// kept are the header fields that clients of API servers read.
var kept = []string{
	"Content-Type", "Content-Encoding", "Content-Length", "Etag", "Retry-After", "Location", "Date", "Audit-Id",
	"Warning", "Www-Authenticate", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid",
}

// boundHeaders refuses answers with too many header fields. Watches keep header fields for hours, so if there are more
// than usual, only those that clients read are kept.
func boundHeaders(response *http.Response) error {
	fields := 0
	for _, values := range response.Header {
		fields += len(values)
	}
	response.Trailer = nil
	switch {
	case fields > maxHeaders:
		return &untrusted.ExceededError{What: "header fields", Most: maxHeaders}
	case fields > maxKept:
		header := http.Header{}
		for _, name := range kept {
			if values := response.Header[name]; len(values) > 0 {
				header[name] = values[:1]
			}
		}
		response.Header = header
	}
	return nil
}

// boundError reduces an answer that is an error to what may be shown: a Status with a short message, in JSON.
func boundError(response *http.Response) {
	if response.Body == nil || response.Body == http.NoBody {
		return
	}
	// A body that cannot be read counts as empty: the code says enough.
	raw, _ := io.ReadAll(io.LimitReader(response.Body, maxError+1))
	_ = response.Body.Close()
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	var shown []byte
	if status, ok := statusOf(kind, raw); ok && response.Header.Get("Content-Encoding") == "" {
		boundStatus(&status)
		shown, _ = json.Marshal(status)
		kind = mediaJSON
	} else {
		shown, kind = []byte(untrusted.Message(string(raw[:min(len(raw), 2*untrusted.MaxMessage)]))), "text/plain"
	}
	response.Header.Set("Content-Type", kind)
	response.Header.Set("Content-Length", strconv.Itoa(len(shown)))
	response.Header.Del("Content-Encoding")
	response.ContentLength = int64(len(shown))
	response.Body = io.NopCloser(bytes.NewReader(shown))
}

func statusOf(kind string, raw []byte) (status metav1.Status, ok bool) {
	if len(raw) > maxError {
		return status, false
	}
	if kind == mediaProtobuf {
		ok = envelope.Open(raw, "Status", &status) == nil
		status.Kind, status.APIVersion = "Status", "v1"
		return status, ok
	}
	err := json.Unmarshal(raw, &status)
	return status, err == nil && status.Kind == "Status"
}

// boundStatus bounds all texts of a Status.
func boundStatus(status *metav1.Status) {
	status.Message = untrusted.Message(status.Message)
	status.Reason = metav1.StatusReason(untrusted.Token(string(status.Reason)))
	status.Status = untrusted.Token(status.Status)
	status.ListMeta = metav1.ListMeta{}
	details := status.Details
	if details == nil {
		return
	}
	details.Name, details.Group = untrusted.Name(details.Name), untrusted.Name(details.Group)
	details.Kind = untrusted.Name(details.Kind)
	details.UID = "" // no client reads it
	details.Causes = details.Causes[:min(len(details.Causes), maxCauses)]
	for i := range details.Causes {
		cause := &details.Causes[i]
		cause.Type = metav1.CauseType(untrusted.Token(string(cause.Type)))
		cause.Message, cause.Field = untrusted.Message(cause.Message), untrusted.Name(strings.TrimSpace(cause.Field))
	}
}
