package shoot20_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/shoot20"
)

func TestRealServerAcceptsAll(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	ctx := t.Context()
	cp := controlplane.StartForTest(t, controlplane.Options{Name: "shoot20"})
	c, err := client.New(cp.RESTConfig(), client.Options{})
	g.Expect(err).NotTo(HaveOccurred())

	f := shoot20.New(shoot20.Options{})
	apply := func(ctx context.Context, object *unstructured.Unstructured) error {
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("shoot20"), client.ForceOwnership)
	}
	for _, object := range f.Objects("alpha") {
		g.Eventually(func() error {
			err := apply(ctx, object.DeepCopy())
			if meta.IsNoMatchError(err) { // its definition is not served yet
				return err
			}
			return final(err)
		}).Should(Succeed(), "%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
	}

	// What the server made of them is what was wanted, and is left as it is by a second apply.
	for _, object := range f.Objects("alpha") {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(object), live)).To(Succeed())
		version := live.GetResourceVersion()
		again := object.DeepCopy()
		g.Expect(apply(ctx, again)).To(Succeed())
		if again.GetKind() != "CustomResourceDefinition" { // its status changes meanwhile
			g.Expect(again.GetResourceVersion()).To(Equal(version), "%s %s", object.GetKind(), object.GetName())
		}
	}

	discovering, err := discovery.NewDiscoveryClientForConfig(cp.RESTConfig())
	g.Expect(err).NotTo(HaveOccurred())
	_, _, err = discovering.ServerGroupsAndResources()
	g.Expect(err).NotTo(HaveOccurred(), "discovery is as complete as before")
}

// final makes an error end an Eventually, for it will not go away.
func final(err error) error {
	if err == nil {
		return nil
	}
	return StopTrying("refused").Wrap(err)
}
