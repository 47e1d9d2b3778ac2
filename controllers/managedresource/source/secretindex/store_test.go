package secretindex

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

func named(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "7"}}
}

// pages are the Secrets of a source, of which List returns pages of ten.
type pages struct {
	metadata.ResourceInterface
	names   []string
	between func(at int) // is called before the Secret with this index is read
	limits  []int64
}

func (p *pages) List(_ context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	const size = 10
	p.limits = append(p.limits, o.Limit)
	if o.ResourceVersion != "" {
		return nil, errors.New("this answer would not come in pages")
	}
	from := 0
	if o.Continue != "" {
		from, _ = strconv.Atoi(o.Continue)
	}
	page := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}}
	for at := from; at < min(from+size, len(p.names)); at++ {
		if p.between != nil {
			p.between(at)
		}
		page.Items = append(page.Items, *named(p.names[at]))
	}
	if from+size < len(p.names) {
		page.Continue = strconv.Itoa(from + size)
	}
	return page, nil
}

// The reflector keeps a list until it is complete. Secrets without a reference are not kept, and a reference that comes
// meanwhile is not taken for one to a Secret that does not exist.
func TestListOfMostlyForeignSecrets(t *testing.T) {
	g := NewWithT(t)
	x := New(nil, nil)
	var notified []string
	x.SetHandler(func(mr types.NamespacedName) { notified = append(notified, mr.Name) })
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
		source := &pages{names: names, between: between}
		listed, err := s.list(t.Context(), source, metav1.ListOptions{ResourceVersion: "0"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(listed.ResourceVersion).To(Equal("9"))
		g.Expect(listed.Continue).To(BeEmpty())
		g.Expect(len(listed.Items)).To(BeNumerically("<=", 3), "of foreign ones, nothing is kept")
		g.Expect(source.limits).To(HaveEach(BeNumerically(">", 0)))
		g.Expect(s.Replace(kept(listed), listed.ResourceVersion)).To(Succeed())
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
		g.Expect(notified).To(ContainElement("of-"+late), "the ManagedResource that refers to it has to read it")
	}

	list(nil, all...) // the next one knows of all references
	g.Expect(version("foreign-10")).To(Equal("foreign-10"))
	g.Expect(version("nowhere")).To(Equal(""))
	g.Expect(version("foreign-11")).To(Equal("unknown"))

	list(nil) // there are none any longer
	g.Expect(version("early")).To(Equal(""))
}

// kept returns what a reflector makes of a list.
func kept(list *metav1.PartialObjectMetadataList) (items []any) {
	for i := range list.Items {
		items = append(items, &list.Items[i])
	}
	return items
}

// If a Secret is referred to and read while a list is read, no event shows that it was deleted before the list was
// complete.
func TestSecretThatGoesWhileAListIsReadIsReadAgain(t *testing.T) {
	g := NewWithT(t)
	x := New(nil, nil)
	var notified []types.NamespacedName
	x.SetHandler(func(mr types.NamespacedName) { notified = append(notified, mr) })
	secret, mr := types.NamespacedName{Namespace: "ns", Name: "late"}, types.NamespacedName{Namespace: "ns", Name: "mr"}
	refer := func(secret string) {
		x.setRefs(&resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Namespace: mr.Namespace, Name: mr.Name},
			Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: secret}}},
		})
	}
	s := &store{index: x}
	read := func(between func()) {
		source := &pages{names: []string{"foreign"}, between: func(int) { between() }}
		listed, err := s.list(t.Context(), source, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.Replace(kept(listed), "9")).To(Succeed())
	}
	read(func() {
		refer(secret.Name)
		x.Begin(secret).Found(Version{UID: "late", ResourceVersion: "8"})
		notified = nil
	})
	g.Expect(notified).To(ConsistOf(mr))
	_, known := x.Get(secret)
	g.Expect(known).To(BeFalse())

	// The next list begins when the reference is known, so it says for certain that the Secret is gone.
	read(func() {})
	version, known := x.Get(secret)
	g.Expect(known).To(BeTrue())
	g.Expect(version.Exists()).To(BeFalse())
}

// A list that fails leaves what is known.
func TestListThatFailsIsNoList(t *testing.T) {
	g := NewWithT(t)
	x := New(nil, nil)
	_, err := (&store{index: x}).list(t.Context(), failing{}, metav1.ListOptions{})
	g.Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "the reflector knows what to do about it")
	g.Expect(x.Synced()).To(BeFalse())
}

type failing struct{ metadata.ResourceInterface }

func (failing) List(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return nil, apierrors.NewResourceExpired("compacted")
}
