package highavailability

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// replicasFor is how many replicas an object is to have by its type; nil if it does not say its type, and keeps what it
// has.
func (d demand) replicasFor(object metav1.Object) (*int32, error) {
	kind := object.GetLabels()[typeLabel]
	if kind == "" {
		return nil, nil
	}
	if text := object.GetAnnotations()[replicasAnnotation]; text != "" {
		replicas, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, admission.Refuse("annotation %s: %q is no number of replicas", replicasAnnotation, untrusted.Name(text))
		}
		return ptr.To(int32(replicas)), nil
	}
	if kind == typeController && d.tolerance != nil && *d.tolerance == "" {
		return ptr.To[int32](1), nil
	}
	return ptr.To[int32](2), nil
}

// scale sets the replicas of a workload. Those that an autoscaler sets are only raised.
func (d demand) scale(w *workload, scaled bool) error {
	desired, err := d.replicasFor(w.meta)
	if err == nil && desired != nil && (!scaled || **w.replicas < *desired) {
		*w.replicas = desired
	}
	return err
}
