package isolation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// call is one that was to change something, and was not refused.
type call struct {
	method, path, body string
	// compared is false for a call whose number is a matter of time.
	compared bool
}

func (c call) String() string { return c.method + " " + c.path + " " + c.body }

// recorder writes down the calls of the hub, by the address of the target.
type recorder struct {
	mu     sync.Mutex
	calls  map[string][]call
	flying map[string]int // that have no answer yet
	whole  map[string]int // watches that began with all there is
}

func newRecorder() *recorder {
	return &recorder{calls: map[string][]call{}, flying: map[string]int{}, whole: map[string]int{}}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// wrap is put around the transport of the connections to targets.
func (r *recorder) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodGet || request.Method == http.MethodHead {
			r.read(request)
			return next.RoundTrip(request)
		}
		var body []byte
		if request.Body != nil {
			var err error
			if body, err = io.ReadAll(request.Body); err != nil {
				return nil, fmt.Errorf("reading a request: %w", err)
			}
			_ = request.Body.Close()
			request = request.Clone(request.Context())
			request.Body = io.NopCloser(bytes.NewReader(body))
		}
		host := request.URL.Host
		r.count(r.flying, host, 1)
		defer r.count(r.flying, host, -1)
		response, err := next.RoundTrip(request)
		// Without an answer, the call may have been done.
		if err != nil || response.StatusCode < http.StatusBadRequest {
			r.record(request, body)
		}
		return response, err
	})
}

func (r *recorder) count(of map[string]int, host string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of[host] += n
}

// read counts watches that ask for all there is. A watch that continues after its end does not.
func (r *recorder) read(request *http.Request) {
	query := request.URL.Query()
	if query.Get("watch") == "true" && query.Get("sendInitialEvents") == "true" {
		r.count(r.whole, request.URL.Host, 1)
	}
}

func (r *recorder) record(request *http.Request, body []byte) {
	_, resource, _ := strings.Cut(request.URL.Path, "/v1/")
	transient := slices.Contains(strings.Split(resource, "/"), "events") || strings.HasSuffix(resource, "reviews")
	c := call{method: request.Method, path: request.URL.Path, body: text(body), compared: !transient}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[request.URL.Host] = append(r.calls[request.URL.Host], c)
}

// answered reports whether all calls to a target have their answer.
func (r *recorder) answered(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flying[host] == 0
}

// initials is how many watches of a target began with all there is.
func (r *recorder) initials(host string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.whole[host]
}

// to returns the calls to a target so far.
func (r *recorder) to(host string) []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls[host])
}

var codecs = serializer.NewCodecFactory(testbed.Scheme())

// text is a body without what is different each time. JSON stays as it was sent, anything else is decoded.
func text(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	var content any
	if json.Unmarshal(body, &content) != nil {
		obj, _, err := codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return fmt.Sprintf("%q", body)
		}
		encoded, err := json.Marshal(obj)
		if err != nil || json.Unmarshal(encoded, &content) != nil {
			return fmt.Sprintf("%q", body)
		}
	}
	prune(content)
	encoded, err := json.Marshal(content)
	if err != nil {
		return fmt.Sprintf("%q", body)
	}
	return string(encoded)
}

// changing are the fields that are different each time.
var changing = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "lastUpdateTime", "lastTransitionTime",
	"token", "kubeconfig", "bundle.crt",
}

// prune removes them from a value of JSON.
func prune(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range changing {
			delete(value, field)
		}
		for _, inner := range value {
			prune(inner)
		}
	case []any:
		for _, inner := range value {
			prune(inner)
		}
	}
}
