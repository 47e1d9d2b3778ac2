package managedresource_test

import (
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// However many targets take calls and never answer, drift in another one is corrected: a run that waits holds nothing
// that others need. There are more of them than seats, and than workers that one namespace had before there were seats.
func TestDriftIsCorrectedWhileManyTargetsHang(t *testing.T) {
	t.Parallel()
	const hanging = 45
	p := registered(t)
	p.content("fine", testbed.ConfigMap(p.ns, "fine", "1"))
	mr := testbed.ManagedResource(p.ns, "fine", "fine")
	mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: "a"}
	p.inSource(mr)
	p.awaitReady("fine")

	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	h := p.hostile("hangs-0", nil)
	for i := 1; i < hanging; i++ {
		p.register(fmt.Sprint("hangs-", i), h.kubeconfig)
	}
	patches := make(chan struct{}, 100*hanging)
	h.become(func(_ http.Handler, _ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		patches <- struct{}{}
		select {
		case <-end:
		case <-r.Context().Done():
		}
		return true
	})
	for i := range hanging {
		p.pickDefault(fmt.Sprint("hangs-", i), fmt.Sprint("hangs-", i), 1)
	}
	p.Eventually(func() int { return len(patches) }).Should(BeNumerically(">=", hanging), "each of them hangs")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "fine"}}
	var before map[string]string
	p.edit(target, cm, func() { before, cm.Data = cm.Data, map[string]string{"other": "x"} })
	p.Eventually(func() map[string]string { return read(p, cm).Data }).Should(Equal(before))
}
