package managedresource_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// An APIService without a server behind it keeps every namespace of its target from being deleted. It goes although the
// object that it was to serve cannot be looked at: that was never created.
func TestDeletionDoesNotWaitForAnObjectWhoseServerNeverCame(t *testing.T) {
	t.Parallel()
	p := registered(t)
	group := p.ns + ".example.com"
	p.content("content",
		fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: server}, spec: {ports: [{port: 443}]}}`, p.ns),
		fmt.Sprintf(`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.%[1]s},
spec: {group: %[1]s, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: %[2]s, name: server}}}`, group, p.ns),
		fmt.Sprintf(`{apiVersion: %s/v1, kind: Thing, metadata: {namespace: %s, name: one}}`, group, p.ns))
	p.mr("mr", "content")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "Thing"), HaveField("Status.Resources", HaveLen(3)))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "server"}}
	read(p, service)
	p.deleteMR("mr")
	p.awaitGone("mr")
	p.expectAbsent(service)
}
