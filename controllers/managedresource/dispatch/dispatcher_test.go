package dispatch

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/sharing"
)

// added is a queue that notes what is added.
type added struct {
	priorityqueue.PriorityQueue[Request]
	names []types.NamespacedName
}

func (a *added) AddWithOpts(_ priorityqueue.AddOpts, requests ...Request) {
	for _, r := range requests {
		a.names = append(a.names, r.NamespacedName)
	}
}

// One that ends without its registration is of no class, and in nobody's target. What was remembered of it, if only that it
// was let go, would be so for ever.
func TestEveryManagedResourceThatIsGoneIsForgotten(t *testing.T) {
	gone := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "uid"}}
	for name, event := range map[string]any{"seen": gone, "missed": cache.DeletedFinalStateUnknown{Key: "a/b", Obj: gone}} {
		t.Run(name, func(t *testing.T) {
			queue := &added{}
			d := New(Options{Shared: sharing.NewIndex()})
			d.SetQueue("", queue)
			d.managedResourceHandler(t.Context()).OnDelete(event)
			NewWithT(t).Expect(queue.names).To(Equal([]types.NamespacedName{{Namespace: "a", Name: "b"}}))
		})
	}
}
