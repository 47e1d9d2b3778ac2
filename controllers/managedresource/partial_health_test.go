package managedresource_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// One object that cannot be applied says nothing about the others: what is wrong with those is said, and that it is
// over, too. That all is well is not said as long as the state of some object is unknown.
func TestHealthOfAppliedObjectsIsJudgedAlthoughAnotherOneFails(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.deploymentManifest("app", "{}"), testbed.ConfigMap(p.ns, "Not_A_Name", "1"))
	p.mr("mr", "content")
	failed := has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "Not_A_Name")
	p.await("mr", failed, has(healthy, no, "DeploymentUnhealthy", "app is unhealthy: "), has(progressing, yes, "DeploymentProgressing"))

	p.pod("app-1", "app")
	p.pod("app-2", "app")
	p.status(p.deployment("app"), rolledOut)
	p.await("mr", failed, has(healthy, unknown, resourcesv1alpha1.ReasonChecksPending, "Nothing is wrong with the others"),
		has(progressing, unknown, resourcesv1alpha1.ReasonChecksPending))
	p.status(p.deployment("app"), `{"conditions":[{"type":"Available","status":"False","message":"none left"}]}`)
	p.await("mr", failed, has(healthy, no, "DeploymentUnhealthy", "none left"))

	// Attempts that fail again do not take back what is known.
	history := p.history("mr")
	before := p.failedApplies()
	p.Eventually(p.failedApplies).Should(BeNumerically(">", before+1))
	p.fence()
	p.Expect(history.versions()).NotTo(ContainElement(Not(has(healthy, no, "DeploymentUnhealthy"))))

	p.content("content", p.deploymentManifest("app", "{}"))
	p.await("mr", has(applied, yes, ""), has(healthy, no, "DeploymentUnhealthy", "none left"))
}

// Without anything that is applied, there is nothing to say of others.
func TestHealthIsPendingIfNothingIsApplied(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "Not_A_Name", "1"))
	p.mr("mr", "content")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed), has(healthy, unknown, resourcesv1alpha1.ReasonChecksPending, "The content changed; its checks are pending."))
}

// H-3: what was said to be well before a failure stays so, and new content takes it back.
func TestH03_FailureDoesNotMakeHealthyWhatWasNot(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.content("content", testbed.ConfigMap(p.ns, "one", "2"), testbed.ConfigMap(p.ns, "Not_A_Name", "1"))
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed), has(healthy, unknown, resourcesv1alpha1.ReasonChecksPending, "Some objects are not applied"))
}

// While an APIService is not available, it is unknown what it serves, and no namespace can be deleted. That has to be
// reported.
func TestAPIServiceThatIsNotAvailableIsUnhealthy(t *testing.T) {
	t.Parallel()
	p := registered(t)
	group := p.ns + ".example.com"
	p.content("content", fmt.Sprintf(`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.%[1]s},
spec: {group: %[1]s, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: %[2]s, name: server}}}`, group, p.ns))
	p.mr("mr", "content")
	p.await("mr", has(applied, yes, ""), has(healthy, no, "APIServiceUnhealthy", "v1."+group+" is unhealthy: condition Available is False (ServiceNotFound)"))
	p.deleteMR("mr")
	p.awaitGone("mr")
}
