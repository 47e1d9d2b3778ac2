package managedresource_test

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// link is a way to the target that can be cut.
type link struct {
	place
	address string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
	done     sync.WaitGroup
}

// linked returns a place in which the target is registered as "a" by a link.
func linked(t *testing.T) *link {
	t.Helper()
	p := unregistered(t, nil)
	port, err := controlplane.FreePort() // which no other process takes while the link is cut
	p.Expect(err).NotTo(HaveOccurred())
	l := &link{place: p, address: fmt.Sprintf("127.0.0.1:%d", port), open: map[net.Conn]bool{}}
	l.mend()
	t.Cleanup(l.cut)
	l.register("a", testbed.Rewrite(target.Kubeconfig(), func(c *testbed.KubeConfig) {
		for _, cluster := range c.Clusters {
			cluster.Server = "https://" + l.address
		}
	}))
	return l
}

// cut ends all connections and takes no more.
func (l *link) cut() {
	l.mu.Lock()
	if l.listener != nil {
		_ = l.listener.Close()
		l.listener = nil
	}
	for c := range l.open {
		_ = c.Close()
	}
	l.mu.Unlock()
	l.done.Wait()
}

// mend takes connections, again at the same address.
func (l *link) mend() {
	server, err := url.Parse(target.RESTConfig().Host)
	l.Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp", l.address)
	l.Expect(err).NotTo(HaveOccurred())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener = listener
	l.done.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server.Host)
			if err != nil {
				_ = near.Close()
				continue
			}
			l.forward(near, far)
			l.forward(far, near)
		}
	})
}

func (l *link) forward(from, to net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		_, _ = from.Close(), to.Close()
		return
	}
	l.open[from] = true
	l.done.Go(func() {
		_, _ = io.Copy(to, from)
		_, _ = from.Close(), to.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, from)
	})
}

// Whatever keeps the hub from its target: a deletion waits for the target, unless nothing is to be deleted there or a
// user gives up on the target. Nothing is deleted anywhere else meanwhile.
func TestDeletionInEveryStateOfTheTarget(t *testing.T) {
	t.Parallel()
	states := map[string]struct {
		lose, find func(l *link)
		// reached is true if the hub could reach the target if it was allowed to, so that no user can give up on it.
		reached bool
	}{
		"down": {
			lose: func(l *link) {
				l.cut()
				l.awaitTarget("a", hubv1alpha1.ConditionConnected, metav1.ConditionFalse, hubv1alpha1.ReasonUnreachable)
			},
			find: func(l *link) { l.mend() },
		},
		"another cluster": {
			lose: func(l *link) {
				l.register("a", source.Kubeconfig())
				l.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionFalse, hubv1alpha1.ReasonIdentityChanged)
			},
			find: func(l *link) { l.register("a", target.Kubeconfig()) },
		},
		"paused": {
			reached: true,
			lose: func(l *link) {
				tc := l.targetCluster("a")
				l.edit(source, tc, func() { tc.Spec.Paused = true })
				l.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionFalse, hubv1alpha1.ReasonPaused)
			},
			find: func(l *link) {
				tc := l.targetCluster("a")
				l.edit(source, tc, func() { tc.Spec.Paused = false })
			},
		},
	}
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := linked(t)
			for _, name := range []string{"waiting", "forced", "kept", "kept-later", "empty"} {
				if name == "empty" {
					p.content(name)
				} else {
					p.content(name, testbed.ConfigMap(p.ns, name, "1"))
				}
				mr := testbed.ManagedResource(p.ns, name, name)
				mr.Spec.KeepObjects = ptr.To(name == "kept")
				p.inSource(mr)
				p.awaitReady(name)
			}
			// If anything was deleted in the wrong cluster, it would be this.
			decoy := p.configMap("waiting")
			decoy.Annotations = map[string]string{resourcesv1alpha1.OriginAnnotation: p.ns + "/waiting"}
			p.inSource(decoy)

			state.lose(p)
			for _, name := range []string{"waiting", "forced", "kept", "kept-later", "empty"} {
				p.deleteMR(name)
			}
			p.awaitGone("kept")
			p.awaitGone("empty")
			if state.reached {
				p.await("waiting", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "Waiting to delete 1 objects", p.ns+"/a is paused"),
					has(healthy, no, resourcesv1alpha1.ReasonDeletionPending))
			} else {
				p.await("waiting", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "Waiting for the target cluster", resourcesv1alpha1.ForceDeletionAnnotation))
				p.annotateMR("forced", resourcesv1alpha1.ForceDeletionAnnotation, "true")
				p.awaitGone("forced")
				p.Eventually(p.events).Should(ContainElement(SatisfyAll(HavePrefix("Warning ObjectsReleased: "), ContainSubstring("forced"))))
			}
			p.editMR("kept-later", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = ptr.To(true) })
			p.awaitGone("kept-later")
			p.Expect(p.get("waiting").Status.Resources).To(HaveLen(1))
			p.Expect(read(p.place, p.configMap("waiting")).DeletionTimestamp).To(BeNil())

			state.find(p)
			p.awaitGone("waiting")
			p.expectAbsent(p.configMap("waiting"))
			for _, name := range []string{"kept", "kept-later"} {
				p.Expect(read(p.place, p.configMap(name)).DeletionTimestamp).To(BeNil())
			}
			if state.reached {
				p.awaitGone("forced")
				p.expectAbsent(p.configMap("forced"))
			} else {
				p.Expect(read(p.place, p.configMap("forced")).DeletionTimestamp).To(BeNil(), "a user gave up on the target")
			}
			p.Expect(source.Client.Get(p.ctx, client.ObjectKeyFromObject(decoy), decoy)).To(Succeed())
			p.Expect(decoy.DeletionTimestamp).To(BeNil())
		})
	}
}

// Which target gets new objects may be open; where the old ones are is not.
func TestDeletionWhileTheTargetIsAmbiguous(t *testing.T) {
	t.Parallel()
	p := registered(t)
	for name, keep := range map[string]bool{"deleted": false, "kept": true} {
		p.content(name, testbed.ConfigMap(p.ns, name, "1"))
		mr := testbed.ManagedResource(p.ns, name, name)
		mr.Spec.KeepObjects = ptr.To(keep)
		p.inSource(mr)
		p.awaitReady(name)
	}
	p.register("b", source.Kubeconfig())
	p.await("deleted", has(applied, no, resourcesv1alpha1.ReasonTargetAmbiguous))
	decoy := p.configMap("deleted")
	decoy.Annotations = map[string]string{resourcesv1alpha1.OriginAnnotation: p.ns + "/deleted"}
	p.inSource(decoy)
	p.deleteMR("deleted")
	p.deleteMR("kept")
	p.awaitGone("deleted")
	p.awaitGone("kept")
	p.expectAbsent(p.configMap("deleted"))
	p.awaitValue("kept", "1")
	p.Expect(source.Client.Get(p.ctx, client.ObjectKeyFromObject(decoy), decoy)).To(Succeed())
}

// A namespace of the source that goes away takes everything in it at once: the content, the ManagedResources, and the
// way to the target.
func TestDeletionWhileTheNamespaceGoesAway(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), p.blocked("stuck"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.Expect(source.Client.Delete(p.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.ns}})).To(Succeed())
	// This is what the controller of namespaces does, which does not run here.
	p.Expect(source.Client.DeleteAllOf(p.ctx, &resourcesv1alpha1.ManagedResource{}, client.InNamespace(p.ns))).To(Succeed())
	p.Expect(source.Client.DeleteAllOf(p.ctx, &corev1.Secret{}, client.InNamespace(p.ns))).To(Succeed())
	p.Expect(source.Client.DeleteAllOf(p.ctx, &hubv1alpha1.TargetCluster{}, client.InNamespace(p.ns))).To(Succeed())

	p.awaitAbsent(p.configMap("one"))
	p.await("mr", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "stuck"))
	p.unblock(p.configMap("stuck"))
	p.awaitGone("mr")
	p.expectAbsent(p.configMap("stuck"))
	p.awaitTargetClusterGone("a")
}
