package follow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/clustercache/internal/follow"
)

func TestStreamedListAndWhatFollows(t *testing.T) {
	s := begin(t, func(c *follow.Collection) {
		c.Server = c.Server.JoinPath("proxy")
		c.Resource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		c.Namespace, c.LabelSelector, c.FieldSelector = "ns", "a=b", "metadata.name=x"
	}, say(is("one", "1"), is("two", "2"), gone("two", "3"), all("5"), text("MODIFIED", partial("one", "6", nil)), is("three", "7"), gone("one", "8"), mark("9")))
	s.eventually("listed one", "set one@6", "set three@7", "remove one")
	r := s.next()
	s.Expect(r.URL.Path).To(Equal("/proxy/apis/apps/v1/namespaces/ns/deployments"))
	q := r.URL.Query()
	s.Expect(q.Get("timeoutSeconds")).To(MatchRegexp("^(1[89]|2[0-9]|3[0-5])[0-9][0-9]$"))
	q.Del("timeoutSeconds")
	s.Expect(q.Encode()).To(Equal("allowWatchBookmarks=true&fieldSelector=metadata.name%3Dx&labelSelector=a%3Db&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true"))
	s.Expect(r.Header.Get("Accept")).To(HavePrefix("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;"))
	s.Eventually(func() int { s.sink.mu.Lock(); defer s.sink.mu.Unlock(); return s.sink.marks }).Should(Equal(1))
	s.cancel()
	s.Expect(s.ends()).To(Succeed())
}

func TestNothingIsReportedBeforeAListIsComplete(t *testing.T) {
	next := make(chan string)
	s := begin(t, nil, say(is("one", "1"), next))
	s.Eventually(func() int { s.sink.mu.Lock(); defer s.sink.mu.Unlock(); return len(s.sink.listing) }).Should(Equal(1))
	s.Expect(s.sink.said()).To(BeEmpty())
	next <- all("2")
	s.eventually("listed one")
}

func TestWholeObjects(t *testing.T) {
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "one", "resourceVersion": "1"}, "number": 1 << 60, "share": 0.5}
	s := begin(t, func(c *follow.Collection) { c.MetadataOnly = false }, say(text("ADDED", object), all("5")))
	s.eventually("listed one")
	s.Expect(s.next().Header.Get("Accept")).To(Equal("application/json"))
	found, ok := s.sink.present["one"].(*unstructured.Unstructured)
	s.Expect(ok).To(BeTrue())
	s.Expect(found.Object).To(HaveKeyWithValue("number", int64(1<<60)))
	s.Expect(found.Object).To(HaveKeyWithValue("share", 0.5))
}

// Documents are cut and glued wherever the network likes, and are as large as they like.
func TestDocumentsInPieces(t *testing.T) {
	odd := partial("odd", "2", map[string]string{"text": `"}]{[\"` + "\n\\", "long": strings.Repeat("x\"", 100_000)})
	whole := "\n" + is("one", "1") + "  " + strings.TrimSpace(text("ADDED", odd)) + all("3") + gone("one", "4") + is("two", "5")
	for name, size := range map[string]int{"in one": len(whole), "in large ones": 1000, "in small ones": 100} {
		t.Run(name, func(t *testing.T) {
			var steps []step
			for rest := whole; rest != ""; {
				n := min(size, len(rest))
				steps, rest = append(steps, rest[:n]), rest[n:]
			}
			s := begin(t, nil, say(steps...))
			s.eventually("listed odd,one", "remove one", "set two@5")
			s.Expect(s.sink.present["odd"].GetAnnotations()).To(Equal(odd.Annotations))
		})
	}
	t.Run("byte by byte", func(t *testing.T) {
		var steps []step
		for _, b := range []byte(is("one", "1") + all("3") + is(`t"w{o`, "5")) {
			steps = append(steps, string([]byte{b}))
		}
		begin(t, nil, say(steps...)).eventually("listed one", `set t"w{o@5`)
	})
}

func TestProtocolBuffers(t *testing.T) {
	large := partial("large", "2", map[string]string{"long": strings.Repeat("x", 300_000)})
	large.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "trellis", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}}
	events := framedMetadata("ADDED", partial("one", "1", nil)) + framedMetadata("ADDED", large) + framedMetadata("BOOKMARK", partial("", "3", listed)) +
		framedMetadata("DELETED", partial("one", "4", nil)) + framedMetadata("MODIFIED", partial("two", "5", nil))
	var steps []step
	for rest := events; rest != ""; {
		n := min(777, len(rest))
		steps, rest = append(steps, rest[:n]), rest[n:]
	}
	s := begin(t, nil, sayMessages(steps...))
	s.eventually("listed large,one", "remove one", "set two@5")
	found := s.sink.present["large"]
	s.Expect(found.GetAnnotations()).To(Equal(large.Annotations))
	s.Expect(found.GetManagedFields()[0].FieldsV1.GetRawString()).To(Equal(`{"f:data":{}}`))
}

// A stream that ends is opened again where it was: at the last version of an event or a bookmark.
func TestStreamThatEnds(t *testing.T) {
	for name, c := range map[string]struct {
		last answer
		want string
	}{
		"after a list":              {say(is("one", "1"), all("5"), is("two", "7"), end{}), "7"},
		"after an event":            {say(all("5"), gone("one", "6"), end{}), "6"},
		"after a bookmark":          {say(all("5"), mark("99"), end{}), "99"},
		"in the middle of an event": {say(all("5"), is("two", "7"), is("three", "8")[:20], end{}), "7"},
		"with a message":            {sayMessages(framedMetadata("BOOKMARK", partial("", "5", listed)), framedMetadata("ADDED", partial("two", "7", nil)), "\x00\x00", end{}), "7"},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, nil, c.last, say(is("last", "100")))
			s.Expect(s.query().Get("sendInitialEvents")).To(Equal("true"))
			q := s.query()
			s.Expect(q.Has("sendInitialEvents")).To(BeFalse())
			s.Expect(q.Get("resourceVersion")).To(Equal(c.want))
			s.Expect(q.Get("timeoutSeconds")).To(MatchRegexp("^(1[89]|2[0-9]|3[0-5])[0-9][0-9]$"))
			s.Eventually(s.sink.said).Should(ContainElement("set last@100"))
		})
	}
}

func TestWatchIsOpenedAgainOnRequest(t *testing.T) {
	s := begin(t, nil, say(is("one", "1"), all("5"), is("two", "6")), say(is("three", "7")))
	s.eventually("listed one", "set two@6")
	s.next()
	s.sink.mu.Lock()
	reopen := s.sink.reopen
	s.sink.mu.Unlock()
	reopen()
	s.Expect(s.query().Get("resourceVersion")).To(Equal("6"))
	s.eventually("listed one", "set two@6", "set three@7")
}

// What the server has forgotten is listed again, and what is gone by then is gone.
func TestForgottenVersion(t *testing.T) {
	expired := text("ERROR", status(http.StatusGone, metav1.StatusReasonExpired))
	for name, answers := range map[string][]answer{
		"in the stream": {say(is("one", "1"), all("5"), expired)},
		"as messages":   {sayMessages(framedMetadata("ADDED", partial("one", "1", nil)), framedMetadata("BOOKMARK", partial("", "5", listed)), framed("ERROR", wrapped("v1", "Status", status(http.StatusGone, metav1.StatusReasonExpired))))},
		"as an answer":  {say(is("one", "1"), all("5"), is("one", "6"), end{}), refuse(http.StatusGone, "gone")},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, nil, append(answers, say(is("two", "7"), all("8")))...)
			s.Expect(s.ends()).To(Succeed(), "a forgotten version is no error")
			s.again(t.Context())
			s.Eventually(s.sink.said).Should(ContainElement("listed two"))
			s.cancel()
		})
	}
}

func TestWhatIsNoEvent(t *testing.T) {
	for name, c := range map[string]struct {
		said string
		want string
	}{
		"no JSON":               {"{]\n", "cannot be read"},
		"no object":             {`{"type":"ADDED"}`, "there is no object in it"},
		"a failure":             {text("ERROR", status(http.StatusConflict, metav1.StatusReasonConflict)), "the test says so"},
		"nothing but a failure": {`{"type":"ERROR","object":{}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, nil, say(is("one", "1"), all("5"), c.said))
			s.Expect(s.ends()).To(MatchError(ContainSubstring(c.want)))
			s.eventually("listed one")
		})
		t.Run(name+" in a list", func(t *testing.T) {
			s := begin(t, nil, say(is("one", "1"), c.said))
			s.Expect(s.ends()).To(MatchError(ContainSubstring(c.want)))
			s.Expect(s.sink.said()).To(BeEmpty())
		})
	}
	t.Run("a list that ends too early", func(t *testing.T) {
		s := begin(t, nil, say(is("one", "1"), end{}))
		s.Expect(s.ends()).To(MatchError(ContainSubstring("the server ended the watch")))
		s.Expect(s.sink.said()).To(BeEmpty())
	})
	t.Run("a message that is too long", func(t *testing.T) {
		s := begin(t, nil, sayMessages(framedMetadata("BOOKMARK", partial("", "5", listed)), "\xff\xff\xff\xff"))
		s.Expect(s.ends()).To(MatchError(ContainSubstring("it has 4294967295 bytes")))
	})
}

// What a later server may say besides is nothing to a hub that does not know it.
func TestEventOfAnUnknownType(t *testing.T) {
	s := begin(t, nil, say(is("one", "1"), text("EXPLODED", partial("two", "2", nil)), all("5"), text("EXPLODED", partial("one", "6", nil)), is("three", "7")))
	s.eventually("listed one", "set three@7")
}

// A length that is announced is believed once that much has come.
func TestMessageThatIsAnnouncedAndDoesNotCome(t *testing.T) {
	g := NewWithT(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 4 {
		begun := framedMetadata("BOOKMARK", partial("", "5", listed))
		s := begin(t, nil, sayMessages(begun, "\x00\x3f\xff\xff", "a little"), say())
		s.eventually("listed ")
		s.sink.mu.Lock()
		reopen := s.sink.reopen
		s.sink.mu.Unlock()
		reopen()
		s.next()
		s.next()
		s.cancel()
	}
	runtime.ReadMemStats(&after)
	g.Expect(after.TotalAlloc-before.TotalAlloc).To(BeNumerically("<", 4<<20), "one alone was announced with that")
}

// How a watch ends says how it continues: where it was, after a pause, or with a list.
func TestHowAWatchGoesOn(t *testing.T) {
	list := say(is("one", "1"), all("5"))
	with := func(steps ...step) answer { return say(append([]step{is("one", "1"), all("5")}, steps...)...) }
	at := func(version string, answer answer) answer {
		return func(w http.ResponseWriter, r *http.Request) {
			if got := r.URL.Query().Get("resourceVersion"); got != version {
				panic("the watch was opened at " + got)
			}
			answer(w, r)
		}
	}
	drop := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	busy, broken := status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests), status(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	expired := text("ERROR", status(http.StatusGone, metav1.StatusReasonExpired))
	onward := at("6", say(is("two", "7")))
	for name, c := range map[string]struct {
		answers []answer
		stays   bool // open, the first watch, until it has to be opened again
		want    any  // of Follow; nil if it continues where it was
		listed  bool
		pauses  int
	}{
		"it ends at once with an event":            {answers: []answer{with(is("one", "6"), end{}), onward}, pauses: 1},
		"it ends at once with an event, ten times": {answers: append(append([]answer{with(is("one", "6"), end{})}, slices.Repeat([]answer{say(is("one", "6"), end{})}, 9)...), onward), pauses: 10},
		"429 in the stream":                        {answers: []answer{with(is("one", "6"), text("ERROR", busy)), onward}, pauses: 1},
		"500 in the stream":                        {answers: []answer{with(is("one", "6"), text("ERROR", broken)), onward}, pauses: 1},
		"no answer":                                {answers: []answer{with(is("one", "6"), end{}), drop, onward}, pauses: 2},
		"500":                                      {answers: []answer{with(is("one", "6"), end{}), refuse(500, "no"), onward}, pauses: 2},
		"an event without a version":               {answers: []answer{with(is("one", "6"), is("one", ""), end{}), onward}, pauses: 1},
		"a bookmark without a version":             {answers: []answer{with(is("one", "6"), mark(""), end{}), onward}, pauses: 1},
		"no answer, for good":                      {answers: []answer{list, drop}, stays: true, want: HaveOccurred(), listed: true, pauses: 3},
		"429 for good":                             {answers: []answer{list, refuse(429, "later")}, stays: true, want: Satisfy(apierrors.IsTooManyRequests), pauses: 3},
		"403":                                      {answers: []answer{list, refuse(403, "no")}, stays: true, want: Satisfy(apierrors.IsForbidden)},
		"it ends at once, again and again":         {answers: []answer{with(end{}), say(end{})}, want: MatchError(ContainSubstring("ends at once")), pauses: 3},
		"its version is forgotten":                 {answers: []answer{list, say(expired)}, stays: true, want: Succeed()},
		"a list that is answered 410":              {answers: []answer{refuse(410, "gone")}, want: Satisfy(apierrors.IsGone)},
		"a list that says 410":                     {answers: []answer{say(is("one", "1"), expired)}, want: Satisfy(apierrors.IsResourceExpired)},
		"a list without a version":                 {answers: []answer{say(is("one", "1"), all(""))}, want: MatchError(ContainSubstring("no version"))},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &hasty{now: time.Now()}
			s := begin(t, func(c *follow.Collection) { c.Clock = clock }, c.answers...)
			if c.want == nil {
				s.Eventually(s.sink.said).Should(ContainElement("set two@7"))
				s.cancel()
				s.Expect(s.ends()).To(Succeed())
			} else {
				if c.stays {
					s.Eventually(s.sink.said).ShouldNot(BeEmpty())
					s.sink.mu.Lock()
					reopen := s.sink.reopen
					s.sink.mu.Unlock()
					clock.step(time.Minute)
					reopen()
				}
				s.Expect(s.ends()).To(c.want.(types.GomegaMatcher)) //nolint:forcetypeassert,errcheck // it is the table's
				s.Expect(s.follower.Listed()).To(Equal(c.listed))
			}
			s.Expect(clock.paused()).To(HaveLen(c.pauses))
			for i, pause := range clock.paused() {
				s.Expect(pause).To(BeNumerically(">=", min(time.Second<<i, 30*time.Second)), "they grow")
				s.Expect(pause).To(BeNumerically("<=", 45*time.Second), "not for ever")
			}
		})
	}
}

// A list that does not come to its end although the watch is open is tried in pages: the server may not know how to
// end it.
func TestStreamWithoutAnEnd(t *testing.T) {
	pages := func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, metav1.PartialObjectMetadataList{TypeMeta: listType, ListMeta: metav1.ListMeta{ResourceVersion: "5"}})
	}
	s := begin(t, nil, say(is("one", "1")), pages, say())
	s.Eventually(func() int { s.sink.mu.Lock(); defer s.sink.mu.Unlock(); return len(s.sink.listing) }).Should(Equal(1))
	s.cancel()
	s.Expect(s.ends()).To(Succeed())
	s.again(t.Context())
	s.eventually("listed ")
}

// A server that never ends a streamed list is not waited for at each list: after two it is asked for pages only. One
// that ended one in between is.
func TestStreamsWithoutAnEnd(t *testing.T) {
	pages := func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, metav1.PartialObjectMetadataList{TypeMeta: listType, ListMeta: metav1.ListMeta{ResourceVersion: "5"}})
	}
	expired := refuse(http.StatusGone, "gone")
	var s *script
	var clock *hasty
	cut := say(is("one", "1"), end{})
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, is("one", "1"))
		_ = http.NewResponseController(w).Flush()
		for s.sink.begun() != 1 && r.Context().Err() == nil { // until it is open
			runtime.Gosched()
		}
		clock.step(20 * time.Second)
	}
	again := []answer{pages, expired}
	gone410 := text("ERROR", status(http.StatusGone, metav1.StatusReasonExpired))
	for name, c := range map[string]struct {
		answers []answer
		streams []bool // of the lists, which were streams
	}{
		"none ends":         {slices.Concat([]answer{endless}, again, []answer{endless}, slices.Repeat(again, 10), []answer{say(all("7"), gone410), say(all("8"))}), slices.Concat([]bool{true, false, true}, make([]bool, 10), []bool{true, true})},
		"one ends between":  {slices.Concat([]answer{endless}, again, []answer{say(all("6"), gone410), endless}, again, []answer{say(all("7"))}), []bool{true, false, true, true, false, true}},
		"all are cut early": {slices.Concat([]answer{cut}, again, []answer{cut}, again, []answer{cut}, again, []answer{say(all("7"))}), []bool{true, false, true, false, true, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			clock = &hasty{now: time.Now()}
			ready := make(chan struct{})
			first := c.answers[0]
			c.answers[0] = func(w http.ResponseWriter, r *http.Request) { <-ready; first(w, r) }
			s = begin(t, func(c *follow.Collection) { c.Clock, c.Endless = clock, 20*time.Second }, c.answers...)
			close(ready)
			ctx, cancel := context.WithCancel(t.Context())
			var following sync.WaitGroup
			defer following.Wait()
			defer cancel()
			following.Go(func() {
				for {
					select {
					case <-s.err: //nolint:errcheck // the test judges by what is asked for
						s.again(ctx)
					case <-ctx.Done():
						return
					}
				}
			})
			var streams []bool
			for len(streams) < len(c.streams) {
				if q := s.query(); q.Has("sendInitialEvents") || !q.Has("watch") {
					streams = append(streams, q.Has("sendInitialEvents"))
				}
			}
			s.Expect(streams).To(Equal(c.streams))
		})
	}
}

// Whatever is between hub and target may answer, too.
func TestAnswerThatIsNoList(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":           `{}`,
		"something else":    `{"error":"maintenance"}`,
		"another kind":      `{"kind":"Status","metadata":{"resourceVersion":"1"}}`,
		"without a version": `{"kind":"PartialObjectMetadataList","metadata":{},"items":[]}`,
	} {
		for _, metadataOnly := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, metadata only: %v", name, metadataOnly), func(t *testing.T) {
				s := begin(t, func(c *follow.Collection) { c.MetadataOnly = metadataOnly }, refuse(http.StatusUnprocessableEntity, ""), refuse(http.StatusOK, body))
				s.Expect(s.ends()).To(MatchError(ContainSubstring("the answer is no list")))
				s.Expect(s.sink.said()).To(BeEmpty())
			})
		}
	}
}

// A target may repeat what it was sent, and say whatever it likes at any length.
func TestForeignTextIsNotShown(t *testing.T) {
	long := "the token is s3cret " + strings.Repeat("x", 20_000)
	said := status(http.StatusForbidden, metav1.StatusReasonForbidden)
	said.Message = long
	said.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: long}}}
	for name, answer := range map[string]answer{
		"as text": refuse(http.StatusInternalServerError, long), "as a status": refuse(http.StatusForbidden, mustJSON(said)),
		"in the stream": say(text("ERROR", said)),
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, func(c *follow.Collection) {
				c.Redact = func(text string) string { return strings.ReplaceAll(text, "s3cret", "[redacted]") }
			}, answer)
			err := s.ends()
			s.Expect(err).To(MatchError(And(ContainSubstring("the token is [redacted]"), Not(ContainSubstring("s3cret")))))
			s.Expect(len(err.Error())).To(BeNumerically("<", 3000))
			var answered apierrors.APIStatus
			s.Expect(errors.As(err, &answered)).To(BeTrue())
			s.Expect(mustJSON(answered.Status())).NotTo(ContainSubstring("s3cret"))
		})
	}
}

func TestPageThatIsTooLarge(t *testing.T) {
	large := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(" ", 1<<10+1))
	}
	s := begin(t, func(c *follow.Collection) { c.MaxPage = 1 << 10 }, refuse(http.StatusUnprocessableEntity, ""), large)
	s.Expect(s.ends()).To(MatchError(ContainSubstring("more than 1024 bytes")))
	s.next()
	for _, limit := range []string{"500", "50", "5", "1"} {
		s.Expect(s.query().Get("limit")).To(Equal(limit))
	}
}

var listType = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}

// Servers that do not stream lists send pages.
func TestPages(t *testing.T) {
	page := func(next, version string, names ...string) answer {
		list := metav1.PartialObjectMetadataList{TypeMeta: listType, ListMeta: metav1.ListMeta{ResourceVersion: version, Continue: next}}
		for _, name := range names {
			list.Items = append(list.Items, *partial(name, "1", nil))
		}
		return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, list) }
	}
	invalid := refuse(http.StatusUnprocessableEntity, text("", status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)))
	t.Run("one after the other", func(t *testing.T) {
		s := begin(t, nil, invalid, page("more", "10", "one", "two"), page("", "10", "three"), say(is("four", "12"), end{}), say(is("five", "13")))
		s.eventually("listed one,three,two", "set four@12", "set five@13")
		s.next()
		r := s.next()
		s.Expect(r.URL.Query().Encode()).To(Equal("limit=500"))
		s.Expect(r.Header.Get("Accept")).To(Equal("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"))
		s.Expect(s.query().Encode()).To(Equal("continue=more&limit=500"))
		s.Expect(s.query().Get("resourceVersion")).To(Equal("10"))
		s.Expect(s.query().Get("resourceVersion")).To(Equal("12"))
	})
	t.Run("that are forgotten meanwhile", func(t *testing.T) {
		s := begin(t, nil, invalid, page("more", "10", "one", "two"), refuse(http.StatusGone, ""), page("", "20", "one", "three"), say())
		s.eventually("listed one,three")
	})
	t.Run("of whole objects", func(t *testing.T) {
		widgets := `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"10"},` +
			`"items":[{"metadata":{"name":"one"},"spec":{"size":3}}]}`
		metadataOnly := func(c *follow.Collection) { c.MetadataOnly = false }
		s := begin(t, metadataOnly, invalid, refuse(http.StatusOK, widgets), say())
		s.eventually("listed one")
		found, ok := s.sink.present["one"].(*unstructured.Unstructured)
		s.Expect(ok).To(BeTrue())
		s.Expect(found.GroupVersionKind()).To(Equal(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}))
		s.Expect(found.Object).To(HaveKeyWithValue("spec", map[string]any{"size": int64(3)}))
	})
	t.Run("instead of streams from then on", func(t *testing.T) {
		s := begin(t, nil, invalid, page("", "10", "one"), refuse(http.StatusGone, ""), page("", "20", "two"), say())
		s.Expect(s.ends()).To(Succeed())
		s.again(t.Context())
		s.eventually("listed one", "listed two")
		s.cancel()
	})
}

func TestRefusals(t *testing.T) {
	forbidden := status(http.StatusForbidden, metav1.StatusReasonForbidden)
	for name, c := range map[string]struct {
		answer answer
		is     func(error) bool
	}{
		"forbidden":             {refuse(http.StatusForbidden, strings.TrimSpace(mustJSON(forbidden))), apierrors.IsForbidden},
		"forbidden, as message": {refuse(http.StatusForbidden, string(wrapped("v1", "Status", forbidden))), apierrors.IsForbidden},
		"forbidden, as text":    {refuse(http.StatusForbidden, "no"), apierrors.IsForbidden},
		"not found":             {refuse(http.StatusNotFound, "404 page not found"), apierrors.IsNotFound},
		"not acceptable":        {refuse(http.StatusNotAcceptable, "only JSON"), apierrors.IsNotAcceptable},
		"unsupported":           {refuse(http.StatusUnsupportedMediaType, "only JSON"), apierrors.IsUnsupportedMediaType},
		"unauthorized":          {refuse(http.StatusUnauthorized, "{}"), apierrors.IsUnauthorized},
		"busy": {refuse(http.StatusTooManyRequests, "later", "Retry-After", "7"), func(err error) bool {
			seconds, asked := apierrors.SuggestsClientDelay(err)
			return asked && seconds == 7 && apierrors.IsTooManyRequests(err)
		}},
		"a redirect": {refuse(http.StatusFound, "", "Location", "https://127.0.0.1:1/"), func(err error) bool { return err != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, nil, c.answer)
			s.Expect(s.ends()).To(Satisfy(c.is))
			s.Expect(s.requests).To(HaveLen(1), "a list would get the same answer")
		})
	}
}

// A server that has no time to open a watch again is asked again, but not believed to be watched for ever.
func TestBusyServer(t *testing.T) {
	clock := &hasty{now: time.Now()}
	busy := refuse(http.StatusTooManyRequests, "later", "Retry-After", "3600")
	s := begin(t, func(c *follow.Collection) { c.Clock = clock }, say(is("one", "1"), all("5"), is("two", "6"), end{}), busy, say(is("three", "7")))
	s.eventually("listed one", "set two@6", "set three@7")
	s.next()
	for range 2 {
		s.Expect(s.query().Get("resourceVersion")).To(Equal("6"))
	}
	s.Expect(clock.paused()).To(HaveExactElements(BeNumerically("<", 2*time.Second), Equal(30*time.Second)),
		"an hour is more than a server may ask for")
}

// A server that fails to stream a list is asked for pages this time, and for a stream the next.
func TestServerThatFailsToStream(t *testing.T) {
	pages := func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, metav1.PartialObjectMetadataList{TypeMeta: listType, ListMeta: metav1.ListMeta{ResourceVersion: "5"}})
	}
	s := begin(t, nil, refuse(http.StatusInternalServerError, "no"), pages, refuse(http.StatusGone, "gone"), say(is("one", "6"), all("7")))
	s.Expect(s.ends()).To(Succeed())
	s.again(t.Context())
	s.eventually("listed ", "listed one")
	for _, stream := range []bool{true, false, false, true} {
		s.Expect(s.query().Has("sendInitialEvents")).To(Equal(stream))
	}
}

// A document that does not end is given up.
func TestDocumentWithoutAnEnd(t *testing.T) {
	s := begin(t, nil, say(all("5"), `{"type":"ADDED","object":{"kind":"`, strings.Repeat("x", 17<<20)))
	s.Expect(s.ends()).To(MatchError(ContainSubstring("it does not end")))
	s.Expect(s.follower.Listed()).To(BeFalse())
}
