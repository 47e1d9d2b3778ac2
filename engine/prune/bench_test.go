package prune_test

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/prune"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// BenchmarkObjects deletes ConfigMaps, 500 in a run.
func BenchmarkObjects(b *testing.B) {
	const objects = 500
	g := NewWithT(b)
	p := policy
	p.Parallel = 16
	for b.Loop() {
		b.StopTimer()
		ns := testbed.Namespace(b, nil, cluster)
		refs := make([]resourcesv1alpha1.ObjectReference, 0, objects)
		for i := range objects {
			cm := configMap(g, ns, fmt.Sprintf("cm-%03d", i), nil)
			refs = append(refs, entry(cm, cm.UID))
		}
		b.StartTimer()
		for _, o := range prune.Objects(context.Background(), access, refs, p) {
			if o.Result != prune.Gone {
				b.Fatal(o)
			}
		}
	}
	b.ReportMetric(objects*float64(b.N)/b.Elapsed().Seconds(), "objects/s")
}
