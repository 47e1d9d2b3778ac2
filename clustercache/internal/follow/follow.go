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
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// watchMin is how long a server is asked to keep a watch open at least; up to twice as long, so that not all end at once.
	watchMin = 5 * time.Minute
	// tooShort is what a watch that brought nothing must at least last to be opened again where it was.
	tooShort = time.Second
	// reopenPause is the first pause before a watch is opened again that the server has no time for; it doubles.
	reopenPause = time.Second
	// reopenTries is how often that is tried before all is listed again, so that a watch is not believed for long that is not
	// open.
	reopenTries = 4
	// pageSize is that of servers that do not stream lists.
	pageSize = 500
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
	Clock        clock.Clock
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
	// Opened tells that a watch was opened, and how to have it opened again where it is, from any goroutine.
	Opened(reopen func())
	// Bookmark tells that the server said that there is nothing else to say; not of that at the end of a list.
	Bookmark()
}

// Follower follows a collection. It is used by one goroutine.
type Follower struct {
	collection Collection
	sink       Sink
	version    string // of the collection, as far as it was followed
	paged      bool   // the server does not stream lists
}

// New returns a follower that has not begun.
func New(c Collection, sink Sink) *Follower { return &Follower{collection: c, sink: sink} }

// Follow lists, and hands on what changes, until ctx ends or the collection has to be listed again: then it is called again
// after a pause. The error says what went wrong; nil if nothing did.
func (f *Follower) Follow(ctx context.Context) error {
	f.version = ""
	w, err := f.list(ctx)
	for err == nil {
		if w == nil {
			w, err = f.reopen(ctx)
		}
		if err == nil {
			err = f.drain(w)
			w.end()
			err = w.judge(err, f.collection.Clock.Now())
			w = nil
		}
	}
	if ctx.Err() != nil || isExpired(err) || errors.Is(err, errTooShort) {
		return nil
	}
	return err
}

// drain takes events until there are no more. It is where a follower waits nearly all the time, so its frame is small, and so
// are those of what it calls: a goroutine's stack is eight kilobytes if they take a quarter of that, and four if not.
func (f *Follower) drain(w *watch) error {
	for {
		raw, err := w.frames.next()
		if err == nil {
			err = f.handle(w, raw)
		}
		if err != nil {
			return err
		}
	}
}

func (f *Follower) handle(w *watch, raw []byte) error {
	e, err := w.decode(raw)
	if err != nil {
		return err
	}
	w.events++
	return f.take(e)
}

// list brings all that is there. The watch that it returns, if any, goes on from there.
func (f *Follower) list(ctx context.Context) (*watch, error) {
	if !f.paged {
		w, err := f.stream(ctx)
		refused := refusesStreams(err)
		if !refused && !apierrors.IsInternalError(err) {
			return w, err
		}
		f.paged = refused
	}
	return nil, f.pages(ctx)
}

// stream has the server send the objects as events, up to a bookmark that says that these were all.
func (f *Follower) stream(ctx context.Context) (*watch, error) {
	f.sink.Begin()
	w, err := f.open(ctx, url.Values{"sendInitialEvents": {"true"}, "resourceVersionMatch": {string(metav1.ResourceVersionMatchNotOlderThan)}})
	if err != nil {
		return nil, err
	}
	for {
		var e event
		raw, err := w.frames.next()
		if err == nil {
			e, err = w.decode(raw)
		}
		if err == nil && e.last {
			f.version = e.version
			f.sink.Complete()
			w.opened = f.collection.Clock.Now()
			return w, nil
		}
		if err == nil {
			err = f.take(e)
		}
		if err != nil {
			w.end()
			return nil, fmt.Errorf("listing %s: %w", f.collection.Resource.Resource, err)
		}
	}
}

// pages lists page by page. A list that takes so long that its version is forgotten is begun again, in one piece.
func (f *Follower) pages(ctx context.Context) error {
	limit, token := pageSize, ""
	f.sink.Begin()
	for {
		q := url.Values{}
		if limit > 0 {
			q.Set("limit", strconv.Itoa(limit))
		}
		if token != "" {
			q.Set("continue", token)
		}
		version, next, err := f.page(ctx, q)
		switch {
		case isExpired(err) && token != "":
			limit, token = 0, ""
			f.sink.Begin()
			continue
		case err != nil:
			return fmt.Errorf("listing %s: %w", f.collection.Resource.Resource, err)
		}
		if token = next; token == "" {
			f.version = version
			f.sink.Complete()
			return nil
		}
	}
}

// take hands on an event.
func (f *Follower) take(e event) error {
	switch e.kind {
	case added, modified:
		f.sink.Set(e.object)
	case deleted:
		f.sink.Remove(e.object)
	case bookmark:
		f.sink.Bookmark()
	default:
		return fmt.Errorf("the watch of %s brought an event of unknown type %q", f.collection.Resource.Resource, e.kind)
	}
	f.version = e.version // of no use before the end of a list, which says another
	return nil
}

// reopen opens a watch from where the last one ended. A server that has no time for it just now is asked again.
func (f *Follower) reopen(ctx context.Context) (*watch, error) {
	pause := reopenPause
	for try := 1; ; try++ {
		w, err := f.open(ctx, url.Values{"resourceVersion": {f.version}})
		if err != nil {
			err = fmt.Errorf("watching %s: %w", f.collection.Resource.Resource, err)
		}
		if err == nil || try == reopenTries || ctx.Err() != nil || !apierrors.IsTooManyRequests(err) && !utilnet.IsConnectionRefused(err) {
			return w, err
		}
		wait := pause + rand.N(pause/2)
		if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
			wait = max(wait, min(time.Duration(seconds)*time.Second, 30*time.Second))
		}
		timer := f.collection.Clock.NewTimer(wait)
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
		pause *= 2
	}
}

// open opens a watch.
func (f *Follower) open(ctx context.Context, q url.Values) (*watch, error) {
	seconds := watchMin + rand.N(watchMin)
	q.Set("watch", "true")
	q.Set("allowWatchBookmarks", "true")
	q.Set("timeoutSeconds", strconv.Itoa(int(seconds.Seconds())))
	ctx, cancel := context.WithCancel(ctx)
	response, err := f.collection.get(ctx, "watch", acceptObject, q)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &watch{frames: newFrames(response), metadataOnly: f.collection.MetadataOnly, opened: f.collection.Clock.Now(), end: func() {
		cancel()
		_ = response.Body.Close()
	}}
	f.sink.Opened(cancel)
	return w, nil
}

// refusesStreams tells of an error whether the server does not know streamed lists: it calls the request invalid then.
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

// isExpired tells whether the server has forgotten the version it was asked for.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// errTooShort says that a watch ended at once, and brought nothing.
var errTooShort = errors.New("the watch ended at once")

// judge returns why a watch is not to be opened again where it ended, nil if it is.
func (w *watch) judge(err error, now time.Time) error {
	var ended *endedError
	switch {
	case !errors.As(err, &ended):
		return err
	case w.events == 0 && now.Sub(w.opened) < tooShort:
		return errTooShort
	default:
		return nil
	}
}

// endedError says that a stream ended, in order or not.
type endedError struct{ err error }

func (e *endedError) Error() string {
	if errors.Is(e.err, io.EOF) {
		return "the server ended the watch"
	}
	return "the watch ended: " + e.err.Error()
}

func (e *endedError) Unwrap() error { return e.err }
