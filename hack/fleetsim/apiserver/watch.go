package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trellis-hub/trellis/hack/fleetsim/storage"
)

// watcher is one watch under way.
type watcher struct {
	*call
	from     *storage.Watch
	selected selection
	as       storage.As
	rc       *http.ResponseController
}

// watch answers with events until the client, the server or time ends it.
func (c *call) watch(began time.Time) error {
	if err := c.negotiate(); err != nil {
		return err
	}
	o, err := c.listOptions()
	if err != nil {
		return err
	}
	w := &watcher{call: c, as: c.item(), rc: http.NewResponseController(c.w)}
	if w.selected, err = c.selection(o); err != nil {
		return err
	}
	objects, err := w.begin(o)
	expired := errors.Is(err, storage.ErrExpired)
	if err != nil && !expired {
		return err
	}

	c.w.Header().Set("Content-Type", "application/json")
	if c.as.protobuf {
		c.w.Header().Set("Content-Type", protobuf+";stream=watch")
	}
	c.w.WriteHeader(http.StatusOK)
	_ = w.rc.Flush() // if it cannot, the first event does
	c.answered(began)

	if expired {
		w.sendExpired(fmt.Sprintf("too old resource version: %s (%d)", o.ResourceVersion, c.store.Version()))
		return nil
	}
	initial := o.SendInitialEvents != nil && *o.SendInitialEvents
	if initial && !w.sendInitial(objects, o.AllowWatchBookmarks) {
		return nil
	}
	objects = nil //nolint:ineffassign,wastedassign // they would be kept for as long as the watch lasts
	timeout := 30*time.Minute + rand.N(30*time.Minute)
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds > 0 {
		timeout = time.Duration(*o.TimeoutSeconds) * time.Second
	}
	w.run(began.Add(timeout), o.AllowWatchBookmarks)
	return nil
}

// begin finds the place to begin at, and what there is already if that is asked for.
func (w *watcher) begin(o *internalversion.ListOptions) (objects []*storage.Object, err error) {
	var version uint64
	if o.ResourceVersion != "" {
		if version, err = parseVersion(o.ResourceVersion); err != nil {
			return nil, err
		}
	}
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		if err := w.notInFuture(version); err != nil {
			return nil, err
		}
		objects, w.from, err = w.store.ListAndWatch(w.group(), w.namespace)
		return objects, err
	}
	w.from, err = w.store.Watch(w.group(), version)
	return nil, err
}

// sendInitial sends what there is, and marks its end.
func (w *watcher) sendInitial(objects []*storage.Object, bookmark bool) (ok bool) {
	ok = true
	for len(objects) > 0 && ok {
		n := min(len(objects), 64)
		ok = w.send(func(b []byte) []byte {
			for _, o := range objects[:n] {
				if w.selected.matches(o) {
					b = w.appendEvent(b, "ADDED", o, 0)
				}
			}
			return b
		})
		objects = objects[n:]
	}
	if ok && bookmark {
		ok = w.sendBookmark(w.from.Version(), map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return ok
}

// run sends events until the watch ends.
func (w *watcher) run(end time.Time, bookmarks bool) {
	bookmark := end.Add(time.Hour)
	if bookmarks {
		bookmark = w.nextBookmark()
	}
	timer := time.NewTimer(time.Until(earlier(end, bookmark)))
	defer timer.Stop()
	var buf [16]storage.Event
	for {
		events, version, changed, err := w.from.Next(buf[:0])
		switch {
		case errors.Is(err, storage.ErrExpired):
			w.sendExpired("The resourceVersion for the provided watch is too old.")
			return
		case err != nil:
			return
		case len(events) > 0:
			if !w.send(func(b []byte) []byte { return w.appendEvents(b, events) }) {
				return
			}
			clear(buf[:]) // their objects may be gone soon
			continue
		}
		select {
		case <-changed:
		case <-w.r.Context().Done():
			return
		case <-timer.C:
			now := time.Now()
			if !now.Before(end) {
				return
			}
			if !now.Before(bookmark) {
				if !w.sendBookmark(version, nil) {
					return
				}
				bookmark = w.nextBookmark()
			}
			timer.Reset(time.Until(earlier(end, bookmark)))
		}
	}
}

func (w *watcher) nextBookmark() time.Time {
	interval := w.o.BookmarkInterval
	return time.Now().Add(interval*3/4 + rand.N(interval/2))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// appendEvents encodes those events that are about the selection: an object that enters it is added for this watch,
// one that leaves it is deleted.
func (w *watcher) appendEvents(b []byte, events []storage.Event) []byte {
	for _, e := range events {
		is := e.Object != nil && w.concerns(e.Object)
		was := e.Before != nil && w.concerns(e.Before)
		switch {
		case is && was:
			b = w.appendEvent(b, "MODIFIED", e.Object, 0)
		case is:
			b = w.appendEvent(b, "ADDED", e.Object, 0)
		case was: // as it was last seen, but of the version that it left in
			b = w.appendEvent(b, "DELETED", e.Before, e.Version)
		}
	}
	return b
}

func (w *watcher) concerns(o *storage.Object) bool {
	return (w.namespace == "" || o.Namespace() == w.namespace) && w.selected.matches(o)
}

func (w *watcher) appendEvent(b []byte, kind string, o *storage.Object, version uint64) []byte {
	as := w.as
	as.Version = version
	if w.call.as.protobuf {
		return appendProtobufEvent(b, kind, protobufOf(metadataOf(o, as)))
	}
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","object":`...)
	b = o.AppendJSON(b, as)
	return append(b, "}\n"...)
}

func (w *watcher) sendBookmark(version uint64, annotations map[string]string) (ok bool) {
	o := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{Kind: w.as.Kind, APIVersion: w.as.APIVersion},
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(version, 10), Annotations: annotations},
	}
	return w.sendEvent("BOOKMARK", o)
}

// sendExpired ends a watch that cannot continue.
func (w *watcher) sendExpired(message string) {
	status := apierrors.NewResourceExpired(message).ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	w.sendEvent("ERROR", &status)
}

// sendEvent sends an event with something that is not stored.
func (w *watcher) sendEvent(kind string, o interface {
	message
	runtime.Object
}) (ok bool) {
	return w.send(func(b []byte) []byte {
		if w.call.as.protobuf {
			return appendProtobufEvent(b, kind, protobufOf(o))
		}
		text, err := json.Marshal(o)
		if err != nil {
			panic(fmt.Sprintf("apiserver: an event cannot be encoded: %v", err)) // they are all API types
		}
		return fmt.Appendf(b, `{"type":%q,"object":%s}`+"\n", kind, text)
	})
}

// send sends what fn encodes; false: the client is gone or does not read.
func (w *watcher) send(fn func(b []byte) []byte) (ok bool) {
	ok = true
	withBuffer(func(b []byte) []byte {
		if b = fn(b); len(b) == 0 {
			return b
		}
		_ = w.rc.SetWriteDeadline(time.Now().Add(w.o.WriteTimeout)) // not every connection can
		_, err := w.w.Write(b)
		if err == nil {
			err = w.rc.Flush()
		}
		_ = w.rc.SetWriteDeadline(time.Time{})
		ok = err == nil
		return b
	})
	return ok
}
