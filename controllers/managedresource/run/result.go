package run

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
)

// ForDrift is a result with a look at drift after some time, if that is sooner.
func ForDrift(result reconcile.Result, after time.Duration) reconcile.Result {
	if result.RequeueAfter == 0 || after < result.RequeueAfter {
		result.RequeueAfter, result.Priority = after, new(dispatch.PriorityDrift)
	}
	return result
}

// Sooner is a result with another look after some time, if that is sooner.
func Sooner(result reconcile.Result, after time.Duration) reconcile.Result {
	if result.RequeueAfter == 0 || after < result.RequeueAfter {
		result.RequeueAfter, result.Priority = after, nil
	}
	return result
}
