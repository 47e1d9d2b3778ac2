package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// definition is the manifest of a kind whose status is written apart from the rest.
func definition(group, version, kind string) string {
	singular := strings.ToLower(kind)
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.%[2]s, annotations: {api-approved.kubernetes.io: "unapproved, a test"}}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[1]ss, singular: %[1]s}
  versions:
  - name: %[4]s
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`, singular, group, kind, version)
}

// The definition of a kind and an object of it come together, and the test is the controller of the kind.
func TestCustomResource(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	group := p.ns + ".example.org"
	documents := func(size int) string {
		return definition(group, "v1", "Widget") + fmt.Sprintf("\n---\napiVersion: %s/v1\nkind: Widget\nmetadata: {namespace: $ns, name: w}\nspec: {size: %d}", group, size)
	}
	w := p.manage("mr", documents(1))[1]
	p.awaitReady("mr") // it says nothing of itself: it exists

	status := func(fields string) { p.patchStatus(w, `{"status":{`+fields+`}}`) }
	condition := func(t, status string) string {
		return fmt.Sprintf(`{"type":%q,"status":%q,"reason":"%sBecause","message":"because of %s","lastTransitionTime":"2026-01-01T00:00:00Z"}`, t, status, t, strings.ToLower(t))
	}
	because := func(t string) OmegaMatcher {
		return And(HavePrefix("Widget."+group+" "+p.ns+"/w "), ContainSubstring(t+"Because"), ContainSubstring("because of "+strings.ToLower(t)))
	}

	status(`"conditions":[` + condition("Ready", "False") + `]`)
	p.awaitMessage("mr", healthy, "False/WidgetUnhealthy", because("Ready"))
	p.awaitMessage("mr", ready, "False/WidgetUnhealthy", because("Ready"))
	status(`"observedGeneration":1,"conditions":[` + condition("Ready", "True") + `]`)
	p.awaitReady("mr")
	status(`"conditions":[` + condition("Ready", "Unknown") + `]`)
	p.awaitMessage("mr", progressing, "True/WidgetProgressing", because("Ready"))
	status(`"conditions":[` + condition("Ready", "True") + `,` + condition("Reconciling", "True") + `]`)
	p.awaitMessage("mr", progressing, "True/WidgetProgressing", because("Reconciling"))
	p.await("mr", isHealthy, "True/WidgetProgressing")
	status(`"conditions":[` + condition("Ready", "False") + `,` + condition("Stalled", "True") + `]`)
	p.awaitMessage("mr", healthy, "False/WidgetUnhealthy", because("Stalled"))
	status(`"conditions":[` + condition("Ready", "True") + `]`)
	p.awaitReady("mr")

	// What it says of an older generation says nothing of this one.
	r := p.roll("mr", documents(2))
	p.await("mr", "False/WidgetUnhealthy", "True/WidgetProgressing")
	r.refute(saysHealthy, saysRolledOut, saysReady)
	status(`"observedGeneration":2,"conditions":[` + condition("Ready", "False") + `]`)
	p.awaitMessage("mr", healthy, "False/WidgetUnhealthy", because("Ready"))
	r.refute(saysHealthy, saysReady)
	status(`"observedGeneration":2,"conditions":[` + condition("Ready", "True") + `]`)
	p.awaitReady("mr")

	// H-25: objects that opt out of health checks are not checked.
	status(`"conditions":[` + condition("Stalled", "True") + `]`)
	p.await("mr", "False/WidgetUnhealthy", Not(BeEmpty()))
	p.patch(w, `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":"true"}}}`)
	p.awaitReady("mr")
	p.patch(w, `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":null}}}`)
	p.await("mr", "False/WidgetUnhealthy", Not(BeEmpty()))

	// A user deletes it, and its controller takes some time.
	status(`"conditions":[` + condition("Ready", "True") + `]`)
	p.awaitReady("mr")
	p.patch(w, `{"metadata":{"finalizers":["`+finalizer+`"]}}`)
	p.Expect(p.target.Client.Delete(p.ctx, w.DeepCopy())).To(Succeed())
	p.awaitMessage("mr", progressing, "True/WidgetProgressing", ContainSubstring("deleted"))
	uid := p.live(w).GetUID()
	p.patch(w, `{"metadata":{"finalizers":null}}`)
	p.Eventually(func() bool {
		again := w.DeepCopy()
		return p.target.Client.Get(p.ctx, client.ObjectKeyFromObject(w), again) == nil && again.GetUID() != uid
	}).Should(BeTrue())
	p.awaitReady("mr")
}

// H-9, H-12 and H-13 of the kinds that operators bring, each with the two ways in which it is not rolled out.
func TestH12_KindsOfOperators(t *testing.T) {
	t.Parallel()
	const monitoring, certificates = "monitoring.coreos.com", "cert.gardener.cloud"
	replicated := func(reconciled string, updated int) string {
		return fmt.Sprintf(`{"status":{"availableReplicas":2,"updatedReplicas":%d,"conditions":[{"type":"Available","status":"True","observedGeneration":1},{"type":"Reconciled","status":%q,"observedGeneration":1}]}}`, updated, reconciled)
	}
	certified := func(generation int) string {
		return fmt.Sprintf(`{"status":{"state":"Ready","observedGeneration":%d,"conditions":[{"type":"Ready","status":"True"}]}}`, generation)
	}
	kinds := []struct {
		group, version, kind string
		good, late, sick     string
	}{
		{monitoring, "v1", "Prometheus", replicated("True", 2), replicated("True", 1), `{"status":{"availableReplicas":1}}`},
		{monitoring, "v1", "Alertmanager", replicated("True", 2), replicated("False", 2), `{"status":{"availableReplicas":1}}`},
		{certificates, "v1alpha1", "Certificate", certified(1), certified(0), `{"status":{"state":"Error"}}`},
		{certificates, "v1alpha1", "Issuer", certified(1), certified(0), `{"status":{"state":"Error"}}`},
		{"autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", `{"status":{"conditions":[{"type":"ConfigUnsupported","status":"False"}]}}`, "", `{"status":{"conditions":[{"type":"ConfigUnsupported","status":"True"}]}}`},
	}
	p := newPlace(t)
	for _, k := range kinds { // each in a ManagedResource of its own: one that keeps changing is written less often
		mr := strings.ToLower(k.kind)
		object := p.manage(mr, definition(k.group, k.version, k.kind)+fmt.Sprintf(
			"\n---\napiVersion: %s/%s\nkind: %s\nmetadata: {namespace: $ns, name: a}\nspec: {replicas: 2}", k.group, k.version, k.kind))[1]
		p.Eventually(func() error { return p.tryPatchStatus(object, k.good) }).Should(Succeed())
		p.awaitReady(mr)
		if k.late != "" {
			p.patchStatus(object, k.late)
			p.await(mr, isHealthy, "True/"+k.kind+"Progressing")
		}
		p.patchStatus(object, k.good)
		p.awaitReady(mr)
		p.patchStatus(object, k.sick)
		p.await(mr, "False/"+k.kind+"Unhealthy", isRolledOut)
		// H-14
		p.patch(object, `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":"true"}}}`)
		p.awaitReady(mr)
		p.patch(object, `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":null}}}`)
		p.await(mr, "False/"+k.kind+"Unhealthy", isRolledOut)
		p.patchStatus(object, k.good)
		p.awaitReady(mr)
	}
}

// A load balancer that is not provisioned has a reason: the last warnings are those of the cloud's controller.
func TestLoadBalancerWithWarnings(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	warn := func(i int, kind, object, what string) {
		at := metav1.NewTime(time.Now().Add(time.Duration(i-100) * time.Minute))
		p.Expect(p.target.Client.Create(p.ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: p.ns, Name: fmt.Sprintf("event-%s-%d", strings.ToLower(object), i)},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: p.ns, Name: object},
			Type:           kind, Reason: "SyncLoadBalancerFailed", Message: what, Count: 1, FirstTimestamp: at, LastTimestamp: at,
			Source: corev1.EventSource{Component: "service-controller"},
		})).To(Succeed())
	}
	for i := range 7 {
		warn(i, corev1.EventTypeWarning, "balancer", fmt.Sprintf("no quota in zone-%d", i))
	}
	warn(8, corev1.EventTypeNormal, "balancer", "ensuring it")
	warn(9, corev1.EventTypeWarning, "other", "of another service")

	service := p.manage("mr", `apiVersion: v1
kind: Service
metadata: {namespace: $ns, name: balancer}
spec: {type: LoadBalancer, selector: {app: a}, ports: [{port: 80}]}`)[0]
	p.awaitMessage("mr", healthy, "False/ServiceUnhealthy", And(
		HavePrefix("Service "+p.ns+"/balancer "), ContainSubstring("service-controller"),
		ContainSubstring("zone-2"), ContainSubstring("zone-6"), Not(ContainSubstring("zone-1")),
		Not(ContainSubstring("ensuring it")), Not(ContainSubstring("another service")),
	))
	p.await("mr", "False/ServiceUnhealthy", isRolledOut)
	p.patchStatus(service, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)
	p.awaitReady("mr")
}
