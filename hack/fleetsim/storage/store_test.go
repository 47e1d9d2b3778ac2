package storage_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/hack/fleetsim/storage"
)

var (
	deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}
	secrets     = schema.GroupResource{Resource: "secrets"}
)

func put(s *storage.Store, u *unstructured.Unstructured) *storage.Object {
	return putInto(s, deployments, u)
}

func putInto(s *storage.Store, r schema.GroupResource, u *unstructured.Unstructured) *storage.Object {
	o, err := storage.New(u)
	if err != nil {
		panic(err)
	}
	_ = s.Write(func(tx storage.Tx) error {
		o = tx.Put(r, o)
		return nil
	})
	return o
}

func remove(s *storage.Store, key string) (version uint64) {
	_ = s.Write(func(tx storage.Tx) error {
		version = tx.Delete(deployments, key)
		return nil
	})
	return version
}

func named(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name, "uid": uuid.NewString()}}}
}

func keys(objects []*storage.Object) string {
	var all []string
	for _, o := range objects {
		all = append(all, fmt.Sprintf("%s@%d", o.Key(), o.Version()))
	}
	return strings.Join(all, " ")
}

func TestListsAreInTheOrderOfKeysAndOfOneVersion(t *testing.T) {
	g := NewWithT(t)
	s := storage.NewStore(100)
	for _, key := range []string{"b/one", "a/two", "a-b/three", "a/one", "b/two"} {
		namespace, name, _ := strings.Cut(key, "/")
		put(s, named(namespace, name))
	}
	list := func(namespace string, at uint64) string {
		objects, _, err := s.List(deployments, namespace, at)
		g.Expect(err).NotTo(HaveOccurred())
		return keys(objects)
	}
	g.Expect(list("", 0)).To(Equal("a-b/three@4 a/one@5 a/two@3 b/one@2 b/two@6"))
	g.Expect(list("a", 0)).To(Equal("a/one@5 a/two@3"))
	g.Expect(list("c", 0)).To(BeEmpty())

	put(s, named("a", "one"))
	remove(s, "a-b/three")
	put(s, named("a", "one"))
	remove(s, "b/one")
	put(s, named("b", "one"))
	g.Expect(list("", 0)).To(Equal("a/one@9 a/two@3 b/one@11 b/two@6"))
	g.Expect(list("", 6)).To(Equal("a-b/three@4 a/one@5 a/two@3 b/one@2 b/two@6"))
	g.Expect(list("", 7)).To(Equal("a-b/three@4 a/one@7 a/two@3 b/one@2 b/two@6"))
	g.Expect(list("b", 10)).To(Equal("b/two@6"))
	g.Expect(list("", 3)).To(Equal("a/two@3 b/one@2"))
	g.Expect(s.Count()).To(Equal(4))

	s.Expire()
	_, _, err := s.List(deployments, "", 10)
	g.Expect(err).To(MatchError(storage.ErrExpired))
	g.Expect(list("", 11)).To(Equal("a/one@9 a/two@3 b/one@11 b/two@6"))
}

// drain reads what a watch has by now.
func drain(g *WithT, w *storage.Watch) (events []string, changed <-chan struct{}) {
	for {
		batch, _, next, err := w.Next(nil)
		g.Expect(err).NotTo(HaveOccurred())
		if len(batch) == 0 {
			return events, next
		}
		for _, e := range batch {
			o := e.Object
			if o == nil {
				o = e.Before
			}
			events = append(events, fmt.Sprintf("%c%d %s", e.Type(), e.Version, o.Key()))
		}
	}
}

func TestAWatchSeesEveryEventOfItsResourceOnce(t *testing.T) {
	g := NewWithT(t)
	s := storage.NewStore(1000)
	put(s, named("a", "before"))
	objects, w, err := s.ListAndWatch(deployments, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(keys(objects)).To(Equal("a/before@2"))
	events, changed := drain(g, w)
	g.Expect(events).To(BeEmpty())
	g.Expect(changed).NotTo(BeClosed())

	putInto(s, secrets, named("a", "other"))
	g.Expect(changed).NotTo(BeClosed(), "another resource")
	put(s, named("a", "one"))
	g.Expect(changed).To(BeClosed())
	put(s, named("a", "one"))
	g.Expect(remove(s, "a/one")).To(BeEquivalentTo(6))
	g.Expect(remove(s, "a/one")).To(BeEquivalentTo(6), "nothing to delete")
	for i := range 200 {
		put(s, named("b", fmt.Sprint(i)))
	}
	events, _ = drain(g, w)
	g.Expect(events[:3]).To(Equal([]string{"A4 a/one", "M5 a/one", "D6 a/one"}))
	g.Expect(events).To(HaveLen(203))
	g.Expect(w.Version()).To(Equal(s.Version()))

	old, err := s.Watch(deployments, 4)
	g.Expect(err).NotTo(HaveOccurred())
	events, _ = drain(g, old)
	g.Expect(events).To(HaveLen(202))
}

func TestEventsAreKeptForAWhileOnly(t *testing.T) {
	g := NewWithT(t)
	s := storage.NewStore(8)
	slow, err := s.Watch(deployments, 0)
	g.Expect(err).NotTo(HaveOccurred())
	quiet, err := s.Watch(secrets, 0)
	g.Expect(err).NotTo(HaveOccurred())
	for i := range 30 {
		put(s, named("a", fmt.Sprint(i)))
	}
	_, _, _, err = slow.Next(nil)
	g.Expect(err).To(MatchError(storage.ErrSlow))
	events, _ := drain(g, quiet)
	g.Expect(events).To(BeEmpty(), "another resource's events do not count")
	_, err = s.Watch(deployments, 2)
	g.Expect(err).To(MatchError(storage.ErrExpired))
	recent, err := s.Watch(deployments, s.Version()-8)
	g.Expect(err).NotTo(HaveOccurred())
	events, _ = drain(g, recent)
	g.Expect(events).To(HaveLen(8))
}

func TestWatchesEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(*storage.Store)
		err   error
		later error // of a watch that begins afterwards
	}{
		"when the store expires its events": {(*storage.Store).Expire, storage.ErrExpired, nil},
		"when they are ended":               {(*storage.Store).EndWatches, storage.ErrEnded, nil},
		"when the store is closed":          {(*storage.Store).Close, storage.ErrEnded, storage.ErrEnded},
		"when their resource is dropped": {func(s *storage.Store) {
			_ = s.Write(func(tx storage.Tx) error {
				tx.Drop(deployments)
				return nil
			})
		}, storage.ErrEnded, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := storage.NewStore(10)
			w, err := s.Watch(deployments, 0)
			g.Expect(err).NotTo(HaveOccurred())
			_, changed := drain(g, w)
			c.end(s)
			g.Expect(changed).To(BeClosed())
			_, _, _, err = w.Next(nil)
			g.Expect(err).To(MatchError(c.err))

			w, err = s.Watch(deployments, 0)
			g.Expect(err).NotTo(HaveOccurred())
			_, _, _, err = w.Next(nil)
			if c.later == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(c.later))
			}
		})
	}
}

func TestASnapshotIsLoadedWithNewIdentities(t *testing.T) {
	g := NewWithT(t)
	from := storage.NewStore(10)
	owner := named("a", "owner")
	put(from, owner)
	owned := deployment("a", "owned")
	owned.Object["metadata"].(map[string]any)["ownerReferences"] = []any{ //nolint:errcheck // it is one
		map[string]any{"uid": string(owner.GetUID()), "name": "owner"}, map[string]any{"uid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "name": "elsewhere"},
	}
	put(from, owned)
	put(from, named("a", "kept"))
	snapshot := from.Snapshot()
	g.Expect(snapshot.Count()).To(Equal(3))

	to := storage.NewStore(10)
	kept := put(to, named("a", "kept"))
	running, err := to.Watch(deployments, 0)
	g.Expect(err).NotTo(HaveOccurred())
	n := byte(0)
	to.Load(snapshot, func() uuid.UUID { n++; return uuid.UUID{15: n} })

	g.Expect(to.Count()).To(Equal(3))
	g.Expect(to.Get(deployments, "a/kept").UID()).To(Equal(kept.UID()))
	loaded := to.Get(deployments, "a/owned").Unstructured(deploymentKind)
	g.Expect(loaded.GetOwnerReferences()[0].UID).To(Equal(to.Get(deployments, "a/owner").UID()))
	g.Expect(loaded.GetOwnerReferences()[1].UID).To(BeEquivalentTo("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
	g.Expect(loaded.GetUID()).NotTo(Equal(owned.GetUID()))
	g.Expect(loaded.GetLabels()).To(Equal(owned.GetLabels()))
	_, _, _, err = running.Next(nil)
	g.Expect(err).To(MatchError(storage.ErrExpired))
	last := to.Get(deployments, "a/kept").Version()
	g.Expect(to.Version()).To(BeNumerically(">=", last))
	g.Expect(put(to, named("a", "next")).Version()).To(BeNumerically(">", last))
	g.Expect(from.Get(deployments, "a/owner").UID()).To(Equal(owner.GetUID()), "the snapshot is as it was")
}
