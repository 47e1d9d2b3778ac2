package controlplane

import (
	"bytes"
	"io"
	"net/http"
	"regexp"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var uuids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// WithIdentity returns a transport to a cluster that has another UID for each name, and always the same for one.
// Targets that share a control plane are different clusters by it.
func WithIdentity(name string, next http.RoundTripper) http.RoundTripper {
	return identified{name: []byte(name), next: next}
}

type identified struct {
	name []byte
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t identified) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil || r.URL.Path != "/api/v1/namespaces/"+metav1.NamespaceSystem {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(uuids.ReplaceAllFunc(body, func(uid []byte) []byte {
		return []byte(uuid.NewSHA1(uuid.NameSpaceOID, append(uid[:len(uid):len(uid)], t.name...)).String())
	})))
	return response, nil
}
