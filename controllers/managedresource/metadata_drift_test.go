package managedresource_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// Labels and annotations of others go at once where a ManagedResource wants none, and cost nothing where it does not
// care.
func TestForeignLabelsAndAnnotationsAreDriftOnDemand(t *testing.T) {
	t.Parallel()
	for name, force := range map[string]bool{"forced": true, "not forced": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
			mr := testbed.ManagedResource(p.ns, "mr", "content")
			if force {
				mr.Spec.ForceOverwriteLabels, mr.Spec.ForceOverwriteAnnotations = ptr.To(true), ptr.To(true)
			}
			p.inSource(mr)
			p.awaitReady("mr")
			requests := func() []string {
				return p.requests(target, func(e controlplane.AuditEntry) bool { return p.inNamespace(e) && e.Name == "one" })
			}
			before := requests()
			cm := p.configMap("one")
			p.edit(target, cm, func() {
				metav1.SetMetaDataLabel(&cm.ObjectMeta, "foreign", "1")
				metav1.SetMetaDataAnnotation(&cm.ObjectMeta, "foreign", "1")
			})
			if !force {
				p.fence()
				p.Expect(requests()).To(Equal(before))
				p.Expect(read(p, p.configMap("one")).Labels).To(HaveKey("foreign"))
				return
			}
			p.Eventually(func() []map[string]string {
				live := read(p, p.configMap("one"))
				return []map[string]string{live.Labels, live.Annotations}
			}).Should(HaveEach(Not(HaveKey("foreign"))), func() string { return hub.Log.About(p.ns) })
			p.Expect(read(p, p.configMap("one")).Labels).To(HaveKey(resourcesv1alpha1.ManagedByLabel))
		})
	}
}

// With an owner that another client sets, the object would be garbage collected when that owner goes.
func TestForeignOwnersAreDrift(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	owner, cm := p.configMap("owner"), p.configMap("one")
	p.inTarget(owner)
	p.edit(target, cm, func() {
		cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}
	})
	p.Eventually(func() []metav1.OwnerReference { return read(p, p.configMap("one")).OwnerReferences }).Should(BeEmpty(), func() string { return hub.Log.About(p.ns) })
}

// Fifty objects are fifty requests: what they cause in the watches causes none.
func TestX11_W11_EchoesOfManyObjectsCostNothing(t *testing.T) {
	t.Parallel()
	p := registered(t)
	const objects = 50
	var documents []string
	for i := range objects {
		documents = append(documents, testbed.ConfigMap(p.ns, fmt.Sprintf("many-%d", i), "1"))
	}
	p.content("content", documents...)
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.fence() // its object comes through the same watch
	about := func(e controlplane.AuditEntry) bool {
		return p.inNamespace(e) && e.Resource == "configmaps" && len(e.Name) > 5 && e.Name[:5] == "many-"
	}
	p.Expect(p.requests(target, about)).To(HaveLen(objects))
}
