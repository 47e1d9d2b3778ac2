package managedresource_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// A backup has the objects as they were, with the hub as the owner of the same fields: only their values are old.
func TestTargetWhoseEtcdIsRestoredGetsItsObjectsBack(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"while the hub runs": false, "while the hub is down": true} {
		t.Run(name, func(t *testing.T) {
			g, ctx := NewWithT(t), context.Background()
			start := func(name string) *testbed.Cluster {
				c, err := testbed.StartCluster(t.Context(), controlplane.Options{Name: name, Audit: name == "target"})
				g.Expect(err).NotTo(HaveOccurred())
				t.Cleanup(c.Stop)
				return c
			}
			source, target := start("source"), start("target")
			g.Expect(testbed.InstallSource(ctx, source.Client)).To(Succeed())
			ns := testbed.Namespace(t, nil, source, target)
			run := func() (stop func()) {
				h, err := testbed.StartHub(ctx, source, testbed.HubOptions{Config: func(c *configv1alpha1.HubConfiguration) {
					c.ClusterCache.ProbeInterval.Duration = 300 * time.Millisecond // each 12th looks at the past
				}})
				g.Expect(err).NotTo(HaveOccurred())
				return func() { h.Stop(); g.Expect(h.Err()).NotTo(HaveOccurred()) }
			}
			content := func(name, value string) {
				secret := testbed.Content(ns, name, manifests, testbed.ConfigMap(ns, name, value))
				if err := source.Client.Create(ctx, secret); err != nil {
					g.Expect(source.Client.Update(ctx, secret)).To(Succeed())
				}
			}
			value := func(name string) func() string {
				return func() string {
					cm := &corev1.ConfigMap{}
					_ = target.Client.Get(ctx, types.NamespacedName{Namespace: ns, Name: name}, cm) // it may not be there
					return cm.Data["key"]
				}
			}
			mr := func(name string) func() *resourcesv1alpha1.ManagedResource {
				return func() *resourcesv1alpha1.ManagedResource {
					mr := &resourcesv1alpha1.ManagedResource{}
					g.Expect(source.Client.Get(ctx, types.NamespacedName{Namespace: ns, Name: name}, mr)).To(Succeed())
					return mr
				}
			}
			g.Expect(source.Client.Create(ctx, testbed.Registration(ns, "a", target.Kubeconfig()))).To(Succeed())
			content("changed", "1")
			g.Expect(source.Client.Create(ctx, testbed.ManagedResource(ns, "changed", "changed"))).To(Succeed())
			stop := run()
			defer func() { stop() }()
			note := func(name string) func() string {
				return func() string { return mr(name)().Annotations[hubv1alpha1.AppliedAnnotation] }
			}
			g.Eventually(note("changed")).ShouldNot(BeEmpty())
			first := note("changed")()
			backup := filepath.Join(t.TempDir(), "backup")
			g.Expect(target.Backup(backup)).To(Succeed())

			content("changed", "2")
			content("new", "2")
			g.Expect(source.Client.Create(ctx, testbed.ManagedResource(ns, "new", "new"))).To(Succeed())
			noise := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "noise"}}
			g.Expect(target.Client.Create(ctx, noise)).To(Succeed())
			for i := range 200 { // more than an API server writes when it starts
				noise.Data = map[string]string{"i": fmt.Sprint(i)}
				g.Expect(target.Client.Update(ctx, noise)).To(Succeed())
			}
			for _, name := range []string{"changed", "new"} {
				g.Eventually(value(name)).Should(Equal("2"))
				g.Eventually(mr(name)).Should(SatisfyAll(has(ready, yes, "Ready"), observed()))
				g.Eventually(note(name)).Should(And(Not(BeEmpty()), Not(Equal(first))))
			}
			looks := func(since time.Time) func() int {
				return func() (n int) {
					entries, err := target.AuditEntries()
					g.Expect(err).NotTo(HaveOccurred())
					for _, e := range entries {
						if e.Time.After(since) && e.Verb == "list" && e.Resource == "leases" && strings.Contains(e.RequestURI, "?limit=") && e.Code == http.StatusOK {
							n++
						}
					}
					return n
				}
			}
			if down {
				stop()
				g.Expect(target.Restore(ctx, backup)).To(Succeed())
				g.Expect(value("changed")()).To(Equal("1"))
				g.Expect(value("new")()).To(BeEmpty())
				stop = run()
			} else {
				// The hub has to know of what the backup lacks. What the first look found is noted before the second
				// begins.
				g.Eventually(looks(time.Now())).Should(BeNumerically(">=", 2))
				g.Expect(target.Restore(ctx, backup)).To(Succeed())
			}
			for _, name := range []string{"changed", "new"} {
				g.Eventually(value(name)).Should(Equal("2"), name)
				g.Eventually(mr(name)).Should(has(ready, yes, "Ready"))
			}
			if down {
				return // to a hub that starts it is as it is
			}
			g.Eventually(func() (reasons []string) {
				list := &eventsv1.EventList{}
				g.Expect(source.Client.List(ctx, list, client.InNamespace(ns))).To(Succeed())
				for i := range list.Items {
					if list.Items[i].Regarding.Kind == "TargetCluster" {
						reasons = append(reasons, list.Items[i].Reason)
					}
				}
				return reasons
			}).Should(ContainElement("WentBackInTime"))
		})
	}
}
