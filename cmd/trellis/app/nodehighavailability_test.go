package app_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// A workload of the target is patched as soon as the target's settings say so.
func TestWorkloadsAreSpreadAnew(t *testing.T) {
	e := newEnv(t)
	var patches atomic.Int64
	e.startHubWith(testbed.HubOptions{WrapTarget: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/namespaces/"+e.name+"/deployments/d") {
				patches.Add(1)
			}
			return next.RoundTrip(r)
		})
	}})
	e.eventuallyReady()

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.name}}
	consider := []byte(`{"metadata":{"labels":{"high-availability-config.resources.gardener.cloud/consider":"true"}}}`)
	e.Expect(target.Client.Patch(e.ctx, namespace, client.RawPatch(types.MergePatchType, consider))).To(Succeed())
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: "d"},
		Spec: appsv1.DeploymentSpec{
			Selector: selector,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "c", Image: "i"}},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
						LabelSelector: selector,
					}},
				},
			},
		},
	}
	e.Expect(target.Client.Create(e.ctx, deployment)).To(Succeed())
	e.Expect(patches.Load()).To(BeZero(), "it is off by default")
	e.Expect(e.setControllers(`{"nodeHighAvailability":{"enabled":true}}`)).To(Succeed())
	e.Eventually(patches.Load).Should(BeNumerically(">=", 1), "the target has no Node")
}
