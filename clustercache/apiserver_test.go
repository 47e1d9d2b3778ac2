package clustercache

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// store is the content of a simulated cluster, which several API servers can serve.
type store struct {
	uid string

	mu       sync.Mutex
	version  int
	objects  map[string]map[string]map[string]any // resource -> namespace/name -> object
	watchers map[*storeWatcher]struct{}
	groups   []apidiscovery.APIGroupDiscovery
	muted    bool
}

type storeWatcher struct {
	resource string
	events   chan storeEvent
}

type storeEvent struct {
	kind   string
	object map[string]any
	status *metav1.Status // instead of an object, of an ERROR
}

func newStore(uid string) *store {
	return &store{uid: uid, version: 1, objects: map[string]map[string]map[string]any{}, watchers: map[*storeWatcher]struct{}{}}
}

// put creates or changes an object and delete removes one; both send events to the watches.
func (s *store) put(resource, namespace, name string, content map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	key := namespace + "/" + name
	if s.objects[resource] == nil {
		s.objects[resource] = map[string]map[string]any{}
	}
	kind := "MODIFIED"
	if s.objects[resource][key] == nil {
		kind = "ADDED"
	}
	object := maps.Clone(content)
	if object == nil {
		object = map[string]any{}
	}
	object["apiVersion"], object["kind"] = kindOf(resource)
	object["metadata"] = map[string]any{
		"namespace": namespace, "name": name, "uid": "uid-" + name, "resourceVersion": strconv.Itoa(s.version),
		"managedFields": []any{map[string]any{"manager": "test", "operation": "Apply"}},
	}
	s.objects[resource][key] = object
	s.notify(resource, kind, object)
}

func (s *store) delete(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	object := s.objects[resource][namespace+"/"+name]
	delete(s.objects[resource], namespace+"/"+name)
	gone := runtime.DeepCopyJSON(object)
	_ = unstructured.SetNestedField(gone, strconv.Itoa(s.version), "metadata", "resourceVersion")
	s.notify(resource, "DELETED", gone)
}

// fail sends an error event to the watches of a resource.
func (s *store) fail(resource string, status metav1.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(resource, storeEvent{kind: "ERROR", status: &status})
}

func (s *store) notify(resource, kind string, object map[string]any) {
	s.send(resource, storeEvent{kind: kind, object: object})
}

func (s *store) send(resource string, event storeEvent) {
	for w := range s.watchers {
		if w.resource == resource && !s.muted {
			select {
			case w.events <- event:
			default:
				panic("the watcher of a test is too slow")
			}
		}
	}
}

func (s *store) watching(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for w := range s.watchers {
		if w.resource == resource {
			n++
		}
	}
	return n
}

// addKind adds a kind to discovery, as a new CRD does.
func (s *store) addKind(group, kind, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = append(s.groups, apidiscovery.APIGroupDiscovery{
		ObjectMeta: metav1.ObjectMeta{Name: group},
		Versions: []apidiscovery.APIVersionDiscovery{{
			Version: "v1", Freshness: apidiscovery.DiscoveryFreshnessCurrent,
			Resources: []apidiscovery.APIResourceDiscovery{discoveredResource(group, kind, resource, true)},
		}},
	})
}

func discoveredResource(group, kind, resource string, namespaced bool) apidiscovery.APIResourceDiscovery {
	scope := apidiscovery.ScopeCluster
	if namespaced {
		scope = apidiscovery.ScopeNamespace
	}
	return apidiscovery.APIResourceDiscovery{
		Resource: resource, Scope: scope, SingularResource: strings.ToLower(kind), Verbs: []string{"get", "list", "watch", "create"},
		ResponseKind: &metav1.GroupVersionKind{Group: group, Version: "v1", Kind: kind},
	}
}

func kindOf(resource string) (apiVersion, kind string) {
	switch resource {
	case "configmaps":
		return "v1", "ConfigMap"
	case "secrets":
		return "v1", "Secret"
	case "widgets":
		return "example.com/v1", "Widget"
	}
	panic("unknown resource " + resource)
}

// apiServer is a simulated API server with faults.
type apiServer struct {
	store  *store
	server *httptest.Server
	ca     []byte
	// serving is what new connections are shown.
	serving atomic.Pointer[tls.Config]

	mu       sync.Mutex
	tokens   map[string]string // accepted tokens and who has them; nil: everyone is "admin"
	fault    func(w http.ResponseWriter, r *http.Request) (handled bool)
	requests []string
	conns    map[net.Conn]struct{}
	stopped  chan struct{}
	version  string
}

// newAPIServer starts a server of the store with a certificate authority of its own.
func newAPIServer(t testing.TB, s *store) *apiServer {
	t.Helper()
	a := &apiServer{store: s, stopped: make(chan struct{}), conns: map[net.Conn]struct{}{}, version: "v1.36.3"}
	certificate, ca := newCertificate(t)
	a.ca = ca
	a.present(certificate)
	a.server = httptest.NewUnstartedServer(a)
	a.server.EnableHTTP2 = true
	a.server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return a.serving.Load(), nil }}
	a.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	a.server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if state == http.StateClosed || state == http.StateHijacked {
			delete(a.conns, conn)
		} else {
			a.conns[conn] = struct{}{}
		}
	}
	a.server.StartTLS()
	t.Cleanup(func() {
		close(a.stopped)
		a.server.CloseClientConnections()
		a.server.Close()
	})
	return a
}

// present has new connections be shown a certificate; open ones continue.
func (a *apiServer) present(certificate tls.Certificate) {
	a.serving.Store(&tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"}})
}

func newCertificate(t testing.TB) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// kubeconfig leads to the server with a token.
func (a *apiServer) kubeconfig(token string) []byte { return kubeconfigOf(a.server.URL, a.ca, token) }

func (a *apiServer) setTokens(tokens map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens = maps.Clone(tokens) // requests under way read it
}

// setFault makes the server behave differently; nil mends it.
func (a *apiServer) setFault(fault func(w http.ResponseWriter, r *http.Request) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault = fault
}

// hang keeps requests without an answer until their connection ends.
func (a *apiServer) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-a.stopped:
	}
}

// hangAll is a fault.
func (a *apiServer) hangAll(_ http.ResponseWriter, r *http.Request) bool {
	a.hang(r)
	return true
}

// hangWatches is a fault that only affects lists and watches.
func (a *apiServer) hangWatches(w http.ResponseWriter, r *http.Request) bool {
	if strings.HasSuffix(r.URL.Path, "/configmaps") {
		a.hang(r)
		return true
	}
	return false
}

// hangOn is a fault that only affects requests whose path contains a text.
func hangOn(a *apiServer, path string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, path) {
			return false
		}
		a.hang(r)
		return true
	}
}

// answer is a fault: a status for all requests whose path contains a text.
func answer(status int, path string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, path) {
			return false
		}
		writeStatus(w, status, "the test says "+strconv.Itoa(status))
		return true
	}
}

func (a *apiServer) count(prefix string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, request := range a.requests {
		if strings.HasPrefix(request, prefix) {
			n++
		}
	}
	return n
}

// forgetRequests empties what count counts.
func (a *apiServer) forgetRequests() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = nil
}

func (a *apiServer) sockets() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.conns)
}

// cut closes all connections.
func (a *apiServer) cut() {
	a.mu.Lock()
	conns := slices.Collect(maps.Keys(a.conns))
	a.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	watch := ""
	if r.URL.Query().Get("watch") == "true" {
		watch = " watch"
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			watch = " watch all"
		}
	}
	a.mu.Lock()
	a.requests = append(a.requests, r.Method+" "+r.URL.Path+watch)
	fault, tokens, version := a.fault, a.tokens, a.version
	a.mu.Unlock()

	if fault != nil && fault(w, r) {
		return
	}
	user := "admin"
	if tokens != nil {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		var known bool
		if user, known = tokens[token]; !known {
			writeStatus(w, http.StatusUnauthorized, "Unauthorized "+token)
			return
		}
	}
	switch path := r.URL.Path; {
	case path == "/version":
		writeJSON(w, "application/json", map[string]string{"gitVersion": version})
	case path == identityPath:
		writeJSON(w, "application/json", &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(a.store.uid)}})
	case strings.HasSuffix(path, "/selfsubjectreviews"):
		review := &authenticationv1.SelfSubjectReview{}
		review.Status.UserInfo.Username = user
		writeJSON(w, "application/json", review)
	case path == "/api":
		a.discover(w, r, []apidiscovery.APIGroupDiscovery{{Versions: []apidiscovery.APIVersionDiscovery{{
			Version: "v1", Freshness: apidiscovery.DiscoveryFreshnessCurrent, Resources: []apidiscovery.APIResourceDiscovery{
				discoveredResource("", "ConfigMap", "configmaps", true),
				discoveredResource("", "Secret", "secrets", true),
				discoveredResource("", "Namespace", "namespaces", false),
			},
		}}}})
	case path == "/apis":
		a.store.mu.Lock()
		groups := slices.Clone(a.store.groups)
		a.store.mu.Unlock()
		a.discover(w, r, groups)
	default:
		a.serveObjects(w, r)
	}
}

func (a *apiServer) discover(w http.ResponseWriter, r *http.Request, groups []apidiscovery.APIGroupDiscovery) {
	document := &apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{APIVersion: "apidiscovery.k8s.io/v2", Kind: "APIGroupDiscoveryList"}, Items: groups,
	}
	raw, _ := json.Marshal(document)
	sum := sha256.Sum256(raw)
	tag := strconv.Quote(hex.EncodeToString(sum[:]))
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeJSON(w, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", document)
}

// serveObjects answers lists, watches and reads of configmaps, secrets and widgets.
func (a *apiServer) serveObjects(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	index := slices.IndexFunc(parts, func(p string) bool { return p == "configmaps" || p == "secrets" || p == "widgets" })
	if index < 0 {
		writeStatus(w, http.StatusNotFound, "no such path "+r.URL.Path)
		return
	}
	resource, metadataOnly := parts[index], strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
	if resource == "widgets" && !a.store.knows("widgets") {
		writeStatus(w, http.StatusNotFound, "the server could not find the requested resource")
		return
	}
	switch {
	case r.URL.Query().Get("watch") == "true":
		a.serveWatch(w, r, resource, metadataOnly)
	case index == len(parts)-1:
		objects, version := a.store.list(resource)
		apiVersion, kind := kindOf(resource)
		items := make([]any, len(objects))
		for i := range objects {
			items[i] = rendered(objects[i], metadataOnly)
		}
		if metadataOnly {
			apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadata"
		}
		writeJSON(w, "application/json", map[string]any{"apiVersion": apiVersion, "kind": kind + "List",
			"metadata": map[string]any{"resourceVersion": version}, "items": items})
	default:
		a.store.mu.Lock()
		object := a.store.objects[resource]["default/"+parts[len(parts)-1]]
		a.store.mu.Unlock()
		if object == nil {
			writeStatus(w, http.StatusNotFound, "not found")
			return
		}
		writeJSON(w, "application/json", rendered(object, metadataOnly))
	}
}

func (s *store) knows(resource string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, group := range s.groups {
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				if r.Resource == resource {
					return true
				}
			}
		}
	}
	return false
}

// versions of the objects of a resource, by their names.
func (s *store) versions(resource string) map[string]string {
	objects, _ := s.list(resource)
	versions := map[string]string{}
	for _, object := range objects {
		name, _, _ := unstructured.NestedString(object, "metadata", "name")
		versions[name], _, _ = unstructured.NestedString(object, "metadata", "resourceVersion")
	}
	return versions
}

func (s *store) list(resource string) ([]map[string]any, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.objects[resource])), strconv.Itoa(s.version)
}

// serveWatch streams an initial list if asked for, and then what changes. Watches from older versions are answered 410.
func (a *apiServer) serveWatch(w http.ResponseWriter, r *http.Request, resource string, metadataOnly bool) {
	initial := r.URL.Query().Get("sendInitialEvents") == "true"
	watcher := &storeWatcher{resource: resource, events: make(chan storeEvent, 10000)}
	s := a.store
	s.mu.Lock()
	version := strconv.Itoa(s.version)
	objects := slices.Collect(maps.Values(s.objects[resource]))
	outdated := !initial && r.URL.Query().Get("resourceVersion") != version
	s.watchers[watcher] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, watcher)
		s.mu.Unlock()
	}()

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	encoder, controller := json.NewEncoder(w), http.NewResponseController(w)
	send := func(kind string, object any) {
		_ = encoder.Encode(struct { // in the order of API servers
			Type   string `json:"type"`
			Object any    `json:"object"`
		}{kind, object})
		_ = controller.Flush()
	}
	if outdated {
		send("ERROR", metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old"})
		return
	}
	if initial {
		for _, object := range objects {
			send("ADDED", rendered(object, metadataOnly))
		}
		apiVersion, kind := kindOf(resource)
		send("BOOKMARK", rendered(map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{
			"resourceVersion": version, "annotations": map[string]any{metav1.InitialEventsAnnotationKey: "true"},
		}}, metadataOnly))
	}
	_ = controller.Flush()
	for {
		select {
		case event := <-watcher.events:
			if event.status != nil {
				send(event.kind, event.status)
				return
			}
			send(event.kind, rendered(event.object, metadataOnly))
		case <-r.Context().Done():
			return
		case <-a.stopped:
			return
		}
	}
}

func rendered(object map[string]any, metadataOnly bool) map[string]any {
	if !metadataOnly {
		return object
	}
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]}
}

func writeJSON(w http.ResponseWriter, contentType string, content any) {
	w.Header().Set("Content-Type", contentType)
	writeBody(w, content)
}

func writeBody(w http.ResponseWriter, content any) { _ = json.NewEncoder(w).Encode(content) }

func writeStatus(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	reason := map[int]metav1.StatusReason{401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 429: "TooManyRequests", 503: "ServiceUnavailable"}[code]
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reason, Message: message})
}
