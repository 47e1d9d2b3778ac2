package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// informer is what an informer shows, which only changes when a test says so.
type informer struct {
	client.Reader
	shows *resourcesv1alpha1.ManagedResource
	gave  func() // called after something was given away
}

func (i *informer) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if i.shows == nil {
		return apierrors.NewNotFound(resourcesv1alpha1.GroupVersion.WithResource("managedresources").GroupResource(), key.Name)
	}
	mr, ok := obj.(*resourcesv1alpha1.ManagedResource)
	if !ok {
		return fmt.Errorf("there is no informer of %T", obj)
	}
	i.shows.DeepCopyInto(mr)
	if i.gave != nil {
		i.gave()
	}
	return nil
}

// The informer may show what was written in the very moment in which it is asked, after it has given away what it had.
func TestWhatIsShownWhileTheInformerIsAskedIsNotOverlooked(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "uid"}}
	key := client.ObjectKeyFromObject(mr)
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mr).WithStatusSubresource(mr).Build()
	g.Expect(server.Get(t.Context(), key, mr)).To(Succeed())
	seen := &informer{shows: mr.DeepCopy()}
	s := New(seen, server, func(*resourcesv1alpha1.ManagedResource) {})
	base := mr.DeepCopy()
	mr.Status.ObservedGeneration = 1
	g.Expect(s.Patch(t.Context(), base, mr, true)).To(Succeed())
	seen.gave = func() { s.Shown(mr) }
	g.Expect(s.Get(t.Context(), key)).To(HaveField("Status.ObservedGeneration", int64(1)))
}

func TestLateInformerDoesNotBringBackWhatWasLetGo(t *testing.T) {
	const finalizer = resourcesv1alpha1.FinalizerBase
	for name, letGo := range map[string]func(g Gomega, server client.Client, s *Store, mr *resourcesv1alpha1.ManagedResource){
		"by us": func(g Gomega, _ client.Client, s *Store, mr *resourcesv1alpha1.ManagedResource) {
			base := mr.DeepCopy()
			mr.Finalizers = nil
			g.Expect(s.Patch(t.Context(), base, mr, false)).To(Succeed())
		},
		"by another client": func(g Gomega, server client.Client, s *Store, mr *resourcesv1alpha1.ManagedResource) {
			other := mr.DeepCopy()
			other.Finalizers = nil
			g.Expect(server.Update(t.Context(), other)).To(Succeed())
			base := mr.DeepCopy()
			mr.Finalizers = nil
			g.Expect(s.Patch(t.Context(), base, mr, false)).To(MatchError(apierrors.IsNotFound, "NotFound"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
			mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "first", Finalizers: []string{finalizer}}}
			server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mr).Build()
			key := client.ObjectKeyFromObject(mr)
			g.Expect(server.Delete(t.Context(), mr)).To(Succeed())
			g.Expect(server.Get(t.Context(), key, mr)).To(Succeed())

			seen := &informer{shows: mr.DeepCopy()}
			s := New(seen, server, func(*resourcesv1alpha1.ManagedResource) {})
			found, err := s.Get(t.Context(), key)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.UID).To(BeEquivalentTo("first"))

			letGo(g, server, s, found)
			g.Expect(s.Get(t.Context(), key)).To(BeNil(), "although the informer still shows it")

			successor := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "second", ResourceVersion: "9999"}}
			seen.shows = successor
			found, err = s.Get(t.Context(), key)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.UID).To(BeEquivalentTo("second"))
		})
	}
}

func TestLateInformerDoesNotBringBackAPredecessor(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
	mr := func(uid, version string) *resourcesv1alpha1.ManagedResource {
		return &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: types.UID(uid), ResourceVersion: version}}
	}
	first, second := mr("first", "7"), mr("second", "12")
	s := New(&informer{shows: first}, fake.NewClientBuilder().WithScheme(scheme).Build(), func(*resourcesv1alpha1.ManagedResource) {})
	s.remember(second)
	found, err := s.Get(t.Context(), client.ObjectKeyFromObject(first))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.UID).To(BeEquivalentTo("second"))
}

// A write whose answer was lost may have been executed. Until the informer shows it, what it shows is not to be acted
// on: an object that was left alone and dropped from the inventory would be back in it, and deleted.
func TestLateInformerDoesNotHideAWriteWithoutAnswer(t *testing.T) {
	gr := resourcesv1alpha1.GroupVersion.WithResource("managedresources").GroupResource()
	for name, c := range map[string]struct {
		answer     error
		unexecuted bool
		asked      bool
	}{
		"the answer was lost":      {answer: errors.New("connection reset by peer"), asked: true},
		"it was not sent":          {answer: errors.New("connection refused"), unexecuted: true, asked: true},
		"the deadline passed":      {answer: context.DeadlineExceeded, asked: true},
		"the server took too long": {answer: apierrors.NewTimeoutError("late", 1), asked: true},
		"the server failed":        {answer: apierrors.NewInternalError(errors.New("broken")), asked: true},
		"another client wrote": {answer: apierrors.NewConflict(gr, "b", errors.New("modified")), unexecuted: true,
			asked: true},
		"the server has too much to do": {answer: apierrors.NewTooManyRequestsError("later"), unexecuted: true},
		"the server does not accept it": {answer: apierrors.NewBadRequest("nonsense"), unexecuted: true},
		"the server does not permit it": {answer: apierrors.NewForbidden(gr, "b", errors.New("no")), unexecuted: true},
		"the server executed it":        {},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
			mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "first"}}
			former := make([]resourcesv1alpha1.ObjectReference, 1)
			mr.Status.Resources = former
			lost := errors.New("no answer either")
			asked, down := 0, true
			server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mr).WithStatusSubresource(mr).WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, server client.Client, sub string, obj client.Object, patch client.Patch, o ...client.SubResourcePatchOption) error {
					if !c.unexecuted {
						if err := server.SubResource(sub).Patch(ctx, obj, patch, o...); err != nil {
							return err
						}
					}
					return c.answer
				},
				Get: func(ctx context.Context, server client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
					asked++
					if down {
						return lost
					}
					return server.Get(ctx, key, obj, o...)
				},
			}).Build()
			key := client.ObjectKeyFromObject(mr)
			down = false
			g.Expect(server.Get(t.Context(), key, mr)).To(Succeed())
			asked, down = 0, true

			s := New(&informer{shows: mr.DeepCopy()}, server, func(*resourcesv1alpha1.ManagedResource) {})
			base := mr.DeepCopy()
			mr.Status.Resources = nil
			if c.answer == nil {
				g.Expect(s.Patch(t.Context(), base, mr, true)).To(Succeed())
			} else {
				g.Expect(s.Patch(t.Context(), base, mr, true)).To(MatchError(c.answer))
			}
			if c.asked {
				_, err := s.Get(t.Context(), key)
				g.Expect(err).To(MatchError(lost), "its state is unknown")
				down = false
			}
			for range 2 {
				found, err := s.Get(t.Context(), key)
				g.Expect(err).NotTo(HaveOccurred())
				if c.unexecuted {
					g.Expect(found.Status.Resources).To(Equal(former))
				} else {
					g.Expect(found.Status.Resources).To(BeEmpty())
				}
			}
			if c.asked {
				g.Expect(asked).To(Equal(2), "no more than necessary")
			} else {
				g.Expect(asked).To(BeZero())
			}
		})
	}
}

// What was written is kept until the informer shows it, and not longer: it is as large as what the informer has.
func TestWhatTheInformerShowsIsNotKept(t *testing.T) {
	g := NewWithT(t)
	mr := func(version string) *resourcesv1alpha1.ManagedResource {
		return &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "uid", ResourceVersion: version}}
	}
	name := types.NamespacedName{Namespace: "a", Name: "b"}
	seen := &informer{shows: mr("7")}
	s := New(seen, fake.NewClientBuilder().Build(), func(*resourcesv1alpha1.ManagedResource) {})
	s.remember(mr("12"))
	s.Shown(mr("7"))
	s.Shown(mr("11"))
	g.Expect(s.Ahead(name)).NotTo(BeNil())
	found, err := s.Get(t.Context(), name)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.ResourceVersion).To(Equal("12"))
	for _, version := range []string{"12", "13"} {
		s.remember(mr("12"))
		s.Shown(mr(version))
		g.Expect(s.Ahead(name)).To(BeNil(), version)
	}
}

// A watch may be faster than the answer to the write that it shows, and does not show it again.
func TestWhatTheInformerShowedBeforeTheAnswerIsNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		late bool
		kept bool
	}{
		"what was written":      {},
		"what was there before": {late: true, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
			mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "uid"}}
			key := client.ObjectKeyFromObject(mr)
			var s *Store
			seen := &informer{}
			show := func(server client.Client) {
				now := &resourcesv1alpha1.ManagedResource{}
				g.Expect(server.Get(t.Context(), key, now)).To(Succeed())
				seen.shows = now
				s.Shown(now)
			}
			server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mr).WithStatusSubresource(mr).WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, server client.Client, sub string, obj client.Object, patch client.Patch, o ...client.SubResourcePatchOption) error {
					if c.late {
						show(server)
					}
					err := server.SubResource(sub).Patch(ctx, obj, patch, o...)
					if !c.late {
						show(server)
					}
					return err
				},
			}).Build()
			g.Expect(server.Get(t.Context(), key, mr)).To(Succeed())
			s = New(seen, server, func(*resourcesv1alpha1.ManagedResource) {})
			for generation := range 3 {
				base := mr.DeepCopy()
				mr.Status.ObservedGeneration = int64(generation) + 1
				g.Expect(s.Patch(t.Context(), base, mr, true)).To(Succeed())
				g.Expect(s.Ahead(key) != nil).To(Equal(c.kept))
				g.Expect(s.Get(t.Context(), key)).To(HaveField("Status.ObservedGeneration", mr.Status.ObservedGeneration))
			}
		})
	}
}
