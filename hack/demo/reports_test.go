package main

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestReportsOutliveWatches: an API server ends a watch, breaks one off, and forgets a resource version.
func TestReportsOutliveWatches(t *testing.T) {
	g := NewWithT(t)
	var lists, watches atomic.Int32
	event := func(number int32, by string) *eventsv1.Event {
		version := strconv.Itoa(int(number))
		return &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e" + version, ResourceVersion: version}, ReportingController: by}
	}
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			if lists.Add(1) == 2 {
				return apierrors.NewServiceUnavailable("it starts again")
			}
			list.SetResourceVersion("100")
			return nil
		},
		Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
			number := watches.Add(1)
			w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 3})
			w.Add(event(100+10*number, "another controller"))
			w.Add(event(100+10*number+1, "trellis"))
			switch number {
			case 1:
				w.Stop()
			case 2:
				w.Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
			}
			return w, nil
		},
	}).Build()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := reports(ctx, c)
	g.Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"e111", "e121", "e131"} {
		g.Eventually(events).Should(Receive(HaveField("Name", name)))
	}
	g.Expect(lists.Load()).To(BeEquivalentTo(3), "at the start, and until one succeeds after the version was forgotten")
	cancel()
	g.Eventually(events).Should(BeClosed())
}
