package follow_test

import (
	"bytes"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/internal/follow"
)

// reader is who is called.
type reader = interface {
	Offer(data []byte) bool
	Wake()
}

// parking is the body of an answer that calls back.
type parking struct {
	mu    sync.Mutex
	have  bytes.Buffer
	ended bool
	read  reader
}

func (p *parking) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.have.Len() == 0 && !p.ended {
		panic("nobody is to wait here")
	}
	return p.have.Read(b)
}

func (p *parking) Close() error { return nil }

func (p *parking) Park(read reader) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.have.Len() > 0 || p.ended {
		return false
	}
	p.read = read
	return true
}

// comes has something come while the reader is parked, and tells whether it was called for it.
func (p *parking) comes(data string) (called bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read.Offer([]byte(data)) {
		return false
	}
	p.have.WriteString(data)
	p.read.Wake()
	return true
}

func (p *parking) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.read.Wake()
}

// answers are bodies for requests, one after the other.
type answers struct {
	kind    string
	bodies  []*parking
	current *parking
	asked   []url.Values
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, r.URL.Query())
	a.current, a.bodies = a.bodies[0], a.bodies[1:]
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {a.kind}}, Body: a.current, Request: r}, nil
}

// A bookmark that comes while there is nothing to do needs no goroutine. Anything else does.
func TestBookmarksAreNoddedOff(t *testing.T) {
	message := func(version string) string { return framedMetadata("BOOKMARK", partial("", version, nil)) }
	mark := func(version string) string { // as servers write it
		return `{"type":"BOOKMARK","object":` + mustJSON(partial("", version, nil)) + "}\n"
	}
	for name, kind := range map[string]struct {
		media                    string
		list, mark, next, object string
		others                   map[string]string
	}{
		"JSON": {
			media: "application/json", list: all("1"), mark: mark("7"), next: mark("9"), object: is("a", "8"),
			others: map[string]string{
				"a part of it":            mark("8")[:20],
				"all but the bracket":     mark("8")[:len(mark("8"))-2],
				"two":                     mark("8") + mark("9"),
				"one and a part":          mark("8") + mark("9")[:10],
				"no version":              mark(""),
				"the end of a list":       all("8"),
				"an object":               is("a", "8"),
				"what is no JSON":         `{"type":"BOOKMARK",}`,
				"an error":                text("ERROR", status(410, "Expired")),
				"nothing but a new line":  "\n",
				"a bracket too much":      mark("8")[:len(mark("8"))-1] + "}",
				"an object in a bookmark": `{"type":"BOOKMARK","object":[]}`,
			},
		},
		"Protocol Buffers": {
			media: "application/vnd.kubernetes.protobuf", list: framedMetadata("BOOKMARK", partial("", "1", listed)),
			mark: message("7"), next: message("9"), object: framedMetadata("ADDED", partial("a", "8", nil)),
			others: map[string]string{
				"a part of the length": message("8")[:3],
				"the length":           message("8")[:4],
				"a part of it":         message("8")[:20],
				"two":                  message("8") + message("9"),
				"no version":           message(""),
				"the end of a list":    framedMetadata("BOOKMARK", partial("", "8", listed)),
				"an object":            framedMetadata("ADDED", partial("a", "8", nil)),
				"what is no object":    framed("BOOKMARK", []byte("x")),
			},
		},
	} {
		begin := func(t *testing.T) (*WithT, *sink, *follow.Follower, *answers, *parking) {
			g := NewWithT(t)
			first := &parking{}
			first.have.WriteString(kind.list)
			server := &answers{kind: kind.media, bodies: []*parking{first, {}, {}}}
			address, err := url.Parse("https://target")
			g.Expect(err).NotTo(HaveOccurred())
			s := &sink{present: map[string]client.Object{}}
			f := follow.New(follow.Collection{
				Client: &http.Client{Transport: server}, Server: address, Clock: &hasty{now: time.Now()}, MetadataOnly: true,
				Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
			}, s, func() {})
			g.Expect(f.Follow(t.Context())).To(MatchError(follow.ErrParked))
			return g, s, f, server, first
		}
		t.Run(name, func(t *testing.T) {
			g, s, f, server, body := begin(t)
			g.Expect(body.comes(kind.mark)).To(BeFalse())
			g.Expect(s.nods).To(Equal(1))

			g.Expect(body.comes(kind.object)).To(BeTrue())
			g.Expect(f.Follow(t.Context())).To(MatchError(follow.ErrParked))
			g.Expect(s.said()).To(Equal([]string{"listed ", "set a@8"}))

			s.busy = true
			g.Expect(body.comes(kind.next)).To(BeTrue())
			g.Expect(f.Follow(t.Context())).To(MatchError(follow.ErrParked))
			g.Expect([]int{s.nods, s.marks}).To(Equal([]int{1, 1}))
			s.busy = false

			body.end()
			g.Expect(f.Follow(t.Context())).To(MatchError(follow.ErrParked))
			g.Expect(server.asked[1].Get("resourceVersion")).To(Equal("9"))
		})
		t.Run(name+", the watch goes on from there", func(t *testing.T) {
			g, _, f, server, body := begin(t)
			g.Expect(body.comes(kind.mark)).To(BeFalse())
			body.end()
			g.Expect(f.Follow(t.Context())).To(MatchError(follow.ErrParked))
			g.Expect(server.asked[1].Get("resourceVersion")).To(Equal("7"))
		})
		for what, data := range kind.others {
			t.Run(name+", "+what, func(t *testing.T) {
				g, s, _, _, body := begin(t)
				g.Expect(body.comes(data)).To(BeTrue())
				g.Expect(s.nods).To(BeZero())
			})
		}
	}
}
