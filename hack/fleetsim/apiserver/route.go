package apiserver

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
)

// call is one request under way.
type call struct {
	*Server
	w         *response
	r         *http.Request
	user      User
	agentName string // the User-Agent

	// Of a request to a resource.
	resource        *kinds.Resource
	namespace, name string
	subresource     string
	verb            string // as the journal has it
	body            []byte // as JSON or YAML
	bytesIn         int
	as              format
	recorded        bool // in the journal
}

// response counts what is sent.
type response struct {
	http.ResponseWriter
	code  int
	bytes int64
}

func (r *response) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

func (r *response) Write(b []byte) (int, error) {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Server: s, w: &response{ResponseWriter: w}, r: r, agentName: r.UserAgent(), verb: strings.ToLower(r.Method)}
	began := time.Now()
	whole := false
	defer func() {
		if !whole {
			c.w.code = 0 // a panic cut it off: the client has no answer, or half of one
		}
		c.answered(began)
	}()
	c.route(began)
	whole = true
}

// answered records the answer in the journal, once.
func (c *call) answered(began time.Time) {
	if c.o.Journal == nil || c.recorded {
		return
	}
	c.recorded = true
	c.o.Journal.Answered(journal.Request{
		Verb: c.verb, Resource: c.journalResource(), Code: c.w.code, UserAgent: c.agentName, User: c.user.Name,
		BytesIn: int64(c.bytesIn), BytesOut: c.w.bytes, Took: time.Since(began),
	})
}

func (c *call) journalResource() string {
	if c.resource == nil {
		return c.r.URL.Path
	}
	name := c.resource.GVR.GroupResource().String()
	if c.subresource != "" {
		name += "/" + c.subresource
	}
	return name
}

// route answers the request.
func (c *call) route(began time.Time) {
	c.w.Header().Set("Cache-Control", "no-cache, private")
	if c.stopped.Err() != nil {
		c.fail(apierrors.NewServiceUnavailable("the server is stopped"))
		return
	}
	user, ok := c.authenticate()
	if !ok {
		c.fail(apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	c.user = user

	path := strings.TrimSuffix(c.r.URL.Path, "/")
	switch path {
	case "/healthz", "/livez", "/readyz", "/version", "/api", "/apis":
		if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
			c.fail(serverError(http.StatusMethodNotAllowed, ""))
			return
		}
	}
	switch path {
	case "/healthz", "/livez", "/readyz":
		c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(c.w, "ok")
		return
	case "/version":
		c.version()
		return
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case parts[0] == "api" && len(parts) > 2:
		gv.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		gv.Group, gv.Version, parts = parts[1], parts[2], parts[3:]
	case parts[0] == "api" || parts[0] == "apis":
		c.discovery(path)
		return
	default:
		c.notServed()
		return
	}
	c.routeResource(gv, parts, began)
}

// authenticate lets everybody see whether the server is well, as kube-apiserver does.
func (c *call) authenticate() (User, bool) {
	if c.o.Authenticate == nil {
		return admin, true
	}
	user, ok := c.o.Authenticate(c.r)
	if !ok && c.r.Header.Get("Authorization") == "" &&
		slices.Contains([]string{"/healthz", "/livez", "/readyz", "/version"}, c.r.URL.Path) {
		return User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}, true
	}
	return user, ok
}

// notServed is the answer to a path that is not served: no Status, unless it is below a group of which something is.
func (c *call) notServed() {
	parts := strings.Split(strings.Trim(c.r.URL.Path, "/"), "/")
	if parts[0] == "api" || parts[0] == "apis" && len(parts) > 1 && slices.ContainsFunc(kinds.BuiltIn().Resources(), func(r *kinds.Resource) bool {
		return r.GVR.Group == parts[1]
	}) {
		c.fail(serverError(http.StatusNotFound, ""))
		return
	}
	http.Error(c.w, "404 page not found", http.StatusNotFound)
}

func (c *call) routeResource(gv schema.GroupVersion, parts []string, began time.Time) {
	registry := c.registry.Load()
	namespaced, watched := false, parts[0] == "watch" && len(parts) > 1
	if watched {
		parts = parts[1:]
	}
	itself := len(parts) == 2 || len(parts) == 3 && (parts[2] == "status" || parts[2] == "finalize")
	if itself = itself && gv.Group == "" && gv.Version == "v1"; !itself && len(parts) > 2 && parts[0] == "namespaces" {
		c.namespace, parts, namespaced = parts[1], parts[2:], true
	}
	resource, ok := registry.Resource(gv.WithResource(parts[0]))
	if !ok || len(parts) > 3 || namespaced && !resource.Namespaced {
		c.notServed()
		return
	}
	if len(parts) > 1 {
		c.name = parts[1]
	}
	if len(parts) > 2 {
		c.subresource = parts[2]
	}
	if resource.Namespaced && c.namespace == "" && c.name != "" {
		c.notServed()
		return
	}
	c.resource = resource
	if !slices.Contains(resource.Verbs, "list") {
		c.review()
		return
	}

	var err error
	switch {
	case c.subresource != "":
		err = c.routeSubresource()
	case c.r.Method == http.MethodGet && c.name != "" && !watched && !asksForWatch(c.r):
		c.verb = "get"
		err = c.get()
	case c.r.Method == http.MethodGet && (watched || asksForWatch(c.r)):
		c.verb = "watch"
		err = c.watch(began)
	case c.r.Method == http.MethodGet:
		c.verb = "list"
		err = c.list()
	case c.r.Method == http.MethodPost && c.name == "" && (c.namespace != "" || !resource.Namespaced):
		c.verb = "create"
		err = c.write(kinds.Create)
	case c.r.Method == http.MethodPut && c.name != "":
		c.verb = "update"
		err = c.write(kinds.Update)
	case c.r.Method == http.MethodPatch && c.name != "":
		err = c.patch()
	case c.r.Method == http.MethodDelete && c.name != "":
		c.verb = "delete"
		err = c.delete()
	case c.r.Method == http.MethodDelete && slices.Contains(resource.Verbs, "deletecollection"):
		c.verb = "deletecollection"
		err = c.deleteCollection()
	default:
		err = c.methodNotAllowed()
	}
	if err != nil {
		c.fail(err)
	}
}

func (c *call) routeSubresource() error {
	r := c.resource
	switch {
	case c.subresource == "status" && r.HasStatus:
		switch c.r.Method {
		case http.MethodGet:
			c.verb = "get"
			return c.get()
		case http.MethodPut:
			c.verb = "update"
			return c.write(kinds.Update)
		case http.MethodPatch:
			return c.patch()
		}
		return c.methodNotAllowed()
	case c.subresource == "token" && r.GVR.GroupResource() == serviceAccounts:
		if c.r.Method == http.MethodPost {
			c.verb = "create"
			return c.token()
		}
		return c.methodNotAllowed()
	case c.subresource == "finalize" && r.GVR.GroupResource() == namespaces:
		if c.r.Method == http.MethodPut {
			c.verb = "update"
			return c.write(kinds.Update)
		}
		return c.methodNotAllowed()
	}
	if !c.builtIn() {
		return c.notFound()
	}
	c.notServed()
	return nil
}

func (c *call) methodNotAllowed() error {
	if c.builtIn() {
		return serverError(http.StatusMethodNotAllowed, "")
	}
	verbs := map[string]string{http.MethodPost: "create", http.MethodPut: "update"}
	return apierrors.NewMethodNotSupported(c.group(), cmp.Or(verbs[c.r.Method], strings.ToLower(c.r.Method)))
}

// maxBody is the limit of kube-apiserver.
const maxBody = 3 << 20

// readBody reads the request's body.
func (c *call) readBody() error {
	var b bytes.Buffer
	_, err := b.ReadFrom(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	c.body, c.bytesIn = b.Bytes(), b.Len()
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return apierrors.NewRequestEntityTooLargeError("limit is 3145728")
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if strings.HasPrefix(c.r.Header.Get("Content-Type"), protobuf) && len(c.body) > 0 {
		c.body, err = fromProtobuf(c.body)
	}
	if c.r.Header.Get("Content-Type") == "application/yaml" {
		if c.body, err = yaml.YAMLToJSON(c.body); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	return err
}

func asksForWatch(r *http.Request) bool {
	switch r.URL.Query().Get("watch") {
	case "true", "1":
		return true
	}
	return false
}
