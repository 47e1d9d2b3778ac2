package connection

import (
	"mime"
	"net/http"
	"strings"
)

// rediscovery notices answers by which a target says that a resource is not where discovery said that it is, as after
// a CRD was deleted and made again with another scope. The watch of such a kind continues as if nothing had happened:
// that of all namespaces has the same address in both scopes.
type rediscovery struct {
	next    http.RoundTripper
	base    string // the path of the API server, without a slash at its end
	suspect func(group string)
}

// RoundTrip implements http.RoundTripper.
func (r *rediscovery) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err == nil && isUnserved(response) {
		if group, ok := groupOf(strings.TrimPrefix(request.URL.Path, r.base)); ok {
			r.suspect(group)
		}
	}
	return response, err //nolint:wrapcheck // it is that of the next one
}

// isUnserved reports whether an answer says that the path is not served, and not that its object does not exist: for a
// missing object an API server answers with a Status, and for an unknown path in plain text.
func isUnserved(response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusMethodNotAllowed:
		return true
	case http.StatusNotFound:
		kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // what it is not is plain text
		return strings.HasPrefix(kind, "text/")
	}
	return false
}

// groupOf returns the API group of the path of a resource, and false for other paths, those of discovery among them.
func groupOf(path string) (group string, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		return "", true
	case parts[0] == "apis" && len(parts) > 3:
		return parts[1], true
	}
	return "", false
}
