package managedresource

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/engine/inventory"
)

var jobKind = schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}

// mayNotBeDone tells of an object that is not there after a start whether it has to be made again. A Job may have
// been removed after it had succeeded. If so, what was noted last says so: it does not count it.
func mayNotBeDone(k inventory.Key) bool { return k.GroupKind() != jobKind }
