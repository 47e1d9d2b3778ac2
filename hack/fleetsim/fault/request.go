package fault

import (
	"net/http"
	"strings"
)

// request is what faults match on, as Kubernetes names it.
type request struct {
	verb, resource, userAgent, path string
	apply                           bool // a patch that is an apply
	number                          uint64
}

func newRequest(r *http.Request, number uint64) request {
	q := request{
		verb:      strings.ToLower(r.Method),
		userAgent: r.UserAgent(),
		path:      r.URL.Path,
		number:    number,
	}
	resource, name := resourceOf(r.URL.Path)
	if resource == "" {
		return q
	}
	q.resource = resource
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		query := r.URL.Query()
		switch watch := query.Get("watch"); {
		case query.Has("watch") && watch != "false" && watch != "0":
			q.verb = "watch"
		case name == "":
			q.verb = "list"
		default:
			q.verb = "get"
		}
	case http.MethodPost:
		q.verb = "create"
	case http.MethodPut:
		q.verb = "update"
	case http.MethodPatch:
		q.verb = "patch"
		q.apply = strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch+")
	case http.MethodDelete:
		if name == "" {
			q.verb = "deletecollection"
		}
	}
	return q
}

// name of what the request does: its verb, or "apply".
func (q *request) name() string {
	if q.apply {
		return "apply"
	}
	return q.verb
}

// resourceOf reads "deployments.apps/status" and the name of the object from a path; both are empty if the path leads to no
// resource.
func resourceOf(path string) (resource, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = parts[1], parts[3:]
	default:
		return "", ""
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		parts = parts[2:]
	}
	resource = parts[0]
	if group != "" {
		resource += "." + group
	}
	if len(parts) > 1 {
		name = parts[1]
	}
	if len(parts) > 2 {
		resource += "/" + strings.Join(parts[2:], "/")
	}
	return resource, name
}
