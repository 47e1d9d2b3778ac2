package secretindex

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

func named(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "7"}}
}

// untilBookmark returns what a reflector gets of a list.
func untilBookmark(w watch.Interface) (got []any) {
	for event := range w.ResultChan() {
		if event.Type == watch.Bookmark {
			break
		}
		got = append(got, event.Object)
	}
	return got
}

// The reflector keeps a list until it is complete. What nobody refers to is not kept, and a reference that comes
// meanwhile is not taken for one to a Secret that does not exist.
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
		source := watch.NewFake()
		w := s.begin(source)
		defer w.Stop()
		go func() {
			for i, name := range names {
				source.Add(named(name))
				if between != nil {
					between(i)
				}
			}
			source.Action(watch.Bookmark, named(""))
		}()
		kept := untilBookmark(w)
		g.Expect(len(kept)).To(BeNumerically("<=", 3), "of foreign ones, nothing is kept")
		g.Expect(s.Replace(kept, "9")).To(Succeed())
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

// Of a Secret that is referred to and read while a list is, nobody hears that it was deleted before the list was
// complete.
func TestSecretThatGoesWhileAListIsReadIsReadAgain(t *testing.T) {
	g := NewWithT(t)
	x := New(nil, nil)
	var told []types.NamespacedName
	x.SetHandler(func(mr types.NamespacedName) { told = append(told, mr) })
	secret, mr := types.NamespacedName{Namespace: "ns", Name: "late"}, types.NamespacedName{Namespace: "ns", Name: "mr"}
	refer := func(secret string) {
		x.setRefs(&resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Namespace: mr.Namespace, Name: mr.Name},
			Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: secret}}},
		})
	}
	s := &store{index: x}
	source := watch.NewFake()
	defer s.begin(source).Stop()
	refer(secret.Name)
	x.Begin(secret).Found(Version{UID: "late", ResourceVersion: "8"})
	told = nil
	g.Expect(s.Replace(nil, "9")).To(Succeed())
	g.Expect(told).To(ConsistOf(mr))
	_, known := x.Get(secret)
	g.Expect(known).To(BeFalse())

	// A list that has the foreign ones, too, says for certain that it is gone. One comes where a stream has failed.
	s.begin(watch.NewFake()).Stop()
	refer("later")
	s.whole()
	g.Expect(s.Replace(nil, "11")).To(Succeed())
	version, known := x.Get(types.NamespacedName{Namespace: "ns", Name: "later"})
	g.Expect(known).To(BeTrue())
	g.Expect(version.Exists()).To(BeFalse())
}

// A reflector that hears of nothing for long takes the watch for one that does not work.
func TestSomeForeignSecretsAreTold(t *testing.T) {
	g := NewWithT(t)
	s := &store{index: New(nil, nil)}
	source := watch.NewFakeWithChanSize(5*seldom, false)
	w := s.begin(source)
	for i := range 3*seldom + 1 {
		source.Add(named(fmt.Sprint(i)))
	}
	source.Action(watch.Bookmark, named(""))
	told := untilBookmark(w)
	w.Stop()
	g.Expect(told).To(HaveLen(3))
	g.Expect(s.Replace(told, "9")).To(Succeed())
}

func TestForeignSecretsAreToldAfterTheList(t *testing.T) {
	g := NewWithT(t)
	x := New(nil, nil)
	x.setRefs(&resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mr"},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: "own"}}},
	})
	source := watch.NewFake()
	w := (&store{index: x}).begin(source)
	go func() {
		source.Add(named("foreign"))
		source.Add(named("own"))
		source.Action(watch.Bookmark, named(""))
		source.Add(named("later"))
		source.Delete(named("own"))
	}()
	var told []string
	for range 4 {
		event := <-w.ResultChan()
		secret, err := meta.Accessor(event.Object)
		g.Expect(err).NotTo(HaveOccurred())
		told = append(told, fmt.Sprint(event.Type, " ", secret.GetName()))
	}
	g.Expect(told).To(Equal([]string{"ADDED own", "BOOKMARK ", "ADDED later", "DELETED own"}))
	w.Stop()
	g.Eventually(w.ResultChan()).Should(BeClosed())
	w.Stop()
}

// The reflector stops a watch that it does not read any more.
func TestWatchEndsWhileAnEventIsUnderWay(t *testing.T) {
	g := NewWithT(t)
	source := watch.NewFake()
	w := (&store{index: New(nil, nil)}).begin(source)
	source.Modify(named("foreign"))
	w.Stop()
	g.Eventually(func() bool {
		select {
		case _, open := <-w.ResultChan():
			return !open
		default:
			return false
		}
	}).Should(BeTrue())

	source = watch.NewFake()
	w = (&store{index: New(nil, nil)}).begin(source)
	source.Stop() // as a server does
	g.Eventually(w.ResultChan()).Should(BeClosed())
}
