package warnings

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// limit bounds how many events of an object are reported.
	limit = 5
	// listLimit bounds how many events are read.
	listLimit = 500
	// textLimit bounds the text of one event.
	textLimit = 400
)

// Warning is an event.
type Warning struct {
	Reporter, Reason, Message string
	// Count is how often it happened since First, at least once.
	Count int32
	First time.Time
	last  time.Time
}

// Last returns the last Warning events of an object, at most five, the latest first.
func Last(ctx context.Context, c client.Reader, key inventory.Key) ([]Warning, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("v1")
	list.SetKind("EventList")
	about := fields.Set{
		"involvedObject.kind": key.Kind, "involvedObject.namespace": key.Namespace, "involvedObject.name": key.Name,
		"type": corev1.EventTypeWarning,
	}
	if err := c.List(ctx, list, client.InNamespace(key.Namespace),
		client.MatchingFieldsSelector{Selector: about.AsSelector()}, client.Limit(listLimit)); err != nil {
		return nil, fmt.Errorf("listing the events of %s: %w", key, err)
	}
	all := make([]Warning, 0, len(list.Items))
	for i := range list.Items {
		event := corev1.Event{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &event) == nil {
			all = append(all, warning(&event))
		}
	}
	slices.SortStableFunc(all, func(a, b Warning) int { return b.last.Compare(a.last) })
	return all[:min(len(all), limit)], nil
}

// warning reads an event. Those of the newer API have a series instead of timestamps and a count.
func warning(e *corev1.Event) Warning {
	w := Warning{
		Reporter: untrusted.Token(cmp.Or(e.Source.Component, e.ReportingController, "unknown")),
		Reason:   untrusted.Token(e.Reason), Message: text(e.Message), Count: max(e.Count, 1),
		First: firstOf(e.FirstTimestamp, metav1.Time(e.EventTime), e.LastTimestamp, e.CreationTimestamp),
		last:  firstOf(e.LastTimestamp, metav1.Time(e.EventTime)),
	}
	if e.Series != nil {
		w.Count = max(e.Series.Count, w.Count)
		if e.LastTimestamp.IsZero() {
			w.last = e.Series.LastObservedTime.Time
		}
	}
	return w
}

func firstOf(times ...metav1.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t.Time
		}
	}
	return time.Time{}
}

// Notes are lines about events, with a header; none without events.
func Notes(warnings []Warning) []string {
	if len(warnings) == 0 {
		return nil
	}
	warnings = slices.Clone(warnings)
	slices.SortStableFunc(warnings, func(a, b Warning) int {
		return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	notes := []string{"Last warning events:"}
	for _, w := range warnings {
		when := "at " + w.First.UTC().Format(time.RFC3339)
		if w.Count > 1 {
			when = fmt.Sprintf("%d times or more since %s", magnitude(w.Count), w.First.UTC().Format(time.RFC3339))
		}
		notes = append(notes, fmt.Sprintf("- %s, %s: %s: %s", w.Reporter, when, w.Reason, text(w.Message)))
	}
	return slices.Compact(notes)
}

// magnitude is the greatest of 1, 2, 5, 10, 20, 50 and so on that is not above a number.
func magnitude(n int32) int64 {
	m := int64(1)
	for factor := int64(1); factor <= int64(n); factor *= 10 {
		for _, step := range []int64{1, 2, 5} {
			if factor*step <= int64(n) {
				m = factor * step
			}
		}
	}
	return m
}

// text returns a message as one line of bounded length.
func text(message string) string {
	return untrusted.Text(strings.Join(strings.Fields(message), " "), textLimit)
}
