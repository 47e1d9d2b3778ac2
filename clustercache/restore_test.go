package clustercache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/controlplane"
)

// compareVersions orders versions that a real API server made.
func compareVersions(a, b string) int {
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		panic(err)
	}
	return order
}

// Etcd of a real target is restored from a backup, while the hub watches, or cannot reach it until as many changes
// were made since as there had been, or more. By then, its watches could continue where they were, and would miss all
// that came before in the new history.
func TestRealTargetWhoseEtcdIsRestored(t *testing.T) {
	const longer = 2 * patience // a restore, with all that two processors have to do beside
	for name, test := range map[string]struct {
		cut     bool                            // the hub cannot reach the target meanwhile
		reached func(version, seen string) bool // how far the new history is before it can
	}{
		"while the hub watches": {reached: func(string, string) bool { return true }},
		"while the hub is cut off, until the version is equal": {cut: true,
			reached: func(version, seen string) bool { return compareVersions(version, seen) >= 0 }},
		"while the hub is cut off, until the version is higher": {cut: true,
			reached: func(version, seen string) bool { return compareVersions(seen, version) < 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			var cut atomic.Bool
			options := patiently()
			options.Grace.Disconnect = time.Hour
			options.WrapTransport = func(_ ClusterKey, next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if cut.Load() {
						return nil, errors.New("cut off")
					}
					return next.RoundTrip(r)
				})
			}
			h := start(t, options)
			cp := controlplane.StartForTest(t, controlplane.Options{})
			ctx := context.Background()
			admin, namespace := realNamespace(t, cp)
			write := func(name, value string) *corev1.ConfigMap {
				cm := configMap(namespace, name, value)
				err := admin.Create(ctx, cm)
				if client.IgnoreAlreadyExists(err) == nil && err != nil {
					err = admin.Update(ctx, cm)
				}
				h.Expect(err).NotTo(HaveOccurred())
				return cm
			}
			listed := func() map[string]string {
				list := &corev1.ConfigMapList{}
				h.Expect(admin.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
				versions := map[string]string{}
				for _, cm := range list.Items {
					versions[cm.Name] = cm.ResourceVersion
				}
				return versions
			}
			write("changed", "1")
			write("deleted", "1")
			write("left-alone", "1")
			backup := filepath.Join(t.TempDir(), "backup")
			h.Expect(cp.Backup(backup)).To(Succeed())

			write("changed", "2")
			h.Expect(admin.Delete(ctx, configMap(namespace, "deleted"))).To(Succeed())
			for i := range 200 { // more than an API server writes when it starts
				write("others", fmt.Sprint(i))
			}
			write("lost", "1")
			renewed := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem,
				Name: "controller"}, Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NowMicro())}}
			h.Expect(admin.Create(ctx, renewed)).To(Succeed())
			key := h.register("restored", cp.Kubeconfig())
			h.expectState(key, StateConnected)
			r := newRecorder()
			h.watch(key, Watcher{Name: "cm", Kind: configMapKind, Namespace: namespace, MetadataOnly: true, Handler: r})
			h.Eventually(r.versions).Should(Equal(listed()))
			target := h.cache.target(key)
			h.Eventually(func() bool {
				target.suspect()
				version := target.knownHistory().Version()
				return version != "" && compareVersions(version, renewed.ResourceVersion) >= 0
			}).Should(BeTrue())
			seen := target.knownHistory().Version()

			if cut.Store(test.cut); test.cut {
				cp.KillAPIServer()
				h.expectState(key, StateDisconnected)
			}
			h.Expect(cp.Restore(ctx, backup)).To(Succeed())
			h.Expect(write("left-alone", "another").ResourceVersion).To(
				Satisfy(func(v string) bool { return compareVersions(v, seen) < 0 }), "else there is nothing to be seen")
			for i := 0; ; i++ {
				if test.reached(write("others", fmt.Sprint(i)).ResourceVersion, seen) {
					break
				}
			}
			cut.Store(false)
			h.Eventually(h.rewinds(key)).WithTimeout(longer).Should(BeEquivalentTo(1))
			h.expectState(key, StateConnected)
			h.Eventually(r.versions).WithTimeout(longer).Should(Equal(listed()))
			write("later", "1")
			h.Eventually(r.versions).WithTimeout(longer).Should(Equal(listed()))
			h.Expect(r.faultsNow()).To(BeEmpty())
		})
	}
}
