package prune_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/prune"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// aggregated is a bundle with an aggregated API of a group of its own, whose server does not answer: the APIService,
// its Service, and a Thing with a UID.
func aggregated(t *testing.T, group string, uid types.UID) (prune.Target, []resourcesv1alpha1.ObjectReference) {
	t.Helper()
	g := NewWithT(t)
	ns := testbed.Namespace(t, nil, cluster)
	target := pooled(t, time.Millisecond)
	own := `annotations: {resources.gardener.cloud/origin: ` + origin + `}`
	var refs []resourcesv1alpha1.ObjectReference
	made := func(obj *unstructured.Unstructured) {
		refs = append(refs, reference(obj.GetAPIVersion(), obj.GetKind(), obj.GetNamespace(), obj.GetName(), obj.GetUID()))
	}
	made(create(g, fmt.Sprintf(`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.%[1]s, %[2]s},
spec: {group: %[1]s, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: %[3]s, name: server}}}`, group, own, ns)))
	made(create(g, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: server, %s}, spec: {ports: [{port: 443}]}}`, ns, own)))
	thing := reference(group+"/v1", "Thing", ns, "a", uid)
	g.Eventually(func() prune.Outcome { return outcomeOf(t, target, thing) }).Should(SatisfyAll(
		HaveField("Result", prune.Pending), HaveField("Reason", ContainSubstring("APIService v1."+group+" is not available ("))))
	return target, append(refs, thing)
}

// of returns the outcome of the object of a kind.
func of(outcomes []prune.Outcome, kind string) prune.Outcome {
	for _, o := range outcomes {
		if o.Key.Kind == kind {
			return o
		}
	}
	return prune.Outcome{}
}

// While an APIService is not available, no namespace of the target can be deleted. It must not wait for an object
// that could never be created because of that.
func TestObjectThatWasNeverCreatedHoldsNothingBack(t *testing.T) {
	g := NewWithT(t)
	target, refs := aggregated(t, "never.example.com", "")
	out := prune.Objects(t.Context(), target, refs, policy)
	g.Expect(of(out, "APIService").Result).To(Equal(prune.Gone))
	g.Expect(of(out, "Service").Result).To(Equal(prune.Gone))
	g.Expect(of(out, "Thing")).To(SatisfyAll(HaveField("Result", prune.Pending), HaveField("Err", HaveOccurred())))
	g.Eventually(func() prune.Result { return of(prune.Objects(t.Context(), target, refs, policy), "Thing").Result }).Should(Equal(prune.Gone))
}

// An object that exists is waited for, as long as its server may come back.
func TestObjectBehindAServerThatIsAwayIsWaitedFor(t *testing.T) {
	g := NewWithT(t)
	target, refs := aggregated(t, "away.example.com", "uid-of-thing")
	out := prune.Objects(t.Context(), target, refs, policy)
	g.Expect(of(out, "APIService")).To(SatisfyAll(HaveField("Result", prune.Pending), HaveField("Reason", HavePrefix("waits for Thing.away.example.com "))))
	g.Expect(of(out, "Service").Result).To(Equal(prune.Pending))
	g.Expect(of(out, "Thing").Reason).To(ContainSubstring(resourcesv1alpha1.ForceDeletionAnnotation))

	forced := policy
	forced.Forced = true
	out = prune.Objects(t.Context(), target, refs, forced)
	g.Expect(of(out, "APIService").Result).To(Equal(prune.Gone))
	g.Expect(of(out, "Service").Result).To(Equal(prune.Gone))
	g.Expect(of(out, "Thing")).To(SatisfyAll(HaveField("Result", prune.Kept), HaveField("Released", true), HaveField("Err", BeNil())))
}
