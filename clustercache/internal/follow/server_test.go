package follow_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/internal/follow"
)

// sink keeps what comes, as a binding does.
type sink struct {
	mu      sync.Mutex
	listing map[string]client.Object // nil if no list is under way
	present map[string]client.Object
	log     []string
	reopen  func()
	marks   int
}

func (s *sink) note(format string, args ...any) { s.log = append(s.log, fmt.Sprintf(format, args...)) }

func (s *sink) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing = map[string]client.Object{}
}

func (s *sink) Set(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing != nil {
		s.listing[o.GetName()] = o
		return
	}
	s.note("set %s@%s", o.GetName(), o.GetResourceVersion())
	s.present[o.GetName()] = o
}

func (s *sink) Remove(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing != nil {
		delete(s.listing, o.GetName())
		return
	}
	s.note("remove %s", o.GetName())
	delete(s.present, o.GetName())
}

func (s *sink) Complete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present, s.listing = s.listing, nil
	names := []string{}
	for name := range s.present {
		names = append(names, name)
	}
	slices.Sort(names)
	s.note("listed %s", strings.Join(names, ","))
}

func (s *sink) Opened(reopen func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reopen = reopen
}

func (s *sink) Ended() {}

func (s *sink) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks++
}

// begun is how many objects came of the list that is under way.
func (s *sink) begun() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listing)
}

func (s *sink) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// hasty is a clock that only advances when a caller waits, and then at once. It remembers how long callers would wait.
type hasty struct {
	clock.RealClock
	mu     sync.Mutex
	now    time.Time
	pauses []time.Duration
	during func() // is called in each pause, unless it is nil
}

func (c *hasty) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *hasty) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *hasty) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *hasty) NewTimer(d time.Duration) clock.Timer {
	c.step(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pauses = append(c.pauses, d)
	if c.during != nil {
		c.during()
	}
	return c.RealClock.NewTimer(0)
}

func (c *hasty) paused() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.pauses)
}

// script is a server whose answers a test gives, one after the other. The last one is given again and again.
type script struct {
	*WithT
	sink     *sink
	requests chan *http.Request
	follower *follow.Follower
	err      chan error
	cancel   context.CancelFunc
}

type answer func(w http.ResponseWriter, r *http.Request)

// begin has a follower follow what a server says.
func begin(t *testing.T, change func(*follow.Collection), answers ...answer) *script {
	t.Helper()
	s := &script{WithT: NewWithT(t), sink: &sink{present: map[string]client.Object{}}, requests: make(chan *http.Request, 1000), err: make(chan error, 1)}
	var mu sync.Mutex
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests <- r
		mu.Lock()
		next := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		mu.Unlock()
		next(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	address, err := url.Parse(server.URL)
	s.Expect(err).NotTo(HaveOccurred())
	c := follow.Collection{
		Client: server.Client(), Server: address, Clock: &hasty{now: time.Now()}, MetadataOnly: true,
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
	}
	if change != nil {
		change(&c)
	}
	s.follower = follow.New(c, s.sink)
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	s.again(ctx)
	t.Cleanup(func() {
		cancel()
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// again has it follow once more.
func (s *script) again(ctx context.Context) {
	go func() { s.err <- s.follower.Follow(ctx) }()
}

func (s *script) next() *http.Request {
	var r *http.Request
	s.Eventually(s.requests).WithTimeout(2 * time.Minute).Should(Receive(&r))
	return r
}

func (s *script) query() url.Values { return s.next().URL.Query() }

// eventually waits until the sink got all that, and nothing else.
func (s *script) eventually(said ...string) {
	s.Eventually(s.sink.said).WithTimeout(2 * time.Minute).Should(Equal(said))
}

func (s *script) ends() error {
	var err error
	s.Eventually(s.err).WithTimeout(2 * time.Minute).Should(Receive(&err))
	return err
}

// step is a part of an answer: a text that is sent at once, or something that is done.
type step any

// say sends texts, and keeps the answer open after them unless the last step is the end.
func say(steps ...step) answer {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;stream=watch")
		send(w, r, steps...)
	}
}

func sayMessages(steps ...step) answer {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
		send(w, r, steps...)
	}
}

func send(w http.ResponseWriter, r *http.Request, steps ...step) {
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for _, s := range steps {
		switch s := s.(type) {
		case string:
			_, _ = io.WriteString(w, s)
			_ = flush.Flush()
		case chan string:
			select {
			case text := <-s:
				_, _ = io.WriteString(w, text)
				_ = flush.Flush()
			case <-r.Context().Done():
				return
			}
		case end:
			return
		}
	}
	<-r.Context().Done()
}

// end ends an answer.
type end struct{}

func refuse(status int, body string, headers ...string) answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func partial(name, version string, annotations map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", ResourceVersion: version, Annotations: annotations},
	}
}

var listed = map[string]string{metav1.InitialEventsAnnotationKey: "true"}

// text is an event in JSON.
func text(kind string, object any) string {
	raw, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		panic(err) // it is the test's
	}
	return string(raw) + "\n"
}

func is(name, version string) string   { return text("ADDED", partial(name, version, nil)) }
func gone(name, version string) string { return text("DELETED", partial(name, version, nil)) }
func all(version string) string        { return text("BOOKMARK", partial("", version, listed)) }
func mark(version string) string       { return text("BOOKMARK", partial("", version, nil)) }

func status(code int32, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "the test says so"}
}

type message interface{ Marshal() ([]byte, error) }

// wrapped is an object as API servers encode it as Protocol Buffers.
func wrapped(apiVersion, kind string, object message) []byte {
	raw, err := object.Marshal()
	if err != nil {
		panic(err) // it is the test's
	}
	outer, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}).Marshal()
	if err != nil {
		panic(err) // it is the test's
	}
	return append([]byte("k8s\x00"), outer...)
}

// framed is an event as a message.
func framed(kind string, object []byte) string {
	raw, err := (&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: object}}).Marshal()
	if err != nil {
		panic(err) // it is the test's
	}
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(raw)))) + string(raw) //nolint:gosec // a few bytes
}

func framedMetadata(kind string, o *metav1.PartialObjectMetadata) string {
	return framed(kind, wrapped("meta.k8s.io/v1", "PartialObjectMetadata", o))
}

func mustJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is the test's
	}
	return string(raw)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, mustJSON(v))
}
