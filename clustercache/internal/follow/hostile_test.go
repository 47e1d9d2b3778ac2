package follow_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/internal/follow"
)

// most is how much memory a document may take at most, whatever its content. It includes the garbage of growing
// buffers, and as much again for the collector.
const most = 64 << 20

// times repeats a text until it has some MiB.
func times(text string, mib int) string { return strings.Repeat(text, mib<<20/len(text)) }

// object is one that has more metadata than a name, or more content.
func object(metadata, content string) string {
	return `{"metadata":{"name":"a"` + metadata + `}` + content + `}`
}

// empty returns a million empty elements.
func empty(element string) string { return `[` + times(element+`,`, 3) + element + `]` }

// hostile are objects, in JSON, that are small on the wire and large in memory, or large in both.
var hostile = map[string]struct{ object, says string }{
	"empty finalizers":         {object(`,"finalizers":`+empty(`""`), ""), "elements"},
	"empty owners":             {object(`,"ownerReferences":`+empty(`{}`), ""), "elements"},
	"empty managedFields":      {object(`,"managedFields":`+empty(`{}`), ""), "managed fields"},
	"managedFields in escapes": {object(`,"managed\u0046ields":`+empty(`{}`), ""), "elements"},
	"deep lists in labels":     {object(`,"labels":`+deep, ""), "levels of nesting"},
	"more bytes than any":      {object(`,"annotations":{"a":"`+times("x", 5)+`"}`, ""), "it does not end after"},
	"spaces":                   {object("", times(" ", 5)), "it does not end after"},
	"a long name":              {`{"metadata":{"name":"` + strings.Repeat("a", 254) + `"}}`, "its name"},
	"a name with a new line":   {`{"metadata":{"name":"a\nb"}}`, "its name"},
	"no name":                  {`{"metadata":{}}`, "no name"},
	"a long namespace":         {object(`,"namespace":"`+strings.Repeat("a", 254)+`"`, ""), "its namespace"},
	"a long UID":               {object(`,"uid":"`+strings.Repeat("a", 129)+`"`, ""), "its UID"},
	"a long version":           {object(`,"resourceVersion":"`+strings.Repeat("1", 129)+`"`, ""), "its version"},
}

// content are those that matter only where whole objects are asked for.
var content = map[string]struct{ object, says string }{
	"empty conditions": {object("", `,"status":{"conditions":`+empty(`{}`)+`}`), "elements"},
	"deep content":     {object("", `,"status":`+deep), "levels of nesting"},
	"wide content":     {object("", `,"status":{"a":0`+times(`,"a":0`, 3)+`}`), "elements"},
}

var deep = strings.Repeat("[", 1000) + strings.Repeat("]", 1000)

var noStreams = refuse(http.StatusUnprocessableEntity, "")

// peak returns by how much the heap grows at most while something is done.
func peak(do func()) uint64 {
	heap := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	runtime.GC()
	before := heap()
	largest := before
	ended, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			largest = max(largest, heap())
			select {
			case <-ended:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	do()
	close(ended)
	<-sampled
	return largest - before
}

func metadata(*follow.Collection) {}

func whole(c *follow.Collection) { c.MetadataOnly = false }
func some(c *follow.Collection)  { c.MetadataOnly, c.Fields = false, [][]string{{"status"}} }
func budget(c *follow.Collection) {
	c.Budget = follow.NewBudget().Share(types.NamespacedName{Namespace: "a", Name: "a"})
}

// page is a page with some items, as an API server writes it.
func pageOf(items string) string {
	return `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[` + items + `]}`
}

func TestHostileObjects(t *testing.T) {
	for form, change := range map[string]func(*follow.Collection){
		"metadata": metadata, "whole objects": whole, "some fields": some,
	} {
		objects := map[string]struct{ object, says string }{}
		for name, c := range hostile {
			if form == "whole objects" && name == "empty managedFields" {
				c.says = "elements" // they are a part of the content
			}
			objects[name] = c
		}
		if form != "metadata" {
			for name, c := range content {
				objects[name] = c
			}
		}
		for name, c := range objects {
			for how, answers := range map[string][]answer{
				"in a page":   {noStreams, refuse(http.StatusOK, pageOf(c.object))},
				"in a stream": {say(`{"type":"ADDED","object":` + c.object + "}\n")},
				"in an event": {say(all("5"), `{"type":"MODIFIED","object":`+c.object+"}\n")},
			} {
				t.Run(form+"/"+name+" "+how, func(t *testing.T) {
					var err error
					used := peak(func() {
						s := begin(t, func(c *follow.Collection) { change(c); budget(c) }, answers...)
						err = s.ends()
						s.Expect(s.sink.present).To(BeEmpty())
					})
					g := NewWithT(t)
					g.Expect(err).To(MatchError(ContainSubstring(c.says)))
					g.Expect(used).To(BeNumerically("<", most))
				})
			}
		}
	}
}

func TestHostileMessages(t *testing.T) {
	many := partial("a", "1", nil)
	many.ManagedFields = make([]metav1.ManagedFieldsEntry, 1<<17)
	owned := partial("a", "1", nil)
	owned.OwnerReferences = make([]metav1.OwnerReference, 1<<18)
	finalized := partial("a", "1", nil)
	finalized.Finalizers = make([]string, 1<<20)
	long := partial(strings.Repeat("a", 254), "1", nil)
	binary := partial("a\xff", "1", nil)
	large := partial("a", "1", map[string]string{"a": times("x", 5)})
	failure := status(http.StatusConflict, metav1.StatusReasonConflict)
	failure.Details = &metav1.StatusDetails{Causes: make([]metav1.StatusCause, 1<<17)}
	for name, c := range map[string]struct{ message, says string }{
		"managedFields":        {framedMetadata("ADDED", many), "elements"},
		"owners":               {framedMetadata("ADDED", owned), "elements"},
		"finalizers":           {framedMetadata("ADDED", finalized), "elements"},
		"a long name":          {framedMetadata("ADDED", long), "its name"},
		"a name that is bytes": {framedMetadata("ADDED", binary), "its name"},
		"more bytes than any":  {framedMetadata("ADDED", large), "it has"},
		"causes of a failure":  {framed("ERROR", wrapped("v1", "Status", failure)), "it reports a failure"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			used := peak(func() {
				s := begin(t, budget, sayMessages(framedMetadata("BOOKMARK", partial("", "5", listed)), c.message))
				err = s.ends()
			})
			g := NewWithT(t)
			g.Expect(err).To(MatchError(ContainSubstring(c.says)))
			g.Expect(used).To(BeNumerically("<", most))
		})
	}
}

// Documents of honest servers are within the bounds, with a margin.
func TestLargeObjectsOfHonestServers(t *testing.T) {
	managed := partial("large", "7", map[string]string{"a": times("x", 1)}) // a Secret of 1 MiB has no more as metadata
	var leaves bytes.Buffer
	for i := range 40_000 {
		fmt.Fprintf(&leaves, `"f:property%d":{},`, i)
	}
	fields := metav1.NewFieldsV1(`{` + leaves.String() + `".":{}}`)
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: fields}}
	definition := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",` +
		`"metadata":` + mustJSON(managed.ObjectMeta) + `,"spec":{"versions":[{` +
		times(`"property":{"type":"string","description":"some words"},`, 1) +
		`"last":{}}]},"status":{"conditions":[{"type":"Established"}]}}`
	fit := func(t *testing.T, change func(*follow.Collection), answers ...answer) {
		s := begin(t, func(c *follow.Collection) { change(c); budget(c) }, answers...)
		s.eventually("listed large")
		managed := s.sink.present["large"].GetManagedFields()
		s.Expect(managed).To(HaveLen(1))
		s.Expect(len(managed[0].FieldsV1.GetRawString())).To(BeNumerically(">", 500_000))
	}
	t.Run("metadata in a stream", func(t *testing.T) {
		fit(t, metadata, say(text("ADDED", managed), all("7")))
	})
	t.Run("metadata in a page", func(t *testing.T) {
		fit(t, metadata, noStreams, refuse(http.StatusOK, pageOf(mustJSON(managed))), say())
	})
	t.Run("metadata as a message", func(t *testing.T) {
		end := framedMetadata("BOOKMARK", partial("", "7", listed))
		fit(t, metadata, sayMessages(framedMetadata("ADDED", managed), end))
	})
	t.Run("a definition in a stream", func(t *testing.T) {
		fit(t, some, say(`{"type":"ADDED","object":`+definition+"}", all("7")))
	})
	t.Run("a definition in a page", func(t *testing.T) {
		fit(t, some, noStreams, refuse(http.StatusOK, pageOf(definition)), say())
	})
}

// A list of many items takes no more memory than one item.
func TestPageIsReadItemByItem(t *testing.T) {
	item := mustJSON(partial("same", "1", map[string]string{"a": strings.Repeat("x", 100<<10)}))
	begins, ends, _ := strings.Cut(pageOf("|"), "|")
	used := peak(func() {
		s := begin(t, budget, refuse(http.StatusUnprocessableEntity, ""), func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, begins+item)
			for range 599 {
				_, _ = io.WriteString(w, ","+item)
			}
			_, _ = io.WriteString(w, ends)
		}, say())
		s.eventually("listed same")
	})
	NewWithT(t).Expect(used).To(BeNumerically("<", 40<<20), "there are 60 MB")
}

// A list that does not end is given up.
func TestListsWithoutAnEnd(t *testing.T) {
	item := mustJSON(partial("same", "1", nil))
	page := func(next string, items ...string) string {
		return `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"5","continue":"` + next + `"},` +
			`"items":[` + strings.Join(items, ",") + `]}`
	}
	for name, c := range map[string]struct{ page, says string }{
		"the same token again":    {page("again", item), "does not end"},
		"an empty page, and more": {page("more"), "a page is empty"},
		"a token that is long":    {page(strings.Repeat("x", 65<<10), item), "the token of the next page"},
		"a token without an end":  {page(times("x", 3), item), "a field has more than"},
		"more items than asked":   {page("more", item+strings.Repeat(","+item, 500)), "a page has 501 items"},
		"items twice":             {`{"items":[],"items":[]}`, "items twice"},
		"spaces in a page":        {`{"items":[` + times(" ", 1) + `]}`, "spaces"},
		"a page that is cut":      {page("", item)[:80], "it ends too early"},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, budget, noStreams, refuse(http.StatusOK, c.page))
			s.Expect(s.ends()).To(MatchError(ContainSubstring(c.says)))
		})
	}
	for name, steps := range map[string][]step{
		"spaces in a stream":    {times(" ", 1)},
		"spaces between events": {all("5"), times("\n", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, budget, say(steps...))
			s.Expect(s.ends()).To(MatchError(ContainSubstring("spaces")))
		})
	}
	t.Run("other tokens all the time", func(t *testing.T) {
		clock := &hasty{now: time.Now()}
		n := 0
		clocked := func(c *follow.Collection) { c.Clock = clock }
		s := begin(t, clocked, noStreams, func(w http.ResponseWriter, _ *http.Request) {
			clock.step(time.Second)
			n++
			_, _ = io.WriteString(w, page(fmt.Sprint("token-", n), item))
		})
		s.Expect(s.ends()).To(MatchError(ContainSubstring("does not end")))
		s.Expect(n).To(BeNumerically("<", 700), "ten minutes")
	})
	t.Run("one object repeatedly in a stream", func(t *testing.T) {
		clock := &hasty{now: time.Now()}
		s := begin(t, func(c *follow.Collection) { c.Clock = clock }, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				clock.step(time.Second)
				_, _ = io.WriteString(w, is("same", "1"))
				_ = http.NewResponseController(w).Flush()
			}
		})
		s.Expect(s.ends()).To(MatchError(ContainSubstring("does not end")))
		s.Expect(s.sink.said()).To(BeEmpty())
	})
}

// A server that does not support pages sends all items at once, whatever the limit.
func TestServerWithoutPages(t *testing.T) {
	var items []string
	for i := range 600 {
		items = append(items, mustJSON(partial(fmt.Sprint("item-", i), "1", nil)))
	}
	s := begin(t, nil, noStreams, refuse(http.StatusOK, pageOf(strings.Join(items, ","))), say())
	s.Eventually(s.sink.said).Should(HaveLen(1))
	s.Expect(s.sink.present).To(HaveLen(600))
}

// Documents that do not arrive delay those of the same target for a limited time, and no other target.
func TestDocumentsThatDoNotArrive(t *testing.T) {
	g := NewWithT(t)
	shared := follow.NewBudget()
	of := func(namespace, name string) func(*follow.Collection) {
		return func(c *follow.Collection) {
			c.Budget = shared.Share(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	begun := `{"type":"ADDED","object":{"metadata":{"annotations":{"a":"` + times("x", 1)
	complete := begun + `"},"name":"large","resourceVersion":"6"}}}` + "\n"
	var hanging []*script
	for i := range 3 { // a namespace has two seats for documents of this size
		s := begin(t, of("hostile", fmt.Sprint(i)), say(all("5"), begun))
		s.eventually("listed ")
		hanging = append(hanging, s)
	}
	fine := begin(t, of("fine", "a"), say(all("5"), complete))
	fine.eventually("listed ", "set large@6")
	waiting := begin(t, of("hostile", "4"), say(all("5"), complete))
	waiting.eventually("listed ")
	g.Consistently(waiting.sink.said, "200ms").Should(HaveLen(1))
	for _, s := range hanging {
		s.cancel()
	}
	waiting.eventually("listed ", "set large@6")
}

// A small beginning of the next document keeps no seat for a large one.
func TestSeatOfALargeDocumentIsNotCarriedOver(t *testing.T) {
	shared := follow.NewBudget()
	of := func(name string) func(*follow.Collection) {
		return func(c *follow.Collection) {
			c.Budget = shared.Share(types.NamespacedName{Namespace: "hostile", Name: name})
		}
	}
	begun := `{"type":"ADDED","object":{"metadata":{"annotations":{"a":"`
	complete := begun + times("x", 1) + `"},"name":"large","resourceVersion":"6"}}}` + "\n"
	for i := range 2 { // as many as the namespace has seats
		s := begin(t, of(fmt.Sprint(i)), say(all("5"), complete+begun+strings.Repeat("x", 8<<10)))
		s.eventually("listed ", "set large@6")
	}
	s := begin(t, of("another"), say(all("5"), complete))
	s.eventually("listed ", "set large@6")
}

// The same over HTTP/1.1: reading does not depend on the protocol.
func TestHostilePageOverHTTP1(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		g.Expect(r.ProtoMajor).To(Equal(1))
		_, _ = io.WriteString(w, pageOf(hostile["empty owners"].object))
	}))
	defer server.Close()
	address, err := url.Parse(server.URL)
	g.Expect(err).NotTo(HaveOccurred())
	c := follow.Collection{
		Client: server.Client(), Server: address, Clock: &hasty{now: time.Now()}, MetadataOnly: true,
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
	}
	f := follow.New(c, &sink{present: map[string]client.Object{}})
	g.Expect(f.Follow(t.Context())).To(MatchError(ContainSubstring("elements")))
}
