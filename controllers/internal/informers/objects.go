package informers

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
)

// Object returns the object of a delete event. An informer that missed the deletion wraps the last state it has in a
// tombstone.
func Object(obj any) any {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return obj
}

// Older reports whether resource version a is older than b. Versions that cannot be compared count as newer, so that
// no event is dropped because of a server with versions of another form.
func Older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
