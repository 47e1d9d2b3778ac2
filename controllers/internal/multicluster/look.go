package multicluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
)

// errReadOnly is the error of writes through a target that Look returned.
var errReadOnly = errors.New("this only looks and writes nothing")

// Look returns a target for a caller that wants to know what a reconciler would do in it, outside of any controller.
// Its client refuses to write, its log and its events go nowhere, and what is watched is in snapshots.
func Look(status clustercache.Status, c client.Client, snapshots map[*Objects]clustercache.Subscription) *Target {
	valid := func() error { return errReadOnly }
	return &Target{
		Status: status, Client: &fenced{Client: c, valid: valid}, Log: logr.Discard(),
		subscriptions: snapshots, events: nowhere{}, valid: valid,
	}
}

// nowhere is an events.EventRecorder that drops everything.
type nowhere struct{ events.EventRecorder }

func (nowhere) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// snapshotPage is how many objects are listed at a time for a snapshot.
const snapshotPage = 500

// Snapshot reads once what a controller would watch, up to a number of objects. More than that are an error.
func Snapshot(ctx context.Context, c client.Reader, objects *Objects, most int) (clustercache.Subscription, error) {
	kind := objects.Kind.GroupVersion().WithKind(objects.Kind.Kind + "List")
	found := snapshot{}
	for next := ""; ; {
		options := []client.ListOption{
			client.Limit(snapshotPage), client.Continue(next), client.InNamespace(objects.Namespace),
		}
		if objects.LabelSelector != nil {
			options = append(options, client.MatchingLabelsSelector{Selector: objects.LabelSelector})
		}
		if objects.FieldSelector != nil {
			options = append(options, client.MatchingFieldsSelector{Selector: objects.FieldSelector})
		}
		list, items := page(objects.MetadataOnly)
		list.GetObjectKind().SetGroupVersionKind(kind)
		if err := c.List(ctx, list, options...); err != nil {
			return nil, fmt.Errorf("listing all of kind %s: %w", objects.Kind.GroupKind(), err)
		}
		for _, obj := range items() {
			if len(found) == most {
				return nil, fmt.Errorf("listing all of kind %s: there are more than %d", objects.Kind.GroupKind(), most)
			}
			found[client.ObjectKeyFromObject(obj)] = objects.Transform(obj)
		}
		if next = list.GetContinue(); next == "" {
			return found, nil
		}
	}
}

// page is a list of objects, and how to read it when it was filled.
func page(metadataOnly bool) (client.ObjectList, func() []client.Object) {
	if metadataOnly {
		list := &metav1.PartialObjectMetadataList{}
		return list, func() (all []client.Object) {
			for i := range list.Items {
				all = append(all, &list.Items[i])
			}
			return all
		}
	}
	list := &unstructured.UnstructuredList{}
	return list, func() (all []client.Object) {
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
		return all
	}
}

// Nothing is a snapshot without objects.
var Nothing clustercache.Subscription = snapshot{}

// snapshot implements clustercache.Subscription.
type snapshot map[types.NamespacedName]any

func (s snapshot) Lookup(key types.NamespacedName) (value any, found, synced bool) {
	value, found = s[key]
	return value, found, true
}

func (s snapshot) Range(f func(key types.NamespacedName, value any) bool) (synced bool) {
	for key, value := range s {
		if !f(key, value) {
			break
		}
	}
	return true
}

func (s snapshot) Live() bool { return true }

func (s snapshot) Close() {}
