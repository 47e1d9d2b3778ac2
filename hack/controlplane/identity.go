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

// WithUID returns a transport by which a cluster has another UID, which follows from its own. With it, targets that
// share a control plane are different clusters.
func WithUID(next http.RoundTripper, uid func(own string) string) http.RoundTripper {
	return identified{next: next, uid: uid}
}

// UIDOf returns, for WithUID, another UID for each name, and always the same for one.
func UIDOf(name string) func(own string) string {
	return func(own string) string { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(own+name)).String() }
}

type identified struct {
	next http.RoundTripper
	uid  func(own string) string
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
	response.Body = io.NopCloser(bytes.NewReader(uuids.ReplaceAllFunc(body, func(own []byte) []byte {
		return []byte(t.uid(string(own)))
	})))
	return response, nil
}
