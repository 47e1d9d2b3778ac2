package managedresource

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
)

// oneManagedResource is a cache that holds one, or none.
type oneManagedResource struct {
	ctrlcache.Cache
	mr *resourcesv1alpha1.ManagedResource
}

func (c oneManagedResource) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	mr, ok := obj.(*resourcesv1alpha1.ManagedResource)
	if !ok || c.mr == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	*mr = *c.mr
	return nil
}

// silentClusters are clusters that do not answer.
type silentClusters struct{ clustercache.ClusterCache }

func (silentClusters) Answers(clustercache.ClusterKey, func()) bool { return false }

// What calls no target waits for none.
func TestWhatNeedsNoTargetWaitsForNone(t *testing.T) {
	gone, kept := &metav1.Time{}, true
	applied := resourcesv1alpha1.ManagedResourceStatus{Resources: []resourcesv1alpha1.ObjectReference{{}}}
	ignore := map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
	for name, test := range map[string]struct {
		mr    *resourcesv1alpha1.ManagedResource
		waits bool
	}{
		"one that is kept": {&resourcesv1alpha1.ManagedResource{}, true},
		"one that is gone": {nil, false},
		"one that is ignored": {&resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Annotations: ignore},
		}, false},
		"a deletion": {&resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: gone}, Status: applied}, true},
		"a deletion, though it is ignored": {&resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: gone, Annotations: ignore}, Status: applied,
		}, true},
		"a deletion with nothing left": {&resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: gone}}, false},
		"a deletion that keeps all": {&resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: gone}, Status: applied, Spec: resourcesv1alpha1.ManagedResourceSpec{KeepObjects: &kept},
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := &Controller{options: Options{Cache: oneManagedResource{mr: test.mr}, Clusters: silentClusters{}}}
			request := dispatch.Request{Target: clustercache.ClusterKey{Namespace: "ns", Name: "target"}, NamespacedName: types.NamespacedName{Namespace: "ns", Name: "mr"}}
			g.Expect(c.answers(request, func() {})).NotTo(Equal(test.waits))
			request.Target = clustercache.ClusterKey{}
			g.Expect(c.answers(request, func() {})).To(BeTrue(), "there is no target")
		})
	}
}
