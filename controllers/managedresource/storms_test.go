package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// looks keeps reads of an object of the test's namespace.
func (p place) looks(resource, name string) func(controlplane.AuditEntry) bool {
	return func(e controlplane.AuditEntry) bool {
		return e.Namespace == p.ns && e.Resource == resource && e.Name == name && e.Verb == "get"
	}
}

// patches keeps writes to a ConfigMap of the test's namespace.
func (p place) patches(name string) func(controlplane.AuditEntry) bool {
	return func(e controlplane.AuditEntry) bool {
		return e.Namespace == p.ns && e.Resource == "configmaps" && e.Name == name && e.Verb == "patch"
	}
}

// looksBesidesRuns is how often an object that cannot be corrected may be looked at, beside the runs that are due
// anyway: a few times at once, and then ever later.
const looksBesidesRuns = 15

// An object whose manifest cannot be read any longer has no desired state. It stays as it is, and is not looked at
// again and again.
func TestKeptObjectThatIsEditedCausesNoStorm(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "two", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), invalidConfigMap(p), "a: [b, }{")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "not valid YAML"))

	runs := func() int { return len(p.requests(target, p.patches("Not_A_Name"))) }
	looks := func() int { return len(p.requests(source, p.looks("secrets", "content"))) }
	two := p.configMap("two")
	runsBefore, looksBefore := runs(), looks()
	for _, value := range []string{"by hand", "by another hand", "by both hands"} {
		p.edit(target, two, func() { two.Data["key"] = value })
		p.fence()
	}
	p.Eventually(runs).Should(BeNumerically(">=", runsBefore+3), "runs come ever later, so there was time for a storm")
	looksNow := looks()
	p.Expect(looksNow-looksBefore).To(BeNumerically("<=", runs()-runsBefore+looksBesidesRuns), func() string { return hub.Log.About(p.ns) })
	p.awaitValue("two", "by both hands")

	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "two", "1"))
	p.awaitValue("two", "1")
	p.awaitReady("mr")
}

// The creation of a Secret is an event, so one that is known not to exist is not read again.
func TestMissingSecretIsNotAskedForAgainAndAgain(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.mr("mr", "late")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonCannotReadSecret, p.ns+"/late"))
	looks := func() int { return len(p.requests(source, p.looks("secrets", "late"))) }
	before := looks()
	for range 5 {
		p.operation("mr", resourcesv1alpha1.OperationReconcile)
		p.await("mr", HaveField("Annotations", Not(HaveKey(resourcesv1alpha1.OperationAnnotation))))
		p.fence()
	}
	p.Expect(looks()).To(Equal(before))
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonCannotReadSecret, p.ns+"/late"))

	p.content("late", testbed.ConfigMap(p.ns, "one", "1"))
	p.awaitReady("mr")
	p.awaitValue("one", "1")
}
