package fake

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/trellis-hub/trellis/clustercache"
)

var (
	ctx = context.Background()
	key = clustercache.ClusterKey{Namespace: "garden", Name: "a"}
)

func next(g Gomega, s clustercache.EventSource) clustercache.Event {
	short, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	event, err := s.Next(short)
	g.Expect(err).NotTo(HaveOccurred())
	return event
}

func TestTargetsAndTheirStates(t *testing.T) {
	g := NewWithT(t)
	cl := fakeclient.NewClientBuilder().Build()
	c := New(map[clustercache.ClusterKey]client.Client{key: cl})
	events := c.GetClusterSource("test")
	defer events.Close()
	g.Expect(next(g, events).Types).To(Equal([]clustercache.EventType{clustercache.EventRegistered, clustercache.EventConnected}))
	got, err := c.GetClient(ctx, key)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(BeIdenticalTo(cl))
	g.Expect(c.GetRESTMapper(ctx, key)).To(BeIdenticalTo(cl.RESTMapper()))

	c.SetState(key, clustercache.StateDisconnected, clustercache.ReasonProbeFailed, "gone")
	g.Expect(next(g, events).Has(clustercache.EventDisconnected)).To(BeTrue())
	_, err = c.GetUncachedClient(ctx, key)
	g.Expect(err).To(MatchError(clustercache.ErrClusterNotConnected))
	c.SetState(key, clustercache.StateConnected, clustercache.ReasonConnected, "")
	g.Expect(next(g, events).Has(clustercache.EventConnected)).To(BeTrue())
	c.SetState(key, clustercache.StateDraining, clustercache.ReasonRegistrationGone, "")
	g.Expect(next(g, events).Has(clustercache.EventDraining)).To(BeTrue())
	c.Emit(key, clustercache.EventRotated)
	g.Expect(next(g, events).Has(clustercache.EventRotated)).To(BeTrue())
	g.Expect(c.List("")).To(HaveLen(1))
	g.Expect(c.List("other")).To(BeEmpty())
	c.Remove(key)
	g.Expect(next(g, events).Has(clustercache.EventGone)).To(BeTrue())
	_, err = c.GetReader(ctx, key)
	g.Expect(err).To(MatchError(clustercache.ErrClusterUnknown))
}

type handler struct{ calls []string }

func (h *handler) OnUpdate(_ clustercache.ClusterKey, _ string, key types.NamespacedName, _, _ any) {
	h.calls = append(h.calls, "update "+key.Name)
}
func (h *handler) OnDelete(_ clustercache.ClusterKey, _ string, key types.NamespacedName, _ any) {
	h.calls = append(h.calls, "delete "+key.Name)
}
func (h *handler) OnSynced(clustercache.ClusterKey, string) { h.calls = append(h.calls, "synced") }
func (h *handler) OnError(_ clustercache.ClusterKey, _ string, _ error) {
	h.calls = append(h.calls, "error")
}

func TestWatchesAreFedByTheTest(t *testing.T) {
	g := NewWithT(t)
	c := New(nil)
	watcher := clustercache.Watcher{Name: "cm", Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
	_, err := c.Watch(ctx, key, watcher)
	g.Expect(err).To(MatchError(clustercache.ErrClusterUnknown))
	c.Add(key, Target{Client: fakeclient.NewClientBuilder().Build()})
	h := &handler{}
	watcher.Handler = h
	watcher.Transform = func(obj client.Object) any { return obj.GetName() }
	s, err := c.Watch(ctx, key, watcher)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Watches(key)).To(HaveKey("cm"))

	c.Put(key, "cm", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one"}})
	c.Sync(key, "cm", true)
	one := types.NamespacedName{Namespace: "ns", Name: "one"}
	value, found, synced := s.Lookup(one)
	g.Expect([]any{value, found, synced}).To(Equal([]any{"one", true, true}))
	n := 0
	g.Expect(s.Range(func(types.NamespacedName, any) bool { n++; return true })).To(BeTrue())
	g.Expect(n).To(Equal(1))
	c.Delete(key, "cm", one)
	c.Fail(key, "cm", errors.New("broken"))
	g.Expect(h.calls).To(Equal([]string{"update one", "synced", "delete one", "error"}))
	_, found, synced = s.Lookup(one)
	g.Expect(found || synced).To(BeFalse())
	late := &handler{}
	watcher.Handler = late
	other, err := c.Watch(ctx, key, watcher)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(late.calls).To(Equal([]string{"error"}), "it gets the current state")
	s.Close()
	g.Expect(s.Live()).To(BeFalse())
	g.Expect(other.Live()).To(BeTrue())
	other.Close()
	g.Expect(c.Watches(key)).To(BeEmpty())
	g.Expect(func() { c.Sync(key, "cm", true) }).To(PanicWith(ContainSubstring(`no watch "cm"`)))
}
