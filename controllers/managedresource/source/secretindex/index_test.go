package secretindex_test

import (
	"context"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/managedresource/source/secretindex"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestIndex(t *testing.T) {
	g := NewWithT(t)
	cp := controlplane.StartForTest(t, controlplane.Options{Name: "secrets"})
	source, err := client.New(cp.RESTConfig(), client.Options{Scheme: testbed.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(testbed.InstallSource(t.Context(), source)).To(Succeed())
	ns := "default"
	// One Secret is there before the start, and many that no ManagedResource refers to.
	g.Expect(source.Create(t.Context(), testbed.Content(ns, "early", "k", "x"))).To(Succeed())
	g.Expect(source.Create(t.Context(), testbed.Content(ns, "foreign", "k", "x"))).To(Succeed())
	g.Expect(source.Create(t.Context(), testbed.ManagedResource(ns, "mr", "early", "late"))).To(Succeed())

	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(context.Background())
	var stopped sync.WaitGroup
	cache, err := ctrlcache.New(cp.RESTConfig(), ctrlcache.Options{Scheme: testbed.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	secrets, err := metadata.NewForConfig(cp.RESTConfig())
	g.Expect(err).NotTo(HaveOccurred())
	index := secretindex.New(secrets, cache)
	notified := make(chan types.NamespacedName, 100)
	index.SetHandler(func(mr types.NamespacedName) { notified <- mr })
	stopped.Go(func() { _ = cache.Start(ctx) })
	stopped.Go(func() { _ = index.Start(ctx) })
	defer func() {
		cancel()
		stopped.Wait()
		g.Expect(controlplane.AwaitGoroutines(before, goleak.IgnoreAnyFunction("net/http.(*http2ClientConn).readLoop"), goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"))).To(Succeed())
	}()
	g.Expect(index.WaitForSync(ctx)).To(BeTrue())

	name := func(s string) types.NamespacedName { return types.NamespacedName{Namespace: ns, Name: s} }
	version := func(s string) func() secretindex.Version {
		return func() secretindex.Version {
			v, _ := index.Get(name(s))
			return v
		}
	}
	within := 30 * time.Second

	early, known := index.Get(name("early"))
	g.Expect(known && early.Exists()).To(BeTrue(), "referenced Secrets are known after the start")
	late, known := index.Get(name("late"))
	g.Expect(known).To(BeTrue())
	g.Expect(late.Exists()).To(BeFalse(), "and so is that one does not exist")
	_, known = index.Get(name("foreign"))
	g.Expect(known).To(BeFalse(), "others are none of our business")

	drain(notified)
	g.Expect(source.Create(t.Context(), testbed.Content(ns, "late", "k", "x"))).To(Succeed())
	g.Eventually(notified, within).Should(Receive(Equal(name("mr"))))
	g.Expect(version("late")().Exists()).To(BeTrue())

	secret := &corev1.Secret{}
	g.Expect(source.Get(t.Context(), name("early"), secret)).To(Succeed())
	secret.Data["k"] = []byte("y")
	g.Expect(source.Update(t.Context(), secret)).To(Succeed())
	g.Eventually(notified, within).Should(Receive(Equal(name("mr"))))
	g.Expect(version("early")().ResourceVersion).To(Equal(secret.ResourceVersion))

	g.Expect(source.Delete(t.Context(), secret)).To(Succeed())
	g.Eventually(notified, within).Should(Receive(Equal(name("mr"))))
	g.Expect(version("early")().Exists()).To(BeFalse())

	// When a reference goes, the version of its Secret is dropped; the Secret of a new one is unknown until it is read.
	mr := testbed.ManagedResource(ns, "mr")
	g.Expect(source.Get(t.Context(), name("mr"), mr)).To(Succeed())
	mr.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: "foreign"}}
	g.Expect(source.Update(t.Context(), mr)).To(Succeed())
	g.Eventually(func() bool { _, known := index.Get(name("late")); return known }, within).Should(BeFalse())
	index.Begin(name("foreign")).Found(secretindex.Version{UID: "u", ResourceVersion: "1"})
	g.Expect(version("foreign")()).To(Equal(secretindex.Version{UID: "u", ResourceVersion: "1"}))
	index.Begin(name("late")).Found(secretindex.Version{UID: "u", ResourceVersion: "1"})
	_, known = index.Get(name("late"))
	g.Expect(known).To(BeFalse(), "nothing is kept of Secrets without a reference")
}

func drain(c chan types.NamespacedName) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}
