package secretindex

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

func named(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "7"}}
}

// The reflector keeps a list until it is complete. What nobody refers to is not kept, and a reference that comes meanwhile
// is not taken for one to a Secret that does not exist.
func TestListOfMostlyForeignSecrets(t *testing.T) {
	g := NewWithT(t)
	x := New(nil, nil)
	var told []string
	x.SetHandler(func(mr types.NamespacedName) { told = append(told, mr.Name) })
	refer := func(to string) {
		x.setRefs(&resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "of-" + to},
			Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: to}}},
		})
	}
	version := func(name string) any {
		v, known := x.Get(types.NamespacedName{Namespace: "ns", Name: name})
		if !known {
			return "unknown"
		}
		return string(v.UID)
	}
	s := &store{index: x}
	list := func(between func(at int), names ...string) {
		kept := toolscache.NewStore(toolscache.DeletionHandlingMetaNamespaceKeyFunc, toolscache.WithTransformer(s.Transformer()))
		for i, name := range names {
			g.Expect(kept.Add(named(name))).To(Succeed())
			if between != nil {
				between(i)
			}
		}
		whole := slices.DeleteFunc(kept.List(), func(obj any) bool { return obj == foreign })
		g.Expect(len(whole)).To(BeNumerically("<=", 3), "of foreign ones, only the name is kept")
		g.Expect(s.Replace(kept.List(), "9")).To(Succeed())
	}
	all := []string{"early"}
	for i := range 100 {
		all = append(all, fmt.Sprint("foreign-", i))
	}
	refer("early")
	refer("missing")
	list(func(at int) {
		if at == 50 {
			refer("foreign-10") // was read before
			refer("foreign-90") // is yet to be read
			refer("nowhere")
		}
	}, all...)
	g.Expect(x.Synced()).To(BeTrue())
	g.Expect(version("early")).To(Equal("early"))
	g.Expect(version("missing")).To(Equal(""), "it does not exist")
	g.Expect(version("foreign-90")).To(Equal("foreign-90"))
	for _, late := range []string{"foreign-10", "nowhere"} {
		g.Expect(version(late)).To(Equal("unknown"))
		g.Expect(told).To(ContainElement("of-"+late), "who refers to it reads it")
	}

	list(nil, all...) // the next one knows of all references
	g.Expect(version("foreign-10")).To(Equal("foreign-10"))
	g.Expect(version("nowhere")).To(Equal(""))
	g.Expect(version("foreign-11")).To(Equal("unknown"))

	g.Expect(s.Replace(nil, "11")).To(Succeed()) // there are none any more, or it was not read object by object
	g.Expect(version("early")).To(Equal(""))
}
