// Package verticalpodautoscalers has the webhook vpa-in-place-updates: vertical pod autoscalers that restart pods to
// resize them do so without a restart where that is possible.
//
// # How it works
//
// The update mode of an object is replaced when it is created or updated. That is idempotent: a manifest that keeps the
// mode Auto becomes the same object again with every write, so its generation stays the same.
//
// # Trade-offs
//
// The mode before is not kept. An object that opts out later by the label keeps the new mode until another
// client writes another one.
//
// Of the object only the fields that matter are decoded. The API of vertical pod autoscalers is no dependency of the
// hub.
//
// # Rights
//
// None.
package verticalpodautoscalers
