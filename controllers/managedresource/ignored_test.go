package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// A ManagedResource that is not ignored any longer says so, even if its note says that nothing is left to be applied.
func TestConditionsOfAnIgnoredManagedResourceEnd(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.await("mr", HaveField("Annotations", HaveKey(hubv1alpha1.AppliedAnnotation)))
	p.annotateMR("mr", resourcesv1alpha1.IgnoreAnnotation, "true")
	p.await("mr", has(applied, yes, resourcesv1alpha1.ReasonManagedResourceIgnored))
	p.stopIgnoring("mr")
	p.await("mr", has(applied, yes, resourcesv1alpha1.ReasonApplySucceeded), has(ready, yes, ""))
}
