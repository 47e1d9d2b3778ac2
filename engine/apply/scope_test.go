package apply_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/engine/apply"
)

// The kind was not known when the object was planned, so that it got a namespace, and it is now. Under the key of the
// plan it would be recorded as an object that does not exist.
func TestObjectThatWasPlannedWithANamespaceItCannotHaveIsNotApplied(t *testing.T) {
	g := NewWithT(t)
	priority := manifest(t, fmt.Sprintf("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: %s}, value: 7}", namespace(t)))
	planned, err := apply.Prepare(t.Context(), priority, nil, meta.MultiRESTMapper{}, nil, marks)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(planned.Key.Namespace).To(Equal("default"))
	out := applier.Run(t.Context(), access, []apply.Intent{planned.Intent}, nil)[0]
	g.Expect(out.Err).To(MatchError(ContainSubstring("cluster-scoped")))
	g.Expect(out.UID).To(BeEmpty())
	absent := &unstructured.Unstructured{}
	absent.SetGroupVersionKind(priority.GroupVersionKind())
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(priority), absent)).To(Satisfy(apierrors.IsNotFound))

	again := prepare(t, priority)
	g.Expect(again[0].Key.Namespace).To(BeEmpty())
	g.Expect(applier.Run(t.Context(), access, again, nil)[0].Err).NotTo(HaveOccurred())
	g.Expect(live(t, priority).Object["value"]).To(BeEquivalentTo(7))
}
