package clustercache

import (
	"fmt"
	"mime"
	"net/http"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/internal/watching"
)

// rediscovery notices answers by which a target says that a resource is not where discovery said that it is, as after
// a CRD was deleted and made again with another scope. The watch of such a kind goes on as if nothing had happened:
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

// isUnserved tells of an answer whether it is about the address, and not about the object there: where that is not
// found, an API server says so in a Status, and an address that it does not know is answered in plain text.
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

// clients are those for callers.
type clients struct{ uncached, cached client.Client }

// unserved notes that a target does not serve a resource of a group as discovery said. The clients are made anew, for
// they remember for good what they learned of each kind.
func (g *connection) unserved(t *target, group string) {
	if !g.mapper.Suspect(group) {
		return
	}
	t.log.V(1).Info("The target does not serve a kind as it said; it is asked again what it serves", "group", group)
	if err := g.renewClients(t); err != nil {
		t.log.Error(err, "Cannot forget what is known of the kinds of the target")
	}
}

// renewClients has the clients for callers be such that know no kind yet.
func (g *connection) renewClients(t *target) error {
	c, err := client.New(g.config, client.Options{HTTPClient: g.guarded, Scheme: t.cache.options.Scheme, Mapper: g.mapper})
	if err != nil {
		return fmt.Errorf("cannot build the client: %w", err)
	}
	uncached := scopedClient{c}
	g.clients.Store(&clients{uncached: uncached, cached: &watching.Client{Client: uncached, Reader: t.reader()}})
	return nil
}
