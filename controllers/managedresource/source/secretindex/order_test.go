package secretindex_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/secretindex"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// ordered is an index whose events come when the test says so. An event has been handled when the call
// returns.
type ordered struct {
	*WithT
	*secretindex.Index
	mrs     *controllertest.FakeInformer
	secrets *watch.FakeWatcher
	names   []string
	mu      sync.Mutex
}

// inOrder runs a test with an index that has seen an empty list of Secrets at version 10.
func inOrder(t *testing.T, test func(o *ordered)) {
	synctest.Test(t, func(t *testing.T) {
		o := &ordered{WithT: NewWithT(t), secrets: watch.NewFakeWithOptions(watch.FakeOptions{})}
		scheme := testbed.Scheme()
		informers := &informertest.FakeInformers{Scheme: scheme}
		var err error
		o.mrs, err = informers.FakeInformerFor(t.Context(), &resourcesv1alpha1.ManagedResource{})
		o.Expect(err).NotTo(HaveOccurred())
		client := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
		client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "10"}}, nil
		})
		client.PrependWatchReactor("secrets", clienttesting.DefaultWatchReactor(o.secrets, nil))
		o.Index = secretindex.New(client, informers)
		o.SetHandler(func(mr types.NamespacedName) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.names = append(o.names, mr.Name)
		})
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { _ = o.Start(ctx) })
		synctest.Wait()
		o.Expect(o.Synced()).To(BeTrue())
		test(o)
		cancel()
		done.Wait()
	})
}

const secret = "content"

func (o *ordered) refers(mr string, secrets ...string) {
	obj := testbed.ManagedResource("ns", mr, secrets...)
	o.mrs.Add(obj)
	synctest.Wait()
}

func (o *ordered) unrefers(mr string) {
	o.mrs.Delete(testbed.ManagedResource("ns", mr))
	synctest.Wait()
}

func (o *ordered) event(what watch.EventType, uid string, version int) {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: secret, UID: types.UID(uid), ResourceVersion: strconv.Itoa(version),
	}}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	o.secrets.Action(what, obj)
	synctest.Wait()
}

func (o *ordered) begin() secretindex.Reading {
	return o.Begin(types.NamespacedName{Namespace: "ns", Name: secret})
}

// notified returns the ManagedResources that the handler was called with since the last call.
func (o *ordered) notified() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := o.names
	o.names = nil
	return names
}

func (o *ordered) expectVersion(uid string, version int) {
	v, known := o.Get(types.NamespacedName{Namespace: "ns", Name: secret})
	o.Expect(known).To(BeTrue())
	o.Expect(v).To(Equal(at(uid, version)))
}

func (o *ordered) expectUnknown() {
	_, known := o.Get(types.NamespacedName{Namespace: "ns", Name: secret})
	o.Expect(known).To(BeFalse())
}

func at(uid string, version int) secretindex.Version {
	return secretindex.Version{UID: types.UID(uid), ResourceVersion: strconv.Itoa(version)}
}

// The worker may see a ManagedResource before the index does. Whatever happens to the Secret between the read and the
// reference must not be lost.
func TestSecretThatChangesBeforeTheReferenceIsKnown(t *testing.T) {
	t.Parallel()
	t.Run("read, changed, referenced, recorded", func(t *testing.T) {
		inOrder(t, func(o *ordered) {
			reading := o.begin()
			o.event(watch.Modified, "u", 12) // dropped, since there is no reference to it
			o.refers("mr", secret)
			o.Expect(o.notified()).To(ConsistOf("mr"), "a reference to an unknown Secret has it read (again)")
			reading.Found(at("u", 11))
			o.expectUnknown()
			again := o.begin()
			again.Found(at("u", 12))
			o.expectVersion("u", 12)
		})
	})
	t.Run("read, recorded, changed, referenced", func(t *testing.T) {
		inOrder(t, func(o *ordered) {
			o.begin().Found(at("u", 11))
			o.event(watch.Modified, "u", 12)
			o.refers("mr", secret)
			o.Expect(o.notified()).To(ConsistOf("mr"))
			o.expectUnknown()
		})
	})
	t.Run("referenced, read, changed, recorded", func(t *testing.T) {
		inOrder(t, func(o *ordered) {
			o.refers("mr", secret)
			reading := o.begin()
			o.notified()
			o.event(watch.Modified, "u", 12)
			o.Expect(o.notified()).To(ConsistOf("mr"))
			reading.Found(at("u", 11))
			o.expectVersion("u", 12)
		})
	})
	t.Run("read, reference given up and taken again, recorded", func(t *testing.T) {
		inOrder(t, func(o *ordered) {
			o.refers("mr", secret)
			reading := o.begin()
			o.unrefers("mr")
			o.event(watch.Modified, "u", 12)
			o.refers("mr", secret)
			reading.Found(at("u", 11))
			o.expectUnknown()
		})
	})
	t.Run("a second reference to what is known", func(t *testing.T) {
		inOrder(t, func(o *ordered) {
			o.refers("mr", secret)
			o.begin().Found(at("u", 11))
			o.notified()
			o.refers("other", secret)
			o.Expect(o.notified()).To(BeEmpty())
			o.event(watch.Modified, "u", 12)
			o.Expect(o.notified()).To(ConsistOf("mr", "other"))
		})
	})
}

func TestWatchBehindALiveRead(t *testing.T) {
	t.Parallel()
	t.Run("older versions do not notify", func(t *testing.T) {
		inOrder(t, func(o *ordered) {
			o.refers("mr", secret)
			o.begin().Found(at("u", 13))
			o.notified()
			o.event(watch.Added, "u", 11)
			o.event(watch.Modified, "u", 12)
			o.Expect(o.notified()).To(BeEmpty())
			o.expectVersion("u", 13)
			o.event(watch.Modified, "u", 14)
			o.Expect(o.notified()).To(ConsistOf("mr"))
			o.expectVersion("u", 14)
		})
	})
	t.Run("a read that is newer than what is known", func(t *testing.T) {
		inOrder(t, func(o *ordered) {
			o.refers("mr", secret)
			o.refers("other", secret)
			o.event(watch.Added, "u", 11)
			o.begin().Found(at("u", 13))
			o.expectVersion("u", 13)
			o.notified()
			o.event(watch.Modified, "u", 12)
			o.Expect(o.notified()).To(BeEmpty())
			o.event(watch.Modified, "u", 13)
			o.Expect(o.notified()).To(ConsistOf("mr", "other"), "the other one did not read it")
			o.event(watch.Modified, "u", 13)
			o.Expect(o.notified()).To(BeEmpty())
		})
	})
	t.Run("deleted and created again before the read", func(t *testing.T) {
		inOrder(t, func(o *ordered) {
			o.refers("mr", secret)
			o.event(watch.Added, "u", 11)
			o.begin().Found(at("v", 13))
			o.notified()
			o.event(watch.Deleted, "u", 12)
			o.Expect(o.notified()).To(BeEmpty(), "it exists")
			o.expectVersion("v", 13)
			o.event(watch.Added, "v", 13)
			o.Expect(o.notified()).To(ConsistOf("mr"))
			o.event(watch.Deleted, "v", 14)
			o.Expect(o.notified()).To(ConsistOf("mr"))
			v, known := o.Get(types.NamespacedName{Namespace: "ns", Name: secret})
			o.Expect(known).To(BeTrue())
			o.Expect(v.Exists()).To(BeFalse())
		})
	})
	t.Run("an older read does not undo what the watch said", func(t *testing.T) {
		inOrder(t, func(o *ordered) {
			o.refers("mr", secret)
			reading := o.begin()
			o.event(watch.Deleted, "u", 12)
			reading.Found(at("u", 11))
			v, _ := o.Get(types.NamespacedName{Namespace: "ns", Name: secret})
			o.Expect(v.Exists()).To(BeFalse())
		})
	})
}

func TestSecretDeletedAndCreatedAgain(t *testing.T) {
	t.Parallel()
	inOrder(t, func(o *ordered) {
		o.refers("mr", secret)
		o.event(watch.Added, "u", 11)
		o.notified()
		o.event(watch.Deleted, "u", 12)
		o.Expect(o.notified()).To(ConsistOf("mr"))
		o.event(watch.Added, "v", 13)
		o.Expect(o.notified()).To(ConsistOf("mr"))
		o.expectVersion("v", 13)
	})
}
