package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// watchMin is how long a server is asked to keep a watch open at least; up to twice as long, so that not all end at
	// once. It is what API servers take if they are not asked. A watch that says nothing is opened again sooner
	// (clustercache/internal/watching, Silent), so that to end one that lives is cost without use: 17,000 watches of 5 to
	// 10 minutes were 68 requests a second.
	watchMin = 30 * time.Minute
	// tooShort is what a watch must at least last to be opened again where it was without a pause.
	tooShort = time.Second
	// reopenPause is the first pause before a watch is opened again that the server has no time for, or ends at once; it
	// doubles up to reopenPauseMax: events wait meanwhile.
	reopenPause    = time.Second
	reopenPauseMax = 30 * time.Second
	// reopenTries is how often that is tried in a row without anything to show for it.
	reopenTries = 4
	// streamTries is how many streamed lists in a row that were open for endless and did not come to their end have the
	// server asked for pages: each takes as long as a list may stand still. Each streamAgain-th list is a stream
	// nevertheless, for the server may have been mended, or it was not to blame.
	streamTries = 2
	streamAgain = 10
	// endless is Collection.Endless unless it is given.
	endless = time.Minute
	// pageSize is that of servers that do not stream lists.
	pageSize = 500
	// maxPages bounds the pages of a list, maxToken the token that the next page is asked for with.
	maxPages = 10_000
	maxToken = 64 << 10
	// listMax is how long a list may take, even if it continues all the time, and maxListed how many events a streamed
	// one may have: a server may send one object repeatedly.
	listMax   = 10 * time.Minute
	maxListed = 5_000_000
)

// Collection says what is followed, and how the server is reached.
type Collection struct {
	Client *http.Client
	// Server is the address of the API server.
	Server   *url.URL
	Resource schema.GroupVersionResource
	// Namespace and the selectors are empty for all objects.
	Namespace     string
	LabelSelector string
	FieldSelector string
	// MetadataOnly asks for no more than metadata: the objects are of type PartialObjectMetadata, else Unstructured.
	MetadataOnly bool
	// Kind is that of objects which do not say it themselves, as those of lists.
	Kind schema.GroupVersionKind
	// Fields are the paths of what is decoded of whole objects, with all that is beneath, beside apiVersion, kind and
	// metadata. Objects are of type Object then. Nil: everything.
	Fields [][]string
	Clock  clock.WithDelayedExecution
	// MaxPage bounds the bytes that are read of a page of a list, whose items are decoded one by one. Zero: 64 MiB.
	MaxPage int64
	// Budget bounds the memory of large documents while they are read and decoded. Nil: there is no bound but that of
	// one document.
	Budget *Share
	// Endless is how long a streamed list has to be open for the server to be suspected not to know how to end it: a
	// stream that ended earlier was cut by the network, or by the reader. Zero: a minute.
	Endless time.Duration
	// Redact takes out of a text what must not be shown, such as the credential, which a server may repeat. Nil: nothing.
	Redact func(string) string
	// Suspended returns nil while the server can be asked, else a channel that is closed when it can be again. Nil: it
	// always can.
	Suspended func() <-chan struct{}

	event, item *fields // that matter, from Fields; nil for all
}

// Sink takes what comes. All calls come from the goroutine that runs Follow.
type Sink interface {
	// Begin announces a list: what is set and removed from now on is not all there is, until Complete.
	Begin()
	// Set takes an object that is there, and Remove one that is not.
	Set(object client.Object)
	Remove(object client.Object)
	// Complete ends a list.
	Complete()
	// Opened is called when a watch was opened. Any goroutine may call reopen to have it opened again where it is.
	Opened(reopen func())
	// Ended is called when an open watch ended. Another one is opened then, or Follow returns.
	Ended()
	// Bookmark is called for each bookmark of the server, except the one at the end of a list.
	Bookmark()
}

// Follower follows a collection. It is used by one goroutine.
type Follower struct {
	collection Collection
	sink       Sink
	version    string // of the collection, as far as it was followed
	listed     bool   // all that was there up to the version was handed on
	paged      bool   // the server does not stream lists
	pagedNext  bool   // the last list was a stream that did not come to its end
	unfinished int    // streams in a row that did not, although they were open for long
	spared     int    // lists since then that were no streams because of that
}

// New returns a follower that has not begun.
func New(c Collection, sink Sink) *Follower {
	if c.MaxPage == 0 {
		c.MaxPage = defaultMaxPage
	}
	if c.Endless == 0 {
		c.Endless = endless
	}
	if c.MetadataOnly {
		c.Fields = [][]string{} // no more than metadata
	}
	if c.Fields != nil {
		c.event, c.item = sharedFields(c.Fields)
	}
	return &Follower{collection: c, sink: sink}
}

// Listed reports whether Follow continues where it was, and does not list first.
func (f *Follower) Listed() bool { return f.listed }

// Forget has Follow list first.
func (f *Follower) Forget() { f.listed = false }

// Follow lists unless it has done so before, and hands on what changes, until ctx ends or the watch cannot be opened
// again: then it is called again after a pause. The error says what went wrong. Nil: nothing did, the server has
// forgotten the version that a watch had come to, as it may.
//
// Nearly all the time it waits in drain. What is remembered meanwhile is in the attempt and not in the frame, and all
// that takes space is done in functions that return, so that the runtime can shrink the stack.
func (f *Follower) Follow(ctx context.Context) error {
	a := &attempt{pause: reopenPause}
	f.begin(ctx, a)
	for a.watch != nil {
		f.ended(ctx, a, f.drain(a.watch))
	}
	if ctx.Err() != nil || a.err == nil {
		return nil //nolint:nilerr // the caller ended it
	}
	return fmt.Errorf("following %s: %w", f.collection.Resource.Resource, a.err)
}

// attempt is what Follow remembers from one watch to the next.
type attempt struct {
	watch *watch // that is open, nil if there is no other one to be opened
	err   error  // why not
	pause time.Duration
	tries int
}

// begin lists unless that was done, and opens a watch.
//
//go:noinline
func (f *Follower) begin(ctx context.Context, a *attempt) {
	if !f.listed {
		a.watch, a.err = f.list(ctx)
	}
	if a.watch == nil && a.err == nil {
		f.reopen(ctx, a)
	}
}

// reopen opens a watch where the last one ended, as long as it is worth while to try.
func (f *Follower) reopen(ctx context.Context, a *attempt) {
	for {
		f.await(ctx)
		if a.watch, a.err = f.open(ctx, url.Values{"resourceVersion": {f.version}}); a.err == nil || !f.goesOn(ctx, a, true) {
			return
		}
	}
}

// await waits while the server cannot be asked, and reports whether that was so.
func (f *Follower) await(ctx context.Context) (suspended bool) {
	if f.collection.Suspended == nil {
		return false
	}
	for ; ctx.Err() == nil; suspended = true {
		released := f.collection.Suspended()
		if released == nil {
			return suspended
		}
		select {
		case <-released:
		case <-ctx.Done():
		}
	}
	return suspended
}

// ended continues after a watch that ended with an error.
//
//go:noinline
func (f *Follower) ended(ctx context.Context, a *attempt, err error) {
	w := a.watch
	w.end()
	f.sink.Ended()
	a.watch, a.err = nil, nil
	short := f.collection.Clock.Since(w.opened) < tooShort
	var ended *endedError
	if errors.As(err, &ended) {
		if !short { // nor does what went wrong before an outage count after it
			a.pause, a.tries = reopenPause, 0
		}
		err = nil
		if f.await(ctx) {
			short = false // the connection was lost
		} else if short && w.events == 0 {
			err = errTooShort
		}
	}
	a.err = err
	if ctx.Err() == nil && f.goesOn(ctx, a, short) {
		f.reopen(ctx, a)
	}
}

// goesOn reports whether another watch is to be opened after one that was short or long, or failed with an error. It
// waits first if a pause is needed.
func (f *Follower) goesOn(ctx context.Context, a *attempt, short bool) bool {
	var status apierrors.APIStatus
	answered := errors.As(a.err, &status)
	switch {
	case isExpired(a.err):
		f.listed, a.err = false, nil
		return false
	case a.err != nil && !passes(a.err):
		f.listed = false
		return false
	case a.err == nil && !short:
		return true
	case a.err != nil:
		a.tries++
	}
	if ctx.Err() != nil {
		return false
	}
	if a.tries == reopenTries {
		f.listed = !answered && !errors.Is(a.err, errTooShort) // without an answer, a list would get none either
		return false
	}
	f.sleep(ctx, a.pause, a.err)
	a.pause = min(2*a.pause, reopenPauseMax)
	return true
}

// passes reports whether the same request may succeed if it is sent again after an error: there was no answer, or the
// server was busy. An event that cannot be read would be the same again.
func passes(err error) bool {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, errUnreadable):
		return false
	case !errors.As(err, &status):
		return true
	}
	code := status.Status().Code
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// sleep waits for a pause, or for as long as the server asks for.
func (f *Follower) sleep(ctx context.Context, pause time.Duration, err error) {
	pause += rand.N(pause / 2)
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		pause = max(pause, min(time.Duration(seconds)*time.Second, 30*time.Second))
	}
	timer := f.collection.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// drain takes events until there are no more, and returns why.
func (f *Follower) drain(w *watch) error {
	for {
		begun, err := w.look()
		if begun {
			err = f.handle(w)
		}
		if err != nil {
			return err
		}
	}
}

// handle takes the next event.
//
//go:noinline
func (f *Follower) handle(w *watch) error {
	e, err := w.event()
	if err != nil {
		return err
	}
	defer e.release()
	w.events++
	f.take(e)
	return nil
}

// list brings all that is there. The watch that it returns, if any, continues from there. A stream that was accepted
// and did not come to its end, for whatever reason, is not asked for a second time in a row: the server may not know
// how to end it. After a few that look like that it is asked for now and then only.
func (f *Follower) list(ctx context.Context) (*watch, error) {
	paged := f.paged || f.pagedNext || f.spares()
	f.pagedNext = false
	if !paged {
		w, err := f.stream(ctx)
		refused := refusesStreams(err)
		if f.pagedNext || !refused && !apierrors.IsInternalError(err) {
			return w, err
		}
		f.paged = refused
	}
	return nil, f.pages(ctx)
}

// spares reports whether the next list is not to be a stream because the server does not seem to end any.
func (f *Follower) spares() bool {
	if f.unfinished < streamTries {
		return false
	}
	f.spared = (f.spared + 1) % streamAgain
	return f.spared != 0
}

// complete ends a list.
func (f *Follower) complete(version string) error {
	if version == "" {
		return errors.New("the list has no version")
	}
	f.version, f.listed = version, true
	f.sink.Complete()
	return nil
}

// stream has the server send the objects as events, up to a bookmark that says that these were all.
func (f *Follower) stream(ctx context.Context) (*watch, error) {
	f.sink.Begin()
	w, err := f.open(ctx, url.Values{"sendInitialEvents": {"true"},
		"resourceVersionMatch": {string(metav1.ResourceVersionMatchNotOlderThan)}})
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		e, err := w.event()
		if err == nil && e.last {
			e.release()
			if err = f.complete(e.version); err == nil {
				w.opened, f.unfinished = f.collection.Clock.Now(), 0
				return w, nil
			}
		}
		if err == nil && (n == maxListed || f.collection.Clock.Since(w.opened) > listMax) {
			e.release()
			err = errEndless
		}
		if err != nil {
			f.pagedNext = true
			if f.collection.Clock.Since(w.opened) >= f.collection.Endless {
				f.unfinished++
			}
			w.end()
			f.sink.Ended()
			return nil, fmt.Errorf("listing: %w", err)
		}
		f.take(e)
		e.release()
	}
}

// errEndless says that a list was given up because it did not end.
var errEndless = errors.New("the list does not end")

// pages lists page by page. A list that takes so long that its version is forgotten is begun again once, and one whose
// pages are too large is begun again with smaller ones.
func (f *Follower) pages(ctx context.Context) error {
	limit, token, again := pageSize, "", true
	begun := f.collection.Clock.Now()
	f.sink.Begin()
	for range maxPages {
		if f.collection.Clock.Since(begun) > listMax {
			break
		}
		version, next, err := f.page(ctx, limit, token)
		switch {
		case isExpired(err) && token != "" && again:
			token, again = "", false
			f.sink.Begin()
			continue
		case errors.Is(err, errPageTooLarge) && limit > 1:
			limit, token = max(limit/10, 1), ""
			f.sink.Begin()
			continue
		case err == nil && next != "" && next == token:
			err = errEndless
		}
		if err != nil {
			return fmt.Errorf("listing: %w", err)
		}
		if token = next; token == "" {
			return f.complete(version)
		}
	}
	return fmt.Errorf("listing: %w", errEndless)
}

// take hands on an event. One of a type that is not known yet means nothing to this version of the hub.
func (f *Follower) take(e event) {
	switch e.kind {
	case added, modified:
		f.sink.Set(e.object)
	case deleted:
		f.sink.Remove(e.object)
	case bookmark:
		f.sink.Bookmark()
	}
	if e.version != "" { // else what follows is sent once more if the watch ends
		f.version = e.version // of no use before the end of a list, which says another
	}
}

// open opens a watch.
func (f *Follower) open(ctx context.Context, q url.Values) (*watch, error) {
	lasts := watchMin + rand.N(watchMin)
	q.Set("watch", "true")
	q.Set("allowWatchBookmarks", "true")
	q.Set("timeoutSeconds", strconv.Itoa(int(lasts.Seconds())))
	ctx, cancel := context.WithCancelCause(ctx)
	response, err := f.collection.get(ctx, "watch", acceptObject, q) //nolint:bodyclose // the end of the watch closes it
	if err != nil {
		cancel(nil)
		return nil, err
	}
	body := response.Body // of the answer nothing else is needed any longer
	frames := newFrames(ctx, cancel, response, &f.collection)
	w := &watch{frames: frames, collection: &f.collection, opened: f.collection.Clock.Now(), end: func() {
		cancel(nil)
		_ = body.Close()
		frames.close()
	}}
	f.sink.Opened(func() { cancel(nil) })
	return w, nil
}

// refusesStreams reports whether an error means that the server does not support streamed lists: then it
// calls the request invalid.
func refusesStreams(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return true
	}
	return false
}

// isExpired reports whether the server has forgotten the version it was asked for.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// errTooShort says that a watch ended at once, and brought nothing.
var errTooShort = errors.New("the watch ends at once")

// endedError says that a stream ended, in order or not.
type endedError struct{ err error }

func (e *endedError) Error() string {
	if errors.Is(e.err, io.EOF) {
		return "the server ended the watch"
	}
	return "the watch ended: " + e.err.Error()
}

func (e *endedError) Unwrap() error { return e.err }
