package writers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const (
	definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.$ns.trellis.test}
spec: {group: $ns.trellis.test, scope: Namespaced, names: {kind: Thing, plural: things, singular: thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}
`
	instance = `apiVersion: $ns.trellis.test/v1
kind: Thing
metadata: {namespace: $ns-inner, name: one%s}
spec: {height: 3}
`
	inner     = "apiVersion: v1\nkind: Namespace\nmetadata: {name: $ns-inner}\n"
	insideOne = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: $ns-inner, name: inside%s}\ndata: {a: \"1\"}\n"
	guard     = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: $ns-guard}
webhooks:
- {name: a.trellis.test, clientConfig: {service: {namespace: $ns-inner, name: nothing}}, failurePolicy: Ignore, sideEffects: None, admissionReviewVersions: [v1],
   rules: [{apiGroups: [$ns.trellis.test], apiVersions: [v1], operations: [DELETE], resources: [nothings]}]}
`
)

// everything is a bundle in which almost every object depends on others, in an arbitrary order.
func everything(p place, finalizers string) []*unstructured.Unstructured {
	return p.objects(strings.Join([]string{guard, fmt.Sprintf(instance, finalizers), fmt.Sprintf(insideOne, finalizers), definition, inner}, "\n---\n"))
}

func TestBundleIsAppliedInOneRunWhateverItsOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	objects := everything(p, "")
	p.manage("mr", objects)
	p.awaitReady("mr")
	for _, v := range seen.Of(types.NamespacedName{Namespace: p.ns, Name: "mr"}) {
		p.Expect(condition(v.ManagedResource, resourcesv1alpha1.ConditionResourcesApplied)).NotTo(HavePrefix("False/"), "the first run succeeds")
	}
	position := map[string]int{}
	for i, e := range p.audit() {
		if e.Verb == "patch" && strings.Contains(e.RequestURI, p.ns) && e.Code == 201 {
			position[e.Resource] = i
		}
	}
	p.Expect(position).To(And(HaveLen(5), HaveKey("namespaces"), HaveKey("things")))
	p.Expect(position["namespaces"]).To(BeNumerically("<", position["configmaps"]))
	p.Expect(position["namespaces"]).To(BeNumerically("<", position["things"]))
	p.Expect(position["customresourcedefinitions"]).To(BeNumerically("<", position["things"]))
	p.Expect(position["things"]).To(BeNumerically("<", position["validatingwebhookconfigurations"]))
}

// Nothing is deleted before what needs it: the webhook before what it guards, the instance before its definition, the
// contents before their namespace. A finalizer of the test delays the others.
func TestDeletionGoesBackwards(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	objects := everything(p, ", finalizers: ["+blocker+"]")
	webhook, thing, inside, crd, namespace := objects[0], objects[1], objects[2], objects[3], objects[4]
	webhook.SetFinalizers([]string{blocker})
	p.manage("mr", objects)
	p.awaitReady("mr")
	p.Expect(source.Client.Delete(p.ctx, testbed.ManagedResource(p.ns, "mr"))).To(Succeed())

	going := func(obj *unstructured.Unstructured) func() bool {
		return func() bool {
			live, err := p.get(obj)
			return apierrors.IsNotFound(err) || err == nil && live.GetDeletionTimestamp() != nil
		}
	}
	mentions := func(obj *unstructured.Unstructured) {
		p.Eventually(func() string {
			return resourcesv1alpha1.GetCondition(p.mr("mr").Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied).Message
		}).Should(ContainSubstring(obj.GetKind()), func() string { return hub.Log.About(p.ns) })
	}
	p.Eventually(going(webhook)).Should(BeTrue())
	mentions(webhook)
	for _, other := range []*unstructured.Unstructured{thing, inside, crd, namespace} {
		p.Expect(going(other)()).To(BeFalse(), "the webhook is still there: "+other.GetKind())
	}
	p.unblock(webhook)
	p.Eventually(going(thing)).Should(BeTrue(), func() string { return hub.Log.About(p.ns) })
	mentions(thing)
	for _, other := range []*unstructured.Unstructured{crd, namespace} {
		p.Expect(going(other)()).To(BeFalse(), "the instance is still there: "+other.GetKind())
	}
	p.unblock(thing)
	p.Eventually(going(inside)).Should(BeTrue())
	p.Eventually(going(crd)).Should(BeTrue())
	mentions(inside)
	p.Expect(going(namespace)()).To(BeFalse(), "its content is still there")
	p.unblock(inside)
	p.Eventually(func() bool { // while an APIService of another test has no backend, the namespace controller fails and waits longer each time
		return apierrors.IsNotFound(source.Client.Get(p.ctx, client.ObjectKey{Namespace: p.ns, Name: "mr"}, &resourcesv1alpha1.ManagedResource{}))
	}).WithTimeout(5*time.Minute).Should(BeTrue(), func() string { return hub.Log.About(p.ns) })
	for _, obj := range objects[:4] {
		p.Expect(going(obj)()).To(BeTrue())
	}

	// The audit log has the same order: the first deletion of each.
	var order []string
	for _, e := range p.audit() {
		if e.Verb == "delete" && e.Code < 300 && strings.Contains(e.RequestURI, p.ns) && !slices.Contains(order, e.Resource) {
			order = append(order, e.Resource)
		}
	}
	p.Expect(order).To(HaveLen(5))
	p.Expect(order[0]).To(Equal("validatingwebhookconfigurations"))
	p.Expect(slices.Index(order, "things")).To(BeNumerically("<", slices.Index(order, "customresourcedefinitions")))
	p.Expect(order[4]).To(Equal("namespaces"))
}

func (p place) unblock(obj *unstructured.Unstructured) {
	p.t.Helper()
	p.mergePatch(obj, "another-client", `{"metadata":{"finalizers":null}}`)
}

// A failure stops only what needs the object. All failures are reported: twenty in full, the rest as a number.
func TestFailureStopsOnlyWhatNeedsTheObject(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const faulty = "apiVersion: v1\nkind: Service\nmetadata: {namespace: $ns, name: faulty-%02d}\nspec: {ports: [{port: 99999}]}\n"
	good := p.objects("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: $ns, name: good}\ndata: {a: \"1\"}\n---\n" +
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {namespace: $ns, name: good}\nrules: []\n---\n" +
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: $ns, name: good}\nspec: {replicas: 0, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: app, image: \"example.org/app:1\"}]}}}\n---\n" +
		strings.Replace(guard, "$ns-inner", "$ns", 1))
	dependent := p.objects("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: $ns-Wrong, name: dependent}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: $ns-Wrong}\n")
	objects := append(slices.Clone(good), dependent...)
	for i := range 25 {
		objects = append(objects, p.objects(fmt.Sprintf(faulty, i))...)
	}
	p.manage("mr", objects)
	message := func() string {
		c := resourcesv1alpha1.GetCondition(p.mr("mr").Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
		if c == nil || c.Status != resourcesv1alpha1.ConditionFalse || c.Reason != resourcesv1alpha1.ReasonApplyFailed {
			return fmt.Sprintf("%+v", c)
		}
		return c.Message
	}
	p.Eventually(message).Should(ContainSubstring("27 errors occurred: ["), func() string { return hub.Log.About(p.ns) })
	p.Expect(message()).To(HaveSuffix("... and 7 more]"))
	p.Expect(strings.Count(message(), "error during apply of object ")).To(Equal(20))
	for _, obj := range good {
		p.live(obj)
	}
	p.Expect(message()).To(MatchRegexp("(?i)(error during apply of object .* is invalid:)"), "what consumers look for")

	// One is mended, and the others still fail.
	p.manage("mr", append(slices.Clone(good), p.objects(strings.Replace(fmt.Sprintf(faulty, 0), "99999", "80", 1)+"\n---\n"+fmt.Sprintf(faulty, 1))...))
	p.Eventually(message).Should(And(ContainSubstring("1 error occurred: "), ContainSubstring("faulty-01")))
	p.live(p.objects(fmt.Sprintf(faulty, 0))[0])
}
