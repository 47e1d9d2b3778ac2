package dispatch

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
)

// The name of a flow says which target it is of.
func TestFlowsHaveTargets(t *testing.T) {
	for name, target := range map[string]clustercache.ClusterKey{
		"of a namespace": {Namespace: "a", Name: "target"}, "of a class": {Name: "target"}, "none": {},
	} {
		t.Run(name, func(t *testing.T) {
			r := Request{Target: target, NamespacedName: types.NamespacedName{Namespace: "b", Name: "c"}}
			NewWithT(t).Expect(TargetOf(Flow(r))).To(Equal(target))
		})
	}
}
